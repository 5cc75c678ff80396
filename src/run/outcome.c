/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a save ended, from rank 0 to the others: a file in the run's directory (G3). The file itself
 * is not synced: after a power loss nobody waits for it.
 */
#include "run/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pawl_status encode_end(save_end end, int64_t step, const pawl_error *story, buffer *out,
                              pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    if (end != SAVE_END_COMMITTED) {
        TRY(failure_encode(story, OUTCOME_MAX_STORY, &text, err));
    }
    return outcome_encode(
        &(save_outcome){.end = end, .step = step, .story = text.data, .story_bytes = text.size},
        out, err);
}

pawl_status outcome_publish(pawl_run *run, const char *tag, save_end end, int64_t step,
                            const pawl_error *story, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    char name[80];
    name_outcome(name, tag);
    TRY(encode_end(end, step, story, &bytes, err));
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

/* This rank has called pawl_save more or less often than rank 0: the numbers of their saves do not
 * agree. */
static pawl_status of_another_step(const awaited *a, const save_outcome *o, pawl_error *err) {
    char who[320];
    atomic_store(&a->run->resynchronise, true);
    error_set(err, PAWL_EMISMATCH, "the ranks do not save the same step: %s saves another one",
              rank_text(who, a->run->ranks, 0));
    outcome_path(a, err);
    error_expected(err, "step %lld, as this rank (rank %d)", (long long)a->step,
                   a->run->ranks->rank);
    error_found(err, "step %lld", (long long)o->step);
    error_next(err, "call pawl_save on all ranks for the same steps, and equally often");
    return PAWL_EMISMATCH;
}

static pawl_status judge_outcome(const awaited *a, const save_outcome *o, pawl_error *err) {
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

/* Returns how the save ended. *there is false: the outcome is not seen yet. */
static pawl_status read_outcome(const awaited *a, bool *there, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    char name[80];
    save_outcome o;
    name_outcome(name, a->tag);
    *there = false;
    pawl_status status = store_read_file(a->run->store, name, OUTCOME_MAX_BYTES, &bytes, err);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        return status;
    }
    run_made_progress(a->run);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK;
    }
    TRY(outcome_decode(bytes.data, bytes.size, &o, err));
    *there = true;
    return judge_outcome(a, &o, err);
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

static pawl_status note_outcome(void *context, const store_listed *found, pawl_error *err) {
    const char *name = found->name;
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

/* There is no outcome, but where the manifest names this save's files the save is committed, once
 * that is made durable here. */
static bool is_committed(const awaited *a) {
    struct pawl_error ignored = ERROR_INIT;
    return commit_names(a->run, a->directory, a->tag) == COMMIT_NAMED &&
           store_sync_dir(a->run->store, a->directory, &ignored) == PAWL_OK;
}

static pawl_status rank_0_is_dead(const awaited *a, pawl_error *err) {
    char who[320];
    bool certain = commit_names(a->run, a->directory, a->tag) == COMMIT_NOT_NAMED &&
                   a->run->store->traits.coherent && /* else a rename may not be visible yet, */
                   !a->run->store->traits.objects;   /* or a put be on its way */
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

/* `trouble`: why the last look for the outcome failed; the storage may be to blame, not rank 0. */
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
               "the save may still be committed: see with pawl ls %s; check that rank 0 runs, "
               "and that its storage responds",
               a->run->store->root);
    return status;
}

static pawl_status without_outcome(const awaited *a, bool dead, const pawl_error *trouble,
                                   pawl_error *err) {
    if (is_committed(a)) {
        return PAWL_OK;
    }
    return dead ? rank_0_is_dead(a, err) : rank_0_is_late(a, trouble, err);
}

/* A failure of the storage does not end the wait: it may work again before the deadline. */
pawl_status outcome_wait(pawl_run *run, const char *directory, const char *tag, int64_t step,
                         pawl_error *err) {
    const awaited a = {.run = run, .directory = directory, .tag = tag, .step = step};
    struct pawl_error trouble = ERROR_INIT;
    ranks_pause pause = {0};
    uint64_t deadline_ns = platform_deadline_ns(run->platform, run->ranks->timeout_s);
    for (;;) {
        /* Asked before the look: what rank 0 published before it ended is seen then. */
        bool dead = rank_has_ended(run->ranks, 0);
        bool late = platform_late(run->platform, deadline_ns);
        bool there;
        struct pawl_error story = ERROR_INIT;
        pawl_status status = read_outcome(&a, &there, &story);
        if (there) {
            *err = status != PAWL_OK ? story : *err;
            return status;
        }
        trouble.status = PAWL_OK;
        if (status != PAWL_OK) {
            trouble = story;
        }
        if (dead || late) {
            return without_outcome(&a, dead, &trouble, err);
        }
        ranks_sleep(run->ranks, &pause, deadline_ns);
    }
}
