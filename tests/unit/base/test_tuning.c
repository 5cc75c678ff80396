/* SPDX-License-Identifier: Apache-2.0 */
/* What the real platform does to a thread that is to be a good neighbour, as the kernel has it. */
#include "lib/test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IO_WHO_PROCESS     1
#define LOWEST_BEST_EFFORT (2 << 13 | 7)
#define IDLE               (3 << 13)
#define NO_SUCH_CPU        60000

/* What a thread was asked to be, and what it is then. */
typedef struct tuned {
    thread_tuning tuning;
    bool granted;
    char why[160];
    long io_priority;
    cpu_set_t cpus;
} tuned;

static long own_io_priority(void) {
    return syscall(SYS_ioprio_get, IO_WHO_PROCESS, 0);
}

static void tune(void *argument) {
    tuned *t = argument;
    const platform *os = platform_system();
    t->granted = os->thread_tune(os->context, &t->tuning, t->why);
    t->io_priority = own_io_priority();
    (void)sched_getaffinity(0, sizeof(t->cpus), &t->cpus);
}

static tuned in_a_thread(const thread_tuning *tuning) {
    const platform *os = platform_system();
    pawl_error err = ERROR_INIT;
    platform_thread *thread = NULL;
    tuned t = {.tuning = *tuning, .why = "not asked"};
    assert_ok(os->thread_start(os->context, tune, &t, &thread, &err), &err);
    os->thread_join(os->context, thread);
    return t;
}

/* The last processor that this process may run on. */
static int some_cpu(cpu_set_t *own) {
    int last = -1;
    assert_int_equal(sched_getaffinity(0, sizeof(*own), own), 0);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        last = CPU_ISSET((size_t)i, own) ? i : last;
    }
    assert_true(last >= 0);
    return last;
}

/* Nothing asked, nothing changed. */
static void test_nothing_asked_is_nothing_changed(void **state) {
    cpu_set_t own;
    (void)state;
    some_cpu(&own);
    tuned t = in_a_thread(&(thread_tuning){.io_priority = PAWL_IO_PRIORITY_DEFAULT});
    assert_true(t.granted);
    assert_string_equal(t.why, "");
    assert_int_equal(t.io_priority, own_io_priority());
    assert_true(CPU_EQUAL(&t.cpus, &own));
}

/* The kernel has the priority that was asked for, of that thread alone. */
static void test_io_priorities_take_effect(void **state) {
    long before = own_io_priority();
    (void)state;
    tuned low = in_a_thread(&(thread_tuning){.io_priority = PAWL_IO_PRIORITY_LOW});
    tuned idle = in_a_thread(&(thread_tuning){.io_priority = PAWL_IO_PRIORITY_IDLE});
    assert_true(low.granted && idle.granted);
    assert_int_equal(low.io_priority, LOWEST_BEST_EFFORT);
    assert_int_equal(idle.io_priority, IDLE);
    assert_int_equal(own_io_priority(), before);
}

/* A thread keeps to the processors that it was given; others do not. */
static void test_processors_take_effect(void **state) {
    cpu_set_t own, after;
    int cpu = some_cpu(&own);
    (void)state;
    tuned t = in_a_thread(&(thread_tuning){.cpus = &cpu, .cpu_count = 1});
    assert_true(t.granted);
    assert_int_equal(CPU_COUNT(&t.cpus), 1);
    assert_true(CPU_ISSET((size_t)cpu, &t.cpus));
    some_cpu(&after);
    assert_true(CPU_EQUAL(&own, &after));
}

/* What is refused is named, and the rest is done. */
static void test_a_refusal_is_named_and_the_rest_is_done(void **state) {
    static const int wrong[] = {NO_SUCH_CPU, -1, 1 << 30};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        tuned t = in_a_thread(&(thread_tuning){
            .io_priority = PAWL_IO_PRIORITY_LOW, .cpus = &wrong[i], .cpu_count = 1});
        assert_false(t.granted);
        assert_string_equal(t.why, "cannot keep to the processors given: Invalid argument (EINVAL, "
                                   "errno 22)");
        assert_int_equal(t.io_priority, LOWEST_BEST_EFFORT);
    }
}

/* From now on no thread of this one's making may set I/O priorities. */
static bool forbid_io_priorities(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioprio_set, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = ARRAY_LENGTH(rules), .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Where both are refused, both are named. */
static void test_each_refusal_is_named(void **state) {
    static const int wrong = NO_SUCH_CPU;
    (void)state;
    if (!forbid_io_priorities()) {
        assert_int_equal(errno, EINVAL); /* what a kernel without them says */
        print_message("skipped: this system has no seccomp filters\n");
        skip();
    }
    tuned t = in_a_thread(
        &(thread_tuning){.io_priority = PAWL_IO_PRIORITY_IDLE, .cpus = &wrong, .cpu_count = 1});
    assert_false(t.granted);
    assert_string_equal(t.why,
                        "cannot keep to the processors given: Invalid argument (EINVAL, errno 22); "
                        "cannot set the I/O priority: Operation not permitted (EPERM, errno 1)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_asked_is_nothing_changed),
        cmocka_unit_test(test_io_priorities_take_effect),
        cmocka_unit_test(test_processors_take_effect),
        cmocka_unit_test(test_a_refusal_is_named_and_the_rest_is_done),
        cmocka_unit_test(test_each_refusal_is_named), /* last: it stays forbidden */
    };
    return cmocka_run_group_tests_name("base tuning", tests, NULL, NULL);
}
