/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The posix store on filesystems that are full, read-only, or not ours: small ones in memory,
 * mounted in a mount namespace of a child's own. Needs root; skipped, and counted, otherwise.
 */
#include "children.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

/* With a blank in its name: mount tables write that as \040. */
#define MOUNT_NAME "small disk"

typedef struct fixture {
    directory dir;
    char mount[128];
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    directory_make(&f->dir);
    (void)snprintf(f->mount, sizeof(f->mount), "%s/%s", f->dir.path, MOUNT_NAME);
    assert_int_equal(mkdir(f->mount, 0755), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    directory_remove(&f->dir);
    mem_free(f);
    return 0;
}

/* Mounts, in a child, and opens a store there. */
static store *mounted(const fixture *f, const char *options) {
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", f->mount, "tmpfs", MS_NODEV, options) != 0) {
        child_skip("mounting needs root");
    }
    child_must(store_posix(f->mount, &s, &err) == PAWL_OK);
    return s;
}

static bool says(const char *text, const char *words) {
    if (strstr(text, words) == NULL) {
        (void)fprintf(stderr, "\"%s\" is not in:\n%s\n", words, text);
        return false;
    }
    return true;
}

static void fill_disk(void *context) {
    const fixture *f = context;
    static const char bytes[200 * 1024];
    store *s = mounted(f, "size=64k");
    pawl_error err = ERROR_INIT;
    char text[1024];
    child_must(publish(s, "m", "old", 3, &err) == PAWL_OK);
    child_must(publish(s, "m", bytes, sizeof(bytes), &err) == PAWL_ENOSPACE);
    child_must(err.has_range && err.offset > 0 && err.offset < 65536 &&
               err.offset + err.length == sizeof(bytes));
    (void)snprintf(text, sizeof(text),
                   "cannot publish m: cannot write\n"
                   "  path:     %s/m.tmp\n"
                   "  range:    bytes %llu to %llu\n",
                   f->mount, (unsigned long long)err.offset,
                   (unsigned long long)(sizeof(bytes) - 1));
    child_must(says(error_text(&err), text));
    (void)snprintf(text, sizeof(text), " free on the filesystem at %s (tmpfs)\n", f->mount);
    child_must(says(error_text(&err), text));
    child_must(says(error_text(&err), "  system:   No space left on device (ENOSPC, errno 28)\n"
                                      "  safe:     m is what it was before\n"
                                      "  next:     free space there, or choose another directory"));
    child_must(publish(s, "m", "after", 5, &err) == PAWL_OK);
    store_destroy(s);
}

/* A disk that fills up: the story has place, range and room; afterwards there is room again. */
static void test_s07_a_full_disk_is_told_and_survived(void **state) {
    run_child(fill_disk, *state);
}

static void use_up_inodes(void *context) {
    const fixture *f = context;
    store *s = mounted(f, "size=1m,nr_inodes=3");
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    store_space room;
    char text[256];
    child_must(store_make_dir(s, "d", &err) == PAWL_OK);
    child_must(publish(s, "a", "text", 4, &err) == PAWL_OK);
    child_must(store_space_of(s, &room, &err) == PAWL_OK && room.free_inodes == 0);
    child_must(store_open(s, "b", STORE_CREATE, &file, &err) == PAWL_ENOSPACE);
    (void)snprintf(text, sizeof(text), " and 0 more files free on the filesystem at %s (tmpfs)\n",
                   f->mount);
    child_must(says(error_text(&err), text));
    store_destroy(s);
}

/* A disk without inodes: bytes are free, and the message says that files are not. */
static void test_s06_a_disk_without_inodes_says_so(void **state) {
    run_child(use_up_inodes, *state);
}

static void look_at_space(void *context) {
    const fixture *f = context;
    store *s = mounted(f, "size=64k,nr_inodes=100,mode=0700");
    pawl_error err = ERROR_INIT;
    store_space room;
    child_must(store_space_of(s, &room, &err) == PAWL_OK);
    child_must(room.total_bytes == 65536 && room.free_bytes == 65536);
    child_must(room.free_inodes == 99);
    child_must(room.max_file_bytes == UINT64_MAX);
    child_must(!room.read_only);
    child_must_equal(room.filesystem, "tmpfs");
    child_must_equal(room.mount_point, f->mount);
    child_must(says(room.mount_options, "rw,nodev"));
    child_must(says(room.mount_options, "size=64k"));
    child_must(publish(s, "a", "text", 4, &err) == PAWL_OK);
    child_must(store_space_of(s, &room, &err) == PAWL_OK);
    child_must(room.free_bytes < 65536 && room.free_inodes == 98);
    store_destroy(s);
}

/* Room, mount point, type and options are those of the mount that the root is on. */
static void test_p03_the_mount_is_known(void **state) {
    run_child(look_at_space, *state);
}

static void hide_mount(void *context) {
    const fixture *f = context;
    store *s = mounted(f, "size=64k");
    pawl_error err = ERROR_INIT;
    store_space room;
    child_must(mount("tmpfs", f->mount, "tmpfs", 0, "size=1m") == 0);
    child_must(store_space_of(s, &room, &err) == PAWL_OK);
    child_must(room.total_bytes == 65536);
    child_must(says(room.mount_options, "size=64k"));
    store_destroy(s);
}

/* Another mount over the same place does not confuse it. */
static void test_p03_a_mount_that_was_hidden_is_still_known(void **state) {
    run_child(hide_mount, *state);
}

static void bind_elsewhere(void *context) {
    const fixture *f = context;
    store *s = mounted(f, "size=64k");
    pawl_error err = ERROR_INIT;
    store_space room;
    char other[128];
    (void)snprintf(other, sizeof(other), "%s/other", f->dir.path);
    child_must(mkdir(other, 0755) == 0);
    child_must(mount(f->mount, other, NULL, MS_BIND, NULL) == 0);
    child_must(store_space_of(s, &room, &err) == PAWL_OK);
    child_must_equal(room.mount_point, f->mount);
    store_destroy(s);
}

/* Of two places of one filesystem, the one that the root was opened at is named. */
static void test_p03_the_place_is_that_of_the_root(void **state) {
    run_child(bind_elsewhere, *state);
}

static void write_read_only(void *context) {
    const fixture *f = context;
    store *s = mounted(f, "size=64k");
    pawl_error err = ERROR_INIT;
    store_space room;
    char text[1024];
    child_must(publish(s, "m", "old", 3, &err) == PAWL_OK);
    child_must(mount("none", f->mount, NULL, MS_REMOUNT | MS_RDONLY, "size=64k") == 0);
    child_must(store_space_of(s, &room, &err) == PAWL_OK && room.read_only);
    child_must(publish(s, "m", "new", 3, &err) == PAWL_EPERMISSION);
    (void)snprintf(text, sizeof(text),
                   "cannot publish m: cannot create the file\n"
                   "  path:     %s/m.tmp\n"
                   "  found:    the filesystem at %s (tmpfs) is mounted read-only (%s)\n"
                   "  system:   Read-only file system (EROFS, errno 30)\n"
                   "  safe:     m is what it was before\n"
                   "  next:     mount it for writing, or choose another directory",
                   f->mount, f->mount, room.mount_options);
    child_must_equal(error_text(&err), text);
    store_destroy(s);
}

/* A read-only mount is named with its options. */
static void test_p03_a_read_only_mount_is_named(void **state) {
    run_child(write_read_only, *state);
}

static void create_without_permission(void *context) {
    const fixture *f = context;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    store_file *file = NULL;
    char text[1024];
    child_become_nobody(NULL, 0);
    child_must(store_posix(f->dir.path, &s, &err) == PAWL_OK);
    child_must(store_open(s, "a", STORE_CREATE, &file, &err) == PAWL_EPERMISSION);
    (void)snprintf(text, sizeof(text),
                   "cannot create the file\n"
                   "  path:     %s/a\n"
                   "  expected: access for user 65534, group 65534\n"
                   "  found:    a directory with owner 0, group 0, mode 0755\n"
                   "  system:   Permission denied (EACCES, errno 13)\n"
                   "  next:     run as a user whom the mode admits, or change owner or mode",
                   f->dir.path);
    child_must_equal(error_text(&err), text);
    store_destroy(s);
}

/* Who we are, and what the directory allows. */
static void test_p02_a_refused_creation_says_who_and_why(void **state) {
    run_child(create_without_permission, *state);
}

static void read_without_permission(void *context) {
    const fixture *f = context;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    store_file *file = NULL;
    if (geteuid() != 0) {
        child_skip("becoming another user needs root");
    }
    child_must(store_posix(f->dir.path, &s, &err) == PAWL_OK);
    child_must(publish(s, "secret", "text", 4, &err) == PAWL_OK);
    store_destroy(s);
    child_must(chdir(f->dir.path) == 0 && chmod("secret", 0600) == 0);
    child_become_nobody(NULL, 0);
    child_must(store_posix(f->dir.path, &s, &err) == PAWL_OK);
    child_must(store_open(s, "secret", STORE_READ, &file, &err) == PAWL_EPERMISSION);
    child_must_equal(err.found, "a directory with owner 0, group 0, mode 0755; "
                                "it has owner 0, group 0, mode 0600");
    store_destroy(s);
}

/* A file that must not be read is described, too. */
static void test_p02_a_refused_file_is_described(void **state) {
    run_child(read_without_permission, *state);
}

static void open_closed_root(void *context) {
    const fixture *f = context;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    child_become_nobody(NULL, 0);
    child_must(store_posix(f->dir.path, &s, &err) == PAWL_EPERMISSION);
    child_must(says(error_text(&err), "  expected: access for user 65534, group 65534\n"));
    child_must(says(error_text(&err), f->dir.path));
}

/* A root that must not be opened. */
static void test_p02_a_refused_root_is_told(void **state) {
    const fixture *f = *state;
    assert_int_equal(chmod(f->dir.path, 0700), 0);
    run_child(open_closed_root, *state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s07_a_full_disk_is_told_and_survived),
        TEST(test_s06_a_disk_without_inodes_says_so),
        TEST(test_p03_the_mount_is_known),
        TEST(test_p03_a_mount_that_was_hidden_is_still_known),
        TEST(test_p03_the_place_is_that_of_the_root),
        TEST(test_p03_a_read_only_mount_is_named),
        TEST(test_p02_a_refused_creation_says_who_and_why),
        TEST(test_p02_a_refused_file_is_described),
        TEST(test_p02_a_refused_root_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
