/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of every store fails once: a clear failure, nothing leaked, nothing half
 * done. */
#include "fixtures.h"

#include "lib/failing_memory.h"
#include "lib/simulated_platform.h"

typedef pawl_status making(void *context, store **out, pawl_error *err);

static pawl_status make_posix(void *context, store **out, pawl_error *err) {
    return store_posix(((directory *)context)->path, out, err);
}

static pawl_status make_mem(void *context, store **out, pawl_error *err) {
    (void)context;
    return store_mem(out, err);
}

static pawl_status make_crash(void *context, store **out, pawl_error *err) {
    const store_traits traits = {.kind = "crash", .atomic_write_bytes = 512};
    (void)context;
    return store_crash(&traits, out, err);
}

static pawl_status make_fault(void *context, store **out, pawl_error *err) {
    return store_fault_wrap(context, platform_system(), out, err);
}

static void ignore_event(void *context, const store_trace_event *event) {
    (void)context;
    (void)event;
}

static pawl_status make_trace(void *context, store **out, pawl_error *err) {
    return store_trace_wrap(context, platform_system(), ignore_event, NULL, out, err);
}

static pawl_status make_retry(void *context, store **out, pawl_error *err) {
    store *inner = NULL;
    (void)context;
    TRY(store_mem(&inner, err));
    return store_retry_wrap(inner, platform_system(), 3, 1, out, err);
}

typedef struct script {
    making *make;
    void *context;
    bool persists; /* beyond the store that is made */
} script;

static pawl_status look(store *s, pawl_error *err) {
    arena memory = {NULL};
    buffer got = {0};
    char **names = NULL;
    size_t count = 0;
    pawl_status status = store_names(s, "d", 10, &memory, &names, &count, err);
    if (status == PAWL_OK) {
        status = store_read_file(s, "d/m", 100000, &got, err);
    }
    arena_free(&memory);
    buffer_free(&got);
    return status;
}

static pawl_status use(store *s, pawl_error *err) {
    static const char bytes[5000];
    pawl_status status = store_make_dir(s, "d", err);
    if (status == PAWL_OK) {
        status = publish(s, "d/m", "first", 5, err);
    }
    if (status == PAWL_OK) {
        status = publish(s, "d/m", bytes, sizeof(bytes), err);
    }
    return status == PAWL_OK ? look(s, err) : status;
}

static void whatever(pawl_status status) {
    (void)status;
}

/* Takes away what there is; how far the script came is not known. */
static void clean(store *s) {
    pawl_error ignored = ERROR_INIT;
    whatever(store_unlink(s, "d/m", &ignored));
    whatever(store_unlink(s, "d/m.tmp", &ignored));
    whatever(store_remove_dir(s, "d", &ignored));
    assert_false(is_there(s, "d"));
}

static pawl_status run_script(void *context, pawl_error *err) {
    const script *run = context;
    store *s = NULL;
    TRY(run->make(run->context, &s, err));
    pawl_status status = use(s, err);
    if (run->persists) {
        clean(s);
    }
    store_destroy(s);
    return status;
}

static void fail_each(making *make, void *context, bool persists, uint64_t least) {
    script run = {.make = make, .context = context, .persists = persists};
    uint64_t failed = failing_memory_each(run_script, &run);
    assert_true(failed >= least);
}

/* posix: a real directory. */
static void test_posix_survives_each_failed_allocation(void **state) {
    directory d;
    (void)state;
    directory_make(&d);
    fail_each(make_posix, &d, true, 5);
    directory_remove(&d);
}

/* mem. */
static void test_mem_survives_each_failed_allocation(void **state) {
    (void)state;
    fail_each(make_mem, NULL, false, 10);
}

/* crash: its books of what is pending, too. */
static void test_crash_survives_each_failed_allocation(void **state) {
    (void)state;
    fail_each(make_crash, NULL, false, 20);
}

/* The wrappers, each over mem. */
static void test_wrappers_survive_each_failed_allocation(void **state) {
    static making *const wrappers[] = {make_fault, make_trace};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(wrappers); i++) {
        pawl_error err = ERROR_INIT;
        store *mem = NULL;
        assert_ok(store_mem(&mem, &err), &err);
        put_text(mem, "d", ""); /* the root's table of names stays, once it is there */
        assert_ok(store_unlink(mem, "d", &err), &err);
        fail_each(wrappers[i], mem, true, 5);
        store_destroy(mem);
    }
    fail_each(make_retry, NULL, false, 10);
}

static pawl_status build_world(void *context, pawl_error *err) {
    static const bool all[64] = {[0 ... 63] = true};
    store *crash = context, *world = NULL;
    TRY(store_crash_world(crash, all, store_crash_pending(crash), SIZE_MAX, &world, err));
    store_destroy(world);
    return PAWL_OK;
}

/* Building a world after a power loss. */
static void test_worlds_survive_each_failed_allocation(void **state) {
    pawl_error err = ERROR_INIT;
    store *crash = NULL;
    (void)state;
    assert_ok(make_crash(NULL, &crash, &err), &err);
    assert_ok(use(crash, &err), &err);
    put_text(crash, "d/x", "pending");
    assert_true(failing_memory_each(build_world, crash) > 5);
    store_destroy(crash);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posix_survives_each_failed_allocation),
        cmocka_unit_test(test_mem_survives_each_failed_allocation),
        cmocka_unit_test(test_crash_survives_each_failed_allocation),
        cmocka_unit_test(test_wrappers_survive_each_failed_allocation),
        cmocka_unit_test(test_worlds_survive_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
