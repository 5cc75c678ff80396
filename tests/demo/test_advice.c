/* SPDX-License-Identifier: Apache-2.0 */
/* The example trainer says all of what a restore advises, and on what that depends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "advice.h"

enum { LAYERS = 20 };

static float memory[LAYERS][4];

static void works(pawl_status status, pawl_error *err) {
    if (status != PAWL_OK) {
        fail_msg("%s", pawl_error_text(err));
    }
}

/* Layers that are alike, but for their numbers, from `first` on. */
static pawl_state *layers_from(int first, pawl_error *err) {
    static const int64_t shape[] = {4};
    pawl_state *state = NULL;
    works(pawl_state_new(&state, err), err);
    for (int i = 0; i < LAYERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "dense_%d/w", first + i);
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = name,
                                    .dtype = PAWL_F32,
                                    .ndim = 1,
                                    .shape = shape,
                                    .data = memory[i],
                                    .role = PAWL_ROLE_MODEL};
        works(pawl_state_add_tensor(state, &tensor, err), err);
    }
    return state;
}

/* What is printed of a restore that allows all, of layers that were numbered anew. */
static void advise(const char *path, char *text, size_t size) {
    const pawl_run_options run_options = {.struct_size = sizeof run_options, .no_event_file = 1};
    const pawl_restore_options options = {.struct_size = sizeof options,
                                          .missing = PAWL_POLICY_ALLOW,
                                          .unexpected = PAWL_POLICY_ALLOW};
    pawl_error *err = pawl_error_new();
    pawl_run *run = NULL;
    pawl_report *report = NULL;
    works(pawl_run_open(path, &run_options, &run, err), err);
    pawl_state *saved = layers_from(1, err);
    pawl_state *wanted = layers_from(2, err);
    works(pawl_save(run, saved, 1, NULL, err), err);
    works(pawl_wait(run, 60, NULL, err), err);
    works(pawl_restore(run, wanted, &options, &report, err), err);
    FILE *to = fmemopen(text, size, "w");
    assert_non_null(to);
    assert_int_equal(advice_print(to, "> ", report, PAWL_SEVERITY_WARNING), LAYERS);
    fclose(to);
    pawl_report_free(report);
    pawl_state_free(saved);
    pawl_state_free(wanted);
    works(pawl_run_close(run, 60, err), err);
    pawl_error_free(err);
}

/* A rule for each layer, as one without the others would exchange layers. */
static void test_all_rules_of_a_warning_are_said(void **state) {
    (void)state;
    char path[] = "/tmp/charlm-advice-XXXXXX";
    char command[64];
    char text[4096] = "";
    assert_non_null(mkdtemp(path));
    advise(path, text, sizeof text);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
    const char *first = "> compare the two models, and if their entries were renumbered:\n"
                        "> pass --rename dense_";
    assert_memory_equal(text, first, strlen(first));
    assert_non_null(strstr(text, "> pass --rename dense_1=dense_2\n"));
    assert_non_null(strstr(text, "> pass --rename dense_20=dense_21\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_rules_of_a_warning_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
