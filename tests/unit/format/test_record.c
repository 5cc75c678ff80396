/* SPDX-License-Identifier: Apache-2.0 */
/* record: golden bytes of the index's records, round trips, and what a hostile record
 * may not say. */
#include "format/format.h"
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "lib/test.h"

#include <stdio.h>
#include <string.h>

#define FILES 4u

static pawl_status decode_named(const char *name, const void *value, size_t n, arena *memory,
                                record_entry *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {.data = NULL};
    TRY(record_entry_key(&key, name, err));
    return record_entry_decode(key.data, key.size, value, n, FILES, memory, out, err);
}

static void assert_text_equal(const char *a, const char *b) {
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL) {
        assert_string_equal(a, b);
    }
}

static void assert_entries_equal(const record_entry *a, const record_entry *b) {
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->role, b->role);
    assert_text_equal(a->slot_of, b->slot_of);
    assert_text_equal(a->slot, b->slot);
    assert_int_equal(a->per_rank, b->per_rank);
    assert_int_equal(a->replicated, b->replicated);
    assert_int_equal(a->dtype, b->dtype);
    assert_true(shape_equal(a->ndim, a->shape, b->ndim, b->shape));
    assert_int_equal(a->value == NULL, b->value == NULL);
    assert_int_equal(a->value_bytes, b->value_bytes);
    if (a->value_bytes > 0) {
        assert_memory_equal(a->value, b->value, a->value_bytes);
    }
    assert_int_equal(a->piece_count, b->piece_count);
    for (size_t i = 0; i < a->piece_count; i++) {
        const record_piece *p = &a->pieces[i], *q = &b->pieces[i];
        assert_int_equal(p->file, q->file);
        assert_int_equal(p->rank, q->rank);
        assert_int_equal(p->offset, q->offset);
        assert_int_equal(p->bytes, q->bytes);
        assert_int_equal(p->box_offset == NULL, q->box_offset == NULL);
        if (p->box_offset != NULL) {
            assert_true(shape_equal(a->ndim, p->box_offset, a->ndim, q->box_offset));
            assert_true(shape_equal(a->ndim, p->box_extent, a->ndim, q->box_extent));
        }
    }
}

/* ---- golden --------------------------------------------------------------------------------- */

/* Keys: entries by name; checksums by file and by 1024 blocks, big-endian so that they sort. */
static void test_keys_are_golden(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer key = {.data = NULL};
    assert_ok(record_entry_key(&key, "a/b", &err), &err);
    assert_int_equal(key.size, 4);
    assert_memory_equal(key.data, "ea/b", 4);
    uint8_t checksum_key[9];
    record_checksums_key(checksum_key, 0x01020304, 0x1234u * FORMAT_BLOCKS_PER_RECORD + 1023);
    static const uint8_t golden[] = {'c', 1, 2, 3, 4, 0, 0, 0x12, 0x34};
    assert_memory_equal(checksum_key, golden, sizeof golden);
}

/* The record of a tensor in two pieces, byte for byte. */
static void test_tensor_record_is_golden(void **state) {
    (void)state;
    static const uint8_t golden[] = {
        1, 1,   1,    2,                      /* version, tensor, slot, replicated */
        1, 'w',                               /* of the variable w */
        3, 'm', '/',  'v',  18, 2, 2, 200, 1, /* F32 [2, 200] */
        2,                                    /* two pieces */
        2, 0,   0x80, 0x20,                   /* file 1, a box; rank 0; at 4096 */
        0, 0,   1,    200,  1,                /* [0:1, 0:200] */
        6, 7,   0,                            /* file 3, a box; rank 7; at 0 */
        1, 0,   1,    200,  1,                /* [1:2, 0:200] */
    };
    int64_t shape[] = {2, 200}, zero[] = {0, 0}, one[] = {1, 0}, row[] = {1, 200};
    record_piece pieces[] = {
        {.file = 1, .rank = 0, .offset = 4096, .bytes = 800, .box_offset = zero, .box_extent = row},
        {.file = 3, .rank = 7, .offset = 0, .bytes = 800, .box_offset = one, .box_extent = row}};
    record_entry entry = {.name = "n",
                          .kind = PAWL_KIND_TENSOR,
                          .role = PAWL_ROLE_SLOT,
                          .slot_of = "w",
                          .slot = "m/v",
                          .replicated = true,
                          .dtype = PAWL_F32,
                          .ndim = 2,
                          .shape = shape,
                          .pieces = pieces,
                          .piece_count = 2};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer value = {.data = NULL};
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    record_entry back;
    assert_ok(record_entry_encode(&entry, &value, &err), &err);
    assert_int_equal(value.size, sizeof golden);
    assert_memory_equal(value.data, golden, sizeof golden);
    assert_ok(decode_named("n", golden, sizeof golden, &memory, &back, &err), &err);
    assert_entries_equal(&entry, &back);
}

/* A whole tensor needs no box, a value carries its bytes. */
static void test_whole_tensor_and_value_records_are_golden(void **state) {
    (void)state;
    static const uint8_t golden_tensor[] = {1, 1, 0, 0, 5, 1, 3, 1, 1, 0, 0};
    static const uint8_t golden_value[] = {1, 2, 2, 4, 1, 1, 1, 0, 0, 5, 1};
    int64_t shape[] = {3}, zero[] = {0};
    record_piece piece = {.bytes = 3, .box_offset = zero, .box_extent = shape};
    record_entry tensor = {.name = "n",
                           .kind = PAWL_KIND_TENSOR,
                           .dtype = PAWL_U8,
                           .ndim = 1,
                           .shape = shape,
                           .pieces = &piece,
                           .piece_count = 1};
    record_piece at = {.offset = 5, .bytes = 1};
    record_entry value = {.name = "n",
                          .kind = PAWL_KIND_BOOL,
                          .role = PAWL_ROLE_HYPERPARAMETER,
                          .value = (const uint8_t *)"\1",
                          .value_bytes = 1,
                          .pieces = &at,
                          .piece_count = 1};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    assert_ok(record_entry_encode(&tensor, &out, &err), &err);
    assert_int_equal(out.size, sizeof golden_tensor);
    assert_memory_equal(out.data, golden_tensor, out.size);
    assert_ok(record_entry_encode(&value, &out, &err), &err);
    assert_int_equal(out.size, sizeof golden_value);
    assert_memory_equal(out.data, golden_value, out.size);
}

/* ---- both ways ------------------------------------------------------------------------------ */

#define MOST_PIECES 20

typedef struct sample {
    int64_t shape[4], offsets[MOST_PIECES][4], extents[MOST_PIECES][4];
    record_piece pieces[MOST_PIECES];
    uint8_t value[64];
    record_entry entry;
} sample;

static void make_tensor(sample *s, test_random *random) {
    record_entry *entry = &s->entry;
    entry->dtype = (pawl_dtype)random_between(random, PAWL_U8, PAWL_U64);
    entry->ndim = (int)random_below(random, 5);
    entry->shape = s->shape;
    entry->replicated = random_below(random, 2) == 0;
    entry->piece_count = (size_t)random_below(random, MOST_PIECES + 1);
    for (int d = 0; d < entry->ndim; d++) {
        s->shape[d] = random_between(random, 0, 300);
    }
    for (size_t i = 0; i < entry->piece_count; i++) {
        record_piece *piece = &s->pieces[i];
        for (int d = 0; d < entry->ndim; d++) {
            bool whole = i % 3 == 0;
            s->offsets[i][d] = whole ? 0 : random_between(random, 0, s->shape[d]);
            s->extents[i][d] =
                whole ? s->shape[d] : random_between(random, 0, s->shape[d] - s->offsets[i][d]);
        }
        *piece = (record_piece){.file = (uint32_t)random_below(random, FILES),
                                .rank = (int32_t)random_below(random, 1000000),
                                .offset = random_below(random, (uint64_t)1 << 50),
                                .bytes = shape_bytes(entry->dtype, entry->ndim, s->extents[i]),
                                .box_offset = s->offsets[i],
                                .box_extent = s->extents[i]};
    }
}

static void make_value(sample *s, test_random *random) {
    record_entry *entry = &s->entry;
    static const uint64_t sizes[] = {0, 0, 1, 8, 8, 5, 7, 4};
    uint64_t bytes = sizes[entry->kind];
    entry->per_rank = entry->kind == PAWL_KIND_BYTES && random_below(random, 2) == 0;
    entry->piece_count = entry->per_rank ? (size_t)random_below(random, MOST_PIECES) + 1 : 1;
    for (size_t i = 0; i < entry->piece_count; i++) {
        s->pieces[i] = (record_piece){.file = (uint32_t)random_below(random, FILES),
                                      .rank = (int32_t)(i * 3),
                                      .offset = random_below(random, 1 << 20),
                                      .bytes = bytes};
    }
    if (!entry->per_rank) {
        memcpy(s->value, entry->kind == PAWL_KIND_JSON ? "[12]" : "\1bcdefgh", bytes);
        entry->value = s->value;
        entry->value_bytes = (size_t)bytes;
    }
}

/* Whatever entry there is comes back as it was: kinds, roles, boxes, ranks, values. */
static void test_random_records_round_trip(void **state) {
    (void)state;
    test_random random = {21};
    for (int round = 0; round < 3000; round++) {
        static sample s;
        s = (sample){.entry = {.name = "some/n\xc3\xa4me", .pieces = s.pieces}};
        s.entry.kind = (pawl_kind)random_between(&random, PAWL_KIND_TENSOR, PAWL_KIND_JSON);
        s.entry.role = (pawl_role)random_between(&random, PAWL_ROLE_MODEL, PAWL_ROLE_OTHER);
        if (s.entry.role == PAWL_ROLE_SLOT && s.entry.kind != PAWL_KIND_TENSOR) {
            s.entry.role = PAWL_ROLE_OTHER;
        }
        if (s.entry.role == PAWL_ROLE_SLOT) {
            s.entry.slot_of = "variable";
            s.entry.slot = "adam/m";
        }
        if (s.entry.kind == PAWL_KIND_TENSOR) {
            make_tensor(&s, &random);
        } else {
            make_value(&s, &random);
        }
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer value = {.data = NULL};
        CLEANUP(arena_free) arena memory = {.blocks = NULL};
        record_entry back;
        assert_ok(record_entry_encode(&s.entry, &value, &err), &err);
        assert_ok(decode_named(s.entry.name, value.data, value.size, &memory, &back, &err), &err);
        assert_entries_equal(&s.entry, &back);
    }
}

/* ---- hostile -------------------------------------------------------------------------------- */

#define HEAD_TENSOR 1, 1, 0, 0

static const struct {
    const char *what;
    uint8_t bytes[40];
    size_t n;
    pawl_status status;
} hostile_records[] = {
    {"good tensor", {HEAD_TENSOR, 5, 1, 3, 1, 1, 0, 0}, 11, PAWL_OK},
    {"good value", {1, 3, 3, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 8}, 18, PAWL_OK},
    {"newer version", {3, 1, 0, 0, 5, 1, 3, 1, 1, 0, 0}, 11, PAWL_EUNSUPPORTED},
    {"version 0", {0, 1, 0, 0, 5, 1, 3, 1, 1, 0, 0}, 11, PAWL_EDAMAGED},
    {"kind 0", {1, 0, 0, 0, 0, 0}, 6, PAWL_EDAMAGED},
    {"kind 8", {1, 8, 0, 0, 1, 0, 0, 0, 0}, 9, PAWL_EDAMAGED},
    {"role 8", {1, 1, 8, 0, 5, 1, 3, 1, 1, 0, 0}, 11, PAWL_EDAMAGED},
    {"unknown flag", {1, 1, 0, 8, 5, 1, 3, 1, 1, 0, 0}, 11, PAWL_EDAMAGED},
    {"slot without names", {1, 1, 1, 0, 5, 1, 3, 1, 1, 0, 0}, 11, PAWL_EDAMAGED},
    {"slot of an empty name", {1, 1, 1, 0, 0, 1, 'm', 5, 1, 3, 0}, 11, PAWL_EDAMAGED},
    {"slot with an empty name", {1, 1, 1, 0, 1, 'v', 0, 5, 1, 3, 0}, 11, PAWL_EDAMAGED},
    {"slot of ..", {1, 1, 1, 0, 2, '.', '.', 1, 'm', 5, 1, 3, 0}, 13, PAWL_EDAMAGED},
    {"slot with a NUL", {1, 1, 1, 0, 1, 'v', 1, 0, 5, 1, 3, 0}, 12, PAWL_EDAMAGED},
    {"dtype 0", {HEAD_TENSOR, 0, 1, 3, 1, 1, 0, 0}, 11, PAWL_EDAMAGED},
    {"dtype 23", {HEAD_TENSOR, 23, 1, 3, 1, 1, 0, 0}, 11, PAWL_EDAMAGED},
    {"33 dimensions", {HEAD_TENSOR, 5, 33, 3, 1, 1, 0, 0}, 11, PAWL_ELIMIT},
    {"extent of 2^63",
     {HEAD_TENSOR, 5, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0},
     17,
     PAWL_EDAMAGED},
    {"2^62 elements of 8 bytes",
     {HEAD_TENSOR, 22, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0},
     16,
     PAWL_EDAMAGED},
    {"per-rank tensor", {1, 1, 0, 1, 5, 1, 3, 1, 1, 0, 0}, 11, PAWL_EDAMAGED},
    {"tensor with a value", {1, 1, 0, 4, 5, 1, 3, 1, 'x', 1, 1, 0, 0}, 13, PAWL_EDAMAGED},
    {"file 4 of 4", {HEAD_TENSOR, 5, 1, 3, 1, 9, 0, 0}, 11, PAWL_EDAMAGED},
    {"box beyond", {HEAD_TENSOR, 5, 1, 3, 1, 0, 0, 0, 1, 3}, 13, PAWL_EDAMAGED},
    {"half a byte", {HEAD_TENSOR, 2, 1, 4, 1, 0, 0, 0, 1, 1}, 13, PAWL_EDAMAGED},
    {"rank 2^31", {HEAD_TENSOR, 5, 1, 3, 1, 1, 0x80, 0x80, 0x80, 0x80, 8, 0}, 15, PAWL_EDAMAGED},
    {"offset near 2^63",
     {HEAD_TENSOR, 5, 1, 3, 1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
     19,
     PAWL_EDAMAGED},
    {"more pieces than bytes",
     {HEAD_TENSOR, 5, 1, 3, 0x80, 0x80, 0x04, 1, 0, 0},
     13,
     PAWL_EDAMAGED},
    {"too many pieces", {HEAD_TENSOR, 5, 1, 3, 0xff, 0xff, 0xff, 0x7f}, 11, PAWL_ELIMIT},
    {"bytes left over", {HEAD_TENSOR, 5, 1, 3, 1, 1, 0, 0, 0}, 12, PAWL_EDAMAGED},
    {"bool of 2", {1, 2, 0, 4, 1, 2, 1, 0, 0, 0, 1}, 11, PAWL_EDAMAGED},
    {"bool of 2 bytes", {1, 2, 0, 4, 2, 1, 1, 1, 0, 0, 0, 2}, 12, PAWL_EDAMAGED},
    {"int64 of 1 byte", {1, 3, 0, 4, 1, 1, 1, 0, 0, 0, 1}, 11, PAWL_EDAMAGED},
    {"piece of 2 bytes", {1, 2, 0, 4, 1, 1, 1, 0, 0, 0, 2}, 11, PAWL_EDAMAGED},
    {"string not UTF-8", {1, 5, 0, 4, 1, 0xff, 1, 0, 0, 0, 1}, 11, PAWL_EDAMAGED},
    {"string with a NUL", {1, 5, 0, 4, 1, 0, 1, 0, 0, 0, 1}, 11, PAWL_EDAMAGED},
    {"JSON that is none", {1, 7, 0, 4, 1, '{', 1, 0, 0, 0, 1}, 11, PAWL_EDAMAGED},
    {"value in two pieces", {1, 6, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1}, 13, PAWL_EDAMAGED},
    {"value in no piece", {1, 6, 0, 0, 0}, 5, PAWL_EDAMAGED},
    {"per-rank in no piece", {1, 6, 0, 1, 0}, 5, PAWL_EDAMAGED},
    {"per-rank with a value", {1, 6, 0, 5, 1, 'x', 1, 0, 0, 0, 1}, 11, PAWL_EDAMAGED},
    {"a rank twice", {1, 6, 0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 1}, 13, PAWL_EDAMAGED},
    {"per-rank, 1 MiB", {1, 6, 0, 1, 1, 0, 0, 0, 0x80, 0x80, 0x40}, 11, PAWL_OK},
    {"per-rank, 1 MiB and a byte", {2, 6, 0, 1, 1, 0, 0, 0, 0x81, 0x80, 0x40}, 11, PAWL_OK},
    {"the same as version 1", {1, 6, 0, 1, 1, 0, 0, 0, 0x81, 0x80, 0x40}, 11, PAWL_EDAMAGED},
    {"1 MiB as version 2", {2, 6, 0, 1, 1, 0, 0, 0, 0x80, 0x80, 0x40}, 11, PAWL_EDAMAGED},
    {"tensor as version 2", {2, 1, 0, 0, 5, 1, 3, 1, 1, 0, 0}, 11, PAWL_EDAMAGED},
    {"per-rank, 256 MiB", {2, 6, 0, 1, 1, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 1}, 13, PAWL_OK},
    {"and a byte", {2, 6, 0, 1, 1, 0, 0, 0, 0x81, 0x80, 0x80, 0x80, 1}, 13, PAWL_EDAMAGED},
    {"a value with a box", {1, 6, 0, 0, 1, 1, 0, 0, 1}, 9, PAWL_EDAMAGED},
    {"value beyond the record", {1, 6, 0, 4, 99, 'x'}, 6, PAWL_EDAMAGED},
};

/* A record that breaks any rule is refused. */
static void test_r14_hostile_records_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(hostile_records); i++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(arena_free) arena memory = {.blocks = NULL};
        record_entry out;
        pawl_status status =
            decode_named("n", hostile_records[i].bytes, hostile_records[i].n, &memory, &out, &err);
        if (status != hostile_records[i].status) {
            fail_msg("%s: status '%s': %s", hostile_records[i].what, pawl_status_name(status),
                     error_text(&err));
        }
    }
}

/* An index cannot smuggle in a name that a state could not have. */
static void test_r14_hostile_names_are_refused(void **state) {
    (void)state;
    static const uint8_t good[] = {HEAD_TENSOR, 5, 1, 3, 1, 1, 0, 0};
    static const char *const names[] = {"",   "/a", "../a", "a/../b", "a//b",
                                        "a/", ".",  "\xff", "a\n"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(arena_free) arena memory = {.blocks = NULL};
        record_entry out;
        assert_fails(decode_named(names[i], good, sizeof good, &memory, &out, &err), PAWL_EDAMAGED,
                     &err);
    }
    pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    record_entry out;
    static const uint8_t checksum_key[9] = {'c'};
    assert_fails(
        record_entry_decode(checksum_key, 9, good, sizeof good, FILES, &memory, &out, &err),
        PAWL_EDAMAGED, &err);
    assert_fails(record_entry_decode((const uint8_t *)"ea\0b", 4, good, sizeof good, FILES, &memory,
                                     &out, &err),
                 PAWL_EDAMAGED, &err);
}

/* A record cut off anywhere is refused. */
static void test_r08_every_truncated_record_is_refused(void **state) {
    (void)state;
    static const uint8_t bytes[] = {1,   1, 1, 2, 1, 'w', 1, 'm', 18, 2,   2,
                                    200, 1, 1, 2, 0, 5,   0, 0,   1,  200, 1};
    for (size_t n = 0; n <= sizeof bytes; n++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(arena_free) arena memory = {.blocks = NULL};
        record_entry out;
        pawl_status status = decode_named("n", bytes, n, &memory, &out, &err);
        assert_int_equal(status, n == sizeof bytes ? PAWL_OK : PAWL_EDAMAGED);
    }
}

/* A newer record names both versions and what to do. */
static void test_r12_newer_record_in_words(void **state) {
    (void)state;
    static const uint8_t newer[] = {7, 1};
    pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    record_entry out;
    assert_fails(decode_named("a/b", newer, sizeof newer, &memory, &out, &err), PAWL_EUNSUPPORTED,
                 &err);
    assert_string_equal(err.entry, "a/b");
    assert_string_equal(err.expected, "version 1 to 2 of the record");
    assert_string_equal(err.found, "version 7");
    assert_string_equal(err.next, "read it with a newer pawl");
}

/* What the caller describes wrongly is a defect, and never written. */
static void test_wrong_description_is_not_encoded(void **state) {
    (void)state;
    record_piece piece = {.bytes = 2};
    record_entry entry = {.name = "n",
                          .kind = PAWL_KIND_BOOL,
                          .value = (const uint8_t *)"\1",
                          .value_bytes = 1,
                          .pieces = &piece,
                          .piece_count = 1};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer value = {.data = NULL};
    assert_fails(record_entry_encode(&entry, &value, &err), PAWL_EINTERNAL, &err);
    assert_string_equal(err.entry, "n");
}

static pawl_status decode_once(void *context, pawl_error *err) {
    static const uint8_t bytes[] = {1,   1, 1, 2, 1, 'w', 1, 'm', 18, 2,   2,
                                    200, 1, 1, 2, 0, 5,   0, 0,   1,  200, 1};
    (void)context;
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    record_entry out;
    return decode_named("n", bytes, sizeof bytes, &memory, &out, err);
}

/* Whichever allocation fails, decoding says so and leaks nothing. */
static void test_record_survives_every_failing_allocation(void **state) {
    (void)state;
    assert_true(failing_memory_each(decode_once, NULL) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_golden),
        cmocka_unit_test(test_tensor_record_is_golden),
        cmocka_unit_test(test_whole_tensor_and_value_records_are_golden),
        cmocka_unit_test(test_random_records_round_trip),
        cmocka_unit_test(test_r14_hostile_records_are_refused),
        cmocka_unit_test(test_r14_hostile_names_are_refused),
        cmocka_unit_test(test_r08_every_truncated_record_is_refused),
        cmocka_unit_test(test_r12_newer_record_in_words),
        cmocka_unit_test(test_wrong_description_is_not_encoded),
        cmocka_unit_test(test_record_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
