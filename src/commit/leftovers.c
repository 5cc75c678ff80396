/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leftovers of a whole run: when they are searched for, and which steps are searched again later.
 * One step's directory: leftovers_step.c.
 */
#include "commit/leftovers_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one step ------------------------------------------------------------------------------- */

/* A step's directory that was removed stays removed after a crash. */
static pawl_status sync_removed_directory(const leftovers_search *s, pawl_error *err) {
    return s->directory_removed ? store_sync_dir(s->run->store, "", err) : PAWL_OK;
}

static pawl_status search_one_step(leftovers_search *s, pawl_error *err) {
    pawl_status status = leftovers_search_step(s, err);
    if (status != PAWL_OK) {
        error_wrap(err, "remove leftovers of %s", s->directory);
    }
    return status;
}

/* The store has caught up. */
static pawl_status remove_until(pawl_run *run, const char *directory, uint64_t until_ns,
                                pawl_error *err) {
    leftovers_search s = {.run = run, .directory = directory, .until_ns = until_ns};
    TRY(search_one_step(&s, err));
    return sync_removed_directory(&s, err);
}

pawl_status leftovers_remove(pawl_run *run, const char *directory, pawl_error *err) {
    store_catch_up(run->store);
    return remove_until(run, directory, 0, err);
}

/* Searches every step among the names, also after one has failed: the first failure is returned,
 * the others are logged. `all` is the search of each, but for its directory. One sync at the end
 * serves all directories that were removed. */
static pawl_status search_steps(leftovers_search all, char **names, size_t count, pawl_error *err) {
    pawl_status first = PAWL_OK;
    size_t searched = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t step;
        struct pawl_error story = ERROR_INIT;
        if (!name_step_parse(names[i], &step)) {
            continue;
        }
        if (searched > 0 && leftovers_time_is_up(&all)) {
            leftovers_remember(all.run, step);
            continue;
        }
        searched++;
        leftovers_search one = all;
        one.directory = names[i];
        pawl_status status = search_one_step(&one, &story);
        all.directory_removed = all.directory_removed || one.directory_removed;
        if (status != PAWL_OK && first != PAWL_OK) {
            log_write(&all.run->log, PAWL_LOG_WARN, "%s", error_text(&story));
        } else if (status != PAWL_OK) {
            first = status;
            *err = story;
        }
    }
    struct pawl_error story = ERROR_INIT;
    pawl_status synced = sync_removed_directory(&all, &story);
    if (first == PAWL_OK && synced != PAWL_OK) {
        *err = story;
    }
    return first != PAWL_OK ? first : synced;
}

/* ---- the whole run -------------------------------------------------------------------------- */

#define DOCTOR_IS_GONE_S 3600.0 /* far beyond what a doctor or visitors wait for their ranks */

/* Why a name in the run's directory is a leftover; NULL: it is none. Ranks may still read what was
 * agreed in this attempt, and how its last save ended. */
static const char *root_leftover_reason(const pawl_run *run, const char *name) {
    char tag[FORMAT_TAG_CHARS];
    name_root_kind kind = name_root_classify(name, tag);
    size_t n = strlen(run->ranks->attempt);
    bool ours = n > 0 && strncmp(tag, run->ranks->attempt, n) == 0;
    bool past =
        ours && kind == NAME_ROOT_OUTCOME && strtoull(tag + n + 1, NULL, 10) < run->current_number;
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
    case NAME_ROOT_VISIT:
        return owner_is_newer(run->owner, name, DOCTOR_IS_GONE_S)
                   ? "of ranks that restored without owning the run, and were killed"
                   : NULL;
    case NAME_ROOT_DOCTOR:
        return owner_is_newer(run->owner, name, DOCTOR_IS_GONE_S) ? "of a doctor that was killed"
                                                                  : NULL;
    case NAME_ROOT_FOREIGN:
        break;
    }
    return NULL;
}

static pawl_status remove_root_leftovers(leftovers_search *s, char **names, size_t count,
                                         pawl_error *err) {
    for (size_t i = 0; i < count; i++) {
        const char *reason = root_leftover_reason(s->run, names[i]);
        if (reason != NULL) {
            TRY(leftovers_remove_file(s, names[i], reason, err));
        } else if (leftovers_is_look(names[i])) {
            leftovers_remove_look(s);
        }
    }
    return PAWL_OK;
}

pawl_status leftovers_remove_all(pawl_run *run, bool dry_run, pawl_gc_fn each, void *context,
                                 pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    store_catch_up(run->store);
    TRY(store_names(run->store, "", FORMAT_MAX_NAMES, &memory, &names, &count, err));
    leftovers_search root = {
        .run = run, .directory = "", .dry_run = dry_run, .each = each, .context = context};
    const leftovers_search all = root;
    TRY(remove_root_leftovers(&root, names, count, err));
    return search_steps(all, names, count, err);
}

/* ---- after a commit ------------------------------------------------------------------------- */

#define STEPS_REMEMBERED 64

/* Steps to search again: those of failed saves, and those in which something had to be kept. */
struct leftovers {
    bool searched; /* the whole run, after this handle's first commit; engine's thread only */
    monitor guard; /* of the rest */
    int64_t steps[STEPS_REMEMBERED];
    size_t count;
    bool more; /* there were more steps than `steps` holds */
};

pawl_status leftovers_new(pawl_run *run, pawl_error *err) {
    struct leftovers *l = mem_calloc(1, sizeof *l);
    if (l == NULL) {
        return error_nomem(err, sizeof *l);
    }
    pawl_status status = monitor_init(&l->guard, err);
    if (status != PAWL_OK) {
        mem_free(l);
        return status;
    }
    run->leftovers = l;
    return PAWL_OK;
}

void leftovers_free(struct leftovers *l) {
    if (l != NULL) {
        monitor_destroy(&l->guard);
        mem_free(l);
    }
}

void leftovers_remember(pawl_run *run, int64_t step) {
    struct leftovers *l = run->leftovers;
    monitor_enter(&l->guard);
    bool known = false;
    for (size_t i = 0; i < l->count; i++) {
        known = known || l->steps[i] == step;
    }
    if (!known && l->count == STEPS_REMEMBERED) { /* the oldest was searched often */
        memmove(l->steps, l->steps + 1, --l->count * sizeof *l->steps);
        l->more = true;
    }
    if (!known) {
        l->steps[l->count++] = step;
    }
    monitor_leave(&l->guard);
}

static bool take_remembered(struct leftovers *l, int64_t steps[STEPS_REMEMBERED], size_t *count) {
    monitor_enter(&l->guard);
    bool more = l->more;
    *count = l->count;
    memcpy(steps, l->steps, l->count * sizeof *steps);
    l->count = 0;
    l->more = false;
    monitor_leave(&l->guard);
    return more;
}

/* Nobody waits for what runs after a commit: its failures are only logged. */
static void log_failure(const pawl_run *run, pawl_status status, pawl_error *story) {
    if (status != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_WARN, "%s", error_text(story));
    }
}

static void remove_and_log(pawl_run *run, const char *directory, uint64_t until_ns) {
    struct pawl_error story = ERROR_INIT;
    log_failure(run, remove_until(run, directory, until_ns, &story), &story);
}

/* Leftovers are removed until then: other ranks may wait for the outcome of the next save already.
 * However long looks take, a search removes one file before it asks whether time is up. */
static uint64_t limit_of(const pawl_run *run) {
    return platform_deadline_ns(run->platform, run->ranks->timeout_s / 8);
}

/* The votes on the save that was just committed, also while a reader keeps the rest in place. */
static void remove_counted_votes(pawl_run *run, const char *directory, const char *tag) {
    struct pawl_error ignored = ERROR_INIT;
    for (int r = 1; r < run->ranks->world_size && owner_fresh(run->owner); r++) {
        char name[80];
        char path[STORE_MAX_PATH];
        name_vote(name, tag, r);
        snprintf(path, sizeof path, "%s/%s", directory, name);
        if (store_unlink(run->store, path, &ignored) == PAWL_OK) {
            run_made_progress(run);
        }
    }
}

/* `under_way`: the directory of the save under way, which is kept because other ranks may have
 * begun to write there. NULL: no save is under way; then what cannot be removed is a warning. */
static void search_remembered(pawl_run *run, const int64_t *steps, size_t count,
                              const char *under_way, uint64_t until_ns) {
    for (size_t i = 0; i < count; i++) {
        char directory[32];
        struct pawl_error story = ERROR_INIT;
        store_stat found;
        if (i > 0 && platform_late(run->platform, until_ns)) {
            leftovers_remember(run, steps[i]);
            continue;
        }
        name_step(directory, steps[i]);
        if (store_stat_path(run->store, directory, &found, &story) != PAWL_OK) {
            continue;
        }
        if (under_way == NULL) {
            remove_and_log(run, directory, until_ns);
            continue;
        }
        leftovers_search s = {.run = run,
                              .directory = directory,
                              .save_under_way = true,
                              .until_ns = until_ns,
                              .kept = strcmp(directory, under_way) == 0};
        if (leftovers_search_step(&s, &story) != PAWL_OK ||
            sync_removed_directory(&s, &story) !=
                PAWL_OK) { /* a warning after the next commit, if it persists */
            log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
        }
    }
}

void leftovers_before_save(pawl_run *run, const char *directory) {
    struct leftovers *l = run->leftovers;
    int64_t steps[STEPS_REMEMBERED];
    monitor_enter(&l->guard);
    size_t count = l->count;
    memcpy(steps, l->steps, count * sizeof *steps);
    monitor_leave(&l->guard);
    if (count > 0) {
        store_catch_up(run->store);
    }
    search_remembered(run, steps, count, directory, limit_of(run));
}

/* The whole run after the first commit of this handle, later the remembered steps. The store has
 * caught up. */
static void search_rest(pawl_run *run, uint64_t until_ns) {
    struct pawl_error story = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    int64_t steps[STEPS_REMEMBERED];
    size_t remembered;
    bool all = take_remembered(run->leftovers, steps, &remembered) || !run->leftovers->searched;
    if (!all && run->ranks->world_size == 1) {
        search_remembered(run, steps, remembered, NULL, until_ns);
        return;
    }
    if (store_names(run->store, "", FORMAT_MAX_NAMES, &memory, &names, &count, &story) != PAWL_OK) {
        log_failure(run, PAWL_EIO, &story);
        search_remembered(run, steps, remembered, NULL, until_ns);
        return;
    }
    leftovers_search root = {.run = run, .directory = ""};
    log_failure(run, remove_root_leftovers(&root, names, count, &story), &story);
    if (all) {
        const leftovers_search search = {.run = run, .until_ns = until_ns};
        log_failure(run, search_steps(search, names, count, &story), &story);
    } else {
        search_remembered(run, steps, remembered, NULL, until_ns);
    }
    run->leftovers->searched = true;
}

void leftovers_after_commit(pawl_run *run, const char *directory, const char *tag, bool replaced) {
    if (run->ranks->world_size > 1) {
        remove_counted_votes(run, directory, tag);
    }
    store_catch_up(run->store);
    uint64_t until_ns = limit_of(run);
    if (replaced && run->leftovers->searched) {
        remove_and_log(run, directory, until_ns);
    }
    search_rest(run, until_ns);
}

/* ---- after a failed save -------------------------------------------------------------------- */

void leftovers_remove_failed(pawl_run *run, const char *directory, const char *tag) {
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
            leftovers_remember(run, step);
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
    /* Only the owner: another one may be about to save into it. */
    if (left == 0 && owner_fresh(run->owner) &&
        store_remove_dir(run->store, directory, &ignored) != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&ignored));
    }
}
