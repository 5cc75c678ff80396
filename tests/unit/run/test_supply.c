/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring into memory that the caller gives when it is asked for it: `supply` of the options. */
#include "lib/training.h"

#include "lib/failing_memory.h"

/* What is asked of the caller, and what it answers. */
typedef struct supplier {
    char asked[1024]; /* "300 optimizer/m, ..." */
    int answer;
    const char *declines; /* a name; NULL: none */
    void *data;           /* NULL: the training's slot, bias, kernel or `more`, by name */
    const char *name;     /* NULL: as it was asked for; likewise: */
    pawl_dtype dtype;
    const int64_t *shape;
    const pawl_box *boxes;
    size_t nboxes;
    training *of;
    float more[4];
} supplier;

static void *memory_of(supplier *s, const char *name) {
    training *f = s->of;
    const char *last = strrchr(name, '/');
    if (s->data != NULL) {
        return s->data;
    }
    return strcmp(last, "/m") == 0        ? (void *)f->slot
           : strcmp(last, "/bias") == 0   ? (void *)f->bias
           : strcmp(last, "/kernel") == 0 ? (void *)f->kernel
                                          : (void *)s->more;
}

static int supply(void *context, int64_t step, const pawl_entry_info *entry, pawl_tensor *tensor) {
    supplier *s = context;
    size_t at = strlen(s->asked);
    (void)snprintf(s->asked + at, sizeof(s->asked) - at, "%lld %s%s%s, ", (long long)step,
                   entry->name, entry->slot_of != NULL ? " of " : "",
                   entry->slot_of != NULL ? entry->slot_of : "");
    assert_true(PAWL_HAS(entry, type));
    assert_int_equal(tensor->struct_size, sizeof(*tensor));
    assert_null(tensor->data);
    assert_int_equal(tensor->dtype, entry->dtype);
    if (s->declines != NULL && strcmp(s->declines, entry->name) == 0) {
        return 0;
    }
    tensor->name = s->name != NULL ? s->name : tensor->name;
    tensor->dtype = s->dtype != 0 ? s->dtype : tensor->dtype;
    tensor->shape = s->shape != NULL ? s->shape : tensor->shape;
    tensor->nboxes = s->nboxes;
    tensor->boxes = s->boxes;
    tensor->box_size = sizeof(pawl_box);
    tensor->data = s->nboxes > 0 ? NULL : memory_of(s, entry->name);
    return s->answer;
}

static supplier supplier_of(training *f) {
    return (supplier){.of = f, .answer = 1};
}

static pawl_restore_options asking(supplier *s) {
    return (pawl_restore_options){
        .struct_size = sizeof(pawl_restore_options), .supply = supply, .supply_context = s};
}

static void lack(training *f, const char *name) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(state_remove(f->state, name, &err), &err);
}

static void spoil(training *f) {
    training_fill(f, 7);
}

/* The tensors hold what was saved at `step`. */
static void assert_tensors(training *f, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    AUTOFREE training *wanted = mem_alloc(sizeof(*wanted));
    *wanted = *f;
    assert_ok(state_new(&wanted->state, &err), &err);
    training_fill(wanted, step);
    assert_memory_equal(f->kernel, wanted->kernel, sizeof(f->kernel));
    assert_memory_equal(f->bias, wanted->bias, sizeof(f->bias));
    assert_memory_equal(f->slot, wanted->slot, sizeof(f->slot));
    state_free(wanted->state);
}

/* ---- what is asked for ---- */

static void test_what_the_state_lacks_is_asked_for_and_restored(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    const pawl_restore_options options = asking(&s);
    pawl_report *report;
    lack(f, "optimizer/m");
    lack(f, "model/dense/bias");
    spoil(f);
    assert_ok(run_restore(f->run, f->state, &options, &report, &err), &err);
    assert_string_equal(s.asked, "300 model/dense/bias, 300 optimizer/m of model/dense/kernel, ");
    assert_tensors(f, 300);
    assert_int_equal(report_totals(report).restored, 9);
    assert_int_equal(state_count(f->state), 9);
    const state_entry *slot = state_find(f->state, "optimizer/m");
    assert_string_equal(slot->slot, "adam/m");
    assert_string_equal(slot->slot_of, "model/dense/kernel");
    pawl_report_free(report);
}

static void test_a_state_without_tensors_gets_all_of_them(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    pawl_restore_options options = asking(&s);
    options.model_only = 1; /* and no others are asked for */
    lack(f, "optimizer/m");
    lack(f, "model/dense/bias");
    lack(f, "model/dense/kernel");
    spoil(f);
    assert_ok(training_open(f, 200, &err), &err);
    assert_ok(checkpoint_restore(f->checkpoint, f->state, &options, 0, 1, NULL, &err), &err);
    assert_string_equal(s.asked, "200 model/dense/bias, 200 model/dense/kernel, ");
    training_fill(f, 7);
    memset(f->kernel, 0, sizeof(f->kernel));
    memset(f->bias, 0, sizeof(f->bias));
    options.model_only = 0;
    assert_ok(checkpoint_restore(f->checkpoint, f->state, &options, 0, 1, NULL, &err), &err);
    assert_tensors(f, 200);
}

static void test_nothing_is_asked_for_that_the_state_has(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    const pawl_restore_options options = asking(&s);
    assert_ok(run_restore(f->run, f->state, &options, NULL, &err), &err);
    assert_string_equal(s.asked, "");
}

static void test_what_is_declined_is_unexpected(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    pawl_restore_options options = asking(&s);
    pawl_report *report;
    s.declines = "optimizer/m";
    lack(f, "optimizer/m");
    lack(f, "model/dense/bias");
    assert_fails(run_restore(f->run, f->state, &options, &report, &err), PAWL_EMISMATCH, &err);
    assert_int_equal(pawl_report_count(report), 1);
    assert_string_equal(pawl_report_get(report, 0)->name, "optimizer/m");
    pawl_report_free(report);
    /* What was supplied is no longer in the state. */
    assert_int_equal(state_count(f->state), 7);
    options.unexpected = PAWL_POLICY_ALLOW;
    assert_ok(run_restore(f->run, f->state, &options, NULL, &err), &err);
    assert_int_equal(state_count(f->state), 8);
}

static void test_names_are_those_after_renaming(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    pawl_restore_options options = asking(&s);
    static const pawl_rename rules[] = {{"model/dense", "net/first"}, {"optimizer/m", "adam/m"}};
    options.renames = rules;
    options.rename_count = 2;
    lack(f, "optimizer/m");
    lack(f, "model/dense/bias");
    lack(f, "model/dense/kernel");
    spoil(f);
    assert_ok(run_restore(f->run, f->state, &options, NULL, &err), &err);
    assert_string_equal(
        s.asked, "300 net/first/bias, 300 net/first/kernel, 300 adam/m of net/first/kernel, ");
    assert_tensors(f, 300);
}

static void test_boxes_may_be_given(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    const pawl_restore_options options = asking(&s);
    static const int64_t offset[] = {8};
    static const int64_t extent[] = {4};
    float part[4];
    const pawl_box some = {.offset = offset, .extent = extent, .data = part};
    s.boxes = &some;
    s.nboxes = 1;
    lack(f, "model/dense/bias");
    assert_ok(run_restore(f->run, f->state, &options, NULL, &err), &err);
    training_fill(f, 300);
    assert_memory_equal(part, &f->bias[8], sizeof(part));
}

/* ---- older steps ---- */

static void flip(training *f, int64_t step, const char *name) {
    char path[256];
    training_path(f, step, NAME_KIND_DATA, path);
    training_flip(f, path, training_offset_of(f, step, name) + 20000);
}

static void test_a_fallback_asks_anew(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    const pawl_restore_options options = asking(&s);
    pawl_report *report;
    flip(f, 300, "model/dense/kernel");
    lack(f, "optimizer/m");
    spoil(f);
    assert_ok(run_restore(f->run, f->state, &options, &report, &err), &err);
    assert_string_equal(s.asked, "300 optimizer/m of model/dense/kernel, "
                                 "200 optimizer/m of model/dense/kernel, ");
    assert_tensors(f, 200);
    assert_int_equal(state_count(f->state), 9);
    assert_int_equal(pawl_report_step(report), 200);
    pawl_report_free(report);
}

/* Bytes of the damaged step are in memory that the state no longer has: nothing is mixed. */
static void test_what_only_the_damaged_step_has_leaves_the_state(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    const pawl_restore_options options = asking(&s);
    static const int64_t shape[] = {4};
    training_add(f, "model/more", 1, shape, s.more, NULL);
    training_save(f, 400);
    flip(f, 400, "model/dense/kernel");
    lack(f, "model/more");
    spoil(f);
    assert_ok(run_restore(f->run, f->state, &options, NULL, &err), &err);
    assert_string_equal(s.asked, "400 model/more, ");
    assert_null(state_find(f->state, "model/more"));
    assert_int_equal(f->run->restored_step, 300);
    assert_tensors(f, 300);
}

static void test_after_damage_the_state_has_nothing_that_was_supplied(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    pawl_restore_options options = asking(&s);
    options.no_fallback = 1;
    flip(f, 300, "optimizer/m");
    lack(f, "optimizer/m");
    assert_fails(run_restore(f->run, f->state, &options, NULL, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.entry, "optimizer/m");
    assert_null(state_find(f->state, "optimizer/m"));
    assert_int_equal(state_count(f->state), 8);
}

/* ---- refusals ---- */

static void assert_refused(training *f, supplier *s, const char *text) {
    struct pawl_error err = ERROR_INIT;
    const pawl_restore_options options = asking(s);
    lack(f, "model/dense/bias");
    spoil(f);
    assert_fails(run_restore(f->run, f->state, &options, NULL, &err), PAWL_EUSAGE, &err);
    assert_string_equal(error_text(&err), text);
    assert_int_equal(state_count(f->state), 8);
    static const int64_t vector[] = {TRAINING_COLUMNS};
    training_add(f, "model/dense/bias", 1, vector, f->bias, NULL);
}

static void test_another_tensor_is_refused(void **state) {
    training *f = *state;
    supplier s = supplier_of(f);
    static const int64_t shape[] = {64};
#define REFUSED(expected, found)                                                                   \
    "restoring: `supply` gave another tensor than it was asked for\n"                              \
    "  entry:    model/dense/bias\n"                                                               \
    "  expected: " expected "\n"                                                                   \
    "  found:    " found "\n"                                                                      \
    "  next:     set data, or boxes, and leave name, dtype, ndim and shape as they are; to cast, " \
    "add the tensor to the state before the restore"
    s.dtype = PAWL_F64;
    assert_refused(f, &s, REFUSED("[128] F32", "[128] F64"));
    s = supplier_of(f);
    s.shape = shape;
    assert_refused(f, &s, REFUSED("[128] F32", "[64] F32"));
    s = supplier_of(f);
    s.name = "model/bias";
    assert_refused(f, &s, REFUSED("[128] F32", "another name"));
}

static void test_what_a_state_refuses_is_refused(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    const pawl_restore_options options = asking(&s);
    s.boxes = NULL;
    s.nboxes = 1;
    lack(f, "model/dense/bias");
    assert_fails(run_restore(f->run, f->state, &options, NULL, &err), PAWL_EUSAGE, &err);
    assert_says(err.attempt, "restoring: what `supply` gave: ");
    assert_string_equal(err.entry, "model/dense/bias");
    assert_int_equal(state_count(f->state), 8);
}

static void test_the_caller_may_give_up(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    const pawl_restore_options options = asking(&s);
    s.answer = -1;
    lack(f, "model/dense/bias");
    lack(f, "optimizer/m");
    memset(f->kernel, 0x11, sizeof(f->kernel));
    assert_fails(run_restore(f->run, f->state, &options, NULL, &err), PAWL_ECANCELED, &err);
    assert_string_equal(error_text(&err),
                        "restoring: the restore was given up by its callback `supply`\n"
                        "  entry:    model/dense/bias\n"
                        "  expected: 1, it has given memory, or 0, it has not\n"
                        "  found:    it returned -1\n"
                        "  safe:     nothing was read into the state");
    assert_string_equal(s.asked, "300 model/dense/bias, ");
    float untouched;
    memset(&untouched, 0x11, sizeof(untouched));
    assert_true(f->kernel[0][0] == untouched);
}

static void test_wrong_options_are_found_before_anything_is_asked(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    supplier s = supplier_of(f);
    pawl_restore_options options = asking(&s);
    static const pawl_rename rule = {.to = "x"};
    options.renames = &rule;
    options.rename_count = 1;
    lack(f, "model/dense/bias");
    assert_fails(run_restore(f->run, f->state, &options, NULL, &err), PAWL_EUSAGE, &err);
    assert_string_equal(s.asked, "");
}

/* ---- without memory ---- */

static pawl_status restore_with_failing_memory(void *context, pawl_error *err) {
    training *f = context;
    supplier s = supplier_of(f);
    const pawl_restore_options options = asking(&s);
    struct pawl_error ignored = ERROR_INIT;
    pawl_status status = run_restore(f->run, f->state, &options, NULL, err);
    if (status == PAWL_OK) {
        assert_ok(state_remove(f->state, "optimizer/m", &ignored), &ignored);
        assert_ok(state_remove(f->state, "model/dense/bias", &ignored), &ignored);
    }
    assert_int_equal(state_count(f->state), 7);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_close_run(f);
    f->no_event_file = 1;
    training_open_run(f);
    f->os.identity_fails = true; /* no reader's mark, which would do without memory */
    lack(f, "model/dense/bias");
    lack(f, "optimizer/m");
    assert_ok(restore_with_failing_memory(f, &err), &err);
    assert_true(failing_memory_each(restore_with_failing_memory, f) > 50);
    assert_tensors(f, 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define STEPS(test) cmocka_unit_test_setup_teardown(test, training_set_up_steps, training_tear_down)
        STEPS(test_what_the_state_lacks_is_asked_for_and_restored),
        STEPS(test_a_state_without_tensors_gets_all_of_them),
        STEPS(test_nothing_is_asked_for_that_the_state_has),
        STEPS(test_what_is_declined_is_unexpected),
        STEPS(test_names_are_those_after_renaming),
        STEPS(test_boxes_may_be_given),
        STEPS(test_a_fallback_asks_anew),
        STEPS(test_what_only_the_damaged_step_has_leaves_the_state),
        STEPS(test_after_damage_the_state_has_nothing_that_was_supplied),
        STEPS(test_another_tensor_is_refused),
        STEPS(test_what_a_state_refuses_is_refused),
        STEPS(test_the_caller_may_give_up),
        STEPS(test_wrong_options_are_found_before_anything_is_asked),
        STEPS(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
