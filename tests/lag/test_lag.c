/* SPDX-License-Identifier: Apache-2.0 */
/* The lagging filesystem does what its rules say, and what it shows is otherwise what is there. */
#include "lag/lag.h"

#include "lib/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct place {
    lag_fs *fs;
    int seen, behind; /* descriptors of the directories */
} place;

static void begin(place *p, const lag_options *options) {
    p->fs = lag_start(options);
    p->seen = open(lag_path(p->fs), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    p->behind = open(lag_behind(p->fs), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(p->seen >= 0 && p->behind >= 0);
}

static int tear_down(void **state) {
    place *p = *state;
    close(p->seen);
    close(p->behind);
    lag_fs *fs = p->fs;
    *p = (place){.seen = -1, .behind = -1};
    lag_stop(fs);
    return 0;
}

static bool is_in(int directory, const char *name) {
    struct stat st;
    return fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make(int directory, const char *name, const char *text) {
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void assert_holds(int directory, const char *name, const char *text) {
    char found[100] = "";
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, found, sizeof found - 1), strlen(text));
    assert_string_equal(found, text);
    close(fd);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void test_shows_what_is_behind(void **state) {
    place *p = *state;
    begin(p, NULL);
    assert_int_equal(mkdirat(p->seen, "d", 0700), 0);
    make(p->seen, "d/a", "one");
    assert_holds(p->behind, "d/a", "one");
    assert_int_equal(renameat(p->seen, "d/a", p->seen, "d/b"), 0);
    make(p->behind, "d/c", "two");
    assert_holds(p->seen, "d/c", "two");
    assert_int_equal(unlinkat(p->seen, "d/b", 0), 0);
    assert_false(is_in(p->behind, "d/b"));
    assert_int_equal(lag_hits(p->fs), 0);
}

static void test_names_that_do_not_exist_are_kept(void **state) {
    place *p = *state;
    begin(p, &(lag_options){.negative_s = 60});
    assert_false(is_in(p->seen, "late"));
    make(p->behind, "late", "here");
    assert_false(is_in(p->seen, "late"));
    assert_int_equal(openat(p->seen, "late", O_RDONLY), -1);
    assert_int_equal(mkdirat(p->seen, "late", 0700), -1); /* only making it tells */
    assert_int_equal(errno, EEXIST);
}

static void test_the_kth_answers_an_error(void **state) {
    place *p = *state;
    begin(p, NULL);
    make(p->behind, "a", "one");
    lag_rule(p->fs, &(lag_spoil){.operation = "open",
                                 .text = "a",
                                 .effect = "fail",
                                 .error = EMFILE,
                                 .first = 2,
                                 .count = 1});
    assert_holds(p->seen, "a", "one");
    assert_int_equal(openat(p->seen, "a", O_RDONLY | O_CLOEXEC), -1);
    assert_int_equal(errno, EMFILE);
    assert_holds(p->seen, "a", "one");
    assert_int_equal(lag_hits(p->fs), 1);
}

static void test_a_name_is_not_seen(void **state) {
    place *p = *state;
    begin(p, NULL);
    make(p->behind, "a", "one");
    lag_rule(p->fs,
             &(lag_spoil){
                 .operation = "look", .text = "a", .effect = "fail", .error = ENOENT, .count = 1});
    assert_false(is_in(p->seen, "a"));
    assert_true(is_in(p->seen, "a"));
    lag_clear(p->fs);
    assert_int_equal(lag_hits(p->fs), 0);
}

static void test_a_reply_is_lost(void **state) {
    place *p = *state;
    begin(p, NULL);
    make(p->seen, "a", "one");
    lag_rule(
        p->fs,
        &(lag_spoil){
            .operation = "rename", .text = "a", .effect = "lose", .error = ETIMEDOUT, .count = 1});
    assert_int_equal(renameat(p->seen, "a", p->seen, "b"), -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_true(is_in(p->behind, "b"));
}

static void test_it_is_done_late(void **state) {
    place *p = *state;
    begin(p, NULL);
    make(p->seen, "a", "one");
    make(p->seen, "c", "");
    lag_rule(p->fs, &(lag_spoil){.operation = "rename",
                                 .text = "a",
                                 .effect = "late",
                                 .error = EIO,
                                 .delay_ms = LAG_HELD_MS});
    lag_rule(p->fs, &(lag_spoil){.operation = "write",
                                 .text = "c",
                                 .effect = "late",
                                 .error = EIO,
                                 .delay_ms = LAG_HELD_MS});
    assert_int_equal(renameat(p->seen, "a", p->seen, "b"), -1);
    int fd = openat(p->seen, "c", O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "two", 3), -1);
    close(fd);
    assert_true(is_in(p->behind, "a"));
    lag_settle(p->fs);
    assert_false(is_in(p->behind, "a"));
    assert_holds(p->seen, "b", "one");
    assert_holds(p->seen, "c", "two");
}

static void test_it_is_late_by_its_time(void **state) {
    place *p = *state;
    begin(p, NULL);
    make(p->seen, "a", "one");
    lag_rule(
        p->fs,
        &(lag_spoil){
            .operation = "unlink", .text = "a", .effect = "late", .error = EIO, .delay_ms = 50});
    double before = now_s();
    assert_int_equal(unlinkat(p->seen, "a", 0), -1);
    while (is_in(p->behind, "a") && now_s() < before + 20) {
        usleep(1000);
    }
    assert_false(is_in(p->behind, "a"));
    assert_true(now_s() >= before + 0.05);
}

static void test_it_is_slow(void **state) {
    place *p = *state;
    begin(p, NULL);
    lag_rule(p->fs,
             &(lag_spoil){.operation = "mkdir", .text = "d", .effect = "slow", .delay_ms = 50});
    double before = now_s();
    assert_int_equal(mkdirat(p->seen, "d", 0700), 0);
    assert_true(now_s() >= before + 0.05);
}

static void test_a_listing_misses_a_name(void **state) {
    place *p = *state;
    begin(p, NULL);
    make(p->behind, "a", "one");
    make(p->behind, "b", "two");
    lag_rule(p->fs, &(lag_spoil){.operation = "name", .text = "a", .effect = "miss", .count = 1});
    for (int listing = 0; listing < 2; listing++) {
        DIR *directory = opendir(lag_path(p->fs));
        assert_non_null(directory);
        int names = 0;
        for (struct dirent *e = readdir(directory); e != NULL; e = readdir(directory)) {
            names += e->d_name[0] != '.';
        }
        closedir(directory);
        assert_int_equal(names, listing == 0 ? 1 : 2);
    }
    assert_true(is_in(p->seen, "a"));
}

static void test_a_mount_with_open_files_stops(void **state) {
    place *p = *state;
    begin(p, NULL);
    make(p->behind, "a", "one");
    int fd = openat(p->seen, "a", O_RDONLY | O_CLOEXEC);
    char path[1100];
    snprintf(path, sizeof path, "%s", lag_path(p->fs));
    tear_down(state);
    assert_int_equal(access(path, F_OK), -1);
    close(fd);
}

int main(void) {
    static place p = {.seen = -1, .behind = -1};
#define TEST(f) cmocka_unit_test_prestate_setup_teardown(f, NULL, tear_down, &p)
    const struct CMUnitTest tests[] = {
        TEST(test_shows_what_is_behind),     TEST(test_names_that_do_not_exist_are_kept),
        TEST(test_the_kth_answers_an_error), TEST(test_a_name_is_not_seen),
        TEST(test_a_reply_is_lost),          TEST(test_it_is_done_late),
        TEST(test_it_is_late_by_its_time),   TEST(test_it_is_slow),
        TEST(test_a_listing_misses_a_name),  TEST(test_a_mount_with_open_files_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
