/* SPDX-License-Identifier: Apache-2.0 */
/* Removes one checkpoint. I5 to I7 in commit.c. */
#include "checkpoint/step_directory.h"
#include "commit/commit.h"

#include "store/evidence.h"

#include <stdio.h>

static pawl_status refuse_being_read(pawl_run *run, int64_t step, pawl_error *err) {
    error_set(err, PAWL_EBUSY, "step %lld is being read", (long long)step);
    error_path(err, "%s", run->store->root);
    error_step(err, step);
    error_expected(err, "no reader's mark in the step's directory");
    error_safe(err, "nothing was removed");
    error_next(err, "wait for the reader to finish, then try again");
    return PAWL_EBUSY;
}

/* Where an operation may take effect long after it failed, a file announces the removal first, and
 * goes when the storage has answered: until then a save of this step might be removed instead (I5).
 * Without it the removal goes on all the same: a full disk has no room for the file, and removals
 * free some. */
static bool announce_removal(pawl_run *run, const char *path) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_close_pointer) store_file *file = NULL;
    return !run->store->traits.coherent && !run->store->traits.objects &&
           store_open(run->store, path, STORE_CREATE, &file, &ignored) == PAWL_OK;
}

static void withdraw_removal(pawl_run *run, const char *path) {
    struct pawl_error ignored = ERROR_INIT;
    if (store_unlink(run->store, path, &ignored) != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&ignored));
    }
}

static pawl_status unlink_manifest(pawl_run *run, const char *directory, int64_t step,
                                   pawl_error *err) {
    char path[STORE_MAX_PATH];
    char announcement[STORE_MAX_PATH];
    snprintf(path, sizeof path, "%s/" NAME_MANIFEST, directory);
    snprintf(announcement, sizeof announcement, "%s/" NAME_REMOVING, directory);
    bool announced = announce_removal(run, announcement);
    bool objects = run->store->traits.objects; /* which renews, too */
    /* O4. Only if need be: a renewal lists the run's directory, and retention removes many. */
    pawl_status status =
        objects || owner_fresh(run->owner) ? PAWL_OK : owner_renew(run->owner, err);
    if (status == PAWL_OK) {
        status = objects ? object_remove(run, step, err)
                         : store_unlink_for_certain(run->store, path, err); /* I6 */
        if (status != PAWL_OK) {
            error_safe(err, "the other checkpoints are as they were");
            error_next(err, "step %lld may be gone, or go later: see with pawl ls %s",
                       (long long)step, run->store->root);
            return status;
        }
    }
    if (announced) {
        withdraw_removal(run, announcement);
    }
    return status;
}

static pawl_status remove_manifest(pawl_run *run, const char *directory, int64_t step,
                                   pawl_error *err) {
    bool being_read;
    TRY(step_check_mounts(run->store, directory, err));
    TRY(reader_look(run->store, directory, run->platform, run->lease_s, run->watch, &being_read,
                    err));
    if (being_read) {
        return refuse_being_read(run, step, err);
    }
    TRY(unlink_manifest(run, directory, step, err));
    run_made_progress(run);
    return store_sync_dir(run->store, directory, err);
}

pawl_status step_remove(pawl_run *run, int64_t step, pawl_error *err) {
    char directory[32];
    name_step(directory, step);
    pawl_status status = remove_manifest(run, directory, step, err);
    /* A reader that has come meanwhile keeps its files: a directory that is being read is left as
     * it is, and searched again later. */
    if (status == PAWL_OK) {
        status = leftovers_remove(run, directory, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "remove step %lld", (long long)step);
    }
    return status;
}
