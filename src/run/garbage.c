/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leftovers of a whole run (one step's: sweep.c): when they are looked for, and which steps there
 * are to come back to.
 */
#include "run/save.h"
#include "run/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one step ------------------------------------------------------------------------------- */

/* The name of a directory that is gone. */
static pawl_status sync_name(const sweep *s, pawl_error *err) {
    return s->gone ? store_sync_dir(s->run->store, "", err) : PAWL_OK;
}

static pawl_status sweep_one(sweep *s, pawl_error *err) {
    pawl_status status = sweep_step(s, err);
    if (status != PAWL_OK) {
        error_wrap(err, "remove leftovers of %s", s->directory);
    }
    return status;
}

pawl_status garbage_sweep_step(pawl_run *run, const char *directory, bool dry_run, pawl_gc_fn each,
                               void *context, pawl_error *err) {
    sweep s = {
        .run = run, .directory = directory, .dry_run = dry_run, .each = each, .context = context};
    TRY(sweep_one(&s, err));
    return sync_name(&s, err);
}

/* The steps among the names, however one fares: the first failure is the whole one, and others are
 * logged. `all`: as each is to be swept. The names of those that are gone are synced together. */
static pawl_status sweep_names(sweep all, char **names, size_t count, pawl_error *err) {
    pawl_status first = PAWL_OK;
    for (size_t i = 0; i < count; i++) {
        int64_t step;
        struct pawl_error story = ERROR_INIT;
        if (!name_step_parse(names[i], &step)) {
            continue;
        }
        sweep one = all;
        one.directory = names[i];
        pawl_status status = sweep_one(&one, &story);
        all.gone = all.gone || one.gone;
        if (status != PAWL_OK && first != PAWL_OK) {
            log_write(&all.run->log, PAWL_LOG_WARN, "%s", error_text(&story));
        } else if (status != PAWL_OK) {
            first = status;
            *err = story;
        }
    }
    struct pawl_error story = ERROR_INIT;
    pawl_status synced = sync_name(&all, &story);
    if (first == PAWL_OK && synced != PAWL_OK) {
        *err = story;
    }
    return first != PAWL_OK ? first : synced;
}

/* ---- the whole run -------------------------------------------------------------------------- */

#define DOCTOR_IS_GONE_S 3600.0 /* far beyond what a doctor waits for its ranks */

/* NULL: it stays. What ranks of this attempt have agreed on, and how its last save ended, they may
 * still look at. */
static const char *root_reason(const pawl_run *run, const char *name) {
    char tag[FORMAT_TAG_CHARS];
    name_root_kind kind = name_root_classify(name, tag);
    size_t n = strlen(run->ranks->attempt);
    bool ours = n > 0 && strncmp(tag, run->ranks->attempt, n) == 0;
    bool past =
        ours && kind == NAME_ROOT_OUTCOME && strtoull(tag + n + 1, NULL, 10) < run->flying_number;
    if (strcmp(name, NAME_LATEST ".tmp") == 0) {
        return "a hint that was never published";
    }
    if (ours && !past) {
        return NULL;
    }
    switch (kind) {
    case NAME_ROOT_OUTCOME:
        return "how a save ended, which every rank knows";
    case NAME_ROOT_STRUCTURE:
        return "what the ranks of an earlier job agreed on";
    case NAME_ROOT_MEET:
        return "of a meeting of ranks that is over";
    case NAME_ROOT_PROBE:
        return "of a probe of the storage that was killed";
    case NAME_ROOT_DOCTOR:
        return owner_is_newer(run->owner, name, DOCTOR_IS_GONE_S) ? "of a doctor that was killed"
                                                                  : NULL;
    case NAME_ROOT_FOREIGN:
        break;
    }
    return NULL;
}

static pawl_status sweep_root(sweep *s, char **names, size_t count, pawl_error *err) {
    for (size_t i = 0; i < count; i++) {
        const char *reason = root_reason(s->run, names[i]);
        if (reason != NULL) {
            TRY(sweep_file(s, names[i], reason, err));
        } else if (sweep_is_look(names[i])) {
            sweep_remove_look(s);
        }
    }
    return PAWL_OK;
}

pawl_status run_gc(pawl_run *run, bool dry_run, pawl_gc_fn each, void *context, pawl_error *err) {
    TRY(run_refuse_guest(run, "pawl_run_gc", err));
    TRY(run_settle(run, err));
    TRY(owner_renew(run->owner, err));
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    TRY(store_names(run->store, "", FORMAT_MAX_NAMES, &memory, &names, &count, err));
    sweep root = {
        .run = run, .directory = "", .dry_run = dry_run, .each = each, .context = context};
    const sweep all = root;
    TRY(sweep_root(&root, names, count, err));
    return sweep_names(all, names, count, err);
}

/* ---- after a commit ------------------------------------------------------------------------- */

#define STEPS_REMEMBERED 64

/* To come back to: steps of saves that failed, and those in which something had to stay. */
struct garbage {
    monitor guard;
    int64_t steps[STEPS_REMEMBERED];
    size_t count;
    bool more; /* than it holds */
};

pawl_status garbage_new(pawl_run *run, pawl_error *err) {
    struct garbage *g = mem_calloc(1, sizeof *g);
    if (g == NULL) {
        return error_nomem(err, sizeof *g);
    }
    pawl_status status = monitor_init(&g->guard, err);
    if (status != PAWL_OK) {
        mem_free(g);
        return status;
    }
    run->garbage = g;
    return PAWL_OK;
}

void garbage_free(struct garbage *g) {
    if (g != NULL) {
        monitor_destroy(&g->guard);
        mem_free(g);
    }
}

void garbage_remember(pawl_run *run, int64_t step) {
    struct garbage *g = run->garbage;
    monitor_enter(&g->guard);
    bool known = false;
    for (size_t i = 0; i < g->count; i++) {
        known = known || g->steps[i] == step;
    }
    if (!known && g->count == STEPS_REMEMBERED) { /* the oldest was swept often */
        memmove(g->steps, g->steps + 1, --g->count * sizeof *g->steps);
        g->more = true;
    }
    if (!known) {
        g->steps[g->count++] = step;
    }
    monitor_leave(&g->guard);
}

static bool forget(struct garbage *g, int64_t steps[STEPS_REMEMBERED], size_t *count) {
    monitor_enter(&g->guard);
    bool more = g->more;
    *count = g->count;
    memcpy(steps, g->steps, g->count * sizeof *steps);
    g->count = 0;
    g->more = false;
    monitor_leave(&g->guard);
    return more;
}

/* The failures of what nobody waits for are only logged. */
static void note(const pawl_run *run, pawl_status status, pawl_error *story) {
    if (status != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_WARN, "%s", error_text(story));
    }
}

static void sweep_quietly(pawl_run *run, const char *directory) {
    struct pawl_error story = ERROR_INIT;
    note(run, garbage_sweep_step(run, directory, false, NULL, NULL, &story), &story);
}

/* Not with the rest of the directory, which stays as it is while someone reads there. */
static void remove_votes(pawl_run *run, const char *directory, const char *tag) {
    struct pawl_error ignored = ERROR_INIT;
    for (int r = 1; r < run->ranks->world_size && owner_fresh(run->owner); r++) {
        char name[80];
        char path[STORE_MAX_PATH];
        name_vote(name, tag, r);
        snprintf(path, sizeof path, "%s/%s", directory, name);
        if (store_unlink(run->store, path, &ignored) == PAWL_OK) {
            run_moved(run);
        }
    }
}

/* `under_way`: the directory of a save that is; it stays, for other ranks may have begun to write
 * there. NULL: none is, and what cannot be removed is told. */
static void sweep_steps(pawl_run *run, const int64_t *steps, size_t count, const char *under_way) {
    for (size_t i = 0; i < count; i++) {
        char directory[32];
        struct pawl_error story = ERROR_INIT;
        store_stat found;
        name_step(directory, steps[i]);
        if (store_stat_path(run->store, directory, &found, &story) != PAWL_OK) {
            continue;
        }
        if (under_way == NULL) {
            sweep_quietly(run, directory);
            continue;
        }
        sweep s = {.run = run,
                   .directory = directory,
                   .under_way = true,
                   .left = strcmp(directory, under_way) == 0};
        if (sweep_step(&s, &story) != PAWL_OK ||
            sync_name(&s, &story) != PAWL_OK) { /* told after the next commit, if it stays so */
            log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
        }
    }
}

void garbage_sweep_before(pawl_run *run, const char *directory) {
    struct garbage *g = run->garbage;
    int64_t steps[STEPS_REMEMBERED];
    monitor_enter(&g->guard);
    size_t count = g->count;
    memcpy(steps, g->steps, count * sizeof *steps);
    monitor_leave(&g->guard);
    sweep_steps(run, steps, count, directory);
}

/* All of the run, once; else what there is to come back to. */
static void sweep_rest(pawl_run *run) {
    struct pawl_error story = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    int64_t steps[STEPS_REMEMBERED];
    size_t remembered;
    bool all = forget(run->garbage, steps, &remembered) || !run->swept;
    if (!all && run->ranks->world_size == 1) {
        sweep_steps(run, steps, remembered, NULL);
        return;
    }
    if (store_names(run->store, "", FORMAT_MAX_NAMES, &memory, &names, &count, &story) != PAWL_OK) {
        note(run, PAWL_EIO, &story);
        sweep_steps(run, steps, remembered, NULL);
        return;
    }
    sweep root = {.run = run, .directory = ""};
    note(run, sweep_root(&root, names, count, &story), &story);
    if (all) {
        note(run, sweep_names((sweep){.run = run}, names, count, &story), &story);
    } else {
        sweep_steps(run, steps, remembered, NULL);
    }
    run->swept = true;
}

void garbage_sweep_after(pawl_run *run, const char *directory, const char *tag, bool replaced) {
    if (run->ranks->world_size > 1) {
        remove_votes(run, directory, tag);
    }
    if (replaced && run->swept) {
        sweep_quietly(run, directory);
    }
    sweep_rest(run);
}

/* ---- after a failed save -------------------------------------------------------------------- */

void garbage_remove_attempt(pawl_run *run, const char *directory, const char *tag) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    int64_t step;
    if (run->ranks->rank != 0) { /* G4 */
        return;
    }
    if (!commit_never_names(run, directory, tag) || /* I8 */
        store_names(run->store, directory, FORMAT_MAX_NAMES, &memory, &names, &count, &ignored) !=
            PAWL_OK) {
        if (name_step_parse(directory, &step)) {
            garbage_remember(run, step);
        }
        return;
    }
    size_t left = count;
    for (size_t i = 0; i < count; i++) {
        char file_tag[FORMAT_TAG_CHARS] = "";
        char path[STORE_MAX_PATH];
        (void)name_classify(names[i], file_tag);
        bool ours = strcmp(file_tag, tag) == 0;
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        if (ours && store_unlink(run->store, path, &ignored) == PAWL_OK) {
            left--;
        }
    }
    /* Another owner may be about to save into it. */
    if (left == 0 && owner_fresh(run->owner) &&
        store_remove_dir(run->store, directory, &ignored) != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&ignored));
    }
}
