/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a run that cannot be meant are refused before anything is touched. */
#include "lib/simulated_platform.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void assert_refused_as(pawl_status status, pawl_run_options options, const char *option,
                              const char *expected, const char *found) {
    char words[128];
    simulated_platform os;
    struct pawl_error err = ERROR_INIT;
    store *memory;
    pawl_run *run = NULL;
    simulated_platform_init(&os, 1);
    options.struct_size = sizeof options;
    assert_ok(store_mem(&memory, &err), &err);
    assert_fails(run_open(memory, &options, &os.table, &run, &err), status, &err);
    assert_null(run);
    snprintf(words, sizeof words, "open run: the option %s has an invalid value", option);
    assert_string_equal(err.attempt, words);
    assert_string_equal(err.expected, expected);
    assert_string_equal(err.found, found);
    assert_string_not_equal(err.path, "");
    assert_string_equal(err.next, "see pawl_run_options in pawl/run.h");
}

static void assert_refused(pawl_run_options options, const char *option, const char *expected,
                           const char *found) {
    assert_refused_as(PAWL_EUSAGE, options, option, expected, found);
}

static void test_times_are_numbers_that_are_not_negative(void **state) {
    (void)state;
    const char *more = "0 or more";
    const char *lease = "1 to 1000000";
    const double nan = (double)NAN;
    assert_refused((pawl_run_options){.hang_deadline_s = -1}, "hang_deadline_s", more, "-1");
    assert_refused((pawl_run_options){.hang_deadline_s = nan}, "hang_deadline_s", more, "nan");
    assert_refused((pawl_run_options){.deadline_s = -1}, "deadline_s", more, "-1");
    assert_refused((pawl_run_options){.deadline_s = nan}, "deadline_s", more, "nan");
    assert_refused((pawl_run_options){.save_every_s = nan}, "save_every_s", more, "nan");
    assert_refused((pawl_run_options){.save_every_steps = -2}, "save_every_steps", more, "-2");
    assert_refused((pawl_run_options){.takeover_wait_s = nan}, "takeover_wait_s", "a number",
                   "nan");
    assert_refused((pawl_run_options){.lease_s = 0.5}, "lease_s", lease, "0.5");
    assert_refused((pawl_run_options){.lease_s = nan}, "lease_s", lease, "nan");
}

static void test_bytes_in_flight_are_part_of_the_budget(void **state) {
    (void)state;
    const char *option = "in_flight_bytes";
    const char *range = "1 MiB (1048576) to 1 GiB (1073741824), and at most the budget";
    assert_refused((pawl_run_options){.in_flight_bytes = (1 << 20) - 1}, option, range, "1048575");
    assert_refused((pawl_run_options){.in_flight_bytes = (257 << 20)}, option, range, "269484032");
    assert_refused((pawl_run_options){.budget_bytes = 8 << 20, .in_flight_bytes = 9 << 20}, option,
                   range, "9437184");
    assert_refused_as(PAWL_ELIMIT,
                      (pawl_run_options){.budget_bytes = SIZE_MAX, .in_flight_bytes = SIZE_MAX},
                      option, range, "9223372036854775807");
    assert_refused((pawl_run_options){.budget_bytes = (8 << 20) - 1}, "budget_bytes",
                   "at least 8 MiB (8388608)", "8388607");
}

static uint64_t little_memory(void *context) {
    (void)context;
    return 100 << 20;
}

static void test_a_ready_budget_is_no_more_than_there_can_be(void **state) {
    (void)state;
    simulated_platform os;
    struct pawl_error err = ERROR_INIT;
    pawl_run_options options = {
        .struct_size = sizeof options, .budget_bytes = 101 << 20, .budget_ready = 1};
    store *memory;
    pawl_run *run = NULL;
    simulated_platform_init(&os, 1);
    os.table.memory_limit = little_memory;
    assert_ok(store_mem(&memory, &err), &err);
    assert_fails(run_open(memory, &options, &os.table, &run, &err), PAWL_ENOMEM, &err);
    assert_string_equal(err.attempt,
                        "open run: this process cannot have the memory of budget_ready");
    assert_string_equal(err.expected,
                        "at most 104857600 (105 MB): the memory of this machine, or the limit of "
                        "this process (ulimit -v) or of its control group");
    assert_string_equal(err.found, "budget_bytes 105906176");
    options.budget_bytes = 100 << 20;
    assert_ok(store_mem(&memory, &err), &err);
    assert_ok(run_open(memory, &options, &os.table, &run, &err), &err);
    assert_ok(run_close(run, 0, &err), &err);
}

static void test_enums_have_a_meaning(void **state) {
    (void)state;
    const char *io = "PAWL_IO_AUTO, _URING, _THREADS or _BUFFERED";
    assert_refused((pawl_run_options){.io = (pawl_io)4}, "io", io, "4");
    assert_refused((pawl_run_options){.io_priority = (pawl_io_priority)3}, "io_priority",
                   "PAWL_IO_PRIORITY_DEFAULT, _LOW or _IDLE", "3");
    assert_refused((pawl_run_options){.on_busy = (pawl_on_busy)3}, "on_busy",
                   "PAWL_ON_BUSY_WAIT, _SKIP or _ERROR", "3");
}

static void test_processors_are_a_list(void **state) {
    (void)state;
    const int cpus[] = {0, -1};
    assert_refused((pawl_run_options){.cpu_count = 1}, "cpus",
                   "cpu_count (1) numbers of processors", "a null pointer");
    assert_refused((pawl_run_options){.cpus = cpus, .cpu_count = 2}, "cpus", "0 or more", "-1");
}

static void test_rules_of_retention_are_counts(void **state) {
    (void)state;
    const char *more = "0 or more";
    const char *name = "the name of a metric, by which keep_best chooses";
    assert_refused(
        (pawl_run_options){
            .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = -1}},
        "retention.keep_last", more, "-1");
    assert_refused(
        (pawl_run_options){.retention = &(pawl_retention){.struct_size = sizeof(pawl_retention),
                                                          .keep_every_steps = -1}},
        "retention.keep_every_steps", more, "-1");
    assert_refused(
        (pawl_run_options){.retention = &(pawl_retention){.struct_size = sizeof(pawl_retention),
                                                          .keep_every_hours = (double)NAN}},
        "retention.keep_every_hours", more, "nan");
    assert_refused(
        (pawl_run_options){
            .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_best = 1}},
        "retention.metric", name, "a null pointer");
    assert_refused(
        (pawl_run_options){.retention = &(pawl_retention){.struct_size = sizeof(pawl_retention),
                                                          .keep_best = 1,
                                                          .metric = ""}},
        "retention.metric", name, "an empty name");
}

static void test_texts_can_be_read_back(void **state) {
    (void)state;
    static char longer[PAWL_MAX_FRAMEWORK_BYTES + 2];
    memset(longer, 'f', sizeof longer - 1);
    assert_refused_as(PAWL_ELIMIT, (pawl_run_options){.framework = longer}, "framework",
                      "at most 4096 bytes (PAWL_MAX_FRAMEWORK_BYTES)",
                      "more than that, beginning with "
                      "\"ffffffffffffffffffffffffffffffffffffffff\"");
    assert_refused((pawl_run_options){.framework = "caf\xe9"}, "framework", "text in UTF-8",
                   "the byte 0xe9 at byte 3 of it");
    assert_refused(
        (pawl_run_options){.retention = &(pawl_retention){.struct_size = sizeof(pawl_retention),
                                                          .keep_best = 1,
                                                          .metric = "a//b"}},
        "retention.metric", "a name that an entry may have", "one that has an empty component");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_are_numbers_that_are_not_negative),
        cmocka_unit_test(test_bytes_in_flight_are_part_of_the_budget),
        cmocka_unit_test(test_a_ready_budget_is_no_more_than_there_can_be),
        cmocka_unit_test(test_enums_have_a_meaning),
        cmocka_unit_test(test_processors_are_a_list),
        cmocka_unit_test(test_rules_of_retention_are_counts),
        cmocka_unit_test(test_texts_can_be_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
