/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On a disk that is full to the last byte and inode, gc, a removal and then a save go through, also
 * after owners were killed there and others took what they had freed.
 */
#include "lib/loop_disk.h"
#include "outside/small_run.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DISK  "disk"
#define RUN   DISK "/run"
#define BYTES 200000

typedef struct fixture {
    char directory[64];
    char image[64];
    bool mounted;
    uid_t user;
    unsigned files; /* how often it was filled */
} fixture;

static int set_up(void **state) {
    fixture *f = *state = calloc(1, sizeof *f);
    directory_enter_new(f->directory);
    (void)snprintf(f->image, sizeof f->image, "%s/pawl-image-%lld",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".", (long long)getpid());
    return mkdir(DISK, 0777);
}

static int tear_down(void **state) {
    fixture *f = *state;
    int unmounted = f->mounted ? system("umount " DISK) : 0;
    (void)unlink(f->image);
    directory_leave(f->directory);
    free(f);
    return unmounted;
}

/* Skips the test where there can be none. */
static void make_disk(fixture *f, unsigned mib, const char *type, const char *options) {
    const loop_disk disk = {.type = type,
                            .options = options,
                            .bytes = (off_t)mib << 20,
                            .image = f->image,
                            .point = DISK};
    const char *lacks = loop_disk_mount(&disk);
    if (lacks != NULL) {
        print_message("SKIP: %s\n", lacks);
        skip();
    }
    f->mounted = true;
    assert_int_equal(chmod(DISK, 0777), 0);
}

/* ---- what processes do there ----------------------------------------------------------------- */

static pawl_status open_run(pawl_run **run, pawl_error *err) {
    const pawl_run_options options = {.struct_size = sizeof options, .lease_s = 2};
    return pawl_run_open(RUN, &options, run, err);
}

static pawl_status save_to(pawl_run *run, int64_t step, pawl_error *err) {
    return small_save_bytes(run, step, BYTES, err);
}

static pawl_status save_three(pawl_run *run, pawl_error *err) {
    pawl_status status = PAWL_OK;
    for (int64_t step = 1; step <= 3 && status == PAWL_OK; step++) {
        status = save_to(run, step, err);
    }
    return status;
}

static pawl_status save_fourth(pawl_run *run, pawl_error *err) {
    return save_to(run, 4, err);
}

static pawl_status die(pawl_run *run, pawl_error *err) {
    (void)run;
    (void)err;
    (void)kill(getpid(), SIGKILL);
    return PAWL_OK;
}

static pawl_status look_for_garbage(pawl_run *run, pawl_error *err) {
    return pawl_run_gc(run, 1, NULL, NULL, err);
}

static pawl_status collect(pawl_run *run, pawl_error *err) {
    return pawl_run_gc(run, 0, NULL, NULL, err);
}

static pawl_status remove_first(pawl_run *run, pawl_error *err) {
    return pawl_run_remove(run, 1, 0, err);
}

static void become(const fixture *f) {
    if (f->user != 0 && (setgroups(0, NULL) != 0 || setgid(f->user) != 0 || setuid(f->user) != 0)) {
        _exit(3);
    }
}

/* Each of them in a process of its own, which opens the run for it. */
static int in_a_process(const fixture *f, pawl_status (*body)(pawl_run *run, pawl_error *err)) {
    int ended;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        become(f);
        pawl_run *run = NULL;
        pawl_error *err = pawl_error_new();
        pawl_status status = open_run(&run, err);
        status = status == PAWL_OK ? body(run, err) : status;
        if (status != PAWL_OK) {
            (void)fprintf(stderr, "%s\n", pawl_error_text(err));
        }
        pawl_status closed = run != NULL ? pawl_run_close(run, 0, err) : status;
        _exit(status == PAWL_OK && closed == PAWL_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    return ended;
}

static void works(const fixture *f, pawl_status (*body)(pawl_run *run, pawl_error *err)) {
    assert_int_equal(in_a_process(f, body), 0);
}

/* ---- filling -------------------------------------------------------------------------------- */

/* Until not one byte more fits, nor one file. */
static void fill_up(unsigned number) {
    static char zeros[65536];
    char name[64];
    (void)snprintf(name, sizeof name, DISK "/fill-%u", number);
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    for (off_t bytes = 16 << 20, at = 0; fd >= 0 && bytes >= 4096;) {
        if (fallocate(fd, 0, at, bytes) == 0) {
            at += bytes;
        } else {
            bytes /= 2;
        }
    }
    for (size_t n = sizeof zeros; fd >= 0 && n >= 256;) {
        if (lseek(fd, 0, SEEK_END) < 0 || write(fd, zeros, n) <= 0) {
            n /= 2;
        }
    }
    for (unsigned i = 0; i < 4000; i++) {
        (void)snprintf(name, sizeof name, DISK "/fill-%u-%u", number, i);
        int more = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (more < 0) {
            break;
        }
        bool written = write(more, zeros, 4096) > 0; /* where not, files alone are made */
        (void)close(more);
        if (!written && i >= 200) {
            break;
        }
    }
    if (fd >= 0) {
        (void)syncfs(fd);
    }
}

static void fill(fixture *f) {
    for (int again = 0; again < 2; again++) {
        int ended;
        pid_t pid = fork();
        assert_true(pid >= 0);
        unsigned number = f->files++;
        if (pid == 0) {
            become(f);
            fill_up(number);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &ended, 0), pid);
    }
}

static void leave_garbage(const fixture *f) {
    char command[256];
    (void)snprintf(command, sizeof command,
                   "mkdir " RUN "/step-00000009 && head -c 300000 /dev/zero > " RUN
                   "/step-00000009/data-aaaaaaaaaaaa-1-00000-of-00001.safetensors && "
                   "chown -R %u " RUN,
                   (unsigned)f->user);
    assert_int_equal(system(command), 0);
}

/* ---- the tests ------------------------------------------------------------------------------ */

static void check_disk(fixture *f, unsigned mib, const char *type, const char *options,
                       bool saves) {
    make_disk(f, mib, type, options);
    works(f, save_three);
    leave_garbage(f);
    fill(f);
    works(f, look_for_garbage);
    for (int i = 0; i < 3; i++) {
        int ended = in_a_process(f, die);
        assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
        fill(f);
    }
    works(f, look_for_garbage);
    works(f, collect);
    assert_int_not_equal(access(RUN "/step-00000009", F_OK), 0);
    works(f, remove_first);
    assert_int_not_equal(access(RUN "/step-00000001/manifest.json", F_OK), 0);
    if (saves) {
        works(f, save_fourth);
    }
}

static void test_full_ext4(void **state) {
    check_disk(*state, 8, "ext4", "-q -F -m 0", true);
}

static void test_ext4_with_plenty_of_room_once(void **state) {
    check_disk(*state, 64, "ext4", "-q -F -m 0", true);
}

static void test_ext4_without_an_inode(void **state) {
    check_disk(*state, 8, "ext4", "-q -F -m 0 -N 64", true);
}

/* What is left belongs to root alone. */
static void test_ext4_that_is_full_for_its_user(void **state) {
    fixture *f = *state;
    f->user = 1000;
    check_disk(f, 8, "ext4", "-q -F -m 10", true);
}

/* Without a record of an owner before, and without a reserve. */
static void test_a_run_that_has_only_checkpoints(void **state) {
    fixture *f = *state;
    make_disk(f, 8, "ext4", "-q -F -m 0");
    works(f, save_three);
    leave_garbage(f);
    assert_int_equal(system("rm -f " RUN "/owner-* " RUN "/reserve"), 0);
    fill(f);
    works(f, look_for_garbage);
    fill(f);
    works(f, remove_first);
    works(f, collect);
    works(f, save_fourth);
}

static void test_full_xfs(void **state) {
    check_disk(*state, 300, "xfs", "-q -f", true);
}

static void test_full_btrfs(void **state) {
    check_disk(*state, 120, "btrfs", "-q -f", false);
}

static void test_the_command_on_a_full_disk(void **state) {
    fixture *f = *state;
    make_disk(f, 8, "ext4", "-q -F -m 0");
    works(f, save_three);
    leave_garbage(f);
    fill(f);
    assert_int_equal(system(PAWL_COMMAND " gc --dry-run " RUN " >out 2>&1"), 0);
    assert_int_equal(system(PAWL_COMMAND " gc " RUN " >out 2>&1"), 0);
    fill(f);
    assert_int_equal(system(PAWL_COMMAND " rm " RUN "@1 >out 2>&1"), 0);
    assert_int_not_equal(access(RUN "/step-00000001/manifest.json", F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_full_ext4, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ext4_with_plenty_of_room_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ext4_without_an_inode, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ext4_that_is_full_for_its_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_run_that_has_only_checkpoints, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_xfs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_btrfs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_command_on_a_full_disk, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
