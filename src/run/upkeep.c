/* SPDX-License-Identifier: Apache-2.0 */
/* What a user asks of a run between saves: removing a checkpoint, pinning one, removing leftovers.
 */
#include "checkpoint/checkpoint.h"
#include "run/private.h"

#include <stdio.h>

static pawl_status explain_absent(pawl_run *run, int64_t step, pawl_error *err) {
    error_set(err, PAWL_ENOTFOUND, "there is no checkpoint of step %lld", (long long)step);
    error_path(err, "%s", run->store->root);
    error_next(err, "list what is there: pawl ls %s", run->store->root);
    return PAWL_ENOTFOUND;
}

/* *others: committed checkpoints but this one. *present: does `step` have a manifest at all? */
static pawl_status count_others(pawl_run *run, int64_t step, size_t *others, bool *present,
                                pawl_error *err) {
    pawl_catalog *catalog;
    TRY(catalog_open(run->store, run->platform, &run->log, &catalog, err));
    *others = 0;
    *present = false;
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        if (info->step == step) {
            *present = info->status != PAWL_STEP_UNFINISHED;
        } else if (info->status == PAWL_STEP_COMMITTED) {
            (*others)++;
        }
    }
    pawl_catalog_free(catalog);
    return PAWL_OK;
}

pawl_status run_remove(pawl_run *run, int64_t step, bool force, pawl_error *err) {
    size_t others;
    bool present;
    TRY(run_refuse_guest(run, "pawl_run_remove", err));
    TRY(run_settle(run, err));
    TRY(count_others(run, step, &others, &present, err));
    if (!present) {
        return explain_absent(run, step, err);
    }
    if (others == 0 && !force) {
        error_set(err, PAWL_EBUSY, "step %lld is the last good checkpoint of this run",
                  (long long)step);
        error_path(err, "%s", run->store->root);
        error_step(err, step);
        error_safe(err, "nothing was removed");
        error_next(err, "to remove it all the same: pawl rm --force %s@%lld", run->store->root,
                   (long long)step);
        return PAWL_EBUSY;
    }
    TRY(owner_renew(run->owner, err));
    return step_remove(run, step, err);
}

pawl_status run_pin(pawl_run *run, int64_t step, bool pinned, pawl_error *err) {
    size_t others;
    bool present;
    char directory[32];
    char path[STORE_MAX_PATH];
    TRY(run_refuse_guest(run, "pawl_run_pin", err));
    TRY(run_settle(run, err));
    TRY(count_others(run, step, &others, &present, err));
    if (!present) {
        return explain_absent(run, step, err);
    }
    TRY(owner_renew(run->owner, err)); /* O4 */
    name_step(directory, step);
    snprintf(path, sizeof path, "%s/pinned", directory);
    pawl_status status;
    if (pinned) {
        status = store_create_small(run->store, path, "", 0, NULL, err);
        status = status == PAWL_EBUSY ? PAWL_OK : status;
    } else {
        status = store_unlink(run->store, path, err);
        status = status == PAWL_ENOTFOUND ? PAWL_OK : status;
    }
    if (status == PAWL_OK) {
        status = store_sync_dir(run->store, directory, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "%s step %lld", pinned ? "pin" : "unpin", (long long)step);
    }
    return status;
}

pawl_status run_gc(pawl_run *run, bool dry_run, pawl_gc_fn each, void *context, pawl_error *err) {
    TRY(run_refuse_guest(run, "pawl_run_gc", err));
    TRY(run_settle(run, err));
    TRY(owner_renew(run->owner, err));
    return leftovers_remove_all(run, dry_run, each, context, err);
}
