/* SPDX-License-Identifier: Apache-2.0 */
/* Records of owners and readers: what is encoded comes back, and nothing else is taken. */
#include "format/presence_record.h"
#include "lib/test.h"

#include <stdio.h>
#include <string.h>

static const process_identity someone = {.host = "node1",
                                         .boot_id = "b",
                                         .pid_namespace = "pid:[1]",
                                         .time_namespace = "time:[1]",
                                         .pid = 4711,
                                         .start_ticks = 5000};

static void test_an_owner_record_comes_back(void **state) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    owner_record r = {.counter = UINT64_MAX,
                      .who = someone,
                      .generation = OWNER_MAX_GENERATION,
                      .attempt = "0123456789ab",
                      .lease_s = 30.25};
    owner_record back;
    (void)state;
    assert_ok(owner_record_encode(&r, &text, &err), &err);
    assert_string_equal((const char *)text.data,
                        "{\"counter\":\"18446744073709551615\",\"host\":\"node1\",\"pid\":4711,"
                        "\"boot_id\":\"b\",\"pid_namespace\":\"pid:[1]\","
                        "\"time_namespace\":\"time:[1]\",\"start_ticks\":5000,"
                        "\"generation\":999999999999,\"attempt\":\"0123456789ab\","
                        "\"lease_s\":30.25}\n");
    assert_ok(owner_record_decode(text.data, text.size, &back, &err), &err);
    assert_int_equal(back.counter, r.counter);
    assert_int_equal(back.generation, r.generation);
    assert_string_equal(back.attempt, r.attempt);
    assert_true(back.lease_s == r.lease_s);
    assert_true(presence_same(&back.who, &someone));
}

static void test_a_reader_record_comes_back(void **state) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    reader_record r = {.counter = 7, .who = someone};
    reader_record back;
    (void)state;
    assert_ok(reader_record_encode(&r, &text, &err), &err);
    assert_memory_equal((const char *)text.data + PRESENCE_COUNTER_AT, "00000000000000000007",
                        PRESENCE_COUNTER_DIGITS);
    assert_ok(reader_record_decode(text.data, text.size, &back, &err), &err);
    assert_int_equal(back.counter, 7);
    assert_true(presence_same(&back.who, &someone));
}

/* Half of it is no record: its writer was interrupted, or still writes it. */
static void test_no_beginning_of_a_record_is_one(void **state) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    owner_record r = {
        .counter = 1, .who = someone, .generation = 1, .attempt = "0123456789ab", .lease_s = 30};
    owner_record back;
    (void)state;
    assert_ok(owner_record_encode(&r, &text, &err), &err);
    for (size_t n = 0; n + 2 < text.size; n++) {
        assert_fails(owner_record_decode(text.data, n, &back, &err), PAWL_EDAMAGED, &err);
    }
}

#define HEAD "{\"counter\":\"00000000000000000001\",\"host\":\"h\",\"pid\":1"
#define TAIL ",\"attempt\":\"0123456789ab\",\"lease_s\":30}"

static void test_what_no_owner_writes_is_refused(void **state) {
    static const struct {
        const char *text, *why;
    } refused[] = {
        {"", "no JSON object"},
        {"[]", "no JSON object"},
        {"{\"counter\":\"1\",\"host\":\"h\",\"pid\":1" TAIL, "counter"},
        {"{\"counter\":1,\"host\":\"h\",\"pid\":1" TAIL, "counter"},
        {"{\"counter\":\"99999999999999999999\",\"host\":\"h\",\"pid\":1" TAIL, "counter"},
        {"{\"counter\":\"-0000000000000000001\",\"host\":\"h\",\"pid\":1" TAIL, "counter"},
        {"{\"counter\":\"00000000000000000001\",\"host\":\"h\",\"pid\":0" TAIL, "process id"},
        {"{\"counter\":\"00000000000000000001\",\"host\":\"h\",\"pid\":1.5" TAIL, "process id"},
        {"{\"counter\":\"00000000000000000001\",\"pid\":1" TAIL, "host"},
        {HEAD ",\"attempt\":\"0123456789aB\",\"lease_s\":30}", "attempt"},
        {HEAD ",\"attempt\":\"0123456789abc\",\"lease_s\":30}", "attempt"},
        {HEAD ",\"lease_s\":30}", "attempt"},
        {HEAD ",\"attempt\":\"0123456789ab\"}", "lease"},
        {HEAD ",\"attempt\":\"0123456789ab\",\"lease_s\":0.5}", "lease"},
        {HEAD ",\"attempt\":\"0123456789ab\",\"lease_s\":1e308}", "lease"},
        {HEAD ",\"generation\":0" TAIL, "generation"},
        {HEAD ",\"generation\":\"1\"" TAIL, "generation"},
        {HEAD ",\"generation\":1000000000000" TAIL, "generation"},
    };
    struct pawl_error err = ERROR_INIT;
    owner_record back;
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(refused); i++) {
        assert_fails(owner_record_decode(refused[i].text, strlen(refused[i].text), &back, &err),
                     PAWL_EDAMAGED, &err);
        assert_says(err.found, refused[i].why);
    }
    assert_ok(owner_record_decode(HEAD TAIL, strlen(HEAD TAIL), &back, &err), &err);
    assert_int_equal(back.generation, 0);
}

static void test_a_name_is_an_owners_only_as_it_is_made(void **state) {
    static const struct {
        const char *name;
        name_owner_kind kind;
        uint64_t generation;
    } names[] = {
        {"owner-00000001", NAME_OWNER, 1},
        {"owner-99999999", NAME_OWNER, 99999999},
        {"owner-100000000", NAME_OWNER, 100000000},
        {"owner-999999999999", NAME_OWNER, OWNER_MAX_GENERATION},
        {"owner-1000000000000", NAME_OWNER_STRAY, 0},
        {"owner-999999999999999999", NAME_OWNER_STRAY, 0},
        {"owner-9999999999999999999", NAME_OWNER_STRAY, 0},
        {"owner-99999999999999999999999999999999", NAME_OWNER_STRAY, 0},
        {"owner-000000001", NAME_OWNER_STRAY, 0},
        {"owner-00000000", NAME_OWNER_STRAY, 0},
        {"owner-1", NAME_OWNER_STRAY, 0},
        {"owner-", NAME_OWNER_NOT, 0},
        {"owner-0000000a", NAME_OWNER_NOT, 0},
        {"owner-00000001.tmp", NAME_OWNER_NOT, 0},
        {"owner", NAME_OWNER_NOT, 0},
    };
    char made[32];
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        uint64_t generation = 0;
        assert_int_equal(name_owner_parse(names[i].name, &generation), names[i].kind);
        assert_int_equal(generation, names[i].generation);
        if (names[i].kind == NAME_OWNER) {
            name_owner(made, generation);
            assert_string_equal(made, names[i].name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_owner_record_comes_back),
        cmocka_unit_test(test_a_reader_record_comes_back),
        cmocka_unit_test(test_no_beginning_of_a_record_is_one),
        cmocka_unit_test(test_what_no_owner_writes_is_refused),
        cmocka_unit_test(test_a_name_is_an_owners_only_as_it_is_made),
    };
    return cmocka_run_group_tests_name("presence", tests, NULL, NULL);
}
