/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is written through a hard link: not to a file that somebody links into the place of one
 * of the run's, and not to the copy that a backup made by links; and no save fails for it. */
#include "lib/at_step.h"
#include "outside/small_run.h"

#include <dirent.h>

#define PRECIOUS   "precious: the data of another file, longer than what is put at its begin\n"
#define ADVANCED_S 5.0 /* docs/format.md: so often a reader advances its mark */

static void make_victim(const small_run *s, char path[128]) {
    snprintf(path, 128, "%s/victim", s->base);
    small_write(path, PRECIOUS, sizeof PRECIOUS - 1);
}

static void assert_untouched(const char *path) {
    char text[512];
    struct stat found;
    assert_string_equal(small_read(path, text, sizeof text), PRECIOUS);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, sizeof PRECIOUS - 1);
}

/* Puts a link to the victim in the place of a file of the run. */
static void link_in(const small_run *s, const char *victim, const char *name) {
    char path[256];
    (void)unlink(small_at(s, path, name));
    assert_int_equal(link(victim, path), 0);
}

/* What the next writer finds under a name that it changes in place. */
static void test_29_a_link_to_another_file_is_not_written_through(void **state) {
    static const char *const names[] = {"latest", "events.jsonl", "reserve", "owner-00000001"};
    small_run *s = *state;
    char victim[128];
    make_victim(s, victim);
    small_make(s);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        link_in(s, victim, names[i]);
    }
    small_open(s);
    small_save(s, 3);
    small_save(s, 4);
    small_close(s);
    assert_untouched(victim);
}

/* The same under a writer that has the run open. */
static void test_29_a_link_that_comes_while_the_run_is_open_is_not_written_through(void **state) {
    static const char *const names[] = {"latest", "events.jsonl", "reserve"};
    small_run *s = *state;
    char victim[128];
    make_victim(s, victim);
    small_open(s);
    small_save(s, 1);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        link_in(s, victim, names[i]);
    }
    small_save(s, 2);
    small_save(s, 3);
    small_close(s);
    assert_untouched(victim);
}

/* ---- a reader's mark ------------------------------------------------------------------------ */

/* The name of the only mark of step 1. */
static void find_mark(const small_run *s, char out[256]) {
    char directory[256];
    int count = 0;
    DIR *d = opendir(small_at(s, directory, "step-00000001"));
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (strncmp(e->d_name, "reader-", 7) == 0) {
            count++;
            snprintf(out, 256, "step-00000001/%s", e->d_name);
        }
    }
    closedir(d);
    assert_int_equal(count, 1);
}

/* A reader whose mark somebody replaced by a link makes another one, and goes on. */
static void test_29_a_mark_that_became_a_link_is_made_anew(void **state) {
    small_run *s = *state;
    pawl_checkpoint *c;
    char victim[128];
    char mark[256];
    char path[256];
    char text[512];
    float w[SMALL_ELEMENTS];
    make_victim(s, victim);
    small_make(s);
    assert_ok(pawl_checkpoint_open(s->path, AT_STEP(1), &c, s->err), s->err);
    find_mark(s, mark);
    link_in(s, victim, mark);
    small_sleep(ADVANCED_S + 1.5);
    assert_ok(pawl_checkpoint_read(c, "w", NULL, NULL, w, sizeof w, s->err), s->err);
    assert_untouched(victim);
    find_mark(s, mark);
    assert_says(small_read(small_at(s, path, mark), text, sizeof text), "{\"counter\":\"0000");
    pawl_checkpoint_close(c);
    assert_untouched(victim);
    assert_false(small_there(path));
}

/* ---- a copy by links ------------------------------------------------------------------------ */

static void run_command(const char *format, const char *a, const char *b) {
    char line[512];
    snprintf(line, sizeof line, format, a, b);
    assert_int_equal(system(line), 0);
}

static int events_of(const small_run *s) {
    pawl_events *events;
    pawl_event event = {.struct_size = sizeof event};
    int more = 1;
    int ended = 0;
    assert_ok(pawl_events_open(s->path, NULL, &events, s->err), s->err);
    while (more) {
        assert_ok(pawl_events_next(events, &event, &more, s->err), s->err);
        ended += more && event.kind == PAWL_EVENT_SAVE_ENDED;
    }
    pawl_events_close(events);
    return ended;
}

static int count_of(const char *text, const char *words) {
    int count = 0;
    for (const char *at = strstr(text, words); at != NULL; at = strstr(at + 1, words)) {
        count++;
    }
    return count;
}

/* A run that is copied by links while it is open goes on saving, for longer than a lease; the copy
 * stays as it was, and the log says once what became of the events. */
static void test_29_a_backup_by_links_disturbs_nothing(void **state) {
    small_run *s = *state;
    small_open(s);
    small_save(s, 1);
    run_command("cp -al '%s' '%s/backup'", s->path, s->base);
    run_command("cp -a '%s/backup' '%s/as-it-was'", s->base, s->base);
    double begun_s = test_now_s();
    int64_t step = 2;
    for (; test_now_s() - begun_s < 2.5; step++) {
        small_save(s, step);
        small_sleep(0.2);
    }
    assert_int_equal(events_of(s), step - 1);
    small_close(s);
    run_command("diff -r '%s/backup' '%s/as-it-was'", s->base, s->base);
    assert_int_equal(count_of(s->log, "events go on in a new events.jsonl"), 1);
    assert_says(s->log, "one of 2 names (hard links)");
    small_open(s);
    small_save(s, step);
    small_close(s);
}

/* A copy that was restored by links, and has no other name of its own, is used as any run. */
static void test_29_a_run_restored_by_links_goes_on(void **state) {
    small_run *s = *state;
    small_make(s);
    run_command("mv '%s' '%s/backup'", s->path, s->base);
    run_command("cp -al '%s/backup' '%s'", s->base, s->path);
    run_command("cp -a '%s/backup' '%s/as-it-was'", s->base, s->base);
    small_open(s);
    small_save(s, 3);
    assert_ok(pawl_run_remove(s->run, 1, 0, s->err), s->err);
    small_close(s);
    assert_int_equal(events_of(s), 3);
    run_command("diff -r '%s/backup' '%s/as-it-was'", s->base, s->base);
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, small_set_up, small_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_29_a_link_to_another_file_is_not_written_through),
        TEST(test_29_a_link_that_comes_while_the_run_is_open_is_not_written_through),
        TEST(test_29_a_mark_that_became_a_link_is_made_anew),
        TEST(test_29_a_backup_by_links_disturbs_nothing),
        TEST(test_29_a_run_restored_by_links_goes_on),
    };
    return cmocka_run_group_tests_name("29: hard links", tests, NULL, NULL);
}
