/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over what torch.save pickled, and adds an entry for each tensor and each value. */
#include "foreign/torch/object.h"
#include "foreign/torch/names.h"
#include "foreign/torch/numpy.h"
#include "foreign/torch/sequences.h"
#include "foreign/torch/types.h"
#include "format/limits.h"

#include <math.h>
#include <string.h>

#define MOST_DEPTH  64
#define MORE_VISITS 1000000u
#define ENTRY_BYTES 256u /* about what an entry takes besides its name and its value */

typedef struct walk {
    const torch_source *s;
    buffer name, json;
    uint64_t visits; /* of nodes, which may be shared: a small pickle may be a huge tree */
    uint64_t made;   /* bytes of entries */
    torch_sequences *sequences;
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
    if (node->call->with->keywords != NULL) {
        TRY(any_has_tensor(w, &node->call->with->keywords->items, depth, has, err));
    }
    return node->call->with->state != NULL && !*has
               ? has_tensor(w, node->call->with->state, depth + 1, has, err)
               : PAWL_OK;
}

static pawl_status has_tensor(walk *w, const pickle_node *node, int depth, bool *has,
                              pawl_error *err) {
    TRY(check_visit(w, node, depth, err));
    *has = *has || is_in(node, "torch._utils") || is_in(node, "torch._tensor") ||
           node->kind == PICKLE_OUTSIDE || numpy_is_array(node);
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

/* What is too large for a value has a name; its bytes can be compared, but not read. */
static pawl_status add_kept(walk *w, const char *type, const void *bytes, size_t n,
                            pawl_error *err) {
    archive_part part;
    const int64_t shape[] = {(int64_t)n};
    TRY(check_made(w, 0, ENTRY_BYTES + w->name.size + n, err));
    TRY(archive_keep_bytes(w->s->a, bytes, n, &part, err));
    const archive_tensor tensor = {.name = name_of(w),
                                   .dtype = type != NULL ? 0 : PAWL_U8,
                                   .type = type,
                                   .ndim = 1,
                                   .shape = shape,
                                   .role = PAWL_ROLE_OTHER,
                                   .parts = &part,
                                   .part_count = 1};
    return archive_add_tensor(w->s->a, &tensor, err);
}

/* So much may still be made of the pickle. */
static size_t left_of(const walk *w) {
    return (size_t)(FOREIGN_MAX_PICKLE_MADE + 8 * w->s->bytes - w->made);
}

static pawl_status add_json(walk *w, const pickle_node *node, pawl_error *err) {
    uint64_t visits = 0;
    bool fits;
    w->json.size = 0;
    TRY(torch_put_json(node, left_of(w), &w->json, &fits, &visits, err));
    TRY(check_made(w, visits, 0, err));
    if (!fits) {
        return check_made(w, 0, left_of(w) + 1, err);
    }
    return w->json.size <= ARCHIVE_VALUE_BYTES
               ? add_value(w, PAWL_KIND_JSON, w->json.data, w->json.size, err)
               : add_kept(w, "OBJECT", w->json.data, w->json.size, err);
}

static pawl_status add_bytes(walk *w, const void *bytes, size_t n, pawl_error *err) {
    return n > ARCHIVE_VALUE_BYTES ? add_kept(w, NULL, bytes, n, err)
                                   : add_value(w, PAWL_KIND_BYTES, bytes, n, err);
}

static pawl_status add_text(walk *w, const pickle_node *node, pawl_error *err) {
    const char *text = node->text.bytes;
    size_t n = node->text.n;
    if (node->kind == PICKLE_BYTES || n > ARCHIVE_VALUE_BYTES) {
        return add_bytes(w, text, n, err);
    }
    return memchr(text, 0, n) == NULL ? add_value(w, PAWL_KIND_STRING, text, n, err)
                                      : add_json(w, node, err);
}

static pawl_status decode_latin1(pickle_text text, buffer *out, bool *is, pawl_error *err) {
    TRY(buffer_reserve(out, text.n + 1, err));
    for (size_t i = 0; i < text.n && *is;) {
        size_t length = utf8_character(text.bytes + i, text.n - i);
        uint32_t code = utf8_code(text.bytes + i, length);
        *is = code <= 0xff;
        out->data[out->size++] = (uint8_t)code;
        i += length;
    }
    return PAWL_OK;
}

pawl_status torch_take_bytes(const pickle_node *node, buffer *out, bool *is, pawl_error *err) {
    *is = node->kind == PICKLE_BYTES || node->kind == PICKLE_TEXT;
    if (*is) {
        return buffer_append(out, node->text.bytes, node->text.n, err);
    }
    if (node->kind != PICKLE_CALL) {
        return PAWL_OK;
    }
    const pickle_items *arguments = &node->call->arguments->items;
    if (pickle_is_call(node, "builtins", "bytes") || pickle_is_call(node, "__builtin__", "bytes")) {
        *is = arguments->count == 0; /* of none protocol 2 makes them so */
        return PAWL_OK;
    }
    *is =
        pickle_is_call(node, "_codecs", "encode") && arguments->count == 2 &&
        arguments->nodes[0]->kind == PICKLE_TEXT &&
        (pickle_says(arguments->nodes[1], "latin1") || pickle_says(arguments->nodes[1], "latin-1"));
    return *is ? decode_latin1(arguments->nodes[0]->text, out, is, err) : PAWL_OK;
}

static pawl_status add_encoded(walk *w, const pickle_node *node, bool *is, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    TRY(torch_take_bytes(node, &bytes, is, err));
    return *is ? add_bytes(w, bytes.data, bytes.size, err) : PAWL_OK;
}

static double half_of(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023;
    double v = exponent == 31  ? (fraction == 0 ? (double)INFINITY : (double)NAN)
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000u) != 0 ? -v : v;
}

/* A number of NumPy, as a number; JSON says which type it has where there is no such value. */
static pawl_status add_scalar(walk *w, const pickle_node *node, bool *is, pawl_error *err) {
    uint8_t bytes[16];
    numpy_type t;
    uint64_t bits = 0;
    float single;
    double number;
    *is = numpy_take_scalar(node, &t, bytes);
    if (!*is) {
        return PAWL_OK;
    }
    for (uint32_t i = 0; i < t.bytes && i < 8; i++) {
        bits |= (uint64_t)bytes[i] << (8 * i);
    }
    if (t.kind == 'b') {
        bytes[0] = bytes[0] != 0;
        return add_value(w, PAWL_KIND_BOOL, bytes, 1, err);
    }
    if (t.kind == 'i' && t.bytes < 8 && (bytes[t.bytes - 1] & 0x80u) != 0) {
        bits |= UINT64_MAX << (8 * t.bytes);
    }
    if (t.kind == 'i' || (t.kind == 'u' && bits <= INT64_MAX)) {
        return add_value(w, PAWL_KIND_INT64, &bits, sizeof(bits), err);
    }
    if (t.kind != 'f') {
        return add_json(w, node, err);
    }
    memcpy(&single, bytes, sizeof(single));
    memcpy(&number, bytes, sizeof(number));
    number = t.bytes == 2 ? half_of((uint16_t)bits) : t.bytes == 4 ? (double)single : number;
    return add_value(w, PAWL_KIND_FLOAT64, &number, sizeof(number), err);
}

static pawl_status add_array(walk *w, const pickle_node *node, bool *is, pawl_error *err) {
    size_t before = w->s->a->values.bytes.size;
    if (numpy_is_array(node)) {
        TRY(numpy_add_array(w->s->a, name_of(w), node, is, err));
    }
    return check_made(
        w, 0, *is ? ENTRY_BYTES + w->name.size + w->s->a->values.bytes.size - before : 0, err);
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

/* Goes to what is below: a component, as it is to be. */
static pawl_status add_named(walk *w, const char *component, size_t n, const pickle_node *node,
                             int depth, pawl_error *err) {
    size_t size = w->name.size;
    TRY(check_made(w, 0, 3 * n, err));
    TRY(buffer_append(&w->name, "/", size > 0 ? 1 : 0, err));
    TRY(buffer_append(&w->name, component, n, err));
    TRY(add_node(w, node, depth + 1, err));
    w->name.size = size;
    w->name.data[size] = 0;
    return PAWL_OK;
}

/* Names that have a meaning, if they are those of all of it, which such a key has not. */
static bool has_meaning(const walk *w, const pickle_node *key, bool alone) {
    return w->name.size == 0 &&
           (pickle_says(key, TORCH_SEQUENCES) || (alone && pickle_says(key, "object")));
}

static pawl_status add_below(walk *w, const char *key, const pickle_node *node, int depth,
                             pawl_error *err) {
    return add_named(w, key, strlen(key), node, depth, err);
}

static pawl_status add_list(walk *w, const pickle_items *items, int depth, pawl_error *err) {
    for (size_t i = 0; i < items->count; i++) {
        char key[DECIMAL_DIGITS + 1];
        size_t n = text_decimal(key, i);
        TRY(add_named(w, key, n, items->nodes[i], depth, err));
    }
    return PAWL_OK;
}

static pawl_status add_dict(walk *w, const pickle_items *pairs, int depth, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    for (size_t i = 0; i + 1 < pairs->count; i += 2) {
        const pickle_node *node = pairs->nodes[i];
        bool whole = has_meaning(w, node, pairs->count == 2);
        uint64_t visits = 0;
        key.size = 0;
        if (node->kind == PICKLE_TEXT && node->text.n > PAWL_MAX_NAME_BYTES - w->name.size) {
            return name_too_long(node, w->name.size + 1 + node->text.n, err);
        }
        TRY(torch_name_key(node, whole, &key, &visits, err));
        TRY(check_made(w, visits, 0, err));
        if (key.size > PAWL_MAX_NAME_BYTES - w->name.size) {
            return name_too_long(node, w->name.size + 1 + key.size, err);
        }
        TRY(add_named(w, (const char *)key.data, key.size, pairs->nodes[i + 1], depth, err));
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
        const pickle_node *part = of->items.nodes[i];
        const pickle_items *size = torch_items_of(part);
        const pickle_node list = {
            .kind = PICKLE_LIST, .at = part->at, .items = size != NULL ? *size : of->items};
        TRY(add_below(w, keys[i], size != NULL ? &list : part, depth, err));
    }
    return layout->kind == PICKLE_TEXT ? add_below(w, "layout", layout, depth, err) : PAWL_OK;
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
        return add_below(w, "__state__", state, depth, err);
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
    if (call->with->keywords != NULL && call->with->keywords->items.count > 0) {
        TRY(add_below(w, "__keywords__", call->with->keywords, depth, err));
    }
    if (given) {
        TRY(add_below(w, "__arguments__", call->arguments, depth, err));
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
    TRY(is ? PAWL_OK : add_scalar(w, node, &is, err));
    TRY(is ? PAWL_OK : add_array(w, node, &is, err));
    if (is) {
        return PAWL_OK;
    }
    if (strncmp(node->call->callee->global.name, "_rebuild_sparse", 15) == 0) {
        return add_sparse(w, node, depth, err);
    }
    return add_object(w, node, depth, err);
}

/* A list, tuple or set with tensors. */
static pawl_status add_sequence(walk *w, const pickle_node *node, const pickle_items *items,
                                int depth, pawl_error *err) {
    bool list = node->kind == PICKLE_LIST || pickle_is_call(node, "collections", "deque");
    torch_sequence kind = list ? TORCH_LIST : node->kind == PICKLE_TUPLE ? TORCH_TUPLE : TORCH_SET;
    TRY(check_made(w, 0, w->name.size, err));
    TRY(torch_sequences_note(w->sequences, (const char *)w->name.data, w->name.size, kind, err));
    return add_list(w, items, depth, err);
}

static pawl_status add_container(walk *w, const pickle_node *node, const pickle_items *items,
                                 const pickle_items *pairs, int depth, pawl_error *err) {
    bool plain = node->kind == PICKLE_DICT || pickle_is_call(node, "collections", "OrderedDict");
    bool has = false;
    if (plain && pairs->count > 0) {
        return add_dict(w, pairs, depth, err);
    }
    TRY(has_tensor(w, node, depth, &has, err));
    if (!has && w->name.size == 0 && plain) {
        return PAWL_OK; /* an empty dict has no entries */
    }
    if (!has) {
        return add_json(w, node, err);
    }
    return pairs != NULL ? add_dict(w, pairs, depth, err)
                         : add_sequence(w, node, items, depth, err);
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
    torch_sequences own = {.count = 0};
    walk w = {.s = s, .sequences = s->sequences != NULL ? s->sequences : &own};
    pawl_status status = buffer_append(&w.name, name, strlen(name), err);
    if (status == PAWL_OK) {
        status = add_node(&w, root, 0, err);
    }
    if (status == PAWL_OK) {
        status = torch_sequences_add(&own, s->a, err);
    }
    torch_sequences_free(&own);
    if (status != PAWL_OK && status != PAWL_ENOMEM && err->entry[0] == '\0' && w.name.size > 0) {
        error_entry(err, (const char *)w.name.data);
    }
    buffer_free(&w.name);
    buffer_free(&w.json);
    return status;
}
