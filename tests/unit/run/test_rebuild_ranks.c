/* SPDX-License-Identifier: Apache-2.0 */
/* A new index from the data files of many ranks. */
#include "lib/many_ranks.h"
#include "lib/training.h"

#define RANKS   3
#define ROWS    90
#define COLUMNS 7000 /* so that what is replicated is large enough to be cut */
#define TAG     "0123456789ab-1"

static uint8_t whole[ROWS * COLUMNS * 4]; /* of the replicated tensor */
static int32_t rows[ROWS * 4];            /* of the sharded one */

static void add_tensors(pawl_state *state, int rank) {
    struct pawl_error err = ERROR_INIT;
    const int64_t matrix[] = {ROWS, COLUMNS};
    const int64_t narrow[] = {ROWS, 4};
    const int64_t offset[] = {(int64_t)rank * ROWS / RANKS, 0};
    const int64_t extent[] = {ROWS / RANKS, 4};
    const pawl_box part = {
        .offset = offset, .extent = extent, .data = rows + (size_t)offset[0] * 4};
    pawl_tensor t = {.struct_size = sizeof(t),
                     .name = "replicated",
                     .dtype = PAWL_F32,
                     .ndim = 2,
                     .shape = matrix,
                     .data = whole,
                     .replicated = 1};
    assert_ok(state_add_tensor(state, &t, &err), &err);
    t = (pawl_tensor){.struct_size = sizeof(t),
                      .name = "sharded",
                      .dtype = PAWL_I32,
                      .ndim = 2,
                      .shape = narrow,
                      .nboxes = 1,
                      .boxes = &part};
    assert_ok(state_add_tensor(state, &t, &err), &err);
}

static pawl_state *state_of_rank(int rank) {
    struct pawl_error err = ERROR_INIT;
    pawl_state *state;
    char seed[32];
    int n = snprintf(seed, sizeof(seed), "seed of rank %d", rank);
    assert_ok(state_new(&state, &err), &err);
    add_tensors(state, rank);
    assert_ok(
        state_set_value(state, "seed", PAWL_KIND_BYTES, PAWL_ROLE_RNG, true, seed, (size_t)n, &err),
        &err);
    assert_ok(
        state_set_value(state, "note", PAWL_KIND_STRING, PAWL_ROLE_OTHER, false, "all", 3, &err),
        &err);
    return state;
}

/* The data files of step 500, of so many ranks of which `world_size` were to come. */
static void write_ranks(training *f, const char *tag, int ranks, int world_size) {
    struct pawl_error err = ERROR_INIT;
    const engine_options options = {.platform = &f->os.table, .budget_bytes = ENGINE_MIN_BUDGET};
    engine *e;
    assert_ok(engine_new(&options, &e, &err), &err);
    (void)!store_make_dir(f->disk, "step-00000500", &err); /* it may be there */
    for (int rank = 0; rank < ranks; rank++) {
        const plan_layout_options layout = {.tag = tag, .rank = rank, .world_size = world_size};
        rank_part part;
        pawl_state *state = state_of_rank(rank);
        rank_part_write(e, f->disk, "step-00000500", state, 500, &layout, &part);
        rank_part_free(&part);
        state_free(state);
    }
    assert_ok(engine_free(e, 0, &err), &err);
}

static void fill(void) {
    test_random r = {.state = 1};
    random_fill(&r, whole, sizeof(whole));
    for (int32_t i = 0; i < ROWS * 4; i++) {
        rows[i] = i;
    }
}

static int set_up(void **state) {
    (void)training_set_up(state);
    fill();
    training_open_run(*state);
    return 0;
}

static void assert_all_is_there(training *f) {
    struct pawl_error err = ERROR_INIT;
    int32_t sharded[ROWS * 4];
    char text[32];
    AUTOFREE uint8_t *replicated = mem_alloc(sizeof(whole));
    assert_non_null(replicated);
    assert_ok(training_open(f, 500, &err), &err);
    assert_ok(
        checkpoint_read(f->checkpoint, "replicated", NULL, NULL, replicated, sizeof(whole), &err),
        &err);
    assert_memory_equal(replicated, whole, sizeof(whole));
    assert_ok(checkpoint_read(f->checkpoint, "sharded", NULL, NULL, sharded, sizeof(sharded), &err),
              &err);
    assert_memory_equal(sharded, rows, sizeof(rows));
    for (int rank = 0; rank < RANKS; rank++) {
        char seed[32];
        size_t size = 0;
        int n = snprintf(seed, sizeof(seed), "seed of rank %d", rank);
        assert_ok(
            checkpoint_read_rank(f->checkpoint, "seed", rank, text, sizeof(text), &size, &err),
            &err);
        assert_int_equal(size, n);
        assert_memory_equal(text, seed, size);
    }
    pawl_checkpoint_info info;
    checkpoint_describe(f->checkpoint, &info);
    assert_int_equal(info.world_size, RANKS);
    assert_int_equal(info.entries, 4);
}

static void test_files_of_many_ranks_are_put_together(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    write_ranks(f, TAG, RANKS, RANKS);
    assert_ok(run_rebuild(f->run, 500, false, &err), &err);
    assert_all_is_there(f);
}

/* What a save that was interrupted left behind is not taken for a set. */
static void test_files_of_the_first_ranks_alone_are_no_set(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    write_ranks(f, "0123456789ab-2", RANKS - 1, RANKS);
    assert_fails(run_rebuild(f->run, 500, false, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt,
                        "rebuilding step 500: step 500 has no complete set of data files");
    assert_string_equal(err.expected, "the files data-0123456789ab-2-r... of all ranks");
    assert_string_equal(err.found, "2 files, not all of rank 2");
    write_ranks(f, TAG, RANKS, RANKS);
    assert_ok(run_rebuild(f->run, 500, false, &err), &err);
    assert_all_is_there(f);
}

static void test_a_rank_in_the_middle_is_missed(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[128];
    char name[80];
    write_ranks(f, TAG, RANKS, RANKS);
    name_data(name, TAG, 1, 0, 1);
    snprintf(path, sizeof(path), "step-00000500/%s", name);
    assert_ok(store_unlink(f->disk, path, &err), &err);
    assert_fails(run_rebuild(f->run, 500, false, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.found, "2 files, not all of rank 1");
}

static void test_a_file_under_the_name_of_another_rank_is_refused(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char from[128];
    char to[128];
    char name[80];
    CLEANUP(buffer_free) buffer bytes = {0};
    write_ranks(f, TAG, RANKS, RANKS);
    name_data(name, TAG, 1, 0, 1);
    snprintf(from, sizeof(from), "step-00000500/%s", name);
    name_data(name, TAG, 2, 0, 1);
    snprintf(to, sizeof(to), "step-00000500/%s", name);
    training_take_file(f, from, &bytes);
    put_anew(f->disk, to, bytes.data, bytes.size);
    training_catch_up(f);
    assert_fails(run_rebuild(f->run, 500, true, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.expected, "rank 2");
    assert_string_equal(err.found, "rank 1");
}

/* Each with the right number of files, but two of them with the same rows. */
static void test_ranks_that_overlap_are_refused(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const engine_options options = {.platform = &f->os.table, .budget_bytes = ENGINE_MIN_BUDGET};
    engine *e;
    assert_ok(engine_new(&options, &e, &err), &err);
    assert_ok(store_make_dir(f->disk, "step-00000500", &err), &err);
    for (int rank = 0; rank < 2; rank++) {
        const plan_layout_options layout = {.tag = TAG, .rank = rank, .world_size = 2};
        const int64_t shape[] = {8};
        const int64_t offset[] = {rank * 3};
        const int64_t extent[] = {5};
        const pawl_box part = {.offset = offset, .extent = extent, .data = rows};
        const pawl_tensor t = {.struct_size = sizeof(t),
                               .name = "sharded",
                               .dtype = PAWL_I32,
                               .ndim = 1,
                               .shape = shape,
                               .nboxes = 1,
                               .boxes = &part};
        rank_part written;
        pawl_state *one;
        assert_ok(state_new(&one, &err), &err);
        assert_ok(state_add_tensor(one, &t, &err), &err);
        rank_part_write(e, f->disk, "step-00000500", one, 500, &layout, &written);
        rank_part_free(&written);
        state_free(one);
    }
    assert_ok(engine_free(e, 0, &err), &err);
    assert_fails(run_rebuild(f->run, 500, false, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "rebuilding step 500: pieces of a tensor overlap");
    assert_string_equal(err.entry, "sharded");
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define RUN(test) cmocka_unit_test_setup_teardown(test, set_up, training_tear_down)
        RUN(test_files_of_many_ranks_are_put_together),
        RUN(test_files_of_the_first_ranks_alone_are_no_set),
        RUN(test_a_rank_in_the_middle_is_missed),
        RUN(test_a_file_under_the_name_of_another_rank_is_refused),
        RUN(test_ranks_that_overlap_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
