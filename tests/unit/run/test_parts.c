/* SPDX-License-Identifier: Apache-2.0 */
/* Saves to object stores that take uploads in parts of a least size, and so many of them. */
#include "lib/random.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "checkpoint/checkpoint.h"
#include "run/private.h"

#include <stdio.h>

#define MIB     ((size_t)1 << 20)
#define TENSORS 5

static const size_t sizes[TENSORS] = {2 * MIB, 2 * MIB + 5, 2 * MIB, 2 * MIB, 8 * MIB + 1};

typedef struct fixture {
    store *objects;
    pawl_run *run;
    pawl_state *state;
    uint8_t *bytes[TENSORS];
} fixture;

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = mem_calloc(1, sizeof *f);
    test_random random = {.state = 1};
    assert_ok(state_new(&f->state, &err), &err);
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        const int64_t shape[] = {(int64_t)sizes[i]};
        snprintf(name, sizeof name, "t%d", i);
        f->bytes[i] = mem_alloc(sizes[i]);
        random_fill(&random, f->bytes[i], sizes[i]);
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = name,
                                    .dtype = PAWL_U8,
                                    .ndim = 1,
                                    .shape = shape,
                                    .data = f->bytes[i]};
        assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    }
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *state;
    if (f->run != NULL) {
        assert_ok(run_close(f->run, 0, &err), &err);
    }
    store_destroy(f->objects);
    state_free(f->state);
    for (int i = 0; i < TENSORS; i++) {
        mem_free(f->bytes[i]);
    }
    mem_free(f);
    return 0;
}

static pawl_status open_run(fixture *f, size_t part_bytes_min, uint32_t parts_max,
                            pawl_error *err) {
    const store_objects_options limits = {.part_bytes_min = (uint32_t)part_bytes_min,
                                          .parts_max = parts_max};
    const pawl_run_options options = {.struct_size = sizeof options, .budget_bytes = 8 * MIB};
    store *seen;
    TRY(store_objects(platform_system(), &limits, &f->objects, err));
    TRY(store_trace_wrap(f->objects, platform_system(), NULL, NULL, &seen, err));
    return run_open(seen, &options, platform_system(), &f->run, err);
}

static pawl_status save(fixture *f, pawl_error *err) {
    const pawl_save_options plain = {.struct_size = sizeof plain};
    TRY(run_save(f->run, f->state, 1, &plain, err));
    return run_wait(f->run, 0, NULL, err);
}

static size_t data_files(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names, directory[32], tag[FORMAT_TAG_CHARS];
    size_t count, found = 0;
    name_step(directory, 1);
    assert_ok(store_names(f->objects, directory, 100, &memory, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        found += name_classify(names[i], tag) == NAME_KIND_DATA;
    }
    return found;
}

/* The store refuses an upload whose parts are too small, or too many. */
static void test_what_was_uploaded_in_parts_is_restored(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(open_run(f, 3 * MIB, 7, &err), &err);
    assert_ok(save(f, &err), &err);
    for (int i = 0; i < TENSORS; i++) {
        test_random other = {.state = 2};
        random_fill(&other, f->bytes[i], sizes[i]);
    }
    assert_ok(run_restore(f->run, f->state, NULL, NULL, &err), &err);
    test_random random = {.state = 1};
    for (int i = 0; i < TENSORS; i++) {
        AUTOFREE uint8_t *saved = mem_alloc(sizes[i]);
        random_fill(&random, saved, sizes[i]);
        assert_memory_equal(f->bytes[i], saved, sizes[i]);
    }
}

/* So that no file has more of them than the storage takes, the next tensor goes to another. */
static void test_a_file_ends_before_it_has_too_many_parts(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(open_run(f, 3 * MIB, 7, &err), &err);
    assert_ok(save(f, &err), &err);
    assert_int_equal(data_files(f), 3);
}

static void test_a_tensor_of_too_many_parts_is_refused(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(open_run(f, 3 * MIB, 2, &err), &err);
    assert_fails(save(f, &err), PAWL_ELIMIT, &err);
    assert_says(error_text(&err), "would take 3 parts");
    assert_says(err.next, "as several boxes");
}

static void test_a_budget_of_less_than_two_parts_is_refused(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(open_run(f, 5 * MIB, 10000, &err), PAWL_EUSAGE, &err);
    assert_says(error_text(&err), "parts of at least 5.24 MB");
    assert_says(err.expected, "at least 10485760");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_uploaded_in_parts_is_restored, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_ends_before_it_has_too_many_parts, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_tensor_of_too_many_parts_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_budget_of_less_than_two_parts_is_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
