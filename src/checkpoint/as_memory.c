/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of an open checkpoint as tensors of a state, so that a save copies them: their memory is
 * the checkpoint (pawl/memory.h). The one that calls is a save's thread, so it reads through a
 * checkpoint of its own; a lock keeps several saves apart.
 */
#include "checkpoint/private.h"

#include <stdio.h>
#include <string.h>

/* One tensor: the `data` of what is handed out. */
typedef struct lent_tensor {
    struct lent_tensor *next;
    arena memory;
    const char *name;
    box whole;
    pawl_dtype dtype;
} lent_tensor;

struct checkpoint_memory {
    pawl_memory table;
    char name[PAWL_MAX_MEMORY_NAME_BYTES + 1];
    monitor guard;
    pawl_checkpoint *checkpoint; /* used under the guard alone */
    lent_tensor *lent;
};

/* ---- reading: the thread of a save ---------------------------------------------------------- */

/* Elements that share bytes cannot be cut into boxes, but a piece can be cut between bytes. */
static pawl_status read_packed(pawl_checkpoint *c, const lent_tensor *t, uint64_t from, uint8_t *to,
                               size_t n, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    record_entry entry = {0};
    TRY(checkpoint_entry(c, t->name, &memory, &entry, err));
    return checkpoint_piece_bytes(c, &entry, &entry.pieces[0], from, to, n, err);
}

/* Bytes [from, from+n) of the dense row-major form of the tensor, box by box. */
static pawl_status read_range(pawl_checkpoint *c, const lent_tensor *t, uint64_t from, uint8_t *to,
                              size_t n, pawl_error *err) {
    size_t item = (size_t)pawl_dtype_bits(t->dtype) / 8;
    if (pawl_dtype_bits(t->dtype) % 8 != 0) {
        return read_packed(c, t, from, to, n, err);
    }
    uint64_t element = from / item;
    for (uint64_t left = n / item; left > 0;) {
        box b = box_leading(&t->whole, element, left);
        uint64_t count = box_elements(&b);
        size_t bytes = (size_t)count * item;
        TRY(checkpoint_read(c, t->name, b.offset, b.extent, to, bytes, err));
        to += bytes;
        element += count;
        left -= count;
    }
    return PAWL_OK;
}

static pawl_status read_copies(void *context, const pawl_copy *const *copies, size_t count,
                               void **ticket, pawl_error *err) {
    checkpoint_memory *m = context;
    (void)ticket; /* all is read when this returns */
    CLEANUP(monitor_leave_pointer) monitor *held = &m->guard;
    monitor_enter(held);
    for (size_t i = 0; i < count; i++) {
        const pawl_copy *copy = copies[i];
        TRY(read_range(m->checkpoint, copy->data, (uint64_t)copy->offset, copy->host, copy->bytes,
                       err));
    }
    return PAWL_OK;
}

/* ---- handing out: the checkpoint's thread --------------------------------------------------- */

void checkpoint_memory_free(checkpoint_memory *m) {
    if (m == NULL) {
        return;
    }
    while (m->lent != NULL) {
        arena memory = m->lent->memory;
        m->lent = m->lent->next;
        arena_free(&memory);
    }
    pawl_checkpoint_close(m->checkpoint);
    monitor_destroy(&m->guard);
    mem_free(m);
}

static void name_memory(checkpoint_memory *m, const struct source *s) {
    if (s->step >= 0) {
        (void)snprintf(m->name, sizeof(m->name), "checkpoint of %s", s->label);
    } else { /* its label is a name from outside */
        (void)snprintf(m->name, sizeof(m->name), "checkpoint (%s)", s->format);
    }
}

static pawl_status open_memory(pawl_checkpoint *c, pawl_error *err) {
    if (c->memory != NULL) {
        return PAWL_OK;
    }
    checkpoint_memory *m = mem_calloc(1, sizeof(*m));
    if (m == NULL) {
        return error_nomem(err, sizeof(*m));
    }
    pawl_status status = monitor_init(&m->guard, err);
    if (status != PAWL_OK) {
        mem_free(m);
        return status;
    }
    status = checkpoint_open_again(c, &m->checkpoint, err);
    if (status != PAWL_OK) {
        checkpoint_memory_free(m);
        return status;
    }
    name_memory(m, c->source);
    m->table = (pawl_memory){
        .struct_size = sizeof(m->table), .name = m->name, .context = m, .start_out = read_copies};
    c->memory = m;
    return PAWL_OK;
}

static pawl_status check_lendable(const record_entry *entry, pawl_error *err) {
    if (pawl_dtype_bits(entry->dtype) % 8 == 0 || entry->piece_count <= 1) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUNSUPPORTED, "a packed tensor in several pieces cannot be copied");
    error_entry(err, entry->name);
    error_found(err, "%zu pieces of %s, whose elements share bytes", entry->piece_count,
                pawl_dtype_name(entry->dtype));
    error_next(err, "read it piece by piece with pawl_checkpoint_read");
    return PAWL_EUNSUPPORTED;
}

static void describe(const checkpoint_memory *m, lent_tensor *t, const record_entry *entry,
                     pawl_tensor *out) {
    *out = (pawl_tensor){.struct_size = out->struct_size,
                         .name = entry->name,
                         .dtype = entry->dtype,
                         .ndim = entry->ndim,
                         .shape = entry->shape,
                         .data = t,
                         .role = entry->role,
                         .slot_of = entry->slot_of,
                         .slot = entry->slot,
                         .memory = &m->table};
}

pawl_status checkpoint_tensor(pawl_checkpoint *c, const char *name, pawl_tensor *out,
                              pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    record_entry entry = {0};
    TRY(checkpoint_tensor_entry(c, name, "can be copied as tensors", &memory, &entry, err));
    TRY(check_lendable(&entry, err));
    TRY(open_memory(c, err));
    lent_tensor *t = arena_take(&memory, sizeof(*t), err);
    if (t == NULL) {
        return PAWL_ENOMEM;
    }
    *t = (lent_tensor){.next = c->memory->lent,
                       .name = entry.name,
                       .whole = box_whole(entry.ndim, entry.shape),
                       .dtype = entry.dtype};
    describe(c->memory, t, &entry, out);
    t->memory = memory; /* which it is in itself */
    memory = (arena){0};
    c->memory->lent = t;
    return PAWL_OK;
}
