/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

void test_skip_on_objects(const char *why) {
    const char *chosen = getenv("PAWL_TEST_STORE");
    if (chosen != NULL && (strcmp(chosen, "objects") == 0 || strcmp(chosen, "late") == 0)) {
        print_message("SKIP: on an object store: %s\n", why);
        skip();
    }
}

double test_now_s(void) {
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void show_unless(bool fits, pawl_error *err) {
    if (!fits) {
        print_error("status '%s': %s\n", pawl_status_name(err->status), error_text(err));
    }
}

void test_assert_status_text(pawl_error *err, pawl_status status, const char *text,
                             const char *file, int line) {
    show_unless(err->status == status, err);
    _assert_string_equal(pawl_status_name(err->status), pawl_status_name(status), file, line);
    _assert_string_equal(error_text(err), text, file, line);
}

void test_assert_status(pawl_status got, pawl_status wanted, pawl_error *err, const char *file,
                        int line) {
    show_unless(got == wanted, err);
    _assert_string_equal(pawl_status_name(got), pawl_status_name(wanted), file, line);
    if (wanted != PAWL_OK) {
        show_unless(err->status == wanted, err);
        _assert_string_equal(pawl_status_name(err->status), pawl_status_name(wanted), file, line);
    }
}

void test_assert_says(const char *part, const char *words, const char *file, int line) {
    if (strstr(part, words) == NULL) {
        print_error("'%s' does not say '%s'\n", part, words);
        _fail(file, line);
    }
}
