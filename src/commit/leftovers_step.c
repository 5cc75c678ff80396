/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes what interrupted saves and removals left behind in one step's directory.
 *
 * Only the owner of a run searches, so a file that no manifest names is either of a writer that is
 * gone (I5, I6 in commit.c) or of another rank of this job. Files of a save that has not ended are
 * kept (G4). Files of a failed save are removed before the next save, and once more after the next
 * commit: all ranks voted for that one, so none writes for the failed save any more.
 *
 * Names that pawl does not make are never touched, nor mounted files and directories. A manifest
 * that cannot be read protects everything beside it.
 *
 * Not seeing a manifest is no proof that there is none (I8): before the first file is removed it is
 * proven that no manifest names it. What cannot be proven yet, or is being read, is kept, and an
 * open run searches the step again after its next commits.
 */
#include "commit/leftovers_step.h"
#include "checkpoint/step_directory.h"

#include "store/evidence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* O4. A search that was paused must not take a new owner's unfinished save for leftovers. */
static pawl_status still_owner(const leftovers_search *s, pawl_error *err) {
    return owner_fresh(s->run->owner) ? PAWL_OK : owner_renew(s->run->owner, err);
}

static pawl_status leave_mounted(leftovers_search *s, const char *path) {
    struct pawl_error story = ERROR_INIT;
    if (step_check_mount(s->run->store, path, &story) == PAWL_EBUSY) {
        log_write(&s->run->log, PAWL_LOG_WARN, "%s", error_text(&story));
    }
    s->kept++;
    return PAWL_OK;
}

/* An empty one is left of a proof (evidence.h); pawl makes no other directories of such names. */
static pawl_status remove_odd_directory(leftovers_search *s, const char *path, const char *reason,
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
    s->kept++;
    return PAWL_OK;
}

pawl_status leftovers_remove_file(leftovers_search *s, const char *name, const char *reason,
                                  pawl_error *err) {
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
        return remove_odd_directory(s, path, reason, err);
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
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) { /* gone already is as good */
        return status;
    }
    run_made_progress(s->run);
    return PAWL_OK;
}

/* ---- which files a manifest names ----------------------------------------------------------- */

static bool manifest_names(const manifest *m, const char *name) {
    return strcmp(m->index_name, name) == 0 || manifest_lists(m, name);
}

/* Is the tag that of a save of this attempt that rank 0 has not ended yet, or not even begun? Other
 * ranks may be ahead of it. */
static bool is_unended_save(const leftovers_search *s, const char *tag) {
    const pawl_run *run = s->run;
    size_t n = strlen(run->ranks->attempt);
    return strncmp(tag, run->ranks->attempt, n) == 0 && tag[n] == '-' &&
           strtoull(tag + n + 1, NULL, 10) + s->save_under_way > run->current_number;
}

static bool removal_is_over(const leftovers_search *s) {
    char path[STORE_MAX_PATH];
    snprintf(path, sizeof path, "%s/" NAME_REMOVING, s->directory);
    return owner_is_newer(s->run->owner, path, EVICT_REMOVAL_IS_OVER_S);
}

/* Why a name in a step's directory is a leftover, as far as `s->manifest` tells; NULL: it is none,
 * or not yet. */
static const char *leftover_reason(const leftovers_search *s, const char *name) {
    char tag[FORMAT_TAG_CHARS];
    name_kind kind = name_classify(name, tag);
    bool ended = !is_unended_save(s, tag);
    switch (kind) {
    case NAME_KIND_MANIFEST_TMP:
        return ended ? "a manifest that was never published" : NULL;
    case NAME_KIND_VOTE:
        return ended ? "a vote on a save that has ended" : NULL;
    case NAME_KIND_DATA:
    case NAME_KIND_INDEX:
        if (!ended || (s->has_manifest && manifest_names(&s->manifest, name))) {
            return NULL;
        }
        return s->has_manifest ? "of a save that the manifest does not name"
                               : "never committed, or left by a removal";
    case NAME_KIND_REMOVING:
        return removal_is_over(s) ? "left by a removal that is over" : NULL;
    case NAME_KIND_PINNED:
        return s->has_manifest ? NULL : "the pin of a checkpoint that is gone";
    default:
        return NULL;
    }
}

/* The manifest's name is listed, but opening it finds none: it is the empty directory of a proof
 * (evidence.h), or a manifest that this host does not see yet: the next proof tells which. On an
 * object store it is a placeholder. */
static bool is_unseen_manifest(const leftovers_search *s, const char *name) {
    return !s->has_manifest && name_classify(name, NULL) == NAME_KIND_MANIFEST;
}

static bool is_reader_mark(const char *name) {
    return name_classify(name, NULL) == NAME_KIND_READER;
}

bool leftovers_is_look(const char *name) {
    return strcmp(name, STORE_LOOK_NAME) == 0;
}

void leftovers_remove_look(const leftovers_search *s) {
    char path[STORE_MAX_PATH];
    struct pawl_error ignored = ERROR_INIT;
    snprintf(path, sizeof path, "%s%s" STORE_LOOK_NAME, s->directory,
             s->directory[0] != '\0' ? "/" : "");
    if (!s->dry_run && store_remove_dir(s->run->store, path, &ignored) != PAWL_OK) {
        log_write(&s->run->log, PAWL_LOG_DEBUG, "%s", error_text(&ignored));
    }
}

static size_t count_leftovers(const leftovers_search *s, char **names, size_t count,
                              size_t *marks) {
    size_t leftovers = 0;
    *marks = 0;
    for (size_t i = 0; i < count; i++) {
        leftovers += leftover_reason(s, names[i]) != NULL || is_unseen_manifest(s, names[i]);
        *marks += is_reader_mark(names[i]) || leftovers_is_look(names[i]);
    }
    return leftovers;
}

static void remove_placeholder(const leftovers_search *s) {
    int64_t step;
    if (s->run->store->traits.objects && !s->dry_run && name_step_parse(s->directory, &step)) {
        object_remove_placeholder(s->run, step);
    }
}

bool leftovers_time_is_up(const leftovers_search *s) {
    return s->until_ns != 0 && platform_late(s->run->platform, s->until_ns);
}

static pawl_status remove_leftovers(leftovers_search *s, char **names, size_t count,
                                    pawl_error *err) {
    for (size_t i = 0; i < count; i++) {
        if (s->removed > 0 && leftovers_time_is_up(s)) {
            s->kept += count - i;
            s->come_back = true;
            return PAWL_OK;
        }
        const char *reason = leftover_reason(s, names[i]);
        if (reason != NULL) {
            TRY(leftovers_remove_file(s, names[i], reason, err));
        } else if (leftovers_is_look(names[i])) {
            leftovers_remove_look(s);
        } else if (is_reader_mark(names[i]) &&
                   !s->has_manifest) { /* nothing can be read here any more */
            TRY(leftovers_remove_file(s, names[i], "the mark of a reader that is gone", err));
        } else if (is_unseen_manifest(s, names[i])) {
            remove_placeholder(s);
        } else if (!is_reader_mark(names[i])) {
            s->kept++;
        }
    }
    return PAWL_OK;
}

/* Sets `has_manifest` and `manifest`. */
static pawl_status read_present_manifest(leftovers_search *s, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    store_tag version;
    manifest_free(&s->manifest);
    s->manifest = (manifest){0};
    pawl_status status = step_manifest_text(s->run->store, s->directory, &text, &version, err);
    s->has_manifest = status == PAWL_OK;
    if (status == PAWL_OK) {
        return manifest_decode(text.data, text.size, &s->manifest, err);
    }
    return status == PAWL_ENOTFOUND ? PAWL_OK : status;
}

/* ---- proof (I8) ----------------------------------------------------------------------------- */

/* From now on no save that left files here can be published any more. */
static pawl_status prevent_all(leftovers_search *s, char **names, size_t count, pawl_error *err) {
    char last[FORMAT_TAG_CHARS] = "";
    for (size_t i = 0; i < count; i++) {
        char tag[FORMAT_TAG_CHARS];
        name_kind kind = name_classify(names[i], tag);
        const char *reason = leftover_reason(s, names[i]);
        if (reason == NULL || tag[0] == '\0') {
            continue;
        }
        if (kind == NAME_KIND_MANIFEST_TMP) {
            TRY(leftovers_remove_file(s, names[i], reason, err)); /* so that `each` is told */
        } else if (strcmp(tag, last) == 0) {
            continue;
        }
        TRY(still_owner(s, err));
        TRY(commit_prevent(s->run, s->directory, tag, err));
        memcpy(last, tag, sizeof last);
    }
    return PAWL_OK;
}

static pawl_status try_to_prove(leftovers_search *s, char **names, size_t count, bool *proven,
                                pawl_error *err) {
    store *in = s->run->store;
    *proven = false;
    TRY(prevent_all(s, names, count, err));
    TRY(read_present_manifest(s, err));
    *proven = s->has_manifest;
    if (!s->has_manifest) {
        TRY(still_owner(s, err));
        TRY(commit_prove_no_manifest(in, s->directory, proven, err));
    }
    /* I5: what is so now must be so after a crash. */
    return *proven ? store_sync_dir(in, s->directory, err) : PAWL_OK;
}

static void say_unproven(const leftovers_search *s, pawl_error *why) {
    log_write(&s->run->log, PAWL_LOG_WARN,
              "leftovers in %s are kept, because it cannot be proven that no manifest names them"
              "%s%s",
              s->directory, why->status != PAWL_OK ? ": " : "",
              why->status != PAWL_OK ? error_text(why) : "");
}

/* False: everything is kept; the log says why. */
static bool prove_unnamed(leftovers_search *s, char **names, size_t count, pawl_status *failed,
                          pawl_error *err) {
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

static pawl_status remove_stale_mark(void *context, const char *name, pawl_error *err) {
    return leftovers_remove_file(context, name, "the mark of a reader that is gone", err);
}

/* A reader leaves its mark first and looks for the manifest then; here the manifest was read first
 * and the marks are looked for now. So either its mark is seen here, or it sees the same manifest,
 * and needs none of the leftovers. */
static pawl_status check_readers(leftovers_search *s, bool *being_read, pawl_error *err) {
    pawl_run *run = s->run;
    if (!s->dry_run) {
        TRY(store_look_anew(run->store, s->directory, err));
    }
    return reader_look_stale(run->store, s->directory, run->platform, run->lease_s, run->watch,
                             remove_stale_mark, s, being_read, err);
}

/* Fails with ENOTEMPTY where a reader has left its mark meanwhile. */
static pawl_status remove_directory(leftovers_search *s, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    TRY(still_owner(s, err));
    pawl_status status = store_remove_dir(s->run->store, s->directory, &story);
    if (status != PAWL_OK && story.system_errno != ENOTEMPTY && status != PAWL_ENOTFOUND) {
        *err = story;
        return status;
    }
    s->come_back = status != PAWL_OK && story.system_errno == ENOTEMPTY;
    s->directory_removed = !s->come_back;
    return PAWL_OK;
}

static pawl_status remove_unless_read(leftovers_search *s, char **names, size_t count,
                                      pawl_error *err) {
    size_t marks;
    size_t leftovers = count_leftovers(s, names, count, &marks);
    bool being_read = false;
    pawl_status failed;
    if (leftovers + marks > 0) {
        TRY(check_readers(s, &being_read, err));
    }
    if (being_read) {
        s->kept += count;
        s->come_back = leftovers > 0;
        return PAWL_OK;
    }
    if (leftovers > 0 && !s->dry_run && !prove_unnamed(s, names, count, &failed, err)) {
        s->kept += count;
        return failed;
    }
    return remove_leftovers(s, names, count, err);
}

static pawl_status clear_directory(leftovers_search *s, char **names, size_t count,
                                   pawl_error *err) {
    TRY(remove_unless_read(s, names, count, err));
    if (s->dry_run || (s->removed == 0 && s->kept > 0)) {
        return PAWL_OK;
    }
    return s->kept == 0 ? remove_directory(s, err)
                        : store_sync_dir(s->run->store, s->directory, err);
}

static pawl_status search_directory(leftovers_search *s, pawl_error *err) {
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
    if (read_present_manifest(s, &story) != PAWL_OK) {
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
    return status == PAWL_OK ? clear_directory(s, names, count, err) : status;
}

pawl_status leftovers_search_step(leftovers_search *s, pawl_error *err) {
    int64_t step;
    pawl_status status = search_directory(s, err);
    manifest_free(&s->manifest);
    if (s->come_back && !s->dry_run && name_step_parse(s->directory, &step)) {
        leftovers_remember(s->run, step);
    }
    return status;
}
