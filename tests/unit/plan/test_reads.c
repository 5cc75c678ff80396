/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of a restore: which stretches, what is missing, and where the elements end up. */
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "plan/plan.h"
#include "unit/match/fixture.h"

#include <stdio.h>

/* One wanted tensor and its record, with pieces that a test adds. */
typedef struct single {
    pawl_state *state;
    const state_entry *wanted;
    record_entry record;
    record_piece pieces[64];
    int64_t numbers[64][2][4];
    match_pair pair;
    plan_reads reads;
    pawl_error err;
} single;

static int set_up_single(void **context) {
    static single s;
    memset(&s, 0, sizeof(s));
    s.err = ERROR_INIT;
    *context = &s;
    return state_new(&s.state, &s.err) == PAWL_OK ? 0 : -1;
}

static int tear_down_single(void **context) {
    single *s = *context;
    plan_reads_free(&s->reads);
    state_free(s->state);
    return 0;
}

/* `t` without a name or size; the record is of `saved`, without pieces. */
static void want(single *s, pawl_tensor t, pawl_dtype saved) {
    t.struct_size = sizeof(t);
    t.name = "dense/kernel";
    assert_ok(state_add_tensor(s->state, &t, &s->err), &s->err);
    s->wanted = state_find(s->state, "dense/kernel");
    s->record = (record_entry){.name = "dense/kernel",
                               .kind = PAWL_KIND_TENSOR,
                               .dtype = saved,
                               .ndim = t.ndim,
                               .shape = s->wanted->shape,
                               .pieces = s->pieces};
    s->pair = (match_pair){.wanted = s->wanted, .source = &s->record};
}

static void want_whole(single *s, pawl_dtype wanted, pawl_dtype saved, int ndim,
                       const int64_t *shape) {
    pawl_tensor t = {.dtype = wanted, .ndim = ndim, .shape = shape, .data = fixture_memory};
    want(s, t, saved);
}

static void add_piece(single *s, uint32_t file, uint64_t at, const int64_t *offset,
                      const int64_t *extent) {
    size_t i = s->record.piece_count++;
    size_t n = (size_t)s->record.ndim * sizeof(int64_t);
    memcpy(s->numbers[i][0], offset, n);
    memcpy(s->numbers[i][1], extent, n);
    s->pieces[i] = (record_piece){.file = file,
                                  .offset = at,
                                  .bytes = shape_bytes(s->record.dtype, s->record.ndim, extent),
                                  .box_offset = s->numbers[i][0],
                                  .box_extent = s->numbers[i][1]};
}

static void make_reads(single *s) {
    assert_ok(plan_reads_make(&s->pair, 1, 0, &s->reads, &s->err), &s->err);
}

/* "file:offset+bytes ..." */
static void assert_reads(single *s, const char *wanted) {
    char text[512] = "";
    size_t n = 0;
    uint64_t bytes = 0;
    make_reads(s);
    for (size_t i = 0; i < s->reads.count; i++) {
        const plan_read *read = &s->reads.reads[i];
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u:%llu+%llu", i > 0 ? " " : "",
                              read->file, (unsigned long long)read->offset,
                              (unsigned long long)read->bytes);
        bytes += read->bytes;
    }
    assert_string_equal(text, wanted);
    assert_int_equal(s->reads.bytes, bytes);
}

#define AT(...) ((const int64_t[]){__VA_ARGS__})

/* ---- which stretches ------------------------------------------------------------------------ */

static void test_whole_tensor_is_one_read(void **context) {
    single *s = *context;
    want_whole(s, PAWL_F32, PAWL_F32, SHAPE(64, 10));
    add_piece(s, 3, 4096, AT(0, 0), AT(64, 10));
    assert_reads(s, "3:4096+2560");
}

static void test_each_stretch_of_a_large_tensor_has_its_place(void **context) {
    single *s = *context;
    want_whole(s, PAWL_U8, PAWL_U8, SHAPE(2 * PLAN_READ_BYTES + 3));
    add_piece(s, 0, 4096, AT(0), AT(2 * PLAN_READ_BYTES + 3));
    assert_reads(s, "0:4096+16777216 0:16781312+16777216 0:33558528+3");
    for (size_t i = 0; i < s->reads.count; i++) {
        const plan_read *read = &s->reads.reads[i];
        assert_int_equal((uintptr_t)read->straight - (uintptr_t)fixture_memory,
                         read->offset - 4096);
    }
}

static void test_scalar_is_one_read(void **context) {
    single *s = *context;
    want_whole(s, PAWL_F32, PAWL_F32, 0, NULL);
    add_piece(s, 0, 4096, AT(0), AT(0));
    assert_reads(s, "0:4096+4");
}

static void test_empty_tensor_is_no_read(void **context) {
    single *s = *context;
    want_whole(s, PAWL_F32, PAWL_F32, SHAPE(0, 10));
    add_piece(s, 0, 4096, AT(0, 0), AT(0, 10));
    assert_reads(s, "");
}

static void test_reads_ascend_by_file_and_offset(void **context) {
    single *s = *context;
    want_whole(s, PAWL_F32, PAWL_F32, SHAPE(4, 10));
    add_piece(s, 2, 4096, AT(0, 0), AT(1, 10));
    add_piece(s, 1, 8192, AT(1, 0), AT(1, 10));
    add_piece(s, 1, 4096, AT(2, 0), AT(2, 10));
    assert_reads(s, "1:4096+80 1:8192+40 2:4096+40");
}

static void want_columns(single *s, int64_t rows, int64_t columns, int64_t first, int64_t count) {
    int64_t shape[] = {rows, columns};
    int64_t offset[] = {0, first};
    int64_t extent[] = {rows, count};
    pawl_box part = {.offset = offset, .extent = extent, .data = fixture_memory};
    pawl_tensor t = {.dtype = PAWL_U8, .ndim = 2, .shape = shape, .nboxes = 1, .boxes = &part};
    want(s, t, PAWL_U8);
    add_piece(s, 0, 4096, AT(0, 0), shape);
}

/* Four blocks that are not needed are read along, more are not. */
static void test_gap_of_4_blocks_is_read_over(void **context) {
    single *s = *context;
    want_columns(s, 3, 65536 + 10, 5, 10);
    assert_reads(s, "0:4101+131102");
}

static void test_gap_of_more_than_4_blocks_is_cut(void **context) {
    single *s = *context;
    want_columns(s, 3, 65536 + 11, 5, 10);
    assert_reads(s, "0:4101+10 0:69648+10 0:135195+10");
}

/* Of a large tensor what is not needed is not read, where it is whole blocks. */
static void test_gap_of_a_large_tensor_is_cut(void **context) {
    single *s = *context;
    want_columns(s, 9, 131072, 0, 65536);
    make_reads(s);
    assert_int_equal(s->reads.count, 9);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(s->reads.reads[i].offset, 4096 + i * 131072);
        assert_int_equal(s->reads.reads[i].bytes, 65536);
    }
}

static void test_gap_without_a_whole_block_is_read_over(void **context) {
    single *s = *context;
    want_columns(s, 9, 131072, 0, 131072 - 16384);
    assert_reads(s, "0:4096+1163264");
}

/* A 64th of what comes behind it may be in front of it. */
static void test_gap_that_is_little_is_read_over(void **context) {
    single *s = *context;
    want_columns(s, 3, (int64_t)65 << 16, 0, (int64_t)64 << 16);
    assert_reads(s, "0:4096+12713984");
}

static void test_long_read_is_cut(void **context) {
    single *s = *context;
    want_whole(s, PAWL_U8, PAWL_U8, SHAPE((int64_t)40 << 20));
    add_piece(s, 0, 4096, AT(0), AT((int64_t)40 << 20));
    assert_reads(s, "0:4096+16777216 0:16781312+16777216 0:33558528+8388608");
}

static void test_pieces_elsewhere_are_not_read(void **context) {
    single *s = *context;
    int64_t shape[] = {8};
    pawl_box part = {.offset = AT(4), .extent = AT(2), .data = fixture_memory};
    pawl_tensor t = {.dtype = PAWL_U8, .ndim = 1, .shape = shape, .nboxes = 1, .boxes = &part};
    want(s, t, PAWL_U8);
    add_piece(s, 0, 4096, AT(0), AT(4));
    add_piece(s, 1, 4096, AT(4), AT(4));
    assert_reads(s, "1:4096+2");
}

static void test_r07_kept_entry_is_not_read(void **context) {
    single *s = *context;
    want_whole(s, PAWL_F32, PAWL_F32, SHAPE(4));
    s->pair.keep_caller = true; /* not even a hole in it matters */
    assert_reads(s, "");
}

/* ---- what is missing ------------------------------------------------------------------------ */

static void assert_not_planned(single *s, pawl_status status, const char *text) {
    assert_int_equal(plan_reads_make(&s->pair, 1, 0, &s->reads, &s->err), status);
    assert_status_text(&s->err, status, text);
    assert_int_equal(s->reads.count, 0);
}

static void test_r08_hole_is_refused(void **context) {
    single *s = *context;
    want_whole(s, PAWL_F32, PAWL_F32, SHAPE(4, 10));
    add_piece(s, 0, 4096, AT(0, 0), AT(1, 10));
    add_piece(s, 0, 8192, AT(2, 0), AT(1, 10));
    assert_not_planned(s, PAWL_EDAMAGED,
                       "cannot restore: the checkpoint does not hold all of the tensor\n"
                       "  entry:    dense/kernel\n"
                       "  expected: pieces that cover [0:4, 0:10]\n"
                       "  found:    20 of 40 elements\n"
                       "  next:     restore another step");
}

static void test_r08_no_piece_is_a_hole(void **context) {
    single *s = *context;
    want_whole(s, PAWL_F32, PAWL_F32, SHAPE(4));
    assert_not_planned(s, PAWL_EDAMAGED,
                       "cannot restore: the checkpoint does not hold all of the tensor\n"
                       "  entry:    dense/kernel\n"
                       "  expected: pieces that cover [0:4]\n"
                       "  found:    0 of 4 elements\n"
                       "  next:     restore another step");
}

static void test_r10_value_of_a_rank_that_is_not_there(void **context) {
    single *s = *context;
    assert_ok(
        state_set_value(s->state, "rng", PAWL_KIND_BYTES, PAWL_ROLE_RNG, true, "x", 1, &s->err),
        &s->err);
    record_piece pieces[] = {{.rank = 0, .bytes = 1}, {.rank = 2, .bytes = 1}};
    record_entry record = {.name = "rng",
                           .kind = PAWL_KIND_BYTES,
                           .per_rank = true,
                           .pieces = pieces,
                           .piece_count = 2};
    s->pair = (match_pair){.wanted = state_find(s->state, "rng"), .source = &record};
    assert_ok(plan_reads_make(&s->pair, 1, 2, &s->reads, &s->err), &s->err);
    assert_int_equal(s->reads.count, 0);
    assert_int_equal(plan_reads_make(&s->pair, 1, 1, &s->reads, &s->err), PAWL_EDAMAGED);
    assert_status_text(&s->err, PAWL_EDAMAGED,
                       "cannot restore: the checkpoint does not hold the value of rank 1\n"
                       "  entry:    rng\n"
                       "  next:     restore another step");
}

static void test_packed_elements_are_not_cut_within_a_byte(void **context) {
    single *s = *context;
    want_whole(s, PAWL_F4, PAWL_F4, SHAPE(4, 3));
    add_piece(s, 0, 4096, AT(0, 0), AT(4, 1));
    add_piece(s, 0, 8192, AT(0, 1), AT(4, 2));
    assert_not_planned(
        s, PAWL_EUNSUPPORTED,
        "cannot restore: cannot cut a tensor of packed elements (F4) within a byte\n"
        "  entry:    dense/kernel\n"
        "  expected: a box that begins and ends where a byte of the checkpoint's [0:4, 0:1] does\n"
        "  found:    [0:4, 0:3]\n"
        "  next:     restore with the boxes that saved it, or with even ones");
}

static void test_packed_elements_are_cut_between_bytes(void **context) {
    single *s = *context;
    want_whole(s, PAWL_F4, PAWL_F4, SHAPE(4, 8));
    add_piece(s, 0, 4096, AT(0, 0), AT(4, 2));
    add_piece(s, 0, 8192, AT(0, 2), AT(4, 6));
    assert_reads(s, "0:4096+4 0:8192+12");
    memset(fixture_memory, 0, 16);
    assert_int_equal(plan_read_place(s->reads.reads, 4096, (const uint8_t *)"abcd", 4), 0);
    assert_int_equal(plan_read_place(s->reads.reads + 1, 8192, (const uint8_t *)"123456789xyz", 12),
                     0);
    assert_memory_equal(fixture_memory, "a123b456c789dxyz", 16);
}

static void test_packed_elements_as_they_were_saved(void **context) {
    single *s = *context;
    want_whole(s, PAWL_F4, PAWL_F4, SHAPE(4, 4));
    add_piece(s, 0, 4096, AT(0, 0), AT(4, 4));
    assert_reads(s, "0:4096+8");
    memset(fixture_memory, 0, 16);
    assert_int_equal(plan_read_place(s->reads.reads, 4098, (const uint8_t *)"abc", 3), 0);
    assert_memory_equal(fixture_memory, "\0\0abc\0\0", 8);
}

/* ---- random boxes, against brute force ------------------------------------------------------ */

#define MAX_PIECES 64
#define DATA_BYTES 8192

typedef struct trial {
    int ndim;
    int64_t shape[4];
    box pieces[MAX_PIECES], boxes[PAWL_MAX_BOXES];
    size_t piece_count, box_count;
    uint8_t files[3][DATA_BYTES];
    uint64_t file_bytes[3];
} trial;

/* Cuts `whole` at random until the parts are small or many: disjoint, and together the whole. */
static void cut(test_random *r, const box *whole, box *out, size_t *count, size_t most) {
    int d = whole->ndim == 0 ? -1 : (int)random_below(r, (uint64_t)whole->ndim);
    if (d < 0 || whole->extent[d] < 2 || random_below(r, 4) == 0 || *count + 2 > most) {
        out[(*count)++] = *whole;
        return;
    }
    box left = *whole;
    box right = *whole;
    left.extent[d] = random_between(r, 1, whole->extent[d] - 1);
    right.offset[d] += left.extent[d];
    right.extent[d] -= left.extent[d];
    cut(r, &left, out, count, most - 1);
    cut(r, &right, out, count, most);
}

/* A number for each element of the tensor, from its place. */
static uint64_t element_number(const trial *t, const box *b, uint64_t k) {
    int64_t index[4];
    for (int d = t->ndim - 1; d >= 0; d--) {
        index[d] = b->offset[d] + (int64_t)(k % (uint64_t)b->extent[d]);
        k /= (uint64_t)b->extent[d];
    }
    uint64_t number = 0;
    for (int d = 0; d < t->ndim; d++) {
        number = number * (uint64_t)t->shape[d] + (uint64_t)index[d];
    }
    return number;
}

/* Puts the pieces into files and the record. */
static void save_pieces(single *s, trial *t, test_random *r) {
    box whole = box_whole(t->ndim, t->shape);
    cut(r, &whole, t->pieces, &t->piece_count, 20);
    memset(t->file_bytes, 0, sizeof(t->file_bytes));
    for (size_t i = 0; i < t->piece_count; i++) {
        uint32_t file = (uint32_t)random_below(r, 3);
        const box *b = &t->pieces[i];
        add_piece(s, file, t->file_bytes[file], b->offset, b->extent);
        for (uint64_t k = 0; k < box_elements(b); k++) {
            uint32_t value = (uint32_t)element_number(t, b, k) + 1;
            float as_float = (float)value;
            assert_true(t->file_bytes[file] + 4 <= DATA_BYTES);
            memcpy(t->files[file] + t->file_bytes[file],
                   s->record.dtype == PAWL_F32 ? (const void *)&as_float : &value, 4);
            t->file_bytes[file] += 4;
        }
    }
}

/* The state's boxes: dense, in one array, one after the other. `item_bytes` of the wanted dtype. */
static void want_boxes(single *s, trial *t, test_random *r, pawl_dtype wanted, pawl_dtype saved,
                       size_t item_bytes) {
    static pawl_box boxes[PAWL_MAX_BOXES];
    box whole = box_whole(t->ndim, t->shape);
    cut(r, &whole, t->boxes, &t->box_count, 6);
    if (t->box_count > 1 && random_below(r, 2) == 0) {
        t->box_count--; /* another rank holds the last one */
    }
    uint8_t *at = fixture_memory;
    for (size_t i = 0; i < t->box_count; i++) {
        boxes[i] =
            (pawl_box){.offset = t->boxes[i].offset, .extent = t->boxes[i].extent, .data = at};
        at += box_elements(&t->boxes[i]) * item_bytes;
    }
    pawl_tensor tensor = {.dtype = wanted,
                          .ndim = t->ndim,
                          .shape = t->shape,
                          .nboxes = t->box_count,
                          .boxes = boxes};
    want(s, tensor, saved);
}

/* Hands the stretches over as a reader does: in parts, cut anywhere between elements. */
static uint64_t place_all(single *s, const trial *t, test_random *r) {
    uint64_t overflows = 0;
    for (size_t i = 0; i < s->reads.count; i++) {
        const plan_read *read = &s->reads.reads[i];
        assert_true(read->offset + read->bytes <= t->file_bytes[read->file]);
        for (uint64_t done = 0; done < read->bytes;) {
            uint64_t n = 4 * (uint64_t)random_between(r, 1, (int64_t)(read->bytes - done) / 4);
            overflows += plan_read_place(read, read->offset + done,
                                         t->files[read->file] + read->offset + done, n);
            done += n;
        }
    }
    return overflows;
}

static void random_shape(trial *t, test_random *r) {
    memset(t, 0, sizeof(*t));
    t->ndim = (int)random_below(r, 5);
    for (int d = 0; d < t->ndim; d++) {
        t->shape[d] = random_between(r, 1, 4);
    }
}

/* Seed 3: random cuts on both sides: bit for bit what brute force says. */
static void test_random_boxes_are_placed_bit_for_bit(void **context) {
    single *s = *context;
    test_random r = {.state = 3};
    static trial t;
    for (int i = 0; i < 5000; i++) {
        random_shape(&t, &r);
        memset(fixture_memory, 0, sizeof(fixture_memory));
        want_boxes(s, &t, &r, PAWL_U32, PAWL_U32, 4);
        save_pieces(s, &t, &r);
        make_reads(s);
        assert_int_equal(place_all(s, &t, &r), 0);
        const uint8_t *at = fixture_memory;
        for (size_t b = 0; b < t.box_count; b++) {
            for (uint64_t k = 0; k < box_elements(&t.boxes[b]); k++, at += 4) {
                uint32_t value;
                memcpy(&value, at, 4);
                assert_int_equal(value, element_number(&t, &t.boxes[b], k) + 1);
            }
        }
        uint32_t beyond;
        memcpy(&beyond, at, 4);
        assert_int_equal(beyond, 0);
        plan_reads_free(&s->reads);
        assert_ok(state_remove(s->state, "dense/kernel", &s->err), &s->err);
    }
}

/* Seed 4: the same with a cast on the way. */
static void test_r02_random_boxes_are_cast(void **context) {
    single *s = *context;
    test_random r = {.state = 4};
    static trial t;
    for (int i = 0; i < 2000; i++) {
        random_shape(&t, &r);
        want_boxes(s, &t, &r, PAWL_F64, PAWL_F32, 8);
        save_pieces(s, &t, &r);
        make_reads(s);
        assert_int_equal(place_all(s, &t, &r), 0);
        const uint8_t *at = fixture_memory;
        for (size_t b = 0; b < t.box_count; b++) {
            for (uint64_t k = 0; k < box_elements(&t.boxes[b]); k++, at += 8) {
                double value;
                memcpy(&value, at, 8);
                assert_true(value == (double)(element_number(&t, &t.boxes[b], k) + 1));
            }
        }
        plan_reads_free(&s->reads);
        assert_ok(state_remove(s->state, "dense/kernel", &s->err), &s->err);
    }
}

/* Of a stretch with elements that nobody wants, only the wanted ones overflow. */
static void test_r02_overflows_are_those_of_the_wanted_elements(void **context) {
    single *s = *context;
    enum { COLUMNS = 1500 };
    static float saved[2][COLUMNS];
    static _Alignas(8) uint16_t wanted[2][2];
    for (int i = 0; i < COLUMNS; i++) {
        saved[0][i] = saved[1][i] = 1e6F; /* too large for F16 */
    }
    saved[0][0] = 1.0F;
    pawl_box part = {.offset = AT(0, 0), .extent = AT(2, 2), .data = wanted};
    pawl_tensor t = {
        .dtype = PAWL_F16, .ndim = 2, .shape = AT(2, COLUMNS), .nboxes = 1, .boxes = &part};
    want(s, t, PAWL_F32);
    add_piece(s, 0, 4096, AT(0, 0), AT(2, COLUMNS));
    assert_reads(s, "0:4096+6008");
    assert_int_equal(plan_read_place(s->reads.reads, 4096, (const uint8_t *)saved, 6008), 3);
    assert_int_equal(wanted[0][0], 0x3c00);
    assert_int_equal(wanted[0][1], 0x7c00);
    assert_int_equal(wanted[1][0], 0x7c00);
    assert_int_equal(wanted[1][1], 0x7c00);
}

static void test_strided_memory_is_filled(void **context) {
    single *s = *context;
    uint8_t columns[3][2];
    pawl_tensor t = {
        .dtype = PAWL_U8, .ndim = 2, .shape = AT(2, 3), .strides = AT(1, 2), .data = columns};
    want(s, t, PAWL_U8);
    add_piece(s, 0, 4096, AT(0, 0), AT(2, 3));
    make_reads(s);
    assert_int_equal(plan_read_place(s->reads.reads, 4096, (const uint8_t *)"abcdef", 6), 0);
    assert_memory_equal(columns, "adbecf", 6);
}

/* ---- how much is read ----------------------------------------------------------------------- */

#define PIECE_AT 4096

/* Marks the blocks that have bytes of [from, from + n) of a file, and counts those that are new. */
static uint64_t mark_blocks(uint8_t *marks, uint64_t from, uint64_t n) {
    uint64_t marked = 0;
    for (uint64_t b = from / FORMAT_BLOCK_BYTES; n > 0 && b * FORMAT_BLOCK_BYTES < from + n; b++) {
        marked += marks[b] == 0;
        marks[b] = 1;
    }
    return marked;
}

static uint64_t needed_blocks(const box *part, const box *whole, uint8_t *marks) {
    box_runs runs = box_runs_of(part, whole);
    uint64_t first = 0;
    uint64_t count = 0;
    uint64_t blocks = 0;
    while (box_runs_next(&runs, &first, &count)) {
        blocks += mark_blocks(marks, PIECE_AT + first, count);
    }
    return blocks;
}

/* As the engine reads: stretches, and what lies between them where plan_reads_on says so. */
static uint64_t read_blocks_of(const plan_reads *reads, uint8_t *marks) {
    uint64_t blocks = 0;
    uint64_t end = 0;
    for (size_t i = 0; i < reads->count; i++) {
        const plan_read *read = &reads->reads[i];
        bool on = end > 0 && plan_reads_on(end, read->offset, read->gap);
        uint64_t from = on ? end : read->offset;
        end = read->offset + read->bytes;
        blocks += mark_blocks(marks, from, end - from);
    }
    return blocks;
}

/* Seed 5: any part of any tensor of 1 to 8 MiB: at most 1.05 times the blocks that it needs. */
static void test_little_more_is_read_than_is_needed(void **context) {
    (void)context;
    test_random r = {.state = 5};
    static uint8_t needed[1024];
    static uint8_t read[1024];
    for (int i = 0; i < 1000; i++) {
        struct pawl_error err = ERROR_INIT;
        int64_t shape[3];
        int64_t offset[3];
        int64_t extent[3];
        shape[2] = (int64_t)1 << random_between(&r, 8, 20);
        shape[2] += random_between(&r, 0, shape[2] / 2);
        shape[1] = random_between(&r, 1, ((int64_t)4 << 20) / shape[2] + 1);
        shape[0] = ((int64_t)2 << 20) / (shape[2] * shape[1]) + 1;
        for (int d = 0; d < 3; d++) {
            offset[d] = random_below(&r, 3) == 0 ? 0 : random_between(&r, 0, shape[d] - 1);
            extent[d] = random_between(&r, 1, shape[d] - offset[d]);
        }
        single s = {.err = ERROR_INIT};
        assert_ok(state_new(&s.state, &err), &err);
        pawl_box part = {.offset = offset, .extent = extent, .data = fixture_memory};
        pawl_tensor t = {.dtype = PAWL_U8, .ndim = 3, .shape = shape, .nboxes = 1, .boxes = &part};
        want(&s, t, PAWL_U8);
        add_piece(&s, 0, PIECE_AT, AT(0, 0, 0), shape);
        make_reads(&s);
        memset(needed, 0, sizeof(needed));
        memset(read, 0, sizeof(read));
        box whole = box_whole(3, shape);
        box wanted = box_of(3, offset, extent);
        uint64_t most = needed_blocks(&wanted, &whole, needed) * 105;
        assert_true(read_blocks_of(&s.reads, read) * 100 <= most);
        plan_reads_free(&s.reads);
        state_free(s.state);
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

static pawl_status make(void *context, pawl_error *err) {
    single *s = context;
    plan_reads reads = {0};
    pawl_status status = plan_reads_make(&s->pair, 1, 0, &reads, err);
    assert_int_equal(reads.count, status == PAWL_OK ? 3 : 0);
    plan_reads_free(&reads);
    return status;
}

static void test_reads_without_memory_leak_nothing(void **context) {
    single *s = *context;
    want_whole(s, PAWL_U8, PAWL_U8, SHAPE(10));
    add_piece(s, 0, 4096, AT(0), AT(3));
    add_piece(s, 0, 8192, AT(6), AT(4));
    add_piece(s, 1, 8192, AT(3), AT(3));
    assert_true(failing_memory_each(make, s) >= 1);
}

#define WITH_ONE(test) cmocka_unit_test_setup_teardown(test, set_up_single, tear_down_single)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_ONE(test_whole_tensor_is_one_read),
        WITH_ONE(test_each_stretch_of_a_large_tensor_has_its_place),
        WITH_ONE(test_scalar_is_one_read),
        WITH_ONE(test_empty_tensor_is_no_read),
        WITH_ONE(test_reads_ascend_by_file_and_offset),
        WITH_ONE(test_gap_of_4_blocks_is_read_over),
        WITH_ONE(test_gap_of_more_than_4_blocks_is_cut),
        WITH_ONE(test_gap_of_a_large_tensor_is_cut),
        WITH_ONE(test_gap_without_a_whole_block_is_read_over),
        WITH_ONE(test_gap_that_is_little_is_read_over),
        WITH_ONE(test_long_read_is_cut),
        cmocka_unit_test(test_little_more_is_read_than_is_needed),
        WITH_ONE(test_pieces_elsewhere_are_not_read),
        WITH_ONE(test_r07_kept_entry_is_not_read),
        WITH_ONE(test_r08_hole_is_refused),
        WITH_ONE(test_r08_no_piece_is_a_hole),
        WITH_ONE(test_r10_value_of_a_rank_that_is_not_there),
        WITH_ONE(test_packed_elements_are_not_cut_within_a_byte),
        WITH_ONE(test_packed_elements_are_cut_between_bytes),
        WITH_ONE(test_packed_elements_as_they_were_saved),
        WITH_ONE(test_random_boxes_are_placed_bit_for_bit),
        WITH_ONE(test_r02_random_boxes_are_cast),
        WITH_ONE(test_r02_overflows_are_those_of_the_wanted_elements),
        WITH_ONE(test_strided_memory_is_filled),
        WITH_ONE(test_reads_without_memory_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
