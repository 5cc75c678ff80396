/* SPDX-License-Identifier: Apache-2.0 */
/* What stays when a save, a removal, or the removal of leftovers is interrupted: by a failure, by a
 * reader, by the loss of power (S07, S09, S14; I5 to I8 of commit.c). */
#include "lib/training.h"

#include <errno.h>
#include <unistd.h>

/* ---- helpers -------------------------------------------------------------------------------- */

static void open_on(training *f, store *s, const platform *os, pawl_run_options options) {
    struct pawl_error err = ERROR_INIT;
    store *seen;
    options.struct_size = sizeof options;
    assert_ok(store_trace_wrap(s, os, NULL, NULL, &seen, &err), &err);
    assert_ok(run_open(seen, &options, os, &f->run, &err), &err);
}

static pawl_status save_as(training *f, int64_t step, bool pin, pawl_error *err) {
    const pawl_save_options options = {.struct_size = sizeof options, .pin = pin};
    TRY(run_save(f->run, f->state, step, &options, err));
    return run_wait(f->run, 0, NULL, err);
}

static void fail_at(training *f, store_op op, uint64_t nth, int system_errno) {
    const store_fault plan = {.op = op, .nth = nth, .system_errno = system_errno};
    store_fault_set(f->fault, &plan);
}

/* The next manifest is refused when it gets its name; on an object store, when it is put, after
 * `puts` others. The status that the save then ends with. */
static pawl_status refuse_manifest(training *f, uint64_t puts) {
    bool objects = f->disk->traits.objects;
    fail_at(f, objects ? STORE_OP_PUT : STORE_OP_RENAME, objects ? puts + 1 : 1,
            objects ? EACCES : EIO);
    return objects ? PAWL_EPERMISSION : PAWL_EIO;
}

static pawl_status verify(store *s, int64_t step, const platform *os, pawl_error *err) {
    pawl_checkpoint *c;
    pawl_verify_result result;
    const pawl_verify_options options = {.struct_size = sizeof options};
    TRY(checkpoint_open(s, false, step, os, NULL, &c, err));
    pawl_status status = checkpoint_verify(c, &options, &result, err);
    pawl_checkpoint_close(c);
    return status;
}

static const pawl_run_options keep_one = {
    .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = 1}};

/* ---- failures ------------------------------------------------------------------------------- */

static void test_s07_a_step_whose_replacement_fails_stays_whole(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    fail_at(f, STORE_OP_WRITE, 2, ENOSPC);
    assert_fails(save_as(f, 10, false, &err), PAWL_ENOSPACE, &err);
    assert_ok(verify(f->disk, 10, &f->os.table, &err), &err);
}

static void test_a_failed_replacement_does_not_pin(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    pawl_status refused = refuse_manifest(f, 2); /* pin, owner */
    assert_fails(save_as(f, 10, true, &err), refused, &err);
    assert_false(is_there(f->disk, "step-00000010/pinned"));
    refused = refuse_manifest(f, 3); /* pin, placeholder, owner */
    assert_fails(save_as(f, 20, true, &err), refused, &err);
    assert_false(is_there(f->disk, "step-00000020"));
    assert_ok(save_as(f, 20, true, &err), &err);
    refused = refuse_manifest(f, 2);
    assert_fails(save_as(f, 20, true, &err), refused, &err);
    assert_true(is_there(f->disk, "step-00000020/pinned"));
}

static void test_the_hint_never_names_a_step_that_was_not_committed(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer hint = {0};
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    pawl_status refused = PAWL_EIO;
    if (f->disk->traits.objects) {
        refused = refuse_manifest(f, 2); /* placeholder, owner */
    } else {
        fail_at(f, STORE_OP_SYNC, 3, EIO); /* data, index, manifest */
    }
    assert_fails(save_as(f, 20, false, &err), refused, &err);
    training_take_file(f, "latest", &hint);
    assert_int_equal(hint.size, strlen("step-00000010\n"));
    assert_memory_equal(hint.data, "step-00000010\n", hint.size);
}

static void test_saving_an_older_step_does_not_make_it_the_safe_one(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 20);
    training_save(f, 10);
    fail_at(f, STORE_OP_WRITE, 1, EIO);
    assert_fails(save_as(f, 30, false, &err), PAWL_EIO, &err);
    assert_string_equal(err.safe, "step 20 is committed and can be restored");
}

static void test_a_save_that_cannot_begin_leaves_no_directory(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    f->os.thread_start_fails = true;
    assert_true(save_as(f, 10, false, &err) != PAWL_OK);
    f->os.thread_start_fails = false;
    assert_false(is_there(f->disk, "step-00000010"));
}

static void test_retention_judges_no_damaged_step(void **state) {
    training *f = *state;
    char path[256];
    training_open_with(f, &f->os.table, keep_one);
    training_save(f, 10);
    training_path(f, 10, NAME_KIND_DATA, path);
    training_truncate(f, path, 100);
    training_save(f, 20);
    training_save(f, 30);
    assert_true(is_there(f->disk, "step-00000010/manifest.json"));
    assert_false(is_there(f->disk, "step-00000020"));
}

/* ---- readers -------------------------------------------------------------------------------- */

#define A_MOMENT_NS 1 /* no other sleep is so short */

static void read_before_the_manifest_goes(void *context, uint64_t ns) {
    training *f = context;
    struct pawl_error err = ERROR_INIT;
    if (ns != A_MOMENT_NS) {
        return;
    }
    f->os.on_sleep = NULL;
    assert_ok(checkpoint_open(f->disk, false, 10, &f->os.table, NULL, &f->checkpoint, &err), &err);
}

/* The remover has looked for readers already when this one comes. */
static void test_s14_a_reader_that_comes_while_a_step_is_removed_finds_its_files(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const store_fault plan = {.op = STORE_OP_UNLINK, .nth = 1, .delay_ns = A_MOMENT_NS};
    static float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    static float kernel_of_10[TRAINING_ROWS][TRAINING_COLUMNS];
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    memcpy(kernel_of_10, f->kernel, sizeof kernel_of_10);
    training_save(f, 20);
    f->os.on_sleep = read_before_the_manifest_goes;
    f->os.on_sleep_context = f;
    store_fault_set(f->fault, &plan);
    assert_ok(run_remove(f->run, 10, false, &err), &err);
    assert_non_null(f->checkpoint);
    assert_false(is_there(f->disk, "step-00000010/manifest.json"));
    assert_ok(checkpoint_read(f->checkpoint, "model/dense/kernel", NULL, NULL, kernel,
                              sizeof kernel, &err),
              &err);
    assert_memory_equal(kernel, kernel_of_10, sizeof kernel);
    pawl_checkpoint_close(f->checkpoint);
    f->checkpoint = NULL;
    assert_ok(run_gc(f->run, false, NULL, NULL, &err), &err);
    assert_false(is_there(f->disk, "step-00000010"));
}

static void look_for_the_mark(void *context, const store_trace_event *event) {
    training *f = context;
    struct pawl_error err = ERROR_INIT;
    bool marked = false;
    if (event->op == STORE_OP_READ && strcmp(event->path, "step-00000010/manifest.json") == 0) {
        assert_ok(reader_look(f->disk, "step-00000010", &f->os.table, 0, NULL, &marked, &err),
                  &err);
        assert_true(marked);
    }
}

static void test_s14_a_reader_marks_a_step_before_it_reads_the_manifest(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    store *traced;
    pawl_checkpoint *c;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    assert_ok(store_trace_wrap(f->disk, &f->os.table, look_for_the_mark, f, &traced, &err), &err);
    assert_ok(checkpoint_open(traced, false, 10, &f->os.table, NULL, &c, &err), &err);
    pawl_checkpoint_close(c);
    store_destroy(traced);
}

/* ---- two writers that do not know of each other --------------------------------------------- */

typedef struct renamed {
    char from[128];
} renamed;

static void note_manifest(void *context, const store_trace_event *event) {
    renamed *r = context;
    if (event->op == STORE_OP_RENAME && strstr(event->to, "/manifest.json") != NULL) {
        snprintf(r->from, sizeof r->from, "%s", event->path);
    }
}

static void test_s10_no_two_attempts_publish_by_the_same_temporary_name(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    renamed first = {""};
    renamed second = {""};
    renamed *both[] = {&first, &second};
    test_skip_on_objects("a manifest is put whole, without a temporary name");
    for (int i = 0; i < 2; i++) {
        store *traced;
        assert_ok(store_trace_wrap(f->disk, &f->os.table, note_manifest, both[i], &traced, &err),
                  &err);
        open_on(f, traced, &f->os.table, (pawl_run_options){0});
        assert_ok(save_as(f, 10, false, &err), &err);
        training_close_run(f);
        store_destroy(traced);
    }
    assert_true(first.from[0] != '\0' && second.from[0] != '\0');
    assert_string_not_equal(first.from, second.from);
}

/* ---- a save under way (real threads) -------------------------------------------------------- */

static void test_gc_and_removal_wait_for_the_save_in_flight(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    const store_fault plan = {.op = STORE_OP_WRITE, .nth = 1, .hang = true};
    const pawl_save_options options = {.struct_size = sizeof options};
    store *hanging;
    assert_ok(store_fault_wrap(f->disk, platform_system(), &hanging, &err), &err);
    open_on(f, hanging, platform_system(),
            (pawl_run_options){.deadline_s = 0.02, .hang_deadline_s = 60});
    store_fault_set(hanging, &plan);
    assert_ok(run_save(f->run, f->state, 10, &options, &err), &err);
    for (int i = 0; i < 5000 && !store_fault_fired(hanging); i++) {
        usleep(1000);
    }
    assert_fails(run_gc(f->run, false, NULL, NULL, &err), PAWL_ETIMEOUT, &err);
    assert_fails(run_remove(f->run, 10, true, &err), PAWL_ETIMEOUT, &err);
    assert_fails(run_pin(f->run, 10, true, &err), PAWL_ETIMEOUT, &err);
    if (f->disk->traits.objects) {
        assert_int_equal(store_objects_uploads(f->late), 1);
    } else {
        training_path(f, 10, NAME_KIND_DATA, path);
    }
    store_fault_release(hanging);
    assert_ok(run_wait(f->run, 10, NULL, &err), &err);
    assert_ok(verify(f->disk, 10, platform_system(), &err), &err);
    assert_ok(run_close(f->run, 10, &err), &err);
    f->run = NULL;
    store_destroy(hanging);
}

static void test_s08_removing_much_for_long_is_not_hanging(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const store_fault slow = {
        .op = STORE_OP_UNLINK, .nth = 1, .forever = true, .delay_ns = 100000000};
    pawl_run_options options = keep_one;
    options.hang_deadline_s = 0.5;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    for (int64_t step = 1; step <= 4; step++) {
        assert_ok(save_as(f, step, false, &err), &err);
    }
    training_close_run(f);
    store_destroy(f->fault); /* one that sleeps */
    assert_ok(store_fault_wrap(f->disk, platform_system(), &f->fault, &err), &err);
    open_on(f, f->fault, platform_system(), options);
    store_fault_set(f->fault, &slow);
    assert_ok(save_as(f, 10, false, &err), &err);
    assert_ok(engine_ready(f->run->engine, &err), &err);
    assert_true(store_fault_count(f->fault, STORE_OP_UNLINK) > 8);
    store_fault_set(f->fault, &(store_fault){0});
}

static void test_an_idle_owner_has_a_heartbeat(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner_sight seen = {0};
    open_on(f, f->fault, platform_system(), (pawl_run_options){.lease_s = 1});
    for (int i = 0; i < 10000 && seen.counter < 3; i++) {
        usleep(1000);
        assert_ok(owner_look(f->disk, platform_system(), &seen, &err), &err);
    }
    assert_true(seen.counter >= 3);
    assert_ok(run_close(f->run, 10, &err), &err);
    f->run = NULL;
}

/* ---- the loss of power ---------------------------------------------------------------------- */

/* The world in which those pending items whose bit is set reached the disk; NULL: there is none. */
static store *world_of(const store *crash, uint32_t bits) {
    struct pawl_error ignored = ERROR_INIT;
    bool keep[16] = {false};
    store *world;
    size_t count = store_crash_pending(crash);
    assert_true(count <= ARRAY_LENGTH(keep));
    for (size_t i = 0; i < count; i++) {
        keep[i] = (bits >> i & 1) != 0;
    }
    return store_crash_world(crash, keep, count, SIZE_MAX, &world, &ignored) == PAWL_OK ? world
                                                                                        : NULL;
}

static const store_traits any_order = {
    .kind = "crash", .atomic_rename = true, .atomic_write_bytes = 512};

/* A replacement was renamed into place, but that is not durable yet: the sweep of the files it
 * replaced must make it so first, or the old manifest comes back without its files (I5). */
static bool sweep_with_limit(training *f, uint64_t limit) {
    struct pawl_error err = ERROR_INIT;
    store *crash;
    store *fault;
    assert_ok(store_crash(&any_order, &crash, &err), &err);
    assert_ok(store_fault_wrap(crash, &f->os.table, &fault, &err), &err);
    open_on(f, fault, &f->os.table, (pawl_run_options){0});
    assert_ok(save_as(f, 10, false, &err), &err);
    const store_fault plan = {.op = STORE_OP_SYNC_DIR, .nth = 3, .system_errno = EIO};
    store_fault_set(fault, &plan);
    assert_fails(save_as(f, 10, false, &err), PAWL_EIO, &err);
    store_crash_stop_after(crash, limit);
    bool whole = run_gc(f->run, false, NULL, NULL, &err) == PAWL_OK;
    for (uint32_t bits = 0; bits < 1u << store_crash_pending(crash); bits++) {
        store *world = world_of(crash, bits);
        if (world != NULL) {
            assert_ok(verify(world, 10, &f->os.table, &err), &err);
            store_destroy(world);
        }
    }
    store_crash_stop_after(crash, UINT64_MAX);
    (void)run_close(f->run, 1, &err);
    f->run = NULL;
    store_destroy(fault);
    store_destroy(crash);
    return whole;
}

static void test_s09_a_sweep_makes_the_manifest_durable_before_it_removes(void **state) {
    training *f = *state;
    uint64_t limit = 0;
    while (!sweep_with_limit(f, limit)) {
        limit++;
    }
    assert_true(limit > 3);
}

static bool pinned_after_power_loss(const store *crash) {
    store *world = world_of(crash, 0);
    assert_non_null(world);
    bool pinned = is_there(world, "step-00000010/pinned");
    store_destroy(world);
    return pinned;
}

static void test_s09_a_pin_is_durable(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    store *crash;
    assert_ok(store_crash(&any_order, &crash, &err), &err);
    open_on(f, crash, &f->os.table, (pawl_run_options){0});
    assert_ok(save_as(f, 10, true, &err), &err);
    assert_true(pinned_after_power_loss(crash));
    assert_ok(run_pin(f->run, 10, false, &err), &err);
    assert_false(pinned_after_power_loss(crash));
    assert_ok(run_pin(f->run, 10, true, &err), &err);
    assert_true(pinned_after_power_loss(crash));
    assert_ok(run_close(f->run, 1, &err), &err);
    f->run = NULL;
    store_destroy(crash);
}

static void take_a_second_to_remove(void *context, const store_trace_event *event) {
    training *f = context;
    if (event->op == STORE_OP_UNLINK) {
        simulated_platform_advance(&f->os, 1000000000);
    }
}

static void take_a_second_to_look(void *context, const store_trace_event *event) {
    training *f = context;
    if (event->op == STORE_OP_STAT || event->op == STORE_OP_LIST) {
        simulated_platform_advance(&f->os, 1000000000);
    }
}

static void leave_behind(training *f, int64_t step, int files) {
    struct pawl_error err = ERROR_INIT;
    char directory[32];
    name_step(directory, step);
    assert_ok(store_make_dir(f->disk, directory, &err), &err);
    for (int r = 0; r < files; r++) {
        char path[128];
        snprintf(path, sizeof path, "%s/data-0123456789ab-16-r%05d-00000-of-00001.safetensors",
                 directory, r);
        put_anew(f->disk, path, "x", 1);
    }
}

/* A look takes longer than all removing may: something is removed each time all the same. */
static void test_leftovers_go_however_long_a_look_takes(void **state) {
    training *f = *state;
    leave_behind(f, 1, 3);
    leave_behind(f, 2, 1);
    f->after = take_a_second_to_look;
    training_open_with(f, &f->os.table,
                       (pawl_run_options){.group_deadline_s = 2, .lease_s = 1000000});
    for (int64_t step = 10; step <= 60; step += 10) {
        training_save(f, step);
    }
    assert_false(is_there(f->disk, "step-00000001") || is_there(f->disk, "step-00000002"));
    training_close_run(f);
}

/* Other ranks may wait for the next save meanwhile, so what takes long is done bit by bit. */
static void test_leftovers_are_removed_for_an_eighth_of_the_deadline_at_a_time(void **state) {
    training *f = *state;
    leave_behind(f, 1, 20);
    leave_behind(f, 2, 20);
    f->after = take_a_second_to_remove;
    training_open_with(f, &f->os.table, (pawl_run_options){.group_deadline_s = 80});
    size_t left = 40;
    for (int64_t step = 10; step <= 50; step += 10) {
        training_save(f, step);
        size_t now = count_names(f->disk, "step-00000001", "data-") +
                     count_names(f->disk, "step-00000002", "data-");
        assert_true(left - now <= 2 * 12); /* before a save, and after its commit */
        assert_true(now < left || left == 0);
        left = now;
    }
    assert_int_equal(left, 0);
    assert_false(is_there(f->disk, "step-00000001") || is_there(f->disk, "step-00000002"));
    training_close_run(f);
}

#define TEST(function)                                                                             \
    cmocka_unit_test_setup_teardown(function, training_set_up, training_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s07_a_step_whose_replacement_fails_stays_whole),
        TEST(test_a_failed_replacement_does_not_pin),
        TEST(test_the_hint_never_names_a_step_that_was_not_committed),
        TEST(test_saving_an_older_step_does_not_make_it_the_safe_one),
        TEST(test_a_save_that_cannot_begin_leaves_no_directory),
        TEST(test_retention_judges_no_damaged_step),
        TEST(test_s14_a_reader_that_comes_while_a_step_is_removed_finds_its_files),
        TEST(test_s14_a_reader_marks_a_step_before_it_reads_the_manifest),
        TEST(test_s10_no_two_attempts_publish_by_the_same_temporary_name),
        TEST(test_gc_and_removal_wait_for_the_save_in_flight),
        TEST(test_s08_removing_much_for_long_is_not_hanging),
        TEST(test_an_idle_owner_has_a_heartbeat),
        TEST(test_s09_a_sweep_makes_the_manifest_durable_before_it_removes),
        TEST(test_s09_a_pin_is_durable),
        TEST(test_leftovers_are_removed_for_an_eighth_of_the_deadline_at_a_time),
        TEST(test_leftovers_go_however_long_a_look_takes),
    };
    return cmocka_run_group_tests_name("staying", tests, NULL, NULL);
}
