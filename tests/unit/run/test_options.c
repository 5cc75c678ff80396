/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a run that cannot be meant are refused before anything is touched. */
#include "lib/simulated_platform.h"
#include "lib/test.h"

#include "run/run.h"

#include <math.h>

static void assert_refused(pawl_run_options options, const char *words) {
    simulated_platform os;
    struct pawl_error err = ERROR_INIT;
    store *memory;
    pawl_run *run = NULL;
    simulated_platform_init(&os, 1);
    options.struct_size = sizeof options;
    assert_ok(store_mem(&memory, &err), &err);
    assert_fails(run_open(memory, &options, &os.table, &run, &err), PAWL_EUSAGE, &err);
    assert_null(run);
    assert_string_equal(err.attempt, words);
}

static void test_times_are_not_negative(void **state) {
    (void)state;
    const char *hang = "open run: hang_deadline_s is not negative";
    const char *deadlines =
        "open run: deadline_s, save_every_steps and save_every_s are not negative";
    assert_refused((pawl_run_options){.hang_deadline_s = -1}, hang);
    assert_refused((pawl_run_options){.hang_deadline_s = (double)NAN}, hang);
    assert_refused((pawl_run_options){.deadline_s = -1}, deadlines);
    assert_refused((pawl_run_options){.deadline_s = (double)NAN}, deadlines);
    assert_refused((pawl_run_options){.save_every_s = (double)NAN}, deadlines);
}

static void test_bytes_in_flight_are_part_of_the_budget(void **state) {
    (void)state;
    const char *text =
        "open run: in_flight_bytes is at least 1 MiB (1048576), and at most the budget";
    assert_refused((pawl_run_options){.in_flight_bytes = (1 << 20) - 1}, text);
    assert_refused((pawl_run_options){.in_flight_bytes = (257 << 20)}, text);
    assert_refused((pawl_run_options){.budget_bytes = 8 << 20, .in_flight_bytes = 9 << 20}, text);
    assert_refused((pawl_run_options){.budget_bytes = (8 << 20) - 1},
                   "open run: budget_bytes is at least 8 MiB (8388608)");
}

static void test_enums_have_a_meaning(void **state) {
    (void)state;
    const char *io = "open run: io is one of PAWL_IO_AUTO, _URING, _THREADS, _BUFFERED";
    const char *priority = "open run: io_priority is one of PAWL_IO_PRIORITY_DEFAULT, _LOW, _IDLE";
    assert_refused((pawl_run_options){.io = (pawl_io)4}, io);
    assert_refused((pawl_run_options){.io = (pawl_io)-1}, io);
    assert_refused((pawl_run_options){.io_priority = (pawl_io_priority)3}, priority);
    assert_refused((pawl_run_options){.on_busy = (pawl_on_busy)3},
                   "open run: on_busy is one of PAWL_ON_BUSY_WAIT, _SKIP, _ERROR");
}

static void test_processors_are_a_list(void **state) {
    (void)state;
    const int cpus[] = {0, -1};
    assert_refused((pawl_run_options){.cpu_count = 1},
                   "open run: cpus is a null pointer, but cpu_count is not 0");
    assert_refused((pawl_run_options){.cpus = cpus, .cpu_count = 2},
                   "open run: no number in cpus is negative");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_are_not_negative),
        cmocka_unit_test(test_bytes_in_flight_are_part_of_the_budget),
        cmocka_unit_test(test_enums_have_a_meaning),
        cmocka_unit_test(test_processors_are_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
