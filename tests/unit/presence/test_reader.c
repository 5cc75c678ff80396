/* SPDX-License-Identifier: Apache-2.0 */
/* Readers' marks: who is believed to be reading, and for how long (S14). */
#include "lib/simulated_platform.h"
#include "lib/test.h"

#include "format/format.h"
#include "presence/presence.h"
#include "stores/stores.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIRECTORY "step-00000100"
#define LEASE_S   30.0

typedef struct fixture {
    store *disk, *fault;
    simulated_platform os;
    reader_watch *watch;
    reader_mark *mark;
} fixture;

static int set_up(void **state) {
    static fixture f;
    struct pawl_error err = ERROR_INIT;
    memset(&f, 0, sizeof(f));
    simulated_platform_init(&f.os, 1);
    assert_ok(store_mem(&f.disk, &err), &err);
    assert_ok(store_fault_wrap(f.disk, &f.os.table, &f.fault, &err), &err);
    assert_ok(store_make_dir(f.disk, DIRECTORY, &err), &err);
    assert_ok(reader_watch_new(&f.watch, &err), &err);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    reader_mark_free(f->mark);
    reader_watch_free(f->watch);
    store_destroy(f->fault);
    store_destroy(f->disk);
    return 0;
}

static void make_mark(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(reader_mark_new(f->fault, DIRECTORY, &f->os.table, NULL, &f->mark, &err), &err);
    assert_non_null(f->mark);
}

static pawl_status remove_mark(void *context, const char *name, pawl_error *err) {
    const fixture *f = context;
    char path[256];
    snprintf(path, sizeof(path), DIRECTORY "/%s", name);
    return store_unlink(f->disk, path, err);
}

/* Removes the marks that do not count. */
static bool being_read(fixture *f, reader_watch *watch) {
    struct pawl_error err = ERROR_INIT;
    bool read = false;
    assert_ok(reader_look_stale(f->disk, DIRECTORY, &f->os.table, LEASE_S, watch, remove_mark, f,
                                &read, &err),
              &err);
    return read;
}

static bool only_looked_at(fixture *f, reader_watch *watch) {
    struct pawl_error err = ERROR_INIT;
    bool read = false;
    assert_ok(reader_look(f->disk, DIRECTORY, &f->os.table, LEASE_S, watch, &read, &err), &err);
    return read;
}

static size_t marks(fixture *f) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error err = ERROR_INIT;
    char **names;
    size_t count;
    assert_ok(store_names(f->disk, DIRECTORY, 100, &memory, &names, &count, &err), &err);
    return count;
}

/* The mark's text; its name is the only one in the directory. */
static void read_mark(fixture *f, buffer *out) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error err = ERROR_INIT;
    char path[256];
    char **names;
    size_t count;
    assert_ok(store_names(f->disk, DIRECTORY, 100, &memory, &names, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_int_equal(name_classify(names[0], NULL), NAME_KIND_READER);
    snprintf(path, sizeof(path), DIRECTORY "/%s", names[0]);
    out->size = 0;
    assert_ok(store_read_file(f->disk, path, 4096, out, &err), &err);
}

static void put_mark(fixture *f, const char *name, const char *text) {
    struct pawl_error err = ERROR_INIT;
    char path[256];
    store_file *file;
    snprintf(path, sizeof(path), DIRECTORY "/%s", name);
    assert_ok(store_open(f->disk, path, STORE_CREATE, &file, &err), &err);
    assert_ok(store_write(file, 0, text, strlen(text), &err), &err);
    store_close(file);
}

/* Someone else's mark: another host, so that nobody can judge it by its pid. */
static void put_foreign_mark(fixture *f, const char *counter) {
    char text[256];
    snprintf(text, sizeof(text),
             "{\"counter\":\"%s\",\"host\":\"elsewhere\",\"pid\":12,\"boot_id\":\"b\","
             "\"pid_namespace\":\"n\",\"start_ticks\":5}\n",
             counter);
    put_mark(f, "reader-00112233aabb", text);
}

static void move_foreign_mark(fixture *f, const char *counter) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_unlink(f->disk, DIRECTORY "/reader-00112233aabb", &err), &err);
    put_foreign_mark(f, counter);
}

/* ---- the record ---- */

static void test_a_mark_is_the_record_of_the_specification(void **state) {
    fixture *f = *state;
    CLEANUP(buffer_free) buffer text = {0};
    char wanted[1024];
    make_mark(f);
    read_mark(f, &text);
    const process_identity *who = &f->os.identity;
    snprintf(
        wanted, sizeof(wanted),
        "{\"counter\":\"00000000000000000001\",\"host\":\"%s\",\"pid\":%lld,\"boot_id\":\"%s\","
        "\"pid_namespace\":\"%s\",\"time_namespace\":\"%s\",\"start_ticks\":%llu}\n",
        who->host, (long long)who->pid, who->boot_id, who->pid_namespace, who->time_namespace,
        (unsigned long long)who->start_ticks);
    assert_string_equal((const char *)text.data, wanted);
}

static void test_a_touch_moves_the_counter_at_most_once_a_second(void **state) {
    fixture *f = *state;
    CLEANUP(buffer_free) buffer text = {0};
    make_mark(f);
    reader_mark_touch(f->mark);
    read_mark(f, &text);
    assert_memory_equal(text.data, "{\"counter\":\"00000000000000000001\"", 32);
    simulated_platform_advance(&f->os, 1000000000);
    reader_mark_touch(f->mark);
    reader_mark_touch(f->mark);
    read_mark(f, &text);
    assert_memory_equal(text.data, "{\"counter\":\"00000000000000000002\"", 32);
}

static void test_a_mark_that_was_removed_is_made_again(void **state) {
    fixture *f = *state;
    CLEANUP(buffer_free) buffer text = {0};
    make_mark(f);
    f->os.others = PROCESS_DEAD;
    process_identity self = f->os.identity;
    f->os.identity.pid++; /* as another process sees it */
    assert_false(being_read(f, f->watch));
    assert_int_equal(marks(f), 0);
    f->os.identity = self;
    simulated_platform_advance(&f->os, 2000000000);
    reader_mark_touch(f->mark);
    read_mark(f, &text);
    assert_memory_equal(text.data, "{\"counter\":\"00000000000000000002\"", 32);
}

static void test_freeing_removes_the_mark(void **state) {
    fixture *f = *state;
    make_mark(f);
    assert_int_equal(marks(f), 1);
    reader_mark_free(f->mark);
    f->mark = NULL;
    assert_int_equal(marks(f), 0);
    reader_mark_touch(NULL);
}

static void take_log(void *context, pawl_log_level level, const char *text) {
    (void)level;
    snprintf(context, 2048, "%s", text);
}

static void test_a_directory_that_takes_no_mark_is_read_all_the_same(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    char text[2048] = "";
    const pawl_log log = {.write = take_log, .context = text, .level = PAWL_LOG_INFO};
    store_fault_set(f->fault,
                    &(store_fault){.op = STORE_OP_OPEN, .nth = 1, .system_errno = EACCES});
    assert_ok(reader_mark_new(f->fault, DIRECTORY, &f->os.table, &log, &f->mark, &err), &err);
    assert_null(f->mark);
    assert_says(text,
                "/mem/step-00000100 is read without a mark, so a writer of the run may remove "
                "it: ");
}

/* ---- keeping it ---- */

typedef struct heard {
    int count;
    char text[2048];
} heard;

static void hear(void *context, pawl_log_level level, const char *text) {
    heard *h = context;
    (void)level;
    h->count++;
    snprintf(h->text, sizeof(h->text), "%s", text);
}

static void make_heard_mark(fixture *f, heard *h) {
    struct pawl_error err = ERROR_INIT;
    const pawl_log log = {.write = hear, .context = h, .level = PAWL_LOG_INFO};
    assert_ok(reader_mark_new(f->fault, DIRECTORY, &f->os.table, &log, &f->mark, &err), &err);
}

static void advance_by(fixture *f, double seconds) {
    simulated_platform_advance(&f->os, (uint64_t)(seconds * 1e9));
    reader_mark_touch(f->mark);
}

/* It is read all the same: calls advance the mark, and the log says what that is worth. */
static void test_a_handle_that_gets_no_thread_says_so(void **state) {
    fixture *f = *state;
    CLEANUP(buffer_free) buffer text = {0};
    heard h = {0};
    make_heard_mark(f, &h);
    f->os.table.concurrent = true;
    f->os.thread_start_fails = true;
    reader_mark_keep(f->mark);
    assert_int_equal(h.count, 1);
    assert_says(h.text, "nothing advances the mark of a reader while it is idle");
    advance_by(f, 2);
    read_mark(f, &text);
    assert_memory_equal(text.data, "{\"counter\":\"00000000000000000002\"", 32);
}

/* Once, and again when that is over. */
static void test_a_mark_that_cannot_be_advanced_is_told_once(void **state) {
    static const int reasons[] = {ESTALE, EROFS, EIO, ENOSPC, EACCES};
    fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++) {
        heard h = {0};
        make_heard_mark(f, &h);
        store_fault_set(f->fault, &(store_fault){.op = STORE_OP_OPEN,
                                                 .nth = 1,
                                                 .system_errno = reasons[i],
                                                 .forever = true});
        advance_by(f, 2);
        advance_by(f, 2);
        assert_int_equal(h.count, 1);
        assert_says(h.text, "the mark of a reader cannot be advanced");
        store_fault_set(f->fault, &(store_fault){0});
        advance_by(f, 2);
        advance_by(f, 2);
        assert_int_equal(h.count, 2);
        assert_says(h.text, "is advanced again");
        reader_mark_free(f->mark);
        f->mark = NULL;
    }
}

/* A directory in its place cannot be removed as a file: another name is drawn. */
static void test_a_mark_whose_name_is_taken_gets_another(void **state) {
    fixture *f = *state;
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error err = ERROR_INIT;
    char path[256];
    char **names;
    size_t count;
    make_mark(f);
    assert_ok(store_names(f->disk, DIRECTORY, 100, &memory, &names, &count, &err), &err);
    snprintf(path, sizeof(path), DIRECTORY "/%s", names[0]);
    assert_ok(store_unlink(f->disk, path, &err), &err);
    assert_ok(store_make_dir(f->disk, path, &err), &err);
    assert_int_equal(reader_mark_losses(f->mark), 0);
    advance_by(f, 2);
    assert_int_equal(reader_mark_losses(f->mark), 1);
    assert_int_equal(marks(f), 2);
    assert_ok(store_remove_dir(f->disk, path, &err), &err);
    assert_int_equal(marks(f), 1);
}

/* ---- judging ---- */

/* However short the lease of the judge: readers do not know it. */
static void test_s14_an_unknown_process_reads_for_30_seconds_at_least(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    bool read = false;
    put_foreign_mark(f, "00000000000000000001");
    for (int i = 0; i < 30; i++) {
        assert_ok(reader_look(f->disk, DIRECTORY, &f->os.table, 1, f->watch, &read, &err), &err);
        assert_true(read);
        simulated_platform_advance(&f->os, 1000000000);
    }
    assert_ok(reader_look(f->disk, DIRECTORY, &f->os.table, 1, f->watch, &read, &err), &err);
    assert_false(read);
}

static void test_nobody_reads_a_directory_without_marks(void **state) {
    fixture *f = *state;
    assert_false(being_read(f, f->watch));
}

static void test_nobody_reads_a_directory_that_is_gone(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    bool read = true;
    assert_ok(reader_look(f->disk, "step-00000200", &f->os.table, LEASE_S, f->watch, &read, &err),
              &err);
    assert_false(read);
}

static void test_s14_a_living_process_reads_however_long_it_is_silent(void **state) {
    fixture *f = *state;
    make_mark(f);
    assert_true(being_read(f, f->watch));
    simulated_platform_advance(&f->os, 1000000000000);
    assert_true(being_read(f, f->watch));
}

static void test_a_dead_process_does_not_read_and_its_mark_is_told(void **state) {
    fixture *f = *state;
    put_foreign_mark(f, "00000000000000000001");
    f->os.others = PROCESS_DEAD;
    assert_false(being_read(f, f->watch));
    assert_int_equal(marks(f), 0);
}

static void test_looking_removes_nothing(void **state) {
    fixture *f = *state;
    put_foreign_mark(f, "00000000000000000001");
    f->os.others = PROCESS_DEAD;
    assert_false(only_looked_at(f, f->watch));
    assert_int_equal(marks(f), 1);
}

static void test_a_directory_that_is_gone_cannot_be_marked(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(reader_mark_new(f->disk, "step-00000200", &f->os.table, NULL, &f->mark, &err),
                 PAWL_ENOTFOUND, &err);
    assert_null(f->mark);
}

static void test_s14_an_unknown_process_reads_until_a_lease_has_passed(void **state) {
    fixture *f = *state;
    put_foreign_mark(f, "00000000000000000001");
    assert_true(being_read(f, f->watch));
    simulated_platform_advance(&f->os, 29000000000);
    assert_true(being_read(f, f->watch));
    assert_int_equal(marks(f), 1);
    simulated_platform_advance(&f->os, 1000000000);
    assert_false(being_read(f, f->watch));
    assert_int_equal(marks(f), 0);
}

static void test_s14_a_moving_counter_begins_the_lease_again(void **state) {
    fixture *f = *state;
    put_foreign_mark(f, "00000000000000000001");
    assert_true(being_read(f, f->watch));
    simulated_platform_advance(&f->os, 29000000000);
    move_foreign_mark(f, "00000000000000000002");
    assert_true(being_read(f, f->watch));
    simulated_platform_advance(&f->os, 29000000000);
    assert_true(being_read(f, f->watch));
    simulated_platform_advance(&f->os, 1000000000);
    assert_false(being_read(f, f->watch));
}

/* One look alone can tell nothing: without memory a mark that cannot be judged counts. */
static void test_without_a_watch_unknown_marks_count(void **state) {
    fixture *f = *state;
    put_foreign_mark(f, "00000000000000000001");
    simulated_platform_advance(&f->os, 1000000000000);
    assert_true(only_looked_at(f, NULL));
    f->os.others = PROCESS_DEAD;
    assert_false(only_looked_at(f, NULL));
    assert_int_equal(marks(f), 1);
}

/* Its reader has not looked for the manifest yet, or was killed before that: it keeps nothing, and
 * is told as stale after a lease. */
static void test_a_mark_that_is_not_complete_keeps_nothing(void **state) {
    fixture *f = *state;
    put_mark(f, "reader-half", "{\"counter\":\"000");
    put_mark(f, "reader-empty", "");
    assert_false(being_read(f, f->watch));
    assert_int_equal(marks(f), 2);
    simulated_platform_advance(&f->os, 30000000000);
    assert_false(being_read(f, f->watch));
    assert_int_equal(marks(f), 0);
}

static void test_several_marks_are_judged_each_by_itself(void **state) {
    fixture *f = *state;
    make_mark(f);
    put_foreign_mark(f, "00000000000000000001");
    assert_true(being_read(f, f->watch));
    simulated_platform_advance(&f->os, 30000000000);
    assert_true(being_read(f, f->watch)); /* ours */
    assert_int_equal(marks(f), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_a_mark_is_the_record_of_the_specification),
        TEST(test_a_touch_moves_the_counter_at_most_once_a_second),
        TEST(test_a_mark_that_was_removed_is_made_again),
        TEST(test_freeing_removes_the_mark),
        TEST(test_a_directory_that_takes_no_mark_is_read_all_the_same),
        TEST(test_a_handle_that_gets_no_thread_says_so),
        TEST(test_a_mark_that_cannot_be_advanced_is_told_once),
        TEST(test_a_mark_whose_name_is_taken_gets_another),
        TEST(test_s14_an_unknown_process_reads_for_30_seconds_at_least),
        TEST(test_nobody_reads_a_directory_without_marks),
        TEST(test_nobody_reads_a_directory_that_is_gone),
        TEST(test_s14_a_living_process_reads_however_long_it_is_silent),
        TEST(test_a_dead_process_does_not_read_and_its_mark_is_told),
        TEST(test_looking_removes_nothing),
        TEST(test_a_directory_that_is_gone_cannot_be_marked),
        TEST(test_s14_an_unknown_process_reads_until_a_lease_has_passed),
        TEST(test_s14_a_moving_counter_begins_the_lease_again),
        TEST(test_without_a_watch_unknown_marks_count),
        TEST(test_a_mark_that_is_not_complete_keeps_nothing),
        TEST(test_several_marks_are_judged_each_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
