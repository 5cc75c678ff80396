/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies against a model that goes element by element. */
#include "lib/random.h"
#include "lib/test.h"
#include "tensor/tensor.h"

#include <string.h>

#define MOST_DIMS   4
#define MOST_EXTENT 6
#define ROUNDS      4000

static const pawl_dtype dtypes[] = {PAWL_U8, PAWL_BF16, PAWL_F32, PAWL_F64};

/* Strided memory with gaps, transposed and reversed dimensions. */
typedef struct sample {
    strided strided;
    int64_t strides[PAWL_MAX_NDIM];
    uint8_t *memory;
    size_t bytes; /* of memory */
    size_t item;
} sample;

static void sample_free(sample *s) {
    mem_free(s->memory);
}

static void shuffle(test_random *r, int *order, int n) {
    for (int i = 0; i < n; i++) {
        int j = (int)random_below(r, (uint64_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

/* In a random order, each dimension wider than it need be by chance, some reversed. */
static sample sample_random(test_random *r, pawl_dtype dtype, const box *b) {
    sample s = {.item = (size_t)pawl_dtype_bits(dtype) / 8};
    int order[MOST_DIMS];
    bool plain = random_below(r, 4) == 0;
    int64_t stride = (int64_t)s.item;
    int64_t first = 0;
    for (int i = 0; i < b->ndim; i++) {
        order[i] = b->ndim - 1 - i;
    }
    if (!plain && random_below(r, 2) == 0) {
        shuffle(r, order, b->ndim);
    }
    for (int i = 0; i < b->ndim; i++) {
        int d = order[i];
        bool reversed = !plain && random_below(r, 4) == 0;
        bool gap = !plain && random_below(r, 3) == 0;
        int64_t extent = b->extent[d] > 0 ? b->extent[d] : 1;
        stride += gap ? (int64_t)random_below(r, 3 * s.item) : 0;
        s.strides[d] = reversed ? -stride : stride;
        first += reversed ? stride * (extent - 1) : 0;
        stride *= extent;
    }
    s.bytes = (size_t)stride + s.item;
    s.memory = mem_alloc(s.bytes);
    random_fill(r, s.memory, s.bytes);
    s.strided = (strided){.dtype = dtype, .box = *b, .data = s.memory + first};
    return s;
}

/* Strides are set last, because they lie in the struct itself. */
static void settle(sample *s, test_random *r) {
    bool implied = strided_is_dense(&(strided){.dtype = s->strided.dtype,
                                               .box = s->strided.box,
                                               .strides = s->strides,
                                               .data = s->strided.data}) &&
                   random_below(r, 2) == 0;
    s->strided.strides = implied ? NULL : s->strides;
}

static uint8_t *element_at(const sample *s, uint64_t element) {
    int64_t at = 0;
    for (int i = s->strided.box.ndim - 1; i >= 0; i--) {
        uint64_t extent = (uint64_t)s->strided.box.extent[i];
        at += (int64_t)(element % extent) * s->strides[i];
        element /= extent;
    }
    return s->strided.data + at;
}

static box random_box(test_random *r, const box *within, int64_t least_extent) {
    box b = {.ndim = within->ndim};
    for (int i = 0; i < b.ndim; i++) {
        b.extent[i] = random_between(r, least_extent, within->extent[i]);
        b.offset[i] = within->offset[i] + random_between(r, 0, within->extent[i] - b.extent[i]);
    }
    return b;
}

static box random_shape(test_random *r, int64_t least_extent) {
    box b = {.ndim = (int)random_below(r, MOST_DIMS + 1)};
    for (int i = 0; i < b.ndim; i++) {
        b.extent[i] = random_between(r, least_extent, MOST_EXTENT);
    }
    return b;
}

/* ---- properties ----------------------------------------------------------------------------- */

static void check_gather(test_random *r, const sample *s) {
    size_t whole = (size_t)box_elements(&s->strided.box) * s->item;
    AUTOFREE uint8_t *wanted = mem_alloc(whole);
    for (uint64_t e = 0; e < whole / s->item; e++) {
        memcpy(wanted + e * s->item, element_at(s, e), s->item);
    }
    for (int i = 0; i < 4; i++) {
        uint64_t from = i == 0 ? 0 : random_below(r, whole + 1);
        size_t n = i == 0 ? whole : random_below(r, whole - from + 1);
        AUTOFREE uint8_t *got = mem_alloc(n); /* exact, so that ASan sees a byte too many */
        strided_gather(&s->strided, from, n, got);
        assert_memory_equal(got, wanted + from, n);
    }
}

static void test_any_stretch_is_gathered_from_any_strides(void **state) {
    (void)state;
    test_random r = {40};
    for (int round = 0; round < ROUNDS; round++) {
        box shape = random_shape(&r, 0);
        box b = random_box(&r, &shape, 0);
        CLEANUP(sample_free) sample s = sample_random(&r, dtypes[round % 4], &b);
        settle(&s, &r);
        check_gather(&r, &s);
    }
}

static void check_scatter(test_random *r, sample *s) {
    size_t whole = (size_t)box_elements(&s->strided.box) * s->item;
    uint64_t from = random_below(r, whole + 1);
    size_t n = random_below(r, whole - from + 1);
    AUTOFREE uint8_t *bytes = mem_alloc(n);
    random_fill(r, bytes, n);
    AUTOFREE uint8_t *before = mem_dup(s->memory, s->bytes);
    for (size_t i = 0; i < n; i++) {
        element_at(s, (from + i) / s->item)[(from + i) % s->item] = bytes[i];
    }
    AUTOFREE uint8_t *wanted = mem_dup(s->memory, s->bytes);
    memcpy(s->memory, before, s->bytes);
    strided_place(&s->strided, &s->strided.box, from, n, bytes);
    assert_memory_equal(s->memory, wanted, s->bytes);
}

static void test_any_stretch_is_scattered_and_nothing_else_is_touched(void **state) {
    (void)state;
    test_random r = {41};
    for (int round = 0; round < ROUNDS; round++) {
        box shape = random_shape(&r, 0);
        box b = random_box(&r, &shape, 0);
        CLEANUP(sample_free) sample s = sample_random(&r, dtypes[round % 4], &b);
        settle(&s, &r);
        check_scatter(&r, &s);
    }
}

/* Where element `element` of `source` is in the memory; NULL when it is outside. */
static uint8_t *place_of(const sample *s, const box *source, uint64_t element) {
    int64_t at = 0;
    for (int i = source->ndim - 1; i >= 0; i--) {
        uint64_t extent = (uint64_t)source->extent[i];
        int64_t index = source->offset[i] + (int64_t)(element % extent);
        int64_t within = index - s->strided.box.offset[i];
        if (within < 0 || within >= s->strided.box.extent[i]) {
            return NULL;
        }
        at += within * s->strides[i];
        element /= extent;
    }
    return s->strided.data + at;
}

static void check_place(test_random *r, sample *s, const box *source) {
    uint64_t elements = box_elements(source);
    uint64_t from = random_below(r, elements + 1);
    uint64_t n = random_below(r, 3) == 0 ? elements - from : random_below(r, elements - from + 1);
    AUTOFREE uint8_t *bytes = mem_alloc(n * s->item);
    random_fill(r, bytes, n * s->item);
    AUTOFREE uint8_t *before = mem_dup(s->memory, s->bytes);
    for (uint64_t e = 0; e < n; e++) {
        uint8_t *to = place_of(s, source, from + e);
        if (to != NULL) {
            memcpy(to, bytes + e * s->item, s->item);
        }
    }
    AUTOFREE uint8_t *wanted = mem_dup(s->memory, s->bytes);
    memcpy(s->memory, before, s->bytes);
    strided_place(&s->strided, source, from * s->item, n * s->item, bytes);
    assert_memory_equal(s->memory, wanted, s->bytes);
}

/* What is copied run by run. */
typedef struct running {
    const strided *memory;
    const uint8_t *bytes;
    size_t most;  /* bytes of the stretch */
    size_t taken; /* bytes */
} running;

static pawl_status take_run(void *context, strided_run run, pawl_error *err) {
    running *r = context;
    (void)err;
    assert_true(run.bytes > 0 && run.in_stretch + run.bytes <= r->most);
    memcpy(r->memory->data + run.in_memory, r->bytes + run.in_stretch, run.bytes);
    r->taken += run.bytes;
    return PAWL_OK;
}

static void check_runs(test_random *r, sample *s, const box *source) {
    struct pawl_error err = ERROR_INIT;
    uint64_t elements = box_elements(source);
    uint64_t from = random_below(r, elements + 1) * s->item;
    uint64_t n = random_below(r, elements + 1) * s->item;
    n = from + n > elements * s->item ? elements * s->item - from : n;
    AUTOFREE uint8_t *bytes = mem_alloc(n);
    random_fill(r, bytes, n);
    AUTOFREE uint8_t *before = mem_dup(s->memory, s->bytes);
    strided_place(&s->strided, source, from, n, bytes);
    AUTOFREE uint8_t *wanted = mem_dup(s->memory, s->bytes);
    memcpy(s->memory, before, s->bytes);
    running taken = {.memory = &s->strided, .bytes = bytes, .most = n};
    assert_ok(strided_runs(&s->strided, source, from, n, take_run, &taken, &err), &err);
    assert_memory_equal(s->memory, wanted, s->bytes);
    assert_true(taken.taken <= n);
}

static void test_runs_place_what_a_strided_copy_places(void **state) {
    (void)state;
    test_random r = {43};
    for (int round = 0; round < ROUNDS * 2; round++) {
        box shape = random_shape(&r, 1);
        box b = random_box(&r, &shape, 0);
        box source = round % 3 == 0 ? b : random_box(&r, &shape, 0);
        CLEANUP(sample_free) sample s = sample_random(&r, dtypes[round % 4], &b);
        settle(&s, &r);
        check_runs(&r, &s, &source);
    }
}

static void test_any_stretch_of_any_box_is_placed_where_it_belongs(void **state) {
    (void)state;
    test_random r = {42};
    for (int round = 0; round < ROUNDS * 2; round++) {
        box shape = random_shape(&r, 1);
        box b = random_box(&r, &shape, 0);
        box source = round % 5 == 0 ? b : random_box(&r, &shape, 0);
        CLEANUP(sample_free) sample s = sample_random(&r, dtypes[round % 4], &b);
        settle(&s, &r);
        check_place(&r, &s, &source);
    }
}

/* A tensor cut one way is put together in pieces that are cut another way, a stretch at a time. */
static void test_resharding_moves_every_byte_once(void **state) {
    (void)state;
    enum { ROWS = 24, COLUMNS = 36, PIECES = 3 };
    static uint32_t whole[ROWS * COLUMNS];
    int64_t shape[] = {ROWS, COLUMNS};
    box all = box_whole(2, shape);
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
        whole[i] = i;
    }
    for (int64_t column = 0; column < PIECES; column++) {
        uint32_t part[ROWS * COLUMNS / PIECES] = {0};
        strided to = {.dtype = PAWL_U32,
                      .box = box_of(2, (int64_t[]){0, column * COLUMNS / PIECES},
                                    (int64_t[]){ROWS, COLUMNS / PIECES}),
                      .data = (uint8_t *)part};
        for (uint64_t at = 0; at < sizeof(whole);) {
            size_t n = sizeof(whole) - at < 100 ? sizeof(whole) - at : 100;
            strided_place(&to, &all, at, n, (uint8_t *)whole + at);
            at += n;
        }
        for (size_t i = 0; i < ARRAY_LENGTH(part); i++) {
            size_t row = i / (COLUMNS / PIECES);
            size_t within = i % (COLUMNS / PIECES);
            assert_int_equal(part[i], row * COLUMNS + (size_t)column * COLUMNS / PIECES + within);
        }
    }
}

/* ---- single cases --------------------------------------------------------------------------- */

static void test_large_transposed_matrix_is_gathered_over_tiles(void **state) {
    (void)state;
    enum { ROWS = 200, COLUMNS = 131 };
    AUTOFREE uint16_t *memory = mem_alloc(ROWS * COLUMNS * sizeof(uint16_t));
    AUTOFREE uint16_t *dense = mem_alloc(ROWS * COLUMNS * sizeof(uint16_t));
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        memory[i] = (uint16_t)i;
    }
    strided v = {.dtype = PAWL_U16,
                 .box = box_whole(2, (int64_t[]){ROWS, COLUMNS}),
                 .strides = (int64_t[]){2, 2 * ROWS},
                 .data = (uint8_t *)memory};
    strided_gather(&v, 0, ROWS * COLUMNS * sizeof(uint16_t), (uint8_t *)dense);
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t column = 0; column < COLUMNS; column++) {
            assert_int_equal(dense[row * COLUMNS + column], (uint16_t)(column * ROWS + row));
        }
    }
}

static void test_scalar_is_one_element(void **state) {
    (void)state;
    float value = 1.5F;
    float out = 0;
    strided v = {.dtype = PAWL_F32, .data = (uint8_t *)&value};
    assert_true(strided_is_dense(&v));
    strided_gather(&v, 0, sizeof(out), (uint8_t *)&out);
    assert_true(out == 1.5F);
    out = 2.5F;
    strided_place(&v, &v.box, 0, sizeof(out), (uint8_t *)&out);
    assert_true(value == 2.5F);
}

static void test_packed_types_are_copied_as_bytes(void **state) {
    (void)state;
    uint8_t memory[] = {0x12, 0x34, 0x56, 0x78};
    uint8_t out[2];
    strided v = {.dtype = PAWL_F4, .box = box_whole(1, (int64_t[]){8}), .data = memory};
    assert_true(strided_is_dense(&v));
    strided_gather(&v, 1, 2, out);
    assert_memory_equal(out, "\x34\x56", 2);
    strided_place(&v, &v.box, 3, 1, (const uint8_t *)"\x9a");
    strided_place(&v, &v.box, 0, 1, (const uint8_t *)"\xbc");
    assert_memory_equal(memory, "\xbc\x34\x56\x9a", 4);
}

static void test_nothing_is_copied_without_memory(void **state) {
    (void)state;
    strided v = {.dtype = PAWL_F32, .box = box_whole(2, (int64_t[]){0, 3})};
    strided_gather(&v, 0, 0, NULL);
    strided_place(&v, &v.box, 0, 0, NULL);
    strided_place(&v, &v.box, 0, 0, NULL);
    assert_true(strided_is_dense(&v));
}

static void test_dense_is_what_has_row_major_strides_where_they_matter(void **state) {
    (void)state;
    strided v = {.dtype = PAWL_F32, .box = box_whole(3, (int64_t[]){4, 1, 6})};
    assert_true(strided_is_dense(&v));
    v.strides = (int64_t[]){24, 24, 4};
    assert_true(strided_is_dense(&v));
    v.strides = (int64_t[]){24, -7, 4}; /* of the extent of 1 */
    assert_true(strided_is_dense(&v));
    v.strides = (int64_t[]){32, 24, 4};
    assert_false(strided_is_dense(&v));
    v.strides = (int64_t[]){24, 24, 8};
    assert_false(strided_is_dense(&v));
    v.strides = (int64_t[]){-24, 24, 4};
    assert_false(strided_is_dense(&v));
}

/* ---- empty boxes ---------------------------------------------------------------------------- */

/* At least one extent of 0, the others as large as there are. */
static box empty_random(test_random *r, int ndim) {
    static const int64_t extents[] = {0, 1, 2, 5, INT64_C(1) << 31, INT64_C(1) << 62, INT64_MAX};
    box b = {.ndim = ndim};
    for (int i = 0; i < ndim; i++) {
        b.extent[i] = extents[random_below(r, ARRAY_LENGTH(extents))];
        b.offset[i] = (int64_t)random_below(r, (uint64_t)(INT64_MAX - b.extent[i]) + 1);
    }
    b.extent[random_below(r, (uint64_t)ndim)] = 0;
    return b;
}

/* The sanitizer sees what overflows. */
static void test_empty_boxes_of_any_size_hold_nothing_and_overflow_nowhere(void **state) {
    (void)state;
    test_random r = {.state = 22};
    for (int round = 0; round < ROUNDS; round++) {
        int ndim = 1 + (int)random_below(&r, PAWL_MAX_NDIM);
        box empty = empty_random(&r, ndim);
        box other = empty_random(&r, ndim);
        box one = {.ndim = ndim};
        uint8_t bytes[8] = {0};
        uint8_t memory[8] = {7, 7, 7, 7, 7, 7, 7, 7};
        uint64_t begin = 9, end = 9;
        box shared;
        for (int i = 0; i < ndim; i++) {
            one.extent[i] = 1;
        }
        assert_int_equal(box_elements(&empty), 0);
        assert_true(box_contains(&other, &empty));
        assert_false(box_intersect(&empty, &other, &shared));
        assert_false(box_intersect(&empty, &one, &shared));
        box_runs runs = box_runs_of(&empty, &other);
        assert_false(box_runs_next(&runs, &begin, &end));
        strided v = {.dtype = PAWL_F64, .box = empty, .data = memory};
        assert_true(strided_is_dense(&v));
        strided_gather(&v, 0, 0, bytes);
        strided_place(&v, &v.box, 0, 0, bytes);
        strided_place(&v, &one, 0, 8, bytes); /* of another box: none of it is here */
        assert_int_equal(memory[0], 7);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_stretch_is_gathered_from_any_strides),
        cmocka_unit_test(test_any_stretch_is_scattered_and_nothing_else_is_touched),
        cmocka_unit_test(test_any_stretch_of_any_box_is_placed_where_it_belongs),
        cmocka_unit_test(test_runs_place_what_a_strided_copy_places),
        cmocka_unit_test(test_resharding_moves_every_byte_once),
        cmocka_unit_test(test_large_transposed_matrix_is_gathered_over_tiles),
        cmocka_unit_test(test_scalar_is_one_element),
        cmocka_unit_test(test_packed_types_are_copied_as_bytes),
        cmocka_unit_test(test_nothing_is_copied_without_memory),
        cmocka_unit_test(test_dense_is_what_has_row_major_strides_where_they_matter),
        cmocka_unit_test(test_empty_boxes_of_any_size_hold_nothing_and_overflow_nowhere),
    };
    return cmocka_run_group_tests_name("tensor copy", tests, NULL, NULL);
}
