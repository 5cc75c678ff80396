/* SPDX-License-Identifier: Apache-2.0 */
/* Reading events.jsonl while it grows and is rotated, and whatever it holds. */
#include "lib/training.h"

#define LINE(step) "{\"event\":\"save_begun\",\"step\":" #step ",\"unix_time_ns\":" #step "}"

typedef struct following {
    store *disk;
    pawl_events *events;
} following;

static int set_up(void **state) {
    static following f;
    struct pawl_error err = ERROR_INIT;
    memset(&f, 0, sizeof f);
    assert_ok(store_mem(&f.disk, &err), &err);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    following *f = *state;
    pawl_events_close(f->events);
    store_destroy(f->disk);
    return 0;
}

static void open_events(following *f) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(events_open(f->disk, false, &f->events, &err), &err);
}

/* Appends; makes the file when there is none. */
static void add(following *f, const char *name, const char *text, size_t n) {
    struct pawl_error err = ERROR_INIT;
    store_file *file;
    uint64_t size = 0;
    if (store_open(f->disk, name, STORE_UPDATE, &file, &err) == PAWL_OK) {
        assert_ok(store_size(file, &size, &err), &err);
    } else {
        assert_ok(store_open(f->disk, name, STORE_CREATE, &file, &err), &err);
    }
    assert_ok(store_write(file, size, text, n, &err), &err);
    store_close(file);
}

static void add_text(following *f, const char *name, const char *text) {
    add(f, name, text, strlen(text));
}

static void rotate(following *f) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_rename(f->disk, NAME_EVENTS, NAME_EVENTS_OLD, &err), &err);
}

/* The steps of the events that there are now. */
static void assert_steps(following *f, const char *steps) {
    char got[512] = "";
    for (;;) {
        struct pawl_error err = ERROR_INIT;
        pawl_event event;
        int more = 1;
        assert_ok(events_next(f->events, &event, &more, &err), &err);
        if (!more) {
            break;
        }
        size_t at = strlen(got);
        snprintf(got + at, sizeof got - at, "%s%lld", at > 0 ? " " : "", (long long)event.step);
    }
    assert_string_equal(got, steps);
}

static void test_an_empty_run_may_grow(void **state) {
    following *f = *state;
    open_events(f);
    assert_steps(f, "");
    add_text(f, NAME_EVENTS, LINE(1) "\n");
    assert_steps(f, "1");
    assert_steps(f, "");
}

static void test_the_old_file_comes_first(void **state) {
    following *f = *state;
    add_text(f, NAME_EVENTS, LINE(3) "\n" LINE(4) "\n");
    add_text(f, NAME_EVENTS_OLD, LINE(1) "\n" LINE(2) "\n");
    open_events(f);
    assert_steps(f, "1 2 3 4");
    add_text(f, NAME_EVENTS, LINE(5) "\n");
    assert_steps(f, "5");
}

static void test_only_whole_lines_are_taken(void **state) {
    following *f = *state;
    add_text(f, NAME_EVENTS, LINE(1) "\n{\"event\":\"save_begun\",");
    open_events(f);
    assert_steps(f, "1");
    add_text(f, NAME_EVENTS, "\"step\":2,\"unix_time_ns\":2");
    assert_steps(f, "");
    add_text(f, NAME_EVENTS, "}\n");
    assert_steps(f, "2");
}

static void test_rotations_are_followed(void **state) {
    following *f = *state;
    add_text(f, NAME_EVENTS, LINE(1) "\n");
    open_events(f);
    assert_steps(f, "1");
    add_text(f, NAME_EVENTS, LINE(2) "\n");
    rotate(f);
    assert_steps(f, "2"); /* there is no successor yet */
    add_text(f, NAME_EVENTS, LINE(3) "\n");
    assert_steps(f, "3");
    rotate(f);
    add_text(f, NAME_EVENTS, LINE(4) "\n" LINE(5) "\n"); /* longer than the one before */
    assert_steps(f, "4 5");
}

/* A rotation while the older of the two is being read hides nothing. */
static void test_a_rotation_while_the_old_file_is_read(void **state) {
    following *f = *state;
    add_text(f, NAME_EVENTS_OLD, LINE(1) "\n");
    add_text(f, NAME_EVENTS, LINE(2) "\n");
    open_events(f);
    rotate(f);
    add_text(f, NAME_EVENTS, LINE(3) "\n" LINE(4) "\n");
    assert_steps(f, "1 2 3 4");
}

static void test_a_file_that_begins_anew_is_read_anew(void **state) {
    following *f = *state;
    struct pawl_error err = ERROR_INIT;
    add_text(f, NAME_EVENTS, LINE(1) "\n" LINE(2) "\n");
    open_events(f);
    assert_steps(f, "1 2");
    assert_ok(store_unlink(f->disk, NAME_EVENTS, &err), &err);
    add_text(f, NAME_EVENTS, LINE(7) "\n");
    assert_steps(f, "7");
}

/* R14: nothing that a file may hold hides the events around it. */
static void test_r14_what_is_no_event_is_passed_over(void **state) {
    following *f = *state;
    add_text(f, NAME_EVENTS, LINE(1) "\n\n{\"event\":\"save_be\n\x1b[31m\xff\n[[[[\n" LINE(2) "\n");
    add(f, NAME_EVENTS, "\0\0\0\0\n" LINE(3) "\n", 5 + strlen(LINE(3)) + 1);
    open_events(f);
    assert_steps(f, "1 2 3");
}

static void test_r14_a_line_without_end_is_passed_over(void **state) {
    following *f = *state;
    size_t n = 3 * (size_t)FORMAT_MAX_EVENT_READ + 7;
    char *blanks = mem_alloc(n);
    memset(blanks, ' ', n);
    add_text(f, NAME_EVENTS, LINE(1) "\n");
    add(f, NAME_EVENTS, blanks, n);
    open_events(f);
    assert_steps(f, "1");
    add_text(f, NAME_EVENTS, LINE(2) "\n"); /* the end of the long one */
    assert_steps(f, "");
    add_text(f, NAME_EVENTS, LINE(3) "\n");
    assert_steps(f, "3");
    mem_free(blanks);
}

static void test_a_directory_is_no_file(void **state) {
    following *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(f->disk, NAME_EVENTS, &err), &err);
    assert_true(events_open(f->disk, false, &f->events, &err) != PAWL_OK);
    assert_says(err.attempt, "reading the events of the run");
    assert_says(err.next, "move it away");
    f->events = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_an_empty_run_may_grow),
        TEST(test_the_old_file_comes_first),
        TEST(test_only_whole_lines_are_taken),
        TEST(test_rotations_are_followed),
        TEST(test_a_rotation_while_the_old_file_is_read),
        TEST(test_a_file_that_begins_anew_is_read_anew),
        TEST(test_r14_what_is_no_event_is_passed_over),
        TEST(test_r14_a_line_without_end_is_passed_over),
        TEST(test_a_directory_is_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
