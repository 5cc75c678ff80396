/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever opens a run that a writer on another host may have is told whom it waits for. */
#include "unit/presence/owning.h"

#define MOST_SILENCE_NS (7 * SECOND_NS) /* a pause, and what is told every five seconds */

typedef struct told {
    simulated_platform *os;
    uint64_t last_ns, longest_ns;
    size_t count;
    pawl_log_level levels[32];
    char lines[32][300];
} told;

static void take_line(void *context, pawl_log_level level, const char *text) {
    told *t = context;
    uint64_t silent_ns = t->os->monotonic_ns - t->last_ns;
    assert_true(t->count < 32);
    t->longest_ns = silent_ns > t->longest_ns ? silent_ns : t->longest_ns;
    t->last_ns = t->os->monotonic_ns;
    t->levels[t->count] = level;
    (void)snprintf(t->lines[t->count++], sizeof t->lines[0], "%s", text);
}

static pawl_status take_aloud(fixture *f, told *t, double wait_s, owner **out, pawl_error *err) {
    *t = (told){.os = &f->second, .last_ns = f->second.monotonic_ns};
    const pawl_log log = {.write = take_line, .context = t, .level = PAWL_LOG_INFO};
    return owner_take(f->disk, &f->second.table, &log, NULL, 30, wait_s, out, err);
}

static owner *own_first(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    owner *o;
    assert_ok(take(f, &f->first, 0, &o, &err), &err);
    return o;
}

static void test_a_silent_writer_is_waited_for_aloud(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t;
    owner *gone = own_first(f);
    owner *o;
    assert_ok(take_aloud(f, &t, 35, &o, &err), &err);
    assert_int_equal(t.levels[0], PAWL_LOG_WARN);
    assert_says(t.lines[0], "waiting at most 30 s to see whether its writer is alive: host node1, "
                            "pid 1111, heartbeat ");
    assert_int_equal(t.levels[1], PAWL_LOG_INFO);
    assert_says(t.lines[1], "waiting for host node1, pid 1111: silent for 6.0 s of at most "
                            "30 s");
    assert_true(t.longest_ns <= MOST_SILENCE_NS);
    assert_true(t.count >= 6);
    assert_says(t.lines[t.count - 2], "waited 30 s for host node1, pid 1111: it was silent");
    assert_says(t.lines[t.count - 1], "took the run over from host node1, pid 1111");
    owner_release(o);
    owner_release(gone);
}

static void test_one_that_lives_ends_the_wait(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t;
    owner *o;
    f->other = own_first(f);
    f->second.on_sleep = renew_other;
    f->second.on_sleep_context = f;
    assert_fails(take_aloud(f, &t, 35, &o, &err), PAWL_EBUSY, &err);
    assert_int_equal(t.count, 2);
    assert_says(t.lines[1], "for host node1, pid 1111: it is alive");
    f->second.on_sleep = NULL;
    owner_release(f->other);
}

static void give_up(void *context, uint64_t ns) {
    fixture *f = context;
    (void)ns;
    if (f->other != NULL) {
        owner_release(f->other);
    }
    f->other = NULL;
}

static void test_one_that_closes_the_run_ends_the_wait(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t;
    owner *o;
    f->other = own_first(f);
    f->second.on_sleep = give_up;
    f->second.on_sleep_context = f;
    assert_ok(take_aloud(f, &t, 35, &o, &err), &err);
    assert_int_equal(t.count, 2);
    assert_says(t.lines[1], "waited 1.5 s for host node1, pid 1111: it has given the run up");
    owner_release(o);
}

static void test_a_wait_that_may_be_short_says_so(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t;
    owner *other = own_first(f);
    owner *o;
    assert_fails(take_aloud(f, &t, 4, &o, &err), PAWL_EBUSY, &err);
    assert_says(t.lines[0], "waiting at most 4.0 s ");
    assert_fails(take_aloud(f, &t, 0, &o, &err), PAWL_EBUSY, &err);
    assert_int_equal(t.count, 0); /* nothing was waited for */
    owner_release(other);
}

/* A lease of a day is looked at, and told of, as often as one of half a minute. */
static void test_a_long_lease_is_not_a_long_silence(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    told t;
    owner *other;
    owner *o;
    assert_ok(owner_take(f->disk, &f->first.table, &silent, NULL, 86400, 0, &other, &err), &err);
    assert_fails(take_aloud(f, &t, 60, &o, &err), PAWL_EBUSY, &err);
    assert_says(t.lines[0], "waiting at most 1 min");
    assert_true(t.longest_ns <= MOST_SILENCE_NS);
    assert_true(t.count > 10);
    owner_release(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_a_silent_writer_is_waited_for_aloud),
        TEST(test_one_that_lives_ends_the_wait),
        TEST(test_one_that_closes_the_run_ends_the_wait),
        TEST(test_a_wait_that_may_be_short_says_so),
        TEST(test_a_long_lease_is_not_a_long_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
