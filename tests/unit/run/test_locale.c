/* SPDX-License-Identifier: Apache-2.0 */
/* What a run writes for machines is the same in a program whose locale has a decimal comma. */
#include "lib/locale.h"
#include "lib/simulated_platform.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "run/private.h"

#include <stdio.h>
#include <string.h>

static pawl_state *state_with_a_rate(void) {
    struct pawl_error err = ERROR_INIT;
    pawl_state *made;
    const double rate = 0.001;
    assert_ok(state_new(&made, &err), &err);
    assert_ok(state_set_value(made, "learning_rate", PAWL_KIND_FLOAT64, PAWL_ROLE_HYPERPARAMETER,
                              false, &rate, sizeof rate, &err),
              &err);
    return made;
}

static void assert_contains(store *disk, const char *path, const char *words) {
    CLEANUP(buffer_free) buffer text = {0};
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_read_file(disk, path, 65536, &text, &err), &err);
    assert_says((const char *)text.data, words);
}

static void test_owner_record_and_manifest_have_points(void **state) {
    struct pawl_error err = ERROR_INIT;
    simulated_platform os;
    store *disk; /* the run's */
    pawl_run *run;
    const pawl_run_options options = {.struct_size = sizeof options, .lease_s = 30.25};
    const pawl_save_options save = {.struct_size = sizeof save};
    (void)state;
    if (!locale_begin(LOCALE_COMMA)) {
        skip();
    }
    simulated_platform_init(&os, 1);
    assert_ok(store_mem(&disk, &err), &err);
    assert_ok(run_open(disk, &options, &os.table, &run, &err), &err);
    pawl_state *saved = state_with_a_rate();
    assert_contains(disk, "owner-00000001", "\"lease_s\":30.25}");
    assert_ok(run_save(run, saved, 1, &save, &err), &err);
    assert_ok(run_wait(run, 0, NULL, &err), &err);
    assert_contains(disk, "step-00000001/" NAME_MANIFEST, "\"learning_rate\": 0.001");
    assert_ok(run_close(run, 0, &err), &err);
    state_free(saved);
    locale_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owner_record_and_manifest_have_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
