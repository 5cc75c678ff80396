/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody is advised to kill what is not the writer: an owner's record may say anything, and people
 * do what a message says. */
#include "outside/small_run.h"

#include <signal.h>
#include <sys/wait.h>

#define NOBODY 65534

static process_identity self(void) {
    process_identity who;
    struct pawl_error err = ERROR_INIT;
    assert_ok(platform_system()->identity(NULL, &who, &err), &err);
    return who;
}

/* When a process of this host began. */
static unsigned long long start_of(int64_t pid) {
    char path[64];
    char text[2048];
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    const char *at = strrchr(small_read(path, text, sizeof text), ')');
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at != NULL) {
        ticks = strtoull(at, NULL, 10);
    }
    return ticks;
}

static void forge(const small_run *s, const process_identity *who) {
    char path[256];
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "{\"counter\":\"00000000000000000001\",\"host\":\"%s\",\"pid\":%lld,"
                     "\"boot_id\":\"%s\",\"pid_namespace\":\"%s\",\"time_namespace\":\"%s\","
                     "\"start_ticks\":%llu,\"attempt\":\"aaaaaaaaaaaa\",\"lease_s\":30}",
                     who->host, (long long)who->pid, who->boot_id, who->pid_namespace,
                     who->time_namespace, (unsigned long long)who->start_ticks);
    small_write(small_at(s, path, "owner-00000007"), text, (size_t)n);
}

/* What an opening says that does not wait. */
static const char *refusal(small_run *s) {
    pawl_run_options options = small_options(s);
    options.takeover_wait_s = -1;
    assert_fails(pawl_run_open(s->path, &options, &s->run, s->err), PAWL_EBUSY, s->err);
    return pawl_error_text(s->err);
}

static void assert_no_advice(small_run *s, const process_identity *who, const char *words) {
    forge(s, who);
    const char *text = refusal(s);
    assert_null(strstr(text, "kill"));
    assert_says(text, words);
}

/* Of this host, as it is: everybody's parent. */
static void test_31_nobody_is_advised_to_kill_process_1(void **state) {
    small_run *s = *state;
    process_identity who = self();
    small_make(s);
    who.pid = 1;
    who.start_ticks = start_of(1);
    assert_no_advice(s, &who, "process 1");
    assert_says(pawl_error_get(s->err, PAWL_ERROR_NEXT), "remove owner-00000007");
}

/* Nor, through the command, its own shell. */
static void test_31_nobody_is_advised_to_kill_what_he_runs_under(void **state) {
    small_run *s = *state;
    process_identity who = self();
    small_make(s);
    who.pid = getppid();
    who.start_ticks = start_of(who.pid);
    if (who.pid > 1) {
        assert_no_advice(s, &who, "runs under");
    }
}

/* A pid of another host, container or boot, or one that was given to another process since. */
static void test_31_nobody_is_advised_to_kill_what_cannot_be_proven(void **state) {
    small_run *s = *state;
    static const char *const changed[] = {"host", "boot", "pid namespace", "start", "none"};
    pid_t other = fork();
    if (other == 0) {
        pause();
        _exit(0);
    }
    small_make(s);
    for (size_t i = 0; i < ARRAY_LENGTH(changed); i++) {
        process_identity who = self();
        who.pid = other;
        who.start_ticks = start_of(other) + (i == 3);
        snprintf(i == 0   ? who.host
                 : i == 1 ? who.boot_id
                 : i == 2 ? who.pid_namespace
                          : (char[16]){0},
                 16, "other");
        forge(s, &who);
        const char *text = refusal(s);
        print_message("%s\n", changed[i]);
        assert_int_equal(strstr(text, "kill") != NULL, i == 4);
    }
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
}

/* Whose it is is said instead. */
static void test_31_nobody_is_advised_to_kill_what_is_not_his(void **state) {
    small_run *s = *state;
    if (geteuid() != 0) {
        print_message("SKIP: only root can have a process of another user\n");
        skip();
    }
    pid_t other = fork();
    if (other == 0) {
        _exit(setuid(NOBODY) == 0 ? pause() : 1);
    }
    process_identity who = self();
    small_make(s);
    who.pid = other;
    who.start_ticks = start_of(other);
    small_sleep(0.3);
    assert_no_advice(s, &who, "user 65534's");
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
}

/* A writer that is one is named, so that it can be ended. */
static void test_31_the_writer_itself_can_be_ended(void **state) {
    small_run *s = *state;
    char wanted[64];
    char byte;
    int ready[2];
    small_make(s);
    assert_int_equal(pipe(ready), 0);
    pid_t writer = fork();
    if (writer == 0) {
        const pawl_run_options options = {.struct_size = sizeof options};
        if (pawl_run_open(s->path, &options, &s->run, NULL) == PAWL_OK) {
            (void)!write(ready[1], "r", 1);
            pause();
        }
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    snprintf(wanted, sizeof wanted, "kill %lld)", (long long)writer);
    assert_says(refusal(s), wanted);
    assert_int_equal(kill(writer, SIGKILL), 0);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    close(ready[0]);
    close(ready[1]);
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, small_set_up, small_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_31_nobody_is_advised_to_kill_process_1),
        TEST(test_31_nobody_is_advised_to_kill_what_he_runs_under),
        TEST(test_31_nobody_is_advised_to_kill_what_cannot_be_proven),
        TEST(test_31_nobody_is_advised_to_kill_what_is_not_his),
        TEST(test_31_the_writer_itself_can_be_ended),
    };
    return cmocka_run_group_tests_name("31: whom to kill", tests, NULL, NULL);
}
