/* SPDX-License-Identifier: Apache-2.0 */
/* The monitor and the log, by one thread and by several. */
#include "lib/failing_memory.h"
#include "lib/test.h"

#include <stdio.h>
#include <string.h>

#define MS      1000000U
#define THREADS 4
#define ROUNDS  2000

static uint64_t now_ns(void) {
    return platform_system()->monotonic_ns(NULL);
}

static void run_together(void (*body)(void *), void *argument, platform_thread **threads) {
    struct pawl_error err = ERROR_INIT;
    for (size_t i = 0; i < THREADS; i++) {
        assert_ok(platform_system()->thread_start(NULL, body, argument, &threads[i], &err), &err);
    }
}

static void join_all(platform_thread **threads) {
    for (size_t i = 0; i < THREADS; i++) {
        platform_system()->thread_join(NULL, threads[i]);
    }
}

typedef struct shared {
    monitor monitor;
    uint64_t count; /* guarded by the monitor */
    bool go;        /* guarded by the monitor */
} shared;

static void count_within(void *context) {
    shared *s = context;
    for (int i = 0; i < ROUNDS; i++) {
        monitor_enter(&s->monitor);
        CLEANUP(monitor_leave_pointer) monitor *inside = &s->monitor;
        s->count++;
        monitor_announce(inside);
    }
}

static void test_one_thread_at_a_time_is_within(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    shared s = {0};
    platform_thread *threads[THREADS];
    assert_ok(monitor_init(&s.monitor, &err), &err);
    run_together(count_within, &s, threads);
    monitor_enter(&s.monitor);
    bool in_time = true;
    while (s.count < THREADS * ROUNDS && in_time) {
        in_time = monitor_wait_until(&s.monitor, now_ns() + (uint64_t)20000 * MS);
    }
    assert_true(in_time);
    monitor_leave(&s.monitor);
    join_all(threads);
    assert_int_equal(s.count, THREADS * ROUNDS);
    monitor_destroy(&s.monitor);
}

static void wait_to_go(void *context) {
    shared *s = context;
    monitor_enter(&s->monitor);
    while (!s->go) {
        (void)monitor_wait_until(&s->monitor, UINT64_MAX);
    }
    s->count++;
    monitor_leave(&s->monitor);
}

static void test_announcement_wakes_everyone_however_long_they_would_wait(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    shared s = {0};
    platform_thread *threads[THREADS];
    assert_ok(monitor_init(&s.monitor, &err), &err);
    run_together(wait_to_go, &s, threads);
    platform_system()->sleep_ns(NULL, 20 * MS);
    monitor_enter(&s.monitor);
    s.go = true;
    monitor_announce(&s.monitor);
    monitor_leave(&s.monitor);
    join_all(threads);
    assert_int_equal(s.count, THREADS);
    monitor_destroy(&s.monitor);
}

static void test_wait_ends_when_its_deadline_passes(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    shared s = {0};
    assert_ok(monitor_init(&s.monitor, &err), &err);
    monitor_enter(&s.monitor);
    uint64_t deadline = now_ns() + 30 * MS;
    while (monitor_wait_until(&s.monitor, deadline)) {
    }
    assert_true(now_ns() >= deadline);
    assert_false(monitor_wait_until(&s.monitor, 0));
    monitor_leave(&s.monitor);
    monitor_destroy(&s.monitor);
}

static void test_leaving_by_a_null_pointer_does_nothing(void **state) {
    (void)state;
    CLEANUP(monitor_leave_pointer) monitor *outside = NULL;
    assert_null(outside);
}

/* ---- log ------------------------------------------------------------------------------------ */

typedef struct noted {
    int lines;
    pawl_log_level level;
    char text[4096];
} noted;

static void note_line(void *context, pawl_log_level level, const char *text) {
    noted *n = context;
    n->lines++;
    n->level = level;
    snprintf(n->text, sizeof(n->text), "%s", text);
}

static void test_log_passes_on_what_is_wanted(void **state) {
    (void)state;
    noted n = {0};
    pawl_log log = {.write = note_line, .context = &n, .level = PAWL_LOG_INFO};
    log_write(&log, PAWL_LOG_DEBUG, "no");
    assert_int_equal(n.lines, 0);
    log_write(&log, PAWL_LOG_INFO, "saved step %d", 12);
    assert_int_equal(n.lines, 1);
    assert_int_equal(n.level, PAWL_LOG_INFO);
    assert_string_equal(n.text, "saved step 12");
}

static void test_log_without_a_level_wants_warnings(void **state) {
    (void)state;
    noted n = {0};
    pawl_log log = {.write = note_line, .context = &n};
    assert_true(log_wants(&log, PAWL_LOG_ERROR));
    assert_true(log_wants(&log, PAWL_LOG_WARN));
    assert_false(log_wants(&log, PAWL_LOG_INFO));
    assert_false(log_wants(&log, PAWL_LOG_NONE));
}

static void test_log_that_is_not_there_is_left_alone(void **state) {
    (void)state;
    pawl_log silent = {.level = PAWL_LOG_DEBUG};
    log_write(NULL, PAWL_LOG_ERROR, "x");
    log_write(&silent, PAWL_LOG_ERROR, "x");
    assert_false(log_wants(NULL, PAWL_LOG_ERROR));
    assert_false(log_wants(&silent, PAWL_LOG_ERROR));
}

static void test_long_log_text_is_whole(void **state) {
    (void)state;
    noted n = {0};
    pawl_log log = {.write = note_line, .context = &n};
    for (int width = 1020; width < 1030; width++) {
        log_write(&log, PAWL_LOG_WARN, "%*s", width, "end");
        assert_int_equal(strlen(n.text), width);
        assert_string_equal(n.text + width - 3, "end");
    }
}

static void test_long_log_text_without_memory_is_cut(void **state) {
    (void)state;
    noted n = {0};
    pawl_log log = {.write = note_line, .context = &n};
    failing_memory_set(1);
    log_write(&log, PAWL_LOG_WARN, "%3000s", "end");
    bool fired = failing_memory_fired();
    failing_memory_set(0);
    assert_true(fired);
    assert_int_equal(strlen(n.text), 1023);
    assert_string_equal(n.text + 1020, "...");
}

static void log_often(void *log) {
    for (int i = 0; i < ROUNDS; i++) {
        log_write(log, PAWL_LOG_WARN, "%d %*s", i, i % 1500, "x");
    }
}

static void count_line(void *context, pawl_log_level level, const char *text) {
    shared *s = context;
    (void)level;
    monitor_enter(&s->monitor);
    s->count += strlen(text) > 0 ? 1 : 0;
    monitor_leave(&s->monitor);
}

static void test_log_is_used_by_several_threads(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    shared s = {0};
    pawl_log log = {.write = count_line, .context = &s};
    platform_thread *threads[THREADS];
    assert_ok(monitor_init(&s.monitor, &err), &err);
    run_together(log_often, &log, threads);
    join_all(threads);
    assert_int_equal(s.count, THREADS * ROUNDS);
    monitor_destroy(&s.monitor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread_at_a_time_is_within),
        cmocka_unit_test(test_announcement_wakes_everyone_however_long_they_would_wait),
        cmocka_unit_test(test_wait_ends_when_its_deadline_passes),
        cmocka_unit_test(test_leaving_by_a_null_pointer_does_nothing),
        cmocka_unit_test(test_log_passes_on_what_is_wanted),
        cmocka_unit_test(test_log_without_a_level_wants_warnings),
        cmocka_unit_test(test_log_that_is_not_there_is_left_alone),
        cmocka_unit_test(test_long_log_text_is_whole),
        cmocka_unit_test(test_long_log_text_without_memory_is_cut),
        cmocka_unit_test(test_log_is_used_by_several_threads),
    };
    return cmocka_run_group_tests_name("base sync", tests, NULL, NULL);
}
