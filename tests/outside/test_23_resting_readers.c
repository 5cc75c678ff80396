/* SPDX-License-Identifier: Apache-2.0 */
/* What is open keeps its files however long it rests, also from a writer that cannot tell by pid
 * that the reader lives. */
#include "lib/at_step.h"
#include "outside/small_run.h"

#include "checkpoint/checkpoint.h"
#include "run/run.h"

#include <dirent.h>

#define ADVANCED_S 5.0  /* docs/format.md: so often a reader advances its mark, */
#define STILL_S    30.0 /* and so long a judge watches it at least */
#define FASTER     4    /* than ours the judge's clock goes */

/* ---- a writer on another host, on whose clock more time passes ------------------------------- */

static uint64_t fast_ns(void *context) {
    const platform *os = platform_system();
    (void)context;
    return os->monotonic_ns(os->context) * FASTER;
}

static liveness cannot_tell(void *context, const process_identity *who) {
    (void)context;
    (void)who;
    return PROCESS_UNKNOWN;
}

/* Retention asks the same, of the same code, before it removes a step (src/commit/remove.c). */
static bool is_read(const small_run *s, reader_watch *watch) {
    struct pawl_error err = ERROR_INIT;
    store *run = NULL;
    bool read = false;
    platform judge = *platform_system();
    judge.monotonic_ns = fast_ns;
    judge.process_alive = cannot_tell;
    assert_ok(store_posix(s->path, &run, &err), &err);
    assert_ok(reader_look(run, "step-00000001", &judge, 1, watch, &read, &err), &err);
    store_destroy(run);
    return read;
}

/* A reader that rests for longer than any judge waits is seen to read, by looks all the while. */
static void test_23_a_reader_that_rests_is_seen_to_read_by_other_hosts(void **state) {
    small_run *s = *state;
    struct pawl_error err = ERROR_INIT;
    reader_watch *watch;
    pawl_checkpoint *c;
    pawl_view *seen;
    const void *bytes;
    float w[SMALL_ELEMENTS];
    small_make(s);
    assert_ok(reader_watch_new(&watch, &err), &err);
    assert_ok(pawl_checkpoint_open(s->path, AT_STEP(1), &c, s->err), s->err);
    assert_ok(pawl_view_open(c, "w", 0, &seen, s->err), s->err);
    assert_ok(pawl_view_bytes(seen, 0, sizeof w, &bytes, s->err), s->err);
    double begun_s = test_now_s();
    while (test_now_s() - begun_s < STILL_S / FASTER + 1) {
        assert_true(is_read(s, watch));
        small_sleep(0.2);
    }
    assert_ok(pawl_checkpoint_read(c, "w", NULL, NULL, w, sizeof w, s->err), s->err);
    assert_ok(pawl_view_bytes(seen, 0, sizeof w, &bytes, s->err), s->err);
    assert_memory_equal(bytes, w, sizeof w);
    pawl_view_close(seen);
    pawl_checkpoint_close(c);
    assert_false(is_read(s, watch));
    reader_watch_free(watch);
}

/* ---- threads --------------------------------------------------------------------------------- */

static int threads(void) {
    char text[8192];
    const char *at = strstr(small_read("/proc/self/status", text, sizeof text), "Threads:");
    assert_non_null(at);
    return (int)strtol(at + strlen("Threads:"), NULL, 10);
}

static int marks(const small_run *s) {
    char directory[256];
    int count = 0;
    DIR *d = opendir(small_at(s, directory, "step-00000001"));
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        count += strncmp(e->d_name, "reader-", 7) == 0;
    }
    closedir(d);
    return count;
}

/* Closing ends the thread without a wait, and takes the mark away. */
static void test_23_closing_leaves_no_thread_and_takes_no_time(void **state) {
    enum { HANDLES = 50 };
    small_run *s = *state;
    pawl_checkpoint *handles[HANDLES];
    small_make(s);
    int before = threads();
    double begun_s = test_now_s();
    for (int i = 0; i < HANDLES; i++) {
        assert_ok(pawl_checkpoint_open(s->path, AT_STEP(1), &handles[i], s->err), s->err);
    }
    assert_true(threads() <= before + HANDLES);
    for (int i = 0; i < HANDLES; i++) {
        pawl_checkpoint_close(handles[i]);
    }
    assert_true(test_now_s() - begun_s < ADVANCED_S);
    assert_int_equal(threads(), before);
    assert_int_equal(marks(s), 0);
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, small_set_up, small_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_23_a_reader_that_rests_is_seen_to_read_by_other_hosts),
        TEST(test_23_closing_leaves_no_thread_and_takes_no_time),
    };
    return cmocka_run_group_tests_name("23: readers that rest", tests, NULL, NULL);
}
