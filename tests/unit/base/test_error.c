/* SPDX-License-Identifier: Apache-2.0 */
/* The story of a failure: its parts, how they are cut, and its two renderings. */
#include "lib/failing_memory.h"
#include "lib/test.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>

#define LONG_BYTES 5000

static void fill_long(char *text, const char *unit) {
    size_t n = strlen(unit);
    for (size_t i = 0; i < LONG_BYTES; i++) {
        text[i] = unit[i % n];
    }
    text[LONG_BYTES] = '\0';
}

static void fill_all(pawl_error *err, const char *text) {
    error_sys(err, ENOSPC, "%s", text);
    error_path(err, "%s", text);
    error_entry(err, text);
    error_expected(err, "%s", text);
    error_found(err, "%s", text);
    error_safe(err, "%s", text);
    error_next(err, "%s", text);
    error_range(err, UINT64_MAX, UINT64_MAX);
    error_step(err, INT64_MAX);
}

static void test_set_returns_the_status_and_clears_the_earlier_story(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    fill_all(&err, "old");
    assert_int_equal(error_set(&err, PAWL_EUSAGE, "step %d", -3), PAWL_EUSAGE);
    assert_status_text(&err, PAWL_EUSAGE, "step -3");
    assert_int_equal(err.step, -1);
    assert_int_equal(err.system_errno, 0);
    assert_false(err.has_range);
}

static void test_text_has_a_line_for_each_part(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_sys(&err, ENOSPC, "writing 4096 bytes");
    error_wrap(&err, "saving step %d", 12);
    error_path(&err, "/runs/%s", "a");
    error_entry(&err, "dense/kernel");
    error_expected(&err, "4096 bytes");
    error_found(&err, "%d bytes", 100);
    error_safe(&err, "step 11 is whole");
    error_next(&err, "free 41.2 GB, or choose another disk");
    error_range(&err, 8192, 4096);
    assert_status_text(&err, PAWL_ENOSPACE,
                       "saving step 12: writing 4096 bytes\n"
                       "  path:     /runs/a\n"
                       "  entry:    dense/kernel\n"
                       "  range:    bytes 8192 to 12287\n"
                       "  expected: 4096 bytes\n"
                       "  found:    100 bytes\n"
                       "  system:   No space left on device (ENOSPC, errno 28)\n"
                       "  safe:     step 11 is whole\n"
                       "  next:     free 41.2 GB, or choose another disk");
}

static void test_range_of_one_byte_is_one_byte(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_set(&err, PAWL_EDAMAGED, "reading");
    error_range(&err, 7, 1);
    assert_status_text(&err, PAWL_EDAMAGED, "reading\n  range:    byte 7");
}

static void test_range_beyond_all_bytes_ends_at_the_last(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_set(&err, PAWL_EDAMAGED, "reading");
    error_range(&err, 7, UINT64_MAX);
    assert_status_text(&err, PAWL_EDAMAGED, "reading\n  range:    bytes 7 to 18446744073709551615");
}

static void test_a_part_is_one_line_whatever_it_holds(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_set(&err, PAWL_EUSAGE, "no");
    error_wrap(&err, "on %s", "a\nb");
    error_found(&err, "host %s", "x\n\xe2\x80\xaey\xc2\x9b\xff");
    error_next(&err, "this\nthat");
    assert_status_text(&err, PAWL_EUSAGE,
                       "on a\\x0ab: no\n  found:    host x\\x0a\\xe2\\x80\\xaey\\xc2\\x9b\\xff\n"
                       "  next:     this\\x0athat");
    assert_string_equal(err.found, "host x\\x0a\\xe2\\x80\\xaey\\xc2\\x9b\\xff");
}

static void test_text_shows_control_characters_instead_of_sending_them(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_set(&err, PAWL_EUSAGE, "bad");
    error_entry(&err, "a\nb\x1b[2J\x7f\xc2\x9b\xff\xc3\xa9");
    assert_status_text(&err, PAWL_EUSAGE,
                       "bad\n  entry:    a\\x0ab\\x1b[2J\\x7f\\xc2\\x9b\\xff\xc3\xa9");
}

static void test_wrap_prepends_each_level(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_set(&err, PAWL_EIO, "c");
    error_wrap(&err, "b %d", 2);
    error_wrap(&err, "a");
    assert_string_equal(err.attempt, "a: b 2: c");
    assert_int_equal(err.status, PAWL_EIO);
}

static void test_wrap_keeps_the_errno_and_every_other_part(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_sys(&err, EACCES, "opening");
    error_path(&err, "/x");
    error_wrap(&err, "restoring");
    assert_int_equal(err.system_errno, EACCES);
    assert_string_equal(err.path, "/x");
}

static void test_wrap_beyond_the_room_is_cut_at_the_end(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    char text[LONG_BYTES + 1];
    fill_long(text, "x");
    text[1000] = '\0';
    error_set(&err, PAWL_EIO, "%s", text);
    error_wrap(&err, "0123456789012345678901234567890");
    assert_int_equal(strlen(err.attempt), sizeof(err.attempt) - 1);
    assert_memory_equal(err.attempt, "0123456789012345678901234567890: xxx", 36);
    assert_string_equal(err.attempt + sizeof(err.attempt) - 5, "x...");
}

static void test_wrap_that_just_fits_is_not_cut(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    char text[LONG_BYTES + 1];
    fill_long(text, "x");
    text[sizeof(err.attempt) - 1 - 3] = '\0';
    error_set(&err, PAWL_EIO, "%s", text);
    error_wrap(&err, "a");
    assert_int_equal(strlen(err.attempt), sizeof(err.attempt) - 1);
    assert_string_equal(err.attempt + sizeof(err.attempt) - 4, "xxx");
}

static void test_wrap_by_a_text_without_end_is_cut(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    char text[LONG_BYTES + 1];
    fill_long(text, "y");
    error_set(&err, PAWL_EIO, "leaf");
    error_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.attempt), sizeof(err.attempt) - 1);
    assert_string_equal(err.attempt + sizeof(err.attempt) - 5, "y...");
}

static void test_part_may_be_made_from_itself(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_set(&err, PAWL_EIO, "leaf");
    error_next(&err, "wait");
    error_next(&err, "%s, then try again", err.next);
    assert_string_equal(err.next, "wait, then try again");
    error_entry(&err, "a/b");
    error_entry(&err, err.entry);
    assert_string_equal(err.entry, "a/b");
    error_set(&err, PAWL_EUSAGE, "%s (%s)", err.attempt, err.next);
    assert_string_equal(err.attempt, "leaf (wait, then try again)");
}

static void assert_cut(const char *part, size_t size, const char *unit) {
    size_t length = strlen(part);
    assert_in_range(length, size - 1 - (strlen(unit) - 1), size - 1);
    assert_string_equal(part + length - 3, "...");
    assert_true(utf8_valid(part, length));
    assert_memory_equal(part, unit, strlen(unit));
}

static void test_every_part_is_cut_at_a_character_and_ends_in_dots(void **state) {
    (void)state;
    static const char *const units[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                        "a\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < ARRAY_LENGTH(units); i++) {
        struct pawl_error err = ERROR_INIT;
        char text[LONG_BYTES + 1];
        fill_long(text, units[i]);
        fill_all(&err, text);
        assert_cut(err.attempt, sizeof(err.attempt), units[i]);
        assert_cut(err.path, sizeof(err.path), units[i]);
        assert_cut(err.entry, sizeof(err.entry), units[i]);
        assert_cut(err.expected, sizeof(err.expected), units[i]);
        assert_cut(err.found, sizeof(err.found), units[i]);
        assert_cut(err.safe, sizeof(err.safe), units[i]);
        assert_cut(err.next, sizeof(err.next), units[i]);
    }
}

static void test_part_that_just_fits_is_whole(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    char text[LONG_BYTES + 1];
    fill_long(text, "z");
    text[sizeof(err.entry) - 1] = '\0';
    error_entry(&err, text);
    error_found(&err, "%s", text);
    assert_string_equal(err.entry, text);
    assert_string_equal(err.found, text);
}

static void test_cut_of_bytes_that_are_no_text_ends(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    char text[LONG_BYTES + 1];
    fill_long(text, "\x80");
    error_set(&err, PAWL_EIO, "%s", text);
    assert_in_range(strlen(err.attempt), sizeof(err.attempt) - 4, sizeof(err.attempt) - 1);
}

static void test_errno_chooses_the_category(void **state) {
    (void)state;
    static const struct {
        int system_errno;
        pawl_status status;
    } wanted[] = {
        {ENOSPC, PAWL_ENOSPACE},     {EDQUOT, PAWL_ENOSPACE},   {EFBIG, PAWL_ENOSPACE},
        {EACCES, PAWL_EPERMISSION},  {EPERM, PAWL_EPERMISSION}, {EROFS, PAWL_EPERMISSION},
        {ENOENT, PAWL_ENOTFOUND},    {ENOMEM, PAWL_ENOMEM},     {EMFILE, PAWL_ENOMEM},
        {ENFILE, PAWL_ENOMEM},       {EEXIST, PAWL_EBUSY},      {ETIMEDOUT, PAWL_ETIMEOUT},
        {ENAMETOOLONG, PAWL_ELIMIT}, {EIO, PAWL_EIO},           {ESTALE, PAWL_EIO},
        {EINVAL, PAWL_EIO},          {123456, PAWL_EIO},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(wanted); i++) {
        struct pawl_error err = ERROR_INIT;
        assert_int_equal(error_sys(&err, wanted[i].system_errno, "x"), wanted[i].status);
        assert_int_equal(err.status, wanted[i].status);
        assert_int_equal(err.system_errno, wanted[i].system_errno);
    }
}

static void test_system_part_names_the_errno(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_sys(&err, EACCES, "x");
    assert_string_equal(err.system, "Permission denied (EACCES, errno 13)");
    error_sys(&err, 123456, "x");
    assert_string_equal(err.system, "unknown error (errno 123456)");
}

/* The table is our own; what glibc knows, it has alike. */
static void test_system_part_is_what_the_c_library_says(void **state) {
    (void)state;
    size_t known = 0;
    for (int system_errno = -1; system_errno < 4096; system_errno++) {
        struct pawl_error err = ERROR_INIT;
        char wanted[sizeof err.system];
        const char *name = strerrorname_np(system_errno);
        if (name == NULL) {
            snprintf(wanted, sizeof wanted, "unknown error (errno %d)", system_errno);
        } else {
            snprintf(wanted, sizeof wanted, "%s (%s, errno %d)", strerrordesc_np(system_errno),
                     name, system_errno);
            known++;
        }
        error_sys(&err, system_errno, "x");
        assert_string_equal(err.system, wanted);
    }
    assert_true(known > 100);
}

static void test_out_of_memory_is_told_without_memory(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    failing_memory_set(1);
    error_nomem(&err, 41200000000U);
    const char *text = error_text(&err);
    const char *json = error_json(&err);
    bool asked = failing_memory_fired();
    failing_memory_set(0);
    assert_false(asked);
    assert_ptr_equal(text, json);
    assert_status_text(&err, PAWL_ENOMEM, "out of memory: 41.2 GB could not be allocated");
}

static json_t *parse(pawl_error *err) {
    json_error_t problem;
    json_t *root = json_loads(error_json(err), 0, &problem);
    if (root == NULL) {
        fail_msg("%s in %s", problem.text, err->rendered);
    }
    return root;
}

static const char *member(const json_t *root, const char *key) {
    const char *value = json_string_value(json_object_get(root, key));
    return value != NULL ? value : "(none)";
}

static void test_json_has_every_part(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_sys(&err, EIO, "reading \"x\"\n");
    error_path(&err, "/a\\b\n\xe2\x80\xae");
    error_entry(&err, "\xc3\xa9\xc2\x9b");
    error_expected(&err, "e");
    error_found(&err, "f");
    error_safe(&err, "s");
    error_next(&err, "n\x01");
    error_range(&err, 5, 6);
    error_step(&err, 12);
    json_t *root = parse(&err);
    assert_string_equal(member(root, "status"), "storage failed");
    assert_string_equal(member(root, "attempt"), "reading \"x\"\\x0a");
    assert_string_equal(member(root, "path"), "/a\\b\n\xe2\x80\xae");
    assert_string_equal(member(root, "entry"), "\xc3\xa9\xc2\x9b");
    assert_string_equal(member(root, "expected"), "e");
    assert_string_equal(member(root, "found"), "f");
    assert_string_equal(member(root, "safe"), "s");
    assert_string_equal(member(root, "next"), "n\\x01");
    assert_string_equal(member(root, "system"), "Input/output error (EIO, errno 5)");
    assert_int_equal(json_integer_value(json_object_get(root, "errno")), EIO);
    assert_int_equal(json_integer_value(json_object_get(root, "offset")), 5);
    assert_int_equal(json_integer_value(json_object_get(root, "length")), 6);
    assert_int_equal(json_integer_value(json_object_get(root, "step")), 12);
    json_decref(root);
}

static void test_json_leaves_out_what_does_not_apply(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    error_set(&err, PAWL_EUSAGE, "no");
    assert_string_equal(error_json(&err), "{\"status\":\"usage\",\"attempt\":\"no\"}");
}

static void test_json_parses_whatever_the_parts_hold(void **state) {
    (void)state;
    static const char *const units[] = {
        "x",        "\"",      "\\", "\x01", "\n", "\x7f", "\xff", "\xc3\xa9", "a\xf0\x9f\x98\x80",
        "\xe2\x82", "\\\"\x1f"};
    for (size_t i = 0; i < ARRAY_LENGTH(units); i++) {
        struct pawl_error err = ERROR_INIT;
        char text[LONG_BYTES + 1];
        fill_long(text, units[i]);
        fill_all(&err, text);
        err.offset = 1;
        err.length = INT64_MAX; /* jansson's integers are signed */
        json_t *root = parse(&err);
        assert_int_equal(json_object_size(root), 13);
        json_decref(root);
    }
}

static void test_text_has_every_part_whatever_they_hold(void **state) {
    (void)state;
    static const char *const units[] = {"x", "\x01", "\n", "\xff", "\n\x01"};
    for (size_t i = 0; i < ARRAY_LENGTH(units); i++) {
        struct pawl_error err = ERROR_INIT;
        char text[LONG_BYTES + 1];
        fill_long(text, units[i]);
        fill_all(&err, text);
        const char *shown = error_text(&err);
        assert_non_null(strstr(shown, "\n  path:     "));
        assert_non_null(strstr(shown, "\n  next:     "));
        assert_string_equal(shown + strlen(shown) - 3, "...");
        assert_true(utf8_valid(shown, strlen(shown)));
    }
}

static void test_statuses_have_words(void **state) {
    (void)state;
    assert_string_equal(pawl_status_name(PAWL_OK), "ok");
    assert_string_equal(pawl_status_name(PAWL_EUSAGE), "usage");
    assert_string_equal(pawl_status_name(PAWL_ENOTFOUND), "not found");
    assert_string_equal(pawl_status_name(PAWL_EMISMATCH), "mismatch");
    assert_string_equal(pawl_status_name(PAWL_EDAMAGED), "damaged");
    assert_string_equal(pawl_status_name(PAWL_EUNSUPPORTED), "unsupported");
    assert_string_equal(pawl_status_name(PAWL_EBUSY), "busy");
    assert_string_equal(pawl_status_name(PAWL_ENOSPACE), "no space");
    assert_string_equal(pawl_status_name(PAWL_EPERMISSION), "permission denied");
    assert_string_equal(pawl_status_name(PAWL_EIO), "storage failed");
    assert_string_equal(pawl_status_name(PAWL_ETIMEOUT), "timeout");
    assert_string_equal(pawl_status_name(PAWL_ECANCELED), "canceled");
    assert_string_equal(pawl_status_name(PAWL_ENOMEM), "out of memory");
    assert_string_equal(pawl_status_name(PAWL_ELIMIT), "limit passed");
    assert_string_equal(pawl_status_name(PAWL_EINTERNAL), "internal");
    assert_string_equal(pawl_status_name(PAWL_EPEER), "rank missing");
}

static void test_numbers_that_are_no_status_role_or_kind_have_a_word(void **state) {
    (void)state;
    static const int numbers[] = {-1, 16, 8, 1000, INT_MAX, INT_MIN};
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        pawl_status status;
        memcpy(&status, &numbers[i], sizeof(status));
        if (numbers[i] != 8) {
            assert_string_equal(pawl_status_name(status), "unknown");
        }
        assert_string_equal(pawl_role_name((pawl_role)numbers[i]), "unknown");
        assert_string_equal(pawl_kind_name((pawl_kind)numbers[i]), "unknown");
    }
    assert_string_equal(pawl_kind_name((pawl_kind)0), "unknown");
}

static void test_roles_and_kinds_are_found_by_their_names(void **state) {
    (void)state;
    for (int i = 0; i <= (int)PAWL_ROLE_OTHER; i++) {
        pawl_role role = PAWL_ROLE_OTHER;
        assert_true(role_from_name(pawl_role_name((pawl_role)i), &role));
        assert_int_equal(role, i);
    }
    for (int i = 1; i <= (int)PAWL_KIND_JSON; i++) {
        pawl_kind kind = PAWL_KIND_JSON;
        assert_true(kind_from_name(pawl_kind_name((pawl_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    pawl_role role;
    pawl_kind kind;
    assert_false(role_from_name("unknown", &role));
    assert_false(kind_from_name("", &kind));
    assert_string_equal(pawl_role_name(PAWL_ROLE_DATA_POSITION), "data_position");
    assert_string_equal(pawl_version(), PAWL_VERSION);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_returns_the_status_and_clears_the_earlier_story),
        cmocka_unit_test(test_text_has_a_line_for_each_part),
        cmocka_unit_test(test_range_of_one_byte_is_one_byte),
        cmocka_unit_test(test_range_beyond_all_bytes_ends_at_the_last),
        cmocka_unit_test(test_a_part_is_one_line_whatever_it_holds),
        cmocka_unit_test(test_text_shows_control_characters_instead_of_sending_them),
        cmocka_unit_test(test_wrap_prepends_each_level),
        cmocka_unit_test(test_wrap_keeps_the_errno_and_every_other_part),
        cmocka_unit_test(test_wrap_beyond_the_room_is_cut_at_the_end),
        cmocka_unit_test(test_wrap_that_just_fits_is_not_cut),
        cmocka_unit_test(test_wrap_by_a_text_without_end_is_cut),
        cmocka_unit_test(test_part_may_be_made_from_itself),
        cmocka_unit_test(test_every_part_is_cut_at_a_character_and_ends_in_dots),
        cmocka_unit_test(test_part_that_just_fits_is_whole),
        cmocka_unit_test(test_cut_of_bytes_that_are_no_text_ends),
        cmocka_unit_test(test_errno_chooses_the_category),
        cmocka_unit_test(test_system_part_names_the_errno),
        cmocka_unit_test(test_system_part_is_what_the_c_library_says),
        cmocka_unit_test(test_out_of_memory_is_told_without_memory),
        cmocka_unit_test(test_json_has_every_part),
        cmocka_unit_test(test_json_leaves_out_what_does_not_apply),
        cmocka_unit_test(test_json_parses_whatever_the_parts_hold),
        cmocka_unit_test(test_text_has_every_part_whatever_they_hold),
        cmocka_unit_test(test_statuses_have_words),
        cmocka_unit_test(test_numbers_that_are_no_status_role_or_kind_have_a_word),
        cmocka_unit_test(test_roles_and_kinds_are_found_by_their_names),
    };
    return cmocka_run_group_tests_name("base error", tests, NULL, NULL);
}
