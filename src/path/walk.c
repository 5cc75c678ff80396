/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks along a path, component by component and through links, as far as it exists. The system
 * could resolve it, too, but would not say which component is to blame.
 */
#include "path/private.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINKS 40 /* as the kernel does */

void path_walk_free(path_walk *w) {
    mem_free(w->existing);
    mem_free(w->missing);
    mem_free(w->file);
}

/* ---- what is in the way ---- */

static pawl_status is_a_file(const char *at, bool last, pawl_error *err) {
    const char *slash = strrchr(at, '/');
    const tool_checkpoint *r = tool_checkpoint_by_name(slash != NULL ? slash + 1 : at, false);
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

static pawl_status is_no_file(const char *at, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "this is neither a directory nor a file");
    error_path(err, "%s", at);
    error_expected(err, "a directory");
    error_found(err, "a pipe, a socket or a device");
    return PAWL_EUSAGE;
}

static pawl_status broken_link(const char *at, bool to_file, pawl_error *err) {
    char target[PATH_MAX];
    ssize_t n = readlink(at, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    error_set(err, PAWL_EUSAGE, "there is a broken symbolic link");
    error_path(err, "%s", at);
    error_expected(err, to_file ? "a file" : "a directory");
    error_found(err, "a link to %.300s, which does not exist", target);
    error_next(err, to_file ? "get that file again, or mend or remove the link"
                            : "make that directory, or mend or remove the link");
    return PAWL_EUSAGE;
}

static pawl_status link_loop(const char *at, pawl_error *err) {
    error_sys(err, ELOOP, "symbolic links lead in a circle, or too far");
    err->status = PAWL_EUSAGE;
    error_path(err, "%s", at);
    error_next(err, "see where they lead with: namei -l %s", at);
    return PAWL_EUSAGE;
}

static pawl_status too_long(size_t length, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "the path is too long");
    error_expected(err, "at most %d bytes, with the working directory and what links stand for",
                   PATH_MAX - 1);
    error_found(err, "%zu bytes", length);
    return PAWL_EUSAGE;
}

/* ---- the walk ---- */

typedef struct walking {
    char done[PATH_MAX]; /* absolute, without links; "" for the root */
    char rest[PATH_MAX]; /* still to walk */
    char link[PATH_MAX]; /* the outermost link whose target is being walked */
    size_t after_link;   /* the length of `rest` at which that target has been walked */
    int links;
    path_file_fn opens;      /* may be NULL */
    char file[NAME_MAX + 1]; /* that the path ends at, in `done`; "": none */
    /* The innermost link that the path ends at and whose own name may be opened, in `around`. */
    char linked[NAME_MAX + 1];
    char around[PATH_MAX];
} walking;

/* "<left>/<right>", into `out`, which may be neither. */
static pawl_status join_paths(char out[PATH_MAX], const char *left, const char *right,
                              pawl_error *err) {
    int n = snprintf(out, PATH_MAX, "%s/%s", left, right);
    return n >= 0 && n < PATH_MAX ? PAWL_OK : too_long((size_t)n, err);
}

static bool inside_link(const walking *w) {
    return w->link[0] != '\0' && strlen(w->rest) > w->after_link;
}

/* Replaces the link at `at` by its target; `left` is what follows the link in the path. */
static pawl_status follow_link(walking *w, const char *at, const char *left, pawl_error *err) {
    char target[PATH_MAX];
    char rest[PATH_MAX];
    if (!inside_link(w)) {
        snprintf(w->link, sizeof(w->link), "%s", at);
        w->after_link = strlen(left) + 1; /* with the "/" between */
    }
    if (++w->links > MAX_LINKS) {
        return link_loop(w->link, err);
    }
    ssize_t n = readlink(at, target, sizeof(target) - 1);
    if (n < 0) {
        error_sys(err, errno, "cannot read a symbolic link");
        error_path(err, "%s", at);
        return err->status;
    }
    target[n] = '\0';
    TRY(join_paths(rest, target, left, err));
    snprintf(w->rest, sizeof(w->rest), "%s", rest);
    if (target[0] == '/') {
        w->done[0] = '\0';
    }
    return PAWL_OK;
}

static pawl_status blocked(const walking *w, const char *at, int failed, pawl_error *err) {
    if (failed == EACCES) {
        return path_refused(w->done[0] != '\0' ? w->done : "/", X_OK, failed,
                            "cannot look into a directory", err);
    }
    error_sys(err, failed, "cannot look at a directory");
    error_path(err, "%s", at);
    return err->status;
}

static bool may_open(const walking *w, const char *name) {
    return w->opens != NULL && w->opens(name);
}

/* The path ends at a regular file. A link stands for it where the link's name says what it is and
 * the file's own does not, as in a cache that names files by what is in them. */
static bool end_at_file(walking *w, const char *name) {
    bool by_link = w->linked[0] != '\0' && !may_open(w, name);
    if (w->opens == NULL) {
        return false;
    }
    if (by_link) {
        snprintf(w->done, sizeof(w->done), "%s", w->around);
    }
    snprintf(w->file, sizeof(w->file), "%s", by_link ? w->linked : name);
    w->rest[0] = '\0';
    return true;
}

static void note_link(walking *w, const char *name) {
    if (may_open(w, name)) {
        snprintf(w->linked, sizeof(w->linked), "%s", name);
        snprintf(w->around, sizeof(w->around), "%s", w->done);
    }
}

/* Goes on to `name`, with `left` after it. *there is false when it does not exist. */
static pawl_status step_to(walking *w, const char *name, const char *left, bool *there,
                           pawl_error *err) {
    char at[PATH_MAX];
    struct stat found;
    TRY(join_paths(at, w->done, name, err));
    *there = lstat(at, &found) == 0;
    int failed = *there ? 0 : errno;
    if (failed == ENOENT) {
        return inside_link(w) ? broken_link(w->link, w->linked[0] != '\0', err) : PAWL_OK;
    }
    if (failed != 0) {
        return blocked(w, at, failed, err);
    }
    bool last = left[strspn(left, "/")] == '\0';
    if (S_ISLNK(found.st_mode)) {
        if (last) {
            note_link(w, name);
        }
        return follow_link(w, at, left, err);
    }
    if (S_ISREG(found.st_mode) && last && end_at_file(w, name)) {
        return PAWL_OK;
    }
    if (S_ISREG(found.st_mode)) {
        return is_a_file(at, last, err);
    }
    if (!S_ISDIR(found.st_mode)) {
        return is_no_file(at, err);
    }
    snprintf(w->done, sizeof(w->done), "%s", at);
    memmove(w->rest, left, strlen(left) + 1);
    return PAWL_OK;
}

static void step_back(walking *w, const char *left) {
    char *slash = strrchr(w->done, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    memmove(w->rest, left, strlen(left) + 1);
}

/* Walks over everything that exists. */
static pawl_status walk(walking *w, pawl_error *err) {
    for (bool there = true; there;) {
        char name[NAME_MAX + 1];
        const char *begin = w->rest + strspn(w->rest, "/");
        size_t n = strcspn(begin, "/");
        const char *left = begin + n;
        if (n == 0) {
            w->rest[0] = '\0';
            return PAWL_OK;
        }
        if (n > NAME_MAX) {
            return link_loop(w->link,
                             err); /* path_check_syntax lets no such name pass: from a link */
        }
        memcpy(name, begin, n);
        name[n] = '\0';
        if (strcmp(name, ".") == 0) {
            memmove(w->rest, left, strlen(left) + 1);
        } else if (strcmp(name, "..") == 0) {
            step_back(w, left);
        } else {
            TRY(step_to(w, name, left, &there, err));
        }
    }
    return PAWL_OK;
}

static pawl_status begin_walk(const char *path, walking *w, pawl_error *err) {
    w->done[0] = '\0';
    w->link[0] = '\0';
    w->after_link = 0;
    w->links = 0;
    w->file[0] = '\0';
    w->linked[0] = '\0';
    if (path[0] == '/') {
        snprintf(w->rest, sizeof(w->rest), "%s", path);
        return PAWL_OK;
    }
    char here[PATH_MAX];
    if (getcwd(here, sizeof(here)) == NULL) {
        error_sys(err, errno, "the working directory, from which it starts, cannot be found");
        error_next(err, "give an absolute path, or change to a directory that exists");
        return err->status;
    }
    return join_paths(w->rest, here, path, err);
}

/* The part that does not exist, without "."; ".." is refused there. */
static pawl_status take_missing(const walking *w, path_walk *out, pawl_error *err) {
    const char *rest = w->rest;
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
            error_path(err, "%s/%s", w->done, w->rest + strspn(w->rest, "/"));
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

pawl_status path_walk_to(const char *path, path_file_fn opens, path_walk *out, pawl_error *err) {
    AUTOFREE walking *w = mem_alloc(sizeof(*w));
    if (w == NULL) {
        return error_nomem(err, sizeof(*w));
    }
    w->opens = opens;
    TRY(begin_walk(path, w, err));
    TRY(walk(w, err));
    TRY(take_missing(w, out, err));
    const char *existing = w->done[0] != '\0' ? w->done : "/";
    out->existing = mem_strdup(existing);
    out->file = w->file[0] != '\0' ? mem_strdup(w->file) : NULL;
    bool whole = out->existing != NULL && (out->file != NULL) == (w->file[0] != '\0');
    return whole ? PAWL_OK : error_nomem(err, strlen(existing) + sizeof(w->file));
}
