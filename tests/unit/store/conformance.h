/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every store must do, whatever it stands on. test_conformance.c runs this suite once for each
 * kind of store; each test gets a fresh, empty one.
 */
#ifndef UNIT_STORE_CONFORMANCE_H
#define UNIT_STORE_CONFORMANCE_H

#include "fixtures.h"

#include <errno.h>

#define LARGE_BYTES ((size_t)3 * 1024 * 1024 + 17)

/* One of these has been made ready as *state. */
typedef struct conformance_subject {
    store *s;
    char absolute[128]; /* the root, as messages must name it */
} conformance_subject;

static store *subject(void **state) {
    return ((conformance_subject *)*state)->s;
}

static const char *subject_root(void **state) {
    return ((conformance_subject *)*state)->absolute;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* A name that is taken cannot be created, and the file that has it is left alone. */
static void test_creation_is_exclusive(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    char text[256];
    put_text(s, "a", "first");
    assert_fails(store_open(s, "a", STORE_CREATE, &f, &err), PAWL_EBUSY, &err);
    (void)snprintf(text, sizeof(text),
                   "cannot create the file\n  path:     %s/a\n"
                   "  system:   File exists (EEXIST, errno 17)",
                   subject_root(state));
    assert_string_equal(error_text(&err), text);
    assert_null(f);
    assert_text(s, "a", "first");
}

/* The name of a directory is taken, too. */
static void test_creation_over_a_directory_is_refused(void **state) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    assert_ok(store_make_dir(subject(state), "d", &err), &err);
    assert_fails(store_open(subject(state), "d", STORE_CREATE, &f, &err), PAWL_EBUSY, &err);
}

/* Opening what is not there fails, and creates nothing. */
static void test_opening_a_missing_file_fails(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    assert_fails(store_open(s, "a", STORE_READ, &f, &err), PAWL_ENOTFOUND, &err);
    assert_fails(store_open(s, "a", STORE_UPDATE, &f, &err), PAWL_ENOTFOUND, &err);
    assert_int_equal(err.system_errno, ENOENT);
    assert_names(s, "", "");
}

/* A file cannot be created in a directory that is not there. */
static void test_creation_needs_the_directory(void **state) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    assert_fails(store_open(subject(state), "d/a", STORE_CREATE, &f, &err), PAWL_ENOTFOUND, &err);
}

/* A file in the place of a directory is damage, on the way and at the end. */
static void test_r08_a_file_in_place_of_a_directory_is_damage(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    put_text(s, "a", "text");
    assert_fails(store_open(s, "a/b", STORE_READ, &f, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(err.system_errno, ENOTDIR);
    assert_fails(store_list(s, "a", ignore_name, NULL, &err), PAWL_EDAMAGED, &err);
    assert_fails(store_sync_dir(s, "a", &err), PAWL_EDAMAGED, &err);
    assert_fails(store_remove_dir(s, "a", &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.expected, "a directory");
}

/* A directory in the place of a file is damage. */
static void test_r08_a_directory_in_place_of_a_file_is_damage(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    assert_ok(store_make_dir(s, "d", &err), &err);
    assert_fails(store_open(s, "d", STORE_READ, &f, &err), PAWL_EDAMAGED, &err);
    assert_fails(store_open(s, "d", STORE_UPDATE, &f, &err), PAWL_EDAMAGED, &err);
    assert_fails(store_unlink(s, "d", &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.expected, "a regular file");
    assert_string_equal(err.found, "a directory");
}

/* What was written at offsets is read back, also when it is too much for one call. */
static void test_bytes_are_read_back(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    AUTOFREE uint8_t *bytes = mem_alloc(LARGE_BYTES);
    for (size_t i = 0; i < LARGE_BYTES; i++) {
        bytes[i] = (uint8_t)(i * 131 >> 7);
    }
    assert_ok(store_open(s, "a", STORE_CREATE, &f, &err), &err);
    assert_ok(store_write(f, 1000, bytes + 1000, LARGE_BYTES - 1000, &err), &err);
    assert_ok(store_write(f, 0, bytes, 1000, &err), &err);
    store_close(f);
    assert_bytes(s, "a", bytes, LARGE_BYTES);
    assert_ok(store_open(s, "a", STORE_READ, &f, &err), &err);
    uint8_t some[100];
    assert_ok(store_read(f, 12345, some, sizeof(some), &err), &err);
    assert_memory_equal(some, bytes + 12345, sizeof(some));
    store_close(f);
}

/* A file that is too short says so, with the range that was wanted and its real size. */
static void test_r08_reading_past_the_end_names_the_range_and_the_size(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    char bytes[20], text[256];
    put_text(s, "a", "0123456789");
    assert_ok(store_open(s, "a", STORE_READ, &f, &err), &err);
    assert_fails(store_read(f, 5, bytes, 20, &err), PAWL_EDAMAGED, &err);
    (void)snprintf(text, sizeof(text),
                   "the file ends before the bytes that should be read\n"
                   "  path:     %s/a\n"
                   "  range:    bytes 5 to 24\n"
                   "  expected: 20 bytes at offset 5\n"
                   "  found:    a file of 10 bytes",
                   subject_root(state));
    assert_string_equal(error_text(&err), text);
    assert_fails(store_read(f, UINT64_MAX, bytes, 1, &err), PAWL_EDAMAGED, &err);
    store_close(f);
}

/* Reading no bytes succeeds anywhere. */
static void test_reading_nothing_succeeds(void **state) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    put_text(subject(state), "a", "");
    assert_ok(store_open(subject(state), "a", STORE_READ, &f, &err), &err);
    assert_ok(store_read(f, 99, NULL, 0, &err), &err);
    store_close(f);
}

/* What was skipped reads as zeros. */
static void test_holes_are_zeros(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    assert_ok(store_open(s, "a", STORE_CREATE, &f, &err), &err);
    assert_ok(store_write(f, 3, "x", 1, &err), &err);
    assert_ok(store_write(f, 6, "y", 1, &err), &err);
    store_close(f);
    assert_bytes(s, "a", "\0\0\0x\0\0y", 7);
}

/* Memory that shows a file shows what is written to it, and outlives the open file; storage without
 * mappings says so. */
static void test_a_mapping_shows_the_file(void **state) {
    pawl_error err = ERROR_INIT;
    store *s = subject(state);
    store_mapping map = {.bytes = NULL};
    CLEANUP(store_close_pointer) store_file *f = NULL;
    put_text(s, "shown", "0123456789");
    assert_ok(store_open(s, "shown", STORE_UPDATE, &f, &err), &err);
    pawl_status status = store_map(f, 10, &map, &err);
    if (status != PAWL_OK) {
        assert_int_equal(status, PAWL_EUNSUPPORTED);
        assert_says(err.path, "/shown");
        assert_null(map.bytes);
        return;
    }
    assert_memory_equal(map.bytes, "0123456789", 10);
    assert_ok(store_write(f, 3, "abc", 3, &err), &err);
    store_close(f);
    f = NULL;
    assert_memory_equal(map.bytes, "012abc6789", 10);
    store_unmap(&map);
    assert_null(map.bytes);
    store_unmap(&map);
}

/* Reserved room changes no byte that was or is written, and only a writer may reserve. */
static void test_reserving_changes_no_bytes(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    char bytes[9];
    uint64_t size = 0;
    assert_ok(store_open(s, "a", STORE_CREATE, &f, &err), &err);
    assert_ok(store_write(f, 0, "abc", 3, &err), &err);
    assert_ok(store_reserve(f, 9, &err), &err);
    assert_ok(store_write(f, 6, "ghi", 3, &err), &err);
    assert_ok(store_size(f, &size, &err), &err);
    assert_int_equal(size, 9);
    assert_fails(store_reserve(f, UINT64_MAX, &err), PAWL_ENOSPACE, &err);
    assert_int_equal(err.system_errno, EFBIG);
    store_close(f);
    assert_ok(store_open(s, "a", STORE_READ, &f, &err), &err);
    assert_fails(store_reserve(f, 20, &err), PAWL_EIO, &err);
    assert_int_equal(err.system_errno, EBADF);
    assert_ok(store_read(f, 0, bytes, 9, &err), &err);
    assert_memory_equal(bytes, "abc\0\0\0ghi", 9);
    store_close(f);
}

/* Update changes bytes in place, keeps the others, and lets them be read. */
static void test_update_changes_in_place(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    char bytes[4];
    put_text(s, "a", "0123456789");
    assert_ok(store_open(s, "a", STORE_UPDATE, &f, &err), &err);
    assert_ok(store_write(f, 3, "xy", 2, &err), &err);
    assert_ok(store_read(f, 2, bytes, 4, &err), &err);
    store_close(f);
    assert_memory_equal(bytes, "2xy5", 4);
    assert_text(s, "a", "012xy56789");
}

/* The size is the end of the last byte written. */
static void test_size_follows_the_writes(void **state) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    uint64_t size = 99;
    assert_ok(store_open(subject(state), "a", STORE_CREATE, &f, &err), &err);
    assert_ok(store_size(f, &size, &err), &err);
    assert_int_equal(size, 0);
    assert_ok(store_write(f, 10, "abc", 3, &err), &err);
    assert_ok(store_write(f, 0, "abc", 3, &err), &err);
    assert_ok(store_size(f, &size, &err), &err);
    assert_int_equal(size, 13);
    store_close(f);
}

/* A file opened for reading cannot be written, one being created cannot be read. */
static void test_the_mode_is_kept(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    char byte;
    assert_ok(store_open(s, "a", STORE_CREATE, &f, &err), &err);
    assert_ok(store_write(f, 0, "a", 1, &err), &err);
    assert_fails(store_read(f, 0, &byte, 1, &err), PAWL_EIO, &err);
    store_close(f);
    assert_ok(store_open(s, "a", STORE_READ, &f, &err), &err);
    assert_fails(store_write(f, 0, "b", 1, &err), PAWL_EIO, &err);
    assert_int_equal(err.system_errno, EBADF);
    store_close(f);
    assert_text(s, "a", "a");
}

/* A write that no file can hold fails as such and names the range. */
static void test_s06_a_write_beyond_any_file_is_refused(void **state) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    assert_ok(store_open(subject(state), "a", STORE_CREATE, &f, &err), &err);
    assert_fails(store_write(f, UINT64_MAX - 5, "abc", 3, &err), PAWL_ENOSPACE, &err);
    assert_int_equal(err.system_errno, EFBIG);
    assert_true(err.has_range);
    assert_true(err.offset == UINT64_MAX - 5 && err.length == 3);
    store_close(f);
}

/* An open file stays what it is when its name goes or gets another file. */
static void test_an_open_file_outlives_its_name(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    char bytes[3];
    put_text(s, "a", "old");
    put_text(s, "b", "new");
    assert_ok(store_open(s, "a", STORE_READ, &f, &err), &err);
    assert_ok(store_rename(s, "b", "a", &err), &err);
    assert_ok(store_unlink(s, "a", &err), &err);
    assert_ok(store_read(f, 0, bytes, 3, &err), &err);
    store_close(f);
    assert_memory_equal(bytes, "old", 3);
}

/* Syncing succeeds, of files with and without changes and of directories. */
static void test_syncing_succeeds(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    assert_ok(store_make_dir(s, "d", &err), &err);
    assert_ok(store_open(s, "d/a", STORE_CREATE, &f, &err), &err);
    assert_ok(store_sync(f, &err), &err);
    assert_ok(store_write(f, 0, "a", 1, &err), &err);
    assert_ok(store_sync(f, &err), &err);
    store_close(f);
    assert_ok(store_sync_dir(s, "d", &err), &err);
    assert_ok(store_sync_dir(s, "", &err), &err);
    assert_fails(store_sync_dir(s, "e", &err), PAWL_ENOTFOUND, &err);
}

/* A source over an open file knows its size and reads anywhere. */
static void test_a_source_reads_the_file(void **state) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    byte_source source;
    char bytes[4];
    put_text(subject(state), "a", "0123456789");
    assert_ok(store_open(subject(state), "a", STORE_READ, &f, &err), &err);
    assert_ok(store_source(f, &source, &err), &err);
    assert_int_equal(source.size, 10);
    assert_ok(source.read_at(source.context, 4, bytes, 4, &err), &err);
    assert_memory_equal(bytes, "4567", 4);
    assert_fails(source.read_at(source.context, 9, bytes, 4, &err), PAWL_EDAMAGED, &err);
    store_close(f);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* A rename moves a file to a free name. */
static void test_rename_moves(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(s, "d", &err), &err);
    put_text(s, "d/a", "text");
    assert_ok(store_rename(s, "d/a", "d/b", &err), &err);
    assert_names(s, "d", "b ");
    assert_text(s, "d/b", "text");
}

/* A rename replaces the file that has the name. */
static void test_rename_replaces(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    put_text(s, "a", "new");
    put_text(s, "b", "old, and longer");
    assert_ok(store_rename(s, "a", "b", &err), &err);
    assert_names(s, "", "b ");
    assert_text(s, "b", "new");
}

/* A rename to the same name changes nothing. */
static void test_rename_to_itself_changes_nothing(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    put_text(s, "a", "text");
    assert_ok(store_rename(s, "a", "a", &err), &err);
    assert_text(s, "a", "text");
}

/* A rename needs its source, and leaves the target alone without it. */
static void test_rename_of_a_missing_file_fails(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    put_text(s, "b", "old");
    assert_fails(store_rename(s, "a", "b", &err), PAWL_ENOTFOUND, &err);
    assert_fails(store_rename(s, "d/a", "d/b", &err), PAWL_ENOTFOUND, &err);
    assert_text(s, "b", "old");
}

/* Directories are neither renamed nor replaced. */
static void test_rename_is_for_files(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(s, "d", &err), &err);
    put_text(s, "a", "text");
    assert_fails(store_rename(s, "d", "e", &err), PAWL_EDAMAGED, &err);
    assert_fails(store_rename(s, "a", "d", &err), PAWL_EDAMAGED, &err);
    assert_names(s, "", "a d ");
}

/* A rename stays within its directory. */
static void test_rename_across_directories_is_refused(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    char text[256];
    assert_ok(store_make_dir(s, "d", &err), &err);
    put_text(s, "a", "text");
    assert_fails(store_rename(s, "a", "d/a", &err), PAWL_EUSAGE, &err);
    (void)snprintf(text, sizeof(text),
                   "files are renamed within one directory only\n  path:     %s/a\n"
                   "  found:    the new name \"d/a\"",
                   subject_root(state));
    assert_string_equal(error_text(&err), text);
}

/* Removing takes the name away; what is not there cannot be removed. */
static void test_unlink_removes(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    put_text(s, "a", "text");
    put_text(s, "b", "text");
    assert_ok(store_unlink(s, "a", &err), &err);
    assert_names(s, "", "b ");
    assert_fails(store_unlink(s, "a", &err), PAWL_ENOTFOUND, &err);
}

/* Directories can be made within directories, once. */
static void test_make_dir_is_exclusive(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(s, "d", &err), &err);
    assert_ok(store_make_dir(s, "d/e", &err), &err);
    assert_fails(store_make_dir(s, "d", &err), PAWL_EBUSY, &err);
    assert_fails(store_make_dir(s, "x/y", &err), PAWL_ENOTFOUND, &err);
    put_text(s, "d/e/a", "deep");
    assert_text(s, "d/e/a", "deep");
}

/* Only an empty directory can be removed. */
static void test_remove_dir_wants_it_empty(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(s, "d", &err), &err);
    put_text(s, "d/a", "text");
    assert_fails(store_remove_dir(s, "d", &err), PAWL_EBUSY, &err);
    assert_int_equal(err.system_errno, ENOTEMPTY);
    assert_ok(store_unlink(s, "d/a", &err), &err);
    assert_ok(store_remove_dir(s, "d", &err), &err);
    assert_names(s, "", "");
    assert_fails(store_remove_dir(s, "d", &err), PAWL_ENOTFOUND, &err);
}

/* ---- looking -------------------------------------------------------------------------------- */

/* A listing has each name once, and neither "." nor "..". */
static void test_list_has_each_name_once(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    char name[16], wanted[1024] = "";
    assert_ok(store_make_dir(s, "d", &err), &err);
    assert_names(s, "d", "");
    for (int i = 99; i >= 0; i--) {
        (void)snprintf(name, sizeof(name), "d/%03d", i * 7 % 100);
        put_text(s, name, "");
    }
    for (int i = 0; i < 100; i++) {
        (void)snprintf(wanted + strlen(wanted), 8, "%03d ", i);
    }
    assert_names(s, "d", wanted);
    assert_names(s, "", "d ");
    assert_fails(store_list(s, "e", ignore_name, NULL, &err), PAWL_ENOTFOUND, &err);
}

static pawl_status stop_at_second(void *context, const store_listed *found, pawl_error *err) {
    int *calls = context;
    (void)found;
    return ++*calls == 2 ? error_set(err, PAWL_ECANCELED, "enough") : PAWL_OK;
}

/* A failure of the callback ends the listing and comes out of it. */
static void test_list_ends_when_the_caller_fails(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    int calls = 0;
    put_text(s, "a", "");
    put_text(s, "b", "");
    put_text(s, "c", "");
    assert_fails(store_list(s, "", stop_at_second, &calls, &err), PAWL_ECANCELED, &err);
    assert_int_equal(calls, 2);
    assert_string_equal(error_text(&err), "enough");
}

/* More names than allowed are refused by the limit's name, exactly as many are not. */
static void test_names_are_limited(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    arena memory = {NULL};
    char **names = NULL, text[256];
    size_t count = 0;
    put_text(s, "a", "");
    put_text(s, "b", "");
    assert_ok(store_names(s, "", 2, &memory, &names, &count, &err), &err);
    assert_int_equal(count, 2);
    assert_fails(store_names(s, "", 1, &memory, &names, &count, &err), PAWL_ELIMIT, &err);
    arena_free(&memory);
    (void)snprintf(text, sizeof(text),
                   "the directory holds too many names\n  path:     %s\n"
                   "  expected: at most 1 names",
                   subject_root(state));
    assert_string_equal(error_text(&err), text);
}

/* Stat tells files, directories and nothing apart, and knows sizes. */
static void test_stat_tells_types_and_sizes(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_stat found;
    assert_ok(store_make_dir(s, "d", &err), &err);
    put_text(s, "d/a", "12345");
    assert_ok(store_stat_path(s, "d/a", &found, &err), &err);
    assert_true(found.type == STORE_FILE_TYPE && found.size == 5);
    assert_ok(store_stat_path(s, "d", &found, &err), &err);
    assert_true(found.type == STORE_DIR_TYPE && found.size == 0);
    assert_ok(store_stat_path(s, "", &found, &err), &err);
    assert_true(found.type == STORE_DIR_TYPE);
    assert_fails(store_stat_path(s, "d/b", &found, &err), PAWL_ENOTFOUND, &err);
}

/* A whole file is read up to the limit, and refused by it beyond. */
static void test_read_file_is_limited(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    buffer got = {0};
    char text[256];
    put_text(s, "a", "12345");
    assert_ok(store_read_file(s, "a", 5, &got, &err), &err);
    assert_string_equal((char *)got.data, "12345");
    assert_fails(store_read_file(s, "a", 4, &got, &err), PAWL_ELIMIT, &err);
    buffer_free(&got);
    (void)snprintf(text, sizeof(text),
                   "the file is larger than a file of its kind can be\n  path:     %s/a\n"
                   "  expected: at most 4 bytes\n  found:    5 bytes",
                   subject_root(state));
    assert_string_equal(error_text(&err), text);
}

/* A whole file may be empty. */
static void test_read_file_takes_an_empty_file(void **state) {
    put_text(subject(state), "a", "");
    assert_text(subject(state), "a", "");
}

/* There is room, and it is known where. */
static void test_s06_space_is_known(void **state) {
    pawl_error err = ERROR_INIT;
    store_space room;
    assert_ok(store_space_of(subject(state), &room, &err), &err);
    assert_true(room.free_bytes > 0 && room.free_bytes <= room.total_bytes);
    assert_true(room.free_inodes > 0 && room.max_file_bytes > 0);
    assert_false(room.read_only);
    assert_true(strlen(room.filesystem) > 0 && strlen(room.mount_point) > 0);
}

/* ---- publishing ----------------------------------------------------------------------------- */

/* Publishing makes a file, and makes it anew, and leaves nothing else behind. */
static void test_publish_creates_and_replaces(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(s, "d", &err), &err);
    assert_ok(publish(s, "d/m", "first", 5, &err), &err);
    assert_text(s, "d/m", "first");
    assert_ok(publish(s, "d/m", "2nd", 3, &err), &err);
    assert_text(s, "d/m", "2nd");
    assert_names(s, "d", "m ");
}

/* A temporary file that an interrupted attempt left is replaced. */
static void test_publish_replaces_a_stale_temporary(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    put_text(s, "m.tmp", "left over, and longer than what comes");
    assert_ok(publish(s, "m", "new", 3, &err), &err);
    assert_text(s, "m", "new");
    assert_names(s, "", "m ");
}

/* Nothing can be published in a directory that is not there. */
static void test_publish_needs_the_directory(void **state) {
    pawl_error err = ERROR_INIT;
    char text[256];
    assert_fails(publish(subject(state), "d/m", "new", 3, &err), PAWL_ENOTFOUND, &err);
    (void)snprintf(text, sizeof(text),
                   "cannot publish d/m: cannot create the file\n"
                   "  path:     %s/d/m.tmp\n"
                   "  system:   No such file or directory (ENOENT, errno 2)\n"
                   "  safe:     d/m is what it was before",
                   subject_root(state));
    assert_string_equal(error_text(&err), text);
}

/* ---- paths ---------------------------------------------------------------------------------- */

static void refuse_everywhere(store *s, const char *path) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    store_stat found;
    assert_fails(store_open(s, path, STORE_READ, &f, &err), PAWL_EUSAGE, &err);
    assert_fails(store_open(s, path, STORE_CREATE, &f, &err), PAWL_EUSAGE, &err);
    assert_fails(store_make_dir(s, path, &err), PAWL_EUSAGE, &err);
    assert_fails(store_remove_dir(s, path, &err), PAWL_EUSAGE, &err);
    assert_fails(store_rename(s, path, "b", &err), PAWL_EUSAGE, &err);
    assert_fails(store_rename(s, "a", path, &err), PAWL_EUSAGE, &err);
    assert_fails(store_unlink(s, path, &err), PAWL_EUSAGE, &err);
    assert_fails(publish(s, path, "x", 1, &err), PAWL_EUSAGE, &err);
    if (path[0] != '\0') { /* the root can be looked at */
        assert_fails(store_sync_dir(s, path, &err), PAWL_EUSAGE, &err);
        assert_fails(store_list(s, path, ignore_name, NULL, &err), PAWL_EUSAGE, &err);
        assert_fails(store_stat_path(s, path, &found, &err), PAWL_EUSAGE, &err);
    }
}

/* No path leads out of the store, whatever the operation. */
static void test_r14_paths_that_are_not_plain_are_refused(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(s, "d", &err), &err);
    put_text(s, "a", "text");
    static const char *const bad[] = {"",   "/",   "/a",   "/tmp/a", "a/",  "d//a",   ".",
                                      "..", "./a", "../a", "d/..",   "d/.", "d/../a", "a/./b"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        refuse_everywhere(s, bad[i]);
    }
    assert_names(s, "", "a d ");
    assert_text(s, "a", "text");
}

/* Names that only look like those are fine. */
static void test_names_with_dots_are_fine(void **state) {
    store *s = subject(state);
    put_text(s, "...", "three");
    put_text(s, "..a", "two and a letter");
    put_text(s, ".a", "hidden");
    assert_names(s, "", "... ..a .a ");
}

/* Components and paths have a largest length, and reach it. */
static void test_p08_names_and_paths_that_are_too_long_are_refused(void **state) {
    store *s = subject(state);
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    char name[STORE_MAX_PATH + 1];
    memset(name, 'n', sizeof(name) - 1);
    name[STORE_MAX_PATH] = '\0';
    refuse_everywhere(s, name);
    for (size_t i = 100; i < STORE_MAX_PATH; i += 100) {
        name[i] = '/';
    }
    refuse_everywhere(s, name);
    name[STORE_MAX_PATH - 1] = '\0';
    assert_fails(store_open(s, name, STORE_READ, &f, &err), PAWL_ENOTFOUND, &err);
    memset(name, 'n', 256);
    name[256] = '\0';
    refuse_everywhere(s, name);
    name[255] = '\0';
    put_text(s, name, "text");
    assert_text(s, name, "text");
}

/* ---- threads -------------------------------------------------------------------------------- */

typedef struct worker {
    store *s;
    char dir[8];
    pawl_status status;
} worker;

static pawl_status work_once(store *s, const char *dir, int i, pawl_error *err) {
    char path[32];
    buffer got = {0};
    store_stat found;
    (void)snprintf(path, sizeof(path), "%s/%d", dir, i);
    TRY(publish(s, path, path, strlen(path), err));
    TRY(store_stat_path(s, "", &found, err));
    TRY(store_list(s, dir, ignore_name, NULL, err));
    pawl_status status = store_read_file(s, path, 100, &got, err);
    if (status == PAWL_OK && strcmp((char *)got.data, path) != 0) {
        status = error_set(err, PAWL_EDAMAGED, "other bytes");
    }
    buffer_free(&got);
    return status;
}

static void work(void *argument) {
    worker *w = argument;
    pawl_error err = ERROR_INIT;
    w->status = store_make_dir(w->s, w->dir, &err);
    for (int i = 0; i < 50 && w->status == PAWL_OK; i++) {
        w->status = work_once(w->s, w->dir, i, &err);
    }
}

/* Threads may use one store at once. */
static void test_threads_share_a_store(void **state) {
    const platform *os = platform_system();
    pawl_error err = ERROR_INIT;
    worker workers[4];
    platform_thread *threads[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){.s = subject(state)};
        (void)snprintf(workers[i].dir, sizeof(workers[i].dir), "w%d", i);
        assert_ok(os->thread_start(os->context, work, &workers[i], &threads[i], &err), &err);
    }
    for (int i = 0; i < 4; i++) {
        os->thread_join(os->context, threads[i]);
        assert_int_equal(workers[i].status, PAWL_OK);
    }
}

/* ---- the suite ------------------------------------------------------------------------------ */

#define CONFORMANCE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
/* What every store does that is no object store. */
#define CONFORMANCE_TESTS                                                                          \
    CONFORMANCE(test_creation_is_exclusive),                                                       \
        CONFORMANCE(test_creation_over_a_directory_is_refused),                                    \
        CONFORMANCE(test_opening_a_missing_file_fails),                                            \
        CONFORMANCE(test_creation_needs_the_directory),                                            \
        CONFORMANCE(test_r08_a_file_in_place_of_a_directory_is_damage),                            \
        CONFORMANCE(test_r08_a_directory_in_place_of_a_file_is_damage),                            \
        CONFORMANCE(test_bytes_are_read_back),                                                     \
        CONFORMANCE(test_r08_reading_past_the_end_names_the_range_and_the_size),                   \
        CONFORMANCE(test_reading_nothing_succeeds), CONFORMANCE(test_holes_are_zeros),             \
        CONFORMANCE(test_reserving_changes_no_bytes), CONFORMANCE(test_update_changes_in_place),   \
        CONFORMANCE(test_size_follows_the_writes), CONFORMANCE(test_the_mode_is_kept),             \
        CONFORMANCE(test_s06_a_write_beyond_any_file_is_refused),                                  \
        CONFORMANCE(test_an_open_file_outlives_its_name), CONFORMANCE(test_syncing_succeeds),      \
        CONFORMANCE(test_a_source_reads_the_file), CONFORMANCE(test_unlink_removes),               \
        CONFORMANCE(test_make_dir_is_exclusive), CONFORMANCE(test_remove_dir_wants_it_empty),      \
        CONFORMANCE(test_list_has_each_name_once),                                                 \
        CONFORMANCE(test_list_ends_when_the_caller_fails), CONFORMANCE(test_names_are_limited),    \
        CONFORMANCE(test_stat_tells_types_and_sizes), CONFORMANCE(test_read_file_is_limited),      \
        CONFORMANCE(test_read_file_takes_an_empty_file), CONFORMANCE(test_s06_space_is_known),     \
        CONFORMANCE(test_publish_creates_and_replaces),                                            \
        CONFORMANCE(test_r14_paths_that_are_not_plain_are_refused),                                \
        CONFORMANCE(test_names_with_dots_are_fine), CONFORMANCE(test_a_mapping_shows_the_file),    \
        CONFORMANCE(test_p08_names_and_paths_that_are_too_long_are_refused),                       \
        CONFORMANCE(test_threads_share_a_store), CONFORMANCE(test_publish_needs_the_directory),    \
        CONFORMANCE(test_rename_moves), CONFORMANCE(test_rename_replaces),                         \
        CONFORMANCE(test_rename_to_itself_changes_nothing),                                        \
        CONFORMANCE(test_rename_of_a_missing_file_fails), CONFORMANCE(test_rename_is_for_files),   \
        CONFORMANCE(test_rename_across_directories_is_refused),                                    \
        CONFORMANCE(test_publish_replaces_a_stale_temporary)

#endif
