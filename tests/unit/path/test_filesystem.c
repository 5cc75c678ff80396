/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of filesystems that a test cannot mount (P07, P09). */
#include "lib/test.h"

#include "path/private.h"
#include "store/mount_table.h"

#include <stdio.h>
#include <string.h>

static const path_abilities everything = {.direct_io = true, .directory_sync = true};

typedef struct told {
    char text[4096];
} told;

static void take(void *context, const pawl_finding *finding) {
    told *t = context;
    size_t at = strlen(t->text);
    (void)snprintf(t->text + at, sizeof(t->text) - at, "%s %s %s -> %s\n",
                   finding->severity == PAWL_SEVERITY_WARNING ? "warning" : "note", finding->id,
                   finding->text, finding->next != NULL ? finding->next : "");
}

static void check(const char *filesystem, const char *options, path_abilities can,
                  const char *wanted) {
    mount_found mount = {.root = "/"};
    told t = {.text = ""};
    (void)snprintf(mount.point, sizeof(mount.point), "/m");
    (void)snprintf(mount.filesystem, sizeof(mount.filesystem), "%s", filesystem);
    (void)snprintf(mount.options, sizeof(mount.options), "%s", options);
    path_judge_filesystem("/m/run", &mount, &can, take, &t);
    assert_string_equal(t.text, wanted);
}

/* Nothing is said of storage that has what is needed. */
static void test_p09_good_filesystems_are_passed_over(void **state) {
    (void)state;
    check("ext4", "rw,relatime", everything, "");
    check("xfs", "rw,soft", everything, "");
    check("lustre", "rw", everything, "");
}

/* What a network filesystem is mounted with decides what may be lost. */
static void test_p09_nfs_is_told_by_its_options(void **state) {
    (void)state;
#define NFS_NOTE                                                                                   \
    "note P09 /m/run is on nfs4 (mounted at /m): other hosts see new files a little later; and a " \
    "server that exports it async, which cannot be seen from here, loses what it acknowledged "    \
    "when it crashes -> have the server export it sync\n"
    check("nfs4", "rw,hard", everything, NFS_NOTE);
    check("nfs4", "rw,soft,nocto", everything,
          "warning P09 /m/run is on nfs4 (mounted at /m), mounted soft: when the server does not "
          "answer in time, writes fail instead of waiting -> mount it hard, which is the default\n"
          "warning P09 /m/run is on nfs4 (mounted at /m), mounted nocto: processes of other hosts "
          "may read what was there before -> mount it without nocto\n" NFS_NOTE);
}

/* Filesystems behind which something else decides. */
static void test_p09_what_serves_a_filesystem_is_named(void **state) {
    (void)state;
    check("fuse.sshfs", "rw", everything,
          "warning P09 /m/run is on fuse.sshfs (mounted at /m), which a program serves: whether a "
          "sync makes anything durable, and a rename is atomic, is up to it -> see what that "
          "program promises for fsync and rename\n");
    check("cifs", "rw,nostrictsync", everything,
          "warning P09 /m/run is on cifs (mounted at /m), mounted nostrictsync: a sync does not "
          "reach the server -> mount it with strictsync\n"
          "note P09 /m/run is on cifs (mounted at /m): whether a sync makes anything durable is up "
          "to the server -> \n");
    check("9p", "rw,cache=loose", everything,
          "warning P09 /m/run is on 9p (mounted at /m), mounted cache=loose: what other hosts "
          "write may not be seen -> mount it with cache=none\n"
          "note P09 /m/run is on 9p (mounted at /m), which the host serves: whether a sync makes "
          "anything durable is up to it -> \n");
}

/* FAT has no files over 4 GiB, and no atomic replacement. */
static void test_p09_fat_is_named(void **state) {
    (void)state;
    check("vfat", "rw", everything,
          "warning P09 /m/run is on vfat (mounted at /m): a file has at most 4.3 GB there, and a "
          "power cut may damage a checkpoint that is being replaced -> save to ext4, XFS or the "
          "like\n");
}

/* What was tried and does not work. */
static void test_p09_what_does_not_work_is_named(void **state) {
    (void)state;
    check("zfs", "rw", (path_abilities){.direct_io = false, .directory_sync = true},
          "warning P09 /m/run is on zfs (mounted at /m), which has no direct I/O: saves go through "
          "the page cache, which is slower and takes memory -> \n");
    check("lustre", "rw", (path_abilities){.direct_io = true, .directory_sync = false},
          "warning P09 /m/run is on lustre (mounted at /m), which cannot sync directories: after a "
          "power cut a checkpoint that was committed may be missing, whole -> save to ext4, XFS or "
          "the like\n");
}

/* A volume that a scheduler removes is told by where it comes from. */
static void test_p07_an_emptydir_goes_with_its_pod(void **state) {
    (void)state;
    mount_found mount = {.filesystem = "ext4", .point = "/scratch"};
    told t = {.text = ""};
    (void)snprintf(mount.root, sizeof(mount.root),
                   "/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/scratch");
    assert_true(path_mount_vanishes(&mount));
    path_judge_filesystem("/scratch/run", &mount, &everything, take, &t);
    assert_memory_equal(t.text,
                        "warning P07 /scratch/run is on ext4 (mounted at /scratch), a Kubernetes "
                        "emptyDir: all of it is gone when the pod ends -> ",
                        120);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_p09_good_filesystems_are_passed_over),
        cmocka_unit_test(test_p09_nfs_is_told_by_its_options),
        cmocka_unit_test(test_p09_what_serves_a_filesystem_is_named),
        cmocka_unit_test(test_p09_fat_is_named),
        cmocka_unit_test(test_p09_what_does_not_work_is_named),
        cmocka_unit_test(test_p07_an_emptydir_goes_with_its_pod),
    };
    return cmocka_run_group_tests_name("storage", tests, NULL, NULL);
}
