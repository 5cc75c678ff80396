/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do two JSON texts say the same? Both become trees: texts decoded, numbers as their digits and
 * their power of ten, members in the order of their keys. No number is converted to binary.
 */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define MAX_EXPONENT_DIGITS 17 /* so that sums of them fit 64 bits */

/* There may be half as many as the text has bytes. */
typedef struct node {
    const uint8_t *text; /* of a text, or the digits of a number, "" for zero */
    const uint8_t *key;  /* of a member */
    struct node *items;
    int64_t power; /* of ten, by which the digits are multiplied */
    uint32_t n, key_n, count;
    uint32_t number; /* which of the members it was */
    uint8_t kind;    /* '{', '[', '"', '0' for a number, or the first letter of a word */
    bool negative;
} node;

typedef struct reading {
    json_reader json;
    arena memory;
    buffer text;
} reading;

/* ---- numbers -------------------------------------------------------------------------------- */

static bool is_digit_byte(uint8_t byte) {
    return byte >= '0' && byte <= '9';
}

/* The number after 'e' at text[at]. False: too large for 64 bits; such numbers are compared as
 * text. */
static bool read_exponent(const uint8_t *text, size_t n, size_t at, int64_t *out) {
    bool negative = at < n && text[at] == '-';
    at += at < n && !is_digit_byte(text[at]);
    while (at < n && text[at] == '0') {
        at++;
    }
    if (n - at > MAX_EXPONENT_DIGITS) {
        return false;
    }
    for (*out = 0; at < n; at++) {
        *out = *out * 10 + (text[at] - '0');
    }
    *out = negative ? -*out : *out;
    return true;
}

/* Digits without leading and trailing zeros, and the power of ten; a number whose exponent is too
 * large keeps its text. */
static pawl_status read_digits(reading *r, const uint8_t *text, size_t n, node *out,
                               pawl_error *err) {
    int64_t power = 0;
    size_t count = 0;
    bool fraction = false;
    size_t i = text[0] == '-';
    uint8_t *digits = arena_take(&r->memory, n, err);
    if (digits == NULL) {
        return PAWL_ENOMEM;
    }
    out->kind = '0';
    out->negative = i > 0;
    out->text = digits;
    for (; i < n && (is_digit_byte(text[i]) || text[i] == '.'); i++) {
        if (text[i] == '.') {
            fraction = true;
        } else {
            power -= fraction;
            if (count > 0 || text[i] != '0') {
                digits[count++] = text[i];
            }
        }
    }
    if (count == 0) {
        out->negative = false;
        return PAWL_OK;
    }
    if (i < n && !read_exponent(text, n, i + 1, &out->power)) {
        out->text = text;
        out->n = (uint32_t)n;
        return PAWL_OK;
    }
    for (; digits[count - 1] == '0'; count--) {
        power++;
    }
    out->n = (uint32_t)count;
    out->power += power;
    return PAWL_OK;
}

/* ---- trees ---------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
    const node *left = a;
    const node *right = b;
    size_t n = left->key_n < right->key_n ? left->key_n : right->key_n;
    int order = n > 0 ? memcmp(left->key, right->key, n) : 0;
    if (order == 0) {
        order = (left->key_n > right->key_n) - (left->key_n < right->key_n);
    }
    return order != 0 ? order : (left->number > right->number) - (left->number < right->number);
}

/* What was decoded last, in the reading's memory. */
static pawl_status keep_decoded(reading *r, const uint8_t **text, uint32_t *n, pawl_error *err) {
    uint8_t *copy = arena_take(&r->memory, r->text.size + 1, err);
    if (copy == NULL) {
        return PAWL_ENOMEM;
    }
    if (r->text.size > 0) {
        memcpy(copy, r->text.data, r->text.size);
    }
    *text = copy;
    *n = (uint32_t)r->text.size;
    return PAWL_OK;
}

static pawl_status read_any(reading *r, node *out, pawl_error *err);

/* `items` grows on the way; what is kept of it lies in the reading's memory. */
static pawl_status read_all_items(reading *r, node *out, node **grown, pawl_error *err) {
    size_t capacity = 0;
    TRY(json_enter(&r->json, (char)out->kind));
    for (;;) {
        bool more = false;
        node item = {.number = out->count};
        if (out->kind == '[') {
            TRY(json_element(&r->json, &more));
        } else {
            TRY(json_key(&r->json, &r->text, &more, err));
        }
        if (!more) {
            return PAWL_OK;
        }
        if (out->kind == '{') {
            TRY(keep_decoded(r, &item.key, &item.key_n, err));
        }
        TRY(read_any(r, &item, err));
        TRY(vec_reserve(grown, &capacity, out->count + 1, sizeof **grown, err));
        (*grown)[out->count++] = item;
    }
}

static pawl_status container(reading *r, node *out, pawl_error *err) {
    AUTOFREE node *grown = NULL;
    TRY(read_all_items(r, out, &grown, err));
    if (out->count == 0) {
        return PAWL_OK;
    }
    out->items = arena_take(&r->memory, out->count * sizeof *grown, err);
    if (out->items == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(out->items, grown, out->count * sizeof *grown);
    if (out->kind == '{') {
        qsort(out->items, out->count, sizeof *grown, by_key);
    }
    return PAWL_OK;
}

/* As deep as the reader allows. */
static pawl_status read_any(reading *r, node *out, pawl_error *err) {
    json_span text = {NULL, 0};
    out->kind = json_peek(&r->json);
    if (out->kind == '{' || out->kind == '[') {
        return container(r, out, err);
    }
    if (out->kind == '"') {
        TRY(json_text(&r->json, &r->text, err));
        return keep_decoded(r, &out->text, &out->n, err);
    }
    TRY(json_skip(&r->json, &text));
    return out->kind == '-' || is_digit_byte(out->kind)
               ? read_digits(r, (const uint8_t *)text.text, text.n, out, err)
               : PAWL_OK;
}

static pawl_status read_tree(reading *r, const void *text, size_t n, node *out, pawl_error *err) {
    r->json = json_reader_for(text, n, 0, "value", err);
    r->json.nul = true;
    TRY(read_any(r, out, err));
    return json_end(&r->json);
}

static void reading_free(reading *r) {
    arena_free(&r->memory);
    buffer_free(&r->text);
}

/* ---- comparing ------------------------------------------------------------------------------ */

static bool equal_bytes(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes) {
    return a_bytes == b_bytes && (a_bytes == 0 || memcmp(a, b, a_bytes) == 0);
}

static bool same_nodes(const node *a, const node *b) {
    if (a->kind != b->kind || a->negative != b->negative || a->power != b->power ||
        a->count != b->count || !equal_bytes(a->text, a->n, b->text, b->n) ||
        !equal_bytes(a->key, a->key_n, b->key, b->key_n)) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (!same_nodes(&a->items[i], &b->items[i])) {
            return false;
        }
    }
    return true;
}

bool json_same(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    CLEANUP(reading_free) reading left = {.text = {.data = NULL}};
    CLEANUP(reading_free) reading right = {.text = {.data = NULL}};
    struct pawl_error ignored = ERROR_INIT;
    node x = {.kind = 0};
    node y = {.kind = 0};
    return a_bytes <= (size_t)PAWL_MAX_VALUE_BYTES && b_bytes <= (size_t)PAWL_MAX_VALUE_BYTES &&
           read_tree(&left, a, a_bytes, &x, &ignored) == PAWL_OK &&
           read_tree(&right, b, b_bytes, &y, &ignored) == PAWL_OK && same_nodes(&x, &y);
}
