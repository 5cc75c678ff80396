/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a path component by component, as far as it exists, and says what stops it. */
#include "run/checkpoint.h"
#include "run/path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void path_walk_free(path_walk *w) {
    mem_free(w->existing);
    mem_free(w->missing);
}

/* ---- what is in the way ---- */

static pawl_status is_a_file(const char *at, bool last, pawl_error *err) {
    const char *slash = strrchr(at, '/');
    const recognised *r = recognise_name(slash != NULL ? slash + 1 : at, false);
    error_set(err, PAWL_EUSAGE,
              last ? "this is a file, not a directory"
                   : "a component of it is a file, not a directory");
    error_path(err, "%s", at);
    error_expected(err, "a directory");
    if (r != NULL) {
        error_found(err, "a file: %s, by its name", r->what);
        error_next(err, "%s", r->next);
    } else {
        error_found(err, "a file");
        error_next(err, "give the directory of a run");
    }
    return PAWL_EUSAGE;
}

static pawl_status broken_link(const char *at, pawl_error *err) {
    char target[PATH_MAX];
    ssize_t n = readlink(at, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    error_set(err, PAWL_EUSAGE, "there is a broken symbolic link");
    error_path(err, "%s", at);
    error_expected(err, "a directory");
    error_found(err, "a link to %.300s, which does not exist", target);
    error_next(err, "make that directory, or mend or remove the link");
    return PAWL_EUSAGE;
}

static pawl_status link_loop(const char *at, pawl_error *err) {
    error_sys(err, ELOOP, "symbolic links lead in a circle, or too far");
    err->status = PAWL_EUSAGE;
    error_path(err, "%s", at);
    error_next(err, "see where they lead with: namei -l %s", at);
    return PAWL_EUSAGE;
}

/* ---- the walk ---- */

typedef struct walking {
    char path[PATH_MAX]; /* absolute, as given */
    size_t at;           /* walked so far: a prefix that is a directory */
} walking;

static pawl_status blocked(walking *w, size_t end, int failed, pawl_error *err) {
    char saved = w->path[w->at > 0 ? w->at : 1];
    if (failed == ELOOP) {
        return link_loop(w->path, err);
    }
    if (failed == EACCES) {
        w->path[w->at > 0 ? w->at : 1] = '\0';
        pawl_status status =
            path_refused(w->path, X_OK, failed, "cannot look into a directory", err);
        w->path[w->at > 0 ? w->at : 1] = saved;
        return status;
    }
    error_sys(err, failed, "cannot look at a directory");
    error_path(err, "%.*s", (int)end, w->path);
    return err->status;
}

/* Looks at the prefix that ends at `end`. *there is false when it does not exist. */
static pawl_status step_to(walking *w, size_t end, bool *there, pawl_error *err) {
    struct stat found;
    bool last = w->path[end + strspn(w->path + end, "/")] == '\0';
    char saved = w->path[end];
    w->path[end] = '\0';
    *there = stat(w->path, &found) == 0;
    int failed = *there ? 0 : errno;
    pawl_status status = PAWL_OK;
    if (*there && !S_ISDIR(found.st_mode)) {
        status = is_a_file(w->path, last, err);
    } else if (failed == ENOENT && lstat(w->path, &found) == 0) {
        status = broken_link(w->path, err);
    } else if (failed != 0 && failed != ENOENT) {
        status = blocked(w, end, failed, err);
    }
    w->path[end] = saved;
    return status;
}

/* Advances over everything that exists. */
static pawl_status walk(walking *w, pawl_error *err) {
    bool there = true;
    for (;;) {
        size_t begin = w->at + strspn(w->path + w->at, "/");
        size_t end = begin + strcspn(w->path + begin, "/");
        if (end == begin) {
            return PAWL_OK;
        }
        TRY(step_to(w, end, &there, err));
        if (!there) {
            return PAWL_OK;
        }
        w->at = end;
    }
}

static pawl_status make_absolute(const char *path, walking *w, pawl_error *err) {
    w->at = 0;
    if (path[0] == '/') {
        snprintf(w->path, sizeof(w->path), "%s", path);
        return PAWL_OK;
    }
    char here[PATH_MAX];
    if (getcwd(here, sizeof(here)) == NULL) {
        error_sys(err, errno, "the working directory, from which it starts, cannot be found");
        error_next(err, "give an absolute path, or change to a directory that exists");
        return err->status;
    }
    int n = snprintf(w->path, sizeof(w->path), "%s/%s", strcmp(here, "/") == 0 ? "" : here, path);
    if (n < 0 || (size_t)n >= sizeof(w->path)) {
        error_set(err, PAWL_EUSAGE, "the path is too long");
        error_expected(err, "at most %d bytes together with the working directory", PATH_MAX - 1);
        error_found(err, "%d bytes", n);
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

/* What does not exist is made as it is written: "." falls away, ".." has nothing to go back from.
 * */
static pawl_status take_missing(const walking *w, path_walk *out, pawl_error *err) {
    const char *rest = w->path + w->at;
    size_t size = strlen(rest) + 1;
    char *to = mem_alloc(size);
    if (to == NULL) {
        return error_nomem(err, size);
    }
    out->missing = to;
    to[0] = '\0';
    for (rest += strspn(rest, "/"); *rest != '\0'; rest += strspn(rest, "/")) {
        int n = (int)strcspn(rest, "/");
        if (n == 2 && strncmp(rest, "..", 2) == 0) {
            error_set(err, PAWL_EUSAGE, "it goes back (..) from a directory that does not exist");
            error_path(err, "%s", w->path);
            error_next(err, "write the path without ..");
            return PAWL_EUSAGE;
        }
        if (n != 1 || rest[0] != '.') {
            size_t end = strlen(out->missing);
            snprintf(out->missing + end, size - end, "%s%.*s", end > 0 ? "/" : "", n, rest);
        }
        rest += n;
    }
    return PAWL_OK;
}

static pawl_status take_existing(walking *w, path_walk *out, pawl_error *err) {
    char resolved[PATH_MAX];
    char saved = w->path[w->at];
    if (w->at > 0) {
        w->path[w->at] = '\0';
    }
    const char *real = realpath(w->at > 0 ? w->path : "/", resolved);
    int failed = errno;
    w->path[w->at] = saved;
    if (real == NULL) {
        error_sys(err, failed, "cannot resolve it");
        error_path(err, "%s", w->path);
        return err->status;
    }
    out->existing = mem_strdup(resolved);
    return out->existing != NULL ? PAWL_OK : error_nomem(err, strlen(resolved) + 1);
}

pawl_status path_walk_to(const char *path, path_walk *out, pawl_error *err) {
    AUTOFREE walking *w = mem_alloc(sizeof(*w));
    if (w == NULL) {
        return error_nomem(err, sizeof(*w));
    }
    TRY(make_absolute(path, w, err));
    TRY(walk(w, err));
    TRY(take_missing(w, out, err));
    return take_existing(w, out, err);
}
