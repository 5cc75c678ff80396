/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filesystem that really stops answering (S08): one on a loop device, frozen while a save writes
 * to it. The kernel lets nobody out of a write to it, whichever way it was begun. Needs root.
 */
#include "failures.h"
#include "lib/loop_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIG_BYTES   (8 << 20)
#define GUARD_MS    30000
#define BYTES_PER_S (4 << 20)

static char scratch[64];

static int set_up(void **state) {
    (void)state;
    scratch_make(scratch);
    return mkdir("disk", 0755);
}

static int tear_down(void **state) {
    (void)state;
    scratch_remove(scratch);
    return 0;
}

/* ---- a disk of its own ---------------------------------------------------------------------- */

static const loop_disk disk_of_its_own = {
    .type = "ext4", .options = "-q -F", .bytes = 64 << 20, .image = "image", .point = "disk"};

/* A frozen filesystem must not outlive its test, whatever becomes of it: a process of its own thaws
 * it when told, when the test ends, or after some time. */
typedef struct freezer {
    int disk;
    int guard; /* closing it thaws */
    pid_t pid;
} freezer;

static void be_guard(int disk, int told) {
    struct pollfd end = {.fd = told, .events = POLLIN};
    (void)poll(&end, 1, GUARD_MS);
    (void)ioctl(disk, FITHAW, 0);
    _exit(0);
}

static freezer freeze(void) {
    int ends[2];
    freezer f = {.disk = open("disk", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    assert_true(f.disk >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    f.guard = ends[1];
    f.pid = fork();
    assert_true(f.pid >= 0);
    if (f.pid == 0) {
        (void)close(ends[1]);
        be_guard(f.disk, ends[0]);
    }
    (void)close(ends[0]);
    assert_int_equal(ioctl(f.disk, FIFREEZE, 0), 0);
    return f;
}

static void thaw(const freezer *f) {
    (void)close(f->guard);
    assert_int_equal(waitpid(f->pid, NULL, 0), f->pid);
    (void)close(f->disk);
}

/* ---- a save that meets it ------------------------------------------------------------------- */

static void wait_for_data(void) {
    while (!file_exists("disk/run/step-00002000")) {
        (void)usleep(1000);
    }
    (void)usleep(300000); /* now it is among its writes, of which there are two seconds */
}

static void meet_frozen_disk(void *context) {
    static const int64_t shape[] = {BIG_BYTES};
    trainer t;
    uint8_t *big = calloc(1, BIG_BYTES);
    assert_non_null(big);
    const char *lacks = loop_disk_mount(&disk_of_its_own);
    if (lacks != NULL) {
        child_skip(lacks);
    }
    trainer_init(&t);
    trainer_build(&t);
    pawl_run_options options = trainer_options(&t);
    options.io = *(const pawl_io *)context;
    options.hang_deadline_s = 2;
    options.in_flight_bytes = 1 << 20;
    options.bandwidth_bytes_per_s = BYTES_PER_S;
    trainer_open_with(&t, "disk/run", &options);
    trainer_save(&t, 1000);
    trainer_add(&t, "dense/big", PAWL_U8, 1, shape, big);
    assert_works(pawl_save(t.run, t.state, 2000, NULL, t.err), t.err);
    wait_for_data();
    freezer frozen = freeze();
    pawl_status status = pawl_wait(t.run, 0, NULL, t.err);
    pawl_status fenced = pawl_fence(t.run, 0, NULL);
    thaw(&frozen);
    assert_tells(status, PAWL_EIO, t.err,
                 "saving step 2000: the storage hangs: no answer for {n} {w} while writing\n"
                 "  path:     {d}/disk/run/step-00002000/{f}\n"
                 "  range:    bytes {n} to {n}\n"
                 "  found:    {b} of 8.39 MB written\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     look at the storage (the kernel's log, or the server of a network "
                 "mount); nothing is saved until it answers");
    assert_int_equal(fenced, PAWL_OK);
    assert_works(pawl_state_remove(t.state, "dense/big", t.err), t.err);
    while (pawl_save(t.run, t.state, 3000, NULL, t.err) == PAWL_EIO) {
        (void)usleep(1000);
    }
    assert_works(pawl_wait(t.run, 0, NULL, t.err), t.err);
    assert_false(file_exists("disk/run/step-00002000"));
    trainer_free(&t);
    free(big);
}

static void test_s08_a_frozen_filesystem_by_threads(void **state) {
    pawl_io io = PAWL_IO_THREADS;
    (void)state;
    in_child(meet_frozen_disk, &io);
}

static void test_s08_a_frozen_filesystem_by_what_is_chosen(void **state) {
    pawl_io io = PAWL_IO_AUTO;
    (void)state;
    in_child(meet_frozen_disk, &io);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s08_a_frozen_filesystem_by_threads),
        TEST(test_s08_a_frozen_filesystem_by_what_is_chosen),
    };
    return cmocka_run_group_tests_name("filesystems that freeze", tests, NULL, NULL);
}
