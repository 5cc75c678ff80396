/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of stores share: temporary directories, small files, one operation of each
 * kind. */
#ifndef UNIT_STORE_FIXTURES_H
#define UNIT_STORE_FIXTURES_H

#include "lib/directory.h"
#include "lib/stored.h"
#include "lib/test.h"
#include "stores/stores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

typedef struct directory {
    char path[64];
} directory;

static UNUSED void directory_make_in(directory *d, const char *parent) {
    directory_new(d->path, parent);
}

static UNUSED void directory_make(directory *d) {
    directory_make_in(d, "/tmp");
}

static UNUSED void directory_remove(directory *d) {
    directory_delete(d->path);
}

static UNUSED void assert_bytes(store *s, const char *path, const void *bytes, size_t n) {
    pawl_error err = ERROR_INIT;
    buffer got = {0};
    assert_ok(store_read_file(s, path, (size_t)1 << 30, &got, &err), &err);
    assert_int_equal(got.size, n);
    assert_memory_equal(got.data, bytes, n);
    buffer_free(&got);
}

static UNUSED void assert_text(store *s, const char *path, const char *text) {
    assert_bytes(s, path, text, strlen(text));
}

/* store_publish by the name that store_replace uses, and with nobody to ask. */
static UNUSED pawl_status publish(store *s, const char *path, const void *data, size_t n,
                                  pawl_error *err) {
    char temporary[STORE_MAX_PATH + 8];
    store_publish_end end;
    (void)snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    return store_publish(s, path, temporary, data, n, NULL, NULL, &end, err);
}

/* The names of a directory, sorted, each followed by a blank. */
static UNUSED void assert_names(store *s, const char *path, const char *wanted) {
    pawl_error err = ERROR_INIT;
    arena memory = {NULL};
    char **names = NULL;
    size_t count = 0;
    char joined[4096] = "";
    assert_ok(store_names(s, path, 1000, &memory, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(joined);
        (void)snprintf(joined + used, sizeof(joined) - used, "%s ", names[i]);
    }
    assert_null(names[count]);
    arena_free(&memory);
    assert_string_equal(joined, wanted);
}

static UNUSED pawl_status ignore_name(void *context, const store_listed *found, pawl_error *err) {
    (void)context;
    (void)found;
    (void)err;
    return PAWL_OK;
}

/* A file for operation_do; `s` may be a wrapper, and what it does here counts there. */
typedef struct operation_stage {
    store *s;
    store_file *open; /* for update */
} operation_stage;

/* In `s`: the directory "empty", the files "old", "moving", "doomed" and "open". */
static UNUSED void operation_stage_set(operation_stage *stage, store *s) {
    pawl_error err = ERROR_INIT;
    stage->s = s;
    assert_ok(store_make_dir(s, "empty", &err), &err);
    put_text(s, "old", "old bytes");
    put_text(s, "moving", "moving bytes");
    put_text(s, "doomed", "doomed bytes");
    put_text(s, "open", "0123456789");
    assert_ok(store_open(s, "open", STORE_UPDATE, &stage->open, &err), &err);
}

static UNUSED void operation_stage_clear(operation_stage *stage) {
    store_close(stage->open);
}

/* One operation of the kind; on a fresh stage each succeeds. */
static UNUSED pawl_status operation_do(operation_stage *stage, store_op op, pawl_error *err) {
    store *s = stage->s;
    char bytes[10];
    uint64_t size = 0;
    store_stat found;
    store_space room;
    CLEANUP(store_close_pointer) store_file *f = NULL;
    switch (op) {
    case STORE_OP_OPEN:
        return store_open(s, "old", STORE_READ, &f, err);
    case STORE_OP_READ:
        return store_read(stage->open, 0, bytes, sizeof(bytes), err);
    case STORE_OP_WRITE:
        return store_write(stage->open, 5, "abcdefghij", 10, err);
    case STORE_OP_SIZE:
        return store_size(stage->open, &size, err);
    case STORE_OP_RESERVE:
        return store_reserve(stage->open, 20, err);
    case STORE_OP_SYNC:
        return store_sync(stage->open, err);
    case STORE_OP_MAKE_DIR:
        return store_make_dir(s, "made", err);
    case STORE_OP_REMOVE_DIR:
        return store_remove_dir(s, "empty", err);
    case STORE_OP_RENAME:
        return store_rename(s, "moving", "moved", err);
    case STORE_OP_PUT:
        return store_put(s, "old", "put bytes", 9, NULL, NULL, err);
    case STORE_OP_UNLINK:
        return store_unlink(s, "doomed", err);
    case STORE_OP_SYNC_DIR:
        return store_sync_dir(s, "", err);
    case STORE_OP_LIST:
        return store_list(s, "", ignore_name, NULL, err);
    case STORE_OP_STAT:
        return store_stat_path(s, "old", &found, err);
    default:
        return store_space_of(s, &room, err);
    }
}

#endif
