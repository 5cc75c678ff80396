/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads many stretches of data files by several threads. A thread claims the next window: blocks
 * in a row, and the stretches that have bytes in them. Nothing is taken before its block's checksum
 * was compared; blocks that no stretch wants are not looked at.
 *
 * Windows are claimed in order, none after a failure, and those claimed are worked at to their end:
 * so the failure of the lowest window does not depend on the threads. Stretches ascend and are
 * whole, hence the first in order that wants a block of the lowest damage is the first of all.
 */
#include "engine/crew.h"

#include <assert.h>
#include <string.h>

/* Numbers of stretches, ascending. */
typedef struct number_list {
    size_t *items;
    size_t count, capacity;
} number_list;

typedef struct reading {
    const engine_read_job *job;
    crew crew;
    /* Guarded by the crew's monitor. */
    size_t next, last; /* the stretches [next, last) begin in no window yet */
    bool round;        /* only the stretches before the job's first are left */
    number_list open;  /* those that reach beyond the last window */
    uint32_t file;     /* of the last window */
    uint64_t at;       /* where it ends */
    size_t windows;
    bool failed;
    size_t failed_window, failed_stretch;
    struct pawl_error story;
} reading;

typedef struct window {
    size_t number;
    uint32_t file;
    uint64_t at, end;
    size_t first, last; /* the stretches [first, last) begin in it, in what is still to be read */
    number_list open;   /* those that began before it, or before the step that is next */
} window;

static engine_stretch stretch_of(const reading *r, size_t i) {
    return r->job->stretch(r->job->context, i);
}

static uint64_t end_of(engine_stretch s) {
    return s.offset + s.bytes;
}

static uint64_t block_end(uint64_t at) {
    return (at + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES * FORMAT_BLOCK_BYTES;
}

static pawl_status add_number(number_list *list, size_t i, pawl_error *err) {
    TRY(vec_reserve(&list->items, &list->capacity, list->count + 1, sizeof(*list->items), err));
    list->items[list->count++] = i;
    return PAWL_OK;
}

static size_t first_stretch(const window *w) {
    return w->open.count > 0 ? w->open.items[0] : w->first;
}

/* ---- claiming: the monitor is held ---- */

static bool more_left(const reading *r) {
    bool stopped = r->job->stop != NULL && atomic_load(r->job->stop);
    return !r->failed && !stopped && !r->crew.stopped &&
           (r->next < r->last || r->open.count > 0 || (!r->round && r->job->first > 0));
}

static void note_failure(reading *r, const window *w, size_t stretch, const pawl_error *story) {
    if (!r->failed || w->number < r->failed_window) {
        r->failed = true;
        r->failed_window = w->number;
        r->failed_stretch = stretch;
        r->story = *story;
    }
}

/* Stretches that reach beyond `limit` stay open. Returns where the last of the others ends. */
static uint64_t carry_over(reading *r, uint64_t limit) {
    uint64_t until = 0;
    size_t kept = 0;
    for (size_t k = 0; k < r->open.count; k++) {
        size_t i = r->open.items[k];
        uint64_t end = end_of(stretch_of(r, i));
        until = end > until ? end : until;
        if (end > limit) {
            r->open.items[kept++] = i;
        }
    }
    r->open.count = kept;
    return until;
}

/* Where the window ends, and which stretches begin in it. */
static pawl_status extend(reading *r, window *w, pawl_error *err) {
    uint64_t limit = w->at + ENGINE_BUFFER_BYTES;
    uint64_t until = carry_over(r, limit);
    until = until > w->at ? until : w->at;
    w->first = r->next;
    for (; r->next < r->last; r->next++) {
        engine_stretch s = stretch_of(r, r->next);
        if (s.file != w->file || s.offset >= limit || !plan_reads_on(until, s.offset, s.gap)) {
            break;
        }
        uint64_t end = end_of(s);
        until = end > until ? end : until;
        if (end > limit) {
            TRY(add_number(&r->open, r->next, err));
        }
    }
    w->last = r->next;
    uint64_t file_bytes = r->job->source.file_bytes(r->job->source.context, w->file);
    w->end = block_end(until < limit ? until : limit);
    w->end = w->end < file_bytes ? w->end : file_bytes;
    return PAWL_OK;
}

static pawl_status next_window(reading *r, window *w, crew_member *m, pawl_error *err) {
    if (r->next == r->last && r->open.count == 0) {
        r->round = true;
        r->next = 0;
        r->last = r->job->first;
    }
    w->number = r->windows++;
    w->open.count = 0;
    w->file = r->file;
    w->at = r->at;
    w->first = w->last = r->next;
    if (r->open.count == 0) {
        engine_stretch s = stretch_of(r, r->next);
        w->file = s.file;
        w->at = s.offset - s.offset % FORMAT_BLOCK_BYTES;
    }
    for (size_t k = 0; k < r->open.count; k++) {
        TRY(add_number(&w->open, r->open.items[k], err));
    }
    TRY(extend(r, w, err));
    r->file = w->file;
    r->at = w->end;
    return engine_reader_checksums(m->reader, w->file, w->at, w->end - w->at, err);
}

static bool claim(reading *r, window *w, crew_member *m, bool *more) {
    crew_ask(m);
    monitor_enter(&r->crew.monitor);
    crew_count(m);
    bool claimed = more_left(r);
    if (claimed) {
        struct pawl_error story = ERROR_INIT;
        if (next_window(r, w, m, &story) != PAWL_OK) {
            note_failure(r, w, first_stretch(w), &story);
            claimed = false;
        }
    }
    *more = more_left(r);
    monitor_leave(&r->crew.monitor);
    return claimed;
}

/* ---- a window ---- */

/* The part of a window that is in memory. */
typedef struct step {
    const reading *of;
    read_blocks blocks;
    uint64_t verified; /* wanted blocks below this are good */
    damaged_run damage;
} step;

static uint64_t step_end(const step *s) {
    return s->blocks.at + s->blocks.n;
}

/* Are the blocks good that hold [begin, end)? */
static bool verify(step *s, uint64_t begin, uint64_t end) {
    if (end > s->verified) {
        uint64_t from = begin > s->verified ? begin : s->verified;
        s->damage = engine_blocks_damage(&s->blocks, from, end);
        if (s->damage.bytes > 0) {
            return false;
        }
        s->verified = block_end(end);
    }
    return true;
}

/* Block by block: the nearest cache still has what was verified when it is copied. */
static bool copy_verified(step *s, uint8_t *to, uint64_t begin, uint64_t end) {
    for (uint64_t until; begin < end; begin = until) {
        until = block_end(begin + 1) < end ? block_end(begin + 1) : end;
        if (!verify(s, begin, until)) {
            return false;
        }
        size_t n = (size_t)(until - begin);
        mem_copy_past_caches(to, s->blocks.bytes + (begin - s->blocks.at), n);
        to += n;
    }
    return true;
}

/* Hands on what the step has of a stretch; false when it is damaged. */
static bool give(step *s, size_t i) {
    engine_stretch wanted = stretch_of(s->of, i);
    uint64_t begin = wanted.offset > s->blocks.at ? wanted.offset : s->blocks.at;
    uint64_t end = end_of(wanted) < step_end(s) ? end_of(wanted) : step_end(s);
    if (begin >= end) {
        return true;
    }
    if (wanted.to != NULL) {
        uint8_t *to = wanted.to + (begin - wanted.offset);
        if (to == s->blocks.bytes + (begin - s->blocks.at)) {
            return true; /* it was read to its place */
        }
        mem_populate(to, (size_t)(end - begin));
        return copy_verified(s, to, begin, end);
    }
    if (!verify(s, begin, end)) {
        return false;
    }
    s->of->job->take(s->of->job->context, i, begin, s->blocks.bytes + (begin - s->blocks.at),
                     (size_t)(end - begin));
    return true;
}

/* Hands on all that the step has. On a failure *failed is the stretch it belongs to. */
static pawl_status give_all(step *s, window *w, size_t *failed, pawl_error *err) {
    size_t kept = 0;
    for (size_t k = 0; k < w->open.count; k++) {
        size_t i = w->open.items[k];
        *failed = i;
        if (!give(s, i)) {
            return PAWL_EDAMAGED;
        }
        if (end_of(stretch_of(s->of, i)) > step_end(s)) {
            w->open.items[kept++] = i;
        }
    }
    w->open.count = kept;
    for (; w->first < w->last; w->first++) {
        engine_stretch begun = stretch_of(s->of, w->first);
        if (begun.offset >= step_end(s)) {
            break;
        }
        *failed = w->first;
        if (!give(s, w->first)) {
            return PAWL_EDAMAGED;
        }
        if (end_of(begun) > step_end(s)) {
            TRY(add_number(&w->open, w->first, err));
        }
    }
    return PAWL_OK;
}

/* Where the step belongs, if all of it may be read there: nothing is to be verified, and it is of
 * one stretch. What is not cached is read past the cache, to memory that suits the device. */
static uint8_t *place_of_step(const reading *r, const window *w, uint64_t at, size_t n,
                              const crew_member *m) {
    bool begun = w->open.count > 0 || w->first < w->last;
    if (!begun || !m->cached || r->job->source.checksums != NULL) {
        return NULL;
    }
    engine_stretch s = stretch_of(r, first_stretch(w));
    bool has_all = s.to != NULL && s.offset <= at && end_of(s) >= at + n;
    return has_all ? s.to + (at - s.offset) : NULL;
}

static pawl_status read_step(const reading *r, const window *w, uint64_t at, crew_member *m,
                             step *out, pawl_error *err) {
    size_t n = crew_step(m, (size_t)(w->end - at));
    uint8_t *to = place_of_step(r, w, at, n, m);
    if (to != NULL) {
        mem_populate(to, n);
    }
    TRY(crew_read(m, at, n, to, err));
    const uint32_t *stored = engine_reader_stored(m->reader, (at - w->at) / FORMAT_BLOCK_BYTES);
    *out = (step){.of = r, .verified = at};
    out->blocks = (read_blocks){.bytes = m->read, .n = n, .at = at, .stored = stored};
    return PAWL_OK;
}

/* A run of damage that reaches the end of its step may go on in the next. */
static pawl_status tell_damage(step *s, const window *w, crew_member *m, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    damaged_run run = s->damage;
    uint64_t end = run.at + run.bytes;
    while (end == step_end(s) && end < w->end &&
           read_step(s->of, w, end, m, s, &ignored) == PAWL_OK) {
        run.bytes += engine_blocks_damage(&s->blocks, end, end + 1).bytes;
        end = run.at + run.bytes;
    }
    return engine_reader_damaged(m->reader, &run, err);
}

static pawl_status read_window(reading *r, window *w, crew_member *m, size_t *failed,
                               pawl_error *err) {
    step s;
    *failed = first_stretch(w);
    TRY(engine_reader_need_file(m->reader, w->file, err));
    for (uint64_t at = w->at; at < w->end; at = step_end(&s)) {
        *failed = first_stretch(w);
        TRY(read_step(r, w, at, m, &s, err));
        pawl_status status = give_all(&s, w, failed, err);
        mem_copies_end();
        if (status == PAWL_EDAMAGED) {
            return tell_damage(&s, w, m, err);
        }
        if (status != PAWL_OK) {
            return status;
        }
    }
    return PAWL_OK;
}

static void read_windows(void *task, crew_member *m) {
    reading *r = task;
    window w = {0};
    bool more = false;
    while (claim(r, &w, m, &more)) {
        size_t failed = 0;
        struct pawl_error story = ERROR_INIT;
        if (more) {
            crew_call(&r->crew, m->cached);
        }
        if (read_window(r, &w, m, &failed, &story) != PAWL_OK) {
            monitor_enter(&r->crew.monitor);
            note_failure(r, &w, failed, &story);
            monitor_leave(&r->crew.monitor);
        }
    }
    mem_free(w.open.items);
}

/* ---- all of it ---- */

/* Before anything is read, so that later code may rely on it. */
static pawl_status check_stretches(const reading *r, const engine_reader *reader, size_t *failed,
                                   pawl_error *err) {
    for (size_t i = 0; i < r->job->count; i++) {
        engine_stretch s = stretch_of(r, i);
        *failed = i;
        assert(s.bytes > 0 && s.file < r->job->source.file_count);
        TRY(engine_reader_check_range(reader, s.file, s.offset, s.bytes, err));
    }
    return PAWL_OK;
}

static pawl_status read_all(reading *r, engine_reader *reader, size_t *failed, pawl_error *err) {
    TRY(check_stretches(r, reader, failed, err));
    *failed = 0;
    TRY(crew_run(&r->crew, reader, err));
    if (r->crew.stopped) {
        return interrupt_error(err);
    }
    if (r->failed) {
        *failed = r->failed_stretch;
        *err = r->story;
        return r->story.status;
    }
    return PAWL_OK;
}

static void reader_free_pointer(engine_reader **reader) {
    engine_reader_free(*reader);
}

pawl_status engine_read_all(const engine_read_job *job, size_t *failed, pawl_error *err) {
    CLEANUP(reader_free_pointer) engine_reader *reader = NULL;
    *failed = 0;
    if (job->count == 0) {
        return PAWL_OK;
    }
    TRY(engine_reader_new(&job->source, &reader, err));
    AUTOFREE reading *r = mem_calloc(1, sizeof(*r));
    if (r == NULL) {
        return error_nomem(err, sizeof(*r));
    }
    r->job = job;
    r->next = job->first;
    r->last = job->count;
    r->crew = (crew){.source = &job->source,
                     .work = read_windows,
                     .task = r,
                     .interrupted = job->interrupted,
                     .progress = job->progress,
                     .progress_context = job->context};
    pawl_status status = read_all(r, reader, failed, err);
    mem_free(r->open.items);
    return status;
}
