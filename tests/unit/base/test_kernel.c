/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of the memory that a process may have, in files as it writes them. */
#include "base/kernel.h"
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
    put(root, "/proc/meminfo", "MemTotal:        1048576 kB\nMemFree:           1024 kB\n");
}

static void test_without_groups_it_is_the_machines(void **state) {
    const directory *root = *state;
    assert_true(kernel_memory_limit(root->path) == UINT64_MAX);
    put_machine(root);
    assert_true(kernel_memory_limit(root->path) == 1024 * MIB);
}

static void test_the_least_limit_of_the_groups_around_it(void **state) {
    const directory *root = *state;
    put_machine(root);
    put(root, "/proc/self/cgroup", "0::/jobs/one:two\n");
    put(root, "/sys/fs/cgroup/jobs/one:two/memory.max", "max\n");
    assert_true(kernel_memory_limit(root->path) == 1024 * MIB);
    put(root, "/sys/fs/cgroup/jobs/memory.max", "536870912\n");
    assert_true(kernel_memory_limit(root->path) == 512 * MIB);
    put(root, "/sys/fs/cgroup/memory.max", "268435456\n");
    assert_true(kernel_memory_limit(root->path) == 256 * MIB);
    put(root, "/sys/fs/cgroup/jobs/one:two/memory.max", "134217728\n");
    assert_true(kernel_memory_limit(root->path) == 128 * MIB);
}

/* The first version; and the group's own directory is not seen from inside a container. */
static void test_groups_of_memory_alone(void **state) {
    const directory *root = *state;
    put_machine(root);
    put(root, "/proc/self/cgroup", "7:cpu,cpuacct:/x\n4:memory:/far/away\n0::/\n");
    put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(kernel_memory_limit(root->path) == 1024 * MIB);
    put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n");
    assert_true(kernel_memory_limit(root->path) == 64 * MIB);
}

static void test_what_is_no_number_limits_nothing(void **state) {
    const directory *root = *state;
    put(root, "/proc/meminfo", "MemTotal: much\n");
    put(root, "/proc/self/cgroup", "\n:\n0:\n0::\nnonsense");
    put(root, "/sys/fs/cgroup/memory.max", "-\n");
    assert_true(kernel_memory_limit(root->path) == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        T(test_without_groups_it_is_the_machines),
        T(test_the_least_limit_of_the_groups_around_it),
        T(test_groups_of_memory_alone),
        T(test_what_is_no_number_limits_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
