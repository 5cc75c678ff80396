/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the directory that a user's path means, and makes it where that is wanted. */
#include "path/private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a run's own names may add to its path: a step, a data file, ".tmp". */
#define OWN_NAMES_BYTES 160u
#define INDEX_ENDING    ".index"

/* ---- making directories ---- */

static pawl_status sync_directory(const char *path, pawl_error *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    if (failed == 0) {
        return PAWL_OK;
    }
    error_sys(err, failed, "cannot make a new directory durable");
    error_path(err, "%s", path);
    return err->status;
}

/* The name of a new directory must survive a power loss as well as what is saved in it. */
static pawl_status make_one(const char *parent, const char *path, pawl_error *err) {
    if (mkdir(path, 0777) == 0) {
        return sync_directory(parent, err);
    }
    int failed = errno;
    if (failed == EEXIST) {
        return PAWL_OK; /* someone else was faster */
    }
    if (failed == EACCES || failed == EPERM || failed == EROFS) {
        return path_refused(parent, W_OK | X_OK, failed, "cannot create a directory", err);
    }
    error_sys(err, failed, "cannot create a directory");
    error_path(err, "%s", path);
    return err->status;
}

/* Makes `missing` below `existing`, one component after the other. */
static pawl_status make_missing(const path_walk *w, pawl_error *err) {
    size_t n = strlen(w->existing) + strlen(w->missing) + 2;
    AUTOFREE char *parent = mem_alloc(n);
    AUTOFREE char *path = mem_alloc(n);
    if (parent == NULL || path == NULL) {
        return error_nomem(err, n);
    }
    snprintf(path, n, "%s", w->existing);
    for (const char *at = w->missing; *at != '\0';) {
        size_t length = strcspn(at, "/");
        snprintf(parent, n, "%s", path);
        size_t end = strlen(parent);
        snprintf(path + end, n - end, "%s%.*s", end == 1 ? "" : "/", (int)length, at);
        TRY(make_one(parent, path, err));
        at += length;
        at += strspn(at, "/");
    }
    return PAWL_OK;
}

/* TensorFlow names a checkpoint by the common beginning of its files' names. */
static bool is_prefix(const path_walk *w, const char *slash) {
    char index[PATH_MAX];
    int n = snprintf(index, sizeof(index), "%s%s%s" INDEX_ENDING, w->existing, slash, w->missing);
    return n < (int)sizeof(index) && access(index, F_OK) == 0;
}

static pawl_status is_a_prefix(const path_walk *w, const char *slash, pawl_error *err) {
    const tool_checkpoint *r = tool_checkpoint_by_name(INDEX_ENDING, false);
    error_set(err, PAWL_ENOTFOUND, "there is no such directory, but %s of that name", r->what);
    error_path(err, "%s%s%s", w->existing, slash, w->missing);
    error_expected(err, "the directory of a run, which holds step-... directories");
    error_found(err, "%s" INDEX_ENDING " in %s", w->missing, w->existing);
    error_next(err, "%s", r->next);
    return PAWL_ENOTFOUND;
}

/* What the path means is then that file. */
static pawl_status take_prefix(path_walk *w, pawl_error *err) {
    const char *slash = strcmp(w->existing, "/") == 0 ? "" : "/";
    if (w->missing[0] == '\0' || strchr(w->missing, '/') != NULL || !is_prefix(w, slash)) {
        return PAWL_OK;
    }
    size_t n = strlen(w->missing) + sizeof(INDEX_ENDING);
    w->file = mem_alloc(n);
    if (w->file == NULL) {
        return error_nomem(err, n);
    }
    snprintf(w->file, n, "%s" INDEX_ENDING, w->missing);
    w->missing[0] = '\0';
    return PAWL_OK;
}

static pawl_status not_there(const path_walk *w, pawl_error *err) {
    size_t first = strcspn(w->missing, "/");
    const char *slash = strcmp(w->existing, "/") == 0 ? "" : "/";
    if (is_prefix(w, slash)) {
        return is_a_prefix(w, slash, err);
    }
    error_set(err, PAWL_ENOTFOUND, "there is no such directory");
    error_path(err, "%s%s%s", w->existing, slash, w->missing);
    error_expected(err, "a directory");
    error_found(err, "%s exists, but there is no %.*s in it", w->existing, (int)first, w->missing);
    error_next(err, "check the path; saving creates it, reading does not");
    return PAWL_ENOTFOUND;
}

/* ---- opening ---- */

static pawl_status check_length(const path_walk *w, pawl_error *err) {
    size_t length = strlen(w->existing) + 1 + strlen(w->missing);
    if (length + OWN_NAMES_BYTES <= PATH_MAX) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT, "the path is too long");
    error_expected(err, "at most %u bytes, so that a checkpoint's files fit below it",
                   PATH_MAX - OWN_NAMES_BYTES);
    error_found(err, "%zu bytes", length);
    error_next(err, "choose a directory nearer to the root");
    return PAWL_ELIMIT;
}

static pawl_status open_existing(const path_walk *w, bool of_links, store **out, pawl_error *err) {
    TRY(check_length(w, err));
    if (w->missing[0] != '\0') {
        return not_there(w, err);
    }
    TRY(path_check_access(w->existing, R_OK | X_OK, err));
    return of_links || w->file != NULL ? store_posix_of_links(w->existing, out, err)
                                       : store_posix(w->existing, out, err);
}

static pawl_status open_for_writing(const path_walk *w, store **out, pawl_error *err) {
    TRY(check_length(w, err));
    if (w->missing[0] == '\0') {
        TRY(path_check_access(w->existing, R_OK | W_OK | X_OK, err));
        return store_posix(w->existing, out, err);
    }
    TRY(make_missing(w, err));
    size_t n = strlen(w->existing) + strlen(w->missing) + 2;
    AUTOFREE char *whole = mem_alloc(n);
    if (whole == NULL) {
        return error_nomem(err, n);
    }
    snprintf(whole, n, "%s%s%s", w->existing, strcmp(w->existing, "/") == 0 ? "" : "/", w->missing);
    return store_posix(whole, out, err);
}

typedef enum open_kind { OPEN_TO_READ, OPEN_TO_WRITE, OPEN_OF_LINKS } open_kind;

static pawl_status open_given(const char *given, open_kind kind, path_file_fn opens, store **out,
                              char **file, pawl_error *err) {
    AUTOFREE char *path = NULL;
    CLEANUP(path_walk_free) path_walk w = {0};
    *out = NULL;
    pawl_status status = path_check_syntax(given, &path, err);
    if (status == PAWL_OK) {
        status = path_walk_to(path, opens, &w, err);
    }
    if (status == PAWL_OK && opens != NULL) {
        status = take_prefix(&w, err);
    }
    if (status == PAWL_OK) {
        status = kind == OPEN_TO_WRITE ? open_for_writing(&w, out, err)
                                       : open_existing(&w, kind == OPEN_OF_LINKS, out, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "the path \"%.300s\"", given);
    } else if (file != NULL) {
        *file = w.file;
        w.file = NULL;
    }
    return status;
}

pawl_status path_open(const char *given, bool create, store **out, pawl_error *err) {
    return open_given(given, create ? OPEN_TO_WRITE : OPEN_TO_READ, NULL, out, NULL, err);
}

pawl_status path_open_of_links(const char *given, store **out, pawl_error *err) {
    return open_given(given, OPEN_OF_LINKS, NULL, out, NULL, err);
}

pawl_status path_open_file(const char *given, path_file_fn opens, store **out, char **file,
                           pawl_error *err) {
    *file = NULL;
    return open_given(given, OPEN_TO_READ, opens, out, file, err);
}

static bool any_file(const char *name) {
    (void)name;
    return true;
}

bool path_leads_within(const char *root, const char *name) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(path_walk_free) path_walk w = {0};
    char path[PATH_MAX];
    size_t n = strlen(root);
    int length = snprintf(path, sizeof(path), "%s/%s", root, name);
    if (length < 0 || (size_t)length >= sizeof(path) ||
        path_walk_to(path, any_file, &w, &ignored) != PAWL_OK || w.missing[0] != '\0') {
        return false;
    }
    return strcmp(root, "/") == 0 ||
           (strncmp(w.existing, root, n) == 0 && (w.existing[n] == '/' || w.existing[n] == '\0'));
}

pawl_status path_space(const char *given, store_space *out, pawl_error *err) {
    AUTOFREE char *path = NULL;
    CLEANUP(path_walk_free) path_walk w = {0};
    store *existing = NULL;
    TRY(path_check_syntax(given, &path, err));
    TRY(path_walk_to(path, NULL, &w, err));
    TRY(store_posix(w.existing, &existing, err));
    pawl_status status = store_space_of(existing, out, err);
    store_destroy(existing);
    return status;
}
