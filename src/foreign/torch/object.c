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
    if (depth <= MOST_DEPTH) {
        error_set(err, PAWL_ELIMIT, "there are too many values: some are in many others");
        error_expected(err, "at most %u", MOST_VISITS);
        return PAWL_ELIMIT;
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

/* The attributes of an object. */
static const pickle_items *state_of(const pickle_node *node) {
    const pickle_node *state = node->kind == PICKLE_CALL ? node->call->state : NULL;
    if (state != NULL && state->kind == PICKLE_TUPLE && state->items.count == 2 &&
        state->items.nodes[0]->kind == PICKLE_DICT) {
        state = state->items.nodes[0]; /* and those of __slots__ */
    }
    return state != NULL && state->kind == PICKLE_DICT ? &state->items : NULL;
}

/* Is a tensor somewhere in it? */
static pawl_status has_tensor(walk *w, const pickle_node *node, int depth, bool *has,
                              pawl_error *err) {
    TRY(check_visit(w, node, depth, err));
    if (node->kind == PICKLE_CALL &&
        (strcmp(node->call->callee->global.module, "torch._utils") == 0 ||
         strcmp(node->call->callee->global.module, "torch._tensor") == 0)) {
        *has = true;
        return PAWL_OK;
    }
    const pickle_items *items = items_of(node);
    items = items != NULL ? items : pairs_of(node);
    items = items != NULL ? items : state_of(node);
    for (size_t i = 0; items != NULL && i < items->count && !*has; i++) {
        TRY(has_tensor(w, items->nodes[i], depth + 1, has, err));
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
    const pickle_items *state = state_of(node);
    const pickle_items *arguments = &node->call->arguments->items;
    TRY(put_word(w->json, "class", callee->global.module, callee->global.name, err));
    if (arguments->count > 0) {
        TRY(buffer_append(w->json, ",\"arguments\":", 13, err));
        TRY(put_list(w, arguments, depth + 1, err));
    }
    if (state != NULL) {
        TRY(buffer_append(w->json, ",\"state\":", 9, err));
        TRY(put_dict(w, state, depth + 1, err));
    }
    return buffer_append(w->json, "}", 1, err);
}

static pawl_status put_global(buffer *json, const pickle_node *node, pawl_error *err) {
    TRY(put_word(json, "global", node->global.module, node->global.name, err));
    return buffer_append(json, "}", 1, err);
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
    return node->call != NULL ? put_object(w, node, depth, err) : PAWL_OK;
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
        return buffer_printf(w->json, err, "{\"bytes\":%zu}", node->text.n);
    case PICKLE_BIG:
        return buffer_printf(w->json, err, "{\"integer of bytes\":%zu}", node->text.n);
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

/* What _codecs.encode makes of a text whose characters are bytes, in protocol 2. */
static pawl_status add_encoded(walk *w, const pickle_node *node, bool *is, pawl_error *err) {
    const pickle_items *arguments = &node->call->arguments->items;
    CLEANUP(buffer_free) buffer bytes = {0};
    *is =
        pickle_is_call(node, "_codecs", "encode") && arguments->count == 2 &&
        arguments->nodes[0]->kind == PICKLE_TEXT &&
        arguments->nodes[0]->text.n <= ARCHIVE_VALUE_BYTES &&
        (pickle_says(arguments->nodes[1], "latin1") || pickle_says(arguments->nodes[1], "latin-1"));
    if (!*is) {
        return PAWL_OK;
    }
    pickle_text text = arguments->nodes[0]->text;
    TRY(buffer_reserve(&bytes, text.n + 1, err));
    for (size_t i = 0; i < text.n;) {
        size_t length = utf8_character(text.bytes + i, text.n - i);
        uint32_t code = utf8_code(text.bytes + i, length);
        if (code > 0xff) {
            *is = false;
            return PAWL_OK;
        }
        bytes.data[bytes.size++] = (uint8_t)code;
        i += length;
    }
    return add_value(w, PAWL_KIND_BYTES, bytes.data, bytes.size, err);
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

static pawl_status add_object(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    bool has = false;
    const pickle_items *state = state_of(node);
    TRY(has_tensor(w, node, depth, &has, err));
    if (!has || state == NULL) {
        return add_json(w, node, err);
    }
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
    return add_dict(w, state, depth, err);
}

static pawl_status add_call(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    torch_tensor tensor;
    bool is = false;
    TRY(torch_take_tensor(w->s, node, &tensor, &is, err));
    if (is) {
        return add_tensor(w, &tensor, err);
    }
    if (node->kind != PICKLE_CALL) {
        return add_json(w, node, err);
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
