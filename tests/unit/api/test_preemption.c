/* SPDX-License-Identifier: Apache-2.0 */
/* The preemption helper: a flag, and the handler that was there before (S13). */
#include "lib/test.h"

#include <pawl/pawl.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t earlier_calls;
static volatile sig_atomic_t earlier_info_calls;

static void earlier(int number) {
    (void)number;
    earlier_calls++;
}

static void earlier_info(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info != NULL && info->si_signo == number) {
        earlier_info_calls++;
    }
}

static int set_up(void **state) {
    (void)state;
    earlier_calls = 0;
    earlier_info_calls = 0;
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    pawl_preemption_unwatch();
    return 0;
}

static void watch(int number) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(pawl_preemption_watch(&number, 1, &err), &err);
}

static void test_s13_a_signal_sets_the_flag_and_nothing_else(void **state) {
    (void)state;
    watch(SIGUSR1);
    assert_int_equal(pawl_preempted(), 0);
    assert_int_equal(raise(SIGUSR1), 0); /* would end the process without us */
    assert_int_equal(pawl_preempted(), SIGUSR1);
    assert_int_equal(pawl_preempted(), SIGUSR1);
}

static void test_s13_the_earlier_handler_is_called_as_well(void **state) {
    (void)state;
    signal(SIGUSR1, earlier);
    watch(SIGUSR1);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(earlier_calls, 1);
    assert_int_equal(pawl_preempted(), SIGUSR1);
}

static void test_s13_an_earlier_handler_with_information_gets_it(void **state) {
    (void)state;
    struct sigaction before = {.sa_flags = SA_SIGINFO};
    before.sa_sigaction = earlier_info;
    assert_int_equal(sigaction(SIGUSR2, &before, NULL), 0);
    watch(SIGUSR2);
    assert_int_equal(raise(SIGUSR2), 0);
    assert_int_equal(earlier_info_calls, 1);
}

static void test_an_ignored_signal_is_caught(void **state) {
    (void)state;
    signal(SIGUSR1, SIG_IGN);
    watch(SIGUSR1);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(pawl_preempted(), SIGUSR1);
}

static void test_watching_twice_calls_the_earlier_handler_once(void **state) {
    (void)state;
    signal(SIGUSR1, earlier);
    watch(SIGUSR1);
    watch(SIGUSR1);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(earlier_calls, 1);
}

static void test_unwatching_puts_the_earlier_handler_back(void **state) {
    (void)state;
    signal(SIGUSR1, earlier);
    watch(SIGUSR1);
    assert_int_equal(raise(SIGUSR1), 0);
    pawl_preemption_unwatch();
    assert_int_equal(pawl_preempted(), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(pawl_preempted(), 0);
    assert_int_equal(earlier_calls, 2);
}

/* A handler that came after ours and calls ours must go on to find it. */
static void test_a_later_handler_is_not_removed(void **state) {
    (void)state;
    struct sigaction now;
    watch(SIGUSR1);
    signal(SIGUSR1, earlier);
    pawl_preemption_unwatch();
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_true(now.sa_handler == earlier);
}

/* As a trainer's own clean-up, or signal.signal(..., SIG_DFL) in Python, takes it away. */
static void test_a_handler_that_was_taken_away_is_installed_again(void **state) {
    (void)state;
    watch(SIGUSR1);
    signal(SIGUSR1, SIG_DFL);
    watch(SIGUSR1);
    assert_int_equal(raise(SIGUSR1), 0); /* would end the process */
    assert_int_equal(pawl_preempted(), SIGUSR1);
    signal(SIGUSR1, SIG_IGN);
    pawl_preemption_unwatch();
    watch(SIGUSR1);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(pawl_preempted(), SIGUSR1);
}

/* How a child ends that was forked meanwhile. */
static int ended(void (*body)(void)) {
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void gets_the_signal(void) {
    (void)raise(SIGUSR1);
}

static void watches_by_itself(void) {
    const int number = SIGUSR1;
    struct pawl_error err = ERROR_INIT;
    if (pawl_preempted() != 0 || pawl_preemption_watch(&number, 1, &err) != PAWL_OK ||
        raise(SIGUSR1) != 0 || pawl_preempted() != SIGUSR1) {
        _exit(1);
    }
}

static void test_a_forked_child_is_ended_by_the_signal(void **state) {
    (void)state;
    watch(SIGUSR1);
    int status = ended(gets_the_signal);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGUSR1);
    assert_int_equal(pawl_preempted(), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(pawl_preempted(), SIGUSR1);
}

static void test_a_forked_child_may_watch_by_itself(void **state) {
    (void)state;
    watch(SIGUSR1);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(ended(watches_by_itself), 0);
    assert_int_equal(pawl_preempted(), SIGUSR1);
}

static void test_signals_that_cannot_be_caught_are_refused(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    struct sigaction now;
    const int signals[] = {SIGUSR1, SIGKILL};
    const int none[] = {0};
    const int beyond[] = {100000};
    assert_fails(pawl_preemption_watch(signals, 2, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "cannot watch signal 9");
    assert_string_equal(err.next,
                        "watch signals that can be caught, such as SIGTERM, SIGUSR1 and SIGUSR2");
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL); /* as before */
    assert_fails(pawl_preemption_watch(none, 1, &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_preemption_watch(beyond, 1, &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_preemption_watch(NULL, 1, &err), PAWL_EUSAGE, &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_s13_a_signal_sets_the_flag_and_nothing_else),
        TEST(test_s13_the_earlier_handler_is_called_as_well),
        TEST(test_s13_an_earlier_handler_with_information_gets_it),
        TEST(test_an_ignored_signal_is_caught),
        TEST(test_watching_twice_calls_the_earlier_handler_once),
        TEST(test_unwatching_puts_the_earlier_handler_back),
        TEST(test_a_later_handler_is_not_removed),
        TEST(test_a_handler_that_was_taken_away_is_installed_again),
        TEST(test_a_forked_child_is_ended_by_the_signal),
        TEST(test_a_forked_child_may_watch_by_itself),
        TEST(test_signals_that_cannot_be_caught_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
