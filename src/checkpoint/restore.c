/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores a state from a checkpoint: matches its entries with the state's, then reads what fits.
 *
 * When damage is found while reading, some tensors already hold bytes of that step. An older
 * checkpoint may be restored instead only if it writes all of these entries again; otherwise the
 * state would hold bytes of two steps while the report names one.
 */
#include "checkpoint/restore.h"
#include "checkpoint/private.h"
#include "engine/delivery.h"
#include "format/limits.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_HANG_TIMEOUT_S 600.0
#define ENTRIES_PER_ASKING     1024u

interrupt restore_interrupt(const pawl_restore_options *options) {
    interrupt found = {.ask = NULL};
    if (options != NULL) {
        found.ask = options->interrupted;
        found.context = options->interrupted_context;
    }
    return found;
}

void restore_end_candidate(restoration *r) {
    candidate *a = &r->now;
    plan_reads_free(&a->reads);
    match_free(a->match);
    state_snapshot_free(a->snapshot);
    *a = (candidate){0};
}

void restoration_free(restoration *r) {
    restore_end_candidate(r);
    pawl_report_free(r->report);
    mem_free(r->fallbacks);
    mem_free(r->touched);
    mem_free(r->supplied);
    match_job_faults_free(&r->faults);
    arena_free(&r->memory);
}

static int64_t step_of(const pawl_checkpoint *c) {
    return c->source->step;
}

/* A source without ranks was written by as many as restore it. */
static int saved_ranks(const candidate *a) {
    int ranks = a->checkpoint->source->world_size;
    return ranks > 0 ? ranks : a->all->world_size;
}

/* ---- matching ---- */

static pawl_status begin_report(candidate *a, pawl_error *err) {
    restoration *all = a->all;
    pawl_report_free(all->report);
    all->report = NULL;
    TRY(report_new(&all->report, err));
    if (step_of(a->checkpoint) >= 0) {
        report_set_step(all->report, step_of(a->checkpoint));
    } else {
        report_set_no_step(all->report);
    }
    for (size_t i = 0; i < all->fallback_count; i++) {
        TRY(report_add_fallback(all->report, all->fallbacks[i].step, all->fallbacks[i].why, err));
    }
    return PAWL_OK;
}

/* A walk over all entries, during which the caller may end the restore. */
typedef struct asking_walk {
    const restoration *all;
    entry_source of;
    size_t seen;
} asking_walk;

static pawl_status interrupted_before(const restoration *all, pawl_error *err) {
    (void)interrupt_error(err);
    if (all->touched_count == 0) {
        error_safe(err, "nothing was read into the state");
    }
    return PAWL_ECANCELED;
}

static pawl_status next_asking(void *context, const record_entry **out, pawl_error *err) {
    asking_walk *w = context;
    if (w->seen++ % ENTRIES_PER_ASKING == 0 && interrupt_said(w->all->stop)) {
        return interrupted_before(w->all, err);
    }
    pawl_status status = w->of.next(w->of.context, out, err);
    bool graph = status == PAWL_OK && w->all->only_match && *out != NULL &&
                 strcmp((*out)->name, NAME_OBJECT_GRAPH) == 0 && /* which models do not have */
                 state_find(w->all->state, NAME_OBJECT_GRAPH) == NULL;
    return graph ? w->of.next(w->of.context, out, err) : status;
}

static pawl_status again_asking(void *context, pawl_error *err) {
    asking_walk *w = context;
    return w->of.again(w->of.context, err);
}

static pawl_status match_entries(candidate *a, pawl_error *err) {
    restoration *all = a->all;
    CLEANUP(entries_free_pointer) pawl_entries *walk = NULL;
    TRY(restore_supply(a, err));
    TRY(state_snapshot_take(all->state, step_of(a->checkpoint), false, &a->snapshot, err));
    TRY(state_check_idle(all->state, a->snapshot, err)); /* promise 3 */
    if (!all->only_match) {
        TRY(state_snapshot_check_writable(a->snapshot, err));
    }
    TRY(entries_open(a->checkpoint, "", &walk, err));
    const match_ranks ranks = {.rank = all->rank,
                               .world_size = all->world_size,
                               .saved_world_size = saved_ranks(a),
                               .job = all->job,
                               .faults = all->compared ? &all->faults : NULL};
    asking_walk asking = {.all = all, .of = entries_source(walk)};
    const entry_source entries = {.context = &asking, .next = next_asking, .again = again_asking};
    return match_make(a->snapshot, entries, all->options, &ranks, all->report, &a->match, err);
}

static pawl_status refuse_mixed(restoration *all, const char *name, pawl_error *err) {
    all->mixed = true;
    error_set(err, PAWL_EDAMAGED,
              "step %lld is damaged, and an older checkpoint does not restore everything that was "
              "already read of it",
              (long long)all->touched_step);
    error_entry(err, name);
    error_next(err, "build the state anew before it is used, then restore an older step by its "
                    "number");
    error_step(err, all->touched_step);
    return PAWL_EDAMAGED;
}

/* Does this candidate write everything that an earlier one may have written? */
static pawl_status check_touched(candidate *a, pawl_error *err) {
    restoration *all = a->all;
    if (all->touched_count == 0) {
        return PAWL_OK;
    }
    AUTOFREE bool *written = mem_calloc(a->snapshot->count, sizeof(*written));
    if (written == NULL) {
        return error_nomem(err, a->snapshot->count);
    }
    size_t at = 0;
    for (size_t i = 0; i < a->match->pair_count; i++) {
        const match_pair *pair = &a->match->pairs[i];
        if (!pair->keep_caller &&
            state_snapshot_find(a->snapshot, pair->wanted->name, &at) != NULL) {
            written[at] = true;
        }
    }
    for (size_t i = 0; i < all->touched_count; i++) {
        if (state_snapshot_find(a->snapshot, all->touched[i], &at) == NULL || !written[at]) {
            return refuse_mixed(all, all->touched[i], err);
        }
    }
    return PAWL_OK;
}

static pawl_status note_touched(candidate *a, pawl_error *err) {
    restoration *all = a->all;
    size_t count = a->match->pair_count;
    const char **touched = mem_calloc(count, sizeof(*touched));
    if (touched == NULL) {
        return error_nomem(err, count * sizeof(*touched));
    }
    mem_free(all->touched);
    all->touched = touched;
    all->touched_count = 0;
    all->touched_step = step_of(a->checkpoint);
    for (size_t i = 0; i < count; i++) {
        const match_pair *pair = &a->match->pairs[i];
        if (pair->keep_caller || restore_was_supplied(all, pair->wanted->name)) {
            continue;
        }
        const char *name = arena_strdup(&all->memory, pair->wanted->name);
        if (name == NULL) {
            return error_nomem(err, strlen(pair->wanted->name) + 1);
        }
        touched[all->touched_count++] = name;
    }
    return PAWL_OK;
}

/* ---- reading tensors ---- */

typedef struct placing {
    const struct candidate *candidate;
    delivery *delivery; /* NULL unless tensors are in providers' memory */
    atomic_uint_fast64_t overflows;
} placing;

static const plan_read *read_of(const placing *p, size_t i) {
    return &p->candidate->reads.reads[i];
}

static engine_stretch stretch(void *context, size_t i) {
    const placing *p = context;
    const plan_read *read = read_of(p, i);
    bool noted = p->candidate->checkpoint->source->parts != NULL;
    return (engine_stretch){.file = read->file,
                            .offset = read->offset,
                            .bytes = read->bytes,
                            .gap = read->gap,
                            .to = noted ? NULL : read->straight};
}

static void place_tensor_bytes(void *context, size_t i, uint64_t offset, const uint8_t *bytes,
                               size_t n) {
    placing *p = context;
    const plan_read *read = read_of(p, i);
    source_note(p->candidate->checkpoint->source, read->file, offset, bytes, n);
    uint64_t overflows = read->pair->wanted->memory != NULL
                             ? delivery_put(p->delivery, read, offset, bytes, n)
                             : plan_read_place(read, offset, bytes, n);
    if (overflows > 0) {
        atomic_fetch_add(&p->overflows, overflows);
    }
}

static bool shares(const candidate *a) {
    return a->all->options != NULL && a->all->options->share_on_node != 0;
}

/* Where ranks of a node share what they read, each begins at another place, spread by multiples of
 * the golden ratio: these lie far apart for any consecutive ranks. */
static size_t first_read(const candidate *a) {
    double turns = (double)a->all->rank * 0.6180339887498949;
    double skipped = (turns - (double)(int64_t)turns) * (double)a->reads.bytes;
    size_t first = 0;
    for (uint64_t bytes = 0; shares(a) && first < a->reads.count; first++) {
        bytes += a->reads.reads[first].bytes;
        if ((double)bytes > skipped) {
            break;
        }
    }
    return first < a->reads.count ? first : 0;
}

static pawl_status interrupted_reading(const pawl_checkpoint *c, pawl_error *err) {
    error_wrap(err, "reading %s", c->source->label);
    error_safe(err, "the checkpoint is as it was; some tensors may hold bytes of it already");
    error_next(err, "restore again before the state is used");
    return PAWL_ECANCELED;
}

static bool wants_progress(const candidate *a) {
    return a->all->options != NULL && a->all->options->progress != NULL;
}

/* More may be read than is wanted: whole blocks. */
static void tell_progress(void *context, uint64_t bytes) {
    const placing *p = context;
    const pawl_restore_options *options = p->candidate->all->options;
    uint64_t of = p->candidate->reads.bytes;
    options->progress(options->progress_context, bytes < of ? bytes : of, of);
}

static pawl_status read_all(candidate *a, placing *p, pawl_error *err) {
    pawl_checkpoint *c = a->checkpoint;
    size_t failed = 0;
    engine_read_job job = {.source = source_files(c->source, c->platform),
                           .count = a->reads.count,
                           .first = first_read(a),
                           .stretch = stretch,
                           .take = place_tensor_bytes,
                           .stop = p->delivery != NULL ? delivery_failed(p->delivery) : NULL,
                           .interrupted = a->all->stop,
                           .progress = wants_progress(a) ? tell_progress : NULL,
                           .context = p};
    job.source.shared = shares(a);
    pawl_status status = engine_read_all(&job, &failed, err);
    report_counts(a->all->report)->cast_overflows += atomic_load(&p->overflows);
    if (status == PAWL_ECANCELED) {
        return interrupted_reading(c, err);
    }
    if (status != PAWL_OK) {
        const plan_read *read = &a->reads.reads[failed];
        return checkpoint_piece_failed(c, read->pair->source, read->piece, err);
    }
    return PAWL_OK;
}

static double hang_timeout_of(const restoration *all) {
    return all->hang_timeout_s > 0 ? all->hang_timeout_s : DEFAULT_HANG_TIMEOUT_S;
}

/* What was read before a failure is still on its way to the providers: that is waited for, too. A
 * copy that hangs may still come, over whatever is restored instead: that is the failure then, so
 * that no other checkpoint is tried. */
static pawl_status read_and_deliver(candidate *a, placing *p, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    TRY(state_snapshot_begin_writing(a->all->state, a->snapshot, err));
    TRY(delivery_new(a->checkpoint->platform, hang_timeout_of(a->all), &p->delivery, err));
    pawl_status status = read_all(a, p, err);
    pawl_status delivered = delivery_end(p->delivery, &a->snapshot, &story);
    bool hangs = a->snapshot == NULL;
    if (hangs || (status == PAWL_OK && delivered != PAWL_OK)) {
        *err = story;
        error_path(err, "%s", a->checkpoint->source->path);
        return delivered;
    }
    return status;
}

static int was_interrupted(void *context) {
    return interrupt_said(context);
}

/* What was read of a source whose checksums reading does not compare. */
static pawl_status check_sums(candidate *a, pawl_error *err) {
    pawl_checkpoint *c = a->checkpoint;
    pawl_status status = source_check_sums(c->source, was_interrupted, a->all->stop, err);
    if (status == PAWL_ECANCELED) {
        return interrupted_reading(c, err);
    }
    if (status != PAWL_OK) {
        error_safe(err, "the checkpoint is as it was; tensors may hold damaged bytes already");
        error_next(err, "build the state anew before it is used");
    }
    return status;
}

static pawl_status read_and_check(candidate *a, placing *p, pawl_error *err) {
    TRY(source_note_begin(a->checkpoint->source, err));
    pawl_status status = a->snapshot->provided ? read_and_deliver(a, p, err) : read_all(a, p, err);
    if (status == PAWL_OK) {
        status = check_sums(a, err);
    }
    source_note_end(a->checkpoint->source);
    return status;
}

static pawl_status read_tensors(candidate *a, pawl_error *err) {
    placing p = {.candidate = a};
    TRY(read_and_check(a, &p, err));
    if (wants_progress(a)) {
        tell_progress(&p, a->reads.bytes);
    }
    return PAWL_OK;
}

/* ---- setting values ---- */

static pawl_status set_state_value(candidate *a, const match_pair *pair, const void *bytes,
                                   size_t n, pawl_error *err) {
    const state_entry *wanted = pair->wanted;
    return state_set_value(a->all->state, wanted->name, wanted->kind, wanted->role,
                           wanted->per_rank, bytes, n, err);
}

static pawl_status restore_value(candidate *a, const match_pair *pair, uint64_t *bytes,
                                 pawl_error *err) {
    const record_entry *source = pair->source;
    if (source->value != NULL) {
        *bytes = source->value_bytes;
        return set_state_value(a, pair, source->value, source->value_bytes, err);
    }
    const record_piece *piece =
        source->per_rank ? record_piece_of_rank(source, a->all->rank) : &source->pieces[0];
    if (piece == NULL || piece->bytes > (uint64_t)PAWL_MAX_RANK_BYTES) {
        error_set(err, PAWL_EDAMAGED, "the checkpoint has no value of rank %d for this entry",
                  a->all->rank);
        error_path(err, "%s", a->checkpoint->source->path);
        error_entry(err, source->name);
        return PAWL_EDAMAGED;
    }
    size_t n = (size_t)piece->bytes;
    AUTOFREE void *value = mem_alloc(n);
    if (value == NULL) {
        return error_nomem(err, n);
    }
    *bytes = n;
    TRY(checkpoint_piece_bytes(a->checkpoint, source, piece, 0, value, n, err));
    return set_state_value(a, pair, value, n, err);
}

static pawl_status restore_values(candidate *a, pawl_error *err) {
    pawl_report_counts *counts = report_counts(a->all->report);
    for (size_t i = 0; i < a->match->pair_count; i++) {
        const match_pair *pair = &a->match->pairs[i];
        uint64_t bytes = 0;
        if (pair->keep_caller) {
            continue;
        }
        counts->restored++;
        if (pair->wanted->kind != PAWL_KIND_TENSOR) {
            TRY(restore_value(a, pair, &bytes, err));
            counts->bytes += bytes;
        } else if (pair->wanted->dtype != pair->source->dtype) {
            counts->cast++;
        }
    }
    return PAWL_OK;
}

uint64_t restore_wanted_bytes(const candidate *a) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < a->match->pair_count; i++) {
        const match_pair *pair = &a->match->pairs[i];
        for (size_t b = 0; b < pair->wanted->box_count && !pair->keep_caller; b++) {
            const int64_t *extent = state_entry_box(pair->wanted, b)->extent;
            bytes += shape_bytes(pair->source->dtype, pair->source->ndim, extent);
        }
    }
    return bytes;
}

static pawl_status read_matched(candidate *a, pawl_error *err) {
    TRY(plan_reads_make(a->match->pairs, a->match->pair_count, a->all->rank, &a->reads, err));
    TRY(note_touched(a, err));
    report_counts(a->all->report)->bytes = restore_wanted_bytes(a);
    TRY(read_tensors(a, err));
    return restore_values(a, err);
}

/* Warnings are logged also for a caller who gets the report (R07, J06), but without advice on what
 * to change: that is in the report. */
static void log_warnings(const pawl_checkpoint *c, const pawl_report *report, bool asked) {
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        if (item->severity == PAWL_SEVERITY_WARNING) {
            log_write(&c->log, PAWL_LOG_WARN, "restoring %s: %s", c->source->label,
                      asked ? item->description : item->text);
        }
    }
}

pawl_status restore_check_held(pawl_checkpoint *c, pawl_error *err) {
    return checkpoint_held(c, err);
}

pawl_status restore_match(restoration *all, pawl_checkpoint *c, pawl_error *err) {
    candidate *a = &all->now;
    restore_end_candidate(all);
    a->all = all;
    a->checkpoint = c;
    TRY(begin_report(a, err));
    TRY(match_entries(a, err));
    if (a->match->refused) {
        TRY(report_finish(all->report, err));
        pawl_status status = match_error(all->report, err);
        error_path(err, "%s", c->source->path);
        return status;
    }
    return check_touched(a, err);
}

pawl_status restore_read(restoration *all, pawl_error *err) {
    const pawl_checkpoint *c = all->now.checkpoint;
    pawl_status status = read_matched(&all->now, err);
    if (status != PAWL_OK) {
        if (err->path[0] == '\0') {
            error_path(err, "%s", c->source->path);
        }
        if (status == PAWL_EDAMAGED && err->safe[0] == '\0') {
            checkpoint_say_safe(c, err);
        }
        error_step(err, step_of(c));
        return status;
    }
    log_warnings(c, all->report, all->report_wanted);
    return report_finish(all->report, err);
}

pawl_status restore_pass_over(restoration *all, int64_t step, const pawl_error *story,
                              pawl_error *err) {
    const char *why = arena_printf(&all->memory, "%s%s%s", story->attempt,
                                   story->path[0] != '\0' ? ": " : "", story->path);
    if (why == NULL) {
        return error_nomem(err, sizeof(story->attempt));
    }
    TRY(vec_reserve(&all->fallbacks, &all->fallback_capacity, all->fallback_count + 1,
                    sizeof(*all->fallbacks), err));
    all->fallbacks[all->fallback_count++] = (event_fallback){.step = step, .why = why};
    return PAWL_OK;
}

void restore_end(restoration *all, pawl_status status, pawl_report **report) {
    if (status != PAWL_OK) {
        restore_take_back(all);
    }
    if (report != NULL && (status == PAWL_OK || status == PAWL_EMISMATCH)) {
        *report = all->report;
        all->report = NULL;
    }
}

pawl_status checkpoint_restore(pawl_checkpoint *c, pawl_state *state,
                               const pawl_restore_options *options, int rank, int world_size,
                               pawl_report **report, pawl_error *err) {
    interrupt stop = restore_interrupt(options);
    CLEANUP(restoration_free)
    restoration all = {.state = state,
                       .stop = &stop,
                       .options = options,
                       .rank = rank,
                       .world_size = world_size,
                       .report_wanted = report != NULL};
    if (report != NULL) {
        *report = NULL;
    }
    pawl_status status = checkpoint_held(c, err);
    if (status == PAWL_OK) {
        status = restore_match(&all, c, err);
    }
    if (status == PAWL_OK) {
        status = restore_read(&all, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "restoring %s", c->source->label);
    }
    restore_end(&all, status, report);
    return status;
}
