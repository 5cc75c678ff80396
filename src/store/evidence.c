/* SPDX-License-Identifier: Apache-2.0 */
#include "store/evidence.h"

#include <errno.h>
#include <stdio.h>

#define UNLINK_TRIES 3 /* a name that is cached as absent is looked up anew after a proof */

static pawl_status take_one_look(store *s, const char *path, bool *absent, pawl_error *err) {
    store_stat found;
    struct pawl_error story = ERROR_INIT;
    pawl_status status = store_stat_path(s, path, &found, &story);
    *absent = status == PAWL_ENOTFOUND || (status == PAWL_OK && found.type == STORE_DIR_TYPE &&
                                           store_remove_dir(s, path, &story) == PAWL_OK);
    if (status == PAWL_OK || status == PAWL_ENOTFOUND) {
        return PAWL_OK;
    }
    *err = story;
    return status;
}

static pawl_status look_twice(store *s, const char *path, bool *absent, pawl_error *err) {
    store_stat found;
    pawl_status status = store_stat_path(s, path, &found, err);
    if (status == PAWL_ENOTFOUND) {
        store_catch_up(s);
        status = store_stat_path(s, path, &found, err);
    }
    *absent = status == PAWL_ENOTFOUND || (status == PAWL_OK && found.type == STORE_DIR_TYPE);
    return *absent ? PAWL_OK : status;
}

pawl_status store_prove_absent(store *s, const char *path, bool *absent, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    if (s->traits.coherent) {
        return take_one_look(s, path, absent, err);
    }
    if (s->traits.objects) {
        return look_twice(s, path, absent, err);
    }
    *absent = false;
    pawl_status status = store_make_dir(s, path, err);
    if (status != PAWL_OK && status != PAWL_EBUSY) {
        return status;
    }
    bool removed = store_remove_dir(s, path, &ignored) == PAWL_OK;
    *absent = status == PAWL_OK || removed; /* only a directory can be removed so */
    return PAWL_OK;
}

static pawl_status still_there(store *s, const char *path, pawl_error *err) {
    error_set(err, PAWL_EIO, "the file can be neither removed nor proven absent");
    error_path(err, "%s/%s", s->root, path);
    error_expected(err, "no such file, after it was removed");
    error_found(err, "a name that is there, and cannot be found when it is to be removed");
    error_next(err, "the storage shows names late: try again in a minute");
    return PAWL_EIO;
}

pawl_status store_unlink_for_certain(store *s, const char *path, pawl_error *err) {
    struct pawl_error story;
    pawl_status status;
    for (int i = 0; i < UNLINK_TRIES; i++) {
        bool absent = false;
        story = (struct pawl_error)ERROR_INIT;
        status = store_unlink(s, path, &story);
        if (status == PAWL_OK) {
            return PAWL_OK;
        }
        if (status != PAWL_ENOTFOUND && story.system_errno != EISDIR &&
            story.system_errno != EPERM) { /* what some systems say of a directory */
            *err = story;
            return status;
        }
        TRY(store_prove_absent(s, path, &absent, err));
        if (absent) {
            return PAWL_OK;
        }
    }
    if (status != PAWL_ENOTFOUND) { /* a file that the system refuses to remove */
        *err = story;
        return status;
    }
    return still_there(s, path, err);
}

pawl_status store_open_for_certain(store *s, const char *path, store_mode mode, store_file **out,
                                   pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    bool absent = true;
    pawl_status status = store_open(s, path, mode, out, err);
    if (status == PAWL_ENOTFOUND && s->traits.objects && !s->traits.coherent) {
        store_catch_up(s);
        return store_open(s, path, mode, out, err);
    }
    if (status != PAWL_ENOTFOUND || s->traits.coherent ||
        store_prove_absent(s, path, &absent, &ignored) != PAWL_OK || absent) {
        return status;
    }
    return store_open(s, path, mode, out, err);
}

/* Trying to make a directory that is cached as absent makes the system look it up anew. */
static pawl_status look_for_directory(store *s, const char *directory, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_status status = store_make_dir(s, directory, err);
    if (status == PAWL_EBUSY) {
        return PAWL_OK;
    }
    if (status == PAWL_OK && store_remove_dir(s, directory, &ignored) == PAWL_OK) {
        error_set(err, PAWL_ENOTFOUND, "there is no such directory");
        error_path(err, "%s/%s", s->root, directory);
        return PAWL_ENOTFOUND;
    }
    return status;
}

pawl_status store_look_anew(store *s, const char *directory, pawl_error *err) {
    char probe[STORE_MAX_PATH];
    bool absent;
    store_catch_up(s);
    if (s->traits.coherent || s->traits.objects) {
        return PAWL_OK;
    }
    snprintf(probe, sizeof probe, "%s%s" STORE_LOOK_NAME, directory,
             directory[0] != '\0' ? "/" : "");
    pawl_status status = store_prove_absent(s, probe, &absent, err);
    if (status != PAWL_ENOTFOUND || directory[0] == '\0') {
        return status;
    }
    TRY(look_for_directory(s, directory, err));
    return store_prove_absent(s, probe, &absent, err);
}
