/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over what torch.save pickled, and adds an entry for each tensor and each value. */
#include "foreign/torch/object.h"
#include "foreign/torch/types.h"
#include "format/limits.h"

#include <string.h>

#define MOST_DEPTH  64
#define MORE_VISITS 1000000u
#define ENTRY_BYTES 256u /* about what an entry takes besides its name and its value */

typedef struct walk {
    const torch_source *s;
    buffer name, json;
    uint64_t visits; /* of nodes, which may be shared: a small pickle may be a huge tree */
    uint64_t made;   /* bytes of entries */
} walk;

static pawl_status add_node(walk *w, const pickle_node *node, int depth, pawl_error *err);

/* What is made of a pickle is bounded by its size. */
static pawl_status check_made(walk *w, uint64_t visits, uint64_t bytes, pawl_error *err) {
    uint64_t most = 8 * w->s->bytes;
    w->visits += visits;
    w->made += bytes;
    if (w->made <= FOREIGN_MAX_PICKLE_MADE + most && w->visits <= MORE_VISITS + most) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT,
              "the pickle would become far more than it is: "
              "the same values are in it again and again");
    error_expected(err, "at most %llu bytes of names and values",
                   (unsigned long long)(FOREIGN_MAX_PICKLE_MADE + most));
    return PAWL_ELIMIT;
}

static pawl_status check_visit(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    if (depth > MOST_DEPTH) {
        error_set(err, PAWL_ELIMIT,
                  "values are nested too deep, or in themselves, at byte %u of the pickle",
                  node->at);
        error_expected(err, "at most %d levels", MOST_DEPTH);
        return PAWL_ELIMIT;
    }
    return check_made(w, 1, 0, err);
}

/* ---- is there a tensor? ---------------------------------------------------------------------- */

static bool is_in(const pickle_node *node, const char *module) {
    return node->kind == PICKLE_CALL && strcmp(node->call->callee->global.module, module) == 0;
}

static pawl_status has_tensor(walk *w, const pickle_node *node, int depth, bool *has,
                              pawl_error *err);

static pawl_status any_has_tensor(walk *w, const pickle_items *items, int depth, bool *has,
                                  pawl_error *err) {
    for (size_t i = 0; items != NULL && i < items->count && !*has; i++) {
        TRY(has_tensor(w, items->nodes[i], depth + 1, has, err));
    }
    return PAWL_OK;
}

/* Is a tensor somewhere in it? Not: is it one. */
static pawl_status has_tensor_within(walk *w, const pickle_node *node, int depth, bool *has,
                                     pawl_error *err) {
    const pickle_items *items = torch_items_of(node);
    items = items != NULL ? items : torch_pairs_of(node);
    if (items != NULL || node->kind != PICKLE_CALL) {
        return any_has_tensor(w, items, depth, has, err);
    }
    TRY(any_has_tensor(w, &node->call->arguments->items, depth, has, err));
    TRY(any_has_tensor(w, &node->call->with->items, depth, has, err));
    return node->call->with->state != NULL && !*has
               ? has_tensor(w, node->call->with->state, depth + 1, has, err)
               : PAWL_OK;
}

static pawl_status has_tensor(walk *w, const pickle_node *node, int depth, bool *has,
                              pawl_error *err) {
    TRY(check_visit(w, node, depth, err));
    *has = *has || is_in(node, "torch._utils") || is_in(node, "torch._tensor") ||
           node->kind == PICKLE_OUTSIDE;
    return *has ? PAWL_OK : has_tensor_within(w, node, depth, has, err);
}

/* ---- entries -------------------------------------------------------------------------------- */

static const char *name_of(walk *w) {
    return w->name.size > 0 ? (const char *)w->name.data : "object";
}

static pawl_status add_value(walk *w, pawl_kind kind, const void *bytes, size_t n,
                             pawl_error *err) {
    TRY(check_made(w, 0, ENTRY_BYTES + w->name.size + 2 * n, err));
    return archive_add_value(w->s->a, name_of(w), PAWL_ROLE_OTHER, kind, bytes, n, err);
}

static pawl_status add_json(walk *w, const pickle_node *node, pawl_error *err) {
    uint64_t visits = 0;
    w->json.size = 0;
    TRY(torch_put_json(node, &w->json, &visits, err));
    TRY(check_made(w, visits, 0, err));
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
    const archive_tensor tensor = {.name = name_of(w),
                                   .dtype = t->type->dtype,
                                   .type = t->type->type,
                                   .ndim = t->ndim,
                                   .shape = t->shape,
                                   .parts = &t->part,
                                   .part_count = 1};
    TRY(check_made(w, 0, ENTRY_BYTES + w->name.size, err));
    return archive_add_tensor(w->s->a, &tensor, err);
}

static pawl_status name_too_long(const pickle_node *node, size_t n, pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "the name of a value is too long, at byte %u of the pickle",
              node->at);
    error_expected(err, "at most %d bytes", PAWL_MAX_NAME_BYTES);
    error_found(err, "%zu bytes", n);
    return PAWL_EUNSUPPORTED;
}

static pawl_status append_key(walk *w, const char *key, size_t n, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    const char *escaped;
    TRY(escape_key(&memory, key, n, &escaped, err));
    TRY(buffer_append(&w->name, "/", w->name.size > 0 ? 1 : 0, err));
    return buffer_append(&w->name, escaped, strlen(escaped), err);
}

/* Goes to what is below: "name/key". */
static pawl_status add_below(walk *w, const char *key, size_t n, const pickle_node *node, int depth,
                             pawl_error *err) {
    size_t size = w->name.size;
    if (n > PAWL_MAX_NAME_BYTES - size) {
        return name_too_long(node, size + 1 + n, err);
    }
    TRY(check_made(w, 0, 3 * n, err));
    TRY(append_key(w, key, n, err));
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
        uint64_t visits = 0;
        key.size = 0;
        TRY(torch_put_json(node, &key, &visits, err));
        TRY(check_made(w, visits, 0, err));
        TRY(add_below(w, (const char *)key.data, key.size, pairs->nodes[i + 1], depth, err));
    }
    return PAWL_OK;
}

/* What a sparse tensor is made of: (layout, (indices, values, size, ...)), or (layout, (compressed
 * indices, plain indices, values, size)). */
static pawl_status add_sparse(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    static const char *const names[][5] = {
        {"indices", "values", "size", "is_coalesced", NULL},
        {"crow_indices", "col_indices", "values", "size", NULL},
        {"ccol_indices", "row_indices", "values", "size", NULL},
    };
    const pickle_items *arguments = &node->call->arguments->items;
    const pickle_node *of = arguments->count > 1 ? arguments->nodes[1] : NULL;
    if (of == NULL || of->kind != PICKLE_TUPLE || of->items.count < 3) {
        return add_json(w, node, err);
    }
    const pickle_node *layout = arguments->nodes[0];
    if (pickle_is_call(layout, "torch.serialization", "_get_layout") &&
        layout->call->arguments->items.count > 0) {
        layout = layout->call->arguments->items.nodes[0];
    }
    bool columns =
        pickle_says(layout, "torch.sparse_csc") || pickle_says(layout, "torch.sparse_bsc");
    bool rows = pickle_says(layout, "torch.sparse_csr") ||
                pickle_says(layout, "torch.sparse_bsr") ||
                pickle_is_call(node, "torch._utils", "_rebuild_sparse_csr_tensor");
    const char *const *keys = names[columns ? 2 : rows ? 1 : 0];
    for (size_t i = 0; i < of->items.count && keys[i] != NULL; i++) {
        TRY(add_below(w, keys[i], strlen(keys[i]), of->items.nodes[i], depth, err));
    }
    return layout->kind == PICKLE_TEXT ? add_below(w, "layout", 6, layout, depth, err) : PAWL_OK;
}

/* What object it is. */
static pawl_status add_class(walk *w, const pickle_node *node, bool arguments, pawl_error *err) {
    const pickle_call *call = node->call;
    const pickle_filling nothing = {.state = NULL};
    pickle_call bare = {.callee = call->callee, .arguments = call->arguments, .with = &nothing};
    pickle_node none = {.kind = PICKLE_TUPLE};
    pickle_node class = {.kind = PICKLE_CALL, .at = node->at, .call = &bare};
    size_t size = w->name.size;
    if (!arguments) {
        bare.arguments = &none;
    }
    TRY(buffer_append(&w->name, "/", size > 0 ? 1 : 0, err));
    TRY(buffer_append(&w->name, "__class__", 9, err));
    TRY(add_json(w, &class, err));
    w->name.size = size;
    w->name.data[size] = 0;
    return PAWL_OK;
}

/* The attributes of an object: with __slots__ they are two dicts, of which one may be None. */
static pawl_status add_state(walk *w, const pickle_node *state, int depth, pawl_error *err) {
    bool slots = state->kind == PICKLE_TUPLE && state->items.count == 2;
    for (uint32_t i = 0; slots && i < 2; i++) {
        pickle_kind kind = state->items.nodes[i]->kind;
        slots = kind == PICKLE_DICT || kind == PICKLE_NONE;
    }
    if (state->kind == PICKLE_DICT) {
        return add_dict(w, &state->items, depth, err);
    }
    if (!slots) {
        return add_below(w, "__state__", 9, state, depth, err);
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (state->items.nodes[i]->kind == PICKLE_DICT) {
            TRY(add_dict(w, &state->items.nodes[i]->items, depth, err));
        }
    }
    return PAWL_OK;
}

static pawl_status add_object(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    const pickle_call *call = node->call;
    bool has = false;
    bool given = false; /* to its class: a tensor */
    TRY(has_tensor_within(w, node, depth, &has, err));
    if (!has) {
        return add_json(w, node, err);
    }
    TRY(any_has_tensor(w, &call->arguments->items, depth, &given, err));
    TRY(add_class(w, node, !given, err));
    if (given) {
        TRY(add_below(w, "__arguments__", 13, call->arguments, depth, err));
    }
    TRY(call->with->pairs ? add_dict(w, &call->with->items, depth, err)
                          : add_list(w, &call->with->items, depth, err));
    return call->with->state != NULL ? add_state(w, call->with->state, depth, err) : PAWL_OK;
}

/* A storage that was saved as such. In the oldest files it has no bytes but those of tensors. */
static pawl_status add_storage(walk *w, const pickle_node *node, pawl_error *err) {
    torch_tensor all;
    if (w->s->tensor != NULL) {
        return add_json(w, node, err);
    }
    TRY(torch_take_storage(w->s, node, &all, err));
    return add_tensor(w, &all, err);
}

static pawl_status add_call(walk *w, const pickle_node *node, int depth, pawl_error *err) {
    torch_tensor tensor;
    bool is = false;
    TRY(torch_take_tensor(w->s, node, &tensor, &is, err));
    if (is) {
        return add_tensor(w, &tensor, err);
    }
    if (node->kind != PICKLE_CALL) {
        return add_storage(w, node, err);
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
    const pickle_items *items = torch_items_of(node);
    const pickle_items *pairs = torch_pairs_of(node);
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
