/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of a node that want the same bytes: how many of them come from the device. */
#include "checkpoint/private.h"
#include "lib/directory.h"
#include "lib/random.h"
#include "lib/test.h"
#include "run/private.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 4
#define BYTES ((size_t)64 << 20)

typedef struct node {
    char path[64];
    store *disk;
    uint8_t *bytes;
} node;

static pawl_state *state_over(uint8_t *memory) {
    struct pawl_error err = ERROR_INIT;
    pawl_state *state;
    const int64_t shape[] = {(int64_t)BYTES};
    const pawl_tensor t = {.struct_size = sizeof(t),
                           .name = "replicated",
                           .dtype = PAWL_U8,
                           .ndim = 1,
                           .shape = shape,
                           .data = memory,
                           .replicated = 1};
    assert_ok(state_new(&state, &err), &err);
    assert_ok(state_add_tensor(state, &t, &err), &err);
    return state;
}

static void save(node *n) {
    struct pawl_error err = ERROR_INIT;
    const pawl_run_options options = {.struct_size = sizeof(options), .no_event_file = 1};
    const pawl_save_options none = {.struct_size = sizeof(none)};
    pawl_run *run;
    store *given;
    pawl_state *state = state_over(n->bytes);
    assert_ok(store_posix(n->path, &given, &err), &err);
    assert_ok(run_open(given, &options, platform_system(), &run, &err), &err);
    assert_ok(run_save(run, state, 1, &none, &err), &err);
    assert_ok(run_wait(run, 0, NULL, &err), &err);
    assert_ok(run_close(run, 0, &err), &err);
    state_free(state);
}

static int set_up(void **state) {
    static node n;
    struct pawl_error err = ERROR_INIT;
    test_random r = {.state = 1};
    n = (node){.bytes = mem_alloc(BYTES)};
    assert_non_null(n.bytes);
    directory_new(n.path, "/tmp");
    for (size_t at = 0; at < BYTES; at += sizeof(uint64_t)) {
        uint64_t word = random_next(&r);
        memcpy(n.bytes + at, &word, sizeof(word));
    }
    assert_ok(store_posix(n.path, &n.disk, &err), &err);
    save(&n);
    *state = &n;
    return 0;
}

static int tear_down(void **state) {
    node *n = *state;
    store_destroy(n->disk);
    mem_free(n->bytes);
    directory_delete(n->path);
    return 0;
}

/* ---- what comes from the device ------------------------------------------------------------- */

/* Bytes that this process had the device read; -1: nobody counts them. */
static long long device_bytes(void) {
    char line[128];
    long long bytes = -1;
    FILE *io = fopen("/proc/self/io", "r");
    while (io != NULL && fgets(line, sizeof(line), io) != NULL) {
        (void)sscanf(line, "read_bytes: %lld", &bytes);
    }
    if (io != NULL) {
        (void)fclose(io);
    }
    return bytes;
}

static int drop_pages(const char *path, const struct stat *found, int type, struct FTW *walk) {
    (void)found;
    (void)walk;
    int file = type == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        (void)fsync(file);
        (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        (void)close(file);
    }
    return 0;
}

static void forget_pages(const node *n) {
    assert_int_equal(nftw(n->path, drop_pages, 16, FTW_PHYS), 0);
}

/* Does the kernel count what this filesystem reads from its device? */
static bool is_counted(const node *n) {
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    const pawl_log silent = {0};
    AUTOFREE uint8_t *memory = mem_alloc(BYTES);
    forget_pages(n);
    long long before = device_bytes();
    assert_ok(checkpoint_open(n->disk, false, 1, platform_system(), &silent, &c, &err), &err);
    assert_ok(checkpoint_read(c, "replicated", NULL, NULL, memory, BYTES, &err), &err);
    pawl_checkpoint_close(c);
    return before >= 0 && device_bytes() - before >= (long long)BYTES / 2;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

typedef struct outcome {
    bool right;
    long long device_bytes;
} outcome;

static outcome restore(const node *n, int rank, int share, uint8_t *memory) {
    struct pawl_error err = ERROR_INIT;
    const pawl_log silent = {0};
    const pawl_restore_options options = {.struct_size = sizeof(options), .share_on_node = share};
    pawl_checkpoint *c = NULL;
    pawl_state *state = state_over(memory);
    long long before = device_bytes();
    bool right =
        checkpoint_open(n->disk, false, 1, platform_system(), &silent, &c, &err) == PAWL_OK &&
        checkpoint_restore(c, state, &options, rank, RANKS, NULL, &err) == PAWL_OK &&
        memcmp(memory, n->bytes, BYTES) == 0;
    return (outcome){.right = right, .device_bytes = device_bytes() - before};
}

/* All begin at once: each has its memory, and waits until there is no writer of `go`. */
static void rank_process(const node *n, int rank, int share, const int go[2], int results) {
    char nothing;
    uint8_t *memory = mem_calloc(1, BYTES);
    (void)close(go[1]);
    if (memory == NULL || read(go[0], &nothing, 1) != 0) {
        _exit(1);
    }
    outcome o = restore(n, rank, share, memory);
    _exit(write(results, &o, sizeof(o)) == (ssize_t)sizeof(o) ? 0 : 1);
}

/* Bytes from the device that all ranks' restores took together. */
static long long restore_on_all(const node *n, int share) {
    int go[2];
    int results[2];
    pid_t ranks[RANKS];
    long long sum = 0;
    forget_pages(n);
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(results), 0);
    for (int rank = 0; rank < RANKS; rank++) {
        ranks[rank] = fork();
        assert_true(ranks[rank] >= 0);
        if (ranks[rank] == 0) {
            rank_process(n, rank, share, go, results[1]);
        }
    }
    (void)close(go[0]);
    (void)close(go[1]);
    (void)close(results[1]);
    for (int rank = 0; rank < RANKS; rank++) {
        outcome o;
        int status;
        assert_int_equal(read(results[0], &o, sizeof(o)), sizeof(o));
        assert_true(o.right);
        sum += o.device_bytes;
        assert_int_equal(waitpid(ranks[rank], &status, 0), ranks[rank]);
    }
    (void)close(results[0]);
    return sum;
}

static void test_what_all_ranks_of_a_node_want_is_read_once(void **state) {
    const node *n = *state;
    if (!is_counted(n)) {
        print_message("SKIP: the kernel does not count what is read from the device below /tmp\n");
        skip();
    }
    long long shared = restore_on_all(n, 1);
    long long alone = restore_on_all(n, 0);
    print_message("%d ranks restored %zu bytes each; from the device came %lld, without "
                  "share_on_node %lld\n",
                  RANKS, BYTES, shared, alone);
    assert_true(shared <= (long long)BYTES * 13 / 10);
    assert_true(alone >= shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_all_ranks_of_a_node_want_is_read_once, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
