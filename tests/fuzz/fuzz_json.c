/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as JSON: the reader of one pass and jansson's tree agree what is JSON, but where each
 * has a limit of its own; and walking through a value ends where passing over it does.
 */
#include "fuzz.h"

#include "base/json.h"

#include <math.h>
#include <stdlib.h>

/* Both have a function of that name; jansson's is not called here. */
#define json_string jansson_string
#include <jansson.h>
#undef json_string

/* Numbers that jansson cannot hold, more containers than we open; and a NUL, which jansson takes
 * for the end, or refuses in a text. */
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
    TRY(json_enter(r, '{'));
    for (;;) {
        TRY(json_key(r, &key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        FUZZ_CHECK(utf8_valid((const char *)key.data, key.size));
        TRY(walk(r, err));
    }
}

static pawl_status walk_array(json_reader *r, pawl_error *err) {
    bool more = true;
    TRY(json_enter(r, '['));
    for (;;) {
        TRY(json_element(r, &more));
        if (!more) {
            return PAWL_OK;
        }
        TRY(walk(r, err));
    }
}

/* Does it round to a double, as strtod finds it? */
static void check_rounding(const char *text, size_t n) {
    CLEANUP(buffer_free) buffer copy = {.data = NULL};
    fuzz_append(&copy, text, n);
    fuzz_append(&copy, "", 1);
    bool is_number = text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
    double value = 0;
    double wanted = strtod((const char *)copy.data, NULL);
    bool rounds = is_number && json_number((json_span){(const char *)copy.data, n}, &value);
    FUZZ_CHECK(!is_number || rounds == (bool)isfinite(wanted));
    FUZZ_CHECK(!rounds || value == wanted);
}

/* A number: whichever reader takes it has the same. */
static pawl_status walk_number(json_reader *r) {
    json_span text = {NULL, 0};
    json_reader unsigned_too = *r, signed_too = *r;
    unsigned_too.refused = signed_too.refused = NULL;
    uint64_t u;
    int64_t i;
    bool has_u = json_u64(&unsigned_too, &u) == PAWL_OK;
    bool has_i = json_i64(&signed_too, &i) == PAWL_OK;
    FUZZ_CHECK(!has_u || !has_i || (i >= 0 && (uint64_t)i == u));
    FUZZ_CHECK(!has_i || has_u || i <= 0);
    TRY(json_skip(r, &text));
    check_rounding(text.text, text.n);
    return PAWL_OK;
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
        TRY(json_text(r, &text, err));
        FUZZ_CHECK(utf8_valid((const char *)text.data, text.size));
        FUZZ_CHECK(r->nul || memchr(text.data, '\0', text.size) == NULL);
        return PAWL_OK;
    case 't':
    case 'f':
        return json_bool(r, &truth);
    default:
        return walk_number(r);
    }
}

/* `nul`: texts may have U+0000. */
static pawl_status walk_all(const buffer *text, bool nul, pawl_error *err) {
    json_reader r = json_reader_for(text->data, text->size, 0, "value", err);
    r.max_depth = PAWL_MAX_JSON_DEPTH;
    r.nul = nul;
    TRY(walk(&r, err));
    return json_end(&r);
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
    json_reader r = json_reader_for(out.data, out.size, 0, "text", &err);
    FUZZ_CHECK(json_text(&r, &back, &err) == PAWL_OK && json_end(&r) == PAWL_OK);
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

/* ---- two texts ------------------------------------------------------------------------------ */

static bool same(const buffer *a, const buffer *b) {
    return json_same(a->data, a->size, b->data, b->size);
}

/* The tree, written anew by jansson, where both have the same idea of a number. */
static void check_written(const buffer *text) {
    bool has_reals = memchr(text->data, '.', text->size) != NULL;
    json_t *tree = has_reals || has_own_limit(text->data, text->size)
                       ? NULL
                       : json_loadb((const char *)text->data, text->size,
                                    JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    char *written = json_dumps(tree, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_SORT_KEYS);
    if (written != NULL) {
        FUZZ_CHECK(json_same(text->data, text->size, written, strlen(written)));
    }
    free(written);
    json_decref(tree);
}

/* The first two of a list that is JSON: they are the same where jansson finds them equal, as far
 * as it can. */
static void check_pair(const buffer *text) {
    pawl_error err = ERROR_INIT;
    json_reader r = json_reader_for(text->data, text->size, 0, "pair", &err);
    buffer both[2] = {{.data = NULL}, {.data = NULL}};
    bool more = false;
    if (json_peek(&r) != '[') {
        return;
    }
    FUZZ_CHECK(json_enter(&r, '[') == PAWL_OK);
    for (int i = 0; i < 2; i++) {
        json_span item = {NULL, 0};
        FUZZ_CHECK(json_element(&r, &more) == PAWL_OK);
        if (!more) {
            return;
        }
        FUZZ_CHECK(json_skip(&r, &item) == PAWL_OK);
        both[i] = (buffer){.data = (uint8_t *)(uintptr_t)item.text, .size = item.n};
        check_written(&both[i]);
    }
    bool alike = same(&both[0], &both[1]);
    FUZZ_CHECK(alike == same(&both[1], &both[0]));
    if (memchr(text->data, '.', text->size) == NULL && !has_own_limit(text->data, text->size)) {
        json_t *tree =
            json_loadb((const char *)text->data, text->size, JSON_REJECT_DUPLICATES, NULL);
        FUZZ_CHECK(tree == NULL ||
                   alike == json_equal(json_array_get(tree, 0), json_array_get(tree, 1)));
        json_decref(tree);
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
    if (checked == PAWL_OK) {
        fuzz_accepted++;
        FUZZ_CHECK(same(&text, &text));
        check_pair(&text);
    }
    json_decref(tree);
    return 0;
}
