/* SPDX-License-Identifier: Apache-2.0 */
/* name: ours are exactly those that are made here; everything else is foreign. */
#include "format/format.h"
#include "lib/test.h"

#include <stdio.h>
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
    name_data(name, "7f3a9c21e04b-1", 3, 0, 2);
    assert_string_equal(name, "data-7f3a9c21e04b-1-r00003-00000-of-00002.safetensors");
    assert_int_equal(name_classify(name, tag), NAME_KIND_DATA);
    assert_string_equal(tag, "7f3a9c21e04b-1");
    name_vote(name, "7f3a9c21e04b-12", 99999);
    assert_string_equal(name, "vote-7f3a9c21e04b-12-r99999");
    assert_int_equal(name_classify(name, tag), NAME_KIND_VOTE);
    assert_string_equal(tag, "7f3a9c21e04b-12");
    assert_int_equal(name_classify("vote-7f3a9c21e04b-12-r00000.tmp", tag), NAME_KIND_VOTE);
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
                                        "data-7f3a9c21e04b-1-r3-00000-of-00002.safetensors",
                                        "data-7f3a9c21e04b-1-r000003-00000-of-00002.safetensors",
                                        "data-7f3a9c21e04b-1-r100000-00000-of-00002.safetensors",
                                        "data-7f3a9c21e04b-1-r00003.safetensors",
                                        "data-7f3a9c21e04b-1-r-0003-00000-of-00002.safetensors",
                                        "vote-",
                                        "vote-7f3a9c21e04b-1",
                                        "vote-7f3a9c21e04b-1-r",
                                        "vote-7f3a9c21e04b-1-r3",
                                        "vote-7f3a9c21e04b-1-r000003",
                                        "vote-7f3a9c21e04b-1-r100000",
                                        "vote-7f3a9c21e04b-1-r00003x",
                                        "vote-7f3a9c21e04b-1-r00003.tmp.tmp",
                                        "vote-7f3a9c21e04b-1-r00003.bak",
                                        "vote-7f3a9c21e04b-01-r00003",
                                        "model.safetensors"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        char tag[FORMAT_TAG_CHARS] = "x";
        if (name_classify(names[i], tag) != NAME_FOREIGN) {
            fail_msg("%s is taken for ours", names[i]);
        }
        assert_string_equal(tag, "");
    }
}

/* A data file's name says whose it is; that of one process alone, nobody's. */
static void test_data_names_say_their_rank(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int rank;
        uint32_t number, of;
    } cases[] = {{"data-7f3a9c21e04b-1-00000-of-00002.safetensors", -1, 0, 2},
                 {"data-7f3a9c21e04b-1-r00000-00001-of-00002.safetensors", 0, 1, 2},
                 {"data-7f3a9c21e04b-1-r99999-00000-of-00001.safetensors", 99999, 0, 1}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char tag[FORMAT_TAG_CHARS];
        int rank = 7;
        uint32_t number = 7;
        uint32_t of = 7;
        assert_true(name_data_parse(cases[i].name, tag, &rank, &number, &of));
        assert_int_equal(rank, cases[i].rank);
        assert_int_equal(number, cases[i].number);
        assert_int_equal(of, cases[i].of);
        assert_string_equal(tag, "7f3a9c21e04b-1");
    }
}

static void check_root(const char *name, const char *golden, name_root_kind kind,
                       const char *wanted) {
    char tag[FORMAT_TAG_CHARS];
    char temporary[96];
    assert_string_equal(name, golden);
    assert_int_equal(name_root_classify(name, tag), kind);
    assert_string_equal(tag, wanted);
    (void)snprintf(temporary, sizeof temporary, "%s.tmp", name);
    assert_int_equal(name_root_classify(temporary, tag), kind);
    assert_string_equal(tag, wanted);
}

/* What ranks leave in the run's directory is golden, and is known again, half published too. */
static void test_names_of_ranks_are_golden_and_come_back(void **state) {
    (void)state;
    char name[80];
    name_outcome(name, "7f3a9c21e04b-12");
    check_root(name, "outcome-7f3a9c21e04b-12", NAME_ROOT_OUTCOME, "7f3a9c21e04b-12");
    name_structure(name, "7f3a9c21e04b", 0xabc, 1234);
    check_root(name, "structure-7f3a9c21e04b-00000abc-1234", NAME_ROOT_STRUCTURE, "7f3a9c21e04b");
    name_meet(name, "7f3a9c21e04b", 0, 3);
    check_root(name, "meet-7f3a9c21e04b-0-r00003", NAME_ROOT_MEET, "7f3a9c21e04b");
    name_meet(name, "7f3a9c21e04b", 17, -1);
    check_root(name, "meet-7f3a9c21e04b-17-answer", NAME_ROOT_MEET, "7f3a9c21e04b");
    name_visit(name, "7f3a9c21e04b", 17, 3);
    check_root(name, "visit-7f3a9c21e04b-17-r00003", NAME_ROOT_VISIT, "7f3a9c21e04b");
}

/* A name in the run's directory that ranks would not have made is nobody's. */
static void test_r14_foreign_root_names_are_never_ours(void **state) {
    (void)state;
    static const char *const names[] = {"",
                                        "latest",
                                        "outcome-",
                                        "outcome-7f3a9c21e04b",
                                        "outcome-7f3a9c21e04b-1.txt",
                                        "outcome-7f3a9c21e04b-1.tmp.tmp",
                                        "outcome-7F3A9C21E04B-1",
                                        "outcome-7f3a9c21e04b-1-r00001",
                                        "structure-7f3a9c21e04b",
                                        "structure-7f3a9c21e04b-abc-1",
                                        "structure-7f3a9c21e04b-00000ABC-1",
                                        "structure-7f3a9c21e04b-00000abc-",
                                        "structure-7f3a9c21e04b-00000abc-01",
                                        "structure-7f3a9c21e04b-00000abc-1x",
                                        "structure-7f3a9c21e04b-1-00000abc-1",
                                        "meet-7f3a9c21e04b-1",
                                        "meet-7f3a9c21e04b-1-r1",
                                        "meet-7f3a9c21e04b-01-r00001",
                                        "meet-7f3a9c21e04b-1-answers",
                                        "meet-7f3a9c21e0-1-answer",
                                        "meet-7f3a9c21e04b-1-r00001-answer",
                                        "meet-7f3a9c21e04b-1-r-answer",
                                        "meetings"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        char tag[FORMAT_TAG_CHARS] = "x";
        if (name_root_classify(names[i], tag) != NAME_ROOT_FOREIGN) {
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
        cmocka_unit_test(test_data_names_say_their_rank),
        cmocka_unit_test(test_names_of_ranks_are_golden_and_come_back),
        cmocka_unit_test(test_r14_foreign_root_names_are_never_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
