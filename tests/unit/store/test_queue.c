/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of writes and syncs, by threads and by a ring, over the posix store with faults around
 * it. What the kernel or the container refuses is skipped, with its reason.
 */
#include "children.h"

#include "lib/simulated_platform.h"
#include "store/queue.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define PIECE_BYTES ((size_t)64 * 1024)
#define DEPTH       4
#define PIECES      16

typedef struct kind {
    pawl_io io;
    const char *name;
} kind;

static const kind *current;

typedef struct fixture {
    directory dir;
    platform os;
    store *posix, *s; /* `s` is faults over `posix` */
    store_file *file; /* "f", in bulk mode */
    store_queue *queue;
    uint8_t *memory;
    store_io io[PIECES];
} fixture;

static uint8_t *piece_of(const fixture *f, size_t i) {
    return f->memory + i * PIECE_BYTES;
}

static void fill_memory(fixture *f) {
    f->memory = mem_aligned(STORE_DIRECT_ALIGNMENT, PIECES * PIECE_BYTES);
    assert_non_null(f->memory);
    for (size_t i = 0; i < PIECES * PIECE_BYTES; i++) {
        f->memory[i] = (uint8_t)(i * 131 >> 7);
    }
}

static void open_queue(fixture *f, pawl_io io) {
    pawl_error err = ERROR_INIT;
    store_queue_options options = {.platform = &f->os,
                                   .io = io,
                                   .depth = DEPTH,
                                   .memory = f->memory,
                                   .memory_bytes = PIECES * PIECE_BYTES,
                                   .region_bytes = PIECE_BYTES};
    pawl_status status = store_queue_new(&options, &f->queue, &err);
    if (status == PAWL_EUNSUPPORTED) {
        print_message("skipped: %s\n", error_text(&err));
        skip();
    }
    assert_ok(status, &err);
}

static void set_stage(fixture *f) {
    pawl_error err = ERROR_INIT;
    f->os = *platform_system();
    directory_make(&f->dir);
    fill_memory(f);
    assert_ok(store_posix(f->dir.path, &f->posix, &err), &err);
    assert_ok(store_fault_wrap(f->posix, &f->os, &f->s, &err), &err);
    assert_ok(store_open(f->s, "f", STORE_CREATE_BULK, &f->file, &err), &err);
}

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    set_stage(f);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    store_queue_free(f->queue);
    store_close(f->file);
    store_destroy(f->s);
    store_destroy(f->posix);
    directory_remove(&f->dir);
    mem_free(f->memory);
    mem_free(f);
    return 0;
}

/* With a queue of the current kind. */
static int set_up_queue(void **state) {
    set_up(state);
    open_queue(*state, current->io);
    assert_string_equal(store_queue_kind(((fixture *)*state)->queue), current->name);
    return 0;
}

static void submit_write(fixture *f, size_t i) {
    f->io[i] = (store_io){.kind = STORE_IO_WRITE,
                          .file = f->file,
                          .at = i * PIECE_BYTES,
                          .memory = piece_of(f, i),
                          .n = PIECE_BYTES,
                          .context = f};
    store_queue_submit(f->queue, &f->io[i]);
}

static store_io *must_wait(fixture *f) {
    store_io *io = store_queue_wait(f->queue, UINT64_MAX);
    assert_non_null(io);
    return io;
}

static void must_sync(fixture *f) {
    store_io io = {.kind = STORE_IO_SYNC, .file = f->file};
    store_queue_submit(f->queue, &io);
    assert_ptr_equal(must_wait(f), &io);
    assert_ok(io.status, &io.story);
}

/* Writes `pieces` of them, as many at a time as may be; returns how many failed. */
static size_t write_pieces(fixture *f, size_t pieces) {
    size_t sent = 0, failed = 0;
    for (size_t back = 0; back < pieces; back++) {
        while (sent < pieces && sent - back < DEPTH) {
            submit_write(f, sent++);
        }
        failed += must_wait(f)->status != PAWL_OK;
    }
    return failed;
}

static uint64_t soon(const fixture *f) {
    return f->os.monotonic_ns(f->os.context) + UINT64_C(20000000);
}

/* ---- what both do --------------------------------------------------------------------------- */

/* Every piece comes back once, and is where it belongs. */
static void test_every_piece_is_moved(void **state) {
    fixture *f = *state;
    assert_int_equal(write_pieces(f, PIECES), 0);
    must_sync(f);
    assert_null(store_queue_wait(f->queue, 0));
    store_queue_forget(f->queue, f->file);
    assert_int_equal(store_fault_count(f->s, STORE_OP_WRITE), PIECES);
    assert_bytes(f->s, "f", f->memory, PIECES * PIECE_BYTES);
}

typedef struct seen_writes {
    _Atomic uint64_t writes, bytes, failures;
} seen_writes;

static void see(void *context, const store_trace_event *event) {
    seen_writes *all = context;
    bool write = event->op == STORE_OP_WRITE;
    atomic_fetch_add(&all->writes, write);
    atomic_fetch_add(&all->bytes, write && event->status == PAWL_OK ? event->bytes : 0);
    atomic_fetch_add(&all->failures, event->status != PAWL_OK);
}

/* Every write is seen by a trace, and one that fails for a reason that passes is made again. */
static void test_s08_wrappers_see_every_write(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *retry = NULL, *trace = NULL;
    store_file *plain = f->file;
    seen_writes all = {0};
    assert_ok(store_trace_wrap(f->s, &f->os, see, &all, &trace, &err), &err);
    assert_ok(store_retry_wrap(trace, &f->os, 3, 1000, &retry, &err), &err);
    assert_ok(store_open(retry, "g", STORE_CREATE_BULK, &f->file, &err), &err);
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_WRITE, .nth = 5, .system_errno = EAGAIN});
    assert_int_equal(write_pieces(f, PIECES), 0);
    must_sync(f);
    store_queue_forget(f->queue, f->file);
    store_close(f->file);
    f->file = plain;
    assert_int_equal(store_retry_count(retry), 1);
    assert_int_equal(atomic_load(&all.writes), PIECES + 1);
    assert_int_equal(atomic_load(&all.bytes), PIECES * PIECE_BYTES);
    assert_int_equal(atomic_load(&all.failures), 1);
    assert_bytes(f->posix, "g", f->memory, PIECES * PIECE_BYTES);
    store_destroy(retry); /* and `trace` with it */
}

/* Sizes, places and memory that are multiples of nothing are moved, too. */
static void test_odd_pieces_are_moved(void **state) {
    fixture *f = *state;
    static const struct {
        size_t at, n, from;
    } odd[] = {{0, 8192, 0}, {8192, 8192 + 5, 8192}, {16389, 3, 16389}, {16392, 5000, 16392}};
    for (size_t i = 0; i < ARRAY_LENGTH(odd); i++) {
        f->io[i] = (store_io){.kind = STORE_IO_WRITE,
                              .file = f->file,
                              .at = odd[i].at,
                              .memory = f->memory + odd[i].from,
                              .n = odd[i].n};
        store_queue_submit(f->queue, &f->io[i]);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(odd); i++) {
        const store_io *io = must_wait(f);
        assert_int_equal(io->status, PAWL_OK);
    }
    must_sync(f);
    assert_bytes(f->s, "f", f->memory, 21392);
}

/* A write that fails has the store's own story; the others are moved. */
static void test_s07_one_failure_is_that_pieces(void **state) {
    fixture *f = *state;
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_WRITE, .nth = 3, .system_errno = ENOSPC});
    assert_int_equal(write_pieces(f, PIECES), 1);
    for (size_t i = 0; i < PIECES; i++) {
        store_io *io = &f->io[i];
        assert_true(io->status == PAWL_OK || io->status == PAWL_ENOSPACE);
        if (io->status != PAWL_OK) {
            char text[512];
            (void)snprintf(text, sizeof(text),
                           "cannot write\n  path:     %s/f\n  range:    bytes %zu to %zu\n"
                           "  system:   No space left on device (ENOSPC, errno 28)",
                           f->dir.path, i * PIECE_BYTES, (i + 1) * PIECE_BYTES - 1);
            assert_string_equal(error_text(&io->story), text);
        }
    }
}

/* A write that moves a part is gone on with, and not begun again. */
static void test_short_writes_are_completed(void **state) {
    fixture *f = *state;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        store_fault_set(f->s, &(store_fault){.op = STORE_OP_WRITE, .nth = nth, .shorten = true});
        assert_int_equal(write_pieces(f, PIECES), 0);
        assert_true(store_fault_fired(f->s));
        assert_int_equal(store_fault_count(f->s, STORE_OP_WRITE), PIECES + 1);
        assert_bytes(f->posix, "f", f->memory, PIECES * PIECE_BYTES);
    }
}

/* One that hangs stops neither the submitter nor the others, and waiting for it has a deadline. */
static void test_s08_a_hang_is_waited_for_no_longer_than_allowed(void **state) {
    fixture *f = *state;
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_WRITE, .nth = 2, .hang = true});
    for (size_t i = 0; i < DEPTH; i++) {
        submit_write(f, i);
    }
    for (size_t i = 1; i < DEPTH; i++) {
        assert_int_equal(must_wait(f)->status, PAWL_OK);
    }
    assert_null(store_queue_wait(f->queue, 0));
    assert_null(store_queue_wait(f->queue, soon(f)));
    store_fault_release(f->s);
    assert_int_equal(must_wait(f)->status, PAWL_OK);
    assert_bytes(f->s, "f", f->memory, DEPTH * PIECE_BYTES);
}

/* As many as the depth allows are under way at once, also when each takes its time. */
static void test_s08_all_that_hang_come_back(void **state) {
    fixture *f = *state;
    store_fault_set(f->s,
                    &(store_fault){.op = STORE_OP_WRITE, .nth = 1, .forever = true, .hang = true});
    for (size_t i = 0; i < DEPTH; i++) {
        submit_write(f, i);
    }
    while (store_fault_count(f->s, STORE_OP_WRITE) < DEPTH) {
        f->os.sleep_ns(f->os.context, 100000);
    }
    assert_null(store_queue_wait(f->queue, soon(f)));
    store_fault_release(f->s);
    for (size_t i = 0; i < DEPTH; i++) {
        assert_int_equal(must_wait(f)->status, PAWL_OK);
    }
    assert_bytes(f->posix, "f", f->memory, DEPTH * PIECE_BYTES);
}

/* A sync that fails is told, and never tried again: the next could succeed without the bytes. */
static void test_s08_a_failed_sync_is_final(void **state) {
    fixture *f = *state;
    store_io io = {.kind = STORE_IO_SYNC, .file = f->file};
    submit_write(f, 0);
    must_wait(f);
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_SYNC, .nth = 1, .system_errno = EIO});
    store_queue_submit(f->queue, &io);
    assert_ptr_equal(must_wait(f), &io);
    assert_fails(io.status, PAWL_EIO, &io.story);
    assert_string_equal(io.story.attempt, "cannot sync the file");
    assert_int_equal(store_fault_count(f->s, STORE_OP_SYNC), 1);
}

typedef struct waker {
    fixture *f;
    uint64_t delay_ns;
} waker;

static void wake_later(void *argument) {
    const waker *w = argument;
    w->f->os.sleep_ns(w->f->os.context, w->delay_ns);
    store_queue_wake(w->f->queue);
}

/* A thread that waits is woken by another, also when the call comes first. */
static void test_another_thread_wakes_it(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    platform_thread *thread = NULL;
    waker w = {.f = f, .delay_ns = 1000000};
    assert_ok(f->os.thread_start(f->os.context, wake_later, &w, &thread, &err), &err);
    assert_null(store_queue_wait(f->queue, UINT64_MAX));
    f->os.thread_join(f->os.context, thread);
    store_queue_wake(f->queue);
    store_queue_wake(f->queue);
    assert_null(store_queue_wait(f->queue, UINT64_MAX)); /* remembered, once */
    submit_write(f, 0);
    assert_ptr_equal(must_wait(f), &f->io[0]);
}

/* A queue that is to be a good neighbour moves everything all the same. */
static void test_a_tuned_queue_moves_everything(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    const int cpu = sched_getcpu();
    const thread_tuning tuning = {
        .io_priority = PAWL_IO_PRIORITY_IDLE, .cpus = &cpu, .cpu_count = 1};
    store_queue_free(f->queue);
    assert_ok(store_queue_new(
                  &(store_queue_options){
                      .platform = &f->os, .io = current->io, .depth = DEPTH, .tuning = &tuning},
                  &f->queue, &err),
              &err);
    test_every_piece_is_moved(state);
}

static void queue_over_memory(pawl_io io, const platform *os, const char *name) {
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    store_file *file = NULL;
    store_queue *queue = NULL;
    assert_ok(store_mem(&s, &err), &err);
    assert_ok(store_open(s, "f", STORE_CREATE_BULK, &file, &err), &err);
    assert_ok(
        store_queue_new(&(store_queue_options){.platform = os, .io = io, .depth = 1}, &queue, &err),
        &err);
    if (name != NULL) {
        assert_string_equal(store_queue_kind(queue), name);
    }
    char bytes[] = "bytes";
    store_io one = {.kind = STORE_IO_WRITE, .file = file, .at = 3, .memory = bytes, .n = 5};
    store_queue_submit(queue, &one);
    assert_ptr_equal(store_queue_wait(queue, UINT64_MAX), &one);
    assert_ok(one.status, &one.story);
    store_queue_forget(queue, file);
    store_queue_free(queue);
    store_close(file);
    assert_bytes(s, "f", "\0\0\0bytes", 8);
    store_destroy(s);
}

/* A store that knows no rings and no direct writes is written all the same. */
static void test_any_store_will_do(void **state) {
    (void)state;
    queue_over_memory(PAWL_IO_AUTO, platform_system(), NULL);
    queue_over_memory(PAWL_IO_THREADS, platform_system(), "threads");
}

/* On a platform without threads a piece is moved before submit returns. */
static void test_without_threads_it_is_done_in_line(void **state) {
    simulated_platform os;
    (void)state;
    simulated_platform_init(&os, 1);
    queue_over_memory(PAWL_IO_AUTO, &os.table, "in line");
    assert_int_equal(os.threads_started, 0);
}

/* ---- threads -------------------------------------------------------------------------------- */

static pawl_status refuse_thread(void *context, void (*body)(void *), void *argument,
                                 platform_thread **thread, pawl_error *err) {
    (void)context;
    (void)body;
    (void)argument;
    (void)thread;
    return error_sys(err, EAGAIN, "cannot start a thread");
}

/* A system that has no thread to spare is slower, but loses nothing. */
static void test_no_thread_to_be_had_is_no_failure(void **state) {
    fixture *f = *state;
    f->os.thread_start = refuse_thread;
    open_queue(f, PAWL_IO_THREADS);
    test_every_piece_is_moved(state);
}

typedef struct counts {
    _Atomic int started, tuned;
} counts;

static pawl_status count_start(void *context, void (*body)(void *), void *argument,
                               platform_thread **thread, pawl_error *err) {
    atomic_fetch_add(&((counts *)context)->started, 1);
    return platform_system()->thread_start(NULL, body, argument, thread, err);
}

static bool count_tune(void *context, const thread_tuning *tuning, char why[160]) {
    atomic_fetch_add(&((counts *)context)->tuned, tuning->io_priority == PAWL_IO_PRIORITY_LOW);
    why[0] = '\0';
    return true;
}

/* Threads are started as pieces ask for them, kept, and each is tuned. */
static void test_threads_are_few_and_tuned(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    counts seen = {0};
    const thread_tuning tuning = {.io_priority = PAWL_IO_PRIORITY_LOW};
    f->os.context = &seen;
    f->os.thread_start = count_start;
    f->os.thread_tune = count_tune;
    assert_ok(store_queue_new(&(store_queue_options){.platform = &f->os,
                                                     .io = PAWL_IO_THREADS,
                                                     .depth = PIECES,
                                                     .tuning = &tuning},
                              &f->queue, &err),
              &err);
    assert_int_equal(atomic_load(&seen.started), 0);
    submit_write(f, 0);
    must_wait(f);
    assert_int_equal(atomic_load(&seen.started), 1);
    store_fault_set(f->s,
                    &(store_fault){.op = STORE_OP_WRITE, .nth = 1, .forever = true, .hang = true});
    for (size_t i = 0; i < PIECES; i++) {
        submit_write(f, i);
    }
    while (store_fault_count(f->s, STORE_OP_WRITE) < 8) {
        f->os.sleep_ns(f->os.context, 100000);
    }
    store_fault_set(f->s, &(store_fault){0});
    store_fault_release(f->s);
    for (size_t i = 0; i < PIECES; i++) {
        must_wait(f);
    }
    assert_int_equal(atomic_load(&seen.started), 8);
    assert_int_equal(atomic_load(&seen.tuned), 8);
}

/* ---- rings ---------------------------------------------------------------------------------- */

/* "VmPin:\t   40960 kB"; 0 where the kernel does not tell. */
static long locked_kib(void) {
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "re");
    assert_non_null(status);
    while (fgets(line, sizeof(line), status) != NULL) {
        (void)sscanf(line, "VmPin: %ld", &kib);
    }
    (void)fclose(status);
    return kib;
}

static void open_ring_that_locks(fixture *f) {
    open_queue(f, PAWL_IO_URING);
    if (locked_kib() == 0) {
        print_message("skipped: the limit on locked memory lets no ring register any\n");
        skip();
    }
}

static void look_for_locked_memory(void *context) {
    const fixture *f = context;
    unsigned char page;
    child_must(mincore(f->memory, 1, &page) != 0 && errno == ENOMEM);
}

/* Locked pages would be copied for each child while fork runs, and the trainer waits. */
static void test_children_do_not_get_what_a_ring_locks(void **state) {
    fixture *f = *state;
    open_ring_that_locks(f);
    run_child(look_for_locked_memory, f);
    submit_write(f, 0);
    assert_int_equal(must_wait(f)->status, PAWL_OK);
    assert_bytes(f->posix, "f", f->memory, PIECE_BYTES);
}

static void look_for_memory(void *context) {
    const fixture *f = context;
    child_must(f->memory[PIECE_BYTES] == (uint8_t)(PIECE_BYTES * 131 >> 7));
}

/* A ring that is gone locks nothing any more, though a child lives that was forked meanwhile. */
static void test_a_ring_lets_its_memory_go(void **state) {
    fixture *f = *state;
    int until_told[2];
    char told;
    open_ring_that_locks(f);
    assert_int_equal(pipe(until_told), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(until_told[1]);
        _exit(read(until_told[0], &told, 1) != 0);
    }
    store_queue_free(f->queue);
    f->queue = NULL;
    long left = locked_kib();
    run_child(look_for_memory, f);
    close(until_told[0]);
    close(until_told[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(left, 0);
}

/* ---- the tests ------------------------------------------------------------------------------ */

static bool is_to_be_had(pawl_io io) {
    pawl_error err = ERROR_INIT;
    store_queue *queue = NULL;
    pawl_status status = store_queue_new(
        &(store_queue_options){.platform = platform_system(), .io = io, .depth = 1}, &queue, &err);
    store_queue_free(queue);
    return status == PAWL_OK;
}

/* Stands for all tests of a ring where the system has none: skipped, with the reason. */
static void test_a_ring_is_to_be_had(void **state) {
    open_queue(*state, PAWL_IO_URING);
}

#define TEST(name)  cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define QUEUE(name) cmocka_unit_test_setup_teardown(name, set_up_queue, tear_down)

int main(void) {
    static const kind kinds[] = {{PAWL_IO_THREADS, "threads"}, {PAWL_IO_URING, "io_uring"}};
    const struct CMUnitTest of_each[] = {
        QUEUE(test_every_piece_is_moved),
        QUEUE(test_s08_wrappers_see_every_write),
        QUEUE(test_a_tuned_queue_moves_everything),
        QUEUE(test_odd_pieces_are_moved),
        QUEUE(test_s07_one_failure_is_that_pieces),
        QUEUE(test_short_writes_are_completed),
        QUEUE(test_s08_a_hang_is_waited_for_no_longer_than_allowed),
        QUEUE(test_s08_all_that_hang_come_back),
        QUEUE(test_s08_a_failed_sync_is_final),
        QUEUE(test_another_thread_wakes_it),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_any_store_will_do),
        cmocka_unit_test(test_without_threads_it_is_done_in_line),
        TEST(test_no_thread_to_be_had_is_no_failure),
        TEST(test_threads_are_few_and_tuned),
    };
    const struct CMUnitTest no_ring[] = {TEST(test_a_ring_is_to_be_had)};
    const struct CMUnitTest of_rings[] = {
        TEST(test_children_do_not_get_what_a_ring_locks),
        TEST(test_a_ring_lets_its_memory_go),
    };
    int failed = cmocka_run_group_tests(others, NULL, NULL);
    for (size_t i = 0; i < (PAWL_URING ? 2 : 1); i++) {
        current = &kinds[i];
        failed += is_to_be_had(current->io)
                      ? cmocka_run_group_tests_name(current->name, of_each, NULL, NULL)
                      : cmocka_run_group_tests_name(current->name, no_ring, NULL, NULL);
        failed += current->io == PAWL_IO_URING && is_to_be_had(current->io)
                      ? cmocka_run_group_tests_name("rings alone", of_rings, NULL, NULL)
                      : 0;
    }
    return failed;
}
