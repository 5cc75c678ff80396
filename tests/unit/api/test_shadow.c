/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of tensors that are still being made when a save begins. */
#include "unit/store/fixtures.h"

#include <pawl/pawl.h>

#include <stdatomic.h>
#include <string.h>

#define COUNT     ((size_t)3 << 20) /* three chunks of 4 MiB */
#define NOT_YET   0
#define THERE     1
#define LOST      (-1)
#define ASK_TWICE 2 /* pawl has asked, in vain, before the copies are made */

typedef struct fixture {
    directory dir;
    pawl_error *err;
    pawl_run *run;
    pawl_state *state;
    pawl_shadow shadow;
    pawl_memory memory;
    uint32_t *copied;
    atomic_int said, asked, asked_since;
} fixture;

static int ready(void *context) {
    fixture *f = context;
    int said = atomic_load(&f->said);
    atomic_fetch_add(&f->asked, 1);
    atomic_fetch_add(&f->asked_since, said == THERE);
    return said;
}

static void add_copy(fixture *f) {
    const int64_t shape[] = {(int64_t)COUNT};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "model/kernel",
                                .dtype = PAWL_U32,
                                .ndim = 1,
                                .shape = shape,
                                .data = f->copied,
                                .memory = &f->memory};
    f->shadow = (pawl_shadow){
        .struct_size = sizeof f->shadow, .name = "GPU 0", .ready = ready, .context = f};
    f->memory.struct_size = sizeof f->memory;
    assert_ok(pawl_shadow_memory(&f->shadow, &f->memory, f->err), f->err);
    assert_ok(pawl_state_new(&f->state, f->err), f->err);
    assert_ok(pawl_state_add_tensor(f->state, &tensor, f->err), f->err);
}

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    char path[128];
    const pawl_run_options options = {
        .struct_size = sizeof options, .deadline_s = 30, .hang_deadline_s = 1};
    directory_make(&f->dir);
    (void)snprintf(path, sizeof(path), "%s/run", f->dir.path);
    f->err = pawl_error_new();
    f->copied = mem_calloc(COUNT, sizeof(*f->copied));
    assert_ok(pawl_run_open(path, &options, &f->run, f->err), f->err);
    add_copy(f);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    assert_ok(pawl_run_close(f->run, 0, f->err), f->err);
    pawl_state_free(f->state);
    pawl_error_free(f->err);
    directory_remove(&f->dir);
    mem_free(f->copied);
    mem_free(f);
    return 0;
}

static void begin_save(fixture *f, int64_t step) {
    assert_ok(pawl_fence(f->run, 0, f->err), f->err);
    atomic_store(&f->said, NOT_YET);
    atomic_store(&f->asked, 0);
    atomic_store(&f->asked_since, 0);
    f->shadow.complete = 0;
    memset(f->copied, 0xaa, COUNT * sizeof(*f->copied)); /* of no step */
    assert_ok(pawl_save(f->run, f->state, step, NULL, f->err), f->err);
}

static void wait_until_asked(fixture *f) {
    const struct timespec moment = {.tv_nsec = 1000000};
    do {
        nanosleep(&moment, NULL);
    } while (atomic_load(&f->asked) < ASK_TWICE);
}

static void make_copies(fixture *f, int64_t step) {
    for (size_t i = 0; i < COUNT; i++) {
        f->copied[i] = (uint32_t)(i * 7 + (size_t)step);
    }
    atomic_store(&f->said, THERE);
}

static void assert_saved(fixture *f, int64_t step) {
    static uint32_t found[COUNT];
    char path[128];
    pawl_checkpoint *checkpoint = NULL;
    const int64_t origin[] = {0};
    const int64_t extent[] = {(int64_t)COUNT};
    const pawl_open_options options = {.struct_size = sizeof options, .step = &step};
    (void)snprintf(path, sizeof(path), "%s/run", f->dir.path);
    assert_ok(pawl_checkpoint_open(path, &options, &checkpoint, f->err), f->err);
    assert_ok(pawl_checkpoint_read(checkpoint, "model/kernel", origin, extent, found, sizeof found,
                                   f->err),
              f->err);
    for (size_t i = 0; i < COUNT; i++) {
        if (found[i] != (uint32_t)(i * 7 + (size_t)step)) {
            fail_msg("element %zu is %u", i, found[i]);
        }
    }
    pawl_checkpoint_close(checkpoint);
}

static void test_a_save_waits_for_copies_that_are_still_being_made(void **state) {
    fixture *f = *state;
    for (int64_t step = 1; step <= 3; step++) {
        begin_save(f, step);
        wait_until_asked(f);
        make_copies(f, step);
        assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
        assert_int_equal(atomic_load(&f->asked_since), 1); /* for all three chunks */
        assert_saved(f, step);
    }
}

static void test_a_fence_waits_for_them_too(void **state) {
    fixture *f = *state;
    begin_save(f, 1);
    wait_until_asked(f);
    assert_fails(pawl_fence(f->run, 0.05, f->err), PAWL_ETIMEOUT, f->err);
    assert_int_equal(pawl_fenced(f->run), 0);
    make_copies(f, 1);
    assert_ok(pawl_fence(f->run, 0, f->err), f->err);
    memset(f->copied, 0x55, COUNT * sizeof(*f->copied));
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    assert_saved(f, 1);
}

static void test_copies_that_fail_fail_the_save(void **state) {
    fixture *f = *state;
    begin_save(f, 1);
    wait_until_asked(f);
    atomic_store(&f->said, LOST);
    assert_fails(pawl_wait(f->run, 0, NULL, f->err), PAWL_EIO, f->err);
    assert_non_null(strstr(pawl_error_text(f->err), "could not be copied to host memory"));
    assert_non_null(strstr(pawl_error_text(f->err), "model/kernel"));
    assert_non_null(strstr(pawl_error_text(f->err), "GPU 0"));
    begin_save(f, 2); /* and the next one goes well */
    make_copies(f, 2);
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    assert_saved(f, 2);
}

static void test_copies_that_never_come_are_a_device_that_hangs(void **state) {
    fixture *f = *state;
    begin_save(f, 1);
    assert_fails(pawl_wait(f->run, 0, NULL, f->err), PAWL_EIO, f->err);
    assert_non_null(strstr(pawl_error_text(f->err), "the memory \"GPU 0\" hangs"));
    make_copies(f, 2);
    pawl_status status = PAWL_EIO;
    while (status == PAWL_EIO) { /* the copies of step 1 may still be under way */
        wait_until_asked(f);
        status = pawl_save(f->run, f->state, 2, NULL, f->err);
    }
    assert_ok(status, f->err);
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    assert_saved(f, 2);
}

static void test_what_is_missing_is_named(void **state) {
    fixture *f = *state;
    pawl_memory filled = {.struct_size = sizeof filled};
    pawl_shadow shadow = f->shadow;
    assert_fails(pawl_shadow_memory(NULL, &filled, f->err), PAWL_EUSAGE, f->err);
    assert_fails(pawl_shadow_memory(&shadow, NULL, f->err), PAWL_EUSAGE, f->err);
    shadow.ready = NULL;
    assert_fails(pawl_shadow_memory(&shadow, &filled, f->err), PAWL_EUSAGE, f->err);
    assert_non_null(strstr(pawl_error_text(f->err), "shadow->ready"));
    shadow = f->shadow;
    shadow.name = NULL;
    assert_fails(pawl_shadow_memory(&shadow, &filled, f->err), PAWL_EUSAGE, f->err);
    shadow.name = "";
    assert_fails(pawl_shadow_memory(&shadow, &filled, f->err), PAWL_EUSAGE, f->err);
    shadow = f->shadow;
    shadow.struct_size = 0;
    assert_fails(pawl_shadow_memory(&shadow, &filled, f->err), PAWL_EUSAGE, f->err);
    shadow.struct_size = offsetof(pawl_shadow, complete);
    assert_fails(pawl_shadow_memory(&shadow, &filled, f->err), PAWL_EUSAGE, f->err);
    filled.struct_size = 0;
    assert_fails(pawl_shadow_memory(&f->shadow, &filled, f->err), PAWL_EUSAGE, f->err);
    assert_null(filled.start_out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_save_waits_for_copies_that_are_still_being_made,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_fence_waits_for_them_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_copies_that_fail_fail_the_save, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_copies_that_never_come_are_a_device_that_hangs, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_missing_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
