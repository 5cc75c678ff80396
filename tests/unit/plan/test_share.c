/* SPDX-License-Identifier: Apache-2.0 */
/* Replicated tensors shared out among ranks: each byte once, the same bytes, about as many each. */
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "plan/plan.h"
#include "unit/match/fixture.h"

#include <stdio.h>

#define MAX_RANKS   12
#define MAX_TENSORS 80
#define MIB         ((uint64_t)1 << 20)

/* The tensors that are replicated. Nothing is read from their memory but where a test fills it. */
typedef struct a_replicated {
    char name[32];
    pawl_dtype dtype;
    int ndim;
    int64_t shape[4];
} a_replicated;

typedef struct job {
    a_replicated tensors[MAX_TENSORS];
    size_t count;
    int world_size;
    int replica_count; /* of rows that a group of so many ranks has [0: all are replicas of all] */
    pawl_state *states[MAX_RANKS];
    state_snapshot *snapshots[MAX_RANKS];
    plan_layout *layouts[MAX_RANKS];
    pawl_error err;
} job;

static uint8_t memory[16 << 20];

static void add_replica(job *j, const a_replicated *from, int rank) {
    int64_t offset[4] = {0};
    int64_t extent[4] = {0};
    pawl_box rows = {.offset = offset, .extent = extent, .data = memory};
    pawl_tensor t = a_tensor(from->name, from->dtype, from->ndim, from->shape);
    t.data = memory;
    t.replicated = 1;
    if (j->replica_count > 0) {
        int groups = j->world_size / j->replica_count;
        int group = rank / j->replica_count;
        int64_t each = from->ndim > 0 ? from->shape[0] / groups : 0;
        memcpy(extent, from->shape, sizeof(extent));
        offset[0] = group * each;
        extent[0] = group + 1 == groups ? from->shape[0] - offset[0] : each;
        t.replica = rank % j->replica_count;
        t.replica_count = j->replica_count;
        t.nboxes = 1;
        t.boxes = &rows;
    }
    assert_ok(state_add_tensor(j->states[rank], &t, &j->err), &j->err);
}

/* What each rank has of its own must not change what it takes of the rest. */
static void add_own(job *j, int rank) {
    char name[64];
    for (int i = 0; i <= rank && j->world_size > 1; i++) {
        int64_t offset[] = {rank * 1000};
        int64_t extent[] = {50 * (i + 1)};
        pawl_box part = {.offset = offset, .extent = extent, .data = memory};
        snprintf(name, sizeof(name), "own/%d/%d", i, rank % 3);
        pawl_tensor t = a_tensor(name, PAWL_F64, SHAPE(MAX_RANKS * 1000));
        t.nboxes = 1;
        t.boxes = &part;
        assert_ok(state_add_tensor(j->states[rank], &t, &j->err), &j->err);
    }
    assert_ok(state_set_value(j->states[rank], "seed", PAWL_KIND_BYTES, PAWL_ROLE_RNG, true, memory,
                              (size_t)rank * 1000, &j->err),
              &j->err);
    assert_ok(state_set_value(j->states[rank], "text", PAWL_KIND_STRING, PAWL_ROLE_OTHER, false,
                              "text", 4, &j->err),
              &j->err);
}

static void lay_out(job *j) {
    for (int rank = 0; rank < j->world_size; rank++) {
        plan_layout_options options = {
            .tag = "7f3a9c21e04b-1", .rank = rank, .world_size = j->world_size};
        assert_ok(state_new(&j->states[rank], &j->err), &j->err);
        for (size_t i = 0; i < j->count; i++) {
            add_replica(j, &j->tensors[i], rank);
        }
        add_own(j, rank);
        assert_ok(state_snapshot_take(j->states[rank], 1, false, &j->snapshots[rank], &j->err),
                  &j->err);
        assert_ok(plan_layout_make(j->snapshots[rank], &options, &j->layouts[rank], &j->err),
                  &j->err);
    }
}

static void forget(job *j) {
    for (int rank = 0; rank < j->world_size; rank++) {
        plan_layout_free(j->layouts[rank]);
        state_snapshot_free(j->snapshots[rank]);
        state_free(j->states[rank]);
    }
}

static a_replicated *add_tensor(job *j, pawl_dtype dtype, int ndim, const int64_t *shape) {
    a_replicated *t = &j->tensors[j->count];
    *t = (a_replicated){.dtype = dtype, .ndim = ndim};
    snprintf(t->name, sizeof(t->name), "t%02zu", j->count++);
    memcpy(t->shape, shape, (size_t)ndim * sizeof(*shape));
    return t;
}

/* ---- what all ranks wrote ------------------------------------------------------------------- */

static bool is_named(const plan_piece *piece, const char *name) {
    return strcmp(piece->entry->name, name) == 0;
}

/* The pieces of all ranks make up the tensor, at most one of each rank. */
static void assert_written_once(const job *j, const a_replicated *t) {
    box parts[MAX_RANKS];
    size_t n = 0;
    plan_fault fault;
    struct pawl_error err = ERROR_INIT;
    for (int rank = 0; rank < j->world_size; rank++) {
        const plan_layout *layout = j->layouts[rank];
        size_t before = n;
        for (size_t i = 0; i < layout->piece_count; i++) {
            const plan_piece *piece = &layout->pieces[i];
            if (is_named(piece, t->name)) {
                parts[n++] = state_box_memory(piece->entry, piece->part).box;
            }
        }
        assert_true(n <= before + 1);
    }
    assert_ok(plan_cover(t->ndim, t->shape, parts, n, &fault, &err), &err);
    assert_false(fault.hole || fault.overlap);
}

static uint64_t replicated_bytes(const plan_layout *layout) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < layout->piece_count; i++) {
        bytes += layout->pieces[i].entry->replicated ? layout->pieces[i].bytes : 0;
    }
    return bytes;
}

/* How far replicas may be apart: share.c. */
static uint64_t bound(const job *j) {
    uint64_t whole = MIB;
    uint64_t row = 64 << 10;
    for (size_t i = 0; i < j->count; i++) {
        const a_replicated *t = &j->tensors[i];
        uint64_t bytes = shape_bytes(t->dtype, t->ndim, t->shape);
        int64_t longest = 1;
        for (int d = 0; d < t->ndim; d++) {
            longest = t->shape[d] > longest ? t->shape[d] : longest;
        }
        if (pawl_dtype_bits(t->dtype) % 8 != 0) {
            whole = bytes > whole ? bytes : whole;
            continue;
        }
        uint64_t shortest = bytes / (uint64_t)longest;
        uint64_t twentieth = bytes / 20 / (uint64_t)j->world_size;
        row = shortest > row ? shortest : row;
        row = twentieth > row ? twentieth : row;
    }
    return whole + row;
}

static void assert_shared_out(const job *j) {
    int groups = j->replica_count > 0 ? j->world_size / j->replica_count : 1;
    int each = j->world_size / groups;
    for (size_t i = 0; i < j->count; i++) {
        assert_written_once(j, &j->tensors[i]);
    }
    for (int group = 0; group < groups; group++) {
        uint64_t most = 0;
        uint64_t least = UINT64_MAX;
        for (int rank = group * each; rank < (group + 1) * each; rank++) {
            uint64_t bytes = replicated_bytes(j->layouts[rank]);
            most = bytes > most ? bytes : most;
            least = bytes < least ? bytes : least;
        }
        assert_true(most - least <= bound(j));
    }
}

/* ---- random states -------------------------------------------------------------------------- */

static void add_random_tensor(job *j, test_random *r) {
    static const pawl_dtype dtypes[] = {PAWL_U8, PAWL_BF16, PAWL_F32, PAWL_F64, PAWL_F4};
    pawl_dtype dtype = dtypes[random_below(r, random_below(r, 8) == 0 ? 5 : 4)];
    int64_t shape[4] = {1, 1, 1, 1};
    int ndim = (int)random_between(r, j->replica_count > 0 ? 1 : 0, 4);
    int64_t left = ((int64_t)1 << random_between(r, 0, 20)) + random_between(r, 0, 1000);
    for (int d = 0; d < ndim; d++) {
        shape[d] = d + 1 == ndim ? left : random_between(r, 1, left < 40 ? left : 40);
        left /= shape[d] > 0 ? shape[d] : 1;
    }
    if (ndim > 0 && random_below(r, 3) == 0) { /* the long one anywhere */
        size_t d = (size_t)random_below(r, (uint64_t)ndim);
        int64_t last = shape[ndim - 1];
        shape[ndim - 1] = shape[d];
        shape[d] = last;
    }
    if (dtype == PAWL_F4) {
        ndim = ndim < 2 ? 2 : ndim; /* cut into shards along the first, whole bytes of the last */
        shape[ndim - 1] = shape[ndim - 1] / 2 * 2 + 2;
    }
    if (ndim > 0 && random_below(r, 20) == 0) {
        shape[0] = 0;
    }
    add_tensor(j, dtype, ndim, shape);
}

/* Seed 1: any number of tensors of any size on 1 to 12 ranks, each rank a replica of all. */
static void test_random_states_are_shared_out(void **context) {
    (void)context;
    test_random r = {.state = 1};
    for (int i = 0; i < 300; i++) {
        job j = {.err = ERROR_INIT, .world_size = (int)random_between(&r, 1, MAX_RANKS)};
        for (uint64_t n = random_below(&r, MAX_TENSORS); n > 0; n--) {
            add_random_tensor(&j, &r);
        }
        lay_out(&j);
        if (j.world_size > 1) {
            assert_shared_out(&j);
        }
        forget(&j);
    }
}

/* Seed 2: shards that are replicated, in groups of ranks. */
static void test_random_shards_are_shared_out_in_their_group(void **context) {
    (void)context;
    test_random r = {.state = 2};
    for (int i = 0; i < 200; i++) {
        int replicas = (int)random_between(&r, 1, 4);
        job j = {.err = ERROR_INIT,
                 .replica_count = replicas,
                 .world_size = replicas * (int)random_between(&r, 1, 3)};
        for (uint64_t n = random_below(&r, MAX_TENSORS); n > 0; n--) {
            add_random_tensor(&j, &r);
        }
        lay_out(&j);
        if (j.world_size > 1) {
            assert_shared_out(&j);
        }
        forget(&j);
    }
}

/* As of a model: all are within a twentieth and 1 MiB of each other. */
static void test_a_model_is_shared_out_evenly(void **context) {
    (void)context;
    job j = {.err = ERROR_INIT, .world_size = 8};
    add_tensor(&j, PAWL_F32, SHAPE(4001, 1024)); /* embedding */
    for (int layer = 0; layer < 12; layer++) {
        add_tensor(&j, PAWL_F32, SHAPE(768, 3 * 768));
        add_tensor(&j, PAWL_F32, SHAPE(768, 4 * 768));
        add_tensor(&j, PAWL_F32, SHAPE(3, 3, 256, 512));
        add_tensor(&j, PAWL_F32, SHAPE(768));
    }
    lay_out(&j);
    assert_shared_out(&j);
    uint64_t sum = 0;
    for (int rank = 0; rank < 8; rank++) {
        sum += replicated_bytes(j.layouts[rank]);
    }
    for (int rank = 0; rank < 8; rank++) {
        double mean = (double)sum / 8;
        double bytes = (double)replicated_bytes(j.layouts[rank]);
        assert_true(bytes < 1.05 * mean + (double)MIB && bytes > 0.95 * mean - (double)MIB);
    }
    forget(&j);
}

/* ---- small rules ---------------------------------------------------------------------------- */

/* Which rank has how many bytes of each tensor: "t00 0:16 1:16". */
static const char *who(const job *j, char *out, size_t size) {
    size_t n = 0;
    out[0] = '\0';
    for (size_t k = 0; k < j->count; k++) {
        n += (size_t)snprintf(out + n, size - n, "%s%s", k > 0 ? "; " : "", j->tensors[k].name);
        for (int rank = 0; rank < j->world_size; rank++) {
            for (size_t i = 0; i < j->layouts[rank]->piece_count; i++) {
                const plan_piece *piece = &j->layouts[rank]->pieces[i];
                if (is_named(piece, j->tensors[k].name)) {
                    n += (size_t)snprintf(out + n, size - n, " %d:%llu", rank,
                                          (unsigned long long)piece->bytes);
                }
            }
        }
    }
    return out;
}

static void assert_who(job *j, const char *expected) {
    char text[1024];
    lay_out(j);
    assert_string_equal(who(j, text, sizeof(text)), expected);
    forget(j);
}

static void test_small_tensors_stay_whole(void **context) {
    (void)context;
    job j = {.err = ERROR_INIT, .world_size = 3};
    add_tensor(&j, PAWL_U8, SHAPE(100));
    add_tensor(&j, PAWL_U8, SHAPE(1 << 20));
    add_tensor(&j, PAWL_U8, SHAPE(200));
    add_tensor(&j, PAWL_U8, SHAPE(1000000));
    assert_who(&j, "t00 1:100; t01 0:524288 1:524288; t02 0:200; t03 2:1000000");
}

static void test_large_tensors_are_cut_for_as_many_as_get_enough(void **context) {
    (void)context;
    job j = {.err = ERROR_INIT, .world_size = 4};
    add_tensor(&j, PAWL_U8, SHAPE(1536, 1024));
    assert_who(&j, "t00 0:524288 1:524288 2:524288");
}

static void test_packed_elements_are_never_cut(void **context) {
    (void)context;
    job j = {.err = ERROR_INIT, .world_size = 2};
    add_tensor(&j, PAWL_F4, SHAPE(4096, 4096));
    add_tensor(&j, PAWL_U8, SHAPE(4 << 20));
    assert_who(&j, "t00 0:8388608; t01 1:4194304");
}

static void test_an_empty_tensor_is_written_by_one(void **context) {
    (void)context;
    job j = {.err = ERROR_INIT, .world_size = 3};
    add_tensor(&j, PAWL_F32, SHAPE(0, 7));
    assert_who(&j, "t00 0:0");
}

/* The dimension that gives even slices: not the first, of 3 rows, but the second. */
static void test_long_rows_are_cut_across(void **context) {
    (void)context;
    job j = {.err = ERROR_INIT, .world_size = 4};
    add_tensor(&j, PAWL_U8, SHAPE(3, 1 << 20));
    assert_who(&j, "t00 0:786432 1:786432 2:786432 3:786432");
}

static void test_more_replicas_than_ranks_are_refused(void **context) {
    fixture *f = *context;
    pawl_tensor t = a_tensor("a", PAWL_F32, SHAPE(4, 2));
    plan_layout *layout = NULL;
    plan_layout_options options = {.tag = "7f3a9c21e04b-1", .world_size = 2};
    t.replicated = 1;
    t.replica_count = 3;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
    assert_ok(state_snapshot_take(f->state, 1, false, &f->snapshot, &f->err), &f->err);
    assert_int_equal(plan_layout_make(f->snapshot, &options, &layout, &f->err), PAWL_EUSAGE);
    assert_status_text(&f->err, PAWL_EUSAGE,
                       "cannot save the tensor: it has more replicas than there are ranks\n"
                       "  entry:    a\n"
                       "  expected: a replica_count of at most 2\n"
                       "  found:    3\n"
                       "  next:     set replica_count to how many ranks hold these boxes");
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Puts what a rank wrote of the tensor where it belongs in `image`, which is dense. */
static void place_pieces(const plan_layout *layout, const char *name, uint8_t *image) {
    for (size_t i = 0; i < layout->piece_count; i++) {
        const plan_piece *piece = &layout->pieces[i];
        if (!is_named(piece, name)) {
            continue;
        }
        uint8_t *bytes = mem_alloc((size_t)piece->bytes);
        assert_non_null(bytes);
        plan_layout_gather(layout, piece->file, piece->offset, (size_t)piece->bytes, bytes);
        strided whole = {.dtype = piece->entry->dtype,
                         .box = box_whole(piece->entry->ndim, piece->entry->shape),
                         .data = image};
        box part = state_box_memory(piece->entry, piece->part).box;
        strided_place(&whole, &part, 0, (size_t)piece->bytes, bytes);
        mem_free(bytes);
    }
}

/* Lays the tensor out for three ranks and puts it together again. */
static void assert_comes_back(const pawl_tensor *t, const uint8_t *dense, size_t n, bool lies_so) {
    uint8_t *image = mem_calloc(1, n);
    assert_non_null(image);
    for (int rank = 0; rank < 3; rank++) {
        struct pawl_error err = ERROR_INIT;
        pawl_state *state = NULL;
        state_snapshot *snapshot = NULL;
        plan_layout *layout = NULL;
        plan_layout_options options = {.tag = "7f3a9c21e04b-1", .rank = rank, .world_size = 3};
        assert_ok(state_new(&state, &err), &err);
        assert_ok(state_add_tensor(state, t, &err), &err);
        assert_ok(state_snapshot_take(state, 1, false, &snapshot, &err), &err);
        assert_ok(plan_layout_make(snapshot, &options, &layout, &err), &err);
        assert_int_equal(layout->piece_count, 1);
        assert_int_equal(layout->pieces[0].part->strides == NULL, lies_so);
        place_pieces(layout, t->name, image);
        plan_layout_free(layout);
        state_snapshot_free(snapshot);
        state_free(state);
    }
    assert_memory_equal(image, dense, n);
    mem_free(image);
}

static void fill_memory(void) {
    test_random r = {.state = 3};
    random_fill(&r, memory, sizeof(memory));
}

static void test_slices_along_the_first_dimension_stay_dense(void **context) {
    (void)context;
    fill_memory();
    pawl_tensor t = a_tensor("t", PAWL_F32, SHAPE(1, 1501, 331));
    t.data = memory;
    t.replicated = 1;
    assert_comes_back(&t, memory, (size_t)1501 * 331 * 4, true);
}

static void test_slices_across_have_the_right_bytes(void **context) {
    (void)context;
    fill_memory();
    pawl_tensor t = a_tensor("t", PAWL_F32, SHAPE(2, 1501, 331));
    t.data = memory;
    t.replicated = 1;
    assert_comes_back(&t, memory, (size_t)2 * 1501 * 331 * 4, false);
}

static void test_slices_of_transposed_memory_have_the_right_bytes(void **context) {
    (void)context;
    enum { ROWS = 1200, COLUMNS = 700 };
    const int64_t strides[] = {4, ROWS * 4};
    fill_memory();
    uint8_t *dense = mem_alloc((size_t)ROWS * COLUMNS * 4);
    assert_non_null(dense);
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t column = 0; column < COLUMNS; column++) {
            memcpy(dense + (row * COLUMNS + column) * 4, memory + (column * ROWS + row) * 4, 4);
        }
    }
    pawl_tensor t = a_tensor("t", PAWL_F32, SHAPE(ROWS, COLUMNS));
    t.data = memory;
    t.strides = strides;
    t.replicated = 1;
    assert_comes_back(&t, dense, (size_t)ROWS * COLUMNS * 4, false);
    mem_free(dense);
}

/* ---- memory --------------------------------------------------------------------------------- */

static pawl_status make(void *context, pawl_error *err) {
    fixture *f = context;
    plan_layout *layout = NULL;
    plan_layout_options options = {.tag = "7f3a9c21e04b-1", .rank = 1, .world_size = 2};
    pawl_status status = plan_layout_make(f->snapshot, &options, &layout, err);
    assert_true((status == PAWL_OK) == (layout != NULL));
    plan_layout_free(layout);
    return status;
}

static void test_sharing_without_memory_leaks_nothing(void **context) {
    fixture *f = *context;
    pawl_tensor t = a_tensor("a", PAWL_F32, SHAPE(2, 300000));
    t.data = memory;
    t.replicated = 1;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
    t.name = "b";
    t.replica_count = 1;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
    assert_ok(state_snapshot_take(f->state, 1, false, &f->snapshot, &f->err), &f->err);
    assert_true(failing_memory_each(make, f) > 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_states_are_shared_out),
        cmocka_unit_test(test_random_shards_are_shared_out_in_their_group),
        cmocka_unit_test(test_a_model_is_shared_out_evenly),
        cmocka_unit_test(test_small_tensors_stay_whole),
        cmocka_unit_test(test_large_tensors_are_cut_for_as_many_as_get_enough),
        cmocka_unit_test(test_packed_elements_are_never_cut),
        cmocka_unit_test(test_an_empty_tensor_is_written_by_one),
        cmocka_unit_test(test_long_rows_are_cut_across),
        WITH_BOTH(test_more_replicas_than_ranks_are_refused),
        cmocka_unit_test(test_slices_along_the_first_dimension_stay_dense),
        cmocka_unit_test(test_slices_across_have_the_right_bytes),
        cmocka_unit_test(test_slices_of_transposed_memory_have_the_right_bytes),
        WITH_BOTH(test_sharing_without_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
