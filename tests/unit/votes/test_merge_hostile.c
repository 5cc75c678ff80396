/* SPDX-License-Identifier: Apache-2.0 */
/* merge: votes that are damaged, cut, or written to harm; many of them; and failing memory. */
#include "unit/votes/voting.h"

#include "format/vote.h"
#include "lib/directory.h"
#include "lib/failing_memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define RANKS 3
#define VOTE  "step-00000100/vote-" VOTING_TAG "-r00002"

static float part[4];

static void fill(voting *f) {
    const int64_t step = 100;
    const int64_t shape[] = {(int64_t)4 * f->world_size};
    static const int64_t vector[] = {4};
    static const int64_t extent[] = {4};
    for (int r = 0; r < f->world_size; r++) {
        const int64_t offset[] = {(int64_t)4 * r};
        voting_tensor(f, r, "model/w", 1, shape, offset, extent, part, 0);
        voting_tensor(f, r, "model/b", 1, vector, NULL, NULL, part, 1);
        voting_value(f, r, "step", PAWL_KIND_INT64, false, &step, sizeof step);
        voting_value(f, r, "rng", PAWL_KIND_BYTES, true, "x", 1);
    }
}

static int set_up(void **state) {
    static voting f;
    voting_begin(&f, RANKS);
    f.checking = true;
    fill(&f);
    voting_vote_all(&f);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    voting_end(*state);
    return 0;
}

/* As rank 0 does it: heads, agreement, merge. */
static pawl_status commit(voting *f, buffer *index, pawl_error *err) {
    job_ranks *self = voting_ranks(f, 0);
    merge_input in = voting_input(f);
    CLEANUP(votes_free) votes v = {.heads = NULL};
    merge *m = NULL;
    TRY(buffer_append(&v.own, f->votes.own.data, f->votes.own.size, err));
    TRY(votes_begin(self, VOTING_TAG, &v, err));
    for (int r = 1; r < f->world_size; r++) {
        TRY(vote_read_head(f->disk, f->directory, VOTING_TAG, r, &v.memory, &v.heads[r], err));
    }
    TRY(votes_agree(self, &v, 100, VOTING_TAG, err));
    in.votes = &v;
    TRY(merge_open(&in, &m, err));
    index->size = 0;
    pawl_status status = merge_write(m, byte_sink_buffer(index), &f->index, &f->entries, err);
    merge_close(m);
    return status;
}

static void put_vote(voting *f, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_replace(f->disk, VOTE, bytes, n, &err), &err);
}

static void get_vote(voting *f, buffer *out) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_read_file(f->disk, VOTE, 1 << 20, out, &err), &err);
}

/* ---- damage --------------------------------------------------------------------------------- */

/* Whichever byte of a vote is another one, the merge fails naming that vote, or is what it was:
 * never something else. */
static void test_r14_any_flipped_byte_is_noticed(void **state) {
    voting *f = *state;
    CLEANUP(buffer_free) buffer good = {0};
    CLEANUP(buffer_free) buffer bad = {0};
    CLEANUP(buffer_free) buffer bytes = {0};
    struct pawl_error err = ERROR_INIT;
    size_t refused = 0;
    assert_ok(commit(f, &good, &err), &err);
    get_vote(f, &bytes);
    for (size_t i = 0; i < bytes.size; i++) {
        bytes.data[i] ^= 0x10;
        put_vote(f, bytes.data, bytes.size);
        err = ERROR_INIT;
        pawl_status status = commit(f, &bad, &err);
        bytes.data[i] ^= 0x10;
        if (status == PAWL_OK) {
            assert_int_equal(bad.size, good.size);
            assert_memory_equal(bad.data, good.data, good.size);
            continue;
        }
        refused++;
        assert_true(status == PAWL_EDAMAGED || status == PAWL_EUNSUPPORTED ||
                    status == PAWL_ELIMIT);
        assert_says(err.attempt, "vote of rank 2");
    }
    assert_int_equal(refused, bytes.size);
}

/* However a vote is cut, it is refused. */
static void test_r14_any_cut_is_noticed(void **state) {
    voting *f = *state;
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(buffer_free) buffer index = {0};
    get_vote(f, &bytes);
    for (size_t n = 0; n < bytes.size; n++) {
        struct pawl_error err = ERROR_INIT;
        put_vote(f, bytes.data, n);
        assert_fails(commit(f, &index, &err), PAWL_EDAMAGED, &err);
        assert_says(err.attempt, "vote of rank 2");
    }
}

/* ---- lies ----------------------------------------------------------------------------------- */

typedef struct lie {
    const char *letter; /* of the first record that is changed */
    bool leave_out;
    const char *key; /* instead; NULL: as it is */
    size_t key_bytes;
    size_t at; /* of the value: this byte becomes ... */
    uint8_t byte;
    const char *more; /* the value of a record that comes before it under `key`, which is not its */
    size_t more_bytes;
    const char *words;
} lie;

/* Writes rank 2's vote again, with the lie in it and checksums that fit. */
static void tell(voting *f, const lie *l) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(buffer_free) buffer out = {0};
    table_writer *w = NULL;
    table *t = NULL;
    table_cursor *at = NULL;
    table_summary summary;
    bool told = false;
    get_vote(f, &bytes);
    assert_ok(table_open(byte_source_memory(&bytes), NULL, &t, &err), &err);
    assert_ok(table_cursor_new(t, &at, &err), &err);
    assert_ok(table_writer_new(byte_sink_buffer(&out), &w, &err), &err);
    for (pawl_status s = table_seek(at, "", 0, &err); s == PAWL_OK && table_valid(at);
         s = table_next(at, &err)) {
        const uint8_t *key, *value;
        size_t key_bytes, value_bytes;
        uint8_t changed[4096];
        table_item(at, &key, &key_bytes, &value, &value_bytes);
        memcpy(changed, value, value_bytes);
        if (!told && key[0] == (uint8_t)l->letter[0]) {
            told = true;
            if (l->more != NULL) {
                assert_ok(table_writer_add(w, l->key, l->key_bytes, l->more, l->more_bytes, &err),
                          &err);
            }
            changed[l->at] = l->more == NULL ? l->byte : changed[l->at];
            key = l->key != NULL && l->more == NULL ? (const uint8_t *)l->key : key;
            key_bytes = l->key != NULL && l->more == NULL ? l->key_bytes : key_bytes;
            if (l->leave_out) {
                continue;
            }
        }
        assert_ok(table_writer_add(w, key, key_bytes, changed, value_bytes, &err), &err);
    }
    assert_true(told);
    assert_ok(table_writer_finish(w, &summary, &err), &err);
    put_vote(f, out.data, out.size);
    table_cursor_free(at);
    table_writer_free(w);
    table_close(t);
}

/* A vote whose checksums fit and that says what cannot be is refused by what it says. */
static void test_r14_lies_are_refused(void **state) {
    voting *f = *state;
    static const lie lies[] = {
        {.letter = "c", .leave_out = true, .words = "its checksums are not those of its data"},
        {.letter = "c", .key = "c\0\0\0\1\0\0\0\0", .key_bytes = 9, .words = "its checksums"},
        {.letter = "e",
         .key = "c\0\0\0\1\0\0\0\0",
         .key_bytes = 9,
         .more = "abcd",
         .more_bytes = 4,
         .words = "its checksums are not those of its data"},
        {.letter = "e", .at = 12, .byte = 9, .words = "a piece lies outside the tensor"},
        {.letter = "v", .leave_out = true, .words = "it has no head"},
        {.letter = "e", .key = "d", .key_bytes = 1, .words = "it has a record of an unknown kind"},
        {.letter = "e", .at = 0, .byte = 9, .words = "record of an entry is wrong"},
        {.letter = "e", .key = "e../w", .key_bytes = 5, .words = "an entry of the index has a bad"},
        {.letter = "r", .at = 0, .byte = 60, .words = "record of replicas in a vote is wrong"},
        {.letter = "r", .key = "r/", .key_bytes = 2, .words = "has a bad name"},
    };
    CLEANUP(buffer_free) buffer honest = {0};
    CLEANUP(buffer_free) buffer index = {0};
    get_vote(f, &honest);
    for (size_t i = 0; i < ARRAY_LENGTH(lies); i++) {
        struct pawl_error err = ERROR_INIT;
        put_vote(f, honest.data, honest.size);
        tell(f, &lies[i]);
        pawl_status status = commit(f, &index, &err);
        assert_true(status == PAWL_EDAMAGED || status == PAWL_EUNSUPPORTED);
        assert_says(err.attempt, "vote");
        assert_says(err.attempt, lies[i].words);
    }
}

/* A rank cannot speak of another's pieces. */
static void test_r14_a_piece_of_another_rank_is_refused(void **state) {
    voting *f = *state;
    CLEANUP(buffer_free) buffer index = {0};
    struct pawl_error err = ERROR_INIT;
    /* model/w: 1, tensor, model, 0, F32, 1, shape 12, 1 piece, file, rank */
    tell(f, &(lie){.letter = "e", .at = 9, .byte = 1});
    assert_fails(commit(f, &index, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "reading the vote of rank 2: it has a piece of another rank");
    assert_string_equal(err.found, "a piece of rank 1");
}

/* What only one rank may write is not taken twice. */
static void test_r14_a_value_of_two_ranks_is_refused(void **state) {
    voting *f = *state;
    CLEANUP(buffer_free) buffer index = {0};
    struct pawl_error err = ERROR_INIT;
    /* int64, other, with its 8 bytes; one piece: file 0, rank 2, offset 0, 8 bytes */
    static const char value[] = "\1\3\7\4\10"
                                "\144\0\0\0\0\0\0\0"
                                "\1\0\2\0\10";
    tell(f, &(lie){.letter = "r",
                   .key = "estep",
                   .key_bytes = 5,
                   .more = value,
                   .more_bytes = sizeof value - 1});
    assert_fails(commit(f, &index, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.entry, "step");
    assert_string_equal(err.found, "ranks 0 and 2 both wrote it");
}

/* Nor is what is one thing on a rank and another thing on the next, where it has no shape. */
static void test_r14_a_value_that_is_another_thing_is_refused(void **state) {
    voting *f = *state;
    CLEANUP(buffer_free) buffer index = {0};
    struct pawl_error err = ERROR_INIT;
    /* bytes, other, per rank; one piece: file 0, rank 2, offset 0, 8 bytes */
    static const char value[] = "\1\6\7\1\1\0\2\0\10";
    tell(f, &(lie){.letter = "r",
                   .key = "estep",
                   .key_bytes = 5,
                   .more = value,
                   .more_bytes = sizeof value - 1});
    assert_fails(commit(f, &index, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.entry, "step");
    assert_string_equal(
        err.found, "int64 that all ranks share (other) on rank 0; bytes of each rank's own (other) "
                   "on rank 2");
}

/* ---- memory --------------------------------------------------------------------------------- */

static pawl_status commit_once(void *context, pawl_error *err) {
    CLEANUP(buffer_free) buffer index = {0};
    return commit(context, &index, err);
}

/* A failing allocation is told, and nothing leaks. */
static void test_failing_memory_is_told(void **state) {
    assert_true(failing_memory_each(commit_once, *state) > 0);
}

/* Thousands of votes are merged with little memory for each. */
static void test_many_ranks_take_little_memory(void **state) {
    (void)state;
    static voting f;
    struct pawl_error err = ERROR_INIT;
    merge *m = NULL;
    CLEANUP(buffer_free) buffer index = {0};
    voting_begin(&f, 4096);
    fill(&f);
    voting_vote_all(&f);
    voting_collect(&f);
    size_t before = mallinfo2().uordblks;
    const merge_input in = voting_input(&f);
    assert_ok(merge_open(&in, &m, &err), &err);
    size_t taken = mallinfo2().uordblks - before;
    assert_ok(merge_write(m, byte_sink_buffer(&index), &f.index, &f.entries, &err), &err);
    assert_int_equal(f.entries, 4);
    assert_true(taken < (size_t)4096 * 4096);
    merge_close(m);
    voting_end(&f);
}

/* No more files are open at a time than a process may have. */
static void test_many_votes_need_few_open_files(void **state) {
    (void)state;
    static voting f;
    struct rlimit usual;
    struct pawl_error err = ERROR_INIT;
    char root[64];
    CLEANUP(buffer_free) buffer index = {0};
    directory_new(root, "/tmp");
    voting_begin(&f, 64);
    store_destroy(f.disk);
    assert_ok(store_posix(root, &f.disk, &err), &err);
    assert_ok(store_make_dir(f.disk, f.directory, &err), &err);
    for (int r = 0; r < f.world_size; r++) {
        voting_ranks(&f, r)->store = f.disk;
    }
    fill(&f);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    const struct rlimit few = {.rlim_cur = 24, .rlim_max = usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    voting_vote_all(&f);
    pawl_status status = commit(&f, &index, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    assert_ok(status, &err);
    voting_end(&f);
    directory_delete(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_r14_any_flipped_byte_is_noticed),
        TEST(test_r14_any_cut_is_noticed),
        TEST(test_r14_lies_are_refused),
        TEST(test_r14_a_piece_of_another_rank_is_refused),
        TEST(test_r14_a_value_of_two_ranks_is_refused),
        TEST(test_r14_a_value_that_is_another_thing_is_refused),
        TEST(test_failing_memory_is_told),
        cmocka_unit_test(test_many_ranks_take_little_memory),
        cmocka_unit_test(test_many_votes_need_few_open_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
