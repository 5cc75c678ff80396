/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage that does not stay (P07), or lacks something (P09): what pawl_doctor says before the job
 * runs, and what the log says when a run is opened. Each test has a small world of mounts of its
 * own, into which it moves, so that the mounts of this machine are not seen.
 */
#include "failures.h"

#include <errno.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    char path[64];
    trainer t;
    doctor_said said;
} fixture;

static int set_up(void **state) {
    static fixture f;
    memset(&f, 0, sizeof(f));
    scratch_make(f.path);
    assert_int_equal(mkdir("world", 0755), 0);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    scratch_remove(f->path);
    return 0;
}

/* ---- a world -------------------------------------------------------------------------------- */

static void begin_world(void) {
    if (!mount_tmpfs("world", "size=64m")) {
        child_skip("this needs leave to mount");
    }
    assert_int_equal(mkdir("world/proc", 0755), 0);
    assert_int_equal(mount("proc", "world/proc", "proc", 0, NULL), 0);
}

/* Afterwards "/" is the world, and only its mounts are seen. */
static void enter_world(void) {
    assert_int_equal(chroot("world"), 0);
    assert_int_equal(chdir("/"), 0);
}

static bool works_in_shell(const char *command) {
    return system(command) == 0; /* NOLINT(cert-env33-c): a test's own words */
}

/* The first word of a command. */
static bool has_command(const char *command) {
    char text[128];
    (void)snprintf(text, sizeof(text), "command -v %.*s >/dev/null", (int)strcspn(command, " "),
                   command);
    return works_in_shell(text);
}

/* A disk in a file of the world; `make` is the command that makes its filesystem. */
static void add_disk(const char *make, const char *options, const char *point) {
    char command[512];
    (void)snprintf(command, sizeof(command),
                   "truncate -s 16M world%s.image && mkdir world%s && %s world%s.image >/dev/null "
                   "2>&1 && mount -o loop%s world%s.image world%s",
                   point, point, make, point, options, point, point);
    if (!works_in_shell("losetup --find >/dev/null 2>&1")) {
        child_skip("this needs losetup, and a free loop device");
    }
    if (!has_command(make)) {
        child_skip("this needs the program that makes the filesystem");
    }
    assert_true(works_in_shell(command)); /* from here on nothing is a reason to skip */
}

static void add_overlay(const char *point, const char *more) {
    char path[64];
    char options[256];
    (void)snprintf(path, sizeof(path), "world%s", point);
    static const char *const parts[] = {"world/lower", "world/upper", "world/work"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mkdir(parts[i], 0755), 0);
    }
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(options, sizeof(options),
                   "lowerdir=world/lower,upperdir=world/upper,workdir=world/work%s", more);
    if (mount("overlay", path, "overlay", 0, options) != 0) {
        /* No leave, no overlay in the kernel, an option it does not know; all else is a failure. */
        assert_true(errno == EPERM || errno == ENODEV || errno == EINVAL);
        child_skip("this system mounts no overlay of these options");
    }
}

/* ---- asking --------------------------------------------------------------------------------- */

static const char *ask_doctor(fixture *f, const char *path) {
    f->said.wanted = is_of_storage;
    pawl_severity worst = doctor_ask(&f->said, path, NULL);
    assert_int_equal(worst, f->said.text[0] != '\0' ? PAWL_SEVERITY_WARNING : PAWL_SEVERITY_NOTE);
    return f->said.text;
}

/* What the log says when a run is opened, closed and opened again. */
static const char *open_run(fixture *f, const char *path) {
    trainer_init(&f->t);
    f->t.hears_of_storage = true;
    trainer_open(&f->t, path);
    trainer_close(&f->t);
    return f->t.log;
}

/* ---- P07 ------------------------------------------------------------------------------------ */

#define ON_TMPFS                                                                                   \
    "/run is on tmpfs (mounted at /), which is memory: all of it is gone when the machine "        \
    "restarts, or the container ends\n"
#define NOWHERE_ELSE                                                                               \
    "save to a directory on a disk or a network filesystem; in a container, give it a volume\n"

static void in_memory(void *context) {
    fixture *f = context;
    begin_world();
    enter_world();
    assert_text(ask_doctor(f, "/run"), "warning P07: / is on tmpfs (mounted at /), which is "
                                       "memory: all of it is gone when the machine restarts, or "
                                       "the container ends\n  next: " NOWHERE_ELSE);
    assert_text(open_run(f, "/run"),
                "warning: storage of the run (P07): " ON_TMPFS "  next:     " NOWHERE_ELSE);
    assert_text(ask_doctor(f, "/run"), "warning P07: " ON_TMPFS "  next: " NOWHERE_ELSE);
}

static void test_p07_memory_is_gone_with_the_machine(void **state) {
    in_child(in_memory, *state);
}

#define ON_OVERLAY                                                                                 \
    "/merged/run is on overlay (mounted at /merged), as a container's own files are: all of it "   \
    "is gone when the container is removed\n"

static void in_a_container(void *context) {
    fixture *f = context;
    begin_world();
    add_overlay("/merged", "");
    enter_world();
    assert_text(open_run(f, "/merged/run"),
                "warning: storage of the run (P07): " ON_OVERLAY "  next:     " NOWHERE_ELSE);
    assert_text(ask_doctor(f, "/merged/run"), "warning P07: " ON_OVERLAY "  next: " NOWHERE_ELSE);
}

static void test_p07_a_containers_own_layer_is_gone_with_it(void **state) {
    in_child(in_a_container, *state);
}

/* One may be written to; one is read-only; one is a file; one is hidden below another mount. */
static void beside_a_disk(void *context) {
    fixture *f = context;
    begin_world();
    add_disk("mke2fs -q -t ext4", "", "/data");
    add_disk("mke2fs -q -t ext4", ",ro", "/archive");
    add_disk("mke2fs -q -t ext4", "", "/hidden");
    assert_int_equal(mount("tmpfs", "world/hidden", "tmpfs", 0, "size=64k"), 0);
    file_write("world/data/file", "", 0);
    file_write("world/file", "", 0);
    assert_int_equal(mount("world/data/file", "world/file", NULL, MS_BIND, NULL), 0);
    enter_world();
    assert_text(open_run(f, "/run"),
                "warning: storage of the run (P07): " ON_TMPFS
                "  next:     save to a mount that lasts: /data (ext4, {b} free)\n");
    assert_text(ask_doctor(f, "/run"),
                "warning P07: " ON_TMPFS
                "  next: save to a mount that lasts: /data (ext4, {b} free)\n");
    assert_text(ask_doctor(f, "/data/run"), "");
    assert_text(open_run(f, "/data/run"), "");
}

static void test_p07_mounts_that_stay_are_named(void **state) {
    in_child(beside_a_disk, *state);
}

/* ---- P09 ------------------------------------------------------------------------------------ */

static void without_barriers(void *context) {
    fixture *f = context;
    begin_world();
    add_disk("mke2fs -q -t ext4", ",nobarrier", "/data");
    enter_world();
    assert_text(open_run(f, "/data/run"),
                "warning: storage of the run (P09): /data/run is on ext4 (mounted at /data), "
                "mounted nobarrier: a power cut may take what a disk's cache had acknowledged\n"
                "  next:     mount it without nobarrier, unless every cache has a battery\n");
    assert_text(ask_doctor(f, "/data/run"),
                "warning P09: /data/run is on ext4 (mounted at /data), mounted nobarrier: a power "
                "cut may take what a disk's cache had acknowledged\n"
                "  next: mount it without nobarrier, unless every cache has a battery\n");
}

static void test_p09_a_disk_without_barriers(void **state) {
    in_child(without_barriers, *state);
}

static void without_syncs(void *context) {
    fixture *f = context;
    begin_world();
    add_overlay("/merged", ",volatile");
    enter_world();
    assert_text(ask_doctor(f, "/merged"),
                "warning P07: /merged is on overlay (mounted at /merged), as a container's own "
                "files are: all of it is gone when the container is removed\n"
                "  next: " NOWHERE_ELSE
                "warning P09: /merged is on overlay (mounted at /merged), mounted volatile: a sync "
                "does nothing, and a power cut may take everything\n"
                "  next: mount it without volatile\n");
}

static void test_p09_an_overlay_that_does_not_sync(void **state) {
    in_child(without_syncs, *state);
}

static void without_direct_io(void *context) {
    fixture *f = context;
    begin_world();
    add_disk("mke2fs -q -t ext4", "", "/data");
    enter_world();
    disk_fails(EINVAL, 1); /* as filesystems do that open a file for direct I/O and have none */
    assert_text(ask_doctor(f, "/data"),
                "warning P09: /data is on ext4 (mounted at /data), which has no direct I/O: saves "
                "go through the page cache, which is slower and takes memory\n");
    assert_text(ask_doctor(f, "/data"), "");
    disk_fails(EINVAL, 1);
    assert_text(open_run(f, "/data"),
                "warning: storage of the run (P09): /data is on ext4 (mounted at /data), which has "
                "no direct I/O: saves go through the page cache, which is slower and takes "
                "memory\n");
}

static void test_p09_a_disk_without_direct_io(void **state) {
    in_child(without_direct_io, *state);
}

static void on_fat(void *context) {
    fixture *f = context;
    begin_world();
    if (!works_in_shell("command -v mkfs.vfat >/dev/null && modprobe -q vfat; "
                        "grep -qw vfat /proc/filesystems && command -v mkfs.vfat >/dev/null")) {
        child_skip("this needs mkfs.vfat, and a kernel that knows vfat");
    }
    add_disk("mkfs.vfat", "", "/data");
    enter_world();
    assert_text(ask_doctor(f, "/data"),
                "warning P09: /data is on vfat (mounted at /data): a file has at most 4.3 GB "
                "there, and a power cut may damage a checkpoint that is being replaced\n"
                "  next: save to ext4, XFS or the like\n");
}

static void test_p09_fat_keeps_no_large_files(void **state) {
    in_child(on_fat, *state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_p07_memory_is_gone_with_the_machine),
        TEST(test_p07_a_containers_own_layer_is_gone_with_it),
        TEST(test_p07_mounts_that_stay_are_named),
        TEST(test_p09_a_disk_without_barriers),
        TEST(test_p09_an_overlay_that_does_not_sync),
        TEST(test_p09_a_disk_without_direct_io),
        TEST(test_p09_fat_keeps_no_large_files),
    };
    return cmocka_run_group_tests_name("storage", tests, NULL, NULL);
}
