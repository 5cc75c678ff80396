/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of each rank's own that are larger than a value may be: loader states of tens of MB. */
#include "unit/run/job.h"

#include "lib/random.h"

#define STEP 100

/* Of all four kinds: nothing, what a value may have, a little more, and much more. */
static const size_t sizes[JOB_RANKS] = {0, PAWL_MAX_VALUE_BYTES, PAWL_MAX_VALUE_BYTES + 1,
                                        (size_t)24 << 20};

static uint8_t *loader_of(int rank) {
    uint8_t *bytes = mem_alloc(sizes[rank]);
    test_random r = {.state = (uint64_t)rank + 1};
    assert_non_null(bytes);
    random_fill(&r, bytes, sizes[rank]);
    return bytes;
}

static void set_loader(pawl_state *state, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(state_set_value(state, "loader", PAWL_KIND_BYTES, PAWL_ROLE_DATA_POSITION, true,
                              bytes, n, &err),
              &err);
}

static void assert_loader(const pawl_state *state, int rank) {
    struct pawl_error err = ERROR_INIT;
    AUTOFREE uint8_t *wanted = loader_of(rank);
    const state_entry *e = NULL;
    assert_ok(state_get_value(state, "loader", PAWL_KIND_BYTES, &e, &err), &err);
    assert_int_equal(e->value_bytes, sizes[rank]);
    assert_int_equal(memcmp(e->value, wanted, sizes[rank]), 0);
}

static void restore_rank(job_rank *r, const void *with) {
    pawl_restore_options options = *(const pawl_restore_options *)with;
    options.struct_size = sizeof options;
    r->err = ERROR_INIT;
    r->status = run_restore(r->run, r->state, &options, NULL, &r->err);
}

static int set_up(void **state) {
    int failed = job_set_up(state);
    job *j = *state;
    for (int r = 0; r < JOB_RANKS; r++) {
        AUTOFREE uint8_t *bytes = loader_of(r);
        set_loader(j->ranks[r].state, bytes, sizes[r]);
    }
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, STEP);
    return failed;
}

static pawl_checkpoint *open_checkpoint(job *j) {
    struct pawl_error err = ERROR_INIT;
    const pawl_log none = {0};
    pawl_checkpoint *c;
    assert_ok(checkpoint_open(j->disk, false, STEP, platform_system(), &none, &c, &err), &err);
    return c;
}

static void assert_all_is_there(pawl_checkpoint *c) {
    struct pawl_error err = ERROR_INIT;
    for (int r = 0; r < JOB_RANKS; r++) {
        AUTOFREE uint8_t *wanted = loader_of(r);
        AUTOFREE uint8_t *there = mem_alloc(sizes[r]);
        size_t size = 0;
        assert_ok(checkpoint_read_rank(c, "loader", r, NULL, 0, &size, &err), &err);
        assert_int_equal(size, sizes[r]);
        assert_ok(checkpoint_read_rank(c, "loader", r, there, sizes[r], &size, &err), &err);
        assert_int_equal(memcmp(there, wanted, size), 0);
    }
}

static void test_each_rank_gets_its_own_back(void **state) {
    job *j = *state;
    job_check_rows(j, STEP);
    for (int r = 0; r < JOB_RANKS; r++) {
        set_loader(j->ranks[r].state, "else", 4);
    }
    job_all(j, restore_rank, &(pawl_restore_options){0});
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_ok(j->ranks[r].status, &j->ranks[r].err);
        assert_loader(j->ranks[r].state, r);
    }
}

static void test_any_reader_has_those_of_each_rank(void **state) {
    struct pawl_error err = ERROR_INIT;
    job *j = *state;
    pawl_checkpoint *c = open_checkpoint(j);
    pawl_verify_options options = {.struct_size = sizeof options};
    pawl_verify_result result = {.struct_size = sizeof result};
    assert_all_is_there(c);
    assert_ok(checkpoint_verify(c, &options, &result, &err), &err);
    pawl_checkpoint_close(c);
}

/* R10, as for small ones: another number of ranks is refused, or each takes its own on request. */
static void test_r10_another_number_of_ranks_is_refused(void **state) {
    struct pawl_error err = ERROR_INIT;
    job *j = *state;
    pawl_checkpoint *c = open_checkpoint(j);
    pawl_state *alone = j->ranks[3].state;
    pawl_restore_options options = {.struct_size = sizeof options,
                                    .missing = PAWL_POLICY_ALLOW,
                                    .unexpected = PAWL_POLICY_ALLOW};
    assert_fails(checkpoint_restore(c, alone, &options, 0, 1, NULL, &err), PAWL_EMISMATCH, &err);
    assert_loader(alone, 3);
    options.per_rank = PAWL_POLICY_ALLOW;
    assert_ok(checkpoint_restore(c, alone, &options, 0, 1, NULL, &err), &err);
    assert_loader(alone, 0);
    pawl_checkpoint_close(c);
}

/* The index that is made of the data files alone. */
static void test_a_rebuilt_index_has_them(void **state) {
    struct pawl_error err = ERROR_INIT;
    job *j = *state;
    job_rank *alone = &j->ranks[0];
    pawl_run *run;
    store *seen;
    job_close(j);
    assert_ok(store_trace_wrap(alone->fault, &alone->os, NULL, NULL, &seen, &err), &err);
    assert_ok(run_open(seen, NULL, &alone->os, &run, &err), &err);
    assert_ok(run_rebuild(run, STEP, false, &err), &err);
    assert_ok(run_close(run, 30, &err), &err);
    pawl_checkpoint *c = open_checkpoint(j);
    assert_all_is_there(c);
    pawl_checkpoint_close(c);
}

/* In the middle of what rank 3 wrote, which is its bytes but for a little. */
static void damage_rank_3(job *j) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    CLEANUP(buffer_free) buffer bytes = {0};
    char path[256] = "";
    char **names;
    size_t count = 0;
    assert_ok(store_names(j->disk, "step-00000100", 100, &memory, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], "data-", 5) == 0 && strstr(names[i], "-r00003-") != NULL) {
            (void)snprintf(path, sizeof path, "step-00000100/%s", names[i]);
        }
    }
    assert_ok(store_read_file(j->disk, path, 1U << 30, &bytes, &err), &err);
    bytes.data[bytes.size / 2] ^= 1;
    put_anew(j->disk, path, bytes.data, bytes.size);
}

static void test_a_damaged_byte_is_found_and_no_rank_restores(void **state) {
    const int64_t step = STEP;
    struct pawl_error err = ERROR_INIT;
    job *j = *state;
    damage_rank_3(j);
    job_all(j, restore_rank, &(pawl_restore_options){.step = &step});
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_fails(j->ranks[r].status, PAWL_EDAMAGED, &j->ranks[r].err);
        assert_string_equal(j->ranks[r].err.entry, "loader");
    }
    pawl_checkpoint *c = open_checkpoint(j);
    AUTOFREE uint8_t *there = mem_alloc(sizes[3]);
    size_t size;
    assert_fails(checkpoint_read_rank(c, "loader", 3, there, sizes[3], &size, &err), PAWL_EDAMAGED,
                 &err);
    assert_string_equal(err.entry, "loader");
    pawl_checkpoint_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_rank_gets_its_own_back, set_up, job_tear_down),
        cmocka_unit_test_setup_teardown(test_any_reader_has_those_of_each_rank, set_up,
                                        job_tear_down),
        cmocka_unit_test_setup_teardown(test_r10_another_number_of_ranks_is_refused, set_up,
                                        job_tear_down),
        cmocka_unit_test_setup_teardown(test_a_rebuilt_index_has_them, set_up, job_tear_down),
        cmocka_unit_test_setup_teardown(test_a_damaged_byte_is_found_and_no_rank_restores, set_up,
                                        job_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
