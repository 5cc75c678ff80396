/* SPDX-License-Identifier: Apache-2.0 */
/* The list of mounts, line by line, and the options of a mount. */
#include "unit/store/fixtures.h"

#include "store/mount_table.h"

#include <fcntl.h>

static bool parse(char line[256], const char *text, mount_line *out) {
    (void)snprintf(line, 256, "%s", text);
    return mount_line_parse(line, out);
}

/* The fields before the dash vary in number; blanks in names are written in octal. */
static void test_a_line_is_taken_apart(void **state) {
    (void)state;
    char line[256];
    mount_line m;
    assert_true(parse(line,
                      "36 35 98:0 /a\\040b /mnt/c\\134d rw,noatime master:1 shared:2 - ext3 "
                      "/dev/root rw,errors=continue\n",
                      &m));
    assert_int_equal(m.id, 36);
    assert_string_equal(m.device, "98:0");
    assert_string_equal(m.root, "/a b");
    assert_string_equal(m.point, "/mnt/c\\d");
    assert_string_equal(m.options, "rw,noatime");
    assert_string_equal(m.filesystem, "ext3");
    assert_string_equal(m.super_options, "rw,errors=continue");
    assert_true(parse(line, "1 1 0:1 / / rw - rootfs none rw", &m));
    assert_string_equal(m.point, "/");
}

/* No name has a NUL, and no byte is larger than 377: what looks like one is the name's own. */
static void test_only_bytes_of_names_are_written_in_octal(void **state) {
    (void)state;
    char line[256];
    mount_line m;
    assert_true(parse(line, "1 1 0:1 /\\000 \\000a\\400 rw - rootfs \\377\\08 rw", &m));
    assert_string_equal(m.root, "/\\000");
    assert_string_equal(m.point, "\\000a\\400");
    assert_string_equal(m.source, "\377\\08");
}

/* A line that ends too early, or never began, is none. */
static void test_other_lines_are_refused(void **state) {
    (void)state;
    static const char *const lines[] = {"",
                                        "\n",
                                        "-",
                                        "36 35 98:0 /a /b rw",
                                        "36 35 98:0 /a /b rw - ext3 /dev/root",
                                        "36 35 98:0 / - ext3 /dev/root rw",
                                        "- - - - - - - - - -"};
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        char line[256];
        mount_line m;
        assert_false(parse(line, lines[i], &m));
    }
}

/* An option is a whole word between commas. */
static void test_options_are_whole_words(void **state) {
    (void)state;
    assert_true(mount_has_option("rw,soft,proto=tcp", "soft"));
    assert_true(mount_has_option("soft", "soft"));
    assert_true(mount_has_option("rw,cache=loose", "cache=loose"));
    assert_false(mount_has_option("rw,softer,nosoft", "soft"));
    assert_false(mount_has_option("rw,cache=loosely", "cache=loose"));
    assert_false(mount_has_option("", "soft"));
}

/* The root directory is on some mount, and that mount is found. */
static void test_the_mount_of_a_directory_is_found(void **state) {
    (void)state;
    mount_found found;
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(mount_find(fd, &found));
    assert_string_equal(found.point, "/");
    assert_true(found.filesystem[0] != '\0');
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_is_taken_apart),
        cmocka_unit_test(test_only_bytes_of_names_are_written_in_octal),
        cmocka_unit_test(test_other_lines_are_refused),
        cmocka_unit_test(test_options_are_whole_words),
        cmocka_unit_test(test_the_mount_of_a_directory_is_found),
    };
    return cmocka_run_group_tests_name("mounts", tests, NULL, NULL);
}
