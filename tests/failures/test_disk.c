/* SPDX-License-Identifier: Apache-2.0 */
/* A disk without room, before a save begins (S06) and in the middle of one (S07). */
#include "failures.h"

#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BIG_BYTES ((size_t)24 << 20)

static char scratch[64];
static float *big;

static int set_up(void **state) {
    (void)state;
    scratch_make(scratch);
    assert_int_equal(mkdir("disk", 0755), 0);
    big = calloc(1, BIG_BYTES);
    return big == NULL;
}

static int tear_down(void **state) {
    (void)state;
    free(big);
    scratch_remove(scratch);
    return 0;
}

/* A trainer on a disk of its own (without `options` in a plain directory), whose state is the small
 * one and 24 MiB. */
static void open_on_disk(trainer *t, const char *options) {
    static const int64_t shape[] = {BIG_BYTES / sizeof(float)};
    if (options != NULL && !mount_tmpfs("disk", options)) {
        child_skip("this needs leave to mount a tmpfs");
    }
    trainer_init(t);
    trainer_build(t);
    trainer_open(t, "disk/run");
    trainer_save(t, 1000);
    trainer_add(t, "dense/big", PAWL_F32, 1, shape, big);
}

/* As far as it goes; then a little is free again, enough for an index and a manifest. */
static void fill_disk(size_t bytes) {
    struct stat other;
    char *zeros = calloc(1, bytes);
    FILE *file = fopen("disk/other", "wb");
    assert_non_null(zeros);
    assert_non_null(file);
    (void)!fwrite(zeros, 1, bytes, file);
    (void)fclose(file);
    free(zeros);
    assert_int_equal(stat("disk/other", &other), 0);
    assert_int_equal(truncate("disk/other", other.st_size - (1 << 20)), 0);
}

static void too_small(void *context) {
    trainer t;
    (void)context;
    open_on_disk(&t, "size=16m");
    assert_works(pawl_save(t.run, t.state, 2000, NULL, t.err), t.err);
    assert_tells(pawl_wait(t.run, 0, NULL, t.err), PAWL_ENOSPACE, t.err,
                 "saving step 2000: there is not enough room for the checkpoint\n"
                 "  path:     {d}/disk/run/step-00002000\n"
                 "  expected: 25.2 MB free\n"
                 "  found:    16.7 MB free on the filesystem at {d}/disk (tmpfs)\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     free 8.50 MB, or keep fewer checkpoints");
    assert_false(file_exists("disk/run/step-00002000"));
    trainer_free(&t);
}

static void test_s06_a_disk_that_is_too_small_is_told_before_the_first_byte(void **state) {
    (void)state;
    in_child(too_small, NULL);
}

static void no_inodes(void *context) {
    trainer t;
    (void)context;
    open_on_disk(&t, "size=64m,nr_inodes=10");
    assert_works(pawl_save(t.run, t.state, 2000, NULL, t.err), t.err);
    assert_tells(pawl_wait(t.run, 0, NULL, t.err), PAWL_ENOSPACE, t.err,
                 "saving step 2000: there are not enough inodes for the checkpoint's files\n"
                 "  path:     {d}/disk/run/step-00002000\n"
                 "  expected: 5 free inodes\n"
                 "  found:    1 free on the filesystem at {d}/disk (tmpfs)\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     remove files there, or save to another filesystem");
    trainer_free(&t);
}

static void test_s06_a_disk_without_inodes(void **state) {
    (void)state;
    in_child(no_inodes, NULL);
}

static void limit_files(rlim_t bytes) {
    const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void file_limit(void *context) {
    trainer t;
    (void)context;
    open_on_disk(&t, NULL);
    limit_files(1 << 20);
    assert_works(pawl_save(t.run, t.state, 2000, NULL, t.err), t.err);
    assert_tells(
        pawl_wait(t.run, 0, NULL, t.err), PAWL_ENOSPACE, t.err,
        "saving step 2000: the checkpoint's largest file is larger than files may be\n"
        "  path:     {d}/disk/run/step-00002000\n"
        "  expected: files of up to 25.2 MB\n"
        "  found:    a limit of 1.05 MB (ulimit -f, or that of {w} at {p})\n"
        "  safe:     step 1000 is committed and can be restored\n"
        "  next:     raise the limit (ulimit -f unlimited), or save to another filesystem");
    trainer_free(&t);
}

static void test_s06_a_limit_of_file_sizes(void **state) {
    (void)state;
    in_child(file_limit, NULL);
}

/* ---- in the middle -------------------------------------------------------------------------- */

static void assert_step(trainer *t, int64_t step) {
    static const pawl_restore_options lenient = {.struct_size = sizeof(lenient),
                                                 .missing = PAWL_POLICY_ALLOW};
    assert_works(trainer_restore(t, &lenient), t->err);
    assert_int_equal(pawl_report_step(t->report), step);
}

static void fill_during_save(trainer *t) {
    disk_hangs();
    assert_works(pawl_save(t->run, t->state, 2000, NULL, t->err), t->err);
    disk_wait_until_hung();
    fill_disk((size_t)30 << 20);
    disk_heals();
}

/* As on filesystems that cannot reserve room. */
static void filled_meanwhile(void *context) {
    trainer t;
    (void)context;
    open_on_disk(&t, "size=40m");
    disk_reserves(EOPNOTSUPP);
    fill_during_save(&t);
    assert_tells(pawl_wait(t.run, 0, NULL, t.err), PAWL_ENOSPACE, t.err,
                 "saving step 2000: writing bytes {n} to {n}: cannot write\n"
                 "  path:     {d}/disk/run/step-00002000/{f}\n"
                 "  range:    bytes {n} to {n}\n"
                 "  found:    0 B and {n} more files free on the filesystem at {d}/disk (tmpfs)\n"
                 "  system:   No space left on device (ENOSPC, errno 28)\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     free space there, or choose another directory");
    assert_false(file_exists("disk/run/step-00002000"));
    assert_step(&t, 1000);
    assert_int_equal(unlink("disk/other"), 0);
    trainer_save(&t, 3000);
    assert_step(&t, 3000);
    trainer_free(&t);
}

static void test_s07_a_disk_that_fills_during_a_save_costs_that_save_only(void **state) {
    (void)state;
    in_child(filled_meanwhile, NULL);
}

static void reserved(void *context) {
    trainer t;
    (void)context;
    open_on_disk(&t, "size=40m");
    fill_during_save(&t);
    assert_works(pawl_wait(t.run, 0, NULL, t.err), t.err);
    assert_int_equal(unlink("disk/other"), 0);
    assert_step(&t, 2000);
    trainer_free(&t);
}

static void test_s07_room_that_is_reserved_is_nobody_elses(void **state) {
    (void)state;
    in_child(reserved, NULL);
}

static void not_reserved(void *context) {
    trainer t;
    (void)context;
    open_on_disk(&t, "size=64m");
    disk_reserves(ENOSPC);
    assert_works(pawl_save(t.run, t.state, 2000, NULL, t.err), t.err);
    assert_tells(pawl_wait(t.run, 0, NULL, t.err), PAWL_ENOSPACE, t.err,
                 "saving step 2000: cannot reserve room for the file\n"
                 "  path:     {d}/disk/run/step-00002000/{f}\n"
                 "  expected: 25.2 MB free\n"
                 "  found:    {b} and {n} more files free on the filesystem at {d}/disk (tmpfs)\n"
                 "  system:   No space left on device (ENOSPC, errno 28)\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     free space there, or choose another directory");
    assert_false(file_exists("disk/run/step-00002000"));
    disk_reserves(0);
    trainer_save(&t, 3000);
    trainer_free(&t);
}

static void test_s06_room_that_others_took_first_is_told_before_the_first_byte(void **state) {
    (void)state;
    in_child(not_reserved, NULL);
}

static void limited_meanwhile(void *context) {
    trainer t;
    (void)context;
    open_on_disk(&t, NULL);
    disk_hangs();
    assert_works(pawl_save(t.run, t.state, 2000, NULL, t.err), t.err);
    disk_wait_until_hung();
    (void)signal(SIGXFSZ, SIG_IGN);
    limit_files(1 << 20);
    disk_heals();
    assert_tells(pawl_wait(t.run, 0, NULL, t.err), PAWL_ENOSPACE, t.err,
                 "saving step 2000: writing bytes {n} to {n}: cannot write\n"
                 "  path:     {d}/disk/run/step-00002000/{f}\n"
                 "  range:    bytes {n} to {n}\n"
                 "  found:    a file-size limit of this process (RLIMIT_FSIZE) of 1.05 MB\n"
                 "  system:   File too large (EFBIG, errno 27)\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     raise the limit (ulimit -f unlimited)");
    limit_files(RLIM_INFINITY);
    trainer_save(&t, 3000);
    assert_step(&t, 3000);
    trainer_free(&t);
}

static void test_s07_a_limit_that_is_met_during_a_save(void **state) {
    (void)state;
    in_child(limited_meanwhile, NULL);
}

static void read_only(void *context) {
    trainer t;
    (void)context;
    open_on_disk(&t, "size=64m");
    trainer_close(&t);
    assert_int_equal(mount("none", "disk", NULL, MS_REMOUNT | MS_RDONLY, "size=64m"), 0);
    assert_tells(pawl_run_open("disk/run", NULL, &t.run, t.err), PAWL_EPERMISSION, t.err,
                 "the path \"disk/run\": cannot write to a directory\n"
                 "  path:     {d}/disk/run\n"
                 "  expected: a filesystem that can be written\n"
                 "  found:    tmpfs at {d}/disk, mounted read-only (ro,relatime,size={w})\n"
                 "  system:   Read-only file system (EROFS, errno 30)\n"
                 "  next:     mount it for writing (mount -o remount,rw {d}/disk), or choose "
                 "another directory");
    t.run = NULL;
    trainer_free(&t);
}

static void test_p03_a_read_only_disk(void **state) {
    (void)state;
    in_child(read_only, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s06_a_disk_that_is_too_small_is_told_before_the_first_byte),
        TEST(test_s06_a_disk_without_inodes),
        TEST(test_s06_a_limit_of_file_sizes),
        TEST(test_s07_a_disk_that_fills_during_a_save_costs_that_save_only),
        TEST(test_s07_room_that_is_reserved_is_nobody_elses),
        TEST(test_s06_room_that_others_took_first_is_told_before_the_first_byte),
        TEST(test_s07_a_limit_that_is_met_during_a_save),
        TEST(test_p03_a_read_only_disk),
    };
    return cmocka_run_group_tests_name("disks without room", tests, NULL, NULL);
}
