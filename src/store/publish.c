/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/publish: replaces a small file so that at every instant, a power loss included, it is
 * wholly the old or wholly the new one.
 *
 * 1. The bytes are written and synced under a temporary name first: the name never stands for bytes
 *    that are not durable.
 * 2. The rename is the only change to the name itself. Whether it may still happen (`still`) is
 *    asked just before it: syncing may have taken any time.
 * 3. Only after the directory's sync is success reported: success means durable.
 * 4. A sync that failed is never repeated: the kernel may have dropped the bytes and report the
 *    next sync as good. The temporary file is given up instead.
 * 5. A rename that is said to have failed may have been done, or be done later. That the temporary
 *    file could be removed afterwards proves that it was not, and never will be.
 *
 * An object store does all this in one operation; `still` is asked just before it.
 */
#include "store/store.h"

#include "store/implement.h"

#include <stdio.h>
#include <string.h>

/* Replaces a temporary file that a crash has left: its writer never finished. */
static pawl_status create_temporary(store *s, const char *path, store_file **out, pawl_error *err) {
    pawl_status status = store_open(s, path, STORE_CREATE, out, err);
    if (status != PAWL_EBUSY) {
        return status;
    }
    TRY(store_unlink(s, path, err));
    return store_open(s, path, STORE_CREATE, out, err);
}

static pawl_status write_temporary(store *s, const char *path, const void *data, size_t n,
                                   bool durable, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *f = NULL;
    TRY(create_temporary(s, path, &f, err));
    TRY(store_write(f, 0, data, n, err));
    return durable ? store_sync(f, err) : PAWL_OK;
}

/* The caller reports the failure that came first. A file that cannot be removed now is replaced
 * when somebody publishes again. */
static void remove_temporary(store *s, const char *path) {
    pawl_error ignored = ERROR_INIT;
    if (store_unlink(s, path, &ignored) != PAWL_OK) {
        return;
    }
}

static pawl_status fail_untouched(const char *path, pawl_status status, pawl_error *err) {
    error_wrap(err, "cannot publish %s", path);
    error_safe(err, "%s is what it was before", path);
    return status;
}

static pawl_status fail_in_doubt(const char *path, pawl_status status, store_publish_end *end,
                                 pawl_error *err) {
    *end = STORE_MAYBE_PUBLISHED;
    error_wrap(err, "cannot tell whether %s is published", path);
    error_safe(err, "%s is whole: what it was before, or the new one", path);
    return status;
}

/* Rule 5. */
static pawl_status not_renamed(store *s, const char *path, const char *temporary,
                               pawl_status status, store_publish_end *end, pawl_error *err) {
    pawl_error ignored = ERROR_INIT;
    return store_unlink(s, temporary, &ignored) == PAWL_OK ? fail_untouched(path, status, err)
                                                           : fail_in_doubt(path, status, end, err);
}

static pawl_status put_whole(store *s, const char *path, const void *data, size_t n,
                             pawl_status (*still)(void *context, pawl_error *err), void *context,
                             store_publish_end *end, pawl_error *err) {
    pawl_status status = still == NULL ? PAWL_OK : still(context, err);
    if (status != PAWL_OK) {
        return fail_untouched(path, status, err);
    }
    status = store_put(s, path, data, n, NULL, NULL, err);
    if (status == PAWL_OK) {
        *end = STORE_PUBLISHED;
        return PAWL_OK;
    }
    bool refused = status == PAWL_ENOSPACE || status == PAWL_EPERMISSION;
    return refused ? fail_untouched(path, status, err) : fail_in_doubt(path, status, end, err);
}

pawl_status store_publish(store *s, const char *path, const char *temporary, const void *data,
                          size_t n, pawl_status (*still)(void *context, pawl_error *err),
                          void *context, store_publish_end *end, pawl_error *err) {
    char parent[STORE_MAX_PATH];
    *end = STORE_UNPUBLISHED;
    TRY(store_check_path(s, path, false, err));
    store_split_path(path, parent);
    if (s->traits.objects) {
        return put_whole(s, path, data, n, still, context, end, err);
    }
    pawl_status status = write_temporary(s, temporary, data, n, true, err);
    if (status == PAWL_OK && still != NULL) {
        status = still(context, err);
    }
    if (status != PAWL_OK) {
        remove_temporary(s, temporary);
        return fail_untouched(path, status, err);
    }
    status = store_rename(s, temporary, path, err);
    if (status != PAWL_OK) {
        return not_renamed(s, path, temporary, status, end, err);
    }
    status = store_sync_dir(s, parent, err);
    *end = status == PAWL_OK ? STORE_PUBLISHED : STORE_PUBLISHED_UNSYNCED;
    if (status != PAWL_OK) {
        error_wrap(err, "published %s, but cannot make that durable", path);
        error_safe(err, "%s is whole; after a power loss it may be the old or the new one", path);
    }
    return status;
}

pawl_status store_try_replace(store *s, const char *path, const void *data, size_t n,
                              store_publish_end *end, pawl_error *err) {
    char temporary[STORE_MAX_PATH + 8];
    *end = STORE_UNPUBLISHED;
    TRY(store_check_path(s, path, false, err));
    if (s->traits.objects) {
        return put_whole(s, path, data, n, NULL, NULL, end, err);
    }
    (void)snprintf(temporary, sizeof temporary, "%s.tmp", path);
    pawl_status status = write_temporary(s, temporary, data, n, false, err);
    if (status != PAWL_OK) {
        remove_temporary(s, temporary);
        return fail_untouched(path, status, err);
    }
    status = store_rename(s, temporary, path, err);
    *end = status == PAWL_OK ? STORE_PUBLISHED_UNSYNCED : STORE_UNPUBLISHED;
    return status == PAWL_OK ? PAWL_OK : not_renamed(s, path, temporary, status, end, err);
}

pawl_status store_replace(store *s, const char *path, const void *data, size_t n, pawl_error *err) {
    store_publish_end end;
    return store_try_replace(s, path, data, n, &end, err);
}
