/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a whole data file block by block, and goes on after damage. The threads of a crew verify
 * windows in any order; the caller's thread reports what they found in the order of the file.
 */
#include "engine/crew.h"

#define MAX_RUNS (READER_WINDOW_BLOCKS / 2) /* with an intact block between each two */
#define VERDICTS ((uint64_t)2 * CREW_MEMBERS)

/* What was found in a window. */
typedef struct verdict {
    bool given;
    damaged_run runs[MAX_RUNS];
    size_t run_count;
    pawl_status status; /* not PAWL_OK: what follows the runs could not be read */
    uint64_t unread_at;
    struct pawl_error story;
} verdict;

typedef struct verification {
    engine_reader *reader; /* the caller's */
    uint32_t file;
    uint64_t end; /* of what there is to be checked */
    pawl_status (*problem)(void *context, uint64_t offset, uint64_t length, pawl_error *story);
    pawl_status (*progress)(void *context, uint64_t bytes, pawl_error *err);
    void *context;
    crew crew;
    /* Guarded by the crew's monitor. windows told <= windows claimed <= told + VERDICTS. */
    uint64_t windows, claimed, told;
    verdict *verdicts; /* VERDICTS, by number of the window */
    bool ended;
    pawl_status status;
    pawl_error *err;
} verification;

static uint64_t window_at(uint64_t number) {
    return number * ENGINE_BUFFER_BYTES;
}

static uint64_t window_end(const verification *v, uint64_t number) {
    uint64_t end = window_at(number + 1);
    return end < v->end ? end : v->end;
}

static verdict *verdict_of(const verification *v, uint64_t number) {
    return &v->verdicts[number % VERDICTS];
}

/* ---- telling: the caller's thread, alone or with the monitor held ---- */

/* Calls `problem`; where there is none, the problem is the failure of the whole check. */
static pawl_status report(const verification *v, uint64_t offset, uint64_t length,
                          pawl_error *story, pawl_error *err) {
    if (v->problem == NULL) {
        *err = *story;
        return story->status;
    }
    pawl_status status = v->problem(v->context, offset, length, story);
    if (status != PAWL_OK) {
        *err = *story;
        err->status = status;
    }
    return status;
}

static pawl_status report_size(const verification *v, uint64_t found_bytes, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    engine_reader_wrong_size(v->reader, found_bytes, &story);
    return report(v, story.offset, story.length, &story, err);
}

/* Bytes that cannot be read are a problem like damaged ones; the check goes on behind them. */
static pawl_status tell_verdict(const verification *v, verdict *d, uint64_t end, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    for (size_t i = 0; i < d->run_count; i++) {
        engine_reader_damaged(v->reader, &d->runs[i], &story);
        TRY(report(v, story.offset, story.length, &story, err));
    }
    if (d->status == PAWL_OK) {
        return PAWL_OK;
    }
    if (d->status == PAWL_ENOMEM) {
        *err = d->story;
        return d->status;
    }
    return report(v, d->unread_at, end - d->unread_at, &d->story, err);
}

/* Reports windows in the order of the file, up to the first that is not verified yet. */
static void tell_verdicts(verification *v) {
    while (!v->ended && v->told < v->windows && verdict_of(v, v->told)->given) {
        verdict *d = verdict_of(v, v->told);
        uint64_t end = window_end(v, v->told);
        v->status = tell_verdict(v, d, end, v->err);
        v->ended = v->status != PAWL_OK;
        if (!v->ended && v->progress != NULL) {
            v->status = v->progress(v->context, end - window_at(v->told), v->err);
            v->ended = v->status != PAWL_OK;
        }
        d->given = false;
        v->told++;
        monitor_announce(&v->crew.monitor);
    }
}

/* ---- judging a window ---- */

static void add_run(verdict *d, damaged_run run) {
    damaged_run *last = d->run_count > 0 ? &d->runs[d->run_count - 1] : NULL;
    if (last != NULL &&
        last->at + last->bytes == run.at) { /* the damage goes on across the end of a step */
        last->bytes += run.bytes;
    } else {
        d->runs[d->run_count++] = run;
    }
}

static void judge_blocks(verdict *d, const read_blocks *blocks) {
    uint64_t end = blocks->at + blocks->n;
    damaged_run run = engine_blocks_damage(blocks, blocks->at, end);
    while (run.bytes > 0) {
        add_run(d, run);
        uint64_t from = run.at + run.bytes;
        run = from < end ? engine_blocks_damage(blocks, from, end) : (damaged_run){0};
    }
}

static pawl_status need_file(verification *v, engine_reader *r, pawl_error *err) {
    uint64_t unused;
    return r->open != NULL ? PAWL_OK : engine_reader_open(r, v->file, &unused, err);
}

/* A failed read names its step only; the rest of the window was not read either. */
static void leave_rest(verdict *d, uint64_t end) {
    if (d->story.has_range && d->story.offset > d->unread_at && d->story.offset < end) {
        d->unread_at = d->story.offset;
    }
    error_range(&d->story, d->unread_at, end - d->unread_at);
}

/* The stored checksums are in the member's reader. */
static void judge_window(verification *v, uint64_t number, crew_member *m, verdict *d) {
    uint64_t end = window_end(v, number);
    d->status = need_file(v, m->reader, &d->story);
    while (d->status == PAWL_OK && d->unread_at < end) {
        size_t n = crew_step(m, (size_t)(end - d->unread_at));
        d->status = crew_read(m, d->unread_at, n, NULL, &d->story);
        if (d->status == PAWL_OK) {
            uint64_t before = (d->unread_at - window_at(number)) / FORMAT_BLOCK_BYTES;
            judge_blocks(d, &(read_blocks){.bytes = m->read,
                                           .n = n,
                                           .at = d->unread_at,
                                           .stored = engine_reader_stored(m->reader, before)});
            d->unread_at += n;
        }
    }
    if (d->status != PAWL_OK) {
        leave_rest(d, end);
    }
}

/* ---- the crew ---- */

static bool claimable(const verification *v) {
    return v->claimed < v->windows && v->claimed < v->told + VERDICTS;
}

/* Monitor held, except while the window is read. */
static void judge_next(verification *v, crew_member *m) {
    uint64_t number = v->claimed++;
    uint64_t at = window_at(number);
    verdict *d = verdict_of(v, number);
    d->run_count = 0;
    d->unread_at = at;
    d->story = ERROR_INIT;
    d->status =
        engine_reader_checksums(m->reader, v->file, at, window_end(v, number) - at, &d->story);
    if (d->status != PAWL_OK && !d->story.has_range) {
        leave_rest(d, window_end(v, number));
    }
    bool more = claimable(v);
    monitor_leave(&v->crew.monitor);
    if (more) {
        crew_call(&v->crew, m->cached);
    }
    if (d->status == PAWL_OK) {
        judge_window(v, number, m, d);
    }
    monitor_enter(&v->crew.monitor);
    crew_count(m);
    d->given = true;
    monitor_announce(&v->crew.monitor);
}

static void verify_windows(void *task, crew_member *m) {
    verification *v = task;
    bool caller = m->reader == v->reader;
    monitor_enter(&v->crew.monitor);
    for (;;) {
        if (caller) {
            tell_verdicts(v);
        }
        if (v->ended || (caller ? v->told : v->claimed) == v->windows) {
            break;
        }
        if (claimable(v)) {
            judge_next(v, m);
        } else {
            monitor_wait_until(&v->crew.monitor, UINT64_MAX);
        }
    }
    monitor_leave(&v->crew.monitor);
}

/* A truncated file is checked as far as its last whole block. */
static pawl_status verify_blocks(verification *v, uint64_t found_bytes, pawl_error *err) {
    v->end = v->reader->file_bytes;
    if (found_bytes < v->end) {
        v->end = found_bytes - found_bytes % FORMAT_BLOCK_BYTES;
    }
    v->windows = v->end / ENGINE_BUFFER_BYTES + (v->end % ENGINE_BUFFER_BYTES != 0);
    AUTOFREE verdict *verdicts = mem_calloc(VERDICTS, sizeof(*verdicts));
    if (verdicts == NULL) {
        return error_nomem(err, VERDICTS * sizeof(*verdicts));
    }
    v->verdicts = verdicts;
    v->err = err;
    v->crew = (crew){.source = &v->reader->source, .work = verify_windows, .task = v};
    TRY(crew_run(&v->crew, v->reader, err));
    return v->status;
}

/* The file is open. */
static pawl_status verify_file(verification *v, uint64_t found_bytes, pawl_error *err) {
    if (found_bytes != v->reader->file_bytes) {
        TRY(report_size(v, found_bytes, err));
    }
    return verify_blocks(v, found_bytes, err);
}

pawl_status engine_reader_verify(engine_reader *r, uint32_t file,
                                 pawl_status (*problem)(void *context, uint64_t offset,
                                                        uint64_t length, pawl_error *story),
                                 pawl_status (*progress)(void *context, uint64_t bytes,
                                                         pawl_error *err),
                                 void *context, pawl_error *err) {
    verification v = {
        .reader = r, .file = file, .problem = problem, .progress = progress, .context = context};
    struct pawl_error story = ERROR_INIT;
    uint64_t found_bytes = 0;
    r->mode = STORE_READ_BULK;
    pawl_status status = engine_reader_open(r, file, &found_bytes, &story);
    if (status == PAWL_OK) {
        status = verify_file(&v, found_bytes, err);
    } else if (status == PAWL_ENOMEM) {
        *err = story;
    } else {
        status = report(&v, 0, r->source.file_bytes(r->source.context, file), &story, err);
    }
    engine_reader_close(r); /* what was read may be damaged: nobody reads from this window */
    r->mode = STORE_READ;
    return status;
}
