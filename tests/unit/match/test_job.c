/* SPDX-License-Identifier: Apache-2.0 */
/* R04 across the ranks of a job: what a rank lacks is noted, then compared, then told. */
#include "unit/match/fixture.h"

/* Places 0 to 3: what this rank shares with all, what it lacks, half of one that it holds, what it
 * leaves out. */
static void three_stages(fixture *f) {
    static const int64_t shape[] = {8};
    static const int64_t offset[] = {2};
    static const int64_t extent[] = {4};
    static float memory[8];
    const pawl_box part = {.offset = offset, .extent = extent, .data = memory};
    const pawl_tensor half = {.struct_size = sizeof half,
                              .name = "c",
                              .dtype = PAWL_F32,
                              .ndim = 1,
                              .shape = shape,
                              .nboxes = 1,
                              .boxes = &part,
                              .replicated = 1,
                              .replica_count = 3};
    const pawl_tensor all = {.struct_size = sizeof all,
                             .name = "a",
                             .dtype = PAWL_F32,
                             .ndim = 1,
                             .shape = shape,
                             .data = memory,
                             .replicated = 1};
    assert_ok(state_add_tensor(f->state, &all, &f->err), &f->err);
    assert_ok(state_add_tensor(f->state, &half, &f->err), &f->err);
    saved_tensor(f, "a", PAWL_F32, SHAPE(8));
    saved_tensor(f, "b", PAWL_F32, SHAPE(8));
    saved_tensor(f, "c", PAWL_F32, SHAPE(8));
    f->job = true;
    f->rank = 1;
    f->world_size = 3;
}

/* Before the ranks have compared what is lacking is noted, and not reported. */
static void test_r04_a_rank_of_a_job_notes_what_it_lacks(void **context) {
    fixture *f = *context;
    three_stages(f);
    match(f);
    assert_int_equal(pawl_report_count(f->report), 0);
    assert_false(f->match->refused);
    assert_int_equal(f->match->pair_count, 2);
    assert_int_equal(f->match->lacking, 1);
    assert_int_equal(f->match->stance_count, 3);
    const match_stance *s = f->match->stances;
    assert_int_equal(s[0].want, MATCH_SHARES);
    assert_int_equal(s[1].want, MATCH_LACKS);
    assert_int_equal(s[2].want, MATCH_HOLDS);
    assert_int_equal(s[2].copies, 3);
    assert_int_equal(s[2].held, 4);
    assert_int_equal(s[2].elements, 8);
}

/* What may be left out is nothing that this rank lacks. */
static void test_r04_a_rank_of_a_job_leaves_out_on_request(void **context) {
    fixture *f = *context;
    three_stages(f);
    f->options.unexpected = PAWL_POLICY_ALLOW;
    match(f);
    assert_int_equal(f->match->lacking, 0);
    assert_int_equal(f->match->stances[1].want, MATCH_LEAVES);
    assert_only_item(f, PAWL_DIFF_UNEXPECTED, PAWL_SEVERITY_NOTE, "b", "[8] F32", "(absent)",
                     "\"b\", [8] F32 in the checkpoint, is not in the state: it is left out");
}

static void match_with_fault(fixture *f, uint64_t place, match_job_error error, const char *lacking,
                             const char *holding) {
    struct pawl_error err = ERROR_INIT;
    match_job_faults faults = {.items = NULL};
    const match_job_fault fault = {
        .first = place, .count = 1, .error = error, .lacking = lacking, .holding = holding};
    three_stages(f);
    assert_ok(match_job_fault_add(&faults, &fault, &err), &err);
    f->faults = &faults;
    match(f);
    match_job_faults_free(&faults);
    f->faults = NULL;
}

static void test_r04_what_no_rank_wants(void **context) {
    fixture *f = *context;
    match_with_fault(f, 1, MATCH_NOBODY, "", "");
    assert_only_item(f, PAWL_DIFF_UNEXPECTED, PAWL_SEVERITY_ERROR, "b", "[8] F32", "(absent)",
                     "\"b\", [8] F32 in the checkpoint, is not in the state of any of the 3 ranks; "
                     "set options.unexpected = PAWL_POLICY_ALLOW to leave it out");
}

/* Also on a rank that has it. */
static void test_r04_what_not_all_ranks_have(void **context) {
    fixture *f = *context;
    match_with_fault(f, 0, MATCH_NOT_ALL, "rank 2", "ranks 0 and 1");
    assert_only_item(
        f, PAWL_DIFF_UNEXPECTED, PAWL_SEVERITY_ERROR, "a", "[8] F32", "(absent)",
        "\"a\", [8] F32 in the checkpoint, is in the state of ranks 0 and 1, declared "
        "as the same on all ranks, but not in that of rank 2; add it on rank 2, or set "
        "options.unexpected = PAWL_POLICY_ALLOW to leave it out there");
}

static void test_r04_what_is_held_in_part(void **context) {
    fixture *f = *context;
    match_with_fault(f, 2, MATCH_NOT_WHOLE, "rank 0", "ranks 1 and 2");
    assert_only_item(f, PAWL_DIFF_UNEXPECTED, PAWL_SEVERITY_ERROR, "c", "[8] F32", "(absent)",
                     "\"c\", [8] F32 in the checkpoint, is only in part in the state of ranks 1 "
                     "and 2, and not in that of rank 0; add it on rank 0, or set "
                     "options.unexpected = PAWL_POLICY_ALLOW to leave it out there");
}

/* R05: what is like a homeless entry may be in the state of another rank: a warning, no rename. */
static void test_r05_siblings_on_other_ranks_count(void **context) {
    fixture *f = *context;
    struct pawl_error err = ERROR_INIT;
    match_job_faults faults = {.items = NULL};
    const match_job_fault fault = {
        .first = 0, .count = 1, .error = MATCH_NOBODY, .lacking = "", .holding = ""};
    f->job = true;
    f->world_size = 2;
    f->rank = 1;
    saved_tensor(f, "dense/w", PAWL_F32, SHAPE(3));
    saved_tensor(f, "dense_1/w", PAWL_F32, SHAPE(3)); /* rank 0 has it */
    state_tensor(f, "dense_2/w", PAWL_F32, SHAPE(3));
    assert_ok(match_job_fault_add(&faults, &fault, &err), &err);
    f->faults = &faults;
    match(f);
    match_job_faults_free(&faults);
    f->faults = NULL;
    size_t last = pawl_report_count(f->report) - 1;
    assert_int_equal(item(f, last)->difference, PAWL_DIFF_RENAMED);
    assert_int_equal(item(f, last)->severity, PAWL_SEVERITY_WARNING);
    assert_int_equal(item(f, last)->remedy_count, 0);
    assert_string_equal(
        item(f, last)->text,
        "renumbered? \"dense/w\" is only in the checkpoint and \"dense_2/w\" only in the state; "
        "entries whose names differ from these in numbers alone match by name, but may have been "
        "renumbered, too; compare the two models before "
        "you allow what is missing or unexpected");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_BOTH(test_r04_a_rank_of_a_job_notes_what_it_lacks),
        WITH_BOTH(test_r04_a_rank_of_a_job_leaves_out_on_request),
        WITH_BOTH(test_r04_what_no_rank_wants),
        WITH_BOTH(test_r04_what_not_all_ranks_have),
        WITH_BOTH(test_r04_what_is_held_in_part),
        WITH_BOTH(test_r05_siblings_on_other_ranks_count),
    };
    return cmocka_run_group_tests_name("match as a rank of a job", tests, NULL, NULL);
}
