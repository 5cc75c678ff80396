/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes the temporary manifests that an earlier owner or an earlier save could still publish by
 * renaming them (O5 in presence/owner.c, I3 in commit.c).
 */
#include "checkpoint/step_directory.h"
#include "commit/commit.h"
#include "store/evidence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOOK_TRIES 3

typedef struct eviction {
    store *store;
    const char *attempt; /* whose temporary manifests stay; NULL: none */
    const char *directory;
    arena memory;
    char **paths;
    size_t count, capacity;
    bool removing; /* a removal of an earlier checkpoint there got no answer */
} eviction;

static void eviction_free(eviction *e) {
    mem_free(e->paths);
    arena_free(&e->memory);
}

static pawl_status keep_path(eviction *e, const char *path, pawl_error *err) {
    TRY(vec_reserve(&e->paths, &e->capacity, e->count + 1, sizeof *e->paths, err));
    e->paths[e->count] = arena_strdup(&e->memory, path);
    if (e->paths[e->count] == NULL) {
        return error_nomem(err, strlen(path) + 1);
    }
    e->count++;
    return PAWL_OK;
}

static pawl_status note_unpublished(void *context, const store_listed *found, pawl_error *err) {
    const char *name = found->name;
    eviction *e = context;
    char tag[FORMAT_TAG_CHARS];
    char path[STORE_MAX_PATH];
    name_kind kind = name_classify(name, tag);
    e->removing = e->removing || kind == NAME_KIND_REMOVING;
    if (kind != NAME_KIND_MANIFEST_TMP ||
        (e->attempt != NULL && strncmp(tag, e->attempt, strlen(e->attempt)) == 0)) {
        return PAWL_OK;
    }
    snprintf(path, sizeof path, "%s/%s", e->directory, name);
    return keep_path(e, path, err);
}

static pawl_status remove_all(eviction *e, pawl_error *err) {
    for (size_t i = 0; i < e->count; i++) {
        TRY(store_unlink_for_certain(e->store, e->paths[i], err));
    }
    /* A power loss of the storage must not bring them back while their writer still lives. */
    return e->count > 0 ? store_sync_dir(e->store, e->directory, err) : PAWL_OK;
}

/* What is there now; store_look_anew is repeated where its reply was lost. */
static pawl_status list_unpublished(eviction *e, pawl_error *err) {
    pawl_status looked = PAWL_OK;
    for (int i = 0; i < LOOK_TRIES; i++) {
        looked = store_look_anew(e->store, e->directory, err);
        if (looked == PAWL_OK || looked == PAWL_ENOTFOUND) {
            break;
        }
    }
    pawl_status listed = store_list(e->store, e->directory, note_unpublished, e, err);
    return looked != PAWL_OK ? looked : listed;
}

/* That a directory cannot be listed is only a warning: it must not keep the job from its work. */
static pawl_status evict_from_step(eviction *e, const pawl_log *log, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    if (step_check_mount(e->store, e->directory, &story) == PAWL_EBUSY) {
        return PAWL_OK; /* another run's, perhaps: its writer is none of ours */
    }
    pawl_status status = list_unpublished(e, err);
    bool nothing = status == PAWL_ENOTFOUND || err->system_errno == ENOTDIR ||
                   err->system_errno == ELOOP; /* no directory, so none to publish in */
    if (status != PAWL_OK && !nothing && status != PAWL_ENOMEM) {
        log_write(
            log, PAWL_LOG_WARN,
            "an earlier writer that still runs might publish in %s, which cannot be listed: %s",
            e->directory, error_text(err));
    }
    return status == PAWL_ENOMEM ? status : remove_all(e, err);
}

pawl_status evict_others(store *s, const char *attempt, const pawl_log *log, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    int64_t *steps;
    size_t count;
    TRY(step_numbers(s, &memory, &steps, &count, err));
    for (size_t i = 0; i < count; i++) {
        char directory[32];
        name_step(directory, steps[i]);
        CLEANUP(eviction_free)
        eviction e = {.store = s, .attempt = attempt, .directory = directory};
        pawl_status status = evict_from_step(&e, log, err);
        if (status != PAWL_OK) {
            error_wrap(err, "open run: cannot keep an earlier writer from publishing");
            return status;
        }
    }
    return PAWL_OK;
}

static pawl_status check_removal(const pawl_run *run, const char *directory, pawl_error *err) {
    char announcement[STORE_MAX_PATH];
    snprintf(announcement, sizeof announcement, "%s/" NAME_REMOVING, directory);
    if (owner_is_newer(run->owner, announcement, EVICT_REMOVAL_IS_OVER_S)) {
        return store_unlink(run->store, announcement, err);
    }
    error_set(err, PAWL_EBUSY,
              "an earlier checkpoint of this step is being removed, and the storage has not "
              "confirmed that it is gone");
    error_path(err, "%s/%s", run->store->root, announcement);
    error_expected(err, "no such file, or one that is %.0f minutes old",
                   EVICT_REMOVAL_IS_OVER_S / 60);
    error_next(
        err,
        "save another step, or this one later: the removal might still remove what is saved now");
    return PAWL_EBUSY;
}

pawl_status evict_earlier(const pawl_run *run, const char *directory, pawl_error *err) {
    CLEANUP(eviction_free) eviction e = {.store = run->store, .directory = directory};
    pawl_status status = store_list(run->store, directory, note_unpublished, &e, err);
    if (status == PAWL_OK) {
        status = remove_all(&e, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "an earlier save of this step might still be published over this one");
        return status;
    }
    return e.removing ? check_removal(run, directory, err) : PAWL_OK;
}
