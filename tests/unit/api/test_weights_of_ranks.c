/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks restore weights of another tool together: each opens a directory of its own, or all the
 * same, as threads. */
#include "lib/directory.h"
#include "lib/local_group.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utime.h>

#define RANKS    3
#define TENSORS  3
#define ELEMENTS (256 << 10)

typedef struct fixture {
    char here[64], there[64];
    const char *paths[RANKS]; /* that the ranks open */
    local_group *group;       /* NULL: without callbacks */
    const char *cut;          /* its file is cut by rank 1, between opening and restoring */
    float restored[RANKS][ELEMENTS];
    pawl_error *err[RANKS];
    pawl_status status[RANKS];
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof *f);
    assert_non_null(f);
    directory_new(f->here, ".");
    directory_new(f->there, ".");
    for (int r = 0; r < RANKS; r++) {
        f->err[r] = pawl_error_new();
        f->paths[r] = f->here;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    directory_delete(f->here);
    directory_delete(f->there);
    for (int r = 0; r < RANKS; r++) {
        pawl_error_free(f->err[r]);
    }
    if (f->group != NULL) {
        local_group_free(f->group);
    }
    mem_free(f);
    return 0;
}

/* The values of a tensor are `first`, `first` + 1, ... */
static void put_weights(const char *dir, const char *const names[TENSORS],
                        const int first[TENSORS]) {
    static float values[ELEMENTS];
    char header[1024];
    int n = snprintf(header, sizeof header, "{");
    for (int i = 0; i < TENSORS; i++) {
        n += snprintf(header + n, sizeof header - (size_t)n,
                      "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}",
                      i > 0 ? "," : "", names[i], ELEMENTS, (size_t)i * sizeof values,
                      (size_t)(i + 1) * sizeof values);
    }
    n += snprintf(header + n, sizeof header - (size_t)n, "}");
    const uint8_t length[8] = {(uint8_t)n, (uint8_t)(n >> 8)};
    FILE *file = fopen(directory_path(dir, "model.safetensors"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(length, 1, 8, file), 8);
    assert_int_equal(fwrite(header, 1, (size_t)n, file), n);
    for (int i = 0; i < TENSORS; i++) {
        for (int k = 0; k < ELEMENTS; k++) {
            values[k] = (float)(first[i] + k);
        }
        assert_int_equal(fwrite(values, sizeof values[0], ELEMENTS, file), ELEMENTS);
    }
    assert_int_equal(fclose(file), 0);
}

static const char *const abc[] = {"a", "b", "c"};

static void restore_one(void *context, int r) {
    static const int64_t shape[] = {ELEMENTS};
    fixture *f = context;
    pawl_state *state = NULL;
    pawl_checkpoint *weights = NULL;
    pawl_group group = {.struct_size = sizeof group, .launch = "job.1"};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "b",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = f->restored[r],
                                .role = PAWL_ROLE_MODEL,
                                .replicated = 1};
    if (f->group != NULL) {
        group = local_group_of(f->group, r);
    }
    group.rank = r;
    group.world_size = RANKS;
    const pawl_restore_options options = {.struct_size = sizeof options,
                                          .group = &group,
                                          .group_deadline_s = 10,
                                          .unexpected = PAWL_POLICY_ALLOW};
    assert_ok(pawl_state_new(&state, f->err[r]), f->err[r]);
    assert_ok(pawl_state_add_tensor(state, &tensor, f->err[r]), f->err[r]);
    assert_ok(pawl_checkpoint_open(f->paths[r], NULL, &weights, f->err[r]), f->err[r]);
    if (f->cut != NULL && r == 1) {
        assert_int_equal(truncate(directory_path(f->cut, "model.safetensors"), 4096), 0);
    }
    f->status[r] = pawl_checkpoint_restore(weights, state, &options, NULL, f->err[r]);
    pawl_checkpoint_close(weights);
    pawl_state_free(state);
}

static void restore_with_callbacks(fixture *f) {
    f->group = f->group != NULL ? f->group : local_group_new(RANKS);
    local_group_run(RANKS, restore_one, f);
}

static void assert_all_have(const fixture *f, int first) {
    for (int r = 0; r < RANKS; r++) {
        assert_ok(f->status[r], f->err[r]);
        assert_true(f->restored[r][0] == (float)first);
        assert_true(f->restored[r][ELEMENTS - 1] == (float)(first + ELEMENTS - 1));
    }
}

/* ---- without callbacks ---- */

/* A directory of weights belongs to another tool: nothing is ever written into it. */
static void test_ranks_without_callbacks_are_refused_at_once(void **state) {
    fixture *f = *state;
    put_weights(f->here, abc, (const int[]){1, 2, 3});
    double begun_s = test_now_s();
    for (int r = RANKS - 1; r >= 0; r--) { /* each by itself: no other rank is there */
        restore_one(f, r);
        assert_int_equal(directory_count(f->here), 1);
        assert_fails(f->status[r], PAWL_EUSAGE, f->err[r]);
        assert_string_equal(pawl_error_get(f->err[r], PAWL_ERROR_ATTEMPT),
                            "restoring model.safetensors: ranks without callbacks cannot restore "
                            "weights together");
        assert_says(pawl_error_get(f->err[r], PAWL_ERROR_NEXT), "gather and broadcast");
        assert_says(pawl_error_get(f->err[r], PAWL_ERROR_NEXT), "by itself, without a group");
        assert_true(f->restored[r][1] == 0);
    }
    assert_true(test_now_s() - begun_s < 5); /* the deadline of one rank is 10 s */
}

/* ---- with callbacks ---- */

static void test_the_same_weights_are_restored_by_all(void **state) {
    fixture *f = *state;
    put_weights(f->here, abc, (const int[]){1, 2, 3});
    restore_with_callbacks(f);
    assert_all_have(f, 2);
    assert_int_equal(directory_count(f->here), 1);
}

/* As on the local disks of several nodes: other paths, copied at other times. */
static void test_copies_on_other_disks_are_the_same(void **state) {
    fixture *f = *state;
    put_weights(f->here, abc, (const int[]){1, 2, 3});
    put_weights(f->there, abc, (const int[]){1, 2, 3});
    const struct utimbuf past = {.actime = 1000000, .modtime = 1000000};
    assert_int_equal(utime(directory_path(f->there, "model.safetensors"), &past), 0);
    f->paths[1] = f->there;
    restore_with_callbacks(f);
    assert_all_have(f, 2);
}

static void assert_different(const fixture *f) {
    for (int r = 0; r < RANKS; r++) {
        pawl_error *err = f->err[r];
        assert_fails(f->status[r], PAWL_EMISMATCH, err);
        assert_string_equal(pawl_error_get(err, PAWL_ERROR_ATTEMPT),
                            "restoring model.safetensors: the ranks have opened different "
                            "checkpoints");
        assert_says(pawl_error_get(err, PAWL_ERROR_FOUND), "ranks 0 and 2: safetensors (3 entries");
        assert_says(pawl_error_get(err, PAWL_ERROR_FOUND), "; rank 1: safetensors (3 entries");
        assert_says(pawl_error_get(err, PAWL_ERROR_NEXT), "pawl diff");
        assert_null(strstr(pawl_error_text(err), "step"));
        assert_true(f->restored[r][1] == 0);
    }
}

/* R11: one tensor that lies between others differs; all that describes the two is the same. */
static void test_r11_other_values_under_the_same_header(void **state) {
    fixture *f = *state;
    put_weights(f->here, abc, (const int[]){1, 2, 3});
    put_weights(f->there, abc, (const int[]){1, 5, 3});
    f->paths[1] = f->there;
    restore_with_callbacks(f);
    assert_different(f);
}

static void test_r11_other_names_with_the_same_sizes(void **state) {
    static const char *const abd[] = {"a", "b", "d"};
    fixture *f = *state;
    put_weights(f->here, abc, (const int[]){1, 1, 1});
    put_weights(f->there, abd, (const int[]){1, 1, 1});
    f->paths[1] = f->there;
    restore_with_callbacks(f);
    assert_different(f);
}

static void test_r11_a_file_that_one_rank_cannot_read_fails_on_all(void **state) {
    fixture *f = *state;
    put_weights(f->here, abc, (const int[]){1, 2, 3});
    put_weights(f->there, abc, (const int[]){1, 2, 3});
    f->paths[1] = f->there;
    f->cut = f->there;
    restore_with_callbacks(f);
    for (int r = 0; r < RANKS; r++) {
        assert_fails(f->status[r], PAWL_EBUSY, f->err[r]);
        assert_says(pawl_error_get(f->err[r], PAWL_ERROR_ATTEMPT),
                    "restoring model.safetensors: rank 1 (host ");
        assert_true(f->restored[r][1] == 0);
    }
}

#define IN_DIRECTORIES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORIES(test_ranks_without_callbacks_are_refused_at_once),
        IN_DIRECTORIES(test_the_same_weights_are_restored_by_all),
        IN_DIRECTORIES(test_copies_on_other_disks_are_the_same),
        IN_DIRECTORIES(test_r11_other_values_under_the_same_header),
        IN_DIRECTORIES(test_r11_other_names_with_the_same_sizes),
        IN_DIRECTORIES(test_r11_a_file_that_one_rank_cannot_read_fails_on_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
