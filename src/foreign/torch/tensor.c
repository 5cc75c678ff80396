/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that torch.save pickled: calls of functions that would have made them of a storage. */
#include "foreign/pickle/standard.h"
#include "foreign/streams.h"
#include "foreign/torch/object.h"
#include "foreign/torch/types.h"
#include "format/limits.h"

#include <string.h>

#define UTILS "torch._utils"

/* What is not of Python itself is described, and never executed. */
bool torch_knows(const char *module, const char *name) {
    return pickle_is_standard(module) ? pickle_is_harmless(module, name)
                                      : !pickle_leads_away(module, name);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static const pickle_node *argument(const pickle_items *arguments, size_t i) {
    return i < arguments->count ? arguments->nodes[i] : NULL;
}

bool torch_take_size(const pickle_node *node, int *ndim, int64_t out[PAWL_MAX_NDIM]) {
    if (pickle_is_call(node, "torch", "Size")) {
        node = argument(&node->call->arguments->items, 0);
    }
    if (node == NULL || (node->kind != PICKLE_TUPLE && node->kind != PICKLE_LIST) ||
        node->items.count > PAWL_MAX_NDIM) {
        return false;
    }
    for (uint32_t i = 0; i < node->items.count; i++) {
        if (node->items.nodes[i]->kind != PICKLE_INT) {
            return false;
        }
        out[i] = node->items.nodes[i]->integer;
    }
    *ndim = (int)node->items.count;
    return true;
}

/* ---- storages ------------------------------------------------------------------------------- */

static pawl_status bad_tensor(const pickle_node *node, const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED,
              "a tensor is not as PyTorch saves them, at byte %u of the pickle: %s", node->at,
              what);
    return PAWL_EDAMAGED;
}

/* Before there were zips, a storage could be a part of another: (its key, offset, elements). */
static pawl_status take_view(const pickle_node *id, const torch_type *type, torch_storage *out,
                             pawl_error *err) {
    const pickle_node *view = id->items.nodes[5];
    uint64_t offset, bytes, end;
    if (view->kind != PICKLE_TUPLE || view->items.count < 3) {
        return PAWL_OK;
    }
    const pickle_node *at = view->items.nodes[1];
    const pickle_node *count = view->items.nodes[2];
    if (type == NULL || at->kind != PICKLE_INT || count->kind != PICKLE_INT || at->integer < 0 ||
        count->integer < 0 || multiply_overflows((uint64_t)at->integer, type->bytes, &offset) ||
        multiply_overflows((uint64_t)count->integer, type->bytes, &bytes) ||
        add_overflows(offset, bytes, &end) || end > out->bytes) {
        return bad_tensor(id, "its storage is a part of another that has less", err);
    }
    out->offset += offset;
    out->bytes = bytes;
    return PAWL_OK;
}

/* ("storage", its class, its key, where it was, elements) */
static pawl_status take_storage(const torch_source *s, const pickle_node *node,
                                const torch_type **type, torch_storage *out, pawl_error *err) {
    const pickle_node *id = node != NULL && node->kind == PICKLE_OUTSIDE ? node->id : node;
    if (id == NULL || id->kind != PICKLE_TUPLE || id->items.count < 5 ||
        !pickle_says(id->items.nodes[0], "storage") || id->items.nodes[1]->kind != PICKLE_GLOBAL ||
        id->items.nodes[2]->kind != PICKLE_TEXT) {
        return bad_tensor(node != NULL ? node : &(pickle_node){.at = 0}, "it has no storage", err);
    }
    const char *class = id->items.nodes[1]->global.name;
    *type = torch_type_of_storage(class);
    if (*type == NULL && strcmp(class, "UntypedStorage") != 0) {
        return bad_tensor(id, "its storage has an unknown class", err);
    }
    TRY(s->find(s->context, id->items.nodes[2]->text, out, err));
    return id->items.count > 5 ? take_view(id, *type, out, err) : PAWL_OK;
}

/* ---- layouts -------------------------------------------------------------------------------- */

static bool is_dense(const torch_tensor *t, const int64_t *strides) {
    int64_t stride = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->shape[d] == 0) {
            return true;
        }
        if (t->shape[d] != 1 && strides[d] != stride) {
            return false;
        }
        if (t->shape[d] > INT64_MAX / stride) {
            return false; /* stream_add_strided says what is wrong */
        }
        stride *= t->shape[d];
    }
    return true;
}

static bool count_bytes(const torch_tensor *t, uint64_t *out) {
    uint64_t bytes = t->type->bytes;
    for (int d = 0; d < t->ndim; d++) {
        if (t->shape[d] < 0) {
            return false;
        }
    }
    for (int d = 0; d < t->ndim; d++) {
        if (t->shape[d] == 0) {
            *out = 0;
            return true;
        }
        if (multiply_overflows(bytes, (uint64_t)t->shape[d], &bytes)) {
            return false;
        }
    }
    *out = bytes;
    return true;
}

static bool is_complex(const torch_type *type) {
    return type->name[0] == 'c';
}

static uint32_t swap_bytes_of(const torch_type *type, bool swapped) {
    return !swapped ? 1 : is_complex(type) ? type->bytes / 2 : type->bytes;
}

/* Where it lies as pawl reads it, it is read in place. */
pawl_status torch_place_tensor(archive *a, const torch_storage *storage, int64_t offset,
                               const int64_t *strides, torch_tensor *t, pawl_error *err) {
    uint64_t bytes, begin, end;
    bool swap = storage->swapped && t->type->bytes > 1;
    for (int d = 0; d < t->ndim; d++) {
        if (strides[d] < 0) { /* PyTorch has none */
            return error_set(err, PAWL_EDAMAGED, "a tensor has a stride that is negative");
        }
    }
    if (offset < 0 || !count_bytes(t, &bytes) ||
        multiply_overflows((uint64_t)offset, t->type->bytes, &begin)) {
        return error_set(err, PAWL_EDAMAGED, "a tensor has a size that cannot be");
    }
    t->part = (archive_part){.stream = storage->stream, .offset = storage->offset, .bytes = bytes};
    if (bytes == 0) {
        return PAWL_OK;
    }
    bool dense = is_dense(t, strides);
    if (add_overflows(begin, dense ? bytes : t->type->bytes, &end) || end > storage->bytes) {
        error_set(err, PAWL_EDAMAGED, "a tensor has elements outside of its storage");
        error_expected(err, "a storage of at least %llu bytes", (unsigned long long)end);
        error_found(err, "%llu bytes", (unsigned long long)storage->bytes);
        return PAWL_EDAMAGED;
    }
    if (dense && !swap && !t->conjugated) {
        t->part.offset += begin;
        return PAWL_OK;
    }
    const stream_layout layout = {.stream = storage->stream,
                                  .offset = storage->offset + begin,
                                  .element_bytes = t->type->bytes,
                                  .swap_bytes = swap_bytes_of(t->type, swap),
                                  .conjugated = t->conjugated,
                                  .ndim = t->ndim,
                                  .shape = t->shape,
                                  .strides = strides};
    t->part.offset = 0;
    return stream_add_strided(a, &layout, storage->offset + storage->bytes, &t->part.stream, err);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static bool is_set(const pickle_node *metadata, const char *key) {
    const pickle_node *value = pickle_get(metadata, key);
    return value != NULL && value->kind == PICKLE_BOOL && value->truth;
}

/* Views that PyTorch makes lazily: the storage has what they are of. *listed: as what it is listed
 * then; NULL: it is read. */
static pawl_status take_changes(const pickle_node *node, const pickle_node *metadata,
                                torch_tensor *t, const torch_type **listed, pawl_error *err) {
    *listed = NULL;
    if (metadata == NULL || metadata->kind != PICKLE_DICT) {
        return PAWL_OK;
    }
    if (metadata->items.count / 2 > FOREIGN_MAX_PICKLE_ATTRIBUTES) {
        return bad_tensor(node, "too much is noted of it", err);
    }
    bool conjugate = is_set(metadata, "conj");
    bool negate = is_set(metadata, "neg");
    t->conjugated = conjugate && !negate && is_complex(t->type) && t->type->dtype != 0;
    if (!t->conjugated && (conjugate || negate)) {
        *listed = torch_type_changed(t->type, conjugate);
    }
    return PAWL_OK;
}

/* (storage, offset, size, stride, ...), and of _v3 the type as the seventh. */
static pawl_status take_rebuilt(const torch_source *s, const pickle_node *node,
                                const pickle_items *arguments, size_t type_at, torch_tensor *out,
                                pawl_error *err) {
    torch_storage storage;
    int64_t strides[PAWL_MAX_NDIM];
    int stride_count;
    const pickle_node *offset = argument(arguments, 1);
    const pickle_node *type = type_at > 0 ? argument(arguments, type_at) : NULL;
    TRY(take_storage(s, argument(arguments, 0), &out->type, &storage, err));
    if (type != NULL && type->kind == PICKLE_GLOBAL) {
        out->type = torch_type_named(type->global.name);
    }
    if (out->type == NULL) {
        return bad_tensor(node, "it has an unknown type", err);
    }
    if (offset == NULL || offset->kind != PICKLE_INT ||
        !torch_take_size(argument(arguments, 2), &out->ndim, out->shape) ||
        !torch_take_size(argument(arguments, 3), &stride_count, strides) ||
        stride_count != out->ndim) {
        return bad_tensor(node, "it has no size and strides, or too many dimensions", err);
    }
    const pickle_node *metadata = argument(arguments, type_at > 0 ? type_at + 1 : 6);
    const torch_type *listed;
    TRY(take_changes(node, metadata, out, &listed, err));
    TRY(torch_place_tensor(s->a, &storage, offset->integer, strides, out, err));
    out->type = listed != NULL ? listed : out->type;
    return PAWL_OK;
}

/* What _rebuild_parameter and _rebuild_from_type_v2 wrap; NULL: it is no tensor. */
static const pickle_node *unwrap(const pickle_node *node, const char **function,
                                 const pickle_items **arguments) {
    for (int depth = 0; depth < 8 && node != NULL && node->kind == PICKLE_CALL; depth++) {
        const pickle_node *callee = node->call->callee;
        *function = callee->global.name;
        *arguments = &node->call->arguments->items;
        if (pickle_is_global(callee, "torch._tensor", "_rebuild_from_type_v2") ||
            pickle_is_global(callee, "torch._tensor", "_rebuild_from_type")) {
            const pickle_node *inner = argument(*arguments, 0);
            const pickle_node *of = argument(*arguments, 2);
            if (inner == NULL || inner->kind != PICKLE_GLOBAL || of == NULL ||
                of->kind != PICKLE_TUPLE || strcmp(inner->global.module, UTILS) != 0) {
                return NULL;
            }
            *function = inner->global.name;
            *arguments = &of->items;
        } else if (strcmp(callee->global.module, UTILS) != 0) {
            return NULL;
        }
        if (strncmp(*function, "_rebuild_parameter", strlen("_rebuild_parameter")) != 0) {
            return node;
        }
        node = argument(*arguments, 0);
    }
    return NULL;
}

pawl_status torch_take_tensor(const torch_source *s, const pickle_node *node, torch_tensor *out,
                              bool *is, pawl_error *err) {
    const char *function = NULL;
    const pickle_items *arguments = NULL;
    if (node->kind == PICKLE_OUTSIDE && s->tensor != NULL) {
        *is = s->tensor(s->context, node->id, out);
        return PAWL_OK;
    }
    const pickle_node *call = unwrap(node, &function, &arguments);
    *is =
        call != NULL &&
        (strcmp(function, "_rebuild_tensor") == 0 || strcmp(function, "_rebuild_tensor_v2") == 0 ||
         strcmp(function, "_rebuild_tensor_v3") == 0 || strcmp(function, "_rebuild_qtensor") == 0);
    if (!*is) {
        return PAWL_OK;
    }
    *out = (torch_tensor){.type = NULL};
    return take_rebuilt(s, call, arguments, strcmp(function, "_rebuild_tensor_v3") == 0 ? 6 : 0,
                        out, err);
}

pawl_status torch_take_storage(const torch_source *s, const pickle_node *node, torch_tensor *out,
                               pawl_error *err) {
    static const int64_t stride = 1;
    torch_storage storage;
    *out = (torch_tensor){.ndim = 1};
    TRY(take_storage(s, node, &out->type, &storage, err));
    out->type = out->type != NULL ? out->type : torch_type_of(PAWL_U8);
    out->shape[0] = (int64_t)(storage.bytes / out->type->bytes);
    return torch_place_tensor(s->a, &storage, 0, &stride, out, err);
}
