/* SPDX-License-Identifier: Apache-2.0 */
/* What killed processes left behind is removed once it is certain that nobody needs it. */
#include "outside/small_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUN "run"

typedef struct fixture {
    char directory[64];
    pawl_error *err;
    pawl_run *run;
} fixture;

static int set_up(void **state) {
    fixture *f = *state = calloc(1, sizeof *f);
    directory_enter_new(f->directory);
    assert_int_equal(mkdir(RUN, 0777), 0);
    f->err = pawl_error_new();
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    pawl_error_free(f->err);
    directory_leave(f->directory);
    free(f);
    return 0;
}

static void open_run(fixture *f) {
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = 1}};
    assert_ok(pawl_run_open(RUN, &options, &f->run, f->err), f->err);
}

static void save(fixture *f, int64_t step) {
    assert_ok(small_save_bytes(f->run, step, 4096, f->err), f->err);
}

static void put(const char *path, time_t age_s) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    now.tv_sec -= age_s;
    const struct timespec times[2] = {now, now};
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(close(fd), 0);
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

static void test_probes_of_killed_openers_go(void **state) {
    fixture *f = *state;
    put(RUN "/.pawl-probe-0123456789abcdef", 0);
    put(RUN "/.pawl-probe-mine", 0);
    open_run(f);
    assert_ok(pawl_run_gc(f->run, 0, NULL, NULL, f->err), f->err);
    assert_false(exists(RUN "/.pawl-probe-0123456789abcdef"));
    assert_true(exists(RUN "/.pawl-probe-mine"));
    assert_ok(pawl_run_close(f->run, 0, f->err), f->err);
}

/* Visitors: ranks that restore without owning the run. */
static void
test_what_a_doctor_or_visitors_left_goes_when_nobody_can_still_wait_for_it(void **state) {
    fixture *f = *state;
    static const char *const names[] = {
        RUN "/.pawl-doctor-0123456789abcdef", RUN "/.pawl-doctor-0123456789ab",
        RUN "/.pawl-doctor-0123456789ab-r3",  RUN "/.pawl-doctor-0123456789ab.tmp",
        RUN "/visit-0123456789ab-1-r00002",   RUN "/visit-0123456789ab-1-answer"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put(names[i], 7200);
    }
    put(RUN "/.pawl-doctor-ba9876543210", 60);
    put(RUN "/visit-ba9876543210-2-r00001", 60);
    open_run(f);
    assert_ok(pawl_run_gc(f->run, 0, NULL, NULL, f->err), f->err);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_false(exists(names[i]));
    }
    assert_true(exists(RUN "/.pawl-doctor-ba9876543210"));
    assert_true(exists(RUN "/visit-ba9876543210-2-r00001"));
    assert_ok(pawl_run_close(f->run, 0, f->err), f->err);
}

static void test_the_pin_of_a_save_that_was_killed_keeps_no_later_one(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir(RUN "/step-00000002", 0777), 0);
    put(RUN "/step-00000002/pinned", 0);
    put(RUN "/step-00000002/data-0123456789ab-1-00000-of-00001.safetensors", 0);
    open_run(f);
    save(f, 2);
    assert_false(exists(RUN "/step-00000002/pinned"));
    save(f, 3);
    assert_false(exists(RUN "/step-00000002/manifest.json"));
    assert_ok(pawl_run_close(f->run, 0, f->err), f->err);
}

static void test_the_pin_of_a_checkpoint_stays_when_it_is_saved_again(void **state) {
    fixture *f = *state;
    open_run(f);
    save(f, 2);
    assert_ok(pawl_run_pin(f->run, 2, 1, f->err), f->err);
    save(f, 2);
    save(f, 3);
    assert_true(exists(RUN "/step-00000002/manifest.json"));
    assert_ok(pawl_run_close(f->run, 0, f->err), f->err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_probes_of_killed_openers_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_what_a_doctor_or_visitors_left_goes_when_nobody_can_still_wait_for_it, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_the_pin_of_a_save_that_was_killed_keeps_no_later_one,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_pin_of_a_checkpoint_stays_when_it_is_saved_again,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
