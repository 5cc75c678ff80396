/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What interrupted saves and removals left behind. Only the owner of a run looks for it, so
 * whatever no manifest names belongs to a writer that is gone (I5, I6 in commit.c). Names that pawl
 * does not make are never touched, and a manifest that cannot be read protects everything beside
 * it.
 */
#include "run/ranks.h"

#include <stdio.h>
#include <string.h>

typedef struct sweep {
    pawl_run *run;
    const char *directory;
    bool dry_run;
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

/* Names of the data and index files of a committed step share a few tags; only others
 * are garbage. */
static pawl_status sweep_names(sweep *s, const manifest *m, char **names, size_t count,
                               pawl_error *err) {
    for (size_t i = 0; i < count; i++) {
        char tag[FORMAT_TAG_CHARS];
        name_kind kind = name_classify(names[i], tag);
        bool is_file = kind == NAME_KIND_DATA || kind == NAME_KIND_INDEX;
        if (kind == NAME_KIND_MANIFEST_TMP) {
            TRY(sweep_file(s, names[i], "a manifest that was never published", err));
        } else if (is_file && (m == NULL || !manifest_names(m, names[i]))) {
            TRY(sweep_file(s, names[i],
                           m == NULL ? "of a save that was never committed"
                                     : "of a save that the manifest does not name",
                           err));
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

static bool is_root_leftover(const char *name) {
    return strcmp(name, NAME_LATEST ".tmp") == 0;
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
    for (size_t i = 0; i < count; i++) {
        int64_t step;
        if (is_root_leftover(names[i])) {
            TRY(sweep_file(&root, names[i], "a hint that was never published", err));
        } else if (name_step_parse(names[i], &step)) {
            TRY(garbage_sweep_step(run, names[i], dry_run, each, context, err));
        }
    }
    return PAWL_OK;
}

/* ---- after a failed save -------------------------------------------------------------------- */

void garbage_remove_attempt(pawl_run *run, const char *directory, const char *tag) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    if (commit_may_name(run, directory, tag) || /* I8 */
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
