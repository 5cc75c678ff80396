/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as JSON: the reader of one pass and jansson's tree agree what is JSON, but where each
 * has a limit of its own; and walking through a value ends where passing over it does.
 */
#include "fuzz.h"

#include "format/json_read.h"

/* Both have a function of that name; jansson's is not called here. */
#define json_string jansson_string
#include <jansson.h>
#undef json_string

/* Numbers that jansson cannot hold, more containers than we open; and a NUL, which jansson takes
 * for the end, or has not in a text. */
static bool has_own_limit(const uint8_t *text, size_t n) {
    static const char nul[] = "\\u0000";
    size_t digits = 0, containers = 0;
    for (size_t i = 0; i < n; i++) {
        digits = text[i] >= '0' && text[i] <= '9' ? digits + 1 : 0;
        containers += text[i] == '[' || text[i] == '{';
        if (digits > 18 || text[i] == 'e' || text[i] == 'E' || text[i] == '\0') {
            return true;
        }
    }
    return containers > PAWL_MAX_JSON_DEPTH || memmem(text, n, nul, strlen(nul)) != NULL;
}

static pawl_status walk(json_reader *r, pawl_error *err);

static pawl_status walk_object(json_reader *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {.data = NULL};
    bool more = true;
    TRY(json_enter(r, '{', err));
    for (;;) {
        TRY(json_member(r, &key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        FUZZ_CHECK(utf8_valid((const char *)key.data, key.size));
        TRY(walk(r, err));
    }
}

static pawl_status walk_array(json_reader *r, pawl_error *err) {
    bool more = true;
    TRY(json_enter(r, '[', err));
    for (;;) {
        TRY(json_element(r, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        TRY(walk(r, err));
    }
}

/* A number: whichever reader takes it has the same. */
static pawl_status walk_number(json_reader *r, pawl_error *err) {
    json_reader unsigned_too = *r, signed_too = *r;
    pawl_error ignored = ERROR_INIT;
    uint64_t u;
    int64_t i;
    bool has_u = json_u64(&unsigned_too, &u, &ignored) == PAWL_OK;
    bool has_i = json_i64(&signed_too, &i, &ignored) == PAWL_OK;
    FUZZ_CHECK(!has_u || !has_i || (i >= 0 && (uint64_t)i == u));
    FUZZ_CHECK(!has_i || has_u || i <= 0);
    return json_skip(r, NULL, NULL, err);
}

static pawl_status walk(json_reader *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {.data = NULL};
    bool truth;
    switch (json_peek(r)) {
    case '{':
        return walk_object(r, err);
    case '[':
        return walk_array(r, err);
    case '"':
        TRY(json_string(r, &text, err));
        FUZZ_CHECK(utf8_valid((const char *)text.data, text.size));
        FUZZ_CHECK(r->nul || memchr(text.data, '\0', text.size) == NULL);
        return PAWL_OK;
    case 't':
    case 'f':
        return json_bool(r, &truth, err);
    default:
        return walk_number(r, err);
    }
}

/* `nul`: texts may have U+0000. */
static pawl_status walk_all(const buffer *text, bool nul, pawl_error *err) {
    json_reader r = json_reader_of(text->data, text->size, 0, "value");
    r.max_depth = PAWL_MAX_JSON_DEPTH;
    r.nul = nul;
    TRY(walk(&r, err));
    return json_end(&r, err);
}

/* A text, written again, reads back as the same. */
static void check_text(const json_t *tree) {
    CLEANUP(buffer_free) buffer out = {.data = NULL}, back = {.data = NULL};
    pawl_error err = ERROR_INIT;
    const char *text = json_string_value(tree);
    if (text == NULL) {
        return;
    }
    FUZZ_CHECK(buffer_json_string(&out, text, strlen(text), &err) == PAWL_OK);
    json_reader r = json_reader_of(out.data, out.size, 0, "text");
    FUZZ_CHECK(json_string(&r, &back, &err) == PAWL_OK && json_end(&r, &err) == PAWL_OK);
    FUZZ_CHECK(back.size == strlen(text) && memcmp(back.data, text, back.size) == 0);
}

/* A number, written again, reads back as the same. */
static void check_number(const json_t *tree) {
    char text[DOUBLE_CHARS];
    if (json_is_real(tree)) {
        double v = json_real_value(tree);
        text_double(text, v);
        FUZZ_CHECK(strlen(text) < sizeof text);
        json_t *back = json_loads(text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
        FUZZ_CHECK(back != NULL && json_real_value(back) == v);
        json_decref(back);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer text = fuzz_copy(data, size);
    pawl_error err = ERROR_INIT;
    pawl_status checked = json_check(text.data, text.size, "value", &err);
    json_t *tree = json_loadb((const char *)text.data, text.size, JSON_DECODE_ANY, NULL);
    if (checked != PAWL_OK) {
        fuzz_check_refusal(&err, checked);
    }
    FUZZ_CHECK((tree != NULL) == (checked == PAWL_OK) || has_own_limit(text.data, text.size));
    FUZZ_CHECK((walk_all(&text, true, &err) == PAWL_OK) == (checked == PAWL_OK));
    if (checked != PAWL_OK) {
        FUZZ_CHECK(walk_all(&text, false, &err) != PAWL_OK);
    }
    if (tree != NULL) {
        check_text(tree);
        check_number(tree);
    }
    fuzz_accepted += checked == PAWL_OK;
    json_decref(tree);
    return 0;
}
