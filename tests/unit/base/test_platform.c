/* SPDX-License-Identifier: Apache-2.0 */
/* The real platform: clocks, threads, who is alive; and the simulated one that tests use. */
#include "lib/failing_memory.h"
#include "lib/simulated_platform.h"
#include "lib/test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000U

static const platform *real(void) {
    return platform_system();
}

static liveness alive(const process_identity *who) {
    return real()->process_alive(real()->context, who);
}

static process_identity own_identity(void) {
    struct pawl_error err = ERROR_INIT;
    process_identity self;
    assert_ok(real()->identity(real()->context, &self, &err), &err);
    return self;
}

static void test_monotonic_clock_goes_on_while_sleeping(void **state) {
    (void)state;
    uint64_t before = real()->monotonic_ns(real()->context);
    real()->sleep_ns(real()->context, 20 * MS);
    assert_true(real()->monotonic_ns(real()->context) - before >= 20 * MS);
}

static void test_time_for_people_is_of_this_century(void **state) {
    (void)state;
    assert_true(real()->unix_time_ns(real()->context) > (int64_t)1700000000 * 1000000000);
}

static void test_random_bytes_differ_and_fill_everything(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static uint8_t a[100000];
    static uint8_t b[sizeof(a)];
    assert_ok(real()->random_bytes(real()->context, a, sizeof(a), &err), &err);
    assert_ok(real()->random_bytes(real()->context, b, sizeof(b), &err), &err);
    assert_memory_not_equal(a, b, 16);
    assert_memory_not_equal(a + sizeof(a) - 16, b + sizeof(b) - 16, 16);
}

enum { NAME_IS_TEXT, NAME_IS_NOT, NO_NAMESPACE, NO_NAME };

/* Of a host whose name is of bytes that are no text. */
static int look_as_odd_host(void) {
    struct pawl_error err = ERROR_INIT;
    process_identity self;
    if (unshare(CLONE_NEWUTS) != 0 || sethostname("caf\xe9\nn\xc3\xa4", 8) != 0) {
        return errno == EPERM ? NO_NAMESPACE : NO_NAME;
    }
    pawl_status status = real()->identity(real()->context, &self, &err);
    return status == PAWL_OK && strcmp(self.host, "caf??n\xc3\xa4") == 0 ? NAME_IS_TEXT
                                                                         : NAME_IS_NOT;
}

/* Records are text: so is a host's name in them, whatever it was set to. */
static void test_a_host_s_name_is_text(void **state) {
    (void)state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(look_as_odd_host());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_NAMESPACE) {
        print_message("SKIP: no namespace for a host's name (needs CAP_SYS_ADMIN)\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), NAME_IS_TEXT);
}

static void test_own_identity_is_complete(void **state) {
    (void)state;
    process_identity self = own_identity();
    assert_int_equal(self.pid, getpid());
    assert_int_not_equal(strlen(self.host), 0);
    assert_int_equal(strlen(self.boot_id), 36);
    assert_memory_equal(self.pid_namespace, "pid:[", 5);
    assert_true(self.start_ticks > 0);
}

static void test_this_process_is_alive(void **state) {
    (void)state;
    process_identity self = own_identity();
    assert_int_equal(alive(&self), PROCESS_ALIVE);
}

/* A child that waits for its pipe to close; its identity as it saw itself. */
typedef struct child {
    pid_t pid;
    int pipe;
    process_identity identity;
} child;

static void *exit_when_closed(void *pipe_end) {
    char end;
    _exit(read(*(int *)pipe_end, &end, 1) == 0 ? 0 : 1);
}

static void child_main(int read_end, int write_end, bool first_thread_ends) {
    struct pawl_error err = ERROR_INIT;
    process_identity self;
    static int kept_end; /* the first thread's stack does not outlive it */
    pthread_t thread;
    kept_end = read_end;
    if (real()->identity(real()->context, &self, &err) != PAWL_OK ||
        write(write_end, &self, sizeof(self)) != (ssize_t)sizeof(self)) {
        _exit(1);
    }
    if (first_thread_ends && pthread_create(&thread, NULL, exit_when_closed, &kept_end) == 0) {
        pthread_exit(NULL);
    }
    exit_when_closed(&kept_end);
}

static child child_start(bool first_thread_ends) {
    int down[2];
    int up[2];
    child c;
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        close(down[1]);
        child_main(down[0], up[1], first_thread_ends);
    }
    close(down[0]);
    close(up[1]);
    assert_int_equal(read(up[0], &c.identity, sizeof(c.identity)), sizeof(c.identity));
    close(up[0]);
    c.pipe = down[1];
    return c;
}

static void child_reap(child *c) {
    int status;
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    assert_int_equal(status, 0);
}

static void test_child_is_alive_then_a_zombie_is_dead_then_gone_is_dead(void **state) {
    (void)state;
    child c = child_start(false);
    assert_int_equal(c.identity.pid, c.pid);
    assert_int_equal(alive(&c.identity), PROCESS_ALIVE);
    close(c.pipe);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(alive(&c.identity), PROCESS_DEAD);
    child_reap(&c);
    assert_int_equal(alive(&c.identity), PROCESS_DEAD);
}

/* Its start is another one where the pid was given to another process, but also in an image of a
 * process that was restored, and where /proc shows another pid namespace. */
static void test_a_live_pid_of_another_start_proves_nothing(void **state) {
    (void)state;
    process_identity earlier = own_identity();
    earlier.start_ticks--;
    assert_int_equal(alive(&earlier), PROCESS_UNKNOWN);
}

static void test_a_start_told_in_another_time_namespace_proves_nothing(void **state) {
    (void)state;
    process_identity other = own_identity();
    strcpy(other.time_namespace, "time:[1]");
    assert_int_equal(alive(&other), PROCESS_UNKNOWN);
    other.start_ticks += 100000;
    assert_int_equal(alive(&other), PROCESS_UNKNOWN);
    child c = child_start(false);
    strcpy(c.identity.time_namespace, "time:[1]");
    assert_int_equal(alive(&c.identity), PROCESS_UNKNOWN);
    close(c.pipe);
    child_reap(&c);
    assert_int_equal(alive(&c.identity), PROCESS_DEAD);
}

static void test_a_start_of_an_unknown_time_namespace_proves_nothing(void **state) {
    (void)state;
    process_identity older = own_identity();
    if (older.time_namespace[0] == '\0') {
        print_message("SKIP: the kernel has no time namespaces\n");
        skip();
    }
    older.time_namespace[0] = '\0';
    assert_int_equal(alive(&older), PROCESS_UNKNOWN);
}

static void test_process_of_unknown_start_is_unknown_while_its_pid_is_taken(void **state) {
    (void)state;
    process_identity vague = own_identity();
    vague.start_ticks = 0;
    assert_int_equal(alive(&vague), PROCESS_UNKNOWN);
}

static void test_process_elsewhere_is_unknown(void **state) {
    (void)state;
    process_identity other = own_identity();
    strcpy(other.host, "elsewhere.example");
    assert_int_equal(alive(&other), PROCESS_UNKNOWN);
    other = own_identity();
    strcpy(other.boot_id, "00000000-0000-4000-8000-000000000000");
    assert_int_equal(alive(&other), PROCESS_UNKNOWN);
    other = own_identity();
    strcpy(other.pid_namespace, "pid:[1]");
    assert_int_equal(alive(&other), PROCESS_UNKNOWN);
}

static void test_process_of_an_incomplete_or_impossible_identity_is_unknown(void **state) {
    (void)state;
    process_identity who = own_identity();
    who.boot_id[0] = '\0';
    assert_int_equal(alive(&who), PROCESS_UNKNOWN);
    who = own_identity();
    who.pid_namespace[0] = '\0';
    assert_int_equal(alive(&who), PROCESS_UNKNOWN);
    static const int64_t pids[] = {0, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < ARRAY_LENGTH(pids); i++) {
        who = own_identity();
        who.pid = pids[i];
        assert_int_equal(alive(&who), PROCESS_UNKNOWN);
    }
}

static bool is_zombie(pid_t pid) {
    char path[64];
    char text[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *stat = fopen(path, "r");
    assert_non_null(stat);
    assert_non_null(fgets(text, sizeof(text), stat));
    fclose(stat);
    return strstr(text, ") Z ") != NULL;
}

static void test_process_whose_first_thread_ended_is_alive(void **state) {
    (void)state;
    child c = child_start(true);
    for (int i = 0; i < 500 && !is_zombie(c.pid); i++) {
        real()->sleep_ns(real()->context, 10 * MS);
    }
    assert_true(is_zombie(c.pid));
    assert_int_equal(alive(&c.identity), PROCESS_ALIVE);
    close(c.pipe);
    child_reap(&c);
    assert_int_equal(alive(&c.identity), PROCESS_DEAD);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void count_up(void *counter) {
    atomic_fetch_add((atomic_int *)counter, 1);
}

static void test_joined_threads_have_run(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    atomic_int counter = 0;
    platform_thread *threads[8];
    assert_true(real()->concurrent);
    for (size_t i = 0; i < 8; i++) {
        assert_ok(real()->thread_start(real()->context, count_up, &counter, &threads[i], &err),
                  &err);
    }
    for (size_t i = 0; i < 8; i++) {
        real()->thread_join(real()->context, threads[i]);
    }
    assert_int_equal(atomic_load(&counter), 8);
}

static void test_abandoned_thread_runs_on(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static atomic_int counter;
    for (int i = 0; i < 20; i++) {
        platform_thread *thread;
        assert_ok(real()->thread_start(real()->context, count_up, &counter, &thread, &err), &err);
        real()->thread_abandon(real()->context, thread);
    }
    for (int i = 0; i < 1000 && atomic_load(&counter) < 20; i++) {
        real()->sleep_ns(real()->context, 5 * MS);
    }
    assert_int_equal(atomic_load(&counter), 20);
}

static void note_signal_mask(void *mask) {
    pthread_sigmask(SIG_BLOCK, NULL, mask);
}

static void test_threads_leave_signals_to_the_trainer(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    sigset_t before;
    sigset_t after;
    sigset_t within;
    platform_thread *thread;
    note_signal_mask(&before);
    assert_ok(real()->thread_start(real()->context, note_signal_mask, &within, &thread, &err),
              &err);
    real()->thread_join(real()->context, thread);
    note_signal_mask(&after);
    assert_true(sigismember(&within, SIGTERM));
    assert_true(sigismember(&within, SIGUSR1));
    assert_false(sigismember(&within, SIGSEGV));
    assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

static pawl_status start_and_join(void *context, pawl_error *err) {
    platform_thread *thread;
    TRY(real()->thread_start(real()->context, count_up, context, &thread, err));
    real()->thread_join(real()->context, thread);
    return PAWL_OK;
}

static void test_thread_start_survives_every_failing_allocation(void **state) {
    (void)state;
    atomic_int counter = 0;
    assert_int_equal(failing_memory_each(start_and_join, &counter), 2);
    assert_int_equal(atomic_load(&counter), 1);
}

/* ---- the simulated platform ----------------------------------------------------------------- */

static void note_sleep(void *context, uint64_t ns) {
    *(uint64_t *)context += ns;
}

static void test_simulated_clock_moves_by_sleeps_alone(void **state) {
    (void)state;
    simulated_platform s;
    uint64_t noted = 0;
    simulated_platform_init(&s, 1);
    const platform *p = &s.table;
    uint64_t before = p->monotonic_ns(p->context);
    int64_t before_unix = p->unix_time_ns(p->context);
    assert_true(p->monotonic_ns(p->context) == before);
    s.on_sleep = note_sleep;
    s.on_sleep_context = &noted;
    p->sleep_ns(p->context, 5);
    simulated_platform_advance(&s, 2);
    assert_int_equal(p->monotonic_ns(p->context) - before, 7);
    assert_int_equal(p->unix_time_ns(p->context) - before_unix, 7);
    assert_int_equal(s.slept_ns, 5);
    assert_int_equal(noted, 5);
    s.tick_ns = 3;
    assert_int_equal(p->monotonic_ns(p->context) - before, 10);
}

static void test_simulated_randomness_follows_its_seed(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    simulated_platform a, b, c;
    uint8_t of_a[16], of_b[16], of_c[16];
    simulated_platform_init(&a, 1);
    simulated_platform_init(&b, 1);
    simulated_platform_init(&c, 2);
    assert_ok(a.table.random_bytes(&a, of_a, sizeof(of_a), &err), &err);
    assert_ok(b.table.random_bytes(&b, of_b, sizeof(of_b), &err), &err);
    assert_ok(c.table.random_bytes(&c, of_c, sizeof(of_c), &err), &err);
    assert_memory_equal(of_a, of_b, sizeof(of_a));
    assert_memory_not_equal(of_a, of_c, sizeof(of_a));
}

static void test_simulated_thread_has_run_when_start_returns(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    simulated_platform s;
    atomic_int counter = 0;
    platform_thread *thread;
    simulated_platform_init(&s, 1);
    assert_false(s.table.concurrent);
    assert_ok(s.table.thread_start(&s, count_up, &counter, &thread, &err), &err);
    assert_int_equal(atomic_load(&counter), 1);
    s.table.thread_join(&s, thread);
    assert_int_equal(s.threads_joined, 1);
    s.thread_start_fails = true;
    assert_fails(s.table.thread_start(&s, count_up, &counter, &thread, &err), PAWL_ENOMEM, &err);
}

static void test_simulated_processes_live_as_the_test_says(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    simulated_platform s;
    process_identity self;
    simulated_platform_init(&s, 1);
    assert_ok(s.table.identity(&s, &self, &err), &err);
    assert_int_equal(s.table.process_alive(&s, &self), PROCESS_ALIVE);
    self.pid++;
    assert_int_equal(s.table.process_alive(&s, &self), PROCESS_UNKNOWN);
    s.others = PROCESS_DEAD;
    assert_int_equal(s.table.process_alive(&s, &self), PROCESS_DEAD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_monotonic_clock_goes_on_while_sleeping),
        cmocka_unit_test(test_time_for_people_is_of_this_century),
        cmocka_unit_test(test_random_bytes_differ_and_fill_everything),
        cmocka_unit_test(test_a_host_s_name_is_text),
        cmocka_unit_test(test_own_identity_is_complete),
        cmocka_unit_test(test_this_process_is_alive),
        cmocka_unit_test(test_child_is_alive_then_a_zombie_is_dead_then_gone_is_dead),
        cmocka_unit_test(test_a_live_pid_of_another_start_proves_nothing),
        cmocka_unit_test(test_a_start_told_in_another_time_namespace_proves_nothing),
        cmocka_unit_test(test_a_start_of_an_unknown_time_namespace_proves_nothing),
        cmocka_unit_test(test_process_of_unknown_start_is_unknown_while_its_pid_is_taken),
        cmocka_unit_test(test_process_elsewhere_is_unknown),
        cmocka_unit_test(test_process_of_an_incomplete_or_impossible_identity_is_unknown),
        cmocka_unit_test(test_process_whose_first_thread_ended_is_alive),
        cmocka_unit_test(test_joined_threads_have_run),
        cmocka_unit_test(test_abandoned_thread_runs_on),
        cmocka_unit_test(test_threads_leave_signals_to_the_trainer),
        cmocka_unit_test(test_thread_start_survives_every_failing_allocation),
        cmocka_unit_test(test_simulated_clock_moves_by_sleeps_alone),
        cmocka_unit_test(test_simulated_randomness_follows_its_seed),
        cmocka_unit_test(test_simulated_thread_has_run_when_start_returns),
        cmocka_unit_test(test_simulated_processes_live_as_the_test_says),
    };
    return cmocka_run_group_tests_name("base platform", tests, NULL, NULL);
}
