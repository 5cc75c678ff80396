/* SPDX-License-Identifier: Apache-2.0 */
/* Readers in processes of their own beside a writer that keeps one checkpoint: at every instant
 * there is a committed one, and each look has to find it, whole. */
#include "lib/directory.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ELEMENTS  5000
#define READERS   2
#define SECONDS   2.0
#define MOST_SAID 2

typedef struct fixture {
    char path[64];
} fixture;

static int set_up(void **state) {
    static fixture f;
    directory_new(f.path, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    const fixture *f = *state;
    directory_delete(f->path);
    return 0;
}

static void fill(float *w, int64_t step) {
    for (size_t i = 0; i < ELEMENTS; i++) {
        w[i] = (float)((step * 31 + (int64_t)i) % 9973);
    }
}

/* ---- looks: each says what is wrong, or returns true ---------------------------------------- */

typedef bool look_fn(const char *path, pawl_error *err);

static bool wrong(const char *what, pawl_error *err) {
    static int said;
    if (said++ < MOST_SAID) {
        fprintf(stderr, "%s%s%s\n", what, err != NULL ? ": " : "",
                err != NULL ? pawl_error_text(err) : "");
    }
    return false;
}

static bool look_at_newest(const char *path, pawl_error *err) {
    static float found[ELEMENTS];
    static float wanted[ELEMENTS];
    pawl_checkpoint *c;
    pawl_checkpoint_info about = {.struct_size = sizeof about};
    if (pawl_checkpoint_open(path, NULL, &c, err) != PAWL_OK) {
        return wrong("open", err);
    }
    bool good = pawl_checkpoint_describe(c, &about, err) == PAWL_OK &&
                pawl_checkpoint_read(c, "w", NULL, NULL, found, sizeof found, err) == PAWL_OK;
    fill(wanted, about.step);
    good = good ? memcmp(found, wanted, sizeof wanted) == 0 || wrong("other bytes", NULL)
                : wrong("read", err);
    pawl_checkpoint_close(c);
    return good;
}

static bool look_and_verify(const char *path, pawl_error *err) {
    pawl_checkpoint *c;
    if (pawl_checkpoint_open(path, NULL, &c, err) != PAWL_OK) {
        return wrong("open", err);
    }
    bool good = pawl_checkpoint_verify(c, NULL, NULL, err) == PAWL_OK || wrong("verify", err);
    pawl_checkpoint_close(c);
    return good;
}

static bool look_at_all(const char *path, pawl_error *err) {
    pawl_catalog *catalog;
    size_t committed = 0;
    size_t damaged = 0;
    if (pawl_catalog_open(path, NULL, &catalog, err) != PAWL_OK) {
        return wrong("list", err);
    }
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        committed += pawl_catalog_get(catalog, i)->status == PAWL_STEP_COMMITTED;
        damaged += pawl_catalog_get(catalog, i)->status == PAWL_STEP_DAMAGED;
    }
    pawl_catalog_free(catalog);
    return (committed > 0 && damaged == 0) || wrong("no committed step, or a damaged one", NULL);
}

/* ---- beside a writer ------------------------------------------------------------------------ */

/* The reader's process; exits with 0 when all was right. */
static void read_until(const char *path, look_fn *look, int go) {
    char byte;
    pawl_error *err = pawl_error_new();
    bool good = read(go, &byte, 1) == 1;
    for (double end_s = test_now_s() + SECONDS; test_now_s() < end_s;) {
        good = look(path, err) && good;
    }
    pawl_error_free(err);
    _exit(good ? 0 : 1);
}

static void write_until(const char *path, int go) {
    static float w[ELEMENTS];
    static const int64_t shape[] = {ELEMENTS};
    pawl_error *err = pawl_error_new();
    pawl_run *run;
    pawl_state *state;
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "w",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = w};
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = 1}};
    assert_ok(pawl_state_new(&state, err), err);
    assert_ok(pawl_state_add_tensor(state, &tensor, err), err);
    assert_ok(pawl_run_open(path, &options, &run, err), err);
    double end_s = test_now_s() + SECONDS;
    for (int64_t step = 0; test_now_s() < end_s; step++) {
        fill(w, step);
        assert_ok(pawl_save(run, state, step, NULL, err), err);
        assert_ok(pawl_wait(run, 0, NULL, err), err);
        if (step == 0) {
            assert_int_equal(write(go, "gogogo", READERS), READERS);
            end_s = test_now_s() + SECONDS;
        }
    }
    assert_ok(pawl_run_close(run, 0, err), err);
    pawl_state_free(state);
    pawl_error_free(err);
}

static void read_beside(const fixture *f, look_fn *look) {
    pid_t readers[READERS];
    int go[2];
    assert_int_equal(pipe(go), 0);
    for (int i = 0; i < READERS; i++) {
        readers[i] = fork();
        assert_true(readers[i] >= 0);
        if (readers[i] == 0) {
            read_until(f->path, look, go[0]);
        }
    }
    write_until(f->path, go[1]);
    for (int i = 0; i < READERS; i++) {
        int status;
        assert_int_equal(waitpid(readers[i], &status, 0), readers[i]);
        assert_int_equal(status, 0);
    }
    close(go[0]);
    close(go[1]);
}

/* No open says that there is nothing, and each reads what was saved. */
static void test_05_the_newest_can_be_opened_at_every_instant(void **state) {
    read_beside(*state, look_at_newest);
}

/* No list is without a committed step. */
static void test_05_a_list_has_a_committed_step_at_every_instant(void **state) {
    read_beside(*state, look_at_all);
}

/* What opened verifies, whatever is removed meanwhile. */
static void test_05_what_is_open_verifies(void **state) {
    read_beside(*state, look_and_verify);
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_05_the_newest_can_be_opened_at_every_instant),
        TEST(test_05_a_list_has_a_committed_step_at_every_instant),
        TEST(test_05_what_is_open_verifies),
    };
    return cmocka_run_group_tests_name("05: readers beside a writer", tests, NULL, NULL);
}
