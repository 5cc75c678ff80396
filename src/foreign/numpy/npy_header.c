/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a .npy: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } */
#include "foreign/numpy/npy_header.h"

#include <stdio.h>
#include <string.h>

#define MAGIC       "\x93NUMPY"
#define MAGIC_BYTES 6u
#define MAX_DEPTH   32 /* brackets of a dtype with fields */

bool npy_looks_like(const uint8_t *head, size_t n) {
    return n >= MAGIC_BYTES && memcmp(head, MAGIC, MAGIC_BYTES) == 0;
}

static pawl_status refuse_start(pawl_error *err, pawl_status status, const char *what, uint64_t at,
                                uint64_t n) {
    error_set(err, status, "%s", what);
    error_range(err, at, n);
    return status;
}

pawl_status npy_header_bytes(const uint8_t *start, size_t n, uint64_t size, size_t *out,
                             pawl_error *err) {
    if (!npy_looks_like(start, n)) {
        (void)refuse_start(err, PAWL_EDAMAGED, "the file is no .npy", 0, n);
        error_expected(err, "93 4e 55 4d 50 59 (\\x93NUMPY)");
        return PAWL_EDAMAGED;
    }
    if (n < 10 || (start[6] != 1 && n < NPY_START_BYTES)) {
        return refuse_start(err, PAWL_EDAMAGED, "the .npy ends within its header", 0, n);
    }
    if (start[6] < 1 || start[6] > 3 || start[7] != 0) {
        (void)refuse_start(err, PAWL_EUNSUPPORTED, "the .npy has a version that is not read", 6, 2);
        error_expected(err, "1.0, 2.0 or 3.0");
        error_found(err, "%u.%u", start[6], start[7]);
        return PAWL_EUNSUPPORTED;
    }
    uint64_t text = (uint64_t)start[8] | (uint64_t)start[9] << 8;
    uint64_t before = 10;
    if (start[6] != 1) {
        text |= (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24;
        before = NPY_START_BYTES;
    }
    if (text > FOREIGN_MAX_NPY_HEADER) {
        (void)refuse_start(err, PAWL_ELIMIT, "the header of the .npy is too large", 8, before - 8);
        error_expected(err, "at most %u bytes", FOREIGN_MAX_NPY_HEADER);
        error_found(err, "%llu", (unsigned long long)text);
        return PAWL_ELIMIT;
    }
    if (before + text > size) {
        (void)refuse_start(err, PAWL_EDAMAGED, "the .npy ends within its header", 0, size);
        error_expected(err, "%llu bytes", (unsigned long long)(before + text));
        error_found(err, "%llu", (unsigned long long)size);
        return PAWL_EDAMAGED;
    }
    *out = (size_t)(before + text);
    return PAWL_OK;
}

/* ---- Python's notation ---------------------------------------------------------------------- */

typedef struct literal {
    const char *text; /* the whole header: places are those of the file */
    size_t n, at;
} literal;

typedef struct span {
    const char *text;
    size_t n;
} span;

static pawl_status refuse(const literal *l, pawl_status status, const char *what,
                          const char *expected, pawl_error *err) {
    error_set(err, status, "the header of the .npy %s, at byte %zu", what, l->at);
    error_range(err, l->at, l->at < l->n ? 1 : 0);
    error_expected(err, "%s", expected);
    if (l->at < l->n) {
        error_found(err, "%.*s", (int)(l->n - l->at < 40 ? l->n - l->at : 40), l->text + l->at);
    } else {
        error_found(err, "its end");
    }
    return status;
}

static pawl_status is_wrong(const literal *l, const char *expected, pawl_error *err) {
    return refuse(l, PAWL_EDAMAGED, "is wrong", expected, err);
}

/* The next character that is no white space; 0 at the end. */
static char peek(literal *l) {
    while (l->at < l->n && l->text[l->at] != '\0' && strchr(" \t\r\n\f", l->text[l->at]) != NULL) {
        l->at++;
    }
    if (l->at < l->n) {
        return l->text[l->at];
    }
    return '\0';
}

static bool take(literal *l, char c) {
    if (c == '\0' || peek(l) != c) {
        return false;
    }
    l->at++;
    return true;
}

static bool take_word(literal *l, const char *word) {
    size_t n = strlen(word);
    (void)peek(l);
    if (l->n - l->at < n || memcmp(l->text + l->at, word, n) != 0) {
        return false;
    }
    l->at += n;
    return true;
}

/* What stands between the quotes, escapes and all. */
static pawl_status take_string(literal *l, span *out, pawl_error *err) {
    char quote = peek(l);
    if (quote != '\'' && quote != '"') {
        return is_wrong(l, "a string", err);
    }
    size_t begin = l->at + 1;
    for (size_t at = begin; at < l->n && l->text[at] != '\n'; at++) {
        if (l->text[at] == quote) {
            *out = (span){.text = l->text + begin, .n = at - begin};
            l->at = at + 1;
            return PAWL_OK;
        }
        at += l->text[at] == '\\';
    }
    return is_wrong(l, "a string that ends", err);
}

static bool is(span s, const char *text) {
    return s.n == strlen(text) && memcmp(s.text, text, s.n) == 0;
}

/* As Python 2 wrote it, too: 3L. */
static pawl_status take_extent(literal *l, int64_t *out, pawl_error *err) {
    int64_t v = 0;
    if (peek(l) < '0' || peek(l) > '9') {
        return is_wrong(l, "an integer that is not negative", err);
    }
    for (; l->at < l->n && l->text[l->at] >= '0' && l->text[l->at] <= '9'; l->at++) {
        int digit = l->text[l->at] - '0';
        if (v > (INT64_MAX - digit) / 10) {
            return is_wrong(l, "an integer below 2^63", err);
        }
        v = v * 10 + digit;
    }
    l->at += l->at < l->n && l->text[l->at] == 'L';
    *out = v;
    return PAWL_OK;
}

static pawl_status take_shape(literal *l, npy_header *h, pawl_error *err) {
    if (!take(l, '(')) {
        return is_wrong(l, "a tuple", err);
    }
    h->ndim = 0;
    bool comma = true;
    while (!take(l, ')')) {
        if (!comma) {
            return is_wrong(l, "a comma", err);
        }
        if (h->ndim == PAWL_MAX_NDIM) {
            return refuse(l, PAWL_EUNSUPPORTED, "has too many dimensions", "at most 32", err);
        }
        TRY(take_extent(l, &h->shape[h->ndim++], err));
        comma = take(l, ',');
    }
    return h->ndim == 1 && !comma ? is_wrong(l, "a tuple, with a comma", err) : PAWL_OK;
}

/* A dtype with fields: nothing of it is used. */
static pawl_status skip_brackets(literal *l, pawl_error *err) {
    char open[MAX_DEPTH] = {0};
    int depth = 0;
    span ignored;
    do {
        char c = peek(l);
        if (c == '(' || c == '[') {
            if (depth == MAX_DEPTH) {
                return refuse(l, PAWL_ELIMIT, "is nested too deep", "at most 32 brackets", err);
            }
            open[depth++] = c;
            l->at++;
        } else if (c == ')' || c == ']') {
            if (depth == 0 || open[--depth] != (c == ')' ? '(' : '[')) {
                return is_wrong(l, "the other bracket", err);
            }
            l->at++;
        } else if (c == '\'' || c == '"') {
            TRY(take_string(l, &ignored, err));
        } else if (c == '\0') {
            return is_wrong(l, "a bracket that closes", err);
        } else {
            l->at++;
        }
    } while (depth > 0);
    return PAWL_OK;
}

/* ---- types ---------------------------------------------------------------------------------- */

static const struct {
    const char *descr; /* without its byte order */
    pawl_dtype dtype;
    const char *type;
    uint32_t bytes, swapped; /* of each number in it */
} types[] = {
    {"b1", PAWL_BOOL, NULL, 1, 1},    {"i1", PAWL_I8, NULL, 1, 1},
    {"u1", PAWL_U8, NULL, 1, 1},      {"i2", PAWL_I16, NULL, 2, 2},
    {"u2", PAWL_U16, NULL, 2, 2},     {"i4", PAWL_I32, NULL, 4, 4},
    {"u4", PAWL_U32, NULL, 4, 4},     {"i8", PAWL_I64, NULL, 8, 8},
    {"u8", PAWL_U64, NULL, 8, 8},     {"f2", PAWL_F16, NULL, 2, 2},
    {"f4", PAWL_F32, NULL, 4, 4},     {"f8", PAWL_F64, NULL, 8, 8},
    {"c8", PAWL_C64, NULL, 8, 4},     {"c16", PAWL_F64, "C128", 16, 8},
    {"f12", 0, "F96", 12, 12},        {"f16", 0, "F128", 16, 16},
    {"c24", 0, "C192", 24, 12},       {"c32", 0, "C256", 32, 16},
    {"f1", PAWL_F8_E5M2, NULL, 1, 1}, /* of ml_dtypes, whose others are V1 */
    {"O", 0, "OBJECT", 0, 1},
};

/* "V2", "W4", "S10", "U5", "M8[ns]": how many bytes? False: it is none of them. */
static bool is_other_type(span s, uint32_t *bytes) {
    uint64_t n = 0;
    size_t at = 1;
    if (s.n < 2 || s.n >= FORMAT_MAX_TYPE_NAME || strchr("VWSaUMm", s.text[0]) == NULL ||
        s.text[0] == '\0') {
        return false;
    }
    for (; at < s.n && s.text[at] >= '0' && s.text[at] <= '9' && n < UINT32_MAX; at++) {
        n = n * 10 + (uint64_t)(s.text[at] - '0');
    }
    n = s.text[0] == 'U' ? n * 4 : n;
    bool unit = s.text[0] == 'M' || s.text[0] == 'm';
    for (size_t i = at; i < s.n; i++) {
        if (!unit || (unsigned char)s.text[i] <= ' ' || (unsigned char)s.text[i] >= 0x7f) {
            return false;
        }
    }
    *bytes = (uint32_t)n;
    return at > 1 && n <= UINT32_MAX;
}

/* Of a dtype the elements are put in order. */
static void name_type(npy_header *h, char order, span name) {
    const char *shown = order == '>' && h->dtype == 0 ? ">" : "";
    snprintf(h->type, sizeof(h->type), "%s%.*s", shown, (int)name.n, name.text);
}

static pawl_status take_descr(literal *l, npy_header *h, pawl_error *err) {
    span s = {0};
    uint32_t bytes = 0;
    char first = peek(l);
    if (first == '[' || first == '(') {
        snprintf(h->type, sizeof(h->type), "STRUCT");
        return skip_brackets(l, err);
    }
    const literal before = *l;
    TRY(take_string(l, &s, err));
    char order = '\0';
    if (s.n > 0) {
        order = s.text[0];
    }
    if (order != '\0' && strchr("<>|=", order) != NULL) {
        s = (span){.text = s.text + 1, .n = s.n - 1};
    }
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        if (is(s, types[i].descr)) {
            h->dtype = types[i].dtype;
            if (types[i].type != NULL) {
                name_type(h, order, (span){.text = types[i].type, .n = strlen(types[i].type)});
            }
            h->element_bytes = types[i].bytes;
            h->swap_bytes = order == '>' ? types[i].swapped : 1;
            return PAWL_OK;
        }
    }
    if (!is_other_type(s, &bytes)) {
        return refuse(&before, PAWL_EUNSUPPORTED, "has a type that is not known",
                      "a type that numpy.save writes, as '<f4'", err);
    }
    name_type(h, order, s);
    h->element_bytes = bytes;
    return PAWL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

typedef enum key { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, KEY_ALL = 7 } key;

static pawl_status take_member(literal *l, npy_header *h, unsigned *seen, pawl_error *err) {
    span name;
    const literal before = *l;
    TRY(take_string(l, &name, err));
    unsigned which = is(name, "descr")           ? KEY_DESCR
                     : is(name, "fortran_order") ? KEY_ORDER
                     : is(name, "shape")         ? KEY_SHAPE
                                                 : 0;
    if (which == 0 || (*seen & which) != 0) {
        return is_wrong(&before, "descr, fortran_order and shape, once each", err);
    }
    *seen |= which;
    if (!take(l, ':')) {
        return is_wrong(l, "a colon", err);
    }
    if (which == KEY_DESCR) {
        return take_descr(l, h, err);
    }
    if (which == KEY_SHAPE) {
        return take_shape(l, h, err);
    }
    h->column_major = take_word(l, "True");
    return h->column_major || take_word(l, "False") ? PAWL_OK : is_wrong(l, "True or False", err);
}

static pawl_status take_dictionary(literal *l, npy_header *h, pawl_error *err) {
    unsigned seen = 0;
    bool comma = true;
    if (!take(l, '{')) {
        return is_wrong(l, "a dictionary", err);
    }
    while (!take(l, '}')) {
        if (!comma) {
            return is_wrong(l, "a comma", err);
        }
        TRY(take_member(l, h, &seen, err));
        comma = take(l, ',');
    }
    if (seen != KEY_ALL) {
        return is_wrong(l, "descr, fortran_order and shape before", err);
    }
    return peek(l) != '\0' || l->at < l->n ? is_wrong(l, "nothing behind it", err) : PAWL_OK;
}

static pawl_status count_elements(const literal *l, npy_header *h, pawl_error *err) {
    uint64_t bytes;
    h->elements = 1;
    for (int i = 0; i < h->ndim; i++) {
        if (h->shape[i] == 0) {
            h->elements = 0;
            return PAWL_OK;
        }
    }
    for (int i = 0; i < h->ndim; i++) {
        if (multiply_overflows(h->elements, (uint64_t)h->shape[i], &h->elements) ||
            multiply_overflows(h->elements, h->element_bytes, &bytes)) {
            return refuse(l, PAWL_EDAMAGED, "has a shape that overflows", "fewer elements", err);
        }
    }
    return PAWL_OK;
}

pawl_status npy_header_decode(const uint8_t *header, size_t n, npy_header *out, pawl_error *err) {
    size_t begin = header[6] == 1 ? 10 : NPY_START_BYTES;
    literal l = {.text = (const char *)header, .n = n, .at = begin};
    *out = (npy_header){.swap_bytes = 1, .bytes = n};
    TRY(take_dictionary(&l, out, err));
    l.at = begin;
    return count_elements(&l, out, err);
}
