/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filesystem without a fixed number of inodes, such as btrfs, reports none at all: on a full one
 * no message speaks of inodes, and unknown is not taken for none left.
 */
#include "lib/test.h"

#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DISK "disk"

/* What the library is told of a filesystem; with `silent_on_files` as btrfs tells it. */
static bool silent_on_files;

int fstatvfs(int fd, struct statvfs *out) {
    struct statfs room;
    if (syscall(SYS_fstatfs, fd, &room) != 0) {
        return -1;
    }
    *out = (struct statvfs){.f_bsize = (unsigned long)room.f_bsize,
                            .f_frsize = (unsigned long)room.f_frsize,
                            .f_blocks = room.f_blocks,
                            .f_bfree = room.f_bfree,
                            .f_bavail = room.f_bavail,
                            .f_files = silent_on_files ? 0 : room.f_files,
                            .f_ffree = silent_on_files ? 0 : room.f_ffree,
                            .f_favail = silent_on_files ? 0 : room.f_ffree};
    return 0;
}

static char folder[64];

static int set_up(void **state) {
    (void)state;
    silent_on_files = false;
    strcpy(folder, "/tmp/pawl-outside-XXXXXX");
    return mkdtemp(folder) != NULL && chdir(folder) == 0 ? system("mkdir " DISK) : -1;
}

static int tear_down(void **state) {
    char command[96];
    (void)state;
    (void)snprintf(command, sizeof command, "umount " DISK " 2>/dev/null; cd /; rm -rf %s", folder);
    return system(command) != 0 || chdir("/") != 0 ? -1 : 0;
}

/* On a full disk; what is said to be there. */
static void open_run(char found[1024]) {
    pawl_error *err = pawl_error_new();
    pawl_run *run = NULL;
    assert_fails(pawl_run_open(DISK "/run", NULL, &run, err), PAWL_ENOSPACE, err);
    const char *part = pawl_error_get(err, PAWL_ERROR_FOUND);
    (void)snprintf(found, 1024, "%s", part != NULL ? part : "");
    pawl_error_free(err);
}

static void refuse_errors(void *context, const pawl_finding *finding) {
    (void)context;
    if (finding->severity == PAWL_SEVERITY_ERROR) {
        fail_msg("%s: %s", finding->id, finding->text);
    }
}

/* Room for bytes, and for as many files. False where nothing can be mounted. */
static bool mount_memory(int files) {
    char command[160];
    (void)snprintf(command, sizeof command,
                   "mount -t tmpfs -o size=16m,nr_inodes=%d none " DISK
                   " 2>/dev/null && mkdir " DISK "/run",
                   files);
    if (system(command) != 0) {
        print_message("SKIP: nothing can be mounted here\n");
        return false;
    }
    return true;
}

static void test_no_number_of_files_is_no_lack_of_them(void **state) {
    (void)state;
    if (!mount_memory(100)) {
        skip();
    }
    silent_on_files = true;
    pawl_error *err = pawl_error_new();
    assert_ok(pawl_doctor(DISK "/run", NULL, refuse_errors, NULL, NULL, err), err);
    pawl_error_free(err);
}

static void test_where_the_number_is_unknown_nothing_is_said_of_files(void **state) {
    (void)state;
    char found[1024];
    if (!mount_memory(2)) {
        skip();
    }
    silent_on_files = true;
    open_run(found);
    assert_null(strstr(found, "more file"));
    assert_non_null(strstr(found, " free on the filesystem at "));
}

static void test_where_it_is_known_it_is_said(void **state) {
    (void)state;
    char found[1024];
    if (!mount_memory(2)) {
        skip();
    }
    open_run(found);
    assert_non_null(strstr(found, " and 0 more files free on the filesystem at "));
}

static void test_a_full_btrfs(void **state) {
    (void)state;
    char found[1024];
    if (system("truncate -s 48M image && mkfs.btrfs -q --mixed image >/dev/null 2>&1 && "
               "mount -o loop image " DISK " 2>/dev/null") != 0) {
        print_message("SKIP: no btrfs can be made and mounted here\n");
        skip();
    }
    (void)!system("mkdir " DISK "/run; head -c 100M /dev/zero >" DISK "/fill 2>/dev/null");
    open_run(found);
    assert_null(strstr(found, "more file"));
    assert_non_null(strstr(found, "(btrfs)"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_number_of_files_is_no_lack_of_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_where_the_number_is_unknown_nothing_is_said_of_files,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_where_it_is_known_it_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_btrfs, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("22 unknown inodes", tests, NULL, NULL);
}
