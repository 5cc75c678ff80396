/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of which each has a store in memory, empty, as its state. */
#ifndef LIB_IN_MEMORY_H
#define LIB_IN_MEMORY_H

#include "lib/test.h"

#include "stores/stores.h"

static inline int memory_set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    store *s;
    assert_ok(store_mem(&s, &err), &err);
    *state = s;
    return 0;
}

static inline int memory_tear_down(void **state) {
    store_destroy(*state);
    return 0;
}

#define IN_MEMORY(test) cmocka_unit_test_setup_teardown(test, memory_set_up, memory_tear_down)

#endif
