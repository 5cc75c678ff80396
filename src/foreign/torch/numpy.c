/* SPDX-License-Identifier: Apache-2.0 */
/* What NumPy pickles: calls of functions that would have made arrays and numbers of bytes. */
#include "foreign/torch/numpy.h"
#include "foreign/torch/object.h"

#include <string.h>

static bool is_of_multiarray(const pickle_node *node, const char *name) {
    return pickle_is_call(node, "numpy.core.multiarray", name) ||
           pickle_is_call(node, "numpy._core.multiarray", name);
}

/* numpy.dtype("f4", False, True), with the state (3, "<", None, ...). */
static bool take_type(const pickle_node *node, numpy_type *out) {
    static const char *const known[] = {"b1", "i1", "i2", "i4", "i8", "u1", "u2",
                                        "u4", "u8", "f2", "f4", "f8", "c8", "c16"};
    const pickle_items *arguments =
        pickle_is_call(node, "numpy", "dtype") ? &node->call->arguments->items : NULL;
    if (arguments == NULL || arguments->count == 0) {
        return false;
    }
    const pickle_node *state = node->call->with->state;
    bool ordered = state != NULL && state->kind == PICKLE_TUPLE && state->items.count > 1;
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        if (pickle_says(arguments->nodes[0], known[i])) {
            const char *text = known[i];
            uint32_t bytes = (uint32_t)(text[1] - '0');
            *out = (numpy_type){.kind = text[0],
                                .bytes = text[2] != '\0' ? 16 : bytes,
                                .swapped = ordered && pickle_says(state->items.nodes[1], ">")};
            return true;
        }
    }
    return false;
}

/* Reverses what is in order together: of a complex number each of its two. */
static void put_in_order(const numpy_type *t, uint8_t *bytes, size_t n) {
    size_t each = t->kind == 'c' ? t->bytes / 2 : t->bytes;
    for (size_t at = 0; t->swapped && at + each <= n; at += each) {
        for (size_t i = 0; i < each / 2; i++) {
            uint8_t one = bytes[at + i];
            bytes[at + i] = bytes[at + each - 1 - i];
            bytes[at + each - 1 - i] = one;
        }
    }
}

bool numpy_take_scalar(const pickle_node *node, numpy_type *type, uint8_t bytes[16]) {
    CLEANUP(buffer_free) buffer raw = {0};
    struct pawl_error ignored = ERROR_INIT;
    const pickle_items *arguments =
        is_of_multiarray(node, "scalar") ? &node->call->arguments->items : NULL;
    bool is = false;
    if (arguments == NULL || arguments->count != 2 || !take_type(arguments->nodes[0], type) ||
        torch_take_bytes(arguments->nodes[1], &raw, &is, &ignored) != PAWL_OK || !is ||
        raw.size != type->bytes) {
        return false;
    }
    memcpy(bytes, raw.data, raw.size);
    put_in_order(type, bytes, raw.size);
    return true;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

typedef struct array {
    numpy_type type;
    int ndim;
    int64_t shape[PAWL_MAX_NDIM];
    bool column_major;
    const pickle_node *raw;
} array;

/* _frombuffer(bytes, dtype, shape, order), of protocol 5. */
static bool take_buffer(const pickle_node *node, array *out) {
    bool is = pickle_is_call(node, "numpy.core.numeric", "_frombuffer") ||
              pickle_is_call(node, "numpy._core.numeric", "_frombuffer");
    const pickle_items *arguments = is ? &node->call->arguments->items : NULL;
    if (arguments == NULL || arguments->count != 4) {
        return false;
    }
    out->raw = arguments->nodes[0];
    out->column_major = pickle_says(arguments->nodes[3], "F");
    return torch_take_size(arguments->nodes[2], &out->ndim, out->shape) &&
           take_type(arguments->nodes[1], &out->type);
}

/* _reconstruct(ndarray, (0,), "b"), with the state (1, shape, dtype, column-major, bytes). */
static bool take_array(const pickle_node *node, array *out) {
    const pickle_items *arguments =
        is_of_multiarray(node, "_reconstruct") ? &node->call->arguments->items : NULL;
    const pickle_node *state = arguments != NULL ? node->call->with->state : NULL;
    if (state == NULL || arguments->count == 0 ||
        !pickle_is_global(arguments->nodes[0], "numpy", "ndarray") || state->kind != PICKLE_TUPLE ||
        state->items.count != 5) {
        return false;
    }
    pickle_node *const *of = state->items.nodes;
    out->column_major = of[3]->kind == PICKLE_BOOL && of[3]->truth;
    out->raw = of[4];
    return torch_take_size(of[1], &out->ndim, out->shape) && take_type(of[2], &out->type);
}

bool numpy_is_array(const pickle_node *node) {
    array found;
    return take_array(node, &found) || take_buffer(node, &found);
}

static pawl_dtype dtype_of(const numpy_type *t) {
    static const struct {
        char kind;
        uint32_t bytes;
        pawl_dtype dtype;
    } all[] = {
        {'b', 1, PAWL_BOOL}, {'i', 1, PAWL_I8},   {'i', 2, PAWL_I16}, {'i', 4, PAWL_I32},
        {'i', 8, PAWL_I64},  {'u', 1, PAWL_U8},   {'u', 2, PAWL_U16}, {'u', 4, PAWL_U32},
        {'u', 8, PAWL_U64},  {'f', 2, PAWL_F16},  {'f', 4, PAWL_F32}, {'f', 8, PAWL_F64},
        {'c', 8, PAWL_C64},  {'c', 16, PAWL_F64}, /* two of them */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        if (all[i].kind == t->kind && all[i].bytes == t->bytes) {
            return all[i].dtype;
        }
    }
    return 0; /* none that take_type takes */
}

static bool fits(const array *a, size_t bytes) {
    uint64_t need = a->type.bytes;
    for (int d = 0; d < a->ndim; d++) {
        if (a->shape[d] < 0 || multiply_overflows(need, (uint64_t)a->shape[d], &need)) {
            return false;
        }
    }
    return need == bytes;
}

/* Row-major of column-major: the place of each element counts up in the last dimension first. */
static void turn(const array *a, const uint8_t *from, uint8_t *to, size_t bytes) {
    int64_t at[PAWL_MAX_NDIM] = {0};
    size_t each = a->type.bytes;
    for (size_t i = 0; i < bytes; i += each) {
        size_t place = 0;
        for (int d = a->ndim - 1; d >= 0; d--) {
            place = place * (size_t)a->shape[d] + (size_t)at[d];
        }
        memcpy(to + i, from + place * each, each);
        for (int d = a->ndim - 1; d >= 0 && ++at[d] == a->shape[d]; d--) {
            at[d] = 0;
        }
    }
}

pawl_status numpy_add_array(archive *a, const char *name, const pickle_node *node, bool *is,
                            pawl_error *err) {
    CLEANUP(buffer_free) buffer raw = {0};
    CLEANUP(buffer_free) buffer turned = {0};
    array found;
    archive_part part;
    *is = take_array(node, &found) || take_buffer(node, &found);
    if (*is) {
        TRY(torch_take_bytes(found.raw, &raw, is, err));
    }
    *is = *is && fits(&found, raw.size);
    if (!*is) {
        return PAWL_OK;
    }
    buffer *bytes = &raw;
    if (found.column_major && found.ndim > 1 && raw.size > 0) {
        TRY(buffer_reserve(&turned, raw.size, err));
        turned.size = raw.size;
        turn(&found, raw.data, turned.data, raw.size);
        bytes = &turned;
    }
    put_in_order(&found.type, bytes->data, bytes->size);
    TRY(archive_keep_bytes(a, bytes->data, bytes->size, &part, err));
    const archive_tensor tensor = {.name = name,
                                   .dtype = dtype_of(&found.type),
                                   .type = found.type.bytes == 16 ? "C128" : NULL,
                                   .ndim = found.ndim,
                                   .shape = found.shape,
                                   .parts = &part,
                                   .part_count = 1};
    return archive_add_tensor(a, &tensor, err);
}
