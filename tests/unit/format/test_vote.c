/* SPDX-License-Identifier: Apache-2.0 */
/* vote: golden bytes of the records that only a vote has, and what they may not say. */
#include "format/vote.h"
#include "lib/failing_memory.h"
#include "lib/test.h"

#include <stdio.h>
#include <string.h>

/* Step 1000, rank 3 of 4, two files of 4096 and 300 bytes. */
static const uint8_t golden_head[] = {
    1,    0,    0xe8, 7,    3,    4,                                       /* version, flags, who */
    14,   '7',  'f',  '3',  'a',  '9',  'c', '2', '1', 'e', '0', '4', 'b', /* tag */
    '-',  '1',                                                             /* */
    4,    'n',  'o',  'd',  'e',  0xac, 2,                                 /* host, pid 300 */
    2,    0x80, 0x20, 0xac, 2,                                             /* files */
    0x0d, 0x0c, 0x0b, 0x0a, 0x80, 1,                           /* structure: 128 bytes */
    4,    3,    2,    1,                                       /* values */
    2,    0,    40,   1,    2,    3,    4,   5,   6,   7,   8, /* replicas of all ranks: 40 bytes */
    2,    0x80, 1,    9,    10,   11,   12,  13,  14,  15,  16, /* of two */
};
static const uint8_t golden_failed[] = {
    1,   2,   5,   0,   2,   14,  '7', 'f', '3', 'a', '9', 'c', '2', '1',
    'e', '0', '4', 'b', '-', '1', 1,   'h', 9,   3,   'w', 'h', 'y',
};
static const uint8_t golden_skipped[] = {
    1, 1, 5, 1, 2, 14, '7', 'f', '3', 'a', '9', 'c', '2', '1', 'e', '0', '4', 'b', '-', '1', 0, 9,
};

static vote_file golden_files[] = {
    {.name = "data-7f3a9c21e04b-1-r00003-00000-of-00002.safetensors", .bytes = 4096},
    {.name = "data-7f3a9c21e04b-1-r00003-00001-of-00002.safetensors", .bytes = 300}};

static vote_copies golden_copies[] = {
    {.bytes = 40, .held_crc32c = 0x04030201, .sums_crc32c = 0x08070605},
    {.replica_count = 2, .bytes = 128, .held_crc32c = 0x0c0b0a09, .sums_crc32c = 0x100f0e0d}};

static const vote durable = {.step = 1000,
                             .rank = 3,
                             .world_size = 4,
                             .tag = "7f3a9c21e04b-1",
                             .host = "node",
                             .pid = 300,
                             .files = golden_files,
                             .file_count = 2,
                             .structure_crc32c = 0x0a0b0c0d,
                             .structure_bytes = 128,
                             .values_crc32c = 0x01020304,
                             .copies = golden_copies,
                             .copies_count = 2};
static const vote failed = {.step = 5,
                            .world_size = 2,
                            .tag = "7f3a9c21e04b-1",
                            .host = "h",
                            .pid = 9,
                            .failed = "why",
                            .failed_bytes = 3};
static const vote skipped = {.step = 5,
                             .rank = 1,
                             .world_size = 2,
                             .tag = "7f3a9c21e04b-1",
                             .host = "",
                             .pid = 9,
                             .skipped = true};

static void assert_heads_equal(const vote *a, const vote *b) {
    assert_true(a->step == b->step && a->pid == b->pid);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->world_size, b->world_size);
    assert_string_equal(a->tag, b->tag);
    assert_string_equal(a->host, b->host);
    assert_int_equal(a->skipped, b->skipped);
    assert_int_equal(a->failed == NULL, b->failed == NULL);
    assert_int_equal(a->failed_bytes, b->failed_bytes);
    if (a->failed != NULL) {
        assert_memory_equal(a->failed, b->failed, a->failed_bytes);
    }
    assert_int_equal(a->file_count, b->file_count);
    for (size_t i = 0; i < a->file_count; i++) {
        assert_string_equal(a->files[i].name, b->files[i].name);
        assert_int_equal(a->files[i].bytes, b->files[i].bytes);
    }
    assert_int_equal(a->structure_crc32c, b->structure_crc32c);
    assert_int_equal(a->structure_bytes, b->structure_bytes);
    assert_int_equal(a->values_crc32c, b->values_crc32c);
    assert_int_equal(a->copies_count, b->copies_count);
    for (size_t i = 0; i < a->copies_count; i++) {
        assert_int_equal(a->copies[i].replica_count, b->copies[i].replica_count);
        assert_int_equal(a->copies[i].bytes, b->copies[i].bytes);
        assert_int_equal(a->copies[i].held_crc32c, b->copies[i].held_crc32c);
        assert_int_equal(a->copies[i].sums_crc32c, b->copies[i].sums_crc32c);
    }
}

static void check_head(const vote *head, const uint8_t *golden, size_t n) {
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(arena_free) arena memory = {0};
    vote back;
    assert_ok(vote_head_encode(head, &bytes, &err), &err);
    assert_int_equal(bytes.size, n);
    assert_memory_equal(bytes.data, golden, n);
    assert_ok(vote_head_decode(golden, n, &memory, &back, &err), &err);
    assert_heads_equal(head, &back);
}

/* The heads of a part that is durable, of one that failed and of one that was skipped, byte for
 * byte. */
static void test_heads_are_golden(void **state) {
    (void)state;
    check_head(&durable, golden_head, sizeof golden_head);
    check_head(&failed, golden_failed, sizeof golden_failed);
    check_head(&skipped, golden_skipped, sizeof golden_skipped);
}

/* A file that is not called what the rules say is our own mistake: its name would be lost. */
static void test_head_refuses_to_forget_a_name(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    vote_file files[] = {golden_files[1], golden_files[0]};
    vote head = durable;
    head.files = files;
    assert_fails(vote_head_encode(&head, &bytes, &err), PAWL_EINTERNAL, &err);
}

/* What of a golden head is changed, and what is said of it. */
typedef struct lie {
    size_t at;
    uint8_t byte;
    pawl_status status;
    const char *words;
} lie;

static void check_lie(const lie *l) {
    pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    uint8_t bytes[sizeof golden_head];
    vote back;
    memcpy(bytes, golden_head, sizeof bytes);
    bytes[l->at] = l->byte;
    assert_fails(vote_head_decode(bytes, sizeof bytes, &memory, &back, &err), l->status, &err);
    assert_says(err.attempt, l->words);
}

/* A head that says what cannot be is refused, by what it says. */
static void test_r14_heads_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const lie lies[] = {
        {0, 0, PAWL_EDAMAGED, "no such version"},
        {1, 3, PAWL_EDAMAGED, "unknown flags"},
        {1, 4, PAWL_EDAMAGED, "unknown flags"},
        {4, 4, PAWL_EDAMAGED, "there is no such rank"},
        {5, 0, PAWL_EDAMAGED, "there is no such rank"},
        {7, 'G', PAWL_EDAMAGED, "that is no tag of a save"},
        {7, 0, PAWL_EDAMAGED, "that is no tag of a save"},
        {19, '0', PAWL_EDAMAGED, "that is no tag of a save"},
        {22, '\n', PAWL_EDAMAGED, "that is no name of a host"},
        {22, 0xff, PAWL_EDAMAGED, "that is no name of a host"},
        {28, 100, PAWL_EDAMAGED, "more files than there are bytes for"},
        {28, 1, PAWL_EDAMAGED, "more kinds of replicas than there are bytes for"},
        {28, 9, PAWL_EDAMAGED, "the head of a vote"},
        {43, 3, PAWL_EDAMAGED, "more kinds of replicas than there are bytes for"},
        {43, 1, PAWL_EDAMAGED, "bytes are left over"},
        {44, 2, PAWL_EDAMAGED, "the head of a vote"},
        {54, 0, PAWL_EDAMAGED, "the head of a vote"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(lies); i++) {
        check_lie(&lies[i]);
    }
}

/* A vote of a newer pawl is not read, and both versions are named. */
static void test_r12_newer_head_is_told(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    uint8_t bytes[sizeof golden_head];
    vote back;
    memcpy(bytes, golden_head, sizeof bytes);
    bytes[0] = 2;
    assert_fails(vote_head_decode(bytes, sizeof bytes, &memory, &back, &err), PAWL_EUNSUPPORTED,
                 &err);
    assert_status_text(&err, PAWL_EUNSUPPORTED,
                       "the head of a vote is wrong at byte 1: written by a newer version\n"
                       "  expected: version 1 of the vote\n"
                       "  found:    version 2\n"
                       "  next:     use the same pawl on all ranks");
}

/* However a head is cut, it is refused. */
static void test_r14_every_cut_of_a_head_is_refused(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof golden_head; n++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(arena_free) arena memory = {0};
        vote back;
        assert_fails(vote_head_decode(golden_head, n, &memory, &back, &err), PAWL_EDAMAGED, &err);
    }
}

/* ---- values --------------------------------------------------------------------------------- */

/* A value's record, byte for byte: kind, size, checksum, the first bytes. */
static void test_value_is_golden(void **state) {
    (void)state;
    static const uint8_t golden[] = {5, 4, 0x04, 0x17, 0x8e, 0x1c, 'a', 'd', 'a', 'm'};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    const vote_value value = vote_value_of(PAWL_KIND_STRING, (const uint8_t *)"adam", 4);
    vote_value back;
    assert_ok(vote_value_encode(&value, &bytes, &err), &err);
    assert_int_equal(bytes.size, sizeof golden);
    assert_memory_equal(bytes.data, golden, sizeof golden);
    assert_ok(vote_value_decode(golden, sizeof golden, &back, &err), &err);
    assert_int_equal(back.kind, PAWL_KIND_STRING);
    assert_int_equal(back.crc32c, value.crc32c);
    assert_int_equal(back.bytes, 4);
    assert_memory_equal(back.shown, "adam", 4);
}

static void check_text(pawl_kind kind, const void *bytes, size_t n, const char *wanted) {
    char text[160];
    const vote_value value = vote_value_of(kind, bytes, n);
    assert_string_equal(vote_value_text(text, &value), wanted);
}

/* Values are shown as people write them, the long ones cut. */
static void test_values_are_shown(void **state) {
    (void)state;
    static const char text[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    const int64_t integer = -7;
    const double number = 0.001;
    check_text(PAWL_KIND_BOOL, "\1", 1, "true");
    check_text(PAWL_KIND_INT64, &integer, 8, "-7");
    check_text(PAWL_KIND_FLOAT64, &number, 8, "0.001");
    check_text(PAWL_KIND_STRING, "a\"\n", 3, "\"a\\\"\\u000a\"");
    check_text(PAWL_KIND_STRING, text, 36, "\"0123456789abcdefghijklmnopqrstuv...\"");
    check_text(PAWL_KIND_JSON, "{\"a\":1}", 7, "{\"a\":1}");
    check_text(PAWL_KIND_BYTES, "\xff", 1, "1 byte ff");
    check_text(PAWL_KIND_BYTES, text, 17, "17 bytes 30313233343536373839616263646566...");
    check_text(PAWL_KIND_STRING,
               "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", 33,
               "\"\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001"
               "\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001"
               "\\u0001\\u0001...\"");
}

/* A value of no kind, or of a size that its kind does not have, is refused. */
static void test_r14_values_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const struct {
        uint8_t bytes[8];
        size_t n;
    } cases[] = {{{1, 0, 0, 0, 0, 0}, 6},    {{8, 0, 0, 0, 0, 0}, 6},    {{2, 2, 0, 0, 0, 0, 1}, 7},
                 {{3, 1, 0, 0, 0, 0, 1}, 7}, {{5, 2, 0, 0, 0, 0, 1}, 7}, {{5, 0, 0, 0, 0}, 5},
                 {{5, 0, 0, 0, 0, 0, 1}, 7}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_error err = ERROR_INIT;
        vote_value back;
        assert_fails(vote_value_decode(cases[i].bytes, cases[i].n, &back, &err), PAWL_EDAMAGED,
                     &err);
    }
}

/* ---- replicas ------------------------------------------------------------------------------- */

/* The sums of two replicas, byte for byte; of a scalar only the sum is left. */
static void test_replicas_are_golden(void **state) {
    (void)state;
    static const uint8_t golden[] = {2, 2, 0, 0, 1,   200, 1, 4, 3, 2,
                                     1, 1, 0, 1, 200, 1,   8, 7, 6, 5};
    static const uint8_t golden_scalar[] = {0, 1, 4, 3, 2, 1};
    int64_t zero[] = {0, 0}, one[] = {1, 0}, row[] = {1, 200};
    const vote_replica replicas[] = {{.offset = zero, .extent = row, .crc32c = 0x01020304},
                                     {.offset = one, .extent = row, .crc32c = 0x05060708}};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(arena_free) arena memory = {0};
    vote_replica *back;
    size_t count;
    int ndim;
    assert_ok(vote_replicas_encode(replicas, 2, 2, &bytes, &err), &err);
    assert_int_equal(bytes.size, sizeof golden);
    assert_memory_equal(bytes.data, golden, sizeof golden);
    assert_ok(vote_replicas_decode(golden, sizeof golden, &memory, &back, &count, &ndim, &err),
              &err);
    assert_int_equal(count, 2);
    assert_int_equal(ndim, 2);
    assert_memory_equal(back[1].offset, one, sizeof one);
    assert_memory_equal(back[1].extent, row, sizeof row);
    assert_int_equal(back[1].crc32c, 0x05060708);
    assert_ok(vote_replicas_encode(replicas, 1, 0, &bytes, &err), &err);
    assert_int_equal(bytes.size, sizeof golden_scalar);
    assert_memory_equal(bytes.data, golden_scalar, sizeof golden_scalar);
}

/* Counts that the bytes do not bear out are refused before anything is taken for them. */
static void test_r14_replicas_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const struct {
        uint8_t bytes[16];
        size_t n;
        const char *words;
    } cases[] = {
        {{33, 0}, 2, "a number is too large"},
        {{0, 0x81, 0x20}, 3, "a number is too large"},
        {{1, 0x80, 0x20}, 3, "more replicas than there are bytes for"},
        {{0, 1, 1, 2, 3, 4, 5}, 7, "bytes are left over"},
        {{1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 0, 0, 0},
         16,
         "a number is too large"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(arena_free) arena memory = {0};
        vote_replica *back;
        size_t count;
        int ndim;
        assert_fails(
            vote_replicas_decode(cases[i].bytes, cases[i].n, &memory, &back, &count, &ndim, &err),
            PAWL_EDAMAGED, &err);
        assert_says(err.attempt, cases[i].words);
    }
}

static pawl_status decode_head(void *context, pawl_error *err) {
    (void)context;
    CLEANUP(arena_free) arena memory = {0};
    vote back;
    return vote_head_decode(golden_head, sizeof golden_head, &memory, &back, err);
}

/* A failing allocation is told, and nothing leaks. */
static void test_failing_memory_is_told(void **state) {
    (void)state;
    assert_true(failing_memory_each(decode_head, NULL) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_are_golden),
        cmocka_unit_test(test_head_refuses_to_forget_a_name),
        cmocka_unit_test(test_r14_heads_that_cannot_be_are_refused),
        cmocka_unit_test(test_r12_newer_head_is_told),
        cmocka_unit_test(test_r14_every_cut_of_a_head_is_refused),
        cmocka_unit_test(test_value_is_golden),
        cmocka_unit_test(test_values_are_shown),
        cmocka_unit_test(test_r14_values_that_cannot_be_are_refused),
        cmocka_unit_test(test_replicas_are_golden),
        cmocka_unit_test(test_r14_replicas_that_cannot_be_are_refused),
        cmocka_unit_test(test_failing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
