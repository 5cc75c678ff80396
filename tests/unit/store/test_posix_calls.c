/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The posix store when the system's calls are interrupted, fall short, or fail: this program has
 * its own pread, pwrite, fsync and openat, which do that on demand and otherwise ask the kernel.
 */
#include "fixtures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>

/* What the next calls do. */
static struct {
    int interrupted;       /* so many calls fail with EINTR first */
    int failure;           /* then one fails with this, if it is not 0 */
    int sync_failure;      /* the next fsync fails with this, if it is not 0 */
    int refused;           /* so many direct reads and writes fail with EINVAL */
    void (*between)(void); /* called once, before a file is opened for direct access */
    size_t most;           /* reads and writes move no more than this, if it is not 0 */
    int fsyncs;            /* counted */
} calls;

static int next_failure(void) {
    if (calls.interrupted > 0) {
        calls.interrupted--;
        return EINTR;
    }
    int failure = calls.failure;
    calls.failure = 0;
    return failure;
}

static bool refuses_direct(int fd) {
    if (calls.refused == 0 || (fcntl(fd, F_GETFL) & O_DIRECT) == 0) {
        return false;
    }
    calls.refused--;
    return true;
}

static size_t shortened(size_t n) {
    return calls.most > 0 && n > calls.most ? calls.most : n;
}

ssize_t pread(int fd, void *to, size_t n, off_t at) {
    errno = refuses_direct(fd) ? EINVAL : next_failure();
    return errno != 0 ? -1 : syscall(SYS_pread64, fd, to, shortened(n), at);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
    errno = refuses_direct(fd) ? EINVAL : next_failure();
    return errno != 0 ? -1 : syscall(SYS_pwrite64, fd, from, shortened(n), at);
}

int fsync(int fd) {
    calls.fsyncs++;
    errno = next_failure();
    if (errno == 0) {
        errno = calls.sync_failure;
        calls.sync_failure = 0;
    }
    return errno != 0 ? -1 : (int)syscall(SYS_fsync, fd);
}

int openat(int dir, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    if ((flags & O_DIRECT) != 0 && calls.between != NULL) {
        void (*between)(void) = calls.between;
        calls.between = NULL;
        between();
    }
    errno = next_failure();
    return errno != 0 ? -1 : (int)syscall(SYS_openat, dir, path, flags, mode);
}

typedef struct fixture {
    directory dir;
    store *s;
    store_file *f;
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    pawl_error err = ERROR_INIT;
    memset(&calls, 0, sizeof(calls));
    directory_make(&f->dir);
    assert_ok(store_posix(f->dir.path, &f->s, &err), &err);
    put_text(f->s, "a", "0123456789");
    assert_ok(store_open(f->s, "a", STORE_UPDATE, &f->f, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    memset(&calls, 0, sizeof(calls));
    store_close(f->f);
    store_destroy(f->s);
    directory_remove(&f->dir);
    mem_free(f);
    return 0;
}

/* Interrupted calls are made again until they are through. */
static void test_s08_interrupted_calls_are_repeated(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *other = NULL;
    char bytes[10];
    calls.interrupted = 3;
    assert_ok(store_open(f->s, "b", STORE_CREATE, &other, &err), &err);
    store_close(other);
    calls.interrupted = 3;
    assert_ok(store_write(f->f, 0, "abc", 3, &err), &err);
    calls.interrupted = 3;
    assert_ok(store_read(f->f, 0, bytes, 10, &err), &err);
    calls.interrupted = 3;
    assert_ok(store_sync(f->f, &err), &err);
    calls.interrupted = 3;
    assert_ok(store_sync_dir(f->s, "", &err), &err);
    assert_int_equal(calls.interrupted, 0);
    assert_memory_equal(bytes, "abc3456789", 10);
}

/* Reads and writes that fall short are gone on with where they stopped. */
static void test_s07_short_reads_and_writes_are_gone_on_with(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    char bytes[12];
    calls.most = 1;
    assert_ok(store_write(f->f, 2, "abcdefghij", 10, &err), &err);
    assert_ok(store_read(f->f, 0, bytes, 12, &err), &err);
    assert_memory_equal(bytes, "01abcdefghij", 12);
}

/* A read that the device refuses names file, range and the system's words. */
static void test_s08_a_failed_read_names_file_and_range(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    char bytes[4], text[256];
    calls.failure = EIO;
    assert_fails(store_read(f->f, 3, bytes, 4, &err), PAWL_EIO, &err);
    (void)snprintf(text, sizeof(text),
                   "cannot read\n  path:     %s/a\n  range:    bytes 3 to 6\n"
                   "  system:   Input/output error (EIO, errno 5)",
                   f->dir.path);
    assert_string_equal(error_text(&err), text);
}

/* A failed sync is reported at once and asked for only once. */
static void test_s03_a_failed_sync_is_reported_at_once(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    char text[256];
    calls.sync_failure = EIO;
    calls.fsyncs = 0;
    assert_fails(store_sync(f->f, &err), PAWL_EIO, &err);
    assert_int_equal(calls.fsyncs, 1);
    (void)snprintf(text, sizeof(text),
                   "cannot sync the file\n  path:     %s/a\n"
                   "  system:   Input/output error (EIO, errno 5)",
                   f->dir.path);
    assert_string_equal(error_text(&err), text);
}

/* That directories cannot be synced at all is tolerated; that the sync failed is not. */
static void test_p09_a_failed_sync_of_a_directory_is_told_apart(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    char text[256];
    calls.sync_failure = ENOTSUP;
    assert_ok(store_sync_dir(f->s, "", &err), &err);
    assert_int_equal(calls.sync_failure, 0);
    calls.sync_failure = EIO;
    assert_fails(store_sync_dir(f->s, "", &err), PAWL_EIO, &err);
    (void)snprintf(text, sizeof(text),
                   "cannot sync the directory\n  path:     %s\n"
                   "  system:   Input/output error (EIO, errno 5)",
                   f->dir.path);
    assert_string_equal(error_text(&err), text);
}

/* A file cannot be synced on a filesystem that cannot: that is a failure. */
static void test_s03_a_file_without_sync_is_a_failure(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    calls.sync_failure = EINVAL;
    assert_fails(store_sync(f->f, &err), PAWL_EIO, &err);
}

#define BULK_BYTES ((size_t)128 * 1024)

static void write_bulk(fixture *f, const void *bytes) {
    pawl_error err = ERROR_INIT;
    store_file *bulk = NULL;
    assert_ok(store_open(f->s, "bulk", STORE_CREATE_BULK, &bulk, &err), &err);
    assert_ok(store_write(bulk, 0, bytes, BULK_BYTES, &err), &err);
    assert_ok(store_sync(bulk, &err), &err);
    store_close(bulk);
}

/* A filesystem that opens a file for direct access, and refuses the access, is used through the
 * page cache from then on. */
static void test_direct_access_that_is_refused_is_not_tried_again(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *bulk = NULL;
    AUTOFREE uint8_t *bytes = mem_aligned(STORE_DIRECT_ALIGNMENT, 2 * BULK_BYTES);
    memset(bytes, 'b', 2 * BULK_BYTES);
    calls.refused = 99;
    write_bulk(f, bytes);
    assert_int_equal(calls.refused, 98);
    assert_bytes(f->s, "bulk", bytes, BULK_BYTES);
    assert_int_equal(calls.refused, 98);
    calls.refused = 0; /* past the page cache, so that the read goes there as well */
    assert_ok(store_unlink(f->s, "bulk", &err), &err);
    write_bulk(f, bytes);
    calls.refused = 99;
    assert_ok(store_open(f->s, "bulk", STORE_READ_BULK, &bulk, &err), &err);
    assert_ok(store_read(bulk, 0, bytes + BULK_BYTES, BULK_BYTES / 2, &err), &err);
    const int left = bulk->read_cached ? 99 : 98; /* memory is always cached */
    assert_ok(store_read(bulk, BULK_BYTES / 2, bytes + BULK_BYTES, BULK_BYTES / 2, &err), &err);
    assert_int_equal(calls.refused, left);
    assert_int_equal(bytes[BULK_BYTES], 'b');
    store_close(bulk);
}

static const char *replaced_in;

static void replace_the_file(void) {
    char from[128], to[128];
    (void)snprintf(from, sizeof(from), "%s/a", replaced_in);
    (void)snprintf(to, sizeof(to), "%s/bulk", replaced_in);
    assert_int_equal(rename(from, to), 0);
}

/* A file whose name goes to another one while it is being opened: the other is left alone. */
static void test_r14_a_file_that_takes_the_name_is_not_written(void **state) {
    fixture *f = *state;
    AUTOFREE uint8_t *bytes = mem_aligned(STORE_DIRECT_ALIGNMENT, BULK_BYTES);
    memset(bytes, 'b', BULK_BYTES);
    replaced_in = f->dir.path;
    calls.between = replace_the_file;
    write_bulk(f, bytes);
    assert_null(calls.between);
    assert_text(f->s, "bulk", "0123456789");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s08_interrupted_calls_are_repeated),
        TEST(test_s07_short_reads_and_writes_are_gone_on_with),
        TEST(test_s08_a_failed_read_names_file_and_range),
        TEST(test_s03_a_failed_sync_is_reported_at_once),
        TEST(test_p09_a_failed_sync_of_a_directory_is_told_apart),
        TEST(test_s03_a_file_without_sync_is_a_failure),
        TEST(test_direct_access_that_is_refused_is_not_tried_again),
        TEST(test_r14_a_file_that_takes_the_name_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
