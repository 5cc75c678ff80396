/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, limits and quotas of machines that a test does not have. */
#include "doctor/cgroup.h"
#include "doctor/limits.h"
#include "doctor/quota.h"
#include "unit/store/fixtures.h"

#include <stdio.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

static int set_up(void **state) {
    directory *root = mem_calloc(1, sizeof(*root));
    directory_make(root);
    *state = root;
    return 0;
}

static int tear_down(void **state) {
    directory_remove(*state);
    mem_free(*state);
    return 0;
}

/* With the directories above it. */
static void put(const directory *root, const char *name, const char *text) {
    char path[512];
    int n = snprintf(path, sizeof(path), "%s%s", root->path, name);
    assert_true(n > 0 && (size_t)n < sizeof(path));
    for (char *at = path + strlen(root->path) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_machine(const directory *root) {
    put(root, "/proc/meminfo",
        "MemTotal:        1048576 kB\nMemFree:           1024 kB\nMemAvailable:     524288 kB\n");
}

/* ---- memory --------------------------------------------------------------------------------- */

static void test_nothing_is_known_without_the_kernels_files(void **state) {
    const directory *root = *state;
    memory_room room;
    memory_room_of(root->path, &room);
    assert_true(room.free_bytes == UINT64_MAX);
}

static void test_what_the_machine_has_left(void **state) {
    const directory *root = *state;
    memory_room room;
    put_machine(root);
    memory_room_of(root->path, &room);
    assert_true(room.free_bytes == 512 * MIB && room.limit_bytes == 1024 * MIB);
    assert_int_equal(room.version, 0);
}

static void test_a_group_of_version_2_counts_without_its_cached_files(void **state) {
    const directory *root = *state;
    memory_room room;
    put_machine(root);
    put(root, "/proc/self/cgroup", "0::/jobs/one\n");
    put(root, "/sys/fs/cgroup/jobs/one/memory.max", "268435456\n");
    put(root, "/sys/fs/cgroup/jobs/one/memory.current", "201326592\n");
    put(root, "/sys/fs/cgroup/jobs/one/memory.stat", "anon 1\ninactive_file 67108864\nx 5\n");
    memory_room_of(root->path, &room);
    assert_true(room.free_bytes == 128 * MIB && room.limit_bytes == 256 * MIB);
    assert_int_equal(room.version, 2);
    assert_string_equal(room.group, "/jobs/one");
}

static void test_the_group_around_it_may_leave_less(void **state) {
    const directory *root = *state;
    memory_room room;
    put_machine(root);
    put(root, "/proc/self/cgroup", "0::/jobs/one\n");
    put(root, "/sys/fs/cgroup/jobs/one/memory.max", "max\n");
    put(root, "/sys/fs/cgroup/jobs/memory.max", "67108864\n");
    put(root, "/sys/fs/cgroup/jobs/memory.current", "100663296\n");
    memory_room_of(root->path, &room);
    assert_true(room.free_bytes == 0 && room.limit_bytes == 64 * MIB);
    assert_string_equal(room.group, "/jobs");
}

static void test_a_group_of_version_1(void **state) {
    const directory *root = *state;
    memory_room room;
    put_machine(root);
    put(root, "/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a\n0::/\n");
    put(root, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "134217728\n");
    put(root, "/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "100663296\n");
    put(root, "/sys/fs/cgroup/memory/a/memory.stat",
        "inactive_file 1\ntotal_inactive_file 33554432\n");
    memory_room_of(root->path, &room);
    assert_true(room.free_bytes == 64 * MIB);
    assert_int_equal(room.version, 1);
}

/* In a container the group's own path is not there, but the root is that group. */
static void test_a_group_that_is_seen_as_the_root(void **state) {
    const directory *root = *state;
    memory_room room;
    put_machine(root);
    put(root, "/proc/self/cgroup", "0::/docker/1234\n");
    put(root, "/sys/fs/cgroup/memory.max", "33554432\n");
    put(root, "/sys/fs/cgroup/memory.current", "1048576\n");
    memory_room_of(root->path, &room);
    assert_true(room.free_bytes == 31 * MIB);
    assert_string_equal(room.group, "/");
}

/* ---- judging -------------------------------------------------------------------------------- */

static void take(void *context, const char *id, const char *next, const char *evidence,
                 const char *text) {
    char *out = context;
    size_t n = strlen(out);
    assert_non_null(next);
    (void)snprintf(out + n, 2048 - n, "%s %s [%s]\n", id, text, evidence);
}

static void test_memory_is_judged_by_what_all_ranks_stage(void **state) {
    char out[2048] = "";
    const memory_room room = {.free_bytes = 1000 * MIB,
                              .limit_bytes = 2000 * MIB,
                              .version = 2,
                              .used_bytes = 1000 * MIB,
                              .group = "/a"};
    staging_wanted wanted = {.budget_bytes = 256 * MIB, .ranks = 8, .ranks_here = 3};
    (void)state;
    assert_false(memory_judge(&room, &wanted, take, out));
    wanted.ranks_here = 4;
    assert_true(memory_judge(&room, &wanted, take, out));
    assert_non_null(strstr(out, "S05 a save may copy 1.07 GB into memory (the staging budget of 4 "
                                "ranks here), but 1.05 GB are left to this control group"));
    assert_non_null(strstr(out, "[/a: "));
    wanted.need_bytes = 800 * MIB; /* 100 MiB a rank */
    assert_true(staging_bytes(&wanted) == 400 * MIB);
    assert_false(memory_judge(&room, &wanted, take, out));
}

static void test_low_limits_are_told(void **state) {
    char out[2048] = "";
    process_limits limits = {.open_files = 1024, .locked_bytes = 65536, .file_bytes = UINT64_MAX};
    (void)state;
    limits_judge(&limits, 0, take, out);
    assert_string_equal(out, "");
    limits = (process_limits){.open_files = 255, .locked_bytes = 0, .file_bytes = 1000};
    limits_judge(&limits, 0, take, out);
    assert_non_null(strstr(out, "E01 a process may have 255 open files here"));
    assert_non_null(strstr(out, "E02 a process may lock 0 B of memory here"));
    assert_non_null(strstr(out, "S06 a file may have 1.00 kB at most"));
    out[0] = '\0';
    limits.open_files = 4096;
    limits.may_lock_anything = true;
    limits_judge(&limits, 500, take, out); /* of a size that is known the room is asked */
    assert_string_equal(out, "");
}

/* ---- quotas --------------------------------------------------------------------------------- */

static void test_the_tightest_quota_counts(void **state) {
    doctor_quota q = QUOTA_NONE;
    const struct dqblk none = {.dqb_curspace = 5};
    const struct dqblk user = {
        .dqb_bhardlimit = 1024, .dqb_curspace = MIB / 2, .dqb_isoftlimit = 10, .dqb_curinodes = 4};
    const struct dqblk of_group = {.dqb_bhardlimit = 2048, .dqb_curspace = 2 * MIB - 4096};
    const struct dqblk over = {
        .dqb_bhardlimit = UINT64_MAX, .dqb_bsoftlimit = 1, .dqb_ihardlimit = 3, .dqb_curinodes = 9};
    (void)state;
    quota_take(&q, &none, "user", 1);
    assert_false(q.limited);
    quota_take(&q, &user, "user", 1);
    assert_true(q.limited && q.free_bytes == MIB / 2 && q.free_inodes == 6);
    assert_string_equal(q.name, "user 1");
    quota_take(&q, &of_group, "group", 7);
    assert_true(q.free_bytes == 4096 && q.free_inodes == 6 && q.limit_bytes == 2 * MIB);
    assert_string_equal(q.name, "group 7");
    quota_take(&q, &over, "user", 2);
    assert_true(q.free_bytes == 4096 && q.free_inodes == 0);
}

static void test_a_directory_without_quotas(void **state) {
    const directory *root = *state;
    doctor_quota q;
    quota_of(root->path, &q);
    assert_true(q.limited || q.free_bytes == UINT64_MAX);
    quota_of("/there/is/none", &q);
    assert_false(q.limited);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_is_known_without_the_kernels_files),
        TEST(test_what_the_machine_has_left),
        TEST(test_a_group_of_version_2_counts_without_its_cached_files),
        TEST(test_the_group_around_it_may_leave_less),
        TEST(test_a_group_of_version_1),
        TEST(test_a_group_that_is_seen_as_the_root),
        TEST(test_memory_is_judged_by_what_all_ranks_stage),
        TEST(test_low_limits_are_told),
        TEST(test_the_tightest_quota_counts),
        TEST(test_a_directory_without_quotas),
    };
    return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
