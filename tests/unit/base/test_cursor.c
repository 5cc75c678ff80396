/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in and out: the bounded cursor, the growing buffer, and what one writes and the other
 * reads. */
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "lib/test.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

static void test_numbers_are_read_in_their_byte_order(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static const uint8_t bytes[] = {0xfe, 1, 2, 3, 0xf4, 1, 2, 3, 4, 5, 6, 7, 0xf8};
    cursor c = cursor_of(bytes, sizeof(bytes), 0, "test");
    uint8_t u8;
    uint32_t le;
    uint64_t wide;
    assert_ok(cursor_u8(&c, &u8, &err), &err);
    assert_ok(cursor_u32le(&c, &le, &err), &err);
    assert_ok(cursor_u64le(&c, &wide, &err), &err);
    assert_int_equal(u8, 0xfe);
    assert_int_equal(le, 0xf4030201);
    assert_true(wide == 0xf807060504030201U);
    assert_int_equal(cursor_left(&c), 0);
}

static void test_read_past_the_end_is_damage_at_its_place(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7};
    cursor c = cursor_of(bytes, sizeof(bytes), 4096, "index block");
    uint32_t v = 0;
    assert_ok(cursor_u32le(&c, &v, &err), &err);
    assert_fails(cursor_u32le(&c, &v, &err), PAWL_EDAMAGED, &err);
    assert_status_text(&err, PAWL_EDAMAGED,
                       "the index block ends too early\n"
                       "  range:    bytes 4100 to 4102\n"
                       "  expected: 4 bytes at byte 4100\n"
                       "  found:    3 left");
    assert_int_equal(cursor_left(&c), 3);
}

static void test_every_read_of_every_short_size_fails_and_moves_nothing(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static const uint8_t bytes[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
    for (size_t size = 0; size < 8; size++) {
        AUTOFREE uint8_t *exact = mem_dup(bytes, size); /* so that ASan sees a read beyond */
        cursor c = cursor_of(exact, size, 0, "test");
        const uint8_t *out;
        uint8_t u8;
        uint32_t u32;
        uint64_t u64;
        assert_fails(cursor_bytes(&c, size + 1, &out, &err), PAWL_EDAMAGED, &err);
        assert_fails(cursor_bytes(&c, SIZE_MAX, &out, &err), PAWL_EDAMAGED, &err);
        assert_fails(cursor_u64le(&c, &u64, &err), PAWL_EDAMAGED, &err);
        assert_fails(cursor_varint64(&c, &u64, &err), PAWL_EDAMAGED, &err);
        assert_fails(cursor_varint32(&c, &u32, &err), PAWL_EDAMAGED, &err);
        if (size < 4) {
            assert_fails(cursor_u32le(&c, &u32, &err), PAWL_EDAMAGED, &err);
        }
        if (size < 1) {
            assert_fails(cursor_u8(&c, &u8, &err), PAWL_EDAMAGED, &err);
        }
        assert_int_equal(c.at, 0);
    }
}

static void test_no_bytes_of_nothing_can_be_read(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    cursor c = cursor_of(NULL, 0, 0, "nothing");
    const uint8_t *out;
    assert_ok(cursor_bytes(&c, 0, &out, &err), &err);
}

static void test_varints_are_read_as_they_were_written(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    test_random r = {20};
    for (int i = 0; i < 10000; i++) {
        CLEANUP(buffer_free) buffer b = {0};
        uint64_t wanted = random_next(&r) >> random_below(&r, 64);
        uint64_t got = 0;
        assert_ok(buffer_varint(&b, wanted, &err), &err);
        cursor c = cursor_of(b.data, b.size, 0, "varint");
        assert_ok(cursor_varint64(&c, &got, &err), &err);
        assert_true(got == wanted);
        assert_int_equal(cursor_left(&c), 0);
        uint32_t narrow = 0;
        c.at = 0;
        pawl_status status = cursor_varint32(&c, &narrow, &err);
        assert_int_equal(status, wanted <= UINT32_MAX ? PAWL_OK : PAWL_EDAMAGED);
        if (status == PAWL_OK) {
            assert_true(narrow == wanted);
        }
    }
}

static void test_largest_varints_are_read(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static const uint8_t most64[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    static const uint8_t most32[] = {0xff, 0xff, 0xff, 0xff, 0x0f};
    cursor c = cursor_of(most64, sizeof(most64), 0, "test");
    uint64_t u64;
    assert_ok(cursor_varint64(&c, &u64, &err), &err);
    assert_true(u64 == UINT64_MAX);
    c = cursor_of(most32, sizeof(most32), 0, "test");
    uint32_t u32;
    assert_ok(cursor_varint32(&c, &u32, &err), &err);
    assert_true(u32 == UINT32_MAX);
}

static void test_varint_of_one_bit_too_many_is_damage(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static const uint8_t over64[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    static const uint8_t over32[] = {0xff, 0xff, 0xff, 0xff, 0x10};
    cursor c = cursor_of(over64, sizeof(over64), 100, "index block");
    uint64_t u64;
    assert_fails(cursor_varint64(&c, &u64, &err), PAWL_EDAMAGED, &err);
    assert_status_text(&err, PAWL_EDAMAGED,
                       "the index block has a number that is too large\n"
                       "  range:    byte 100\n"
                       "  expected: a varint of at most 64 bits at byte 100\n"
                       "  found:    a longer one");
    c = cursor_of(over32, sizeof(over32), 100, "index block");
    uint32_t u32;
    assert_fails(cursor_varint32(&c, &u32, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.expected, "a varint of at most 32 bits at byte 100");
}

static void test_varint_of_one_byte_too_many_is_damage_even_of_zeros(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static const uint8_t zeros[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                    0x80, 0x80, 0x80, 0x80, 0x00};
    cursor c = cursor_of(zeros, sizeof(zeros), 0, "test");
    uint64_t u64;
    uint32_t u32;
    assert_fails(cursor_varint64(&c, &u64, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.found, "a longer one");
    c = cursor_of(zeros + 5, 6, 0, "test");
    assert_fails(cursor_varint32(&c, &u32, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.found, "a longer one");
}

static void test_varint_padded_within_its_most_bytes_is_read(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static const uint8_t padded[] = {0x81, 0x80, 0x00};
    cursor c = cursor_of(padded, sizeof(padded), 0, "test");
    uint64_t v;
    assert_ok(cursor_varint64(&c, &v, &err), &err);
    assert_int_equal(v, 1);
    assert_int_equal(c.at, 3);
}

static void test_buffer_is_text_at_any_time(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer b = {0};
    assert_ok(buffer_append(&b, NULL, 0, &err), &err);
    assert_string_equal((char *)b.data, "");
    assert_ok(buffer_append(&b, "ab", 2, &err), &err);
    assert_ok(buffer_printf(&b, &err, "-%03d-%s", 7, "x"), &err);
    assert_string_equal((char *)b.data, "ab-007-x");
    assert_int_equal(b.size, 8);
}

static void test_buffer_numbers_are_little_endian(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer b = {0};
    assert_ok(buffer_u32le(&b, 0xf4030201, &err), &err);
    assert_ok(buffer_u64le(&b, 0xf807060504030201U, &err), &err);
    assert_ok(buffer_varint(&b, 300, &err), &err);
    static const uint8_t wanted[] = {1, 2, 3, 0xf4, 1, 2, 3, 4, 5, 6, 7, 0xf8, 0xac, 0x02};
    assert_int_equal(b.size, sizeof(wanted));
    assert_memory_equal(b.data, wanted, sizeof(wanted));
}

static void test_buffer_refuses_what_cannot_be(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer b = {0};
    assert_ok(buffer_append(&b, "abc", 3, &err), &err);
    assert_fails(buffer_append(&b, "abc", SIZE_MAX - 3, &err), PAWL_ENOMEM, &err);
    assert_fails(buffer_append(&b, "abc", SIZE_MAX - 2, &err), PAWL_ENOMEM, &err);
    assert_string_equal((char *)b.data, "abc");
}

static pawl_status fill_buffer(void *context, pawl_error *err) {
    (void)context;
    CLEANUP(buffer_free) buffer b = {0};
    for (uint64_t i = 0; i < 40; i++) {
        TRY(buffer_append(&b, "0123456789", 10, err));
        TRY(buffer_printf(&b, err, "%llu", (unsigned long long)i));
        TRY(buffer_json_string(&b, "\"\n", 2, err));
        TRY(buffer_varint(&b, i << 40, err));
    }
    return PAWL_OK;
}

static void test_buffer_survives_every_failing_allocation(void **state) {
    (void)state;
    assert_in_range(failing_memory_each(fill_buffer, NULL), 5, 20);
}

static void test_json_strings_are_read_back_by_a_parser(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    test_random r = {21};
    for (int i = 0; i < 500; i++) {
        char text[40];
        size_t n = random_below(&r, sizeof(text));
        for (size_t j = 0; j < n; j++) {
            text[j] = (char)random_between(&r, 1, 127);
        }
        CLEANUP(buffer_free) buffer b = {0};
        assert_ok(buffer_json_string(&b, text, n, &err), &err);
        json_t *value = json_loadb((char *)b.data, b.size, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        assert_int_equal(json_string_length(value), n);
        assert_memory_equal(json_string_value(value), text, n);
        json_decref(value);
    }
}

/* Plain characters are taken many at a time: what is not must be seen at every place among them. */
static void test_json_string_escapes_wherever_it_has_to(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static const struct {
        char c;
        const char *escaped;
    } cases[] = {
        {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\u000a"}, {'\x1f', "\\u001f"}, {'\x7f', "\\u007f"}};
    for (size_t k = 0; k < ARRAY_LENGTH(cases); k++) {
        for (int at = 0; at < 40; at++) {
            char text[41];
            char expected[64];
            memset(text, '~', 40);
            text[at] = cases[k].c;
            snprintf(expected, sizeof(expected), "\"%.*s%s%.*s\"", at, text, cases[k].escaped,
                     39 - at, text + at + 1);
            CLEANUP(buffer_free) buffer b = {0};
            assert_ok(buffer_json_string(&b, text, 40, &err), &err);
            assert_string_equal((char *)b.data, expected);
        }
    }
}

static void test_decimals_are_those_of_printf(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static const int64_t cases[] = {0, 7, -7, 10, -10, 4096, INT64_MAX, INT64_MIN, INT64_MIN + 1};
    for (size_t k = 0; k < ARRAY_LENGTH(cases); k++) {
        char expected[32];
        CLEANUP(buffer_free) buffer b = {0};
        snprintf(expected, sizeof(expected), "%" PRId64, cases[k]);
        assert_ok(buffer_decimal(&b, cases[k], &err), &err);
        assert_string_equal((char *)b.data, expected);
    }
}

/* Wherever among plain characters a byte stands that could not be read back. */
static void test_json_string_is_exact_or_refused(void **state) {
    (void)state;
    static const char bad[] = {'\0', '\x80', '\xff', '\xe2', '\xc0'};
    for (size_t k = 0; k < sizeof(bad); k++) {
        for (size_t at = 0; at < 40; at++) {
            struct pawl_error err = ERROR_INIT;
            CLEANUP(buffer_free) buffer b = {0};
            char text[40];
            char words[64];
            memset(text, '~', sizeof(text));
            text[at] = bad[k];
            assert_fails(buffer_json_string(&b, text, sizeof(text), &err), PAWL_EUSAGE, &err);
            snprintf(words, sizeof(words), "a text cannot be written: its byte %zu is wrong", at);
            assert_string_equal(err.attempt, words);
            assert_string_equal(err.expected, "UTF-8 without NUL");
        }
    }
}

static void test_json_shown_keeps_utf8_and_replaces_what_is_none(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer b = {0};
    static const char text[] = "\xe2\x82\xac\xff\xe2\x82\"\\\x1f\x00z";
    assert_ok(buffer_json_shown(&b, text, sizeof(text) - 1, &err), &err);
    assert_string_equal((char *)b.data, "\"\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                                        "\\\"\\\\\\u001f\\u0000z\"");
}

static void test_memory_source_gives_its_bytes_and_no_others(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer b = {0};
    byte_sink sink = byte_sink_buffer(&b);
    assert_ok(sink.write(sink.context, "0123456789", 10, &err), &err);
    byte_source source = byte_source_memory(&b);
    char out[10];
    assert_int_equal(source.size, 10);
    assert_ok(source.read_at(source.context, 3, out, 4, &err), &err);
    assert_memory_equal(out, "3456", 4);
    assert_ok(source.read_at(source.context, 10, out, 0, &err), &err);
    assert_fails(source.read_at(source.context, 7, out, 4, &err), PAWL_EDAMAGED, &err);
    assert_status_text(&err, PAWL_EDAMAGED,
                       "reading past the end\n"
                       "  range:    bytes 7 to 10\n"
                       "  expected: 4 bytes at byte 7\n"
                       "  found:    10 bytes in all");
    assert_fails(source.read_at(source.context, UINT64_MAX, out, 1, &err), PAWL_EDAMAGED, &err);
    assert_fails(source.read_at(source.context, 1, out, SIZE_MAX, &err), PAWL_EDAMAGED, &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_read_in_their_byte_order),
        cmocka_unit_test(test_read_past_the_end_is_damage_at_its_place),
        cmocka_unit_test(test_every_read_of_every_short_size_fails_and_moves_nothing),
        cmocka_unit_test(test_no_bytes_of_nothing_can_be_read),
        cmocka_unit_test(test_varints_are_read_as_they_were_written),
        cmocka_unit_test(test_largest_varints_are_read),
        cmocka_unit_test(test_varint_of_one_bit_too_many_is_damage),
        cmocka_unit_test(test_varint_of_one_byte_too_many_is_damage_even_of_zeros),
        cmocka_unit_test(test_varint_padded_within_its_most_bytes_is_read),
        cmocka_unit_test(test_buffer_is_text_at_any_time),
        cmocka_unit_test(test_buffer_numbers_are_little_endian),
        cmocka_unit_test(test_buffer_refuses_what_cannot_be),
        cmocka_unit_test(test_buffer_survives_every_failing_allocation),
        cmocka_unit_test(test_json_strings_are_read_back_by_a_parser),
        cmocka_unit_test(test_json_string_escapes_wherever_it_has_to),
        cmocka_unit_test(test_decimals_are_those_of_printf),
        cmocka_unit_test(test_json_string_is_exact_or_refused),
        cmocka_unit_test(test_json_shown_keeps_utf8_and_replaces_what_is_none),
        cmocka_unit_test(test_memory_source_gives_its_bytes_and_no_others),
    };
    return cmocka_run_group_tests_name("base cursor", tests, NULL, NULL);
}
