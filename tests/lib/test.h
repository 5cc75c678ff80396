/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers that it wants before it, and assertions on statuses and errors. */
#ifndef LIB_TEST_H
#define LIB_TEST_H

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The status, and the whole text for people. */
#define assert_status_text(err, status, text)                                                      \
    test_assert_status_text((err), (status), (text), __FILE__, __LINE__)

/* A call that must succeed; shows the error's text when it does not. `err` is what it got. */
#define assert_ok(call, err) test_assert_status((call), PAWL_OK, (err), __FILE__, __LINE__)

/* A call that must fail with this status; shows the error's text when it is another. */
#define assert_fails(call, status, err)                                                            \
    test_assert_status((call), (status), (err), __FILE__, __LINE__)

/* One part of the error contains these words. */
#define assert_says(part, words) test_assert_says((part), (words), __FILE__, __LINE__)

/* Skips the test where PAWL_TEST_STORE names an object store (store_chosen), and says why. */
void test_skip_on_objects(const char *why);

/* Of the monotonic clock. */
double test_now_s(void);

void test_assert_status_text(pawl_error *err, pawl_status status, const char *text,
                             const char *file, int line);
void test_assert_status(pawl_status got, pawl_status wanted, pawl_error *err, const char *file,
                        int line);
void test_assert_says(const char *part, const char *words, const char *file, int line);

#endif
