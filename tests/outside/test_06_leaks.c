/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint that somebody reads while it is removed or replaced leaves nothing behind once the
 * reader has ended, as long as the run is open.
 */
#include "lib/at_step.h"
#include "lib/directory.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUN   "run"
#define BYTES 4096

typedef struct fixture {
    char directory[64];
    pawl_error *err;
    pawl_state *state;
    pawl_run *run;
    uint8_t bytes[BYTES];
} fixture;

static int set_up(void **state) {
    fixture *f = *state = calloc(1, sizeof *f);
    const int64_t shape = BYTES;
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "w",
                                .dtype = PAWL_U8,
                                .ndim = 1,
                                .shape = &shape,
                                .data = f->bytes};
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = 1}};
    directory_enter_new(f->directory);
    f->err = pawl_error_new();
    assert_ok(pawl_state_new(&f->state, f->err), f->err);
    assert_ok(pawl_state_add_tensor(f->state, &tensor, f->err), f->err);
    assert_ok(pawl_run_open(RUN, &options, &f->run, f->err), f->err);
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    (void)pawl_run_close(f->run, 0, f->err);
    pawl_state_free(f->state);
    pawl_error_free(f->err);
    directory_leave(f->directory);
    free(f);
    return 0;
}

static void save(fixture *f, int64_t step) {
    assert_ok(pawl_save(f->run, f->state, step, NULL, f->err), f->err);
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
}

static pawl_checkpoint *begin_to_read(fixture *f, int64_t step) {
    pawl_checkpoint *checkpoint;
    assert_ok(pawl_checkpoint_open(RUN, AT_STEP(step), &checkpoint, f->err), f->err);
    return checkpoint;
}

static int names_in(const char *path) {
    int count = 0;
    DIR *directory = opendir(path);
    while (directory != NULL && readdir(directory) != NULL) {
        count++;
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return count;
}

/* One step, whose directory holds a manifest, an index and a data file. */
static void expect_one_step(int64_t step) {
    char path[64];
    int steps = 0;
    DIR *run = opendir(RUN);
    assert_non_null(run);
    for (const struct dirent *entry; (entry = readdir(run)) != NULL;) {
        steps += strncmp(entry->d_name, "step-", strlen("step-")) == 0;
    }
    (void)closedir(run);
    assert_int_equal(steps, 1);
    (void)snprintf(path, sizeof path, RUN "/step-%08lld", (long long)step);
    assert_int_equal(names_in(path), 2 + 3);
}

static void test_a_step_saved_again_while_it_was_read(void **state) {
    fixture *f = *state;
    save(f, 3);
    pawl_checkpoint *reader = begin_to_read(f, 3);
    save(f, 3);
    assert_int_equal(names_in(RUN "/step-00000003"), 2 + 3 + 2 + 1); /* both, and the mark */
    pawl_checkpoint_close(reader);
    save(f, 4);
    expect_one_step(4);
}

static void test_a_step_saved_again_stays_without_its_old_files(void **state) {
    const pawl_run_options options = {.struct_size = sizeof options};
    fixture *f = *state;
    assert_ok(pawl_run_close(f->run, 0, f->err), f->err); /* every step stays in the next one */
    assert_ok(pawl_run_open(RUN, &options, &f->run, f->err), f->err);
    save(f, 3);
    pawl_checkpoint *reader = begin_to_read(f, 3);
    save(f, 3);
    save(f, 4);
    pawl_checkpoint_close(reader);
    save(f, 5);
    assert_int_equal(names_in(RUN "/step-00000003"), 2 + 3);
}

static void test_a_reader_that_is_there_when_the_next_two_are_saved(void **state) {
    fixture *f = *state;
    save(f, 3);
    pawl_checkpoint *reader = begin_to_read(f, 3);
    save(f, 3);
    save(f, 4); /* 3 is being read, and stays */
    assert_ok(pawl_checkpoint_verify(reader, NULL, NULL, f->err), f->err);
    pawl_checkpoint_close(reader);
    save(f, 5);
    expect_one_step(5);
}

static void test_a_second_reader_takes_over_from_the_first(void **state) {
    fixture *f = *state;
    save(f, 3);
    pawl_checkpoint *first = begin_to_read(f, 3);
    save(f, 3);
    pawl_checkpoint *second = begin_to_read(f, 3);
    pawl_checkpoint_close(first);
    save(f, 4);
    pawl_checkpoint_close(second);
    save(f, 5);
    expect_one_step(5);
}

/* Empty directories that a killed look, or a killed proof, left on storage that is late. */
static void test_what_looks_left_is_removed_by_gc(void **state) {
    fixture *f = *state;
    save(f, 3);
    assert_int_equal(mkdir(RUN "/.pawl-look", 0755), 0);
    assert_int_equal(mkdir(RUN "/step-00000003/.pawl-look", 0755), 0);
    assert_int_equal(mkdir(RUN "/step-00000004", 0755), 0);
    assert_int_equal(mkdir(RUN "/step-00000004/.pawl-look", 0755), 0);
    assert_int_equal(mkdir(RUN "/step-00000004/manifest.json", 0755), 0);
    assert_ok(pawl_run_gc(f->run, 0, NULL, NULL, f->err), f->err);
    expect_one_step(3);
    assert_int_equal(access(RUN "/.pawl-look", F_OK), -1);
}

static void read_until_told(const atomic_bool *enough) {
    pawl_error *err = pawl_error_new();
    while (!atomic_load(enough)) {
        pawl_checkpoint *checkpoint;
        if (pawl_checkpoint_open(RUN, NULL, &checkpoint, err) == PAWL_OK) {
            (void)!pawl_checkpoint_verify(checkpoint, NULL, NULL, err);
            pawl_checkpoint_close(checkpoint);
        }
    }
    pawl_error_free(err);
}

/* Readers come and go while steps are saved and removed; when they have ended, the next save finds
 * everything that had to stay for them. */
static void test_nothing_stays_of_what_was_removed_under_readers(void **state) {
    fixture *f = *state;
    pid_t readers[3];
    atomic_bool *enough =
        mmap(NULL, sizeof *enough, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(enough, MAP_FAILED);
    save(f, 0);
    for (int i = 0; i < 3; i++) {
        (void)fflush(NULL);
        readers[i] = fork();
        assert_true(readers[i] >= 0);
        if (readers[i] == 0) {
            read_until_told(enough);
            _exit(0);
        }
    }
    int64_t step = 1;
    for (; step < 100; step++) {
        save(f, step);
    }
    atomic_store(enough, true);
    for (int i = 0; i < 3; i++) {
        int status;
        assert_int_equal(waitpid(readers[i], &status, 0), readers[i]);
    }
    save(f, step);
    expect_one_step(step);
    (void)munmap(enough, sizeof *enough);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_step_saved_again_while_it_was_read, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_step_saved_again_stays_without_its_old_files, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_reader_that_is_there_when_the_next_two_are_saved,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_second_reader_takes_over_from_the_first, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_looks_left_is_removed_by_gc, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_stays_of_what_was_removed_under_readers,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
