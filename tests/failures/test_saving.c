/* SPDX-License-Identifier: Apache-2.0 */
/* Saving on a disk that hangs, fails or is slow, and a trainer that breaks the rules. */
#include "failures.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define BIG_ROWS    16
#define BIG_COLUMNS 262144 /* a row is 1 MiB */

typedef struct fixture {
    trainer t;
    char path[64];
    float *big;
} fixture;

static int set_up(void **state) {
    static fixture f;
    static const int64_t shape[] = {BIG_ROWS, BIG_COLUMNS};
    scratch_make(f.path);
    trainer_init(&f.t);
    trainer_build(&f.t);
    f.big = calloc((size_t)BIG_ROWS * BIG_COLUMNS, sizeof(float));
    assert_non_null(f.big);
    trainer_add(&f.t, "dense/big", PAWL_F32, 2, shape, f.big);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    disk_heals();
    trainer_free(&f->t);
    free(f->big);
    scratch_remove(f->path);
    return 0;
}

/* Step 1000 is committed; step 2000 is under way and stands still in its first write. */
static void begin_and_hang(fixture *f, const pawl_run_options *options) {
    trainer_open_with(&f->t, "run", options);
    trainer_save(&f->t, 1000);
    disk_hangs();
    assert_works(pawl_save(f->t.run, f->t.state, 2000, NULL, f->t.err), f->t.err);
    disk_wait_until_hung();
}

static void test_s01_a_tensor_changed_without_a_fence_is_named(void **state) {
    fixture *f = *state;
    pawl_run_options options = trainer_options(&f->t);
    options.checking = 1;
    options.in_flight_bytes = 4 << 20;
    begin_and_hang(f, &options);
    f->big[BIG_COLUMNS * 9] = 1.0F; /* byte 9 MiB, which no buffer has yet */
    disk_heals();
    assert_tells(pawl_wait(f->t.run, 0, NULL, f->t.err), PAWL_EUSAGE, f->t.err,
                 "saving step 2000: a tensor changed while it was being saved\n"
                 "  entry:    dense/big\n"
                 "  expected: the bytes that were there when the save began\n"
                 "  found:    bytes 9433064 to 9449447 of its 16777216 bytes are different\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     call pawl_fence before the optimizer's step, and before anything "
                 "else that changes tensors");
    assert_text(f->t.log,
                "error: saving step 2000: a tensor changed while it was being saved\n"
                "  entry:    dense/big\n"
                "  expected: the bytes that were there when the save began\n"
                "  found:    bytes 9433064 to 9449447 of its 16777216 bytes are different\n"
                "  safe:     step 1000 is committed and can be restored\n"
                "  next:     call pawl_fence before the optimizer's step, and before anything else "
                "that changes tensors\n");
}

static void test_s01_checking_finds_nothing_after_a_fence(void **state) {
    fixture *f = *state;
    pawl_run_options options = trainer_options(&f->t);
    options.checking = 1;
    trainer_open_with(&f->t, "run", &options);
    assert_works(pawl_save(f->t.run, f->t.state, 1, NULL, f->t.err), f->t.err);
    assert_works(pawl_fence(f->t.run, 0, f->t.err), f->t.err);
    memset(f->big, 1, (size_t)BIG_ROWS * BIG_COLUMNS * sizeof(float));
    assert_works(pawl_wait(f->t.run, 0, NULL, f->t.err), f->t.err);
}

static void test_s02_an_entry_in_flight_is_not_removed(void **state) {
    fixture *f = *state;
    pawl_run_options options = trainer_options(&f->t);
    options.in_flight_bytes = 1 << 20; /* not all of it is copied before the fence */
    begin_and_hang(f, &options);
    assert_tells(pawl_state_remove(f->t.state, "dense/big", f->t.err), PAWL_EBUSY, f->t.err,
                 "cannot remove the entry: the save of step 2000 still reads its memory\n"
                 "  entry:    dense/big\n"
                 "  safe:     the entry is still in the state, and the save goes on\n"
                 "  next:     call pawl_fence first");
}

static void test_s02_a_state_freed_while_it_is_saved_is_saved_whole(void **state) {
    fixture *f = *state;
    pawl_run_options options = trainer_options(&f->t);
    options.in_flight_bytes = 1 << 20;
    begin_and_hang(f, &options);
    pawl_state_free(f->t.state);
    f->t.state = NULL;
    disk_heals();
    assert_works(pawl_wait(f->t.run, 0, NULL, f->t.err), f->t.err);
    assert_text(f->t.log, "");
}

static void test_s03_a_failed_write_is_told_at_the_wait_and_in_the_log(void **state) {
    fixture *f = *state;
    trainer_open(&f->t, "run");
    trainer_save(&f->t, 1000);
    disk_fails(EIO, 1000);
    assert_works(pawl_save(f->t.run, f->t.state, 2000, NULL, f->t.err), f->t.err);
    assert_tells(pawl_wait(f->t.run, 0, NULL, f->t.err), PAWL_EIO, f->t.err,
                 "saving step 2000: writing bytes {n} to {n}: cannot write\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  range:    bytes {n} to {n}\n"
                 "  system:   Input/output error (EIO, errno 5)\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     see whether the storage works (the kernel's log, or the server of a "
                 "network mount); the next save begins anew");
    assert_text(f->t.log, "error: saving step 2000: writing bytes {n} to {n}: cannot write\n"
                          "  path:     {d}/run/step-00002000/{f}\n"
                          "  range:    bytes {n} to {n}\n"
                          "  system:   Input/output error (EIO, errno 5)\n"
                          "  safe:     step 1000 is committed and can be restored\n"
                          "  next:     see whether the storage works (the kernel's log, or the "
                          "server of a network mount); the next save begins anew\n");
}

static void test_s03_the_next_save_tells_what_nobody_waited_for(void **state) {
    fixture *f = *state;
    trainer_open(&f->t, "run");
    trainer_save(&f->t, 1000);
    disk_fails(EIO, 1000);
    assert_works(pawl_save(f->t.run, f->t.state, 2000, NULL, f->t.err), f->t.err);
    assert_works(pawl_fence(f->t.run, 0, f->t.err), f->t.err);
    assert_tells(pawl_save(f->t.run, f->t.state, 3000, NULL, f->t.err), PAWL_EIO, f->t.err,
                 "saving step 2000: writing bytes {n} to {n}: cannot write\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  range:    bytes {n} to {n}\n"
                 "  system:   Input/output error (EIO, errno 5)\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     see whether the storage works (the kernel's log, or the server of a "
                 "network mount); the next save begins anew");
    disk_heals();
    trainer_save(&f->t, 3000);
}

static void test_s04_a_save_waits_for_the_last_one_up_to_the_deadline(void **state) {
    fixture *f = *state;
    const pawl_run_options options = trainer_options(&f->t);
    const pawl_save_options soon = {.struct_size = sizeof(soon), .deadline_s = 0.05};
    begin_and_hang(f, &options);
    assert_tells(pawl_save(f->t.run, f->t.state, 3000, &soon, f->t.err), PAWL_ETIMEOUT, f->t.err,
                 "waiting for the save: the data files of step 2000 took longer than {n} {w}\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  range:    bytes 0 to 16781658\n"
                 "  found:    0 B of 16.8 MB written\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     wait again, or give the save up with pawl_cancel; if no more is "
                 "written, look at the storage");
}

static void test_s04_a_save_says_how_long_it_waited_for_the_last_one(void **state) {
    fixture *f = *state;
    pawl_save_stats stats = {.struct_size = sizeof stats};
    trainer_open(&f->t, "run");
    disk_is_slow(50000);
    assert_works(pawl_save(f->t.run, f->t.state, 1000, NULL, f->t.err), f->t.err);
    assert_works(pawl_save(f->t.run, f->t.state, 2000, NULL, f->t.err), f->t.err);
    assert_works(pawl_wait(f->t.run, 0, &stats, f->t.err), f->t.err);
    assert_int_equal(stats.step, 2000);
    assert_true(stats.busy_wait_s > 0);
}

static void test_s04_a_busy_run_refuses_when_asked(void **state) {
    fixture *f = *state;
    pawl_run_options options = trainer_options(&f->t);
    options.on_busy = PAWL_ON_BUSY_ERROR;
    begin_and_hang(f, &options);
    assert_tells(pawl_save(f->t.run, f->t.state, 3000, NULL, f->t.err), PAWL_EBUSY, f->t.err,
                 "saving step 3000: the save of step 2000 is still being written\n"
                 "  path:     {d}/run\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     call pawl_wait first, save less often, or choose PAWL_ON_BUSY_WAIT");
}

static void test_s05_a_small_budget_makes_the_fence_wait_and_says_what_would_not(void **state) {
    fixture *f = *state;
    pawl_run_options options = trainer_options(&f->t);
    pawl_save_stats stats = {.struct_size = sizeof stats};
    options.budget_bytes = 8 << 20;
    begin_and_hang(f, &options);
    assert_tells(pawl_fence(f->t.run, 2, f->t.err), PAWL_ETIMEOUT, f->t.err,
                 "waiting until the save lets go of the tensors: the data files of step 2000 took "
                 "longer than {n} {w}\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  range:    bytes 0 to 16781658\n"
                 "  found:    0 B of 16.8 MB written\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     wait again, or give the save up with pawl_cancel; if no more is "
                 "written, look at the storage");
    disk_heals();
    assert_works(pawl_fence(f->t.run, 0, f->t.err), f->t.err);
    assert_works(pawl_wait(f->t.run, 0, &stats, f->t.err), f->t.err);
    assert_int_equal(stats.budget_bytes, 8 << 20);
    assert_true(stats.fence_wait_s > 0);
    assert_int_equal(stats.budget_wanted_bytes, 18 << 20); /* 16 MiB and a little */
    trainer_close(&f->t);
    scratch_remove(f->path);
    scratch_make(f->path);

    options.budget_bytes = (size_t)stats.budget_wanted_bytes;
    begin_and_hang(f, &options);
    assert_works(pawl_fence(f->t.run, 0, f->t.err), f->t.err);
    disk_heals();
    assert_works(pawl_wait(f->t.run, 0, &stats, f->t.err), f->t.err);
    assert_true(stats.fence_wait_s == 0.0);
}

static void test_s08_a_disk_that_hangs_is_an_error_at_the_deadline(void **state) {
    fixture *f = *state;
    const pawl_run_options options = trainer_options(&f->t);
    begin_and_hang(f, &options);
    assert_tells(pawl_wait(f->t.run, 0.05, NULL, f->t.err), PAWL_ETIMEOUT, f->t.err,
                 "waiting for the save: the data files of step 2000 took longer than {n} {w}\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  range:    bytes 0 to 16781658\n"
                 "  found:    0 B of 16.8 MB written\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     wait again, or give the save up with pawl_cancel; if no more is "
                 "written, look at the storage");
    disk_heals();
    assert_works(pawl_wait(f->t.run, 0, NULL, f->t.err), f->t.err);
}

/* What the handle could still have done is no advice any more. */
static void close_in_vain(void *context) {
    fixture *f = context;
    const pawl_run_options options = trainer_options(&f->t);
    begin_and_hang(f, &options);
    assert_works(pawl_fence(f->t.run, 0, f->t.err), f->t.err); /* nothing reads the tensors */
    pawl_run *run = f->t.run;
    f->t.run = NULL;
    assert_tells(pawl_run_close(run, 0.05, f->t.err), PAWL_ETIMEOUT, f->t.err,
                 "close run: waiting for the save: the data files of step 2000 took longer than "
                 "{n} {w}\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  range:    bytes 0 to 16781658\n"
                 "  found:    0 B of 16.8 MB written\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     look at the storage (the kernel's log, or the server of a network "
                 "mount)");
}

static void test_s08_closing_in_vain_says_what_is_left_to_do(void **state) {
    in_child(close_in_vain, *state);
}

/* A wait, the log, the next save: all say so, and once the storage answers the run goes on. */
static void test_s08_a_disk_that_hangs_fails_the_save_and_later_ones(void **state) {
    fixture *f = *state;
    pawl_run_options options = trainer_options(&f->t);
    options.hang_deadline_s = 1;
    begin_and_hang(f, &options);
    assert_tells(pawl_wait(f->t.run, 0, NULL, f->t.err), PAWL_EIO, f->t.err,
                 "saving step 2000: the storage hangs: no answer for {n} {w} while writing\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  range:    bytes {n} to {n}\n"
                 "  found:    0 B of 16.8 MB written\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     look at the storage (the kernel's log, or the server of a network "
                 "mount); nothing is saved until it answers");
    assert_works(pawl_state_remove(f->t.state, "dense/big", f->t.err), f->t.err);
    assert_works(pawl_fence(f->t.run, 0, f->t.err), f->t.err);
    assert_tells(pawl_save(f->t.run, f->t.state, 3000, NULL, f->t.err), PAWL_EIO, f->t.err,
                 "nothing can be saved while the save of step 2000 hangs\n"
                 "  path:     {d}/run/step-00002000\n"
                 "  found:    no answer from the storage for {n} {w}\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     look at the storage (the kernel's log, or the server of a network "
                 "mount); a job that is to end can: pawl_run_close leaves that save behind");
    disk_heals();
    while (pawl_save(f->t.run, f->t.state, 3000, NULL, f->t.err) == PAWL_EIO) {
        (void)usleep(1000);
    }
    assert_works(pawl_wait(f->t.run, 0, NULL, f->t.err), f->t.err);
    assert_true(file_exists("run/step-00003000/manifest.json"));
    assert_false(file_exists("run/step-00002000"));
    assert_text(f->t.log,
                "error: saving step 2000: the storage hangs: no answer for {n} {w} while writing\n"
                "  path:     {d}/run/step-00002000/{f}\n"
                "  range:    bytes {n} to {n}\n"
                "  found:    0 B of 16.8 MB written\n"
                "  safe:     step 1000 is committed and can be restored\n"
                "  next:     look at the storage (the kernel's log, or the server of a network "
                "mount); nothing is saved until it answers\n"
                "error: saving step 2000: the storage answers again, but the save had been given "
                "up\n"
                "  safe:     step 1000 is committed and can be restored\n"
                "  next:     see whether the storage works (the kernel's log, or the server of a "
                "network mount); the next save begins anew\n");
}

/* In a process that ends: what is left behind goes with it. */
static void close_while_it_hangs(void *context) {
    fixture *f = context;
    pawl_run_options options = trainer_options(&f->t);
    options.hang_deadline_s = 0.1;
    begin_and_hang(f, &options);
    pawl_run *run = f->t.run;
    f->t.run = NULL;
    assert_tells(pawl_run_close(run, 60, f->t.err), PAWL_EIO, f->t.err,
                 "close run: saving step 2000: the storage hangs: no answer for {n} {w} while "
                 "writing\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  range:    bytes {n} to {n}\n"
                 "  found:    0 B of 16.8 MB written\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     look at the storage (the kernel's log, or the server of a network "
                 "mount)");
}

static void test_s08_a_run_whose_disk_hangs_can_be_closed(void **state) {
    in_child(close_while_it_hangs, *state);
}

static void test_s08_what_passes_is_tried_again(void **state) {
    fixture *f = *state;
    trainer_open(&f->t, "run");
    disk_fails(ETIMEDOUT, 2);
    trainer_save(&f->t, 1000);
    assert_text(f->t.log, "");
}

static void test_s08_what_does_not_pass_is_given_up(void **state) {
    fixture *f = *state;
    trainer_open(&f->t, "run");
    trainer_save(&f->t, 1000);
    disk_fails(ETIMEDOUT, 1000);
    assert_works(pawl_save(f->t.run, f->t.state, 2000, NULL, f->t.err), f->t.err);
    assert_tells(
        pawl_wait(f->t.run, 0, NULL, f->t.err), PAWL_EIO, f->t.err,
        "saving step 2000: writing bytes {n} to {n}: gave up after 4 attempts: cannot write\n"
        "  path:     {d}/run/step-00002000/{f}\n"
        "  range:    bytes {n} to {n}\n"
        "  system:   Connection timed out (ETIMEDOUT, errno 110)\n"
        "  safe:     step 1000 is committed and can be restored\n"
        "  next:     see whether the storage works (the kernel's log, or the server of a network "
        "mount); the next save begins anew");
}

static void test_s13_a_final_save_after_sigterm_fits(void **state) {
    fixture *f = *state;
    const int number = SIGTERM;
    trainer_open(&f->t, "run");
    assert_works(pawl_preemption_watch(&number, 1, f->t.err), f->t.err);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    assert_int_equal(pawl_preempted(), SIGTERM);
    trainer_set(&f->t, 7);
    assert_works(pawl_save_final(f->t.run, f->t.state, 7, NULL, 30, f->t.err), f->t.err);
    pawl_preemption_unwatch();
    assert_true(file_exists("run/step-00000007/manifest.json"));
}

static void test_s13_a_final_save_that_does_not_fit_says_so(void **state) {
    fixture *f = *state;
    trainer_open(&f->t, "run");
    trainer_save(&f->t, 1000);
    disk_is_slow(300000);
    assert_tells(pawl_save_final(f->t.run, f->t.state, 2000, NULL, 0.1, f->t.err), PAWL_ETIMEOUT,
                 f->t.err,
                 "the final save of step 2000 did not fit into the grace time\n"
                 "  path:     {d}/run\n"
                 "  expected: durable within 0.1 s\n"
                 "  found:    0 B of 16.8 MB written; the save was given up\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     ask the scheduler for more grace time, or save more often");
    disk_heals();
    assert_false(file_exists("run/step-00002000/manifest.json"));
}

static void test_s15_bad_entries_are_refused_before_anything_is_written(void **state) {
    fixture *f = *state;
    pawl_state *s = f->t.state;
    const int64_t negative[] = {4, -8};
    const int64_t huge[] = {INT64_MAX, 2};
    const int64_t fine[] = {2};
    pawl_tensor tensor = {
        .struct_size = sizeof(tensor), .dtype = PAWL_F32, .ndim = 1, .shape = fine, .data = f->big};
    tensor.name = (char[1]){0};
    assert_tells(pawl_state_add_tensor(s, &tensor, f->t.err), PAWL_EUSAGE, f->t.err,
                 "cannot add the tensor: its name is empty\n"
                 "  next:     give it a name such as \"model/dense/kernel\": UTF-8, components "
                 "separated by '/', at most 1024 bytes");
    tensor.name = "dense/kernel";
    assert_tells(pawl_state_add_tensor(s, &tensor, f->t.err), PAWL_EUSAGE, f->t.err,
                 "cannot add the tensor: the state has an entry of that name already\n"
                 "  entry:    dense/kernel\n"
                 "  found:    a tensor [4, 8] F32\n"
                 "  next:     give it another name, or remove the entry first");
    tensor.name = "a/../b";
    assert_tells(pawl_state_add_tensor(s, &tensor, f->t.err), PAWL_EUSAGE, f->t.err,
                 "cannot add the tensor: its name has a component \"..\"\n"
                 "  entry:    a/../b\n"
                 "  next:     give it a name such as \"model/dense/kernel\": UTF-8, components "
                 "separated by '/', at most 1024 bytes");
    tensor.name = "/a";
    assert_tells(pawl_state_add_tensor(s, &tensor, f->t.err), PAWL_EUSAGE, f->t.err,
                 "cannot add the tensor: its name begins with '/'\n"
                 "  entry:    /a\n"
                 "  next:     give it a name such as \"model/dense/kernel\": UTF-8, components "
                 "separated by '/', at most 1024 bytes");
    tensor.name = "w";
    tensor.ndim = 2;
    tensor.shape = negative;
    assert_tells(pawl_state_add_tensor(s, &tensor, f->t.err), PAWL_EUSAGE, f->t.err,
                 "cannot add the tensor: the shape cannot be used: an extent is negative\n"
                 "  entry:    w\n"
                 "  found:    [4, -8]");
    tensor.shape = huge;
    assert_tells(pawl_state_add_tensor(s, &tensor, f->t.err), PAWL_ELIMIT, f->t.err,
                 "cannot add the tensor: the shape cannot be used: it holds more than 2^62 "
                 "elements or bytes\n"
                 "  entry:    w\n"
                 "  found:    [9223372036854775807, 2]");
    tensor.ndim = 1;
    tensor.shape = fine;
    tensor.data = NULL;
    assert_tells(pawl_state_add_tensor(s, &tensor, f->t.err), PAWL_EUSAGE, f->t.err,
                 "cannot add the tensor: its data is NULL, but it has 8 bytes\n"
                 "  entry:    w\n"
                 "  next:     hand in the memory of its first element");
}

static void
test_s15_a_slot_without_its_variable_is_refused_before_anything_is_written(void **state) {
    fixture *f = *state;
    const int64_t shape[] = {4, 9};
    trainer_add_slot(&f->t, "optimizer/dense/big/m", "dense/bigger", 2, shape, f->big);
    trainer_open(&f->t, "run");
    assert_tells(pawl_save(f->t.run, f->t.state, 1, NULL, f->t.err), PAWL_EUSAGE, f->t.err,
                 "saving step 1: the optimizer slot \"adam/m\" does not fit its variable "
                 "\"dense/bigger\": the state has no entry of that name\n"
                 "  entry:    optimizer/dense/big/m\n"
                 "  safe:     this run has no checkpoint yet\n"
                 "  next:     add the variable to the state, or mend slot_of");
    assert_false(file_exists("run/step-00000001"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s01_a_tensor_changed_without_a_fence_is_named),
        TEST(test_s01_checking_finds_nothing_after_a_fence),
        TEST(test_s02_an_entry_in_flight_is_not_removed),
        TEST(test_s02_a_state_freed_while_it_is_saved_is_saved_whole),
        TEST(test_s03_a_failed_write_is_told_at_the_wait_and_in_the_log),
        TEST(test_s03_the_next_save_tells_what_nobody_waited_for),
        TEST(test_s04_a_save_waits_for_the_last_one_up_to_the_deadline),
        TEST(test_s04_a_save_says_how_long_it_waited_for_the_last_one),
        TEST(test_s04_a_busy_run_refuses_when_asked),
        TEST(test_s05_a_small_budget_makes_the_fence_wait_and_says_what_would_not),
        TEST(test_s08_a_disk_that_hangs_is_an_error_at_the_deadline),
        TEST(test_s08_closing_in_vain_says_what_is_left_to_do),
        TEST(test_s08_a_disk_that_hangs_fails_the_save_and_later_ones),
        TEST(test_s08_a_run_whose_disk_hangs_can_be_closed),
        TEST(test_s08_what_passes_is_tried_again),
        TEST(test_s08_what_does_not_pass_is_given_up),
        TEST(test_s13_a_final_save_after_sigterm_fits),
        TEST(test_s13_a_final_save_that_does_not_fit_says_so),
        TEST(test_s15_bad_entries_are_refused_before_anything_is_written),
        TEST(test_s15_a_slot_without_its_variable_is_refused_before_anything_is_written),
    };
    return cmocka_run_group_tests_name("saving fails", tests, NULL, NULL);
}
