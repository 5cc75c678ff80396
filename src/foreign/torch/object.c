/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over what torch.save pickled, and adds an entry for each tensor and each value. */
#include "foreign/torch/object.h"
#include "foreign/torch/types.h"

#include <stdio.h>
#include <string.h>

#define MOST_DEPTH  64
#define MOST_VISITS 50000000u /* of nodes, which may be shared: a small pickle may be a huge tree */

typedef struct walk {
    const torch_source *s;
    buffer name, json;
    uint64_t visits;
} walk;

static pawl_status add_node(walk *w, const pickle_node *node, int depth, pawl_error *err);

static pawl_status check_visit(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    if (depth <= MOST_DEPTH && w->visits++ < MOST_VISITS) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT,
              "values are nested too deep, or in themselves, at byte %u of the pickle", node->at);
    error_expected(err, "at most %d levels", MOST_DEPTH);
    return PAWL_ELIMIT;
}

/* ---- what is in a node ---------------------------------------------------------------------- */

/* Keys and values; NULL: it is no dict. */
static const pickle_items *pairs_of(const pickle_node *node) {
    if (node->kind == PICKLE_DICT) {
        return &node->items;
    }
    if (node->kind != PICKLE_CALL ||
        strcmp(node->call->callee->global.module, "collections") != 0 ||
        strcmp(node->call->callee->global.name, "deque") == 0) {
        return NULL;
    }
    const pickle_items *arguments = &node->call->arguments->items;
    bool given = node->call->items.count == 0 && arguments->count > 0;
    const pickle_node *last = given ? arguments->nodes[arguments->count - 1] : NULL;
    return last != NULL && last->kind == PICKLE_DICT ? &last->items : &node->call->items;
}

/* NULL: it is no list, tuple or set. */
static const pickle_items *items_of(const pickle_node *node) {
    if (node->kind == PICKLE_LIST || node->kind == PICKLE_TUPLE || node->kind == PICKLE_SET) {
        return &node->items;
    }
    bool sized = pickle_is_call(node, "torch", "Size") || pickle_is_call(node, "builtins", "set") ||
                 pickle_is_call(node, "__builtin__", "set") ||
                 pickle_is_call(node, "builtins", "frozenset");
    if (sized && node->call->arguments->items.count == 1) {
        return items_of(node->call->arguments->items.nodes[0]);
    }
    return pickle_is_call(node, "collections", "deque") ? &node->call->items : NULL;
}

/* What an object has, besides its class. */
#define OBJECT_PARTS 5

typedef struct object_part {
    const char *name;          /* NULL: its members are those of the object */
    const pickle_items *items; /* NULL: it is `node` */
    const pickle_node *node;
    bool pairs;
} object_part;

static size_t put_state(const pickle_node *state, object_part *out) {
    if (state->kind == PICKLE_DICT) {
        *out = (object_part){.items = &state->items, .pairs = true};
        return state->items.count > 0 ? 1 : 0;
    }
    *out = (object_part){.name = "__state__", .node = state};
    return state->kind != PICKLE_NONE ? 1 : 0;
}

/* A state of two may be the attributes, and those of __slots__. */
static size_t parts_of(const pickle_node *node, object_part out[OBJECT_PARTS]) {
    const pickle_call *call = node->call;
    const pickle_node *state = call->state;
    size_t n = 0;
    if (call->arguments->items.count > 0) {
        out[n++] = (object_part){.name = "__arguments__", .items = &call->arguments->items};
    }
    if (call->items.count > 0) {
        out[n++] = (object_part){
            .name = call->pairs ? NULL : "__items__", .items = &call->items, .pairs = call->pairs};
    }
    if (state == NULL) {
        return n;
    }
    const pickle_node *const *two = state->kind == PICKLE_TUPLE && state->items.count == 2
                                        ? (const pickle_node *const *)state->items.nodes
                                        : NULL;
    if (two == NULL || (two[0]->kind != PICKLE_DICT && two[0]->kind != PICKLE_NONE) ||
        two[1]->kind != PICKLE_DICT) {
        return n + put_state(state, &out[n]);
    }
    n += put_state(two[0], &out[n]);
    return n + put_state(two[1], &out[n]);
}

static pawl_status has_tensor(walk *w, const pickle_node *node, int depth, bool *has,
                              pawl_error *err);

static pawl_status have_tensor(walk *w, const pickle_items *items, int depth, bool *has,
                               pawl_error *err) {
    for (size_t i = 0; i < items->count && !*has; i++) {
        TRY(has_tensor(w, items->nodes[i], depth + 1, has, err));
    }
    return PAWL_OK;
}

/* Is a tensor, or a storage, somewhere in it? */
static pawl_status has_tensor(walk *w, const pickle_node *node, int depth, bool *has,
                              pawl_error *err) {
    TRY(check_visit(w, node, depth, err));
    if (node->kind == PICKLE_OUTSIDE) {
        *has = true;
        return PAWL_OK;
    }
    const pickle_items *items = items_of(node);
    items = items != NULL ? items : pairs_of(node);
    if (items != NULL || node->kind != PICKLE_CALL) {
        return items != NULL ? have_tensor(w, items, depth, has, err) : PAWL_OK;
    }
    object_part parts[OBJECT_PARTS];
    size_t n = parts_of(node, parts);
    for (size_t i = 0; i < n && !*has; i++) {
        TRY(parts[i].items != NULL ? have_tensor(w, parts[i].items, depth, has, err)
                                   : has_tensor(w, parts[i].node, depth + 1, has, err));
    }
    return PAWL_OK;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

typedef struct writing {
    buffer *json;
    uint64_t visits;
} writing;

static pawl_status put_json(writing *w, const pickle_node *node, int depth, pawl_error *err);

static bool is_full(const writing *w, int depth) {
    return w->json->size > ARCHIVE_VALUE_BYTES || depth >= PAWL_MAX_JSON_DEPTH / 2 ||
           w->visits > ARCHIVE_VALUE_BYTES;
}

static pawl_status put_text(buffer *json, pickle_text text, pawl_error *err) {
    return buffer_json_shown(json, text.bytes, text.n, err);
}

/* In hexadecimal. */
static pawl_status put_bytes(buffer *json, pickle_text text, pawl_error *err) {
    static const char digits[] = "0123456789abcdef";
    TRY(buffer_append(json, "{\"bytes\":\"", 10, err));
    for (size_t i = 0; i < text.n && json->size <= ARCHIVE_VALUE_BYTES; i++) {
        uint8_t byte = (uint8_t)text.bytes[i];
        const char two[2] = {digits[byte >> 4], digits[byte & 15u]};
        TRY(buffer_append(json, two, 2, err));
    }
    return buffer_append(json, "\"}", 2, err);
}

#define BIG_BASE   1000000000u
#define BIG_DIGITS 9

/* Two's complement, little-endian: divided by a billion as long as something is left. */
static pawl_status put_big(buffer *json, pickle_text text, pawl_error *err) {
    AUTOFREE uint8_t *left = mem_dup(text.bytes, text.n);
    AUTOFREE uint32_t *parts = mem_calloc(text.n / 3 + 1, sizeof(*parts));
    size_t count = 0;
    if (left == NULL || parts == NULL) {
        return error_nomem(err, text.n);
    }
    bool negative = left[text.n - 1] >= 0x80;
    for (size_t i = 0, carry = 1; negative && i < text.n; i++) {
        carry += (uint8_t)~left[i];
        left[i] = (uint8_t)carry;
        carry >>= 8;
    }
    for (size_t n = text.n; n > 0;) {
        uint64_t rest = 0;
        for (size_t i = n; i > 0; i--) {
            rest = rest << 8 | left[i - 1];
            left[i - 1] = (uint8_t)(rest / BIG_BASE);
            rest %= BIG_BASE;
        }
        parts[count++] = (uint32_t)rest;
        while (n > 0 && left[n - 1] == 0) {
            n--;
        }
    }
    TRY(buffer_printf(json, err, "%s%u", negative ? "-" : "", (unsigned)parts[--count]));
    while (count > 0) {
        TRY(buffer_printf(json, err, "%0*u", BIG_DIGITS, (unsigned)parts[--count]));
    }
    return PAWL_OK;
}

static pawl_status put_word(buffer *json, const char *key, const char *module, const char *name,
                            pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    TRY(buffer_printf(&text, err, "%s.%s", module, name));
    TRY(buffer_printf(json, err, "{\"%s\":", key));
    TRY(buffer_json_shown(json, (const char *)text.data, text.size, err));
    return PAWL_OK;
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
        return put_text(w->json, key->text, err);
    }
    writing inner = {.json = &text, .visits = w->visits};
    TRY(put_json(&inner, key, depth + 1, err));
    w->visits = inner.visits;
    return buffer_json_shown(w->json, (const char *)text.data, text.size, err);
}

static pawl_status put_members(writing *w, const pickle_items *pairs, bool first, int depth,
                               pawl_error *err) {
    for (size_t i = 0; i + 1 < pairs->count && !is_full(w, depth); i += 2) {
        TRY(buffer_append(w->json, ",", first ? 0 : 1, err));
        TRY(put_key(w, pairs->nodes[i], depth, err));
        TRY(buffer_append(w->json, ":", 1, err));
        TRY(put_json(w, pairs->nodes[i + 1], depth + 1, err));
        first = false;
    }
    return PAWL_OK;
}

static pawl_status put_dict(writing *w, const pickle_items *pairs, int depth, pawl_error *err) {
    TRY(buffer_append(w->json, "{", 1, err));
    TRY(put_members(w, pairs, true, depth, err));
    return buffer_append(w->json, "}", 1, err);
}

static pawl_status put_object(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    const pickle_node *callee = node->call->callee;
    object_part parts[OBJECT_PARTS];
    size_t n = parts_of(node, parts);
    const char *before = "state";
    TRY(put_word(w->json, "class", callee->global.module, callee->global.name, err));
    for (size_t i = 0; i < n; i++) {
        const object_part *part = &parts[i];
        const char *key = part->items == &node->call->arguments->items ? "arguments"
                          : part->items == &node->call->items          ? "items"
                                                                       : before;
        before = key == before ? "slots" : before;
        TRY(buffer_printf(w->json, err, ",\"%s\":", key));
        TRY(part->items == NULL ? put_json(w, part->node, depth + 1, err)
            : part->pairs       ? put_dict(w, part->items, depth + 1, err)
                                : put_list(w, part->items, depth + 1, err));
    }
    return buffer_append(w->json, "}", 1, err);
}

static pawl_status put_global(buffer *json, const pickle_node *node, pawl_error *err) {
    TRY(put_word(json, "global", node->global.module, node->global.name, err));
    return buffer_append(json, "}", 1, err);
}

static bool is_encoded(const pickle_node *node) {
    const pickle_items *arguments = &node->call->arguments->items;
    return pickle_is_call(node, "_codecs", "encode") && arguments->count >= 1 &&
           arguments->nodes[0]->kind == PICKLE_TEXT &&
           arguments->nodes[0]->text.n <= ARCHIVE_VALUE_BYTES;
}

/* What _codecs.encode makes of a text whose characters are bytes, in protocol 2. *is is false where
 * they are not. */
static pawl_status decode(const pickle_node *node, buffer *bytes, bool *is, pawl_error *err) {
    *is = is_encoded(node);
    if (!*is) {
        return PAWL_OK;
    }
    pickle_text text = node->call->arguments->items.nodes[0]->text;
    TRY(buffer_reserve(bytes, text.n + 1, err));
    for (size_t i = 0; i < text.n;) {
        size_t length = utf8_character(text.bytes + i, text.n - i);
        uint32_t code = utf8_code(text.bytes + i, length);
        if (code > 0xff) {
            *is = false;
            return PAWL_OK;
        }
        bytes->data[bytes->size++] = (uint8_t)code;
        i += length;
    }
    return PAWL_OK;
}

static pawl_status put_encoded(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    bool is;
    TRY(decode(node, &bytes, &is, err));
    if (!is) {
        return put_object(w, node, depth, err);
    }
    const pickle_text text = {.bytes = (const char *)bytes.data, .n = bytes.size};
    return put_bytes(w->json, text, err);
}

static pawl_status put_call(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    const pickle_items *items = items_of(node);
    const pickle_items *pairs = pairs_of(node);
    if (items != NULL) {
        return put_list(w, items, depth, err);
    }
    if (pairs != NULL) {
        return put_dict(w, pairs, depth, err);
    }
    return node->call != NULL ? put_encoded(w, node, depth, err) : PAWL_OK;
}

static pawl_status put_json(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    w->visits++;
    if (is_full(w, depth)) {
        return buffer_append(w->json, "null", 4, err); /* the whole is refused, see below */
    }
    switch (node->kind) {
    case PICKLE_BOOL:
        return buffer_printf(w->json, err, node->truth ? "true" : "false");
    case PICKLE_INT:
        return buffer_decimal(w->json, node->integer, err);
    case PICKLE_FLOAT:
        return buffer_json_number(w->json, node->number, err);
    case PICKLE_TEXT:
        return put_text(w->json, node->text, err);
    case PICKLE_BYTES:
        return put_bytes(w->json, node->text, err);
    case PICKLE_BIG:
        return put_big(w->json, node->text, err);
    case PICKLE_LIST:
    case PICKLE_TUPLE:
    case PICKLE_SET:
        return put_list(w, &node->items, depth, err);
    case PICKLE_DICT:
        return put_dict(w, &node->items, depth, err);
    case PICKLE_GLOBAL:
        return put_global(w->json, node, err);
    case PICKLE_CALL:
        return put_call(w, node, depth, err);
    default:
        return buffer_append(w->json, "null", 4, err);
    }
}

pawl_status torch_put_json(const pickle_node *node, buffer *json, pawl_error *err) {
    size_t begin = json->size;
    writing w = {.json = json};
    TRY(put_json(&w, node, 0, err));
    if (json->size - begin <= ARCHIVE_VALUE_BYTES && w.visits <= ARCHIVE_VALUE_BYTES) {
        return PAWL_OK;
    }
    json->size = begin;
    return buffer_printf(json, err, "{\"left out\":\"more than %u bytes\"}",
                         (unsigned)PAWL_MAX_VALUE_BYTES);
}

/* ---- entries -------------------------------------------------------------------------------- */

static const char *name_of(walk *w) {
    return w->name.size > 0 ? (const char *)w->name.data : "object";
}

static pawl_status add_value(walk *w, pawl_kind kind, const void *bytes, size_t n,
                             pawl_error *err) {
    return archive_add_value(w->s->a, name_of(w), PAWL_ROLE_OTHER, kind, bytes, n, err);
}

static pawl_status add_json(walk *w, const pickle_node *node, pawl_error *err) {
    w->json.size = 0;
    TRY(torch_put_json(node, &w->json, err));
    return add_value(w, PAWL_KIND_JSON, w->json.data, w->json.size, err);
}

static pawl_status add_text(walk *w, const pickle_node *node, pawl_error *err) {
    bool plain = node->kind == PICKLE_TEXT && memchr(node->text.bytes, 0, node->text.n) == NULL;
    if (node->text.n > ARCHIVE_VALUE_BYTES || (node->kind == PICKLE_TEXT && !plain)) {
        return add_json(w, node, err);
    }
    return add_value(w, plain ? PAWL_KIND_STRING : PAWL_KIND_BYTES, node->text.bytes, node->text.n,
                     err);
}

static pawl_status add_encoded(walk *w, const pickle_node *node, bool *is, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    TRY(decode(node, &bytes, is, err));
    return *is ? add_value(w, PAWL_KIND_BYTES, bytes.data, bytes.size, err) : PAWL_OK;
}

static pawl_status add_tensor(walk *w, const torch_tensor *t, pawl_error *err) {
    char noted[FORMAT_MAX_TYPE_NAME + 1];
    const char *type = t->type->type;
    if (t->conj || t->neg) {
        const char *of = type != NULL ? type : pawl_dtype_name(t->type->dtype);
        snprintf(noted, sizeof(noted), "%s%s%s", of, t->conj ? "_CONJ" : "", t->neg ? "_NEG" : "");
        type = noted;
    }
    const archive_tensor tensor = {.name = name_of(w),
                                   .dtype = t->type->dtype,
                                   .type = type,
                                   .ndim = t->ndim,
                                   .shape = t->shape,
                                   .parts = &t->part,
                                   .part_count = 1};
    return archive_add_tensor(w->s->a, &tensor, err);
}

/* Goes to what is below: "name/key". */
static pawl_status add_below(walk *w, const char *key, size_t n, const pickle_node *node, int depth,
                             pawl_error *err) {
    size_t size = w->name.size;
    const char *escaped;
    TRY(archive_escape_key(w->s->a, key, n, &escaped, err));
    TRY(buffer_append(&w->name, "/", size > 0 ? 1 : 0, err));
    TRY(buffer_append(&w->name, escaped, strlen(escaped), err));
    TRY(add_node(w, node, depth + 1, err));
    w->name.size = size;
    w->name.data[size] = 0;
    return PAWL_OK;
}

static pawl_status add_list(walk *w, const pickle_items *items, int depth, pawl_error *err) {
    for (size_t i = 0; i < items->count; i++) {
        char key[DECIMAL_DIGITS + 1];
        size_t n = text_decimal(key, i);
        TRY(add_below(w, key, n, items->nodes[i], depth, err));
    }
    return PAWL_OK;
}

/* Keys that are no texts are as JSON has them. */
static pawl_status add_dict(walk *w, const pickle_items *pairs, int depth, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    for (size_t i = 0; i + 1 < pairs->count; i += 2) {
        const pickle_node *node = pairs->nodes[i];
        if (node->kind == PICKLE_TEXT) {
            TRY(add_below(w, node->text.bytes, node->text.n, pairs->nodes[i + 1], depth, err));
            continue;
        }
        key.size = 0;
        TRY(torch_put_json(node, &key, err));
        TRY(add_below(w, (const char *)key.data, key.size, pairs->nodes[i + 1], depth, err));
    }
    return PAWL_OK;
}

static const struct {
    const char *layout;
    const char *parts[5]; /* the last NULL */
} layouts[] = {
    {"torch.sparse_coo", {"indices", "values", "size"}},
    {"torch.sparse_csr", {"crow_indices", "col_indices", "values", "size"}},
    {"torch.sparse_csc", {"ccol_indices", "row_indices", "values", "size"}},
    {"torch.sparse_bsr", {"crow_indices", "col_indices", "values", "size"}},
    {"torch.sparse_bsc", {"ccol_indices", "row_indices", "values", "size"}},
};

/* The text that _get_layout takes, or, before there was one, a word of torch. */
static const char *layout_of(const pickle_node *node) {
    const pickle_items *arguments = pickle_is_call(node, "torch.serialization", "_get_layout")
                                        ? &node->call->arguments->items
                                        : NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(layouts); i++) {
        const char *layout = layouts[i].layout;
        if ((arguments != NULL && arguments->count > 0 &&
             pickle_says(arguments->nodes[0], layout)) ||
            pickle_is_global(node, "torch", layout + strlen("torch."))) {
            return layout;
        }
    }
    return "";
}

static pawl_status add_parts(walk *w, const char *const *parts, const pickle_items *items,
                             int depth, pawl_error *err) {
    for (size_t i = 0; i < items->count && parts[i] != NULL; i++) {
        TRY(add_below(w, parts[i], strlen(parts[i]), items->nodes[i], depth, err));
    }
    return PAWL_OK;
}

/* Sparse: indices and values; quantized and others: what they are, and the tensor. */
static pawl_status add_sparse(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    const pickle_items *arguments = &node->call->arguments->items;
    const pickle_node *of = arguments->count > 1 ? arguments->nodes[1] : NULL;
    if (of == NULL || of->kind != PICKLE_TUPLE || of->items.count < 3) {
        return add_json(w, node, err);
    }
    const char *layout = layout_of(arguments->nodes[0]);
    for (size_t i = 0; i < ARRAY_LENGTH(layouts); i++) {
        if (strcmp(layout, layouts[i].layout) == 0) {
            return add_parts(w, layouts[i].parts, &of->items, depth, err);
        }
    }
    return add_json(w, node, err);
}

static pawl_status add_part(walk *w, const object_part *part, int depth, pawl_error *err) {
    if (part->items == NULL) {
        return add_below(w, part->name, strlen(part->name), part->node, depth, err);
    }
    if (part->pairs) {
        return add_dict(w, part->items, depth, err);
    }
    size_t size = w->name.size;
    TRY(buffer_append(&w->name, "/", size > 0 ? 1 : 0, err));
    TRY(buffer_append(&w->name, part->name, strlen(part->name), err));
    TRY(add_list(w, part->items, depth + 1, err));
    w->name.size = size;
    w->name.data[size] = 0;
    return PAWL_OK;
}

static pawl_status add_object(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    bool has = false;
    object_part parts[OBJECT_PARTS];
    TRY(has_tensor(w, node, depth, &has, err));
    if (!has) {
        return add_json(w, node, err);
    }
    size_t n = parts_of(node, parts);
    size_t size = w->name.size;
    const pickle_node *callee = node->call->callee;
    w->json.size = 0;
    TRY(put_word(&w->json, "class", callee->global.module, callee->global.name, err));
    TRY(buffer_append(&w->json, "}", 1, err));
    TRY(buffer_append(&w->name, "/__class__", size > 0 ? 10 : 0, err));
    TRY(buffer_append(&w->name, "__class__", size > 0 ? 0 : 9, err));
    TRY(add_value(w, PAWL_KIND_JSON, w->json.data, w->json.size, err));
    w->name.size = size;
    w->name.data[size] = 0;
    for (size_t i = 0; i < n; i++) {
        TRY(add_part(w, &parts[i], depth, err));
    }
    return PAWL_OK;
}

static pawl_status add_call(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    torch_tensor tensor;
    bool is = false;
    TRY(torch_take_tensor(w->s, node, &tensor, &is, err));
    if (is) {
        return add_tensor(w, &tensor, err);
    }
    if (node->kind != PICKLE_CALL) {
        TRY(torch_take_storage(w->s, node, &tensor, err));
        return add_tensor(w, &tensor, err);
    }
    TRY(add_encoded(w, node, &is, err));
    if (is) {
        return PAWL_OK;
    }
    if (strncmp(node->call->callee->global.name, "_rebuild_sparse", 15) == 0) {
        return add_sparse(w, node, depth, err);
    }
    if (pickle_is_call(node, "torch", "device") && node->call->arguments->items.count > 0 &&
        node->call->arguments->items.nodes[0]->kind == PICKLE_TEXT) {
        return add_text(w, node->call->arguments->items.nodes[0], err);
    }
    return add_object(w, node, depth, err);
}

static pawl_status add_container(walk *w, const pickle_node *node, const pickle_items *items,
                                 const pickle_items *pairs, int depth, pawl_error *err) {
    bool has = false;
    if (pairs != NULL && pairs->count > 0) {
        return add_dict(w, pairs, depth, err);
    }
    if (items != NULL) {
        TRY(has_tensor(w, node, depth, &has, err));
    }
    if (!has && w->name.size == 0 && pairs != NULL) {
        return PAWL_OK; /* an empty dict has no entries */
    }
    return has ? add_list(w, items, depth, err) : add_json(w, node, err);
}

static pawl_status add_node(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    const pickle_items *items = items_of(node);
    const pickle_items *pairs = pairs_of(node);
    const uint8_t truth = node->kind == PICKLE_BOOL && node->truth ? 1 : 0;
    TRY(check_visit(w, node, depth, err));
    if (items != NULL || pairs != NULL) {
        return add_container(w, node, items, pairs, depth, err);
    }
    switch (node->kind) {
    case PICKLE_BOOL:
        return add_value(w, PAWL_KIND_BOOL, &truth, 1, err);
    case PICKLE_INT:
        return add_value(w, PAWL_KIND_INT64, &node->integer, sizeof(node->integer), err);
    case PICKLE_FLOAT:
        return add_value(w, PAWL_KIND_FLOAT64, &node->number, sizeof(node->number), err);
    case PICKLE_TEXT:
    case PICKLE_BYTES:
        return add_text(w, node, err);
    case PICKLE_CALL:
    case PICKLE_OUTSIDE:
        return add_call(w, node, depth, err);
    default:
        return add_json(w, node, err);
    }
}

pawl_status torch_add_object(const torch_source *s, const pickle_node *root, const char *name,
                             pawl_error *err) {
    walk w = {.s = s};
    pawl_status status = buffer_append(&w.name, name, strlen(name), err);
    if (status == PAWL_OK) {
        status = add_node(&w, root, 0, err);
    }
    if (status != PAWL_OK && status != PAWL_ENOMEM && err->entry[0] == '\0' && w.name.size > 0) {
        error_entry(err, (const char *)w.name.data);
    }
    buffer_free(&w.name);
    buffer_free(&w.json);
    return status;
}
