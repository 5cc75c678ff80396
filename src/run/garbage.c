/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What interrupted saves and removals left behind. Only the owner of a run looks for it, so
 * whatever no manifest names belongs to a writer that is gone (I5, I6 in commit.c), or to another
 * rank of the same job: what those write for a save that has not ended is spared (G4), what they
 * wrote for one that failed is removed before the next save, as far as it is there, and after the
 * next commit, for which all of them voted. Names that pawl does not make are never touched, and a
 * manifest that cannot be read protects everything beside it.
 */
#include "run/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sweep {
    pawl_run *run;
    const char *directory;
    bool dry_run;
    bool under_way; /* a save is: the one of this number has not ended */
    pawl_gc_fn each;
    void *context;
    uint64_t removed, left; /* names */
} sweep;

/* O4. A sweep that was paused must not take a successor's unfinished save for its own leftovers. */
static pawl_status still_owner(const sweep *s, pawl_error *err) {
    return owner_fresh(s->run->owner) ? PAWL_OK : owner_renew(s->run->owner, err);
}

static pawl_status sweep_file(sweep *s, const char *name, const char *reason, pawl_error *err) {
    char path[STORE_MAX_PATH];
    snprintf(path, sizeof path, "%s%s%s", s->directory, s->directory[0] != '\0' ? "/" : "", name);
    store_stat found = {0};
    pawl_status status = store_stat_path(s->run->store, path, &found, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        return status;
    }
    if (s->each != NULL) {
        s->each(s->context, path, found.size, reason);
    }
    s->removed++;
    if (s->dry_run) {
        return PAWL_OK;
    }
    TRY(still_owner(s, err));
    TRY(store_unlink(s->run->store, path, err));
    run_moved(s->run);
    return PAWL_OK;
}

/* ---- which files a manifest names ----------------------------------------------------------- */

static bool manifest_names(const manifest *m, const char *name) {
    if (strcmp(m->index_name, name) == 0) {
        return true;
    }
    for (size_t i = 0; i < m->file_count; i++) {
        if (strcmp(m->files[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Of this attempt, and of a save that rank 0 has not ended yet: other ranks may be ahead of it. */
static bool is_ahead(const sweep *s, const char *tag) {
    const pawl_run *run = s->run;
    size_t n = strlen(run->attempt);
    return strncmp(tag, run->attempt, n) == 0 && tag[n] == '-' &&
           strtoull(tag + n + 1, NULL, 10) + s->under_way > run->flying_number;
}

static const char *reason_of(name_kind kind, const manifest *m) {
    if (m == NULL) {
        return "of a save that was never committed";
    }
    return kind == NAME_KIND_VOTE ? "a vote on a save that has ended"
                                  : "of a save that the manifest does not name";
}

/* Names of the data and index files of a committed step share a few tags; only others
 * are garbage. */
static pawl_status sweep_names(sweep *s, const manifest *m, char **names, size_t count,
                               pawl_error *err) {
    for (size_t i = 0; i < count; i++) {
        char tag[FORMAT_TAG_CHARS];
        name_kind kind = name_classify(names[i], tag);
        bool ended = !is_ahead(s, tag);
        bool is_file = kind == NAME_KIND_DATA || kind == NAME_KIND_INDEX || kind == NAME_KIND_VOTE;
        if (ended && kind == NAME_KIND_MANIFEST_TMP) {
            TRY(sweep_file(s, names[i], "a manifest that was never published", err));
        } else if (ended && is_file && (m == NULL || !manifest_names(m, names[i]))) {
            TRY(sweep_file(s, names[i], reason_of(kind, m), err));
        } else if (m == NULL && kind == NAME_KIND_PINNED) {
            TRY(sweep_file(s, names[i], "the pin of a checkpoint that is gone", err));
        } else {
            s->left++;
        }
    }
    return PAWL_OK;
}

static pawl_status read_manifest(sweep *s, manifest *m, bool *present, pawl_error *err) {
    char path[STORE_MAX_PATH];
    CLEANUP(buffer_free) buffer text = {0};
    snprintf(path, sizeof path, "%s/" NAME_MANIFEST, s->directory);
    pawl_status status = store_read_file(s->run->store, path, FORMAT_MAX_MANIFEST, &text, err);
    *present = status == PAWL_OK;
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        return status;
    }
    return manifest_decode(text.data, text.size, m, err);
}

static pawl_status sweep_with_manifest(sweep *s, const manifest *m, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    /* I5: what is seen now must be what a crash would leave. */
    TRY(store_sync_dir(s->run->store, s->directory, err));
    TRY(store_names(s->run->store, s->directory, RUN_MAX_NAMES, &memory, &names, &count, err));
    TRY(sweep_names(s, m, names, count, err));
    if (s->removed == 0 && count > 0) {
        return PAWL_OK;
    }
    if (s->dry_run) {
        return PAWL_OK;
    }
    if (m == NULL && s->left == 0) {
        TRY(still_owner(s, err));
        TRY(store_remove_dir(s->run->store, s->directory, err));
        return store_sync_dir(s->run->store, "", err);
    }
    return store_sync_dir(s->run->store, s->directory, err);
}

static pawl_status sweep_step(sweep *s, pawl_error *err) {
    bool being_read;
    TRY(reader_look(s->run->store, s->directory, s->run->platform, s->run->lease_s, s->run->watch,
                    &being_read, err));
    if (being_read) {
        return PAWL_OK;
    }
    CLEANUP(manifest_free) manifest m = {0};
    bool present;
    pawl_status status = read_manifest(s, &m, &present, err);
    if (status != PAWL_OK) {
        log_write(&s->run->log, PAWL_LOG_WARN,
                  "leftovers in %s are kept, because its manifest cannot be read: %s", s->directory,
                  error_text(err));
        return PAWL_OK;
    }
    return sweep_with_manifest(s, present ? &m : NULL, err);
}

pawl_status garbage_sweep_step(pawl_run *run, const char *directory, bool dry_run, pawl_gc_fn each,
                               void *context, pawl_error *err) {
    sweep s = {
        .run = run, .directory = directory, .dry_run = dry_run, .each = each, .context = context};
    pawl_status status = sweep_step(&s, err);
    if (status != PAWL_OK) {
        error_wrap(err, "remove leftovers of %s", directory);
    }
    return status;
}

/* ---- the whole run -------------------------------------------------------------------------- */

#define DOCTOR_IS_GONE_S 3600.0 /* far beyond what a doctor waits for its ranks */

/* NULL: it stays. What ranks of this attempt have agreed on, and how its last save ended, they may
 * still look at. */
static const char *root_reason(const pawl_run *run, const char *name) {
    char tag[FORMAT_TAG_CHARS];
    name_root_kind kind = name_root_classify(name, tag);
    size_t n = strlen(run->attempt);
    bool ours = n > 0 && strncmp(tag, run->attempt, n) == 0;
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
        }
    }
    return PAWL_OK;
}

pawl_status run_gc(pawl_run *run, bool dry_run, pawl_gc_fn each, void *context, pawl_error *err) {
    TRY(ranks_refuse_guest(run, "pawl_run_gc", err));
    TRY(run_settle(run, err));
    TRY(owner_renew(run->owner, err));
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    TRY(store_names(run->store, "", RUN_MAX_NAMES, &memory, &names, &count, err));
    sweep root = {
        .run = run, .directory = "", .dry_run = dry_run, .each = each, .context = context};
    TRY(sweep_root(&root, names, count, err));
    for (size_t i = 0; i < count; i++) {
        int64_t step;
        if (name_step_parse(names[i], &step)) {
            TRY(garbage_sweep_step(run, names[i], dry_run, each, context, err));
        }
    }
    return PAWL_OK;
}

/* ---- after a commit ------------------------------------------------------------------------- */

#define STEPS_REMEMBERED 64

/* Of many ranks. */
struct garbage {
    monitor guard;
    int64_t steps[STEPS_REMEMBERED]; /* of saves that failed */
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
    bool known = g->count > 0 && g->steps[g->count - 1] == step;
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
    for (int r = 1; r < run->world_size && owner_fresh(run->owner); r++) {
        char name[80];
        char path[STORE_MAX_PATH];
        name_vote(name, tag, r);
        snprintf(path, sizeof path, "%s/%s", directory, name);
        if (store_unlink(run->store, path, &ignored) == PAWL_OK) {
            run_moved(run);
        }
    }
}

static void sweep_all(pawl_run *run, char **names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int64_t step;
        if (name_step_parse(names[i], &step)) {
            sweep_quietly(run, names[i]);
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
        if (sweep_step(&s, &story) != PAWL_OK) { /* told after the next commit, if it stays so */
            log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
        }
    }
}

static void sweep_failed(pawl_run *run, char **names, size_t count) {
    int64_t steps[STEPS_REMEMBERED];
    size_t failed;
    if (forget(run->garbage, steps, &failed)) {
        sweep_all(run, names, count);
    } else {
        sweep_steps(run, steps, failed, NULL);
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

void garbage_sweep_after(pawl_run *run, const char *directory, const char *tag, bool replaced) {
    struct pawl_error story = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    sweep root = {.run = run, .directory = ""};
    bool many = run->world_size > 1;
    if (many) {
        remove_votes(run, directory, tag);
    }
    if (run->swept && !many) {
        if (replaced) {
            sweep_quietly(run, directory);
        }
        return;
    }
    if (store_names(run->store, "", RUN_MAX_NAMES, &memory, &names, &count, &story) != PAWL_OK) {
        note(run, PAWL_EIO, &story);
        return;
    }
    note(run, sweep_root(&root, names, count, &story), &story);
    if (!run->swept) {
        sweep_all(run, names, count);
    } else if (replaced) {
        sweep_quietly(run, directory);
    }
    if (many) {
        sweep_failed(run, names, count);
    }
    run->swept = true;
}

/* ---- after a failed save -------------------------------------------------------------------- */

void garbage_remove_attempt(pawl_run *run, const char *directory, const char *tag) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    if (run->rank != 0 || commit_may_name(run, directory, tag) || /* G4, I8 */
        store_names(run->store, directory, RUN_MAX_NAMES, &memory, &names, &count, &ignored) !=
            PAWL_OK) {
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
