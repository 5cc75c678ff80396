/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of a pickle of torch.save, as lists and dicts, and as JSON. */
#include "foreign/torch/object.h"

#include <string.h>

#define DIGITS_MOST 256u /* bytes of an integer that is shown as one */

/* ---- what is in a node ---------------------------------------------------------------------- */

const pickle_items *torch_pairs_of(const pickle_node *node) {
    if (node->kind == PICKLE_DICT) {
        return &node->items;
    }
    if (node->kind != PICKLE_CALL ||
        strcmp(node->call->callee->global.module, "collections") != 0 ||
        strcmp(node->call->callee->global.name, "deque") == 0) {
        return NULL;
    }
    const pickle_items *arguments = &node->call->arguments->items;
    bool given = node->call->with->items.count == 0 && arguments->count > 0;
    const pickle_node *last = given ? arguments->nodes[arguments->count - 1] : NULL;
    return last != NULL && last->kind == PICKLE_DICT ? &last->items : &node->call->with->items;
}

const pickle_items *torch_items_of(const pickle_node *node) {
    if (node->kind == PICKLE_LIST || node->kind == PICKLE_TUPLE || node->kind == PICKLE_SET) {
        return &node->items;
    }
    bool sized = pickle_is_call(node, "torch", "Size") || pickle_is_call(node, "builtins", "set") ||
                 pickle_is_call(node, "__builtin__", "set") ||
                 pickle_is_call(node, "builtins", "frozenset");
    bool queue = pickle_is_call(node, "collections", "deque");
    if (!sized && !queue) {
        return NULL;
    }
    const pickle_items *arguments = &node->call->arguments->items;
    const pickle_items *own = &node->call->with->items;
    bool takes = sized ? arguments->count == 1 : own->count == 0 && arguments->count > 0;
    const pickle_node *given = takes ? arguments->nodes[0] : NULL;
    bool plain = given != NULL && (given->kind == PICKLE_LIST || given->kind == PICKLE_TUPLE);
    return plain ? &given->items : sized ? NULL : own;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

typedef struct writing {
    buffer *json;
    uint64_t visits;
    bool full; /* something is too large: nothing more is written, and the whole is left out */
} writing;

static pawl_status put_json(writing *w, const pickle_node *node, int depth, pawl_error *err);

static bool is_full(writing *w, int depth) {
    w->full = w->full || w->json->size > ARCHIVE_VALUE_BYTES || depth >= PAWL_MAX_JSON_DEPTH / 2 ||
              w->visits > ARCHIVE_VALUE_BYTES;
    return w->full;
}

static pawl_status put_text(writing *w, const char *text, size_t n, pawl_error *err) {
    w->full = w->full || n > ARCHIVE_VALUE_BYTES;
    return buffer_json_shown(w->json, text, w->full ? 0 : n, err);
}

static pawl_status put_word(buffer *json, const char *key, const pickle_node *global,
                            pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    TRY(buffer_printf(&text, err, "%.1000s.%.1000s", global->global.module, global->global.name));
    TRY(buffer_printf(json, err, "{\"%s\":", key));
    return buffer_json_shown(json, (const char *)text.data, text.size, err);
}

static pawl_status put_list(writing *w, const pickle_items *items, int depth, pawl_error *err) {
    TRY(buffer_append(w->json, "[", 1, err));
    for (size_t i = 0; i < items->count && !is_full(w, depth); i++) {
        TRY(buffer_append(w->json, ",", i > 0 ? 1 : 0, err));
        TRY(put_json(w, items->nodes[i], depth + 1, err));
    }
    return buffer_append(w->json, "]", 1, err);
}

/* A key of JSON is a text: of anything else it is its JSON. */
static pawl_status put_key(writing *w, const pickle_node *key, int depth, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    if (key->kind == PICKLE_TEXT) {
        return put_text(w, key->text.bytes, key->text.n, err);
    }
    writing inner = {.json = &text, .visits = w->visits};
    TRY(put_json(&inner, key, depth + 1, err));
    w->visits = inner.visits;
    w->full = w->full || inner.full;
    return put_text(w, (const char *)text.data, text.size, err);
}

static pawl_status put_dict(writing *w, const pickle_items *pairs, int depth, pawl_error *err) {
    TRY(buffer_append(w->json, "{", 1, err));
    for (size_t i = 0; i + 1 < pairs->count && !is_full(w, depth); i += 2) {
        TRY(buffer_append(w->json, ",", i > 0 ? 1 : 0, err));
        TRY(put_key(w, pairs->nodes[i], depth, err));
        TRY(buffer_append(w->json, ":", 1, err));
        TRY(put_json(w, pairs->nodes[i + 1], depth + 1, err));
    }
    return buffer_append(w->json, "}", 1, err);
}

static pawl_status put_part(writing *w, const char *key, const pickle_items *items, bool pairs,
                            int depth, pawl_error *err) {
    if (items->count == 0) {
        return PAWL_OK;
    }
    TRY(buffer_printf(w->json, err, ",\"%s\":", key));
    return pairs ? put_dict(w, items, depth + 1, err) : put_list(w, items, depth + 1, err);
}

static pawl_status put_object(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    const pickle_call *call = node->call;
    TRY(put_word(w->json, "class", call->callee, err));
    TRY(put_part(w, "arguments", &call->arguments->items, false, depth, err));
    TRY(put_part(w, "items", &call->with->items, call->with->pairs, depth, err));
    if (call->with->state != NULL) {
        TRY(buffer_append(w->json, ",\"state\":", 9, err));
        TRY(put_json(w, call->with->state, depth + 1, err));
    }
    return buffer_append(w->json, "}", 1, err);
}

static pawl_status put_global(writing *w, const pickle_node *node, pawl_error *err) {
    TRY(put_word(w->json, "global", node, err));
    return buffer_append(w->json, "}", 1, err);
}

static pawl_status put_call(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    const pickle_items *items = torch_items_of(node);
    const pickle_items *pairs = torch_pairs_of(node);
    if (items != NULL) {
        return put_list(w, items, depth, err);
    }
    return pairs != NULL ? put_dict(w, pairs, depth, err) : put_object(w, node, depth, err);
}

/* In hexadecimal. */
static pawl_status put_bytes(writing *w, pickle_text text, pawl_error *err) {
    static const char digits[] = "0123456789abcdef";
    TRY(buffer_append(w->json, "{\"bytes\":\"", 10, err));
    for (size_t i = 0; i < text.n && w->json->size <= ARCHIVE_VALUE_BYTES; i++) {
        uint8_t byte = (uint8_t)text.bytes[i];
        const char two[2] = {digits[byte >> 4], digits[byte & 15u]};
        TRY(buffer_append(w->json, two, 2, err));
    }
    return buffer_append(w->json, "\"}", 2, err);
}

/* An integer beyond 64 bits: its digits come out from the last one on. */
static pawl_status put_big(buffer *json, pickle_text number, pawl_error *err) {
    uint8_t left[DIGITS_MOST];
    char digits[3 * DIGITS_MOST];
    size_t at = sizeof(digits);
    bool negative = number.n > 0 && ((uint8_t)number.bytes[number.n - 1] & 0x80u) != 0;
    unsigned carry = negative ? 1 : 0;
    bool more = true;
    if (number.n > sizeof(left)) {
        return buffer_printf(json, err, "{\"integer of bytes\":%zu}", number.n);
    }
    for (size_t i = 0; i < number.n; i++) {
        carry += negative ? (uint8_t) ~(uint8_t)number.bytes[i] : (uint8_t)number.bytes[i];
        left[i] = (uint8_t)carry;
        carry >>= 8;
    }
    while (more) {
        unsigned rest = 0;
        more = false;
        for (size_t i = number.n; i > 0; i--) {
            rest = rest << 8 | left[i - 1];
            left[i - 1] = (uint8_t)(rest / 10);
            rest %= 10;
            more = more || left[i - 1] != 0;
        }
        digits[--at] = (char)('0' + rest);
    }
    TRY(buffer_append(json, "-", negative ? 1 : 0, err));
    return buffer_append(json, digits + at, sizeof(digits) - at, err);
}

static pawl_status put_json(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    w->visits++;
    if (is_full(w, depth)) {
        return buffer_append(w->json, "null", 4, err);
    }
    switch (node->kind) {
    case PICKLE_BOOL:
        return buffer_printf(w->json, err, node->truth ? "true" : "false");
    case PICKLE_INT:
        return buffer_decimal(w->json, node->integer, err);
    case PICKLE_FLOAT:
        return buffer_json_number(w->json, node->number, err);
    case PICKLE_TEXT:
        return put_text(w, node->text.bytes, node->text.n, err);
    case PICKLE_BYTES:
        return put_bytes(w, node->text, err);
    case PICKLE_BIG:
        return put_big(w->json, node->text, err);
    case PICKLE_LIST:
    case PICKLE_TUPLE:
    case PICKLE_SET:
        return put_list(w, &node->items, depth, err);
    case PICKLE_DICT:
        return put_dict(w, &node->items, depth, err);
    case PICKLE_GLOBAL:
        return put_global(w, node, err);
    case PICKLE_CALL:
        return put_call(w, node, depth, err);
    default:
        return buffer_append(w->json, "null", 4, err);
    }
}

pawl_status torch_put_json(const pickle_node *node, buffer *json, uint64_t *visits,
                           pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    writing w = {.json = &text};
    TRY(put_json(&w, node, 0, err));
    *visits += w.visits;
    if (!w.full && text.size <= ARCHIVE_VALUE_BYTES) {
        return buffer_append(json, text.data, text.size, err);
    }
    return buffer_printf(json, err, "{\"left out\":\"more than %u bytes, or nested too deep\"}",
                         (unsigned)PAWL_MAX_VALUE_BYTES);
}
