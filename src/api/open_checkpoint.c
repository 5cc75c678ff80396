/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what there is to be opened at a path: a step of a run, or weights of another tool. */
#include "api/api.h"
#include "checkpoint/checkpoint.h"
#include "foreign/foreign.h"

static pawl_status no_steps(store *s, const char *name, int64_t step, pawl_error *err) {
    error_set(err, PAWL_ENOTFOUND, "this is one checkpoint, without steps");
    store_error_path(err, s, name);
    error_expected(err, "the path alone");
    error_found(err, "step %lld of it", (long long)step);
    error_next(err, "open it without a step");
    store_destroy(s);
    return PAWL_ENOTFOUND;
}

/* `whole`: the path is the directory's. The store is taken over. */
static pawl_status open_weights(store *s, const char *name, bool whole, const opening *how,
                                pawl_checkpoint **out, pawl_error *err) {
    struct source *weights;
    if (how->step != CHECKPOINT_NEWEST) {
        return no_steps(s, whole ? "" : name, how->step, err);
    }
    pawl_status status = foreign_open(s, true, name, whole, &weights, err);
    if (status == PAWL_OK) {
        status = checkpoint_open_source(weights, platform_system(), how->log, out, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "opening a checkpoint");
    }
    return status;
}

/* The directory is no run that has a checkpoint: `err` says so, and stays if it is not foreign. */
static pawl_status open_instead(const char *path, const opening *how, pawl_checkpoint **out,
                                pawl_error *err) {
    char name[STORE_MAX_PATH];
    struct pawl_error story = ERROR_INIT;
    store *s = NULL;
    bool found = false;
    if (open_links_retrying(how->storage, path, &s, &story) != PAWL_OK) {
        return err->status;
    }
    pawl_status status = foreign_find(s, name, &found, &story);
    if (status == PAWL_OK && found) {
        *err = ERROR_INIT;
        return open_weights(s, name, true, how, out, err);
    }
    store_destroy(s);
    if (status != PAWL_OK) {
        *err = story;
    }
    return err->status;
}

pawl_status open_checkpoint_at(const char *path, const opening *how, pawl_checkpoint **out,
                               pawl_error *err) {
    AUTOFREE char *file = NULL;
    store *s = NULL;
    TRY(open_file_retrying(how->storage, path, &s, &file, err));
    if (file != NULL) {
        return open_weights(s, file, false, how, out, err);
    }
    pawl_status status = checkpoint_open(s, true, how->step, platform_system(), how->log, out, err);
    return status == PAWL_ENOTFOUND ? open_instead(path, how, out, err) : status;
}
