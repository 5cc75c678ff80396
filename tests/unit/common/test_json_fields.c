/* SPDX-License-Identifier: Apache-2.0 */
/* json_fields: members wherever they stand, of their types only, and none of them twice. */
#include "common/json.h"
#include "lib/test.h"

#include <string.h>

typedef struct record {
    int64_t step;
    uint64_t bytes;
    double seconds;
    json_span name, list;
    int64_t inner;
} record;

static bool read_record(const char *text, record *out, json_field fields[7]) {
    const json_field all[7] = {
        {NULL, "step", &out->step, FIELD_INTEGER, 0},
        {NULL, "bytes", &out->bytes, FIELD_COUNT, 0},
        {NULL, "seconds", &out->seconds, FIELD_NUMBER, 0},
        {NULL, "name", &out->name, FIELD_STRING, 0},
        {NULL, "list", &out->list, FIELD_ANY, 0},
        {NULL, "inside", NULL, FIELD_OBJECT, 0},
        {"inside", "step", &out->inner, FIELD_INTEGER, 0},
    };
    memcpy(fields, all, sizeof all);
    *out = (record){.step = -7, .inner = -7};
    return json_fields(text, strlen(text), fields, 7);
}

static void test_members_are_found_in_any_order(void **state) {
    (void)state;
    record r;
    json_field fields[7];
    assert_true(read_record(" {\"other\":{\"step\":[9]},\"inside\":{\"step\":3,\"name\":4},"
                            "\"list\":[1, 2],\"n\\u0061me\":\"\\u00e4\",\"seconds\":2,"
                            "\"bytes\":5,\"step\":-1} ",
                            &r, fields));
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        assert_int_equal(fields[i].found, FIELD_FOUND);
    }
    assert_int_equal(r.step, -1);
    assert_int_equal(r.bytes, 5);
    assert_true(r.seconds == 2);
    assert_true(json_is(r.name, "\xc3\xa4"));
    assert_int_equal(r.list.n, strlen("[1, 2]"));
    assert_int_equal(r.inner, 3);
}

static void test_another_type_is_told_and_changes_nothing(void **state) {
    (void)state;
    record r;
    json_field fields[7];
    assert_true(read_record("{\"step\":1.0,\"bytes\":-1,\"seconds\":\"2\",\"name\":null,"
                            "\"inside\":[{\"step\":3}]}",
                            &r, fields));
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        bool absent = strcmp(fields[i].key, "list") == 0 || fields[i].object != NULL;
        assert_int_equal(fields[i].found, absent ? FIELD_ABSENT : FIELD_OTHER_TYPE);
    }
    assert_int_equal(r.step, -7);
    assert_int_equal(r.inner, -7);
}

static void test_what_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "{} {}",
                                        "{\"step\":1,\"step\":1}",
                                        "{\"inside\":{\"step\":1,\"step\":1}}",
                                        "{\"inside\":{},\"inside\":{}}",
                                        "{\"step\":9223372036854775808}",
                                        "{\"seconds\":1e309}",
                                        "{\"other\":1e309}",
                                        "{\"name\":\"\\u0000\"}",
                                        "{\"step\":1"};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        record r;
        json_field fields[7];
        if (read_record(texts[i], &r, fields)) {
            fail_msg("taken: %s", texts[i]);
        }
    }
}

/* What does not fit is cut, and its length told. */
static void test_characters_are_decoded_into_the_room_there_is(void **state) {
    (void)state;
    const json_span string = {"a\\u00e4\\nb", 10};
    char out[8] = "xxxxxxx";
    assert_int_equal(json_decode(string, out, 2), 5);
    assert_memory_equal(out, "a\xc3xxxxx", 7);
    assert_int_equal(json_decode(string, out, sizeof out), 5);
    assert_memory_equal(out, "a\xc3\xa4\nb", 5);
    assert_true(json_is(string, "a\xc3\xa4\nb"));
    assert_false(json_is(string, "a\xc3\xa4\n"));
    assert_false(json_is(string, "a\xc3\xa4\nbc"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_are_found_in_any_order),
        cmocka_unit_test(test_another_type_is_told_and_changes_nothing),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_characters_are_decoded_into_the_room_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
