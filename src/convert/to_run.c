/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a checkpoint to a step of a run. The tensors of the state that is saved are those of the
 * open checkpoint, read by the thread of the save, and cast on the way. While that one reads, the
 * caller uses the checkpoint no more.
 */
#include "checkpoint/step_directory.h"
#include "convert/convert.h"
#include "format/format.h"
#include "format/limits.h"
#include "run/run.h"
#include "source/source.h"
#include "tensor/tensor.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define WAIT_S      0.1
#define AHEAD_BYTES 25165824u /* 24 MiB: a whole number of elements of any type */
#define LARGE_BYTES 1048576u
#define TOGETHER    4096u /* small tensors that are read at once */

/* What the tensors of a conversion have in common. */
typedef struct lending {
    pawl_memory table;
    pawl_checkpoint *from;
    const convert_plan *plan;
    struct ahead {
        uint8_t *bytes; /* AHEAD_BYTES */
        const struct lent *of;
        uint64_t first, end; /* of the tensor, as the checkpoint has it */
    } ahead;                 /* the thread of the save's */
    atomic_uint_fast64_t read_bytes, overflows;
    atomic_bool stopped;
    arena packed; /* tensors of the checkpoint whose elements share bytes */
    /* The thread of the save's, then the caller's. */
    bool differs;
    struct pawl_error story; /* if it differs */
} lending;

/* A tensor of the state: its `data`. */
typedef struct lent {
    const plan_item *item;
    const pawl_tensor *from; /* as the checkpoint hands it out; NULL unless it is packed */
} lent;

/* ---- reading: the thread of the save -------------------------------------------------------- */

/* Elements that share bytes cannot be read in parts, but the checkpoint can copy any bytes. */
static pawl_status read_packed(const lent *t, int64_t offset, void *host, size_t bytes,
                               pawl_error *err) {
    const pawl_memory *memory = t->from->memory;
    const pawl_copy copy = {.struct_size = sizeof(copy),
                            .entry = t->item->from,
                            .data = t->from->data,
                            .offset = offset,
                            .host = host,
                            .bytes = bytes};
    const pawl_copy *const copies[] = {&copy};
    void *ticket = NULL;
    return memory->start_out(memory->context, copies, 1, &ticket, err);
}

/* Makes *ahead begin with that byte of the tensor, as the checkpoint has it. */
static pawl_status read_ahead(lending *l, const lent *t, uint64_t first, pawl_error *err) {
    CLEANUP(request_free) request r = {.slices = NULL};
    struct ahead *a = &l->ahead;
    uint64_t each = (uint64_t)pawl_dtype_bits(t->item->from_dtype) / 8;
    uint64_t left = t->item->from_bytes - first;
    uint64_t n = left < AHEAD_BYTES ? left : AHEAD_BYTES;
    if (a->bytes == NULL) {
        a->bytes = mem_pages(AHEAD_BYTES);
    }
    if (a->bytes == NULL) {
        return error_nomem(err, AHEAD_BYTES);
    }
    a->of = NULL;
    TRY(request_elements(&r, t->item, first / each, n / each, a->bytes, err));
    TRY(request_read(&r, l->from, err));
    a->of = t;
    a->first = first;
    a->end = first + n;
    return PAWL_OK;
}

/* Hands on what is read ahead, cast where it is to be: elements [done, n) of the copy. */
static pawl_status copy_ahead(lending *l, const pawl_copy *copy, pawl_error *err) {
    const lent *t = copy->data;
    const struct ahead *a = &l->ahead;
    size_t to_each = (size_t)pawl_dtype_bits(t->item->to->dtype) / 8;
    size_t from_each = (size_t)pawl_dtype_bits(t->item->from_dtype) / 8;
    uint64_t at = (uint64_t)copy->offset / to_each * from_each;
    uint8_t *to = copy->host;
    for (size_t left = copy->bytes / to_each; left > 0;) {
        if (a->of != t || at < a->first || at >= a->end) {
            TRY(read_ahead(l, t, at, err));
        }
        uint64_t there = (a->end - at) / from_each;
        size_t n = left < there ? left : (size_t)there;
        const uint8_t *from = a->bytes + (at - a->first);
        if (t->item->to->dtype == t->item->from_dtype) {
            memcpy(to, from, n * to_each);
        } else {
            uint64_t overflows =
                cast_elements(t->item->to->dtype, to, t->item->from_dtype, from, n);
            (void)atomic_fetch_add(&l->overflows, overflows);
        }
        to += n * to_each;
        at += n * from_each;
        left -= n;
        (void)atomic_fetch_add(&l->read_bytes, n * from_each);
    }
    return PAWL_OK;
}

/* A small one is read with others, a large one ahead of the next. */
static pawl_status read_one(lending *l, const pawl_copy *copy, request *small, pawl_error *err) {
    const lent *t = copy->data;
    size_t bits = (size_t)pawl_dtype_bits(t->item->to->dtype);
    if (bits % 8 == 0 &&
        (t->item->to->dtype != t->item->from_dtype || copy->bytes >= LARGE_BYTES)) {
        return copy_ahead(l, copy, err);
    }
    (void)atomic_fetch_add(&l->read_bytes, copy->bytes);
    if (bits % 8 != 0) {
        return read_packed(t, copy->offset, copy->host, copy->bytes, err);
    }
    return request_elements(small, t->item, (uint64_t)copy->offset / (bits / 8),
                            copy->bytes / (bits / 8), copy->host, err);
}

static int is_stopped(void *context) {
    lending *l = context;
    return atomic_load(&l->stopped);
}

/* Compares what was read with its checksums. */
static pawl_status compare_sums(lending *l, pawl_error *err) {
    pawl_status status = source_check_sums(checkpoint_source(l->from), is_stopped, l, err);
    if (status != PAWL_OK) {
        l->differs = true;
        l->story = *err;
    }
    return status;
}

/* The last copy fails where a checksum differs, and with it the save. */
static pawl_status read_copies(void *context, const pawl_copy *const *copies, size_t count,
                               void **ticket, pawl_error *err) {
    CLEANUP(request_free) request small = {.slices = NULL};
    lending *l = context;
    (void)ticket; /* all is read when this returns */
    for (size_t i = 0; i < count; i++) {
        TRY(read_one(l, copies[i], &small, err));
        TRY(small.count >= TOGETHER ? request_read(&small, l->from, err) : PAWL_OK);
    }
    TRY(request_read(&small, l->from, err));
    return atomic_load(&l->read_bytes) < l->plan->from_bytes ? PAWL_OK : compare_sums(l, err);
}

/* ---- the state ------------------------------------------------------------------------------ */

static pawl_status add_tensor(lending *l, const plan_item *item, lent *t, pawl_state *state,
                              pawl_error *err) {
    const writer_item *to = item->to;
    *t = (lent){.item = item};
    if (pawl_dtype_bits(to->dtype) % 8 != 0) {
        pawl_tensor *from = arena_take(&l->packed, sizeof(*from), err);
        if (from == NULL) {
            return PAWL_ENOMEM;
        }
        *from = (pawl_tensor){.struct_size = sizeof(*from)};
        TRY(checkpoint_tensor(l->from, item->from, from, err));
        t->from = from;
    }
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = to->name,
                                .dtype = to->dtype,
                                .ndim = to->ndim,
                                .shape = to->shape,
                                .data = t,
                                .role = to->role,
                                .slot_of = to->slot_of,
                                .slot = to->slot,
                                .memory = &l->table};
    return state_add_tensor(state, &tensor, err);
}

static pawl_status fill_state(lending *l, lent *tensors, pawl_state *state, pawl_error *err) {
    for (size_t i = 0; i < l->plan->count; i++) {
        const plan_item *item = &l->plan->items[i];
        const writer_item *to = item->to;
        if (to->kind == PAWL_KIND_TENSOR) {
            TRY(add_tensor(l, item, &tensors[i], state, err));
        } else {
            TRY(state_set_value(state, to->name, to->kind, to->role, false, to->value,
                                to->value_bytes, err));
        }
    }
    return PAWL_OK;
}

/* ---- the save ------------------------------------------------------------------------------- */

static bool is_stop_wanted(const pawl_convert_options *o) {
    return o->stop != NULL && o->stop(o->context) != 0;
}

static void tell_progress(lending *l, const pawl_convert_options *o) {
    if (o->progress != NULL) {
        o->progress(o->context, atomic_load(&l->read_bytes), l->plan->from_bytes);
    }
}

static pawl_status wait_for_save(pawl_run *run, lending *l, const pawl_convert_options *o,
                                 pawl_error *err) {
    for (;;) {
        struct pawl_error story = ERROR_INIT;
        pawl_status status = run_wait(run, WAIT_S, NULL, &story);
        tell_progress(l, o);
        if (status != PAWL_ETIMEOUT) {
            *err = story;
            return status;
        }
        if (is_stop_wanted(o)) {
            struct pawl_error ignored = ERROR_INIT;
            atomic_store(&l->stopped, true);
            (void)!run_cancel(run, 0, &ignored);
            return error_set(err, PAWL_ECANCELED, "the conversion was stopped by its caller");
        }
    }
}

static int64_t step_of(const pawl_checkpoint *from, const pawl_convert_options *o) {
    int64_t own = checkpoint_step(from);
    return o->step != NULL ? *o->step : own >= 0 ? own : 0;
}

/* A save would replace a step that is there. */
static pawl_status check_step_free(store *into, int64_t step, pawl_error *err) {
    char directory[32];
    bool there;
    name_step(directory, step);
    TRY(step_prove_manifest(into, directory, &there, err));
    if (!there) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "the run has step %lld already", (long long)step);
    error_path(err, "%s", into->root);
    error_step(err, step);
    error_expected(err, "a step that the run does not have");
    error_next(err,
               "give the new one a step of its own (%s@STEP, options.step), or remove the old one "
               "first: pawl rm %s@%lld",
               into->root, into->root, (long long)step);
    return PAWL_EUSAGE;
}

static pawl_status save_state(pawl_run *run, pawl_state *state, lending *l,
                              const pawl_convert_options *o, pawl_error *err) {
    const pawl_save_options options = {.struct_size = sizeof(options)};
    if (l->plan->from_bytes == 0) {
        TRY(compare_sums(l, err));
    }
    TRY(run_save(run, state, step_of(l->from, o), &options, err));
    return wait_for_save(run, l, o, err);
}

static pawl_status save_all(lending *l, lent *tensors, store *into, const pawl_convert_options *o,
                            const platform *os, pawl_error *err) {
    const pawl_run_options options = {
        .struct_size = sizeof(options), .framework = "pawl convert", .on_busy = PAWL_ON_BUSY_ERROR};
    pawl_run *run = NULL;
    pawl_state *state = NULL;
    struct pawl_error story = ERROR_INIT;
    TRY(run_open(into, &options, os, &run, err));
    pawl_status status = check_step_free(into, step_of(l->from, o), err); /* it has an owner now */
    if (status == PAWL_OK) {
        status = state_new(&state, err);
    }
    if (status == PAWL_OK) {
        status = fill_state(l, tensors, state, err);
    }
    if (status == PAWL_OK) {
        status = save_state(run, state, l, o, err);
    }
    pawl_status closed = run_close(run, 0, &story);
    state_free(state);
    if (status == PAWL_OK && closed != PAWL_OK) {
        *err = story;
        return closed;
    }
    return status;
}

/* A run in a directory of something else would hide what is there. */
static pawl_status check_run(store *into, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    TRY(store_names(into, "", FORMAT_MAX_NAMES, &memory, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        if (name_makes_run(names[i])) {
            return PAWL_OK;
        }
    }
    if (count == 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "the directory has something else in it, and is no run");
    error_path(err, "%s", into->root);
    error_expected(err, "a run, an empty directory, or a name that is free");
    error_found(err, "%zu names, the first is %.200s", count, names[0]);
    error_next(err, "choose another name, or say which format is to be written (to)");
    return PAWL_EUSAGE;
}

pawl_status convert_to_run(pawl_checkpoint *from, const convert_plan *plan, store *into,
                           const pawl_convert_options *options, const platform *os,
                           pawl_convert_result *result, pawl_error *err) {
    lending l = {.from = from, .plan = plan};
    AUTOFREE lent *tensors = mem_calloc(plan->count + 1, sizeof(*tensors));
    l.table = (pawl_memory){.struct_size = sizeof(l.table),
                            .name = "checkpoint that is converted",
                            .context = &l,
                            .start_out = read_copies};
    atomic_init(&l.read_bytes, 0);
    atomic_init(&l.overflows, 0);
    atomic_init(&l.stopped, false);
    if (tensors == NULL) {
        store_destroy(into);
        return error_nomem(err, plan->count * sizeof(*tensors));
    }
    pawl_status status = check_run(into, err);
    if (status == PAWL_OK) {
        status = check_step_free(into, step_of(from, options), err);
    }
    if (status != PAWL_OK || options->dry_run) {
        store_destroy(into);
        return status;
    }
    status = source_note_begin(checkpoint_source(from), err);
    if (status == PAWL_OK) {
        status = save_all(&l, tensors, into, options, os, err);
    } else {
        store_destroy(into);
    }
    source_note_end(checkpoint_source(from));
    mem_free(l.ahead.bytes);
    arena_free(&l.packed);
    result->overflows = atomic_load(&l.overflows);
    if (l.differs && status != PAWL_ECANCELED) {
        *err = l.story;
        return err->status;
    }
    return status;
}
