/* SPDX-License-Identifier: Apache-2.0 */
/* Files and names that look like an owner's record and are none: whatever they are, a run is
 * listed, opened, saved to, cleared of leftovers and removed from within a bounded time, and
 * nothing is lost. */
#include "outside/small_run.h"

#include <errno.h>
#include <sys/wait.h>

#define BOUND_S 10.0 /* two leases would be 2 s; machines are slow */

static const char attempt[] = "aaaaaaaaaaaa";

/* A record that nobody advances, of a process that nobody can judge. */
static void write_record(const char *path, const char *counter, const char *host, const char *pid,
                         const char *of_attempt, const char *lease, const char *more) {
    static char text[70000];
    int n =
        snprintf(text, sizeof text,
                 "{\"counter\":\"%s\",\"host\":\"%s\",\"pid\":%s,\"boot_id\":\"b\","
                 "\"pid_namespace\":\"p\",\"start_ticks\":1%s,\"attempt\":\"%s\",\"lease_s\":%s}",
                 counter, host, pid, more, of_attempt, lease);
    small_write(path, text, (size_t)n);
}

#define ONE "00000000000000000001"

static void put_good(const char *path) {
    write_record(path, ONE, "h", "1", attempt, "1", "");
}
static void put_other_generation(const char *path) {
    write_record(path, ONE, "h", "1", attempt, "1", ",\"generation\":77");
}
static void put_lease_huge(const char *path) {
    write_record(path, ONE, "h", "1", attempt, "1e308", "");
}
static void put_lease_negative(const char *path) {
    write_record(path, ONE, "h", "1", attempt, "-1", "");
}
static void put_lease_tiny(const char *path) {
    write_record(path, ONE, "h", "1", attempt, "1e-300", "");
}
static void put_pid_negative(const char *path) {
    write_record(path, ONE, "h", "-1", attempt, "1", "");
}
static void put_pid_big(const char *path) {
    write_record(path, ONE, "h", "4611686018427387904", attempt, "1", "");
}
static void put_pid_fraction(const char *path) {
    write_record(path, ONE, "h", "1.5", attempt, "1", "");
}
static void put_escapes(const char *path) {
    write_record(path, ONE, "\\u001b[2J\\u202e\\n", "1", "\\u001b[31m", "1e5", "");
}
static void put_counter(const char *path) {
    write_record(path, "99999999999999999999", "h", "1", attempt, "1", "");
}
static void put_long(const char *path) {
    static char host[60001];
    memset(host, 'h', sizeof host - 1);
    write_record(path, ONE, host, "1", attempt, "1", "");
}
static void put_garbage(const char *path) {
    char bytes[1000];
    memset(bytes, 0xff, sizeof bytes);
    small_write(path, bytes, sizeof bytes);
}
static void put_deep(const char *path) {
    static char bytes[60000];
    memset(bytes, '[', sizeof bytes);
    small_write(path, bytes, sizeof bytes);
}
static void put_nothing(const char *path) {
    small_write(path, "", 0);
}
static void put_huge(const char *path) {
    put_nothing(path);
    assert_int_equal(truncate(path, 10 << 20), 0);
}
static void put_directory(const char *path) {
    assert_int_equal(mkdir(path, 0777), 0);
}
static void put_pipe(const char *path) {
    assert_int_equal(mkfifo(path, 0666), 0);
}
static void put_link(const char *path) {
    assert_int_equal(symlink("/etc/passwd", path), 0);
}
static void put_old(const char *path) {
    const struct timespec times[2] = {{.tv_sec = 2524608000}, {.tv_sec = -86400}};
    put_good(path);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

typedef enum outcome {
    FREE,    /* it counts for nothing: no wait, and saves of a run that is open go on */
    FREE_IF, /* the same, and the log tells people of the name */
    WATCHED, /* for a lease: it may be a record on its way, or a living owner's */
    LAST     /* the end of generations */
} outcome;

typedef struct stray {
    const char *what, *name;
    void (*put)(const char *path);
    outcome outcome;
} stray;

static const stray strays[] = {
    {"18 digits", "owner-999999999999999999", put_good, FREE_IF},
    {"19 digits", "owner-9999999999999999999", put_good, FREE_IF},
    {"30 digits", "owner-999999999999999999999999999999", put_nothing, FREE_IF},
    {"above the last", "owner-1000000000000", put_good, FREE_IF},
    {"zeros before it", "owner-000000000000000001", put_good, FREE_IF},
    {"no zeros before it", "owner-7", put_good, FREE_IF},
    {"zero", "owner-00000000", put_good, FREE_IF},
    {"a directory", "owner-00000009", put_directory, FREE},
    {"a pipe", "owner-00000009", put_pipe, FREE},
    {"a symbolic link", "owner-00000009", put_link, FREE},
    {"a good record", "owner-00000009", put_good, WATCHED},
    {"a copy of another one", "owner-00000009", put_other_generation, WATCHED},
    {"garbage", "owner-00000009", put_garbage, WATCHED},
    {"nothing in it", "owner-00000009", put_nothing, WATCHED},
    {"10 MiB", "owner-00000009", put_huge, WATCHED},
    {"deep", "owner-00000009", put_deep, WATCHED},
    {"a lease of 1e308 s", "owner-00000009", put_lease_huge, WATCHED},
    {"a lease below 0", "owner-00000009", put_lease_negative, WATCHED},
    {"a lease of 1e-300 s", "owner-00000009", put_lease_tiny, WATCHED},
    {"a pid below 0", "owner-00000009", put_pid_negative, WATCHED},
    {"a pid of 2^62", "owner-00000009", put_pid_big, WATCHED},
    {"a pid of 1.5", "owner-00000009", put_pid_fraction, WATCHED},
    {"escapes", "owner-00000009", put_escapes, WATCHED},
    {"a host of 60000 characters", "owner-00000009", put_long, WATCHED},
    {"a counter beyond 64 bits", "owner-00000009", put_counter, WATCHED},
    {"times before 1970", "owner-00000009", put_old, WATCHED},
    {"the last generation", "owner-999999999999", put_good, LAST},
};

static void put(small_run *s, const stray *x) {
    char path[256];
    x->put(small_at(s, path, x->name));
}

/* ---- one process each, because each waits for a lease --------------------------------------- */

typedef struct part {
    const stray *stray;
    void (*body)(small_run *s, const stray *x);
} part;

static void test_a_stray_does_no_harm(void **state) {
    const part *p = *state;
    void *own = NULL;
    assert_int_equal(small_set_up(&own), 0);
    p->body(own, p->stray);
    assert_int_equal(small_tear_down(&own), 0);
}

static pid_t start_part(const stray *x, void (*body)(small_run *s, const stray *x)) {
    part p = {.stray = x, .body = body};
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct CMUnitTest tests[] = {
            {.name = x->what, .test_func = test_a_stray_does_no_harm, .initial_state = &p}};
        _exit(cmocka_run_group_tests_name(x->what, tests, NULL, NULL));
    }
    return child;
}

/* With all strays at once. */
static void run_parts(void (*body)(small_run *s, const stray *x)) {
    pid_t children[ARRAY_LENGTH(strays)];
    for (size_t i = 0; i < ARRAY_LENGTH(strays); i++) {
        children[i] = start_part(&strays[i], body);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(strays); i++) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

/* ---- before a run is opened ----------------------------------------------------------------- */

static void count_steps(const small_run *s, size_t wanted) {
    pawl_catalog *catalog;
    assert_ok(pawl_catalog_open(s->path, NULL, &catalog, s->err), s->err);
    assert_int_equal(pawl_catalog_count(catalog), wanted);
    pawl_catalog_free(catalog);
}

static void use(small_run *s, const stray *x) {
    pawl_run_options options = small_options(s);
    count_steps(s, 2);
    pawl_status status = pawl_run_open(s->path, &options, &s->run, s->err);
    if (x->outcome == LAST) {
        assert_int_equal(status, PAWL_ELIMIT);
        assert_says(pawl_error_text(s->err), "remove owner-999999999999");
        return;
    }
    assert_ok(status, s->err);
    small_save(s, 3);
    assert_ok(pawl_run_gc(s->run, 0, NULL, NULL, s->err), s->err);
    assert_ok(pawl_run_remove(s->run, 1, 0, s->err), s->err);
    small_close(s);
    count_steps(s, 2);
}

static void check_told(const small_run *s, const stray *x) {
    char path[256];
    if (x->outcome == FREE_IF) {
        assert_says(s->log, x->name);
        assert_says(s->log, "remove it");
        assert_true(small_there(small_at(s, path, x->name)));
    }
}

static void use_in_time(small_run *s, const stray *x) {
    double begun_s = test_now_s();
    small_make(s);
    put(s, x);
    use(s, x);
    assert_true(test_now_s() - begun_s < BOUND_S);
    check_told(s, x);
}

/* Listing, opening, saving, sweeping and removing work beside each of them, in time. */
static void test_27_a_run_with_a_stray_record_is_used_as_any_other(void **state) {
    (void)state;
    run_parts(use_in_time);
}

static bool counts_for_nothing(const stray *x) {
    return x->outcome == FREE || x->outcome == FREE_IF;
}

/* A lease would be 600 s here. */
static void use_at_once(small_run *s, const stray *x) {
    pawl_run_options options = small_options(s);
    options.lease_s = 600;
    options.takeover_wait_s = -1;
    if (counts_for_nothing(x)) {
        small_make(s);
        put(s, x);
        assert_ok(pawl_run_open(s->path, &options, &s->run, s->err), s->err);
        small_save(s, 3);
        small_close(s);
    }
}

/* What counts for nothing makes nobody wait. */
static void test_27_what_counts_for_nothing_makes_nobody_wait(void **state) {
    (void)state;
    run_parts(use_at_once);
}

/* ---- beside a run that is open -------------------------------------------------------------- */

/* Until a stray that may be a record on its way was watched for a lease, saves say so; then they go
 * on. Of what counts for nothing they hear nothing. */
static void save_beside(small_run *s, const stray *x) {
    double begun_s = test_now_s();
    pawl_status status = PAWL_EIO;
    for (int64_t step = 3; test_now_s() - begun_s < 0.5; step++) {
        status = small_try_save(s, step);
        if (counts_for_nothing(x)) {
            assert_ok(status, s->err);
        }
        small_sleep(0.05);
    }
    while (status != PAWL_OK && test_now_s() - begun_s < BOUND_S) {
        small_sleep(0.2);
        status = small_try_save(s, 1000);
    }
    assert_ok(status, s->err);
}

/* A forged record that is good in all it says is another writer's: nobody can tell; and behind the
 * last generation there is none. */
static bool takes_the_run(const stray *x) {
    return x->put == put_old || x->put == put_pid_big || x->outcome == LAST ||
           (x->put == put_good && x->outcome == WATCHED);
}

static void keep_saving(small_run *s, const stray *x) {
    if (!takes_the_run(x)) {
        small_open(s);
        small_save(s, 1);
        put(s, x);
        save_beside(s, x);
        small_close(s);
    }
}

/* All else costs no job its saves. */
static void test_27_a_stray_record_costs_a_job_nothing(void **state) {
    (void)state;
    run_parts(keep_saving);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int command(const char *verb, const small_run *s, const char *at) {
    char line[512];
    snprintf(line, sizeof line, "timeout 20 " PAWL_COMMAND " %s %s%s > /dev/null 2>&1", verb,
             s->path, at);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void command_it(small_run *s, const stray *x) {
    small_make(s);
    put(s, x);
    assert_int_equal(command("ls", s, ""), 0);
    if (counts_for_nothing(x)) {
        assert_int_equal(command("gc", s, ""), 0);
        assert_int_equal(command("rm", s, "@1"), 0);
    }
}

/* ls of any, gc and rm of those that make nobody wait, which for a command is 30 s. */
static void test_27_the_command_does_not_hang(void **state) {
    (void)state;
    run_parts(command_it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_27_a_run_with_a_stray_record_is_used_as_any_other),
        cmocka_unit_test(test_27_what_counts_for_nothing_makes_nobody_wait),
        cmocka_unit_test(test_27_a_stray_record_costs_a_job_nothing),
        cmocka_unit_test(test_27_the_command_does_not_hang),
    };
    return cmocka_run_group_tests_name("27: stray owners' records", tests, NULL, NULL);
}
