/* SPDX-License-Identifier: Apache-2.0 */
/* votes: what a rank says of its part of a save, and that rank 0 reads just that. */
#include "unit/votes/voting.h"
#include "votes/private.h"

#include "lib/failing_memory.h"
#include "votes/private.h"

static int set_up(void **state) {
    static voting f;
    voting_begin(&f, 4);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    voting_end(*state);
    return 0;
}

/* A matrix in rows, a bias that is everywhere, two values and a blob of each rank's own. */
static void fill(voting *f) {
    static float rows[8][16];
    static float bias[10];
    static const int64_t matrix[] = {8, 16};
    static const int64_t vector[] = {10};
    const int64_t extent[] = {2, 16};
    for (int r = 0; r < f->world_size; r++) {
        const int64_t offset[] = {2 * r, 0};
        const int64_t step = 100;
        uint8_t rng[4] = {(uint8_t)r};
        voting_tensor(f, r, "model/w", 2, matrix, offset, extent, rows[(ptrdiff_t)2 * r], 0);
        voting_tensor(f, r, "model/b", 1, vector, NULL, NULL, bias, 1);
        voting_value(f, r, "class", PAWL_KIND_STRING, false, "adam", 4);
        voting_value(f, r, "rng", PAWL_KIND_BYTES, true, rng, sizeof rng);
        voting_value(f, r, "step", PAWL_KIND_INT64, false, &step, sizeof step);
    }
}

/* The head says who voted, for which files, and what all ranks must have alike. */
static void test_a_vote_comes_back(void **state) {
    voting *f = *state;
    fill(f);
    voting_vote_all(f);
    voting_collect(f);
    for (int r = 0; r < f->world_size; r++) {
        char name[80];
        const vote *head = &f->votes.heads[r];
        assert_int_equal(head->step, 100);
        assert_int_equal(head->rank, r);
        assert_int_equal(head->world_size, 4);
        assert_string_equal(head->host, f->os.identity.host);
        assert_int_equal(head->pid, f->os.identity.pid);
        assert_false(head->skipped);
        assert_null(head->failed);
        assert_int_equal(head->file_count, 1);
        name_data(name, VOTING_TAG, r, 0, 1);
        assert_string_equal(head->files[0].name, name);
        assert_int_equal(head->structure_crc32c, f->votes.heads[0].structure_crc32c);
        assert_int_equal(head->values_crc32c, f->votes.heads[0].values_crc32c);
    }
}

/* Rank 0 keeps its vote to itself; the others' are files beside the data; the structure lies once
 * in the run's directory. */
static void test_votes_and_structure_are_files(void **state) {
    voting *f = *state;
    char name[80];
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    fill(f);
    voting_vote_all(f);
    voting_collect(f);
    assert_false(is_there(f->disk, "step-00000100/vote-" VOTING_TAG "-r00000"));
    assert_true(is_there(f->disk, "step-00000100/vote-" VOTING_TAG "-r00003"));
    assert_false(is_there(f->disk, "step-00000100/vote-" VOTING_TAG "-r00003.tmp"));
    name_structure(name, "7f3a9c21e04b", f->votes.heads[0].structure_crc32c,
                   f->votes.heads[0].structure_bytes);
    assert_ok(store_read_file(f->disk, name, 4096, &text, &err), &err);
    assert_string_equal((char *)text.data, "class\tstring that all ranks share (other)\n"
                                           "model/b\treplicated tensor [10] F32\n"
                                           "rng\tbytes of each rank's own (other)\n"
                                           "step\tint64 that all ranks share (other)\n");
}

/* A rank that failed tells why, and one that was still busy says so; both leave all else out. */
static void test_a_rank_votes_that_it_failed_or_skipped(void **state) {
    voting *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error why = ERROR_INIT;
    struct pawl_error told = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    vote head;
    error_set(&why, PAWL_ENOSPACE, "the disk is full");
    const ballot failed = {
        .directory = f->directory, .tag = VOTING_TAG, .step = 100, .failed = &why};
    const ballot skipped = {
        .directory = f->directory, .tag = VOTING_TAG, .step = 100, .skipped = true};
    assert_ok(vote_cast(voting_ranks(f, 1), &failed, &err), &err);
    assert_ok(vote_cast(voting_ranks(f, 2), &skipped, &err), &err);
    assert_ok(vote_read_head(f->disk, f->directory, VOTING_TAG, 1, &memory, &head, &err), &err);
    assert_non_null(head.failed);
    assert_int_equal(head.file_count, 0);
    assert_ok(failure_decode(head.failed, head.failed_bytes, &told, &err), &err);
    assert_status_text(&told, PAWL_ENOSPACE, "the disk is full");
    assert_ok(vote_read_head(f->disk, f->directory, VOTING_TAG, 2, &memory, &head, &err), &err);
    assert_true(head.skipped);
}

/* A vote that is not there is told apart from one that is damaged. */
static void test_a_vote_that_is_not_there(void **state) {
    voting *f = *state;
    CLEANUP(arena_free) arena memory = {0};
    vote head;
    assert_fails(vote_read_head(f->disk, f->directory, VOTING_TAG, 3, &memory, &head, &f->err),
                 PAWL_ENOTFOUND, &f->err);
}

/* A vote under another rank's name is not taken for that rank's. */
static void test_r14_a_vote_of_another_rank_is_refused(void **state) {
    voting *f = *state;
    CLEANUP(arena_free) arena memory = {0};
    vote head;
    fill(f);
    voting_vote(f, 2);
    assert_ok(store_rename(f->disk, "step-00000100/vote-" VOTING_TAG "-r00002",
                           "step-00000100/vote-" VOTING_TAG "-r00003", &f->err),
              &f->err);
    assert_fails(vote_read_head(f->disk, f->directory, VOTING_TAG, 3, &memory, &head, &f->err),
                 PAWL_EDAMAGED, &f->err);
    assert_says(f->err.attempt, "reading the vote of rank 3: it says that it is of another save or "
                                "rank");
    assert_says(f->err.path, "vote-" VOTING_TAG "-r00003");
}

/* What a rank did to the storage, an operation a line. */
typedef struct seen {
    char text[4096];
} seen;

static void take_event(void *context, const store_trace_event *event) {
    seen *told = context;
    size_t at = strlen(told->text);
    snprintf(told->text + at, sizeof told->text - at, "%s %s\n", store_op_name(event->op),
             event->to != NULL ? event->to : event->path);
}

/* G1: the names of the data files are durable before the vote is begun; the vote itself is never
 * synced. */
static void test_the_vote_comes_after_the_directory_is_synced(void **state) {
    voting *f = *state;
    seen told = {.text = ""};
    struct pawl_error err = ERROR_INIT;
    fill(f);
    store *traced;
    assert_ok(store_trace_wrap(f->disk, &f->os.table, take_event, &told, &traced, &err), &err);
    voting_ranks(f, 1)->store = traced;
    voting_vote(f, 1);
    voting_ranks(f, 1)->store = f->disk;
    store_destroy(traced);
    const char *synced = strstr(told.text, "sync_dir step-00000100\n");
    const char *begun = strstr(told.text, "open step-00000100/vote-");
    const char *published = strstr(told.text, "rename step-00000100/vote-" VOTING_TAG "-r00001\n");
    assert_non_null(synced);
    assert_non_null(begun);
    assert_non_null(published);
    assert_true(synced < begun && begun < published);
    assert_null(strstr(told.text, "sync step-00000100/vote-"));
}

/* A structure that the handle left once is not looked for again at the next save. */
static void test_the_structure_is_left_once(void **state) {
    voting *f = *state;
    seen told = {.text = ""};
    struct pawl_error err = ERROR_INIT;
    store *traced;
    fill(f);
    voting_vote(f, 0);
    assert_ok(store_trace_wrap(f->disk, &f->os.table, take_event, &told, &traced, &err), &err);
    voting_ranks(f, 0)->store = traced;
    const buffer text = {.data = (uint8_t *)"a\tb\n", .size = 4};
    structure_left left = {.bytes = 0};
    structure_leave(voting_ranks(f, 0), &text, crc32c(0, text.data, text.size), &left);
    assert_says(told.text, "open structure-7f3a9c21e04b-");
    told.text[0] = '\0';
    structure_leave(voting_ranks(f, 0), &text, crc32c(0, text.data, text.size), &left);
    assert_string_equal(told.text, "");
    voting_ranks(f, 0)->store = f->disk;
    store_destroy(traced);
}

static pawl_status vote_again(void *context, pawl_error *err) {
    voting *f = context;
    CLEANUP(buffer_free) buffer own = {0};
    struct pawl_error why = ERROR_INIT;
    error_set(&why, PAWL_ENOSPACE, "the disk is full");
    const ballot b = {.directory = f->directory, .tag = VOTING_TAG, .step = 100, .failed = &why};
    return vote_keep(voting_ranks(f, 0), &b, &own, err);
}

/* A failing allocation is told, and nothing leaks. */
static void test_failing_memory_is_told(void **state) {
    assert_true(failing_memory_each(vote_again, *state) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_a_vote_comes_back),
        TEST(test_votes_and_structure_are_files),
        TEST(test_a_rank_votes_that_it_failed_or_skipped),
        TEST(test_a_vote_that_is_not_there),
        TEST(test_r14_a_vote_of_another_rank_is_refused),
        TEST(test_the_vote_comes_after_the_directory_is_synced),
        TEST(test_the_structure_is_left_once),
        TEST(test_failing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
