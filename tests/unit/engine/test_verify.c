/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying a file of many windows by many threads: what is told, in which order. */
#include "unit/engine/files.h"

#include "lib/failing_memory.h"
#include "lib/simulated_platform.h"

#include <errno.h>

#define MOST_BLOCKS   3000 /* more windows than verdicts are kept at a time */
#define MOST_PROBLEMS 600

typedef struct problem {
    uint64_t offset, length;
    pawl_status status;
} problem;

typedef struct fixture {
    files disk;
    problem problems[MOST_PROBLEMS];
    size_t count, limit;
    uint64_t progress;
    pthread_t caller;
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    files_set_up(&f->disk);
    f->caller = pthread_self();
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    files_tear_down(&f->disk);
    mem_free(f);
    return 0;
}

static pawl_status note_problem(void *context, uint64_t offset, uint64_t length,
                                pawl_error *story) {
    fixture *f = context;
    assert_true(pthread_equal(pthread_self(), f->caller));
    assert_true(f->count < MOST_PROBLEMS);
    assert_true(story->has_range);
    assert_int_equal(story->offset, offset);
    assert_int_equal(story->length, length);
    f->problems[f->count++] = (problem){offset, length, story->status};
    return f->count == f->limit ? PAWL_ELIMIT : PAWL_OK;
}

static pawl_status note_progress(void *context, uint64_t bytes, pawl_error *err) {
    (void)err;
    fixture *f = context;
    assert_true(pthread_equal(pthread_self(), f->caller));
    f->progress += bytes;
    for (size_t i = 0; i < f->count; i++) { /* what is behind was told before */
        assert_true(f->problems[i].offset < f->progress);
    }
    return PAWL_OK;
}

static pawl_status verify_on(fixture *f, const platform *os, pawl_error *err) {
    engine_source source = files_source(&f->disk);
    engine_reader *reader;
    source.platform = os;
    f->count = 0;
    f->progress = 0;
    TRY(engine_reader_new(&source, &reader, err));
    pawl_status status = engine_reader_verify(reader, 0, note_problem, note_progress, f, err);
    engine_reader_free(reader);
    return status;
}

static pawl_status verify(fixture *f, pawl_error *err) {
    return verify_on(f, &f->disk.os, err);
}

static void one_file(fixture *f, uint64_t size) {
    test_random random = {.state = 9};
    for (uint32_t i = 0; i < FILES; i++) {
        files_make(&f->disk, i, i == 0 ? size : 1, &random);
    }
}

/* ---- damage ---- */

/* The problems are the runs of marked blocks, cut where a window ends, in order. */
static void assert_runs(const fixture *f, const bool *damaged, uint64_t size) {
    size_t at = 0;
    for (uint64_t b = 0; b * BLOCK < size; b++) {
        if (!damaged[b] || (b > 0 && damaged[b - 1] && b * BLOCK % WINDOW != 0)) {
            continue;
        }
        uint64_t end = b + 1;
        while (end * BLOCK < size && damaged[end] && end * BLOCK % WINDOW != 0) {
            end++;
        }
        uint64_t end_byte = end * BLOCK < size ? end * BLOCK : size;
        assert_true(at < f->count);
        assert_int_equal(f->problems[at].offset, b * BLOCK);
        assert_int_equal(f->problems[at].length, end_byte - b * BLOCK);
        assert_int_equal(f->problems[at].status, PAWL_EDAMAGED);
        at++;
    }
    assert_int_equal(f->count, at);
}

static void test_any_damage_is_told_in_the_order_of_the_file(void **state) {
    fixture *f = *state;
    static bool damaged[MOST_BLOCKS + WINDOW / BLOCK + 2];
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct pawl_error err = ERROR_INIT;
        test_random random = {.state = seed};
        uint64_t size = 1 + random_below(&random, MOST_BLOCKS * BLOCK);
        memset(damaged, 0, sizeof(damaged));
        one_file(f, seed % 4 == 0 ? size / WINDOW * WINDOW + WINDOW : size);
        size = f->disk.sizes[0];
        for (uint64_t n = random_below(&random, 200); n > 0; n--) {
            uint64_t first = random_below(&random, (size + BLOCK - 1) / BLOCK);
            uint64_t count = 1 + random_below(&random, n % 20 == 0 ? 300 : 3);
            for (uint64_t b = first; b < first + count && b * BLOCK < size; b++) {
                f->disk.sums[0][b] ^= damaged[b] ? 0 : 1;
                damaged[b] = true;
            }
        }
        f->disk.cached->of = seed % 3 * 5;
        assert_ok(verify(f, &err), &err);
        assert_runs(f, damaged, size);
        assert_int_equal(f->progress, size);
    }
    assert_true(f->disk.started > 0);
}

static void test_enough_problems_end_it_amid_many_windows(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    one_file(f, 20 * WINDOW);
    for (uint64_t w = 0; w < 20; w++) {
        f->disk.sums[0][w * WINDOW / BLOCK + w] ^= 1;
    }
    f->limit = 3;
    assert_fails(verify(f, &err), PAWL_ELIMIT, &err);
    assert_int_equal(f->count, 3);
    assert_int_equal(f->problems[2].offset, 2 * WINDOW + 2 * BLOCK);
    assert_int_equal(f->progress, 2 * WINDOW);
}

static void test_checksums_that_fail_are_the_problem_of_each_window(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    one_file(f, 2 * WINDOW + 5);
    f->disk.sums_fail = true;
    assert_ok(verify(f, &err), &err);
    assert_int_equal(f->count, 3);
    assert_int_equal(f->problems[2].offset, 2 * WINDOW);
    assert_int_equal(f->problems[2].length, 5);
    assert_int_equal(f->disk.reads, 0);
}

/* ---- storage ---- */

static void test_a_read_that_fails_is_a_problem_and_the_rest_is_looked_at(void **state) {
    fixture *f = *state;
    one_file(f, 3 * WINDOW + 5);
    bool fired = true;
    for (uint64_t nth = 1; fired; nth++) {
        struct pawl_error err = ERROR_INIT;
        store_fault_set(f->disk.fault,
                        &(store_fault){.op = STORE_OP_READ, .nth = nth, .system_errno = EIO});
        assert_ok(verify(f, &err), &err);
        fired = store_fault_fired(f->disk.fault);
        assert_int_equal(f->count, fired ? 1 : 0);
        assert_int_equal(f->progress, 3 * WINDOW + 5);
        if (fired) {
            assert_int_equal(f->problems[0].status, PAWL_EIO);
            assert_true(f->problems[0].length <= WINDOW);
        }
    }
}

static void test_short_reads_are_gone_on_with(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    one_file(f, 3 * WINDOW);
    store_fault_set(f->disk.fault, &(store_fault){.op = STORE_OP_READ, .nth = 2, .shorten = true});
    assert_ok(verify(f, &err), &err);
    assert_int_equal(f->count, 0);
}

/* ---- threads and memory ---- */

static void test_threads_that_do_not_start_are_done_without(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    f->disk.refuse_threads = true;
    one_file(f, 20 * WINDOW);
    assert_ok(verify(f, &err), &err);
    assert_int_equal(f->progress, 20 * WINDOW);
    assert_true(f->disk.started > 0);
}

static void test_a_platform_without_threads(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    simulated_platform os;
    simulated_platform_init(&os, 1);
    one_file(f, 20 * WINDOW);
    assert_ok(verify_on(f, &os.table, &err), &err);
    assert_int_equal(f->progress, 20 * WINDOW);
    assert_int_equal(os.threads_started, 0);
}

static void test_a_file_of_one_window_starts_no_thread(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    one_file(f, WINDOW);
    assert_ok(verify(f, &err), &err);
    assert_int_equal(f->disk.started, 0);
}

static pawl_status verify_with_failing_memory(void *context, pawl_error *err) {
    return verify_on(context, NULL, err);
}

static void test_every_allocation_may_fail(void **state) {
    fixture *f = *state;
    one_file(f, 2 * WINDOW);
    assert_true(failing_memory_each(verify_with_failing_memory, f) >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_any_damage_is_told_in_the_order_of_the_file),
        TEST(test_enough_problems_end_it_amid_many_windows),
        TEST(test_checksums_that_fail_are_the_problem_of_each_window),
        TEST(test_a_read_that_fails_is_a_problem_and_the_rest_is_looked_at),
        TEST(test_short_reads_are_gone_on_with),
        TEST(test_threads_that_do_not_start_are_done_without),
        TEST(test_a_platform_without_threads),
        TEST(test_a_file_of_one_window_starts_no_thread),
        TEST(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
