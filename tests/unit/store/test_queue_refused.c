/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue where the system refuses something: io_uring or one of its calls (by the rules that
 * containers have), locked memory, room on the disk. In children, skipped where this build or this
 * system cannot try it.
 */
#include "children.h"

#include "store/queue.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define PIECE_BYTES  ((size_t)1 << 20)
#define PIECES       24
#define DEPTH        4
#define MEMORY_BYTES (DEPTH * PIECE_BYTES)

typedef struct fixture {
    directory dir;
    uint8_t *memory; /* MEMORY_BYTES */
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    directory_make_in(&f->dir, ".");
    f->memory = mem_aligned(STORE_DIRECT_ALIGNMENT, MEMORY_BYTES);
    assert_non_null(f->memory);
    memset(f->memory, 'b', MEMORY_BYTES);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    directory_remove(&f->dir);
    mem_free(f->memory);
    mem_free(f);
    return 0;
}

static pawl_status new_queue(const fixture *f, pawl_io io, store_queue **out, pawl_error *err) {
    return store_queue_new(&(store_queue_options){.platform = platform_system(),
                                                  .io = io,
                                                  .depth = DEPTH,
                                                  .memory = f->memory,
                                                  .memory_bytes = MEMORY_BYTES,
                                                  .region_bytes = PIECE_BYTES},
                           out, err);
}

/* Writes PIECES to "f", DEPTH at a time, and syncs; `failed` gets those that failed. */
static size_t write_pieces(const fixture *f, store_queue *q, store_io failed[PIECES]) {
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    store_file *file = NULL;
    store_io io[DEPTH];
    size_t failures = 0;
    child_must(store_posix(f->dir.path, &s, &err) == PAWL_OK);
    child_must(store_open(s, "f", STORE_CREATE_BULK, &file, &err) == PAWL_OK);
    for (size_t round = 0; round < PIECES; round += DEPTH) {
        for (size_t i = 0; i < DEPTH; i++) {
            io[i] = (store_io){.kind = STORE_IO_WRITE,
                               .file = file,
                               .at = (round + i) * PIECE_BYTES,
                               .memory = f->memory + i * PIECE_BYTES,
                               .n = PIECE_BYTES};
            store_queue_submit(q, &io[i]);
        }
        for (size_t i = 0; i < DEPTH; i++) {
            const store_io *one = store_queue_wait(q, UINT64_MAX);
            child_must(one != NULL);
            if (one->status != PAWL_OK) {
                failed[failures++] = *one;
            }
        }
    }
    store_queue_forget(q, file);
    store_close(file);
    store_destroy(s);
    return failures;
}

static void must_write(const fixture *f, pawl_io io, const char *kind) {
    pawl_error err = ERROR_INIT;
    store_queue *q = NULL;
    store_io failed[PIECES];
    child_must(new_queue(f, io, &q, &err) == PAWL_OK);
    child_must_equal(store_queue_kind(q), kind);
    child_must(write_pieces(f, q, failed) == 0);
    store_queue_free(q);
}

/* A queue by a ring, or the test is skipped. */
static store_queue *need_ring(const fixture *f) {
    pawl_error err = ERROR_INIT;
    store_queue *q = NULL;
    pawl_status status = new_queue(f, PAWL_IO_URING, &q, &err);
    if (status == PAWL_EUNSUPPORTED) {
        child_skip(error_text(&err));
    }
    if (status != PAWL_OK) {
        (void)fprintf(stderr, "%s\n", error_text(&err));
        _exit(1);
    }
    return q;
}

/* ---- io_uring is refused -------------------------------------------------------------------- */

/* From now on this call of the system fails with this errno, as under a container's rules. */
static void forbid(long call, int system_errno) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)system_errno),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = ARRAY_LENGTH(rules), .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        if (errno != EINVAL) { /* what a kernel without them says */
            _exit(1);
        }
        child_skip("this system has no seccomp filters");
    }
}

static void must_fall_back(const fixture *f, long call, int system_errno, const char *text) {
    pawl_error err = ERROR_INIT;
    store_queue *q = NULL;
    store_queue_free(need_ring(f));
    forbid(call, system_errno);
    child_must(new_queue(f, PAWL_IO_URING, &q, &err) == PAWL_EUNSUPPORTED);
    child_must(q == NULL);
    child_must_equal(error_text(&err), text);
    must_write(f, PAWL_IO_AUTO, "threads");
}

#define FORBIDDEN                                                                                  \
    "cannot use io_uring\n"                                                                        \
    "  found:    a rule of this container or service that forbids io_uring\n"                      \
    "  system:   Operation not permitted (EPERM, errno 1)\n"                                       \
    "  next:     use threads (PAWL_IO_AUTO does), or allow io_uring_setup, io_uring_enter and "    \
    "io_uring_register in its seccomp profile"

static void forbid_setup(void *context) {
    must_fall_back(context, SYS_io_uring_setup, EPERM, FORBIDDEN);
}

/* A container that forbids io_uring: threads, and on demand the reason. */
static void test_a_container_without_rings_gets_threads(void **state) {
    run_child(forbid_setup, *state);
}

static void forbid_enter(void *context) {
    must_fall_back(context, SYS_io_uring_enter, EPERM, FORBIDDEN);
}

/* A ring that can be made, and then does nothing, is found out by trying it. */
static void test_a_ring_that_does_nothing_is_found_out(void **state) {
    run_child(forbid_enter, *state);
}

static void forbid_register(void *context) {
    must_fall_back(context, SYS_io_uring_register, EPERM, FORBIDDEN);
}

/* A ring that cannot tell of its completions is not used. */
static void test_a_ring_that_tells_nothing_is_not_used(void **state) {
    run_child(forbid_register, *state);
}

static void hide_setup(void *context) {
    must_fall_back(context, SYS_io_uring_setup, ENOSYS,
                   "cannot use io_uring\n"
                   "  expected: a kernel whose io_uring writes files (Linux 5.6 or later)\n"
                   "  system:   Function not implemented (ENOSYS, errno 38)\n"
                   "  next:     use threads (PAWL_IO_AUTO does)");
}

/* A kernel that is too old. */
static void test_an_old_kernel_gets_threads(void **state) {
    run_child(hide_setup, *state);
}

/* A library that was built without rings says so when one is wanted, and else uses threads. */
static void test_a_build_without_rings_says_so(void **state) {
    pawl_error err = ERROR_INIT;
    store_queue *q = NULL;
    assert_fails(new_queue(*state, PAWL_IO_URING, &q, &err), PAWL_EUNSUPPORTED, &err);
    assert_string_equal(error_text(&err), "cannot use io_uring\n"
                                          "  found:    a pawl that was built without liburing\n"
                                          "  next:     use threads (PAWL_IO_AUTO does), or build "
                                          "pawl where liburing is installed");
    assert_ok(new_queue(*state, PAWL_IO_AUTO, &q, &err), &err);
    assert_string_equal(store_queue_kind(q), "threads");
    store_queue_free(q);
}

/* ---- locked memory is refused --------------------------------------------------------------- */

/* What the kernel says of this process's ring: how many regions of memory are registered. A line
 * with their number comes first, then one for each: its number, its address, "<none>" without. */
static unsigned registered_regions(void) {
    unsigned rings = 0, regions = 0;
    for (int fd = 0; fd < 64; fd++) {
        char path[64], line[256];
        unsigned number, lines = 0;
        (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        FILE *info = fopen(path, "re");
        while (info != NULL && fgets(line, sizeof(line), info) != NULL) {
            if (sscanf(line, "UserBufs: %u", &number) == 1) {
                rings++;
                lines = number;
            } else if (lines > 0 && sscanf(line, "%u:", &number) == 1) {
                lines--;
                regions += strstr(line, "<none>") == NULL;
            }
        }
        if (info != NULL) {
            (void)fclose(info);
        }
    }
    child_must(rings == 1);
    return regions;
}

static void write_with_locked_memory(void *context) {
    const fixture *f = context;
    store_io failed[PIECES];
    store_queue *q = need_ring(f);
    child_must(registered_regions() == 0);
    child_must(write_pieces(f, q, failed) == 0);
    child_must(registered_regions() == DEPTH);
    store_queue_free(q);
}

/* Memory is registered when it is first written from: no write waits for the memory of others. */
static void test_memory_is_locked_when_it_is_used(void **state) {
    run_child(write_with_locked_memory, *state);
}

/* As a user who may lock so many bytes; 131072 are enough for the ring itself. */
static unsigned regions_of_who_may_lock(const fixture *f, size_t bytes) {
    pawl_error err = ERROR_INIT;
    const struct rlimit limit = {bytes, bytes};
    store_io failed[PIECES];
    store_queue *q = need_ring(f);
    store_queue_free(q);
    if (geteuid() != 0) {
        child_skip("becoming a user whose locked memory is limited needs root");
    }
    child_must(chown(f->dir.path, NOBODY, NOBODY) == 0);
    child_must(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    child_become_nobody(NULL, 0);
    child_must(prctl(PR_SET_DUMPABLE, 1) == 0); /* or its own /proc would be root's */
    child_must(new_queue(f, PAWL_IO_URING, &q, &err) == PAWL_OK);
    child_must(write_pieces(f, q, failed) == 0);
    unsigned regions = registered_regions();
    store_queue_free(q);
    return regions;
}

static void lock_little(void *context) {
    child_must(regions_of_who_may_lock(context, 131072) == 0);
}

static void lock_some(void *context) {
    unsigned regions = regions_of_who_may_lock(context, 131072 + 2 * PIECE_BYTES);
    child_must(regions > 0 && regions < DEPTH);
}

/* Memory that may not be locked is written without being registered. */
static void test_memory_that_may_not_be_locked_is_written(void **state) {
    run_child(lock_little, *state);
}

static void test_memory_that_may_be_locked_in_part_is_written(void **state) {
    run_child(lock_some, *state);
}

static void lock_nothing(void *context) {
    const fixture *f = context;
    pawl_error err = ERROR_INIT;
    store_queue *q = need_ring(f);
    const struct rlimit none = {0, 0};
    store_queue_free(q);
    if (geteuid() != 0) {
        child_skip("becoming a user whose locked memory is limited needs root");
    }
    child_must(chown(f->dir.path, NOBODY, NOBODY) == 0);
    child_must(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    child_become_nobody(NULL, 0);
    /* Kernels differ in whether the ring itself counts as locked memory. */
    pawl_status status = new_queue(f, PAWL_IO_URING, &q, &err);
    if (status == PAWL_OK) {
        store_queue_free(q);
    } else {
        child_must(status == PAWL_EUNSUPPORTED);
        child_must_equal(err.system, "Cannot allocate memory (ENOMEM, errno 12)");
        child_must_equal(err.next, "use threads (PAWL_IO_AUTO does), or raise the limit on locked "
                                   "memory (ulimit -l)");
    }
    must_write(f, PAWL_IO_AUTO, status == PAWL_OK ? "io_uring" : "threads");
}

/* Where not even the ring may be locked, threads do it. */
static void test_no_locked_memory_at_all_is_no_failure(void **state) {
    run_child(lock_nothing, *state);
}

/* ---- the disk is full ----------------------------------------------------------------------- */

/* A small ext4 over the directory, in a file that has no name any more. */
static void mount_small_disk(const fixture *f) {
    char command[512];
    (void)snprintf(command, sizeof(command),
                   "truncate -s 20M %s.img && mkfs.ext4 -q -F %s.img && mount -o loop %s.img %s; "
                   "code=$?; rm -f %s.img; exit $code",
                   f->dir.path, f->dir.path, f->dir.path, f->dir.path, f->dir.path);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        child_skip("mounting needs root");
    }
    if (system(command) != 0) {
        child_skip("no ext4 can be made and mounted from a file here");
    }
}

static void fill_disk(const fixture *f, pawl_io io) {
    pawl_error err = ERROR_INIT;
    store_queue *q = NULL;
    store_io failed[PIECES];
    mount_small_disk(f);
    if (io == PAWL_IO_URING) {
        store_queue_free(need_ring(f));
    }
    child_must(new_queue(f, io, &q, &err) == PAWL_OK);
    size_t failures = write_pieces(f, q, failed);
    child_must(failures > 0 && failures < PIECES);
    for (size_t i = 0; i < failures; i++) {
        pawl_error *story = &failed[i].story;
        child_must(failed[i].status == PAWL_ENOSPACE);
        child_must_equal(story->attempt, "cannot write");
        child_must_equal(story->next, "free space there, or choose another directory");
        child_must(strstr(story->found, "(ext4)") != NULL);
        child_must(story->offset >= failed[i].at &&
                   story->offset + story->length == failed[i].at + PIECE_BYTES);
    }
    store_queue_free(q);
}

static void fill_by_ring(void *context) {
    fill_disk(context, PAWL_IO_URING);
}

static void fill_by_threads(void *context) {
    fill_disk(context, PAWL_IO_THREADS);
}

/* A disk that fills up tells the store's story... */
static void test_s07_a_full_disk_is_told_by_threads(void **state) {
    run_child(fill_by_threads, *state);
}

/* ...under a ring as well. */
static void test_s07_a_full_disk_is_told_by_a_ring(void **state) {
    run_child(fill_by_ring, *state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest with_rings[] = {
        TEST(test_a_container_without_rings_gets_threads),
        TEST(test_a_ring_that_does_nothing_is_found_out),
        TEST(test_a_ring_that_tells_nothing_is_not_used),
        TEST(test_an_old_kernel_gets_threads),
        TEST(test_memory_is_locked_when_it_is_used),
        TEST(test_memory_that_may_not_be_locked_is_written),
        TEST(test_memory_that_may_be_locked_in_part_is_written),
        TEST(test_no_locked_memory_at_all_is_no_failure),
        TEST(test_s07_a_full_disk_is_told_by_a_ring),
        TEST(test_s07_a_full_disk_is_told_by_threads),
    };
    const struct CMUnitTest without[] = {
        TEST(test_a_build_without_rings_says_so),
        TEST(test_s07_a_full_disk_is_told_by_threads),
    };
    return PAWL_URING ? cmocka_run_group_tests(with_rings, NULL, NULL)
                      : cmocka_run_group_tests(without, NULL, NULL);
}
