/* SPDX-License-Identifier: Apache-2.0 */
/* Verified bytes of a restore, staged and copied into the memory of providers. */
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/mover.h"

#include <stdio.h>

#define STAGES      4 /* one is filled while the others are copied */
#define STAGE_BYTES ((size_t)ENGINE_BUFFER_BYTES)
#define MOST_COPIES ((size_t)16384)    /* of a stage */
#define STEP_BYTES  ((size_t)64 << 10) /* that are cast at a time, to at most 8 times as many */

typedef struct stage {
    delivery *delivery;
    const pawl_memory *memory; /* that it is copied to; NULL: it is free */
    const pawl_memory *from;   /* whose allocation `bytes` is; NULL: our own */
    uint8_t *bytes;
    size_t used;
    unsigned writers; /* threads that put bytes into it */
    bool closed;      /* nothing more is put into it */
    plan_copies copies;
    mover_batch batch;
    size_t unfinished; /* jobs, and one for whoever submits them */
} stage;

struct delivery {
    const platform *platform;
    double timeout_s;
    mover *mover;
    monitor monitor;
    /* Guarded by it. */
    stage stages[STAGES];
    stage *open; /* the one that is being filled; NULL: none */
    uint64_t progress_ns;
    size_t under_way; /* stages that are closed */
    pawl_status status;
    struct pawl_error story;

    atomic_bool failed;
    state_snapshot *left; /* of a delivery that is left to its mover: has the names of its copies */
};

static void delivery_free(delivery *d) {
    for (size_t i = 0; i < STAGES; i++) {
        stage *s = &d->stages[i];
        if (s->from != NULL && s->bytes != NULL) {
            s->from->release(s->from->context, s->bytes, STAGE_BYTES);
        } else {
            mem_free(s->bytes);
        }
        mem_free(s->copies.items);
        mover_batch_free(&s->batch);
    }
    state_snapshot_free(d->left);
    monitor_destroy(&d->monitor);
    mem_free(d);
}

pawl_status delivery_new(const platform *os, double timeout_s, delivery **out, pawl_error *err) {
    delivery *d = mem_calloc(1, sizeof(*d));
    if (d == NULL) {
        return error_nomem(err, sizeof(*d));
    }
    d->platform = os;
    d->timeout_s = timeout_s;
    d->progress_ns = platform_now_ns(os);
    d->story = ERROR_INIT;
    atomic_init(&d->failed, false);
    pawl_status status = monitor_init(&d->monitor, err);
    if (status != PAWL_OK) {
        mem_free(d);
        return status;
    }
    status = mover_new(os, NULL, NULL, &d->mover, err);
    if (status != PAWL_OK) {
        delivery_free(d);
        return status;
    }
    *out = d;
    return PAWL_OK;
}

const atomic_bool *delivery_failed(const delivery *d) {
    return &d->failed;
}

/* Monitor held. */
static void fail(delivery *d, pawl_status status, const pawl_error *story) {
    d->status = status;
    d->story = *story;
    atomic_store(&d->failed, true);
    monitor_announce(&d->monitor);
}

/* Monitor held. The first failure is the one that is told. */
static void note_failure(delivery *d, pawl_status status, const pawl_error *story) {
    if (d->status == PAWL_OK) {
        fail(d, status, story);
    }
}

/* ---- a stage on its way --------------------------------------------------------------------- */

/* Monitor held. */
static void stage_reset(stage *s) {
    delivery *d = s->delivery;
    s->memory = NULL;
    s->used = 0;
    s->closed = false;
    s->copies.count = 0;
    s->batch.job_count = 0;
    d->under_way--;
    monitor_announce(&d->monitor);
}

static void part_ended(stage *s) {
    delivery *d = s->delivery;
    monitor_enter(&d->monitor);
    d->progress_ns = platform_now_ns(d->platform);
    if (--s->unfinished == 0) {
        stage_reset(s);
    }
    monitor_leave(&d->monitor);
}

static void job_ended(mover_job *job, pawl_status status, const pawl_error *story) {
    stage *s = job->context;
    if (status != PAWL_OK) {
        monitor_enter(&s->delivery->monitor);
        note_failure(s->delivery, status, story);
        monitor_leave(&s->delivery->monitor);
    }
    part_ended(s);
}

/* Monitor not held. The stage is closed, and nobody writes to it. */
static void stage_send(stage *s) {
    delivery *d = s->delivery;
    struct pawl_error story = ERROR_INIT;
    pawl_status status = mover_batch_make(&s->batch, &s->copies, true, job_ended, s, &story);
    size_t jobs = status == PAWL_OK && !atomic_load(&d->failed) ? s->batch.job_count : 0;
    monitor_enter(&d->monitor);
    s->unfinished = jobs + 1;
    if (status != PAWL_OK) {
        note_failure(d, status, &story);
    }
    monitor_leave(&d->monitor);
    for (size_t i = 0; i < jobs; i++) {
        mover_submit(d->mover, &s->batch.jobs[i]);
    }
    part_ended(s);
}

/* Monitor held. Is it to be sent by the caller, without the monitor? */
static bool stage_close(stage *s) {
    delivery *d = s->delivery;
    s->closed = true;
    d->under_way++;
    d->open = NULL;
    return s->writers == 0;
}

/* ---- finding room --------------------------------------------------------------------------- */

/* Monitor held: the time is up, and the provider has completed nothing meanwhile. */
static bool hangs(const delivery *d) {
    return platform_now_ns(d->platform) >= d->progress_ns + (uint64_t)(d->timeout_s * NANOSECONDS);
}

/* Told instead of an earlier failure: the tensors must stay. */
static void say_hangs(delivery *d, const mover_wait *oldest) {
    struct pawl_error story = ERROR_INIT;
    char waited[32];
    error_set(&story, PAWL_EIO, "the memory \"%s\" hangs: no copy to it has ended for %s",
              oldest->memory, text_seconds(waited, d->timeout_s));
    error_entry(&story, oldest->entry);
    error_safe(&story, "the checkpoint is as it was");
    error_next(&story, "look at the device (its driver's log); until it answers it may still "
                       "change the tensors, and their memory must stay valid");
    fail(d, PAWL_EIO, &story);
}

/* Monitor held. False: it hangs, which is noted. */
static bool wait_for_copies(delivery *d) {
    uint64_t until_ns = d->progress_ns + (uint64_t)(d->timeout_s * NANOSECONDS);
    if (monitor_wait_until(&d->monitor, until_ns) || !hangs(d)) {
        return true;
    }
    mover_wait oldest;
    mover_look(d->mover, &oldest);
    if (oldest.jobs == 0) { /* the last one has just ended, and waits for the monitor */
        return true;
    }
    say_hangs(d, &oldest);
    return false;
}

static stage *find_free(delivery *d) {
    for (size_t i = 0; i < STAGES; i++) {
        if (d->stages[i].memory == NULL) {
            return &d->stages[i];
        }
    }
    return NULL;
}

static pawl_status open_stage(delivery *d, stage *s, const pawl_memory *memory, pawl_error *err) {
    if (s->bytes == NULL) {
        s->from = memory->allocate != NULL ? memory : NULL;
        s->bytes = s->from != NULL ? memory->allocate(memory->context, STAGE_BYTES)
                                   : mem_pages(STAGE_BYTES);
    }
    if (s->bytes == NULL) {
        return error_nomem(err, STAGE_BYTES);
    }
    if (d->under_way == 0) {
        d->progress_ns = platform_now_ns(d->platform); /* nothing was waited for */
    }
    s->delivery = d;
    s->memory = memory;
    d->open = s;
    return PAWL_OK;
}

static bool has_room(const stage *s, const pawl_memory *memory, size_t n) {
    return s->memory == memory && STAGE_BYTES - s->used >= n && s->copies.count < MOST_COPIES;
}

/* Monitor held; let go of to send what is full. NULL after a failure. */
static stage *find_stage(delivery *d, const pawl_memory *memory, size_t n) {
    while (!atomic_load(&d->failed)) {
        struct pawl_error story = ERROR_INIT;
        stage *s = d->open;
        if (s != NULL && has_room(s, memory, n)) {
            return s;
        }
        if (s != NULL) {
            bool ready = stage_close(s);
            monitor_leave(&d->monitor);
            if (ready) {
                stage_send(s);
            }
            monitor_enter(&d->monitor);
            continue;
        }
        s = find_free(d);
        if (s == NULL) {
            (void)wait_for_copies(d);
        } else if (open_stage(d, s, memory, &story) != PAWL_OK) {
            note_failure(d, story.status, &story);
        }
    }
    return NULL;
}

/* ---- putting -------------------------------------------------------------------------------- */

static uint64_t put_step(delivery *d, const plan_read *read, uint64_t offset, const uint8_t *bytes,
                         size_t n) {
    struct pawl_error story = ERROR_INIT;
    size_t staged = plan_read_staged_bytes(read, n);
    monitor_enter(&d->monitor);
    stage *s = find_stage(d, read->pair->wanted->memory, staged);
    uint8_t *to = s != NULL ? s->bytes + s->used : NULL;
    if (s != NULL) {
        s->used += (staged + 7) / 8 * 8 < STAGE_BYTES - s->used ? (staged + 7) / 8 * 8
                                                                : STAGE_BYTES - s->used;
        s->writers++;
    }
    monitor_leave(&d->monitor);
    if (s == NULL) {
        return 0;
    }
    uint64_t overflows = plan_read_stage(read, offset, bytes, n, to);
    monitor_enter(&d->monitor);
    if (plan_read_copies(read, offset, n, to, &s->copies, &story) != PAWL_OK) {
        note_failure(d, story.status, &story);
    }
    bool ready = --s->writers == 0 && s->closed;
    monitor_leave(&d->monitor);
    if (ready) {
        stage_send(s);
    }
    return overflows;
}

uint64_t delivery_put(delivery *d, const plan_read *read, uint64_t offset, const uint8_t *bytes,
                      size_t n) {
    bool cast = read->pair->wanted->dtype != read->pair->source->dtype;
    size_t most = cast ? STEP_BYTES : STAGE_BYTES;
    uint64_t overflows = 0;
    for (size_t at = 0; at < n && !atomic_load(&d->failed); at += most) {
        size_t step = n - at < most ? n - at : most;
        overflows += put_step(d, read, offset + at, bytes + at, step);
    }
    return overflows;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void free_left(void *context) {
    delivery_free(context);
}

static bool wait_for_all(delivery *d) {
    monitor_enter(&d->monitor);
    stage *s = d->open;
    bool ready = s != NULL && stage_close(s);
    monitor_leave(&d->monitor);
    if (ready) {
        stage_send(s);
    }
    CLEANUP(monitor_leave_pointer) monitor *held = &d->monitor;
    monitor_enter(held);
    while (d->under_way > 0) {
        if (!wait_for_copies(d) && d->under_way > 0) {
            return false;
        }
    }
    return true;
}

pawl_status delivery_end(delivery *d, state_snapshot **snapshot, pawl_error *err) {
    bool all = wait_for_all(d);
    monitor_enter(&d->monitor);
    pawl_status status = d->status;
    if (status != PAWL_OK) {
        *err = d->story;
    }
    monitor_leave(&d->monitor);
    if (!all) {
        d->left = *snapshot;
        *snapshot = NULL;
        mover_abandon(d->mover, free_left, d);
        return status;
    }
    mover_free(d->mover);
    delivery_free(d);
    return status;
}
