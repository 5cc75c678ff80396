/* SPDX-License-Identifier: Apache-2.0 */
/* store/implement: checks relative paths, and builds the failures that name them absolutely. */
#include "store/implement.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static const char *component_problem(const char *name, size_t n) {
    if (n == 0) {
        return "an empty component";
    }
    if (n > STORE_MAX_NAME) {
        return "a component of more than 255 bytes";
    }
    if ((n == 1 && name[0] == '.') || (n == 2 && name[0] == '.' && name[1] == '.')) {
        return "the component \".\" or \"..\"";
    }
    return NULL;
}

static const char *path_problem(const char *path) {
    if (path[0] == '/') {
        return "a leading '/'";
    }
    if (strnlen(path, STORE_MAX_PATH) == STORE_MAX_PATH) {
        return "more than 1023 bytes";
    }
    for (const char *at = path;;) {
        size_t n = strcspn(at, "/");
        const char *problem = component_problem(at, n);
        if (problem != NULL || at[n] == '\0') {
            return problem;
        }
        at += n + 1;
    }
}

pawl_status store_check_path(const store *s, const char *path, bool root_allowed, pawl_error *err) {
    if (path[0] == '\0' && root_allowed) {
        return PAWL_OK;
    }
    const char *problem = path_problem(path);
    if (problem == NULL) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "this is no path inside a store");
    error_path(err, "%s", s->root);
    error_expected(err, "a relative path without empty components, \".\" and \"..\"");
    error_found(err, "%s in \"%s\"", problem, path);
    return PAWL_EUSAGE;
}

const char *store_split_path(const char *path, char parent[STORE_MAX_PATH]) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        parent[0] = '\0';
        return path;
    }
    size_t n = (size_t)(slash - path);
    assert(n < STORE_MAX_PATH);
    memcpy(parent, path, n);
    parent[n] = '\0';
    return slash + 1;
}

void store_error_path(pawl_error *err, const store *s, const char *path) {
    if (path[0] == '\0') {
        error_path(err, "%s", s->root);
    } else {
        const char *root = strcmp(s->root, "/") == 0 ? "" : s->root;
        error_path(err, "%s/%s", root, path);
    }
}

static void describe_wrong_type(pawl_error *err, int system_errno) {
    err->status = PAWL_EDAMAGED;
    switch (system_errno) {
    case ENOTDIR:
        error_expected(err, "a directory");
        error_found(err, "something else of that name, or on the way to it");
        break;
    case EISDIR:
        error_expected(err, "a regular file");
        error_found(err, "a directory");
        break;
    case ENXIO:
        error_expected(err, "a regular file");
        error_found(err, "a socket, or a device without a driver");
        error_next(err, "move it away");
        break;
    default:
        error_expected(err, "regular files and directories only");
        error_found(err, "a symbolic link, which is not followed here");
        error_next(err, "put the file or directory itself in the place of the link");
        break;
    }
}

pawl_status store_failure(const store *s, const char *path, int system_errno, pawl_error *err,
                          const char *what) {
    error_sys(err, system_errno, "%s", what);
    store_error_path(err, s, path);
    if (system_errno == ENOTDIR || system_errno == EISDIR || system_errno == ELOOP ||
        system_errno == ENXIO) {
        describe_wrong_type(err, system_errno);
    } else if (system_errno == ENOTEMPTY) {
        err->status = PAWL_EBUSY;
    }
    return err->status;
}

void store_file_init(store_file *f, store *in, const char *path) {
    size_t n = strlen(path);
    assert(n < STORE_MAX_PATH);
    f->in = in;
    memcpy(f->path, path, n + 1);
}
