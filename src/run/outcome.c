/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a save ended, from rank 0 to the others: a file in the run's directory (G3). What it tells of
 * is durable; it is not itself, for after a power loss nobody waits for it.
 */
#include "run/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pawl_status encode(save_end end, int64_t step, const pawl_error *story, buffer *out,
                          pawl_error *err) {
    CLEANUP(buffer_free) buffer told = {0};
    if (end != SAVE_END_COMMITTED) {
        TRY(failure_encode(story, OUTCOME_MAX_STORY, &told, err));
    }
    return outcome_encode(
        &(save_outcome){.end = end, .step = step, .story = told.data, .story_bytes = told.size},
        out, err);
}

pawl_status outcome_tell(pawl_run *run, const char *tag, save_end end, int64_t step,
                         const pawl_error *story, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    char name[80];
    name_outcome(name, tag);
    TRY(encode(end, step, story, &bytes, err));
    return store_replace(run->store, name, bytes.data, bytes.size, err);
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* The save whose outcome is waited for. */
typedef struct awaited {
    pawl_run *run;
    const char *directory, *tag;
    int64_t step;
} awaited;

static void outcome_path(const awaited *a, pawl_error *err) {
    char name[80];
    name_outcome(name, a->tag);
    run_error_path(a->run, err, name);
}

/* This rank has called pawl_save more or less often than rank 0. */
static pawl_status of_another_step(const awaited *a, const save_outcome *o, pawl_error *err) {
    char who[320];
    atomic_store(&a->run->astray, true);
    error_set(err, PAWL_EMISMATCH, "the ranks do not save the same step: %s saves another one",
              rank_text(who, a->run->ranks, 0));
    outcome_path(a, err);
    error_expected(err, "step %lld, as this rank (rank %d)", (long long)a->step,
                   a->run->ranks->rank);
    error_found(err, "step %lld", (long long)o->step);
    error_next(err, "call pawl_save on all ranks for the same steps, and equally often");
    return PAWL_EMISMATCH;
}

static pawl_status told(const awaited *a, const save_outcome *o, pawl_error *err) {
    if (o->step != a->step) {
        return of_another_step(a, o, err);
    }
    if (o->end == SAVE_END_COMMITTED) {
        return PAWL_OK;
    }
    TRY(failure_decode(o->story, o->story_bytes, err, err));
    if (o->end == SAVE_END_UNKNOWN) {
        error_next(err, "step %lld may be committed or not: see with pawl ls %s",
                   (long long)a->step, a->run->store->root);
    }
    return err->status;
}

/* *there is false where it is not told yet, as far as can be seen. */
static pawl_status look(const awaited *a, bool *there, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    char name[80];
    save_outcome o;
    name_outcome(name, a->tag);
    *there = false;
    pawl_status status = store_read_file(a->run->store, name, OUTCOME_MAX_BYTES, &bytes, err);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        return status;
    }
    run_moved(a->run);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK;
    }
    TRY(outcome_decode(bytes.data, bytes.size, &o, err));
    *there = true;
    return told(a, &o, err);
}

bool outcome_is_there(pawl_run *run, const char *tag) {
    struct pawl_error ignored = ERROR_INIT;
    char name[80];
    store_stat found;
    name_outcome(name, tag);
    return store_stat_path(run->store, name, &found, &ignored) == PAWL_OK;
}

typedef struct newest {
    const pawl_run *run;
    uint64_t number;
} newest;

static pawl_status note_outcome(void *context, const char *name, pawl_error *err) {
    (void)err;
    newest *n = context;
    char tag[FORMAT_TAG_CHARS];
    size_t attempt = strlen(n->run->ranks->attempt);
    if (name_root_classify(name, tag) == NAME_ROOT_OUTCOME &&
        strncmp(tag, n->run->ranks->attempt, attempt) == 0) {
        uint64_t number = strtoull(tag + attempt + 1, NULL, 10);
        n->number = number > n->number ? number : n->number;
    }
    return PAWL_OK;
}

uint64_t outcome_newest(pawl_run *run) {
    struct pawl_error ignored = ERROR_INIT;
    newest n = {.run = run};
    return store_list(run->store, "", note_outcome, &n, &ignored) == PAWL_OK ? n.number : 0;
}

/* Nothing was told. The manifest may tell: where it names this save's files, and that is made
 * durable here, the save is committed. */
static bool is_committed(const awaited *a) {
    struct pawl_error ignored = ERROR_INIT;
    return commit_names(a->run, a->directory, a->tag) == COMMIT_NAMED &&
           store_sync_dir(a->run->store, a->directory, &ignored) == PAWL_OK;
}

static pawl_status rank_0_is_dead(const awaited *a, pawl_error *err) {
    char who[320];
    bool certain = commit_names(a->run, a->directory, a->tag) == COMMIT_NOT_NAMED &&
                   a->run->store->traits.coherent; /* a rename may still be on its way */
    error_set(err, PAWL_EPEER, "%s has ended without telling how the save went",
              rank_text(who, a->run->ranks, 0));
    outcome_path(a, err);
    error_expected(err, "the outcome that rank 0 tells all ranks");
    error_found(err, certain ? "no such file, and no manifest of this save: it is not committed"
                             : "no such file, and no manifest of this save is seen");
    error_next(err,
               "look into rank 0's log for why it ended; a new start of the job continues "
               "from the newest checkpoint%s",
               certain ? "" : "; whether this step is one, pawl ls tells");
    return PAWL_EPEER;
}

/* Where this rank could not look at the end, its storage is to blame and not rank 0. */
static pawl_status rank_0_is_late(const awaited *a, const pawl_error *trouble, pawl_error *err) {
    char who[320];
    char waited[32];
    pawl_status status = trouble->status != PAWL_OK ? trouble->status : PAWL_EPEER;
    error_set(err, status, "%s has not told within %s how the save went",
              rank_text(who, a->run->ranks, 0), text_seconds(waited, a->run->ranks->timeout_s));
    outcome_path(a, err);
    error_expected(err, "the outcome that rank 0 tells all ranks");
    error_found(err, "no such file");
    if (trouble->status != PAWL_OK) {
        error_found(err, "%s", trouble->attempt);
        snprintf(err->system, sizeof err->system, "%s", trouble->system);
    }
    error_next(err,
               "the save may still be committed: see with pawl ls %s; look whether rank 0 runs, "
               "and whether its storage moves",
               a->run->store->root);
    return status;
}

static pawl_status not_told(const awaited *a, bool dead, const pawl_error *trouble,
                            pawl_error *err) {
    if (is_committed(a)) {
        return PAWL_OK;
    }
    return dead ? rank_0_is_dead(a, err) : rank_0_is_late(a, trouble, err);
}

/* A storage that fails may work again before the deadline. */
pawl_status outcome_wait(pawl_run *run, const char *directory, const char *tag, int64_t step,
                         pawl_error *err) {
    const awaited a = {.run = run, .directory = directory, .tag = tag, .step = step};
    struct pawl_error trouble = ERROR_INIT;
    ranks_pause pause = {0};
    uint64_t deadline_ns = platform_deadline_ns(run->platform, run->ranks->timeout_s);
    for (;;) {
        bool dead =
            rank_alive(run->ranks, 0) == PROCESS_DEAD; /* what it told before is there to see */
        bool late = platform_late(run->platform, deadline_ns);
        bool there;
        struct pawl_error story = ERROR_INIT;
        pawl_status status = look(&a, &there, &story);
        if (there) {
            *err = status != PAWL_OK ? story : *err;
            return status;
        }
        trouble.status = PAWL_OK;
        if (status != PAWL_OK) {
            trouble = story;
        }
        if (dead || late) {
            return not_told(&a, dead, &trouble, err);
        }
        ranks_sleep(run->ranks, &pause, deadline_ns);
    }
}
