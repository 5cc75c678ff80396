/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves and opens the path: which directory does it mean, if any (P01, P04, P08, P10)? */
#include "doctor/examination.h"
#include "path/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *doctor_id_of_path_error(const pawl_error *story) {
    switch (story->status) {
    case PAWL_EPERMISSION:
        return story->system_errno == EROFS ? "P03" : "P02";
    case PAWL_ENOSPACE:
        return "P03";
    case PAWL_ENOTFOUND:
        return "P01";
    case PAWL_ENOMEM:
        return story->system_errno == EMFILE || story->system_errno == ENFILE ? "E01" : "S05";
    default:
        return "P08";
    }
}

/* Opens the nearest directory above `path` that exists; *rest is the part of the path that a save
 * would create in it. */
static pawl_status open_parent(const char *path, store **out, const char **rest, pawl_error *err) {
    AUTOFREE char *parent = mem_strdup(path);
    if (parent == NULL) {
        return error_nomem(err, strlen(path) + 1);
    }
    for (;;) {
        char *slash = strrchr(parent, '/');
        *rest = slash == NULL ? path : path + (slash - parent) + 1;
        if (slash == NULL || slash == parent) {
            return path_open(slash == NULL ? "." : "/", false, out, err);
        }
        *slash = '\0';
        pawl_status status = path_open(parent, false, out, err);
        if (status != PAWL_ENOTFOUND) {
            return status;
        }
    }
}

/* Opens the directory above a path that does not exist, and says what a save would make. */
static pawl_status examine_missing(examination *x, store **s, const char **rest, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = open_parent(x->path, s, rest, &story);
    if (status == PAWL_OK) {
        doctor_tell(x, "P01", PAWL_SEVERITY_NOTE, NULL,
                    "%s does not exist yet; opening the run creates it, below %s", x->path,
                    (*s)->root);
    } else if (status != PAWL_ENOTFOUND) { /* that happens where the working directory is gone */
        *err = story;
    }
    return status;
}

store *doctor_resolve(examination *x, bool *whole) {
    struct pawl_error story = ERROR_INIT;
    store *s = NULL;
    const char *rest = "";
    bool local = storage_is_local(x->storage);
    pawl_status status = storage_open_path(x->storage, x->path, false, &s, &story);
    *whole = status == PAWL_OK;
    if (status == PAWL_ENOTFOUND && local) {
        status = examine_missing(x, &s, &rest, &story);
    }
    if (status != PAWL_OK) {
        bool stored = local && path_is_object_store(x->path);
        doctor_tell_error(x, stored ? "P10" : doctor_id_of_path_error(&story), &story);
        return NULL;
    }
    if (!local) {
        return s;
    }
    (void)snprintf(x->place, sizeof(x->place), "%s%s%s", s->root,
                   *whole || s->root[1] == '\0' ? "" : "/", rest);
    if (x->path[0] != '/' && strstr(x->path, "://") == NULL) {
        doctor_tell(
            x, "P04", PAWL_SEVERITY_NOTE, "give the absolute path when jobs start elsewhere",
            "the relative path %s stands for %s%s%s", x->path, s->root, *whole ? "" : "/", rest);
    }
    return s;
}
