/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as objects of Python. */
#include "foreign/torch/value.h"
#include "foreign/base64.h"
#include "foreign/pickle/write.h"
#include "foreign/torch/keys.h"
#include "foreign/torch/types.h"

#include <math.h>
#include <string.h>

typedef struct putting {
    buffer *out;
    bool inexact; /* something is a dict that only describes */
} putting;

/* What a tag may have. */
typedef struct tag {
    json_span name, items, pairs, text, data, parts, dtype, named;
    json_field fields[8];
} tag;

static pawl_status put_any(putting *p, json_span span, pawl_error *err);

static json_reader reader_of(json_span span, pawl_error *err) {
    json_reader r = json_reader_for(span.text, span.n, 0, "value", err);
    r.nul = true;
    return r;
}

/* ---- containers ------------------------------------------------------------------------------ */

static pawl_status put_elements(putting *p, json_span list, pawl_error *err) {
    json_reader r = reader_of(list, err);
    TRY(pickle_put(p->out, PICKLE_MARK, err));
    TRY(json_enter(&r, '['));
    for (;;) {
        json_span one;
        bool more = false;
        TRY(json_element(&r, &more));
        if (!more) {
            return PAWL_OK;
        }
        TRY(json_skip(&r, &one));
        TRY(put_any(p, one, err));
    }
}

static pawl_status put_list(putting *p, json_span list, pawl_error *err) {
    TRY(pickle_put(p->out, PICKLE_EMPTY_LIST, err));
    TRY(put_elements(p, list, err));
    return pickle_put(p->out, PICKLE_APPENDS, err);
}

static pawl_status put_tuple(putting *p, json_span list, pawl_error *err) {
    TRY(put_elements(p, list, err));
    return pickle_put(p->out, PICKLE_TUPLE, err);
}

/* Members become keys and values, those of one name as they come. */
static pawl_status put_dict(putting *p, json_span dict, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    json_reader r = reader_of(dict, err);
    TRY(pickle_put(p->out, PICKLE_EMPTY_DICT, err));
    TRY(pickle_put(p->out, PICKLE_MARK, err));
    TRY(json_enter(&r, '{'));
    for (;;) {
        json_span one;
        bool more = false;
        TRY(json_key(&r, &key, &more, err));
        if (!more) {
            return pickle_put(p->out, PICKLE_SETITEMS, err);
        }
        TRY(pickle_text(p->out, (const char *)key.data, key.size, err));
        TRY(json_skip(&r, &one));
        TRY(put_any(p, one, err));
    }
}

/* Lists of a key and a value, into the dict that is on the stack. */
static pawl_status put_pairs(putting *p, json_span pairs, pawl_error *err) {
    json_reader r = reader_of(pairs, err);
    TRY(pickle_put(p->out, PICKLE_MARK, err));
    TRY(json_enter(&r, '['));
    for (;;) {
        json_span key, value;
        bool more = false;
        TRY(json_element(&r, &more));
        if (!more) {
            return pickle_put(p->out, PICKLE_SETITEMS, err);
        }
        TRY(json_enter(&r, '['));
        TRY(json_element(&r, &more));
        TRY(json_skip(&r, &key));
        TRY(json_element(&r, &more));
        TRY(json_skip(&r, &value));
        TRY(json_element(&r, &more)); /* and no more */
        TRY(put_any(p, key, err));
        TRY(put_any(p, value, err));
    }
}

static bool is_list(json_span span) {
    json_reader r = json_reader_of(span.text, span.n);
    return json_peek(&r) == '[';
}

/* ---- tags ------------------------------------------------------------------------------------ */

static void tag_of(json_span span, tag *t) {
    *t = (tag){.name = {NULL, 0}};
    t->fields[0] = (json_field){.key = "$", .to = &t->name, .type = FIELD_STRING};
    t->fields[1] = (json_field){.key = "items", .to = &t->items, .type = FIELD_ANY};
    t->fields[2] = (json_field){.key = "pairs", .to = &t->pairs, .type = FIELD_ANY};
    t->fields[3] = (json_field){.key = "text", .to = &t->text, .type = FIELD_STRING};
    t->fields[4] = (json_field){.key = "data", .to = &t->data, .type = FIELD_STRING};
    t->fields[5] = (json_field){.key = "parts", .to = &t->parts, .type = FIELD_ANY};
    t->fields[6] = (json_field){.key = "dtype", .to = &t->dtype, .type = FIELD_STRING};
    t->fields[7] = (json_field){.key = "name", .to = &t->named, .type = FIELD_STRING};
    if (!json_fields(span.text, span.n, t->fields, ARRAY_LENGTH(t->fields))) {
        t->name = (json_span){NULL, 0};
    }
}

/* As functions want them that are called with numbers: nothing else may be pickled for those. */
static bool is_number(json_span one, bool integer) {
    tag t;
    if (integer) {
        return torch_is_integer(one.text, one.n);
    }
    if (one.n > 0 && one.text[0] == '{') {
        tag_of(one, &t);
        return json_is(t.name, "float");
    }
    return one.n > 0 && (one.text[0] == '-' || (one.text[0] >= '0' && one.text[0] <= '9'));
}

/* As many as `n`; -1: as many as there are. */
static bool are_numbers(json_span list, bool integers, int n) {
    json_reader r = json_reader_of(list.text, list.n);
    json_span one;
    int count = 0;
    bool more = is_list(list) && json_enter(&r, '[') == PAWL_OK;
    if (!more) {
        return false;
    }
    while (json_element(&r, &more) == PAWL_OK && more) {
        if (json_skip(&r, &one) != PAWL_OK || !is_number(one, integers)) {
            return false;
        }
        count++;
    }
    return !more && (n < 0 || count == n);
}

static bool can_be_key(json_span one);

static bool can_all_be_keys(json_span list) {
    json_reader r = json_reader_of(list.text, list.n);
    json_span one;
    bool more = json_enter(&r, '[') == PAWL_OK;
    r.nul = true;
    while (more && json_element(&r, &more) == PAWL_OK && more) {
        if (json_skip(&r, &one) != PAWL_OK || !can_be_key(one)) {
            return false;
        }
    }
    return !more;
}

/* Of a dict, or of a set: Python has no list there, nor a dict. Nested as deep as JSON may be. */
static bool can_be_key(json_span one) {
    static const char *const plain[] = {"float", "bytes", "complex", "device",
                                        "dtype", "numpy", "size"};
    tag t;
    if (one.n == 0 || (one.text[0] != '{' && one.text[0] != '[')) {
        return true;
    }
    tag_of(one, &t);
    if (one.text[0] == '[' || (json_is(t.name, "tuple") && is_list(t.items))) {
        return one.text[0] == '{' && can_all_be_keys(t.items);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(plain); i++) {
        if (json_is(t.name, plain[i])) {
            return torch_json_is_exact(one.text, one.n);
        }
    }
    return false;
}

/* Lists of a key and a value. */
static bool are_pairs(json_span pairs) {
    json_reader r = json_reader_of(pairs.text, pairs.n);
    bool more = json_enter(&r, '[') == PAWL_OK;
    r.nul = true;
    while (more && json_element(&r, &more) == PAWL_OK && more) {
        json_span both[2];
        bool pair = json_enter(&r, '[') == PAWL_OK;
        for (int i = 0; pair && i < 2; i++) {
            pair = json_element(&r, &more) == PAWL_OK && more && json_skip(&r, &both[i]) == PAWL_OK;
        }
        if (!pair || !can_be_key(both[0]) || json_element(&r, &more) != PAWL_OK || more) {
            return false;
        }
        more = true;
    }
    return json_end(&r) == PAWL_OK;
}

static pawl_status call(putting *p, const char *module, const char *name, pawl_error *err) {
    TRY(pickle_global(p->out, module, name, err));
    return pickle_put(p->out, PICKLE_MARK, err);
}

static pawl_status end_call(putting *p, pawl_error *err) {
    TRY(pickle_put(p->out, PICKLE_TUPLE, err));
    return pickle_put(p->out, PICKLE_REDUCE, err);
}

/* A call with one list, or tuple. */
static pawl_status call_items(putting *p, const char *module, const char *name, json_span items,
                              bool tuple, pawl_error *err) {
    TRY(call(p, module, name, err));
    TRY(tuple ? put_tuple(p, items, err) : put_list(p, items, err));
    return end_call(p, err);
}

static pawl_status put_ordered(putting *p, json_span pairs, pawl_error *err) {
    TRY(call(p, "collections", "OrderedDict", err));
    TRY(end_call(p, err));
    return put_pairs(p, pairs, err);
}

static pawl_status put_counter(putting *p, json_span pairs, pawl_error *err) {
    TRY(call(p, "collections", "Counter", err));
    TRY(pickle_put(p->out, PICKLE_EMPTY_DICT, err));
    TRY(put_pairs(p, pairs, err));
    return end_call(p, err);
}

static pawl_status put_bytes(putting *p, json_span data, bool array, bool *done, pawl_error *err) {
    AUTOFREE uint8_t *bytes = mem_alloc(data.n + 1);
    size_t n;
    if (bytes == NULL) {
        return error_nomem(err, data.n + 1);
    }
    *done = base64_take(data, bytes, &n);
    if (!*done) {
        return PAWL_OK;
    }
    if (!array) {
        return pickle_bytes(p->out, bytes, n, err);
    }
    TRY(call(p, "__builtin__", "bytearray", err));
    TRY(pickle_bytes(p->out, bytes, n, err));
    return end_call(p, err);
}

static bool take_float(json_span text, double *out) {
    *out = json_is(text, "inf")    ? (double)INFINITY
           : json_is(text, "-inf") ? (double)-INFINITY
                                   : (double)NAN;
    return isinf(*out) || json_is(text, "nan");
}

/* "cuda:1" */
static pawl_status put_device(putting *p, json_span text, bool *done, pawl_error *err) {
    char device[64];
    size_t n = json_decode(text, device, sizeof(device) - 1);
    device[n < sizeof(device) ? n : 0] = '\0';
    char *colon = strchr(device, ':');
    *done = n < sizeof(device) && n > 0 && strlen(device) == n &&
            (colon == NULL || torch_is_integer(colon + 1, strlen(colon + 1)));
    if (!*done) {
        return PAWL_OK;
    }
    TRY(call(p, "torch", "device", err));
    TRY(pickle_text(p->out, device, colon != NULL ? (size_t)(colon - device) : n, err));
    if (colon != NULL) {
        TRY(pickle_json_scalar(p->out, (json_span){colon + 1, strlen(colon + 1)}, err));
    }
    return end_call(p, err);
}

static pawl_status put_dtype(putting *p, json_span named, bool *done, pawl_error *err) {
    char name[64];
    size_t n = json_decode(named, name, sizeof(name) - 1);
    name[n < sizeof(name) ? n : 0] = '\0';
    *done = torch_type_named(name) != NULL;
    return *done ? pickle_global(p->out, "torch", name, err) : PAWL_OK;
}

/* A number of NumPy: an integer, a truth or a float that is the same as a number. */
static pawl_status put_numpy(putting *p, const tag *t, bool *done, pawl_error *err) {
    uint8_t bytes[32] = {0};
    size_t n = 0;
    double number = 0;
    float single = 0;
    int64_t integer = 0;
    *done = t->dtype.n == 3 && t->data.n <= sizeof(bytes) && base64_take(t->data, bytes, &n) &&
            n == (size_t)(t->dtype.text[2] - '0') && n <= 8;
    if (!*done) {
        return PAWL_OK;
    }
    memcpy(&integer, bytes, sizeof(integer));
    memcpy(&number, bytes, sizeof(number));
    memcpy(&single, bytes, sizeof(single));
    switch (t->dtype.text[1]) {
    case 'b':
        return pickle_bool(p->out, bytes[0] != 0, err);
    case 'i':
    case 'u':
        if (t->dtype.text[1] == 'i' && n < 8 && (bytes[n - 1] & 0x80u) != 0) {
            integer -= (int64_t)1 << (8 * n);
        }
        *done = t->dtype.text[1] == 'i' || integer >= 0;
        return *done ? pickle_int(p->out, integer, err) : PAWL_OK;
    case 'f':
        *done = n >= 4;
        return *done ? pickle_float(p->out, n == 8 ? number : (double)single, err) : PAWL_OK;
    default:
        *done = false;
        return PAWL_OK;
    }
}

static pawl_status put_complex(putting *p, json_span parts, pawl_error *err) {
    TRY(pickle_global(p->out, "__builtin__", "complex", err));
    TRY(put_tuple(p, parts, err));
    return pickle_put(p->out, PICKLE_REDUCE, err);
}

/* Tags of other than a list or pairs. */
static pawl_status put_simple(putting *p, const tag *t, bool *done, pawl_error *err) {
    double number;
    if (json_is(t->name, "float") && take_float(t->text, &number)) {
        return pickle_float(p->out, number, err);
    }
    if (json_is(t->name, "bytes") || json_is(t->name, "bytearray")) {
        return put_bytes(p, t->data, t->name.n > 5, done, err);
    }
    if (json_is(t->name, "complex") && are_numbers(t->parts, false, 2)) {
        return put_complex(p, t->parts, err);
    }
    if (json_is(t->name, "device")) {
        return put_device(p, t->text, done, err);
    }
    if (json_is(t->name, "dtype")) {
        return put_dtype(p, t->named, done, err);
    }
    if (json_is(t->name, "numpy")) {
        return put_numpy(p, t, done, err);
    }
    *done = false;
    return PAWL_OK;
}

static pawl_status put_tagged(putting *p, const tag *t, bool *done, pawl_error *err) {
    *done = true;
    if (is_list(t->items)) {
        if (json_is(t->name, "tuple")) {
            return put_tuple(p, t->items, err);
        }
        if (json_is(t->name, "set") && can_all_be_keys(t->items)) {
            return call_items(p, "__builtin__", "set", t->items, false, err);
        }
        if (json_is(t->name, "size") && are_numbers(t->items, true, -1)) {
            return call_items(p, "torch", "Size", t->items, true, err);
        }
    }
    if (t->pairs.n > 0 && are_pairs(t->pairs)) {
        if (json_is(t->name, "dict")) {
            TRY(pickle_put(p->out, PICKLE_EMPTY_DICT, err));
            return put_pairs(p, t->pairs, err);
        }
        if (json_is(t->name, "OrderedDict")) {
            return put_ordered(p, t->pairs, err);
        }
        if (json_is(t->name, "Counter")) {
            return put_counter(p, t->pairs, err);
        }
    }
    return put_simple(p, t, done, err);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static pawl_status put_any(putting *p, json_span span, pawl_error *err) {
    json_reader r = reader_of(span, err);
    uint8_t first = json_peek(&r);
    bool done = false;
    tag t;
    if (first == '[') {
        return put_list(p, span, err);
    }
    if (first != '{') {
        return pickle_json_scalar(p->out, span, err);
    }
    tag_of(span, &t);
    if (t.name.n > 0) {
        TRY(put_tagged(p, &t, &done, err));
        p->inexact = p->inexact || !done;
    }
    return done ? PAWL_OK : put_dict(p, span, err);
}

static json_span trimmed(const char *text, size_t n) {
    json_reader r = json_reader_of(text, n);
    json_span all = {text, n};
    r.nul = true;
    (void)!json_skip(&r, &all);
    return all;
}

pawl_status torch_put_python(buffer *pickle, const char *text, size_t n, pawl_error *err) {
    putting p = {.out = pickle};
    return put_any(&p, trimmed(text, n), err);
}

bool torch_json_is_exact(const char *text, size_t n) {
    CLEANUP(buffer_free) buffer pickle = {0};
    putting p = {.out = &pickle};
    struct pawl_error ignored = ERROR_INIT;
    return put_any(&p, trimmed(text, n), &ignored) == PAWL_OK && !p.inexact;
}
