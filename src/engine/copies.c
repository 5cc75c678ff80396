/* SPDX-License-Identifier: Apache-2.0 */
/* Reads providers' memory beside the chunks of a save: for checking mode and for the comparison of
 * replicas. */
#include "engine/save.h"

#include <string.h>

static void tune_mover(void *context) {
    engine_tune(context);
}

pawl_status engine_need_mover(engine *e, pawl_error *err) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    return e->mover != NULL ? PAWL_OK
                            : mover_new(e->options.platform, tune_mover, e, &e->mover, err);
}

void engine_mark_copy(engine *e) {
    e->copy_progress_ns = engine_now(e);
}

bool engine_copies_outstanding(const engine *e) {
    return e->copying > 0 || e->readers > 0;
}

void engine_reading(engine *e) {
    monitor_enter(&e->monitor);
    engine_mark_copy(e);
    e->readers++;
    monitor_leave(&e->monitor);
}

void engine_read_ended(engine *e) {
    monitor_enter(&e->monitor);
    engine_mark_copy(e);
    e->readers--;
    engine_announce(e);
    monitor_leave(&e->monitor);
}

/* Copies whose caller may leave them behind: freed by whoever of the two comes last. */
typedef struct reading {
    engine *engine;
    state_entry *entries; /* of each, only what copies need */
    size_t entry_count;
    uint8_t *bytes;
    plan_copies copies;
    mover_batch batch;
    size_t unfinished; /* jobs; guarded by the engine's monitor, like the next three */
    bool left_behind;
    pawl_status status;
    struct pawl_error story;
} reading;

static void reading_free(reading *r) {
    for (size_t i = 0; i < r->entry_count; i++) {
        mem_free(r->entries[i].name);
    }
    mem_free(r->entries);
    mem_free(r->bytes);
    mem_free(r->copies.items);
    mover_batch_free(&r->batch);
    mem_free(r);
}

static void job_ended(mover_job *job, pawl_status status, const pawl_error *story) {
    reading *r = job->context;
    engine *e = r->engine;
    monitor_enter(&e->monitor);
    engine_mark_copy(e);
    if (status != PAWL_OK && r->status == PAWL_OK) {
        r->status = status;
        r->story = *story;
    }
    r->unfinished--;
    bool last = r->unfinished == 0 && r->left_behind;
    if (r->unfinished == 0) {
        e->readers--;
    }
    engine_announce(e);
    monitor_leave(&e->monitor);
    if (last) {
        reading_free(r);
    }
}

/* The names are copied: whoever leaves the reading behind may free the entries. */
static pawl_status add_copies(reading *r, const engine_wanted *w, uint8_t *to, pawl_error *err) {
    state_entry *entry = &r->entries[r->entry_count];
    *entry = *w->entry;
    entry->name = mem_strdup(w->entry->name);
    if (entry->name == NULL) {
        return error_nomem(err, strlen(w->entry->name) + 1);
    }
    r->entry_count++;
    return plan_box_copies(entry, w->box, w->from, w->n, to, &r->copies, err);
}

static pawl_status fill_reading(reading *r, const engine_wanted *wanted, size_t count,
                                pawl_error *err) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += wanted[i].n;
    }
    r->entries = mem_calloc(count, sizeof(*r->entries));
    r->bytes = mem_alloc(bytes);
    if (r->entries == NULL || r->bytes == NULL) {
        return error_nomem(err, bytes + count * sizeof(*r->entries));
    }
    size_t at = 0;
    for (size_t i = 0; i < count; at += wanted[i++].n) {
        TRY(add_copies(r, &wanted[i], r->bytes + at, err));
    }
    return mover_batch_make(&r->batch, &r->copies, false, job_ended, r, err);
}

/* Monitor held: until then some copy must have ended, those of the save included: the reading's may
 * wait for their turn behind them. */
static uint64_t hang_deadline(const engine *e) {
    double timeout_s = e->options.hang_timeout_s;
    return timeout_s > 0 ? e->copy_progress_ns + engine_ns(timeout_s) : UINT64_MAX;
}

/* Monitor held. Is it time to give up? *oldest: what hangs. Nothing does where the last copy has
 * just ended, and waits for the monitor. */
static bool hangs(const engine *e, mover_wait *oldest) {
    if (engine_now(e) < hang_deadline(e)) {
        return false;
    }
    mover_look(e->mover, oldest);
    return oldest->jobs > 0;
}

/* Monitor held. False: it hangs, and is left behind. */
static bool wait_for_reading(reading *r, mover_wait *oldest) {
    engine *e = r->engine;
    while (r->unfinished > 0) {
        if (!monitor_wait_until(&e->monitor, hang_deadline(e)) && r->unfinished > 0 &&
            hangs(e, oldest)) {
            r->left_behind = true;
            return false;
        }
    }
    return true;
}

static pawl_status copy_hangs(const mover_wait *oldest, pawl_error *err) {
    error_set(err, PAWL_EIO, "the memory \"%s\" hangs: a copy from it does not end",
              oldest->memory);
    error_entry(err, oldest->entry);
    error_next(err, "look at the device (its driver's log); keep the tensors' memory valid until "
                    "it answers");
    return PAWL_EIO;
}

/* Sets *ended to false where the reading is left behind. */
static pawl_status read_all(reading *r, bool *ended, pawl_error *err) {
    engine *e = r->engine;
    size_t jobs = r->batch.job_count;
    r->unfinished = jobs;
    engine_reading(e);
    for (size_t i = 0; i < jobs; i++) {
        mover_submit(e->mover, &r->batch.jobs[i]);
    }
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    mover_wait oldest;
    *ended = wait_for_reading(r, &oldest);
    if (!*ended) {
        return copy_hangs(&oldest, err);
    }
    *err = r->status != PAWL_OK ? r->story : *err;
    return r->status;
}

static void hand_over(const reading *r, const engine_wanted *wanted, size_t count) {
    size_t at = 0;
    for (size_t i = 0; i < count; at += wanted[i++].n) {
        memcpy(wanted[i].to, r->bytes + at, wanted[i].n);
    }
}

pawl_status engine_copy_out(engine *e, const engine_wanted *wanted, size_t count, pawl_error *err) {
    bool ended = true;
    TRY(engine_need_mover(e, err));
    reading *r = mem_calloc(1, sizeof(*r));
    if (r == NULL) {
        return error_nomem(err, sizeof(*r));
    }
    r->engine = e;
    pawl_status status = fill_reading(r, wanted, count, err);
    if (status == PAWL_OK && r->batch.job_count > 0) {
        status = read_all(r, &ended, err);
    }
    if (status == PAWL_OK) {
        hand_over(r, wanted, count);
    }
    if (ended) {
        reading_free(r);
    }
    return status;
}
