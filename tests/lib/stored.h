/* SPDX-License-Identifier: Apache-2.0 */
/* Small files in a store: put, looked for, counted. */
#ifndef LIB_STORED_H
#define LIB_STORED_H

#include "lib/test.h"
#include "store/store.h"

#include <string.h>

/* A new file, without syncing anything. */
static inline void put_file(store *s, const char *path, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_create_small(s, path, bytes, n, NULL, &err), &err);
}

static inline void put_text(store *s, const char *path, const char *text) {
    put_file(s, path, text, strlen(text));
}

/* Instead of what has the name, if anything has. */
static inline void put_anew(store *s, const char *path, const void *bytes, size_t n) {
    struct pawl_error ignored = ERROR_INIT;
    (void)!store_unlink(s, path, &ignored);
    put_file(s, path, bytes, n);
}

static inline bool is_there(store *s, const char *path) {
    struct pawl_error err = ERROR_INIT;
    store_stat found;
    pawl_status status = store_stat_path(s, path, &found, &err);
    assert_true(status == PAWL_OK || status == PAWL_ENOTFOUND);
    return status == PAWL_OK;
}

/* How many names in a directory begin so; 0 where there is no directory. */
static inline size_t count_names(store *s, const char *directory, const char *prefix) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names = NULL;
    size_t count = 0;
    size_t found = 0;
    pawl_status status = store_names(s, directory, 1000, &memory, &names, &count, &err);
    assert_true(status == PAWL_OK || status == PAWL_ENOTFOUND);
    for (size_t i = 0; status == PAWL_OK && i < count; i++) {
        found += strncmp(names[i], prefix, strlen(prefix)) == 0;
    }
    return found;
}

#endif
