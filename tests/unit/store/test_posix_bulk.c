/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk files of the posix store on real filesystems: the one of the working directory, memory
 * (/dev/shm), and one without direct access (ramfs, mounted in a namespace of a child's own).
 */
#include "children.h"

#include "store/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#define PIECE_BYTES ((size_t)1 << 20)
#define TAIL_BYTES  1234
#define FILE_BYTES  (3 * PIECE_BYTES + TAIL_BYTES)

typedef struct fixture {
    directory dir;
    uint8_t *bytes; /* FILE_BYTES, aligned */
    store *s;
} fixture;

static void make_in(fixture *f, const char *parent) {
    pawl_error err = ERROR_INIT;
    directory_make_in(&f->dir, parent);
    assert_ok(store_posix(f->dir.path, &f->s, &err), &err);
    f->bytes = mem_aligned(STORE_DIRECT_ALIGNMENT, FILE_BYTES);
    assert_non_null(f->bytes);
    for (size_t i = 0; i < FILE_BYTES; i++) {
        f->bytes[i] = (uint8_t)(i * 131 >> 7);
    }
}

/* In the working directory, whose filesystem is that of the build. */
static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    make_in(f, ".");
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    store_destroy(f->s);
    directory_remove(&f->dir);
    mem_free(f->bytes);
    mem_free(f);
    return 0;
}

/* Whether direct access of this filesystem really goes past the page cache. */
static void need_disk(fixture *f) {
    pawl_error err = ERROR_INIT;
    store_space room;
    assert_ok(store_space_of(f->s, &room, &err), &err);
    if (strcmp(room.filesystem, "ext4") != 0 && strcmp(room.filesystem, "xfs") != 0) {
        print_message("skipped: the build is on %s, of whose direct access nothing is known\n",
                      room.filesystem);
        skip();
    }
}

static pawl_status write_file(fixture *f, const char *name, store_mode mode, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(store_open(f->s, name, mode, &file, err));
    for (size_t at = 0; at < FILE_BYTES; at += PIECE_BYTES) {
        size_t n = FILE_BYTES - at < PIECE_BYTES ? FILE_BYTES - at : PIECE_BYTES;
        TRY(store_write(file, at, f->bytes + at, n, err));
    }
    return store_sync(file, err);
}

/* Reads by pieces; `*cached` of them were in the page cache. */
static pawl_status read_file(fixture *f, const char *name, store_mode mode, size_t *cached,
                             pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    AUTOFREE uint8_t *bytes = mem_aligned(STORE_DIRECT_ALIGNMENT, PIECE_BYTES);
    *cached = 0;
    TRY(store_open(f->s, name, mode, &file, err));
    for (size_t at = 0; at < FILE_BYTES; at += PIECE_BYTES) {
        size_t n = FILE_BYTES - at < PIECE_BYTES ? FILE_BYTES - at : PIECE_BYTES;
        TRY(store_read(file, at, bytes, n, err));
        *cached += file->read_cached;
        if (memcmp(bytes, f->bytes + at, n) != 0) {
            return error_set(err, PAWL_EDAMAGED, "other bytes at %zu", at);
        }
    }
    return PAWL_OK;
}

static posix_cached cached_at(const fixture *f, const char *name, uint64_t at, uint64_t n) {
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", f->dir.path, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    posix_cached found = store_posix_cached(fd, at, n);
    assert_int_equal(found, store_posix_cached_by_mincore(fd, at, n));
    close(fd);
    return found;
}

static uint64_t bytes_from_disk(void) {
    char text[512];
    FILE *io = fopen("/proc/self/io", "re");
    assert_non_null(io);
    text[fread(text, 1, sizeof(text) - 1, io)] = '\0';
    (void)fclose(io);
    const char *at = strstr(text, "\nread_bytes: ");
    assert_non_null(at);
    return strtoull(at + strlen("\nread_bytes: "), NULL, 10);
}

/* ---- writing -------------------------------------------------------------------------------- */

/* What is aligned goes past the page cache, the tail through it. */
static void test_bulk_is_written_past_the_cache(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    need_disk(f);
    assert_ok(write_file(f, "a", STORE_CREATE_BULK, &err), &err);
    assert_int_equal(cached_at(f, "a", 0, PIECE_BYTES), POSIX_NOT_CACHED);
    assert_int_equal(cached_at(f, "a", 2 * PIECE_BYTES, 4096), POSIX_NOT_CACHED);
    assert_int_equal(cached_at(f, "a", 3 * PIECE_BYTES, TAIL_BYTES), POSIX_CACHED);
    assert_bytes(f->s, "a", f->bytes, FILE_BYTES);
}

/* A stream is written through the page cache, and so is every other file. */
static void test_a_stream_is_written_through_the_cache(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    need_disk(f);
    assert_ok(write_file(f, "a", STORE_CREATE_STREAM, &err), &err);
    assert_ok(write_file(f, "b", STORE_CREATE, &err), &err);
    assert_int_equal(cached_at(f, "a", 0, FILE_BYTES), POSIX_CACHED);
    assert_int_equal(cached_at(f, "b", 0, FILE_BYTES), POSIX_CACHED);
    assert_bytes(f->s, "a", f->bytes, FILE_BYTES);
}

/* Memory that is not aligned is written all the same. */
static void test_unaligned_memory_is_written(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    assert_ok(store_open(f->s, "a", STORE_CREATE_BULK, &file, &err), &err);
    assert_ok(store_write(file, 0, f->bytes + 1, PIECE_BYTES, &err), &err);
    assert_ok(store_write(file, PIECE_BYTES, f->bytes + PIECE_BYTES + 1, PIECE_BYTES, &err), &err);
    store_close(file);
    assert_bytes(f->s, "a", f->bytes + 1, 2 * PIECE_BYTES);
}

/* Pieces in any order, with the tail first, make the same file. */
static void test_the_order_of_pieces_is_free(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    assert_ok(store_open(f->s, "a", STORE_CREATE_BULK, &file, &err), &err);
    size_t tail = 2 * PIECE_BYTES;
    assert_ok(store_write(file, tail, f->bytes + tail, PIECE_BYTES + TAIL_BYTES, &err), &err);
    assert_ok(store_write(file, 0, f->bytes, PIECE_BYTES, &err), &err);
    assert_ok(store_write(file, PIECE_BYTES, f->bytes + PIECE_BYTES, PIECE_BYTES, &err), &err);
    store_close(file);
    assert_bytes(f->s, "a", f->bytes, FILE_BYTES);
}

/* A bulk file over the limit of the process is refused at the limit, without a signal. */
static void write_beyond_limit(void *context) {
    fixture *f = context;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    struct rlimit limit = {.rlim_cur = 10000, .rlim_max = 10000};
    child_must(store_open(f->s, "a", STORE_CREATE_BULK, &file, &err) == PAWL_OK);
    child_must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    child_must(store_reserve(file, 10001, &err) == PAWL_ENOSPACE);
    child_must_equal(err.attempt, "cannot reserve room for the file");
    child_must_equal(err.found, "a file-size limit of this process (RLIMIT_FSIZE) of 10.0 kB");
    child_must(store_reserve(file, 10000, &err) == PAWL_OK);
    child_must(store_write(file, 0, f->bytes, 20480, &err) == PAWL_ENOSPACE);
    child_must(err.offset == 10000 && err.length == 10480);
    store_close(file);
}

static void test_s06_a_limit_of_the_process_is_no_signal(void **state) {
    run_child(write_beyond_limit, *state);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* What is not in the page cache is read past it, and is not there afterwards either. */
static void test_cold_bulk_is_read_past_the_cache(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    size_t cached = 99;
    need_disk(f);
    assert_ok(write_file(f, "a", STORE_CREATE_BULK, &err), &err);
    uint64_t before = bytes_from_disk();
    assert_ok(read_file(f, "a", STORE_READ_BULK, &cached, &err), &err);
    assert_int_equal(cached, 1); /* the tail */
    assert_true(bytes_from_disk() - before >= 3 * PIECE_BYTES);
    assert_int_equal(cached_at(f, "a", 0, PIECE_BYTES), POSIX_NOT_CACHED);
}

/* What is there is read from there, and nothing from the disk. */
static void test_warm_bulk_is_read_from_the_cache(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    size_t cached = 99;
    assert_ok(write_file(f, "a", STORE_CREATE_STREAM, &err), &err);
    uint64_t before = bytes_from_disk();
    assert_ok(read_file(f, "a", STORE_READ_BULK, &cached, &err), &err);
    assert_int_equal(cached, 4);
    assert_int_equal(bytes_from_disk(), before);
    assert_ok(read_file(f, "a", STORE_READ, &cached, &err), &err);
    assert_int_equal(cached, 0); /* not asked */
}

/* A piece of which only a part is there is read from the disk. */
static void test_half_warm_bulk_is_read_from_the_disk(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    size_t cached = 99;
    uint8_t some[4096];
    need_disk(f);
    assert_ok(write_file(f, "a", STORE_CREATE_BULK, &err), &err);
    assert_ok(store_open(f->s, "a", STORE_READ, &file, &err), &err);
    assert_ok(store_read(file, PIECE_BYTES / 2, some, sizeof(some), &err), &err);
    store_close(file);
    assert_int_equal(cached_at(f, "a", PIECE_BYTES / 2, sizeof(some)), POSIX_CACHED);
    assert_ok(read_file(f, "a", STORE_READ_BULK, &cached, &err), &err);
    assert_int_equal(cached, 1);
}

/* What is dirty in the page cache is seen by a direct read. */
static void test_dirty_pages_are_read(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    size_t cached = 99;
    assert_ok(write_file(f, "a", STORE_CREATE_BULK, &err), &err);
    f->bytes[PIECE_BYTES + 5] ^= 1;
    assert_ok(store_open(f->s, "a", STORE_UPDATE, &file, &err), &err);
    assert_ok(store_write(file, PIECE_BYTES + 5, f->bytes + PIECE_BYTES + 5, 1, &err), &err);
    store_close(file);
    assert_ok(read_file(f, "a", STORE_READ_BULK, &cached, &err), &err);
}

static void look_as_nobody(void *context) {
    fixture *f = context;
    char path[128];
    pawl_error err = ERROR_INIT;
    size_t cached = 99;
    child_must(write_file(f, "a", STORE_CREATE_STREAM, &err) == PAWL_OK);
    (void)snprintf(path, sizeof(path), "%s/a", f->dir.path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    child_must(fd >= 0 && store_posix_cached_by_mincore(fd, 0, FILE_BYTES) == POSIX_CACHED);
    child_become_nobody(NULL, 0);
    child_must(store_posix_cached_by_mincore(fd, 0, FILE_BYTES) == POSIX_CACHED_UNKNOWN);
    child_must(read_file(f, "a", STORE_READ_BULK, &cached, &err) == PAWL_OK);
    close(fd);
}

/* The page cache of a file that belongs to someone else is not ours to see: then it is not known,
 * and not taken for full. */
static void test_other_peoples_cache_is_not_known(void **state) {
    run_child(look_as_nobody, *state);
}

/* ---- room ----------------------------------------------------------------------------------- */

/* Room is there before anything is written, and what was not written reads as zeros. */
static void test_reserved_room_is_the_files(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    struct stat found;
    char path[128];
    need_disk(f);
    assert_ok(store_open(f->s, "a", STORE_CREATE_BULK, &file, &err), &err);
    assert_ok(store_reserve(file, FILE_BYTES, &err), &err);
    (void)snprintf(path, sizeof(path), "%s/a", f->dir.path);
    assert_int_equal(stat(path, &found), 0);
    assert_true(found.st_blocks * 512 >= (blkcnt_t)FILE_BYTES);
    assert_ok(
        store_write(file, PIECE_BYTES, f->bytes + PIECE_BYTES, FILE_BYTES - PIECE_BYTES, &err),
        &err);
    assert_ok(store_reserve(file, 1, &err), &err); /* takes nothing away */
    assert_ok(store_reserve(file, 0, &err), &err);
    store_close(file);
    memset(f->bytes, 0, PIECE_BYTES);
    assert_bytes(f->s, "a", f->bytes, FILE_BYTES);
}

/* ---- other filesystems ---------------------------------------------------------------------- */

/* In memory everything works, and is in the page cache by nature. */
static void test_memory_takes_bulk(void **state) {
    static const char shm[] = "/dev/shm";
    fixture f = {0};
    fixture *p = &f;
    pawl_error err = ERROR_INIT;
    size_t cached = 99;
    (void)state;
    if (access(shm, W_OK) != 0) {
        print_message("skipped: there is no %s to write to\n", shm);
        skip();
    }
    make_in(p, shm);
    assert_ok(write_file(p, "a", STORE_CREATE_BULK, &err), &err);
    assert_ok(read_file(p, "a", STORE_READ_BULK, &cached, &err), &err);
    assert_int_equal(cached, 4);
    store_destroy(f.s);
    directory_remove(&f.dir);
    mem_free(f.bytes);
}

/* Mounts over the store's directory, in a child, and opens the store anew. */
static void mount_over(fixture *f, const char *type, const char *options) {
    pawl_error err = ERROR_INIT;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(type, f->dir.path, type, 0, options) != 0) {
        child_skip("mounting needs root");
    }
    child_must(store_posix(f->dir.path, &f->s, &err) == PAWL_OK);
}

static void use_without_direct(void *context) {
    fixture *f = context;
    char path[128];
    pawl_error err = ERROR_INIT;
    size_t cached = 99;
    mount_over(f, "ramfs", "");
    child_must(write_file(f, "a", STORE_CREATE_BULK, &err) == PAWL_OK);
    (void)snprintf(path, sizeof(path), "%s/a", f->dir.path);
    child_must(open(path, O_RDONLY | O_DIRECT | O_CLOEXEC) < 0 && errno == EINVAL);
    child_must(read_file(f, "a", STORE_READ_BULK, &cached, &err) == PAWL_OK && cached == 4);
}

/* A filesystem without direct access is used through the page cache. */
static void test_without_direct_access_it_goes_through_the_cache(void **state) {
    run_child(use_without_direct, *state);
}

static void reserve_nowhere(void *context) {
    fixture *f = context;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    uint64_t size = 99;
    mount_over(f, "ramfs", "");
    child_must(store_open(f->s, "a", STORE_CREATE_BULK, &file, &err) == PAWL_OK);
    child_must(store_reserve(file, (uint64_t)1 << 40, &err) == PAWL_OK);
    child_must(store_size(file, &size, &err) == PAWL_OK && size == 0);
    store_close(file);
}

/* Where there are no reservations, asking for one does nothing. */
static void test_where_nothing_can_be_reserved_nothing_happens(void **state) {
    run_child(reserve_nowhere, *state);
}

static void reserve_too_much(void *context) {
    fixture *f = context;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    char wanted[256];
    mount_over(f, "tmpfs", "size=1m");
    child_must(store_open(f->s, "a", STORE_CREATE_BULK, &file, &err) == PAWL_OK);
    child_must(store_reserve(file, FILE_BYTES, &err) == PAWL_ENOSPACE);
    child_must_equal(err.attempt, "cannot reserve room for the file");
    child_must_equal(err.system, "No space left on device (ENOSPC, errno 28)");
    child_must_equal(err.next, "free space there, or choose another directory");
    (void)snprintf(wanted, sizeof(wanted), "%s (tmpfs)", strrchr(f->dir.path, '/') + 1);
    child_must(strstr(err.found, wanted) != NULL);
    child_must(store_reserve(file, 65536, &err) == PAWL_OK);
    child_must(store_write(file, 0, f->bytes, FILE_BYTES, &err) == PAWL_ENOSPACE);
    store_close(file);
}

/* A disk without the room says so at the reservation, in the words of a write. */
static void test_s06_room_that_is_not_there_is_told_at_once(void **state) {
    run_child(reserve_too_much, *state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_bulk_is_written_past_the_cache),
        TEST(test_a_stream_is_written_through_the_cache),
        TEST(test_unaligned_memory_is_written),
        TEST(test_the_order_of_pieces_is_free),
        TEST(test_s06_a_limit_of_the_process_is_no_signal),
        TEST(test_cold_bulk_is_read_past_the_cache),
        TEST(test_warm_bulk_is_read_from_the_cache),
        TEST(test_half_warm_bulk_is_read_from_the_disk),
        TEST(test_dirty_pages_are_read),
        TEST(test_other_peoples_cache_is_not_known),
        TEST(test_reserved_room_is_the_files),
        cmocka_unit_test(test_memory_takes_bulk),
        TEST(test_without_direct_access_it_goes_through_the_cache),
        TEST(test_where_nothing_can_be_reserved_nothing_happens),
        TEST(test_s06_room_that_is_not_there_is_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
