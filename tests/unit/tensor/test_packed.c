/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of elements of less than a byte, against elements that are moved one by one. */
#include "lib/random.h"
#include "lib/test.h"

#include "tensor/tensor.h"

#include <string.h>

#define MOST_ELEMENTS 512

/* Element `i` of packed ones. */
static unsigned element_at(const uint8_t *packed, int bits, uint64_t i) {
    unsigned value = 0;
    for (int b = 0; b < bits; b++) {
        uint64_t at = i * (uint64_t)bits + (uint64_t)b;
        value |= (unsigned)(packed[at / 8] >> at % 8 & 1) << b;
    }
    return value;
}

static void set_element(uint8_t *packed, int bits, uint64_t i, unsigned value) {
    for (int b = 0; b < bits; b++) {
        uint64_t at = i * (uint64_t)bits + (uint64_t)b;
        packed[at / 8] = (uint8_t)((packed[at / 8] & ~(1U << at % 8)) | (value >> b & 1) << at % 8);
    }
}

/* The elements that both boxes hold, one by one. */
static void move_elements(int bits, const box *to, uint8_t *memory, const box *from,
                          const uint8_t *packed) {
    for (uint64_t i = 0; i < box_elements(from); i++) {
        box one = box_leading(from, i, 1);
        if (box_contains(to, &one)) {
            uint64_t place = 0;
            for (int d = 0; d < to->ndim; d++) {
                place = place * (uint64_t)to->extent[d] + (uint64_t)(one.offset[d] - to->offset[d]);
            }
            set_element(memory, bits, place, element_at(packed, bits, i));
        }
    }
}

/* Inside the shape, with whole bytes of elements; often with whole rows. */
static bool random_part(test_random *r, int bits, int ndim, const int64_t *shape, box *out) {
    *out = box_whole(ndim, shape);
    for (int d = 0; d < ndim; d++) {
        if (random_below(r, 2) == 0) {
            out->offset[d] = random_between(r, 0, shape[d] - 1);
            out->extent[d] = random_between(r, 1, shape[d] - out->offset[d]);
        }
    }
    return box_elements(out) * (uint64_t)bits % 8 == 0;
}

typedef struct taken {
    uint8_t *memory;
    const uint8_t *stretch;
} taken;

static pawl_status take(void *context, strided_run run, pawl_error *err) {
    const taken *t = context;
    (void)err;
    memcpy(t->memory + run.in_memory, t->stretch + run.in_stretch, run.bytes);
    return PAWL_OK;
}

/* In two stretches, cut at any byte. */
static void place_both_ways(test_random *r, const strided *to, const box *from, size_t n,
                            const uint8_t *packed, const uint8_t *wanted, size_t wanted_bytes) {
    struct pawl_error err = ERROR_INIT;
    size_t cut = (size_t)random_below(r, n + 1);
    uint8_t before[MOST_ELEMENTS];
    memcpy(before, to->data, wanted_bytes);
    strided_place(to, from, 0, cut, packed);
    strided_place(to, from, cut, n - cut, packed + cut);
    assert_memory_equal(to->data, wanted, wanted_bytes);
    memcpy(to->data, before, wanted_bytes);
    taken t = {.memory = to->data, .stretch = packed};
    assert_ok(strided_runs(to, from, 0, cut, take, &t, &err), &err);
    t.stretch += cut;
    assert_ok(strided_runs(to, from, cut, n - cut, take, &t, &err), &err);
    assert_memory_equal(to->data, wanted, wanted_bytes);
}

static void test_boxes_cut_between_bytes_are_placed(void **state) {
    (void)state;
    static const pawl_dtype dtypes[] = {PAWL_F4, PAWL_F6_E2M3, PAWL_F6_E3M2};
    test_random r = {51};
    int placed = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        pawl_dtype dtype = dtypes[random_below(&r, 3)];
        int bits = pawl_dtype_bits(dtype);
        int ndim = (int)random_between(&r, 1, 3);
        int64_t shape[] = {random_between(&r, 1, 8), random_between(&r, 1, 8),
                           random_between(&r, 1, 8)};
        uint8_t packed[MOST_ELEMENTS], memory[MOST_ELEMENTS], wanted[MOST_ELEMENTS];
        box from, to;
        if (!random_part(&r, bits, ndim, shape, &from) ||
            !random_part(&r, bits, ndim, shape, &to)) {
            continue;
        }
        box a = from, b = to;
        if (!boxes_as_bytes(dtype, &a, &b)) {
            refused++;
            continue;
        }
        size_t n = (size_t)box_elements(&from) * (size_t)bits / 8;
        random_fill(&r, packed, sizeof packed);
        random_fill(&r, memory, sizeof memory);
        memcpy(wanted, memory, sizeof memory);
        move_elements(bits, &to, wanted, &from, packed);
        const strided v = {.dtype = dtype, .box = to, .data = memory};
        place_both_ways(&r, &v, &from, n, packed, wanted,
                        (size_t)box_elements(&to) * (size_t)bits / 8);
        placed++;
    }
    assert_true(placed > 2000 && refused > 2000);
}

/* What a shard of a model does: whole bytes in each row, or whole rows. */
static void test_usual_cuts_are_between_bytes(void **state) {
    (void)state;
    static const struct {
        pawl_dtype dtype;
        int64_t offset[2], extent[2]; /* of [6, 8] */
        bool fits;
    } cases[] = {
        {PAWL_F4, {2, 0}, {3, 8}, true},       {PAWL_F4, {0, 2}, {6, 4}, true},
        {PAWL_F4, {1, 4}, {1, 2}, true},       {PAWL_F4, {0, 1}, {6, 2}, false},
        {PAWL_F4, {0, 0}, {6, 3}, false},      {PAWL_F6_E2M3, {0, 4}, {6, 4}, true},
        {PAWL_F6_E2M3, {0, 2}, {6, 4}, false}, {PAWL_F6_E3M2, {5, 0}, {1, 8}, true},
        {PAWL_F32, {0, 1}, {6, 3}, true},
    };
    const int64_t shape[] = {6, 8};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        box whole = box_whole(2, shape);
        box part = box_of(2, cases[i].offset, cases[i].extent);
        assert_int_equal(boxes_as_bytes(cases[i].dtype, &whole, &part), cases[i].fits);
    }
    /* Rows of 12 bits: two of them are 3 bytes. */
    const int64_t narrow[] = {6, 3};
    box whole = box_whole(2, narrow);
    box two = box_of(2, (int64_t[]){2, 0}, (int64_t[]){2, 3});
    assert_true(boxes_as_bytes(PAWL_F4, &whole, &two));
    whole = box_whole(2, narrow);
    two = box_of(2, (int64_t[]){1, 0}, (int64_t[]){2, 3});
    assert_false(boxes_as_bytes(PAWL_F4, &whole, &two));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes_cut_between_bytes_are_placed),
        cmocka_unit_test(test_usual_cuts_are_between_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
