/* SPDX-License-Identifier: Apache-2.0 */
/* Making, sharing and freeing one entry, and the memory of its boxes. */
#include "state/entry.h"

#include <assert.h>
#include <string.h>

/* Hands out parts of one allocation; numbers first, so that they stay aligned, then bytes. */
typedef struct packer {
    uint8_t *at;
} packer;

static int64_t *pack_numbers(packer *p, const int64_t *numbers, int n) {
    int64_t *copy = (int64_t *)(void *)p->at;
    if (n > 0) {
        memcpy(copy, numbers, (size_t)n * sizeof(*copy));
    }
    p->at += (size_t)n * sizeof(*copy);
    return copy;
}

static const char *pack_text(packer *p, const char *text) {
    if (text == NULL) {
        return NULL;
    }
    size_t size = strlen(text) + 1;
    char *copy = memcpy(p->at, text, size);
    p->at += size;
    return copy;
}

static size_t text_size(const char *text) {
    return text == NULL ? 0 : strlen(text) + 1;
}

static size_t tensor_box_count(const pawl_tensor *tensor) {
    return tensor->nboxes == 0 ? 1 : tensor->nboxes;
}

/* Enough for all of it, even if every box has strides. One box that is all of the tensor needs no
 * numbers of its own. */
static size_t tensor_entry_bytes(const pawl_tensor *tensor) {
    size_t boxes = tensor_box_count(tensor);
    size_t arrays = tensor->nboxes > 0 ? 3 * boxes : tensor->strides != NULL ? 1 : 0;
    size_t numbers = (size_t)tensor->ndim * (1 + arrays);
    return sizeof(held_entry) + boxes * sizeof(state_box) + numbers * sizeof(int64_t) +
           text_size(tensor->name) + text_size(tensor->slot_of) + text_size(tensor->slot);
}

static const int64_t origin[PAWL_MAX_NDIM];

static const int64_t *pack_strides(packer *p, const pawl_tensor *tensor, const int64_t *extent,
                                   const int64_t *strides) {
    if (strides == NULL || strides_are_dense(tensor->dtype, tensor->ndim, extent, strides)) {
        return NULL;
    }
    return pack_numbers(p, strides, tensor->ndim);
}

static void pack_box(packer *p, const pawl_tensor *tensor, const int64_t *shape, size_t i,
                     state_box *out) {
    if (tensor->nboxes == 0) {
        out->data = tensor->data;
        out->begin = 0;
        out->offset = origin;
        out->extent = shape;
        out->strides = pack_strides(p, tensor, shape, tensor->strides);
        return;
    }
    const pawl_box *from = &tensor->boxes[i];
    out->data = from->data;
    out->begin = 0;
    out->offset = pack_numbers(p, from->offset, tensor->ndim);
    out->extent = pack_numbers(p, from->extent, tensor->ndim);
    out->strides = pack_strides(p, tensor, out->extent, from->strides);
}

static held_entry *entry_new(size_t bytes) {
    held_entry *e = mem_alloc(bytes);
    if (e != NULL) {
        memset(e, 0, sizeof(*e));
        atomic_init(&e->references, 1);
    }
    return e;
}

held_entry *entry_of_tensor(const pawl_tensor *tensor) {
    held_entry *e = entry_new(tensor_entry_bytes(tensor));
    if (e == NULL) {
        return NULL;
    }
    size_t count = tensor_box_count(tensor);
    state_box *boxes = (state_box *)(void *)(e + 1);
    packer p = {.at = (uint8_t *)(boxes + count)};
    state_entry *seen = &e->seen;
    seen->kind = PAWL_KIND_TENSOR;
    seen->role = tensor->role;
    seen->replicated = tensor->replicated != 0;
    seen->copied = tensor->copied != 0;
    seen->replica = tensor->replica;
    seen->replica_count = tensor->replica_count;
    seen->memory = tensor->memory;
    seen->dtype = tensor->dtype;
    seen->ndim = tensor->ndim;
    seen->shape = pack_numbers(&p, tensor->shape, tensor->ndim);
    seen->box_count = count;
    for (size_t i = 0; i < count; i++) {
        pack_box(&p, tensor, seen->shape, i, &boxes[i]);
    }
    seen->boxes = boxes;
    seen->name = pack_text(&p, tensor->name);
    if (tensor->role == PAWL_ROLE_SLOT) {
        seen->slot_of = pack_text(&p, tensor->slot_of);
        seen->slot = pack_text(&p, tensor->slot);
    }
    return e;
}

held_entry *entry_of_value(const char *name, pawl_kind kind, pawl_role role, bool per_rank,
                           const void *bytes, size_t n) {
    int64_t length = (int64_t)n;
    held_entry *e = entry_new(sizeof(held_entry) + sizeof(length) + text_size(name) + n + 1);
    if (e == NULL) {
        return NULL;
    }
    packer p = {.at = (uint8_t *)(e + 1)};
    state_entry *seen = &e->seen;
    seen->kind = kind;
    seen->role = role;
    seen->per_rank = per_rank;
    seen->dtype = dtype_of_value(kind);
    seen->ndim = seen->dtype == PAWL_U8 ? 1 : 0;
    seen->shape = pack_numbers(&p, &length, 1);
    seen->name = pack_text(&p, name);
    if (n > 0) {
        memcpy(p.at, bytes, n);
    }
    p.at[n] = '\0'; /* not counted: strings and JSON are read in place */
    seen->value = p.at;
    seen->value_bytes = n;
    return e;
}

held_entry *entry_hold(const state_entry *e) {
    held_entry *held = entry_held(e);
    atomic_fetch_add_explicit(&held->references, 1, memory_order_relaxed);
    return held;
}

void entry_let_go(const state_entry *e) {
    held_entry *held = entry_held(e);
    if (held != NULL &&
        atomic_fetch_sub_explicit(&held->references, 1, memory_order_acq_rel) == 1) {
        mem_free(held);
    }
}

strided state_box_memory(const state_entry *e, const state_box *from) {
    return (strided){.dtype = e->dtype,
                     .box = box_of(e->ndim, from->offset, from->extent),
                     .strides = from->strides,
                     .data = from->data};
}

strided state_entry_memory(const state_entry *e, size_t i) {
    assert(e->kind == PAWL_KIND_TENSOR && i < e->box_count);
    return state_box_memory(e, &e->boxes[i]);
}
