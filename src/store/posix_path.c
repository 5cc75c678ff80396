/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/posix_path: from a relative path to a directory's descriptor and a name, one component at a
 * time, never through a symbolic link. Who can write into a run must not lead us out of it.
 */
#include "store/posix.h"

#include "store/implement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* With O_DIRECTORY a link fails as ENOTDIR; tell it apart. */
static int why_no_directory(int dir, const char *name, int failed) {
    struct stat found;
    if (failed == ENOTDIR && fstatat(dir, name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(found.st_mode)) {
        return ELOOP;
    }
    return failed;
}

static int open_component(int dir, const char *name) {
    int fd;
    do {
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        errno = why_no_directory(dir, name, errno);
    }
    return fd;
}

static int descend(int dir, const char *path) {
    char name[STORE_MAX_PATH];
    int here = dir;
    for (const char *at = path;;) {
        size_t n = strcspn(at, "/");
        memcpy(name, at, n);
        name[n] = '\0';
        int next = open_component(here, name);
        int failed = errno;
        if (here != dir) {
            close(here);
        }
        if (next < 0 || at[n] == '\0') {
            errno = failed;
            return next;
        }
        here = next;
        at += n + 1;
    }
}

int store_posix_open_dir(const posix_store *p, const char *path) {
    return path[0] == '\0' ? open_component(p->root, ".") : descend(p->root, path);
}

int store_posix_place(const posix_store *p, const char *path, posix_place *out) {
    out->owned = false;
    out->dir = p->root;
    out->name = store_split_path(path, out->parent);
    if (out->parent[0] == '\0') {
        return 0;
    }
    out->dir = descend(p->root, out->parent);
    out->owned = out->dir >= 0;
    return out->owned ? 0 : errno;
}

void store_posix_place_close(posix_place *place) {
    if (place->owned) {
        close(place->dir);
    }
    place->owned = false;
}
