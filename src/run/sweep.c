/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What interrupted saves and removals left behind in one step's directory. Only the owner of a run
 * looks for it, so whatever no manifest names belongs to a writer that is gone (I5, I6 in
 * commit.c), or to another rank of the same job: what those write for a save that has not ended is
 * spared (G4), what they wrote for one that failed is removed before the next save, as far as it is
 * there, and after the next commit, for which all of them voted. Names that pawl does not make are
 * never touched, nor what is mounted, and a manifest that cannot be read protects everything beside
 * it.
 *
 * Nothing goes because something was not seen (I8): before the first file of a step's directory is
 * removed it is proven that no manifest names it. What cannot be proven yet, or is being read,
 * stays; a run that is open comes back to it after the next commits.
 */
#include "run/sweep.h"
#include "checkpoint/step_directory.h"
#include "run/save.h"

#include "store/evidence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* O4. A sweep that was paused must not take a successor's unfinished save for its own leftovers. */
static pawl_status still_owner(const sweep *s, pawl_error *err) {
    return owner_fresh(s->run->owner) ? PAWL_OK : owner_renew(s->run->owner, err);
}

static pawl_status leave_mounted(sweep *s, const char *path) {
    struct pawl_error story = ERROR_INIT;
    if (step_check_mount(s->run->store, path, &story) == PAWL_EBUSY) {
        log_write(&s->run->log, PAWL_LOG_WARN, "%s", error_text(&story));
    }
    s->left++;
    return PAWL_OK;
}

/* An empty one is what a proof left (evidence.h); pawl makes no other of such a name. */
static pawl_status sweep_odd_directory(sweep *s, const char *path, const char *reason,
                                       pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    if (!s->dry_run) {
        TRY(still_owner(s, err));
        if (store_remove_dir(s->run->store, path, &story) == PAWL_OK) {
            return PAWL_OK;
        }
    }
    log_write(&s->run->log, PAWL_LOG_WARN,
              "%s/%s is left alone: a file of that name would be %s, and this is a directory",
              s->run->store->root, path, reason);
    s->left++;
    return PAWL_OK;
}

pawl_status sweep_file(sweep *s, const char *name, const char *reason, pawl_error *err) {
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
    if (found.mounted) {
        return leave_mounted(s, path);
    }
    if (found.type == STORE_DIR_TYPE) {
        return sweep_odd_directory(s, path, reason, err);
    }
    if (s->each != NULL) {
        s->each(s->context, path, found.size, reason);
    }
    s->removed++;
    if (s->dry_run) {
        return PAWL_OK;
    }
    TRY(still_owner(s, err));
    status = store_unlink(s->run->store, path, err);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) { /* that it is gone was what was wanted */
        return status;
    }
    run_moved(s->run);
    return PAWL_OK;
}

/* ---- which files a manifest names ----------------------------------------------------------- */

static bool manifest_names(const manifest *m, const char *name) {
    return strcmp(m->index_name, name) == 0 || manifest_lists(m, name);
}

/* Of this attempt, and of a save that rank 0 has not ended yet: other ranks may be ahead of it. */
static bool is_ahead(const sweep *s, const char *tag) {
    const pawl_run *run = s->run;
    size_t n = strlen(run->ranks->attempt);
    return strncmp(tag, run->ranks->attempt, n) == 0 && tag[n] == '-' &&
           strtoull(tag + n + 1, NULL, 10) + s->under_way > run->flying_number;
}

static bool removal_is_over(const sweep *s) {
    char path[STORE_MAX_PATH];
    snprintf(path, sizeof path, "%s/" NAME_REMOVING, s->directory);
    return owner_is_newer(s->run->owner, path, FENCE_REMOVAL_IS_OVER_S);
}

/* Why a name in a step's directory is garbage, as far as `s->manifest` tells; NULL: it stays. Names
 * of the data and index files of a committed step share a few tags; only others are garbage. */
static const char *reason_of(const sweep *s, const char *name) {
    char tag[FORMAT_TAG_CHARS];
    name_kind kind = name_classify(name, tag);
    bool ended = !is_ahead(s, tag);
    switch (kind) {
    case NAME_KIND_MANIFEST_TMP:
        return ended ? "a manifest that was never published" : NULL;
    case NAME_KIND_VOTE:
        return ended ? "a vote on a save that has ended" : NULL;
    case NAME_KIND_DATA:
    case NAME_KIND_INDEX:
        if (!ended || (s->seen && manifest_names(&s->manifest, name))) {
            return NULL;
        }
        return s->seen ? "of a save that the manifest does not name"
                       : "never committed, or left by a removal";
    case NAME_KIND_REMOVING:
        return removal_is_over(s) ? "the note of a removal that is over" : NULL;
    case NAME_KIND_PINNED:
        return s->seen ? NULL : "the pin of a checkpoint that is gone";
    default:
        return NULL;
    }
}

/* The name of a manifest where none opens is what a proof left (evidence.h), or of a manifest that
 * is not seen yet; the next proof removes the one and finds the other. */
static bool is_unseen_manifest(const sweep *s, const char *name) {
    return !s->seen && name_classify(name, NULL) == NAME_KIND_MANIFEST;
}

static bool is_mark(const char *name) {
    return name_classify(name, NULL) == NAME_KIND_READER;
}

bool sweep_is_look(const char *name) {
    return strcmp(name, STORE_LOOK_NAME) == 0;
}

void sweep_remove_look(const sweep *s) {
    char path[STORE_MAX_PATH];
    struct pawl_error ignored = ERROR_INIT;
    snprintf(path, sizeof path, "%s%s" STORE_LOOK_NAME, s->directory,
             s->directory[0] != '\0' ? "/" : "");
    if (!s->dry_run && store_remove_dir(s->run->store, path, &ignored) != PAWL_OK) {
        log_write(&s->run->log, PAWL_LOG_DEBUG, "%s", error_text(&ignored));
    }
}

static size_t count_garbage(const sweep *s, char **names, size_t count, size_t *marks) {
    size_t garbage = 0;
    *marks = 0;
    for (size_t i = 0; i < count; i++) {
        garbage += reason_of(s, names[i]) != NULL || is_unseen_manifest(s, names[i]);
        *marks += is_mark(names[i]) || sweep_is_look(names[i]);
    }
    return garbage;
}

static pawl_status sweep_names(sweep *s, char **names, size_t count, pawl_error *err) {
    for (size_t i = 0; i < count; i++) {
        const char *reason = reason_of(s, names[i]);
        if (reason != NULL) {
            TRY(sweep_file(s, names[i], reason, err));
        } else if (sweep_is_look(names[i])) {
            sweep_remove_look(s);
        } else if (is_mark(names[i]) && !s->seen) { /* what is left of them is incomplete */
            TRY(sweep_file(s, names[i], "the mark of a reader that is gone", err));
        } else if (!is_unseen_manifest(s, names[i]) && !is_mark(names[i])) {
            s->left++;
        }
    }
    return PAWL_OK;
}

/* Sets `seen` and `manifest`. */
static pawl_status read_manifest(sweep *s, pawl_error *err) {
    char path[STORE_MAX_PATH];
    CLEANUP(buffer_free) buffer text = {0};
    snprintf(path, sizeof path, "%s/" NAME_MANIFEST, s->directory);
    manifest_free(&s->manifest);
    s->manifest = (manifest){0};
    pawl_status status = store_read_file(s->run->store, path, FORMAT_MAX_MANIFEST, &text, err);
    s->seen = status == PAWL_OK;
    if (status == PAWL_OK) {
        return manifest_decode(text.data, text.size, &s->manifest, err);
    }
    bool none = status == PAWL_ENOTFOUND || err->system_errno == EISDIR; /* evidence.h */
    return none ? PAWL_OK : status;
}

/* ---- proof (I8) ----------------------------------------------------------------------------- */

/* No save that left something here can be published any more. */
static pawl_status prevent_all(sweep *s, char **names, size_t count, pawl_error *err) {
    char last[FORMAT_TAG_CHARS] = "";
    for (size_t i = 0; i < count; i++) {
        char tag[FORMAT_TAG_CHARS];
        name_kind kind = name_classify(names[i], tag);
        const char *reason = reason_of(s, names[i]);
        if (reason == NULL || tag[0] == '\0') {
            continue;
        }
        if (kind == NAME_KIND_MANIFEST_TMP) {
            TRY(sweep_file(s, names[i], reason, err)); /* told as any other */
        } else if (strcmp(tag, last) == 0) {
            continue;
        }
        TRY(still_owner(s, err));
        TRY(commit_prevent(s->run->store, s->directory, tag, err));
        memcpy(last, tag, sizeof last);
    }
    return PAWL_OK;
}

static pawl_status try_to_prove(sweep *s, char **names, size_t count, bool *proven,
                                pawl_error *err) {
    store *in = s->run->store;
    *proven = false;
    if (commit_in_doubt(s->run)) {
        return PAWL_OK;
    }
    TRY(prevent_all(s, names, count, err));
    TRY(read_manifest(s, err));
    *proven = s->seen;
    if (!s->seen) {
        TRY(still_owner(s, err));
        TRY(commit_prove_no_manifest(in, s->directory, proven, err));
    }
    /* I5: what is so now must be so after a crash. */
    return *proven ? store_sync_dir(in, s->directory, err) : PAWL_OK;
}

static void say_unproven(const sweep *s, pawl_error *why) {
    log_write(&s->run->log, PAWL_LOG_WARN,
              "leftovers in %s are kept, because it cannot be proven that no manifest names them"
              "%s%s",
              s->directory, why->status != PAWL_OK ? ": " : "",
              why->status != PAWL_OK ? error_text(why) : "");
}

/* False: everything stays; the log says why. */
static bool prove(sweep *s, char **names, size_t count, pawl_status *failed, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    bool proven;
    pawl_status status = try_to_prove(s, names, count, &proven, &story);
    *failed = PAWL_OK;
    if (status == PAWL_EBUSY || status == PAWL_ENOMEM) { /* no longer the owner */
        *err = story;
        *failed = status;
        return false;
    }
    proven = proven && status == PAWL_OK;
    if (!proven) {
        story.status = status;
        say_unproven(s, &story);
        s->come_back = true;
    }
    return proven;
}

/* ---- one step ------------------------------------------------------------------------------- */

static pawl_status sweep_mark(void *context, const char *name, pawl_error *err) {
    return sweep_file(context, name, "the mark of a reader that is gone", err);
}

/* Whoever reads here has left a mark, and looked for the manifest after that; here the manifest was
 * looked for before. So either the mark is seen, or the reader sees what the manifest says now. */
static pawl_status is_read(sweep *s, bool *being_read, pawl_error *err) {
    pawl_run *run = s->run;
    if (!s->dry_run) {
        TRY(store_look_anew(run->store, s->directory, err));
    }
    return reader_look_stale(run->store, s->directory, run->platform, run->lease_s, run->watch,
                             sweep_mark, s, being_read, err);
}

/* Where somebody has come to read meanwhile it has something in it again. */
static pawl_status remove_directory(sweep *s, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    TRY(still_owner(s, err));
    pawl_status status = store_remove_dir(s->run->store, s->directory, &story);
    if (status != PAWL_OK && story.system_errno != ENOTEMPTY && status != PAWL_ENOTFOUND) {
        *err = story;
        return status;
    }
    s->come_back = status != PAWL_OK && story.system_errno == ENOTEMPTY;
    s->gone = !s->come_back;
    return PAWL_OK;
}

static pawl_status sweep_garbage(sweep *s, char **names, size_t count, pawl_error *err) {
    size_t marks;
    size_t garbage = count_garbage(s, names, count, &marks);
    bool being_read = false;
    pawl_status failed;
    if (garbage + marks > 0) {
        TRY(is_read(s, &being_read, err));
    }
    if (being_read) {
        s->left += count;
        s->come_back = garbage > 0;
        return PAWL_OK;
    }
    if (garbage > 0 && !s->dry_run && !prove(s, names, count, &failed, err)) {
        s->left += count;
        return failed;
    }
    return sweep_names(s, names, count, err);
}

static pawl_status sweep_directory(sweep *s, char **names, size_t count, pawl_error *err) {
    TRY(sweep_garbage(s, names, count, err));
    if (s->dry_run || (s->removed == 0 && s->left > 0)) {
        return PAWL_OK;
    }
    return s->left == 0 ? remove_directory(s, err)
                        : store_sync_dir(s->run->store, s->directory, err);
}

static pawl_status look_and_sweep(sweep *s, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error story = ERROR_INIT;
    char **names;
    size_t count;
    pawl_status ours = step_check_directory(s->run->store, s->directory, &story);
    ours = ours == PAWL_OK ? step_check_mount(s->run->store, s->directory, &story) : ours;
    if (ours == PAWL_EDAMAGED || ours == PAWL_EBUSY) {
        log_write(&s->run->log, PAWL_LOG_WARN, "%s", error_text(&story));
        return PAWL_OK;
    }
    if (read_manifest(s, &story) != PAWL_OK) {
        log_write(&s->run->log, PAWL_LOG_WARN,
                  "leftovers in %s are kept, because its manifest cannot be read: %s", s->directory,
                  error_text(&story));
        return PAWL_OK;
    }
    pawl_status status =
        store_names(s->run->store, s->directory, FORMAT_MAX_NAMES, &memory, &names, &count, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK; /* removed meanwhile */
    }
    return status == PAWL_OK ? sweep_directory(s, names, count, err) : status;
}

pawl_status sweep_step(sweep *s, pawl_error *err) {
    int64_t step;
    pawl_status status = look_and_sweep(s, err);
    manifest_free(&s->manifest);
    if (s->come_back && !s->dry_run && name_step_parse(s->directory, &step)) {
        garbage_remember(s->run, step);
    }
    return status;
}
