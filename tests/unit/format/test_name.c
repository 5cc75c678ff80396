/* SPDX-License-Identifier: Apache-2.0 */
/* name: ours are exactly those that are made here; everything else is foreign. */
#include "format/format.h"
#include "lib/test.h"

#include <string.h>

/* Steps have at least 8 digits, and come back. */
static void test_step_names_are_golden_and_come_back(void **state) {
    (void)state;
    static const struct {
        int64_t step;
        const char *name;
    } cases[] = {{0, "step-00000000"},
                 {1000, "step-00001000"},
                 {99999999, "step-99999999"},
                 {100000000, "step-100000000"},
                 {INT64_MAX, "step-9223372036854775807"}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char name[32];
        int64_t step = -1;
        name_step(name, cases[i].step);
        assert_string_equal(name, cases[i].name);
        assert_true(name_step_parse(name, &step));
        assert_true(step == cases[i].step);
    }
}

/* What name_step would not have made is no step. */
static void test_r14_foreign_step_names_are_not_parsed(void **state) {
    (void)state;
    static const char *const names[] = {"",
                                        "step-",
                                        "step-1",
                                        "step-0000001",
                                        "step-000000001",
                                        "step-00000001x",
                                        "step-00000001/",
                                        "step--0000001",
                                        "step-+0000001",
                                        "step- 0000001",
                                        "Step-00000001",
                                        "step-9223372036854775808",
                                        "step-99999999999999999999999",
                                        "xstep-00000001"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        int64_t step = -7;
        assert_false(name_step_parse(names[i], &step));
        assert_true(step == -7);
    }
}

/* Names of data and index files are golden, and are known again with their tag. */
static void test_file_names_are_golden_and_come_back(void **state) {
    (void)state;
    char name[80], tag[FORMAT_TAG_CHARS];
    name_data(name, "7f3a9c21e04b-1", -1, 0, 2);
    assert_string_equal(name, "data-7f3a9c21e04b-1-00000-of-00002.safetensors");
    assert_int_equal(name_classify(name, tag), NAME_KIND_DATA);
    assert_string_equal(tag, "7f3a9c21e04b-1");
    name_data(name, "7f3a9c21e04b-4294967295", -1, 999999, 1000000);
    assert_string_equal(name, "data-7f3a9c21e04b-4294967295-999999-of-1000000.safetensors");
    assert_int_equal(name_classify(name, tag), NAME_KIND_DATA);
    assert_string_equal(tag, "7f3a9c21e04b-4294967295");
    name_index(name, "7f3a9c21e04b-12");
    assert_string_equal(name, "index-7f3a9c21e04b-12");
    assert_int_equal(name_classify(name, tag), NAME_KIND_INDEX);
    assert_string_equal(tag, "7f3a9c21e04b-12");
    name_manifest_tmp(name, "7f3a9c21e04b-12");
    assert_string_equal(name, "manifest.json.7f3a9c21e04b-12.tmp");
    assert_int_equal(name_classify(name, tag), NAME_KIND_MANIFEST_TMP);
    assert_string_equal(tag, "7f3a9c21e04b-12");
}

/* The other names of a step's directory. */
static void test_other_names_are_classified(void **state) {
    (void)state;
    static const struct {
        const char *name;
        name_kind kind;
    } cases[] = {{"manifest.json", NAME_KIND_MANIFEST},
                 {"pinned", NAME_KIND_PINNED},
                 {"reader-7f3a9c21e04b", NAME_KIND_READER},
                 {"reader-host-1-A", NAME_KIND_READER}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char tag[FORMAT_TAG_CHARS] = "x";
        assert_int_equal(name_classify(cases[i].name, tag), cases[i].kind);
        assert_string_equal(tag, "");
    }
}

/* A name that is nearly ours is not ours: nothing may touch it. */
static void test_r14_foreign_names_are_never_ours(void **state) {
    (void)state;
    static const char *const names[] = {"",
                                        ".",
                                        "..",
                                        "manifest.json~",
                                        "Manifest.json",
                                        "manifest.json.tmp",
                                        "pinned.txt",
                                        "reader-",
                                        "reader-a/b",
                                        "reader-a.tmp",
                                        "index-",
                                        "index-7f3a9c21e04b",
                                        "index-7f3a9c21e04b-",
                                        "index-7f3a9c21e04b-01",
                                        "index-7f3a9c21e04b-1x",
                                        "index-7F3A9C21E04B-1",
                                        "index-7f3a9c21e04-1",
                                        "index-7f3a9c21e04b0-1",
                                        "index-7f3a9c21e04b-4294967296",
                                        "data-7f3a9c21e04b-1-00000-of-00002",
                                        "data-7f3a9c21e04b-1-00000-of-00002.safetensors.tmp",
                                        "data-7f3a9c21e04b-1-0000-of-00002.safetensors",
                                        "data-7f3a9c21e04b-1-000000-of-00002.safetensors",
                                        "data-7f3a9c21e04b-1-00002-of-00002.safetensors",
                                        "data-7f3a9c21e04b-1-00000-of-00000.safetensors",
                                        "data-7f3a9c21e04b-1-00000-of-1000001.safetensors",
                                        "data-7f3a9c21e04b-1-00000of-00002.safetensors",
                                        "data-../../../etc-1-00000-of-00002.safetensors",
                                        "../data-7f3a9c21e04b-1-00000-of-00002.safetensors",
                                        "model.safetensors"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        char tag[FORMAT_TAG_CHARS] = "x";
        if (name_classify(names[i], tag) != NAME_FOREIGN) {
            fail_msg("%s is taken for ours", names[i]);
        }
        assert_string_equal(tag, "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_names_are_golden_and_come_back),
        cmocka_unit_test(test_r14_foreign_step_names_are_not_parsed),
        cmocka_unit_test(test_file_names_are_golden_and_come_back),
        cmocka_unit_test(test_other_names_are_classified),
        cmocka_unit_test(test_r14_foreign_names_are_never_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
