/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work for one step does not grow with the number of steps in the run. It is counted, not
 * timed: operations on the storage, and listings of the run's directory.
 */
#include "lib/training.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { FEW = 40, MANY = 4 * FEW };

typedef struct work {
    uint64_t operations;
    uint64_t lists;     /* of the run's directory */
    uint64_t manifests; /* looked for */
} work;

static work done;

static bool ends_with(const char *path, const char *end) {
    size_t n = strlen(path);
    return n >= strlen(end) && strcmp(path + n - strlen(end), end) == 0;
}

static void count(void *context, const store_trace_event *event) {
    (void)context;
    done.operations++;
    done.lists += event->op == STORE_OP_LIST && event->path[0] == '\0';
    done.manifests += (event->op == STORE_OP_STAT || event->op == STORE_OP_OPEN) &&
                      ends_with(event->path, "/" NAME_MANIFEST);
}

static void open_again(training *f, pawl_run_options options) {
    struct pawl_error err = ERROR_INIT;
    if (f->run != NULL) {
        assert_ok(run_close(f->run, 5, &err), &err);
    }
    f->after = count;
    training_open_with(f, &f->os.table, options);
}

static void save_steps(training *f, int64_t from, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        training_save(f, from + i);
    }
}

static void must_be_linear(const work *few, const work *many) {
    assert_true(few->operations > 0);
    if (many->lists > few->lists || many->operations > 4 * few->operations) {
        fail_msg("for %d steps %llu operations and %llu listings of the run, for %d %llu and %llu",
                 FEW, (unsigned long long)few->operations, (unsigned long long)few->lists, MANY,
                 (unsigned long long)many->operations, (unsigned long long)many->lists);
    }
}

/* ---- retention ------------------------------------------------------------------------------ */

static work remove_by_retention(training *f, int64_t first, int64_t n) {
    open_again(f, (pawl_run_options){0});
    save_steps(f, first, n);
    open_again(f, (pawl_run_options){.retention = &(pawl_retention){
                                         .struct_size = sizeof(pawl_retention), .keep_last = 1}});
    done = (work){0};
    training_save(f, first + n);
    assert_false(training_committed(f, first + n - 1));
    assert_true(training_committed(f, first + n));
    return done;
}

static void test_retention_of_many_steps_at_once(void **state) {
    training *f = *state;
    work few = remove_by_retention(f, 0, FEW);
    work many = remove_by_retention(f, 1000, MANY);
    must_be_linear(&few, &many);
}

/* ---- leftovers ------------------------------------------------------------------------------ */

/* As killed saves leave them. */
static void leave_unfinished(training *f, int64_t first, int64_t n) {
    struct pawl_error err = ERROR_INIT;
    for (int64_t i = 0; i < n; i++) {
        char path[80];
        CLEANUP(store_close_pointer) store_file *file = NULL;
        name_step(path, first + i);
        assert_ok(store_make_dir(f->disk, path, &err), &err);
        strcat(path, "/data-0123456789ab-1-00000-of-00001.safetensors");
        assert_ok(store_open(f->disk, path, STORE_CREATE, &file, &err), &err);
    }
}

static work remove_as_garbage(training *f, int64_t first, int64_t n) {
    struct pawl_error err = ERROR_INIT;
    char path[80];
    leave_unfinished(f, first, n);
    done = (work){0};
    assert_ok(run_gc(f->run, false, NULL, NULL, &err), &err);
    name_step(path, first + n - 1);
    assert_false(training_exists(f, path));
    return done;
}

static void test_gc_of_many_steps(void **state) {
    training *f = *state;
    open_again(f, (pawl_run_options){0});
    work few = remove_as_garbage(f, 0, FEW);
    work many = remove_as_garbage(f, 1000, MANY);
    must_be_linear(&few, &many);
}

/* ---- what an error says --------------------------------------------------------------------- */

/* Of a step that is not there the error names another that is: the next one, and no more looks. */
static work ask_for_another(training *f, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    const pawl_restore_options options = {.struct_size = sizeof options, .step = &step};
    done = (work){0};
    assert_fails(run_restore(f->run, f->state, &options, NULL, &err), PAWL_ENOTFOUND, &err);
    assert_says(error_text(&err), "is committed");
    return done;
}

static void test_the_step_that_is_safe_is_found_at_once(void **state) {
    training *f = *state;
    open_again(f, (pawl_run_options){0});
    save_steps(f, 0, FEW);
    work few = ask_for_another(f, 5000);
    save_steps(f, FEW, MANY - FEW);
    work many = ask_for_another(f, 5000);
    assert_int_equal(few.manifests, many.manifests);
}

/* ---- rules ---------------------------------------------------------------------------------- */

/* A loss that falls from step to step: the better ones of each come last. */
static double choose_s(size_t n) {
    const pawl_retention policy = {.keep_best = 3, .metric = "loss"};
    double best_s = INFINITY;
    retention_step *steps = calloc(n, sizeof *steps);
    assert_non_null(steps);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < n; i++) {
            steps[i] =
                (retention_step){.step = (int64_t)i, .has_metric = true, .metric = (double)(n - i)};
        }
        clock_t begun = clock();
        retention_choose(&policy, (int64_t)n - 1, steps, n);
        double took_s = (double)(clock() - begun) / CLOCKS_PER_SEC;
        best_s = took_s < best_s ? took_s : best_s;
        assert_true(!steps[n - 4].keep && steps[n - 3].keep && steps[n - 1].keep);
        assert_int_equal(steps[n / 2].step, n / 2); /* in their order again */
    }
    free(steps);
    return best_s;
}

static void test_the_best_of_many_are_found_without_comparing_each_with_each(void **state) {
    (void)state;
    double few_s = choose_s(20000);
    double many_s = choose_s(80000);
    if (many_s > 10 * few_s + 0.05) { /* with the square it is 16 times, and seconds */
        fail_msg("%.4f s of processor time for 20000 steps, %.4f s for 80000", few_s, many_s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, training_set_up_small, training_tear_down)
        TEST(test_retention_of_many_steps_at_once),
        TEST(test_gc_of_many_steps),
        TEST(test_the_step_that_is_safe_is_found_at_once),
        cmocka_unit_test(test_the_best_of_many_are_found_without_comparing_each_with_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
