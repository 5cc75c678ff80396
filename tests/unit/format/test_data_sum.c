/* SPDX-License-Identifier: Apache-2.0 */
/* data_sum: the sum of a data file is golden, covers every byte, however the file is cut. */
#include "format/format.h"
#include "lib/random.h"
#include "lib/test.h"

#include <string.h>

#define MAX_BLOCKS 16u
#define KEY_AT     (DATA_SUM_AT - strlen(DATA_SUM_KEY "\":\""))

typedef struct sample {
    buffer file;
    uint64_t header_bytes;
    uint32_t blocks[MAX_BLOCKS];
    size_t block_count;
} sample;

static void sample_free(sample *s) {
    buffer_free(&s->file);
}

static void checksum_blocks(sample *s) {
    s->block_count = 0;
    for (size_t at = 0; at < s->file.size; at += FORMAT_BLOCK_BYTES) {
        size_t left = s->file.size - at;
        assert_true(s->block_count < MAX_BLOCKS);
        s->blocks[s->block_count++] =
            crc32c(0, s->file.data + at, left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES);
    }
}

/* A file with `more` bytes of further metadata and one tensor of n bytes, as a writer ends it. */
static void write_sample(sample *s, size_t more, size_t n) {
    struct pawl_error err = ERROR_INIT;
    AUTOFREE char *text = mem_calloc(more + 1, 1);
    AUTOFREE uint8_t *bytes = mem_calloc(n + 1, 1);
    const int64_t shape = (int64_t)n;
    safetensors_tensor tensor = {.name = "w", .dtype = PAWL_U8, .ndim = 1, .shape = &shape};
    memset(text, 'x', more);
    const safetensors_pair pairs[] = {{DATA_SUM_KEY, DATA_SUM_UNFINISHED}, {"more", text}};
    uint64_t file_bytes;
    *s = (sample){.header_bytes = 0};
    assert_ok(safetensors_encode(&tensor, 1, pairs, 2, &s->file, &file_bytes, &err), &err);
    s->header_bytes = s->file.size;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    }
    assert_ok(buffer_append(&s->file, bytes, n, &err), &err);
    checksum_blocks(s);
    size_t edge = (size_t)data_sum_edge(s->header_bytes, s->file.size);
    const uint8_t *data = s->file.data + s->header_bytes;
    data_sum_put(s->file.data, data_sum(crc32c(0, s->file.data, s->header_bytes),
                                        crc32c(0, data, edge - s->header_bytes), s->header_bytes,
                                        s->blocks, s->block_count));
    checksum_blocks(s);
}

/* Reads the file as a reader would, in windows of some blocks. */
static pawl_status check(sample *s, size_t window, pawl_error *err) {
    CLEANUP(safetensors_header_free) safetensors_header header = {0};
    byte_source source = byte_source_memory(&s->file);
    TRY(data_sum_begun(&source, err));
    TRY(safetensors_decode(&source, &header, err));
    TRY(data_sum_finished(&header, err));
    data_sum_reading r = {.header_bytes = header.data_offset, .file_bytes = source.size};
    for (size_t at = 0; at < s->file.size; at += window) {
        size_t left = s->file.size - at;
        data_sum_look(&r, at, s->file.data + at, left < window ? left : window);
    }
    checksum_blocks(s);
    return data_sum_check(&r, &header, s->blocks, s->block_count, err);
}

/* Made with another program, from the words of docs/format.md. */
static void test_the_sum_is_golden(void **state) {
    (void)state;
    static const struct {
        size_t more, n;
        const char *sum;
    } golden[] = {{0, 0, "97e1b23b"},
                  {0, 100, "e39e7cd7"},
                  {0, 70000, "fbab4c56"},
                  {20000, 70000, "219bcc26"}};
    for (size_t i = 0; i < ARRAY_LENGTH(golden); i++) {
        CLEANUP(sample_free) sample s;
        write_sample(&s, golden[i].more, golden[i].n);
        assert_memory_equal(s.file.data + DATA_SUM_AT, golden[i].sum, DATA_SUM_DIGITS);
    }
}

static void test_it_does_not_matter_how_a_file_is_cut(void **state) {
    (void)state;
    static const size_t more[] = {0, 12000, 16300, 16340, 20000, 40000};
    struct pawl_error err = ERROR_INIT;
    for (size_t i = 0; i < ARRAY_LENGTH(more); i++) {
        for (size_t n = 0; n < 30000; n += 4321) {
            CLEANUP(sample_free) sample s;
            write_sample(&s, more[i], n);
            for (size_t blocks = 1; blocks < 6; blocks++) {
                assert_ok(check(&s, blocks * FORMAT_BLOCK_BYTES, &err), &err);
            }
        }
    }
}

/* But for the key: under another one it claims nothing. */
static void test_no_byte_is_outside_of_the_sum(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    test_random random = {.state = 5};
    CLEANUP(sample_free) sample s;
    write_sample(&s, 20000, 40000);
    for (size_t at = 0; at < s.file.size; at += at < 100 ? 1 : 13) {
        if (at >= KEY_AT && at < KEY_AT + strlen(DATA_SUM_KEY)) {
            continue;
        }
        uint8_t kept = s.file.data[at];
        s.file.data[at] ^= (uint8_t)(1u << random_below(&random, 8));
        assert_int_not_equal(check(&s, FORMAT_BLOCK_BYTES, &err), PAWL_OK);
        s.file.data[at] = kept;
    }
    assert_ok(check(&s, FORMAT_BLOCK_BYTES, &err), &err);
}

/* What is left where writes of a reserved file did not arrive. */
static void test_holes_are_found(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(sample_free) sample s;
    write_sample(&s, 0, 100000);
    for (size_t at = s.header_bytes; at + 512 <= s.file.size; at += 4096) {
        uint8_t kept[512];
        memcpy(kept, s.file.data + at, sizeof(kept));
        memset(s.file.data + at, 0, sizeof(kept));
        assert_fails(check(&s, 2 * FORMAT_BLOCK_BYTES, &err), PAWL_EDAMAGED, &err);
        memcpy(s.file.data + at, kept, sizeof(kept));
    }
}

static void test_an_unfinished_file_says_so(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(sample_free) sample s;
    write_sample(&s, 0, 1000);
    memcpy(s.file.data + DATA_SUM_AT, DATA_SUM_UNFINISHED, DATA_SUM_DIGITS);
    assert_fails(check(&s, FORMAT_BLOCK_BYTES, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt,
                        "the data file is not finished: its writer did not get to the end");
    assert_string_equal(err.found, "\"pawl_sum\": \"--------\"");
}

/* The beginning is written last. */
static void test_a_file_without_its_beginning_was_not_finished(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(sample_free) sample s;
    write_sample(&s, 0, 1000);
    memset(s.file.data, 0, 4096);
    assert_fails(check(&s, FORMAT_BLOCK_BYTES, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt,
                        "the data file is not finished: its writer did not get to the end");
    assert_string_equal(err.found, "zeros where it begins");
    s.file.size = 7;
    assert_fails(check(&s, FORMAT_BLOCK_BYTES, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "too short");
}

static void test_another_sum_is_told_with_both(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(sample_free) sample s;
    write_sample(&s, 0, 100);
    memcpy(s.file.data + DATA_SUM_AT, "0123abcd", DATA_SUM_DIGITS);
    assert_fails(check(&s, FORMAT_BLOCK_BYTES, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(
        err.attempt, "the bytes of the data file are not those that its writer finished it with");
    assert_string_equal(err.expected, "the sum 0123abcd, which stands in its header");
    assert_string_equal(err.found, "the sum e39e7cd7");
}

/* Upper case, too long, nothing at all: whatever stands there is compared as text. */
static void test_a_sum_that_is_no_number_is_wrong(void **state) {
    (void)state;
    static const char *const sums[] = {"",          "E39E7CD7",  "-------",
                                       " e39e7cd7", "e39e7cd70", "\x1b[31m..."};
    const int64_t shape = 100;
    for (size_t i = 0; i < ARRAY_LENGTH(sums); i++) {
        CLEANUP(sample_free) sample s = {.header_bytes = 0};
        struct pawl_error err = ERROR_INIT;
        safetensors_tensor tensor = {.name = "w", .dtype = PAWL_U8, .ndim = 1, .shape = &shape};
        const safetensors_pair pair = {DATA_SUM_KEY, sums[i]};
        uint64_t file_bytes;
        assert_ok(safetensors_encode(&tensor, 1, &pair, 1, &s.file, &file_bytes, &err), &err);
        while (s.file.size < file_bytes) {
            assert_ok(buffer_append(&s.file, "", 1, &err), &err);
        }
        assert_fails(check(&s, FORMAT_BLOCK_BYTES, &err), PAWL_EDAMAGED, &err);
        assert_string_equal(err.expected, "the sum (not a number), which stands in its header");
    }
}

static void test_a_file_of_an_older_pawl_has_none(void **state) {
    (void)state;
    static const safetensors_pair pair = {"format", "pt"};
    struct pawl_error err = ERROR_INIT;
    CLEANUP(sample_free) sample s = {.header_bytes = 0};
    uint64_t file_bytes;
    assert_ok(safetensors_encode(NULL, 0, &pair, 1, &s.file, &file_bytes, &err), &err);
    assert_ok(check(&s, FORMAT_BLOCK_BYTES, &err), &err);
    s.file.size = 0;
    assert_ok(safetensors_encode(NULL, 0, NULL, 0, &s.file, &file_bytes, &err), &err);
    assert_ok(check(&s, FORMAT_BLOCK_BYTES, &err), &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_sum_is_golden),
        cmocka_unit_test(test_it_does_not_matter_how_a_file_is_cut),
        cmocka_unit_test(test_no_byte_is_outside_of_the_sum),
        cmocka_unit_test(test_holes_are_found),
        cmocka_unit_test(test_an_unfinished_file_says_so),
        cmocka_unit_test(test_a_file_without_its_beginning_was_not_finished),
        cmocka_unit_test(test_another_sum_is_told_with_both),
        cmocka_unit_test(test_a_sum_that_is_no_number_is_wrong),
        cmocka_unit_test(test_a_file_of_an_older_pawl_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
