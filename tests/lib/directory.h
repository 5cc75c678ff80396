/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a test's own. */
#ifndef LIB_DIRECTORY_H
#define LIB_DIRECTORY_H

#include "lib/test.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new directory in `parent`, which everybody may enter. */
static inline void directory_new(char path[64], const char *parent) {
    (void)snprintf(path, 64, "%s/pawl-test-XXXXXX", parent);
    assert_non_null(mkdtemp(path));
    assert_int_equal(chmod(path, 0755), 0);
}

static inline int directory_remove_one(const char *path, const struct stat *found, int type,
                                       struct FTW *walk) {
    (void)found;
    (void)type;
    (void)walk;
    return remove(path);
}

/* With all that is in it. */
static inline void directory_delete(const char *path) {
    assert_int_equal(nftw(path, directory_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* In the working directory, and entered. */
static inline void directory_enter_new(char path[64]) {
    directory_new(path, ".");
    assert_int_equal(chdir(path), 0);
}

static inline void directory_leave(const char *path) {
    assert_int_equal(chdir(".."), 0);
    directory_delete(path);
}

/* The number of names in it. */
static inline size_t directory_count(const char *path) {
    DIR *dir = opendir(path);
    size_t count = 0;
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count - 2; /* "." and ".." */
}

/* A path in it, good until the next but one. */
static inline const char *directory_path(const char *directory, const char *name) {
    static char paths[2][256];
    static int turn;
    turn = !turn;
    (void)snprintf(paths[turn], sizeof paths[turn], "%s/%s", directory, name);
    return paths[turn];
}

#endif
