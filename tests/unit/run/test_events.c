/* SPDX-License-Identifier: Apache-2.0 */
/* What a run tells of its saves and restores: to events.jsonl and to the callback. */
#include "lib/training.h"

#include "run/private.h"

#include <errno.h>
#include <unistd.h>

#define MOST_TOLD 16

/* What the callback was told. */
typedef struct told {
    pawl_event events[MOST_TOLD];
    char messages[MOST_TOLD][256];
    char lines[MOST_TOLD][1024];
    size_t count;
} told;

static void take_event(void *context, const pawl_event *event) {
    told *t = context;
    assert_true(t->count < MOST_TOLD);
    t->events[t->count] = *event;
    snprintf(t->messages[t->count], sizeof t->messages[0], "%s",
             event->message != NULL ? event->message : "");
    snprintf(t->lines[t->count], sizeof t->lines[0], "%s", event->json);
    t->count++;
}

static void open_run_on(training *f, const platform *os, pawl_run_options options) {
    struct pawl_error err = ERROR_INIT;
    store *seen;
    options.struct_size = sizeof options;
    options.log = &(pawl_log){.struct_size = sizeof(pawl_log),
                              .write = training_take_log,
                              .context = f,
                              .level = PAWL_LOG_WARN};
    assert_ok(store_trace_wrap(f->fault, os, NULL, NULL, &seen, &err), &err);
    assert_ok(run_open(seen, &options, os, &f->run, &err), &err);
}

static void open_run(training *f, pawl_run_options options) {
    open_run_on(f, &f->os.table, options);
}

static pawl_status save(training *f, int64_t step, pawl_error *err) {
    const pawl_save_options options = {.struct_size = sizeof options};
    TRY(run_save(f->run, f->state, step, &options, err));
    return run_wait(f->run, 0, NULL, err);
}

static bool engine_hangs(training *f) {
    struct pawl_error ignored = ERROR_INIT;
    return engine_ready(f->run->engine, &ignored) != PAWL_OK;
}

static void assert_kept(training *f, const char *names) {
    char got[512] = "";
    pawl_events *kept;
    struct pawl_error err = ERROR_INIT;
    pawl_event event;
    int more = 1;
    assert_ok(events_open(f->disk, false, &kept, &err), &err);
    for (;;) {
        assert_ok(events_next(kept, &event, &more, &err), &err);
        if (!more) {
            break;
        }
        size_t at = strlen(got);
        snprintf(got + at, sizeof got - at, "%s%d:%lld:%s", at > 0 ? " " : "", (int)event.kind,
                 (long long)event.step, pawl_status_name(event.status));
    }
    pawl_events_close(kept);
    assert_string_equal(got, names);
}

static void fail_at(training *f, store_op op, uint64_t nth, int system_errno) {
    const store_fault plan = {.op = op, .nth = nth, .system_errno = system_errno};
    store_fault_set(f->fault, &plan);
}

/* What writes events. */
static store_op writing(const training *f) {
    return f->disk->traits.objects ? STORE_OP_PUT : STORE_OP_WRITE;
}

/* ---- the file ------------------------------------------------------------------------------- */

static void test_a_save_and_a_restore_are_kept(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_run(f);
    training_save(f, 100);
    assert_ok(run_restore(f->run, f->state, NULL, NULL, &err), &err);
    assert_kept(f, "1:100:ok 3:100:ok 4:100:ok");
    assert_string_equal(f->log, "");
}

/* Two lines, one write, and never a sync of it. */
static void test_a_short_save_costs_one_write_more(void **state) {
    training *f = *state;
    const store_op ops[] = {writing(f), STORE_OP_SYNC, STORE_OP_SYNC_DIR};
    uint64_t counts[2][ARRAY_LENGTH(ops)];
    for (int with = 0; with < 2; with++) {
        open_run(f, (pawl_run_options){.no_event_file = !with});
        training_save(f, 100 + with); /* creates the file */
        store_fault_set(f->fault, &(store_fault){0});
        training_save(f, 200 + with);
        for (size_t i = 0; i < ARRAY_LENGTH(ops); i++) {
            counts[with][i] = store_fault_count(f->fault, ops[i]);
        }
        training_close_run(f);
    }
    assert_int_equal(counts[1][0], counts[0][0] + 1);
    assert_int_equal(counts[1][1], counts[0][1]);
    assert_int_equal(counts[1][2], counts[0][2]);
}

static void test_no_file_when_none_is_wanted(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t = {.count = 0};
    open_run(f, (pawl_run_options){.no_event_file = 1, .event = take_event, .event_context = &t});
    assert_ok(save(f, 100, &err), &err);
    assert_false(training_exists(f, NAME_EVENTS));
    assert_int_equal(t.count, 2);
}

/* S07, S09: a line that a crash has cut stays, and takes nothing else with it. */
static void test_s09_a_torn_line_is_left_alone(void **state) {
    static const char torn[] = "{\"event\":\"save_beg";
    training *f = *state;
    CLEANUP(buffer_free) buffer bytes = {0};
    put_anew(f->disk, NAME_EVENTS, torn, strlen(torn));
    training_open_run(f);
    training_save(f, 100);
    training_save(f, 200);
    assert_kept(f, "1:100:ok 3:100:ok 1:200:ok 3:200:ok");
    training_take_file(f, NAME_EVENTS, &bytes);
    assert_memory_equal(bytes.data, "{\"event\":\"save_beg\n{\"event\":\"save_begun\"", 38);
    assert_null(strstr((const char *)bytes.data, "\n\n"));
}

static void test_a_full_file_makes_room_for_the_next(void **state) {
    training *f = *state;
    CLEANUP(buffer_free) buffer bytes = {0};
    size_t most = f->disk->traits.objects ? 256 << 10 : PAWL_EVENTS_MAX_BYTES;
    char *full = mem_alloc(most);
    memset(full, '\n', most);
    full[0] = '#';
    put_anew(f->disk, NAME_EVENTS, full, most - 2000);
    mem_free(full);
    training_open_run(f);
    training_save(f, 100);
    assert_false(training_exists(f, NAME_EVENTS_OLD));
    for (int64_t step = 200; step < 600; step += 100) {
        training_save(f, step);
    }
    assert_true(training_exists(f, NAME_EVENTS_OLD));
    training_take_file(f, NAME_EVENTS_OLD, &bytes);
    assert_true(bytes.data[0] == '#' && bytes.size <= most);
    assert_kept(f, "1:100:ok 3:100:ok 1:200:ok 3:200:ok 1:300:ok 3:300:ok 1:400:ok 3:400:ok "
                   "1:500:ok 3:500:ok");
}

/* S07: events that cannot be written cost the save nothing, and are told once. */
static void test_s07_a_full_disk_loses_events_but_no_save(void **state) {
    training *f = *state;
    training_open_run(f);
    training_save(f, 100);
    store_fault_set(f->fault, &(store_fault){0});
    training_save(f, 200);
    uint64_t writes = store_fault_count(f->fault, writing(f)); /* the last is of the events */
    fail_at(f, writing(f), writes, ENOSPC);
    training_save(f, 300);
    assert_true(store_fault_fired(f->fault));
    assert_says(f->log, "events of the run are lost until they can be written again");
    assert_says(f->log, "ENOSPC");
    fail_at(f, writing(f), writes, ENOSPC);
    f->log[0] = '\0';
    training_save(f, 400);
    assert_string_equal(f->log, "");
    store_fault_set(f->fault, &(store_fault){0});
    training_save(f, 500);
    assert_kept(f, "1:100:ok 3:100:ok 1:200:ok 3:200:ok 1:500:ok 3:500:ok");
}

/* A write that fails half-way leaves a torn line of our own. */
static void test_s07_half_a_line_is_left_alone(void **state) {
    training *f = *state;
    test_skip_on_objects("a file is put whole or not at all");
    training_open_run(f);
    training_save(f, 100);
    store_fault_set(f->fault, &(store_fault){0});
    training_save(f, 200);
    uint64_t writes = store_fault_count(f->fault, STORE_OP_WRITE);
    store_fault plan = {.op = STORE_OP_WRITE, .nth = writes, .shorten = true};
    store_fault_set(f->fault, &plan);
    training_save(f, 300);
    assert_true(store_fault_fired(f->fault));
    training_save(f, 400);
    assert_kept(f, "1:100:ok 3:100:ok 1:200:ok 3:200:ok 1:300:ok 3:300:ok 1:400:ok 3:400:ok");
}

static void test_something_else_of_that_name_is_left_alone(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    test_skip_on_objects("there are no directories, so none takes a file's name");
    assert_ok(store_make_dir(f->disk, NAME_EVENTS, &err), &err);
    training_open_run(f);
    training_save(f, 100);
    assert_says(f->log, "events of the run are lost");
    assert_true(training_exists(f, NAME_EVENTS));
}

/* S10: whoever lost the run leaves its file to the other writer. */
static void test_s10_a_lost_run_is_not_written_to(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t = {.count = 0};
    open_run(f, (pawl_run_options){.event = take_event, .event_context = &t});
    assert_ok(save(f, 100, &err), &err);
    training_usurp(f);
    assert_fails(run_heartbeat(f->run, &err), PAWL_EBUSY, &err);
    assert_fails(save(f, 200, &err), PAWL_EBUSY, &err);
    assert_kept(f, "1:100:ok 3:100:ok");
    assert_int_equal(t.count, 4);
    assert_int_equal(t.events[3].status, PAWL_EBUSY);
}

static void test_gc_leaves_events(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    put_anew(f->disk, NAME_EVENTS_OLD, "\n", 1);
    training_open_run(f);
    training_save(f, 100);
    assert_ok(run_gc(f->run, false, NULL, NULL, &err), &err);
    assert_true(training_exists(f, NAME_EVENTS) && training_exists(f, NAME_EVENTS_OLD));
}

/* R09: a run that only has events is an empty run, and no other tool's directory. */
static void test_r09_events_are_of_a_run(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    put_anew(f->disk, NAME_EVENTS, "\n", 1);
    put_anew(f->disk, NAME_EVENTS_OLD, "\n", 1);
    assert_fails(catalog_explain_missing(f->disk, NULL, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.found, "a run that has no checkpoint yet");
}

/* ---- the callback --------------------------------------------------------------------------- */

static void test_the_callback_hears_what_the_file_keeps(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    char lines[4096];
    told t = {.count = 0};
    f->os.tick_ns = 1000;
    open_run(f, (pawl_run_options){.event = take_event, .event_context = &t});
    assert_ok(save(f, 100, &err), &err);
    assert_ok(run_restore(f->run, f->state, NULL, NULL, &err), &err);
    assert_int_equal(t.count, 3);
    const pawl_event *ended = &t.events[1];
    assert_int_equal(t.events[0].kind, PAWL_EVENT_SAVE_BEGUN);
    assert_int_equal(ended->kind, PAWL_EVENT_SAVE_ENDED);
    assert_int_equal(t.events[2].kind, PAWL_EVENT_RESTORED);
    assert_true(ended->unix_time_ns > t.events[0].unix_time_ns);
    assert_true(ended->done_bytes == ended->of_bytes && ended->of_bytes == t.events[0].of_bytes);
    assert_true(ended->seconds > 0 && t.events[2].done_bytes > 0 && t.events[2].seconds > 0);
    assert_non_null(ended->stats);
    assert_null(t.events[0].stats);
    snprintf(lines, sizeof lines, "%s\n%s\n%s\n", t.lines[0], t.lines[1], t.lines[2]);
    training_take_file(f, NAME_EVENTS, &bytes);
    assert_string_equal((const char *)bytes.data, lines);
}

/* S03: one end per save, with the reason in one line. */
static void test_s03_a_failed_save_is_told(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t = {.count = 0};
    open_run(f, (pawl_run_options){.event = take_event, .event_context = &t});
    fail_at(f, STORE_OP_SYNC, 1, EIO);
    assert_fails(save(f, 100, &err), PAWL_EIO, &err);
    assert_int_equal(t.count, 2);
    assert_int_equal(t.events[1].status, PAWL_EIO);
    assert_says(t.messages[1], "saving step 100");
    assert_says(t.messages[1], "EIO");
    assert_null(strchr(t.messages[1], '\n'));
    assert_kept(f, "1:100:ok 3:100:storage failed");
}

static void test_a_save_that_cannot_begin_is_told(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t = {.count = 0};
    open_run(f, (pawl_run_options){.event = take_event, .event_context = &t});
    f->os.thread_start_fails = true;
    assert_true(save(f, 100, &err) != PAWL_OK);
    f->os.thread_start_fails = false;
    assert_int_equal(t.count, 2);
    assert_int_equal(t.events[1].kind, PAWL_EVENT_SAVE_ENDED);
    assert_true(t.events[1].status != PAWL_OK);
    assert_int_equal(t.events[1].step, 100);
}

/* S08: the callback hears of it while the storage hangs, the file once it answers; each once. */
static void test_s08_a_save_that_hangs_is_told_without_the_storage(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t = {.count = 0};
    store_destroy(f->fault); /* one with threads can hang */
    assert_ok(store_fault_wrap(f->disk, platform_system(), &f->fault, &err), &err);
    open_run_on(f, platform_system(),
                (pawl_run_options){.event = take_event, .event_context = &t, .hang_deadline_s = 2});
    store_fault plan = {.op = STORE_OP_WRITE, .nth = 1, .hang = true};
    store_fault_set(f->fault, &plan);
    assert_fails(save(f, 100, &err), PAWL_EIO, &err);
    assert_int_equal(t.count, 2);
    assert_int_equal(t.events[1].kind, PAWL_EVENT_SAVE_ENDED);
    assert_int_equal(t.events[1].status, PAWL_EIO);
    assert_says(t.messages[1], "the storage hangs");
    assert_kept(f, "");
    store_fault_release(f->fault);
    while (engine_hangs(f)) {
        (void)usleep(1000);
    }
    assert_ok(save(f, 200, &err), &err);
    assert_int_equal(t.count, 4);
    assert_kept(f, "1:100:ok 3:100:storage failed 1:200:ok 3:200:ok");
}

/* R08: a restore tells which checkpoints it passed over, and why. */
static void test_r08_a_restore_tells_what_it_passed_over(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    told t = {.count = 0};
    open_run(f, (pawl_run_options){.event = take_event, .event_context = &t});
    assert_ok(save(f, 100, &err), &err);
    assert_ok(save(f, 200, &err), &err);
    training_path(f, 200, NAME_KIND_INDEX, path);
    training_flip(f, path, 5);
    assert_ok(run_restore(f->run, f->state, NULL, NULL, &err), &err);
    assert_int_equal(t.count, 5);
    assert_int_equal(t.events[4].step, 100);
    assert_says(t.lines[4], "\"fallback_count\":1,\"fallbacks\":[{\"step\":200,\"why\":\"");
}

static void test_r09_a_restore_of_nothing_is_told(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t = {.count = 0};
    open_run(f, (pawl_run_options){.event = take_event, .event_context = &t});
    assert_fails(run_restore(f->run, f->state, NULL, NULL, &err), PAWL_ENOTFOUND, &err);
    assert_int_equal(t.count, 1);
    assert_int_equal(t.events[0].step, -1);
    assert_int_equal(t.events[0].status, PAWL_ENOTFOUND);
    assert_kept(f, "4:-1:not found");
}

static void test_statistics_are_those_of_the_wait(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    pawl_save_stats stats;
    told t = {.count = 0};
    f->os.tick_ns = 1000000;
    open_run(f, (pawl_run_options){.event = take_event, .event_context = &t});
    assert_ok(run_save(f->run, f->state, 100, &options, &err), &err);
    assert_ok(run_wait(f->run, 0, &stats, &err), &err);
    assert_true(stats.prepare_s > 0);
    assert_says(t.lines[1], "\"files\":1");
    char bytes[64];
    snprintf(bytes, sizeof bytes, "\"done_bytes\":%llu", (unsigned long long)stats.bytes);
    assert_says(t.lines[1], bytes);
    snprintf(bytes, sizeof bytes, "\"budget\":{\"bytes\":%zu", stats.budget_bytes);
    assert_says(t.lines[1], bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, training_set_up, training_tear_down)
        TEST(test_a_save_and_a_restore_are_kept),
        TEST(test_a_short_save_costs_one_write_more),
        TEST(test_no_file_when_none_is_wanted),
        TEST(test_s09_a_torn_line_is_left_alone),
        TEST(test_a_full_file_makes_room_for_the_next),
        TEST(test_s07_a_full_disk_loses_events_but_no_save),
        TEST(test_s07_half_a_line_is_left_alone),
        TEST(test_something_else_of_that_name_is_left_alone),
        TEST(test_s10_a_lost_run_is_not_written_to),
        TEST(test_gc_leaves_events),
        TEST(test_r09_events_are_of_a_run),
        TEST(test_the_callback_hears_what_the_file_keeps),
        TEST(test_s03_a_failed_save_is_told),
        TEST(test_a_save_that_cannot_begin_is_told),
        TEST(test_s08_a_save_that_hangs_is_told_without_the_storage),
        TEST(test_r08_a_restore_tells_what_it_passed_over),
        TEST(test_r09_a_restore_of_nothing_is_told),
        TEST(test_statistics_are_those_of_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
