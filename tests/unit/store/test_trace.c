/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapper that tells of every operation. */
#include "fixtures.h"

#include "lib/simulated_platform.h"

#include <errno.h>

#define MOST_EVENTS 64

typedef struct fixture {
    simulated_platform os;
    store *mem, *fault, *s;
    size_t count;
    char lines[MOST_EVENTS][128];
    double seconds;
} fixture;

static void note(void *context, const store_trace_event *event) {
    fixture *f = context;
    assert_true(f->count < MOST_EVENTS);
    (void)snprintf(f->lines[f->count++], sizeof(f->lines[0]), "%s %s%s%s %llu+%llu %s",
                   store_op_name(event->op), event->path, event->to != NULL ? ">" : "",
                   event->to != NULL ? event->to : "", (unsigned long long)event->at,
                   (unsigned long long)event->bytes, pawl_status_name(event->status));
    f->seconds = event->seconds;
}

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    pawl_error err = ERROR_INIT;
    simulated_platform_init(&f->os, 1);
    assert_ok(store_mem(&f->mem, &err), &err);
    assert_ok(store_fault_wrap(f->mem, &f->os.table, &f->fault, &err), &err);
    assert_ok(store_trace_wrap(f->fault, &f->os.table, note, f, &f->s, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    store_destroy(f->s);
    store_destroy(f->fault);
    store_destroy(f->mem);
    mem_free(f);
    return 0;
}

static void assert_lines(const fixture *f, const char *const *wanted, size_t count) {
    for (size_t i = 0; i < f->count && i < count; i++) {
        assert_string_equal(f->lines[i], wanted[i]);
    }
    assert_int_equal(f->count, count);
}

/* The operations of publishing are told in their order, the durable one. */
static void test_publishing_is_seen_step_by_step(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(f->s, "d", &err), &err);
    assert_ok(publish(f->s, "d/m", "bytes", 5, &err), &err);
    static const char *const wanted[] = {"make_dir d 0+0 ok",         "open d/m.tmp 0+0 ok",
                                         "write d/m.tmp 0+5 ok",      "sync d/m.tmp 0+0 ok",
                                         "rename d/m.tmp>d/m 0+0 ok", "sync_dir d 0+0 ok"};
    assert_lines(f, wanted, ARRAY_LENGTH(wanted));
}

/* Every other kind of operation is told, too, under its name. */
static void test_every_kind_is_seen(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    operation_stage stage;
    operation_stage_set(&stage, f->s);
    for (store_op op = STORE_OP_OPEN; op < STORE_OP_ANY; op++) {
        f->count = 0;
        assert_ok(operation_do(&stage, op, &err), &err);
        assert_int_equal(f->count, 1);
        const char *name = store_op_name(op);
        assert_memory_equal(f->lines[0], name, strlen(name));
    }
    operation_stage_clear(&stage);
}

/* A failure is told with its status, a short read with what it moved. */
static void test_failures_and_short_reads_are_seen(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    char bytes[8];
    put_text(f->mem, "a", "01234567");
    assert_fails(store_open(f->s, "b", STORE_READ, &file, &err), PAWL_ENOTFOUND, &err);
    assert_ok(store_open(f->s, "a", STORE_READ, &file, &err), &err);
    store_fault_set(f->fault, &(store_fault){.op = STORE_OP_READ, .nth = 1, .shorten = true});
    assert_ok(store_read(file, 0, bytes, 8, &err), &err);
    store_close(file);
    static const char *const wanted[] = {"open b 0+0 not found", "open a 0+0 ok", "read a 0+4 ok",
                                         "read a 4+4 ok"};
    assert_lines(f, wanted, ARRAY_LENGTH(wanted));
}

/* How long it took is told by the given clock. */
static void test_durations_are_the_clocks(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_fault_set(f->fault, &(store_fault){.op = STORE_OP_LIST, .nth = 1, .delay_ns = 250000000});
    assert_ok(store_list(f->s, "", ignore_name, NULL, &err), &err);
    assert_true(f->seconds > 0.2499 && f->seconds < 0.2501);
}

/* Without a callback it only passes on. */
static void test_without_a_callback_it_passes_on(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *quiet = NULL;
    assert_ok(store_trace_wrap(f->mem, &f->os.table, NULL, NULL, &quiet, &err), &err);
    put_text(quiet, "a", "text");
    store_destroy(quiet);
    assert_text(f->mem, "a", "text");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_publishing_is_seen_step_by_step),   TEST(test_every_kind_is_seen),
        TEST(test_failures_and_short_reads_are_seen), TEST(test_durations_are_the_clocks),
        TEST(test_without_a_callback_it_passes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
