/* SPDX-License-Identifier: Apache-2.0 */
/* merge: one index of many votes, or what does not fit together between them. */
#include "unit/votes/voting.h"

#include "lib/failing_memory.h"

#define RANKS   4
#define ROWS    8
#define COLUMNS 16

typedef struct job {
    voting f;
    float rows[ROWS][COLUMNS];
    float bias[10];
    pawl_dtype bias_dtype;
} job;

static int set_up(void **state) {
    static job j;
    j = (job){.bias_dtype = PAWL_F32};
    voting_begin(&j.f, RANKS);
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < COLUMNS; k++) {
            j.rows[i][k] = (float)(i * COLUMNS + k);
        }
    }
    for (int i = 0; i < 10; i++) {
        j.bias[i] = (float)i;
    }
    *state = &j;
    return 0;
}

static int tear_down(void **state) {
    job *j = *state;
    voting_end(&j->f);
    return 0;
}

static const int64_t matrix[] = {ROWS, COLUMNS};
static const int64_t vector[] = {10};

/* Rows [begin, end) of model/w on one rank. */
static void add_rows(job *j, int rank, int64_t begin, int64_t end) {
    const int64_t offset[] = {begin, 0};
    const int64_t extent[] = {end - begin, COLUMNS};
    voting_tensor(&j->f, rank, "model/w", 2, matrix, offset, extent, j->rows[begin % ROWS], 0);
}

static void add_rest(job *j, int rank) {
    const int64_t step = 100;
    uint8_t rng[4] = {(uint8_t)rank};
    voting_tensor(&j->f, rank, "model/b", 1, vector, NULL, NULL, j->bias, 1);
    voting_value(&j->f, rank, "rng", PAWL_KIND_BYTES, true, rng, sizeof rng);
    voting_value(&j->f, rank, "step", PAWL_KIND_INT64, false, &step, sizeof step);
}

static void fill(job *j) {
    for (int r = 0; r < RANKS; r++) {
        add_rows(j, r, 2 * r, 2 * r + 2);
        add_rest(j, r);
    }
}

static pawl_status vote_and_merge(job *j, buffer *index, pawl_error *err) {
    voting_vote_all(&j->f);
    voting_collect(&j->f);
    TRY(votes_agree(voting_ranks(&j->f, 0), &j->f.votes, 100, VOTING_TAG, err));
    return voting_merge(&j->f, index, err);
}

static void assert_refused(job *j, pawl_status status, const char *text) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer index = {0};
    assert_fails(vote_and_merge(j, &index, &err), status, &err);
    assert_status_text(&err, status, text);
}

/* The merged index opens as a checkpoint, verifies, and gives back every byte on one rank. */
static void test_merged_votes_are_a_checkpoint(void **state) {
    job *j = *state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer index = {0};
    pawl_checkpoint *c = NULL;
    float rows[ROWS][COLUMNS];
    float bias[10];
    uint8_t rng[4];
    size_t n;
    const int64_t zero[] = {0, 0};
    pawl_verify_result result;
    fill(j);
    assert_ok(vote_and_merge(j, &index, &err), &err);
    assert_int_equal(j->f.entries, 4);
    voting_publish(&j->f, &index);
    assert_ok(checkpoint_open(j->f.disk, false, 100, &j->f.os.table, &(pawl_log){0}, &c, &err),
              &err);
    assert_ok(checkpoint_verify(c,
                                &(pawl_verify_options){.struct_size = sizeof(pawl_verify_options)},
                                &result, &err),
              &err);
    assert_ok(checkpoint_read(c, "model/w", zero, matrix, rows, sizeof rows, &err), &err);
    assert_memory_equal(rows, j->rows, sizeof rows);
    assert_ok(checkpoint_read(c, "model/b", zero, vector, bias, sizeof bias, &err), &err);
    assert_memory_equal(bias, j->bias, sizeof bias);
    for (int r = 0; r < RANKS; r++) {
        assert_ok(checkpoint_read_rank(c, "rng", r, rng, sizeof rng, &n, &err), &err);
        assert_int_equal(n, sizeof rng);
        assert_int_equal(rng[0], r);
    }
    pawl_checkpoint_close(c);
}

/* ---- any division --------------------------------------------------------------------------- */

#define MOST 12

/* A matrix whose elements are their own numbers, cut into a grid of parts. */
typedef struct grid {
    int64_t shape[2];
    int64_t cuts[2][MOST + 1]; /* ascending; the first 0, the last the extent */
    int parts[2];
    float data[MOST * MOST];
} grid;

static void cut(test_random *random, grid *g, int d) {
    g->shape[d] = random_between(random, 1, MOST);
    g->parts[d] = (int)random_between(random, 1, 3);
    for (int i = 1; i < g->parts[d]; i++) {
        g->cuts[d][i] = random_between(random, g->cuts[d][i - 1], g->shape[d]);
    }
    g->cuts[d][g->parts[d]] = g->shape[d];
}

static void make_grid(test_random *random, grid *g) {
    *g = (grid){.parts = {0}};
    cut(random, g, 0);
    cut(random, g, 1);
    for (int i = 0; i < MOST * MOST; i++) {
        g->data[i] = (float)i;
    }
}

/* Part number `i` of the grid, on one rank; strides are those of the whole. */
static void add_part(voting *f, grid *g, int i, int rank, int replicas, int replica) {
    struct pawl_error err = ERROR_INIT;
    const int row = i / g->parts[1];
    const int column = i % g->parts[1];
    const int64_t offset[] = {g->cuts[0][row], g->cuts[1][column]};
    const int64_t extent[] = {g->cuts[0][row + 1] - offset[0], g->cuts[1][column + 1] - offset[1]};
    const int64_t strides[] = {g->shape[1] * 4, 4};
    const pawl_box held = {.offset = offset,
                           .extent = extent,
                           .strides = strides,
                           .data = &g->data[offset[0] * g->shape[1] + offset[1]]};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "grid",
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = g->shape,
                                .nboxes = 1,
                                .boxes = &held,
                                .replicated = replicas > 1,
                                .replica = replicas > 1 ? replica : 0,
                                .replica_count = replicas > 1 ? replicas : 0};
    assert_ok(state_add_tensor(f->ranks[rank].state, &tensor, &err), &err);
}

static void read_some(test_random *random, pawl_checkpoint *c, const grid *g) {
    struct pawl_error err = ERROR_INIT;
    float got[MOST * MOST];
    const int64_t offset[] = {random_between(random, 0, g->shape[0]),
                              random_between(random, 0, g->shape[1])};
    const int64_t extent[] = {random_between(random, 0, g->shape[0] - offset[0]),
                              random_between(random, 0, g->shape[1] - offset[1])};
    size_t n = (size_t)(extent[0] * extent[1]);
    assert_ok(checkpoint_read(c, "grid", offset, extent, got, n * sizeof *got, &err), &err);
    for (size_t i = 0; i < n; i++) {
        int64_t row = offset[0] + (int64_t)i / extent[1];
        int64_t column = offset[1] + (int64_t)i % extent[1];
        assert_true(got[i] == g->data[row * g->shape[1] + column]);
    }
}

static void check_division(uint64_t seed) {
    static voting f;
    static grid g;
    test_random random = {.state = seed};
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer index = {0};
    pawl_checkpoint *c = NULL;
    make_grid(&random, &g);
    int parts = g.parts[0] * g.parts[1];
    int replicas = (int)random_between(&random, 1, 3);
    int idle = (int)random_between(&random, parts * replicas == 1, 2); /* ranks without a part */
    voting_begin(&f, parts * replicas + idle);
    f.checking = random_below(&random, 2) == 1;
    for (int i = 0; i < parts * replicas; i++) {
        add_part(&f, &g, i % parts, idle + i, replicas, i / parts);
    }
    voting_vote_all(&f);
    voting_collect(&f);
    assert_ok(votes_agree(voting_ranks(&f, 0), &f.votes, 100, VOTING_TAG, &err), &err);
    assert_ok(voting_merge(&f, &index, &err), &err);
    voting_publish(&f, &index);
    assert_ok(checkpoint_open(f.disk, false, 100, &f.os.table, &(pawl_log){0}, &c, &err), &err);
    for (int i = 0; i < 10; i++) {
        read_some(&random, c, &g);
    }
    pawl_checkpoint_close(c);
    voting_end(&f);
}

/* However a matrix is cut, and whoever holds its parts, one or several times, it comes back: any
 * box of it, bit for bit. */
static void test_any_division_comes_back(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        check_division(seed);
    }
}

static pawl_status check_order_of_pieces(const buffer *index, pawl_error *err) {
    table *t = NULL;
    table_cursor *at = NULL;
    CLEANUP(arena_free) arena memory = {0};
    TRY(table_open(byte_source_memory(index), NULL, &t, err));
    TRY(table_cursor_new(t, &at, err));
    TRY(table_seek(at, "e", 1, err));
    while (table_valid(at)) {
        const uint8_t *key, *value;
        size_t key_bytes, value_bytes;
        record_entry e;
        table_item(at, &key, &key_bytes, &value, &value_bytes);
        TRY(record_entry_decode(key, key_bytes, value, value_bytes, 64, &memory, &e, err));
        for (size_t i = 0; i < e.piece_count; i++) {
            assert_int_equal(e.pieces[i].box_offset[0], i);
            assert_int_equal(e.pieces[i].file, e.pieces[i].rank); /* a file for each */
            assert_true(i == 0 || e.pieces[i].rank > e.pieces[i - 1].rank);
        }
        TRY(table_next(at, err));
    }
    table_cursor_free(at);
    table_close(t);
    return PAWL_OK;
}

/* An entry in as many parts as ranks hold some of it. */
static void scatter(voting *f, test_random *random, const char *name) {
    static float data[64];
    static const int64_t extent[] = {1};
    int holders[64];
    int count = 0;
    for (int r = 0; r < f->world_size; r++) {
        if (random_below(random, 4) == 0) {
            holders[count++] = r;
        }
    }
    for (int i = 0; i < count; i++) {
        const int64_t shape[] = {count};
        const int64_t offset[] = {i};
        voting_tensor(f, holders[i], name, 1, shape, offset, extent, data, 0);
    }
}

/* Whichever ranks hold an entry, its pieces come together in the order of ranks, and entries in
 * that of their names. */
static void test_any_ranks_hold_any_entries(void **state) {
    (void)state;
    static voting f;
    test_random random = {.state = 11};
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer index = {0};
    for (int round = 0; round < 10; round++) {
        voting_begin(&f, 2 + 6 * round);
        for (int i = 0; i < 40; i++) {
            char name[16];
            snprintf(name, sizeof name, "w/%d", i);
            scatter(&f, &random, name);
        }
        voting_vote_all(&f);
        voting_collect(&f);
        assert_ok(voting_merge(&f, &index, &err), &err);
        assert_ok(check_order_of_pieces(&index, &err), &err);
        voting_end(&f);
    }
}

/* ---- S12: what ranks disagree about --------------------------------------------------------- */

#define NOT_FIT      "what the ranks saved does not fit together"
#define EXPECTED_FIT "\n  expected: each element from one rank, and entries alike on all ranks\n"

/* Two ranks hold the same rows: which, of what, and both ranks. */
static void test_s12_two_ranks_hold_one_part(void **state) {
    job *j = *state;
    for (int r = 0; r < RANKS; r++) {
        add_rows(j, r, 2 * r, r == 1 ? 5 : 2 * r + 2);
        add_rest(j, r);
    }
    assert_refused(j, PAWL_EMISMATCH,
                   NOT_FIT
                   "\n  entry:    model/w" EXPECTED_FIT
                   "  found:    ranks 1 and 2 both hold [4:5, 0:16]\n"
                   "  next:     declare it replicated, or give each rank a part of its own");
}

/* Nobody holds a row: which one. */
static void test_s12_no_rank_holds_a_part(void **state) {
    job *j = *state;
    for (int r = 0; r < RANKS; r++) {
        add_rows(j, r, 2 * r, r == 2 ? 5 : 2 * r + 2);
        add_rest(j, r);
    }
    assert_refused(j, PAWL_EMISMATCH,
                   NOT_FIT "\n  entry:    model/w" EXPECTED_FIT
                           "  found:    no rank holds [5:6, 0:16]\n"
                           "  next:     let the ranks hold all of the shape that they declare");
}

/* Nobody holds the last row, and all else is there in order. */
static void test_s12_no_rank_holds_the_end(void **state) {
    job *j = *state;
    for (int r = 0; r < RANKS; r++) {
        add_rows(j, r, 2 * r, r == 3 ? 7 : 2 * r + 2);
        add_rest(j, r);
    }
    assert_refused(j, PAWL_EMISMATCH,
                   NOT_FIT "\n  entry:    model/w" EXPECTED_FIT
                           "  found:    no rank holds [7:8, 0:16]\n"
                           "  next:     let the ranks hold all of the shape that they declare");
}

/* As many rows as the tensor has, but some are held twice and some by nobody. */
static void test_s12_a_hole_as_large_as_an_overlap(void **state) {
    job *j = *state;
    static const int64_t rows[RANKS][2] = {{0, 2}, {4, 8}, {6, 8}, {8, 8}};
    for (int r = 0; r < RANKS; r++) {
        add_rows(j, r, rows[r][0], rows[r][1]);
        add_rest(j, r);
    }
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer index = {0};
    assert_fails(vote_and_merge(j, &index, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.entry, "model/w");
}

/* Of several faults a few are told, and how many there are. */
static void test_s12_several_faults_are_told_at_a_time(void **state) {
    job *j = *state;
    static const int64_t extent[] = {5};
    fill(j);
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "part/%d", i);
        for (int r = 0; r < 2; r++) {
            const int64_t offset[] = {i < 2 ? 0 : 4 * r};
            voting_tensor(&j->f, r, name, 1, vector, offset, extent, j->bias, 0);
        }
    }
    assert_refused(j, PAWL_EMISMATCH,
                   NOT_FIT ", in 5 entries\n  entry:    part/0" EXPECTED_FIT
                           "  found:    no rank holds [5:10]; `part/1`: no rank holds [5:10]; "
                           "`part/2`: no rank holds [9:10]\n"
                           "  next:     let the ranks hold all of the shape that they declare");
}

/* One name is another shape on another rank: both ranks and both shapes. */
static void test_s12_other_global_shape(void **state) {
    job *j = *state;
    static const int64_t larger[] = {12};
    static const int64_t extent[] = {5};
    fill(j);
    for (int r = 0; r < 2; r++) {
        const int64_t offset[] = {5 * r};
        voting_tensor(&j->f, r, "part", 1, r == 0 ? vector : larger, offset, extent, j->bias, 0);
    }
    assert_refused(j, PAWL_EMISMATCH,
                   NOT_FIT "\n  entry:    part" EXPECTED_FIT
                           "  found:    tensor [10] F32 on rank 0; tensor [12] F32 on rank 1\n"
                           "  next:     make it alike on all ranks");
}

/* A part that one rank declares replicated and another its own. */
static void test_s12_replicated_on_one_rank_only(void **state) {
    job *j = *state;
    struct pawl_error err = ERROR_INIT;
    static const int64_t extent[] = {5};
    fill(j);
    for (int r = 0; r < 2; r++) {
        const int64_t offset[] = {5 * r};
        const pawl_box held = {.offset = offset, .extent = extent, .data = j->bias};
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = "part",
                                    .dtype = PAWL_F32,
                                    .ndim = 1,
                                    .shape = vector,
                                    .nboxes = 1,
                                    .boxes = &held,
                                    .replicated = r == 1,
                                    .replica_count = r == 1,
                                    .role = PAWL_ROLE_SLOT,
                                    .slot_of = "model/b",
                                    .slot = "adam/m"};
        assert_ok(state_add_tensor(j->f.ranks[r].state, &tensor, &err), &err);
    }
    assert_refused(j, PAWL_EMISMATCH,
                   NOT_FIT "\n  entry:    part" EXPECTED_FIT
                           "  found:    tensor [10] F32 (slot adam/m of model/b) on rank 0; "
                           "replicated tensor [10] F32 (slot adam/m of model/b) on rank 1\n"
                           "  next:     make it alike on all ranks");
}

/* A copy of a part that nobody holds: what it would have written is missing. */
static void test_s12_a_replica_that_is_not_there(void **state) {
    job *j = *state;
    struct pawl_error err = ERROR_INIT;
    static float large[1024][256];
    static const int64_t shape[] = {1024, 256};
    static const int64_t zero[] = {0, 0};
    fill(j);
    for (int i = 0; i < 8; i++) { /* 1 MiB each: a replica writes some of them */
        const pawl_box held = {.offset = zero, .extent = shape, .data = large};
        char name[16];
        snprintf(name, sizeof name, "large/%d", i / 2);
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = name,
                                    .dtype = PAWL_F32,
                                    .ndim = 2,
                                    .shape = shape,
                                    .nboxes = 1,
                                    .boxes = &held,
                                    .replicated = 1,
                                    .replica = i % 2,
                                    .replica_count = 4};
        assert_ok(state_add_tensor(j->f.ranks[i % 2].state, &tensor, &err), &err);
    }
    CLEANUP(buffer_free) buffer index = {0};
    assert_fails(vote_and_merge(j, &index, &err), PAWL_EMISMATCH, &err);
    assert_says(err.entry, "large/");
    assert_says(err.found, "no rank wrote [0:1024, 0:256]: a copy of it is missing");
    assert_says(err.next, "give replica and replica_count on each rank that holds these boxes");
}

/* A value that all should share: who has what. */
static void test_s12_other_value(void **state) {
    job *j = *state;
    const double rates[] = {0.1, 0.1, 0.1, 0.2};
    fill(j);
    for (int r = 0; r < RANKS; r++) {
        voting_value(&j->f, r, "rate", PAWL_KIND_FLOAT64, false, &rates[r], 8);
    }
    assert_refused(j, PAWL_EMISMATCH,
                   "the ranks do not have the same values\n"
                   ""
                   "  entry:    rate\n"
                   "  expected: one value on all ranks for what is not per rank\n"
                   "  found:    0.1 on ranks 0 to 2; 0.2 on rank 3\n"
                   "  next:     give all ranks the same value, or let each have its own with "
                   "pawl_state_set_rank_bytes");
}

/* Long values that begin alike are told apart by their checksums. */
static void test_s12_other_long_value(void **state) {
    job *j = *state;
    char text[40];
    memset(text, 'x', sizeof text);
    fill(j);
    for (int r = 0; r < RANKS; r++) {
        text[39] = r == 0 ? 'y' : 'x';
        voting_value(&j->f, r, "long", PAWL_KIND_STRING, false, text, sizeof text);
    }
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer index = {0};
    assert_fails(vote_and_merge(j, &index, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.entry, "long");
    assert_string_equal(err.found,
                        "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\" with CRC32C d645a527 on ranks 1 "
                        "to 3; \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\" with CRC32C 242e2624 on "
                        "rank 0");
}

/* A rank that saves another step under the same save. */
static void test_s12_other_step(void **state) {
    job *j = *state;
    fill(j);
    voting_vote_all(&j->f);
    voting_collect(&j->f);
    struct pawl_error err = ERROR_INIT;
    j->f.votes.heads[2].step = 200;
    assert_fails(votes_agree(voting_ranks(&j->f, 0), &j->f.votes, 100, VOTING_TAG, &err),
                 PAWL_EMISMATCH, &err);
    assert_status_text(&err, PAWL_EMISMATCH,
                       "the ranks do not save the same step\n"
                       ""
                       "  expected: step 100, as on ranks 0, 1 and 3\n"
                       "  found:    step 200 on rank 2\n"
                       "  next:     call pawl_save for the same steps on all ranks, in the same "
                       "order");
}

/* A rank that was told of another number of ranks. */
static void test_s12_other_world_size(void **state) {
    job *j = *state;
    fill(j);
    voting_ranks(&j->f, 3)->world_size = 5;
    voting_vote_all(&j->f);
    voting_collect(&j->f);
    struct pawl_error err = ERROR_INIT;
    assert_fails(votes_agree(voting_ranks(&j->f, 0), &j->f.votes, 100, VOTING_TAG, &err),
                 PAWL_EMISMATCH, &err);
    assert_status_text(&err, PAWL_EMISMATCH,
                       "the ranks do not agree how many they are\n"
                       ""
                       "  expected: 4 ranks, as on ranks 0 to 2\n"
                       "  found:    5 on rank 3\n"
                       "  next:     give all ranks the same pawl_group.world_size");
}

/* ---- J04: the structure --------------------------------------------------------------------- */

#define OTHER_ENTRIES "the ranks do not have the same entries"
#define EXPECTED_ENTRIES                                                                           \
    "\n  expected: the same replicated tensors, values and names on all ranks\n"

/* A variable that was made on some ranks only. */
static void test_j04_missing_on_a_rank(void **state) {
    job *j = *state;
    fill(j);
    for (int r = 0; r < RANKS - 1; r++) {
        voting_tensor(&j->f, r, "model/c", 1, vector, NULL, NULL, j->bias, 1);
    }
    assert_refused(j, PAWL_EMISMATCH,
                   OTHER_ENTRIES
                   "\n  entry:    model/c" EXPECTED_ENTRIES
                   "  found:    replicated tensor [10] F32 on ranks 0 to 2; not on rank 3\n"
                   "  next:     make it on every rank: variables and optimizer inside the "
                   "strategy's scope, where there is one");
}

/* A variable that only one rank made. */
static void test_j04_on_one_rank_alone(void **state) {
    job *j = *state;
    fill(j);
    voting_value(&j->f, 2, "extra", PAWL_KIND_BYTES, true, "x", 1);
    assert_refused(j, PAWL_EMISMATCH,
                   OTHER_ENTRIES
                   "\n  entry:    extra" EXPECTED_ENTRIES
                   "  found:    bytes of each rank's own (other) on rank 2; not on ranks 0, 1 and "
                   "3\n"
                   "  next:     make it on every rank: variables and optimizer inside the "
                   "strategy's scope, where there is one");
}

/* A variable that one rank does not declare replicated, as the others do. */
static void test_j04_not_replicated_where_declared(void **state) {
    job *j = *state;
    fill(j);
    for (int r = 0; r < RANKS; r++) {
        voting_tensor(&j->f, r, "model/c", 1, vector, NULL, NULL, j->bias, r != 1);
    }
    assert_refused(j, PAWL_EMISMATCH,
                   OTHER_ENTRIES
                   "\n  entry:    model/c" EXPECTED_ENTRIES
                   "  found:    replicated tensor [10] F32 on ranks 0, 2 and 3; not replicated on "
                   "rank 1\n"
                   "  next:     declare it replicated on all ranks, or on none");
}

/* Replicated tensors of different shapes, and how many entries differ in all. */
static void test_j04_other_shapes(void **state) {
    job *j = *state;
    static const int64_t shorter[] = {9};
    fill(j);
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "c/%d", i);
        for (int r = 0; r < RANKS; r++) {
            voting_tensor(&j->f, r, name, 1, r == 3 ? shorter : vector, NULL, NULL, j->bias, 1);
        }
    }
    assert_refused(j, PAWL_EMISMATCH,
                   OTHER_ENTRIES
                   ", in 5 entries\n  entry:    c/0" EXPECTED_ENTRIES
                   "  found:    replicated tensor [10] F32 on ranks 0 to 2; replicated tensor [9] "
                   "F32 on rank 3; `c/1`: replicated tensor [10] F32 on ranks 0 to 2; replicated "
                   "tensor [9] F32 on rank 3; `c/2`: replicated tensor [10] F32 on ranks 0 to 2; "
                   "replicated tensor [9] F32 on rank 3\n"
                   "  next:     make it alike on all ranks");
}

/* Where the structures themselves are gone, the ranks are named at least. */
static void test_j04_without_the_structures(void **state) {
    job *j = *state;
    char name[80];
    struct pawl_error err = ERROR_INIT;
    fill(j);
    voting_value(&j->f, 2, "extra", PAWL_KIND_BYTES, true, "x", 1);
    voting_vote_all(&j->f);
    voting_collect(&j->f);
    const vote *head = &j->f.votes.heads[2];
    name_structure(name, "7f3a9c21e04b", head->structure_crc32c, head->structure_bytes);
    AUTOFREE char *other = mem_calloc((size_t)head->structure_bytes, 1);
    memset(other, 'x', (size_t)head->structure_bytes); /* as long, and something else */
    assert_ok(store_replace(j->f.disk, name, other, (size_t)head->structure_bytes, &err), &err);
    assert_fails(votes_agree(voting_ranks(&j->f, 0), &j->f.votes, 100, VOTING_TAG, &err),
                 PAWL_EMISMATCH, &err);
    assert_status_text(&err, PAWL_EMISMATCH,
                       OTHER_ENTRIES
                       "\n"
                       ""
                       "  expected: what ranks 0, 1 and 3 have\n"
                       "  found:    something else on rank 2\n"
                       "  next:     compare the names, shapes and dtypes that these ranks add to "
                       "their states");
}

/* ---- replicas ------------------------------------------------------------------------------- */

/* Replicas with other bytes: the tensor, the box and the ranks. */
static void test_j04_replicas_that_differ(void **state) {
    job *j = *state;
    static float other[10];
    for (int r = 0; r < RANKS; r++) {
        add_rows(j, r, 2 * r, 2 * r + 2);
        voting_tensor(&j->f, r, "model/b", 1, vector, NULL, NULL, r == 2 ? other : j->bias, 1);
    }
    assert_refused(j, PAWL_EMISMATCH,
                   NOT_FIT "\n  entry:    model/b" EXPECTED_FIT
                           "  found:    [0:10] has other bytes on rank 2 than on ranks 0, 1 and 3\n"
                           "  next:     find the update that not all ranks make, or do not declare "
                           "it replicated");
}

/* Equal replicas pass, whatever their strides. */
static void test_equal_replicas_pass_the_check(void **state) {
    job *j = *state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer index = {0};
    static float wide[10][2];
    static const int64_t strides[] = {8};
    j->f.checking = true;
    for (int r = 0; r < RANKS; r++) {
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = "model/b",
                                    .dtype = PAWL_F32,
                                    .ndim = 1,
                                    .shape = vector,
                                    .data = r == 1 ? &wide[0][0] : j->bias,
                                    .strides = r == 1 ? strides : NULL,
                                    .replicated = 1};
        add_rows(j, r, 2 * r, 2 * r + 2);
        assert_ok(state_add_tensor(j->f.ranks[r].state, &tensor, &err), &err);
    }
    for (int i = 0; i < 10; i++) {
        wide[i][0] = j->bias[i];
        wide[i][1] = 1000;
    }
    assert_ok(vote_and_merge(j, &index, &err), &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_merged_votes_are_a_checkpoint),
        cmocka_unit_test(test_any_division_comes_back),
        cmocka_unit_test(test_any_ranks_hold_any_entries),
        TEST(test_s12_two_ranks_hold_one_part),
        TEST(test_s12_no_rank_holds_a_part),
        TEST(test_s12_no_rank_holds_the_end),
        TEST(test_s12_a_hole_as_large_as_an_overlap),
        TEST(test_s12_several_faults_are_told_at_a_time),
        TEST(test_s12_other_global_shape),
        TEST(test_s12_replicated_on_one_rank_only),
        TEST(test_s12_a_replica_that_is_not_there),
        TEST(test_s12_other_value),
        TEST(test_s12_other_long_value),
        TEST(test_s12_other_step),
        TEST(test_s12_other_world_size),
        TEST(test_j04_missing_on_a_rank),
        TEST(test_j04_on_one_rank_alone),
        TEST(test_j04_not_replicated_where_declared),
        TEST(test_j04_other_shapes),
        TEST(test_j04_without_the_structures),
        TEST(test_j04_replicas_that_differ),
        TEST(test_equal_replicas_pass_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
