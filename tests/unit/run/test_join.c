/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that open a run together: threads of this process on one store, each as its own job. */
#include "lib/local_group.h"
#include "lib/test.h"

#include "run/meet.h"
#include "store/wrap.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_RANKS 6

typedef struct job {
    store *disk;               /* that all see */
    store *others[MOST_RANKS]; /* that one rank sees instead; NULL: the disk */
    bool absent[MOST_RANKS];   /* it sees no directory */
    local_group *group;        /* NULL: the ranks meet through files */
    int world_size;
    const char *launch[MOST_RANKS];
    int ranks[MOST_RANKS]; /* what each process calls itself */
    int sizes[MOST_RANKS];
    pawl_run_options options;
    bool stays_away[MOST_RANKS];
    pawl_run *runs[MOST_RANKS];
    pawl_status status[MOST_RANKS];
    struct pawl_error err[MOST_RANKS];
    char log[4096];
} job;

typedef struct seat {
    job *job;
    int number;
} seat;

/* The run destroys what it opened; the disk stays. */
static pawl_status pass_on(store_wrapper *w, store_call *call, pawl_error *err) {
    (void)w;
    return store_call_inner(call, err);
}

static void forget(store_wrapper *w) {
    store_wrapper_clear(w);
    mem_free(w);
}

static store *view_of(store *inner) {
    struct pawl_error err = ERROR_INIT;
    store_wrapper *w = mem_calloc(1, sizeof *w);
    assert_non_null(w);
    assert_ok(store_wrapper_init(w, inner, &err), &err);
    w->around = pass_on;
    w->destroy = forget;
    return &w->base;
}

static pawl_status open_view(void *context, bool create, store **out, pawl_error *err) {
    const seat *s = context;
    job *j = s->job;
    if (j->absent[s->number] && !create) {
        error_set(err, PAWL_ENOTFOUND, "there is no such directory");
        error_path(err, "/runs/a");
        error_found(err, "/runs exists, but there is no a in it");
        return PAWL_ENOTFOUND;
    }
    *out = view_of(j->others[s->number] != NULL ? j->others[s->number] : j->disk);
    return PAWL_OK;
}

static void note_log(void *context, pawl_log_level level, const char *text) {
    job *j = context;
    (void)level;
    size_t at = strlen(j->log);
    (void)snprintf(j->log + at, sizeof j->log - at, "%s\n", text);
}

static void init(job *j, int world_size, bool connected) {
    struct pawl_error err = ERROR_INIT;
    memset(j, 0, sizeof *j);
    j->world_size = world_size;
    j->group = connected ? local_group_new(world_size) : NULL;
    j->options = (pawl_run_options){
        .struct_size = sizeof j->options, .group_deadline_s = 20, .no_event_file = 1};
    for (int r = 0; r < world_size; r++) {
        j->launch[r] = connected ? NULL : "job.0";
        j->ranks[r] = r;
        j->sizes[r] = world_size;
    }
    assert_ok(store_mem(&j->disk, &err), &err);
}

static void open_one(void *context, int number) {
    job *j = context;
    seat s = {.job = j, .number = number};
    const run_place place = {.context = &s, .open = open_view};
    if (j->stays_away[number]) {
        return;
    }
    pawl_group group = {.struct_size = sizeof group};
    if (j->group != NULL) {
        group = local_group_of(j->group, number);
    }
    group.rank = j->ranks[number];
    group.world_size = j->sizes[number];
    group.launch = j->launch[number];
    pawl_run_options options = j->options;
    options.group = &group;
    if (number == 0) {
        options.log = (pawl_log){.write = note_log, .context = j, .level = PAWL_LOG_WARN};
    }
    j->err[number] = ERROR_INIT;
    j->status[number] =
        run_open_at(&place, &options, platform_system(), &j->runs[number], &j->err[number]);
}

static void open_all(job *j) {
    local_group_run(j->world_size, open_one, j);
}

static void close_all(job *j) {
    for (int r = j->world_size - 1; r >= 0; r--) {
        if (j->runs[r] != NULL) {
            assert_ok(run_close(j->runs[r], 0, &j->err[r]), &j->err[r]);
            j->runs[r] = NULL;
        }
    }
}

static void end(job *j) {
    close_all(j);
    for (int r = 0; r < j->world_size; r++) {
        store_destroy(j->others[r]);
    }
    store_destroy(j->disk);
    if (j->group != NULL) {
        local_group_free(j->group);
    }
}

static void assert_all_open(job *j) {
    for (int r = 0; r < j->world_size; r++) {
        assert_ok(j->status[r], &j->err[r]);
        assert_int_equal(j->runs[r]->rank, r);
        assert_string_equal(j->runs[r]->attempt, j->runs[0]->attempt);
        assert_int_equal(strlen(j->runs[r]->attempt), 12);
        assert_true((j->runs[r]->owner != NULL) == (r == 0));
    }
}

/* On every rank that is there; {h} stands for this host. */
static void assert_all_fail(job *j, pawl_status status, const char *attempt) {
    struct pawl_error err = ERROR_INIT;
    process_identity self;
    char wanted[2048] = "";
    assert_ok(platform_system()->identity(platform_system()->context, &self, &err), &err);
    for (const char *at = attempt; *at != '\0'; at++) {
        bool host = strncmp(at, "{h}", 3) == 0;
        size_t n = strlen(wanted);
        (void)snprintf(wanted + n, sizeof wanted - n, "%.*s", host ? 300 : 1,
                       host ? self.host : at);
        at += host ? 2 : 0;
    }
    for (int r = 0; r < j->world_size; r++) {
        if (!j->stays_away[r]) {
            assert_fails(j->status[r], status, &j->err[r]);
            assert_string_equal(j->err[r].attempt, wanted);
        }
    }
}

/* Word for word. */
static void assert_same_everywhere(job *j) {
    const char *first = NULL;
    for (int r = 0; r < j->world_size; r++) {
        if (!j->stays_away[r]) {
            const char *text = error_text(&j->err[r]);
            first = first != NULL ? first : text;
            assert_string_equal(text, first);
        }
    }
}

static size_t names_beginning(job *j, const char *prefix) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    size_t found = 0;
    assert_ok(store_names(j->disk, "", 1000, &memory, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        found += strncmp(names[i], prefix, strlen(prefix)) == 0;
    }
    return found;
}

static void test_ranks_open_a_run_by_their_callbacks(void **state) {
    (void)state;
    job j;
    init(&j, 4, true);
    open_all(&j);
    assert_all_open(&j);
    assert_int_equal(names_beginning(&j, "meet-"), 0);
    end(&j);
}

static void test_ranks_open_a_run_through_files(void **state) {
    (void)state;
    job j;
    init(&j, 4, false);
    open_all(&j);
    assert_all_open(&j);
    close_all(&j);
    assert_int_equal(names_beginning(&j, "meet-"),
                     1); /* the last answer: someone may look for it */
    end(&j);
}

static void test_p05_ranks_that_have_no_such_directory_are_named_on_all(void **state) {
    (void)state;
    job j;
    init(&j, 5, true);
    j.options.group_deadline_s = 1;
    j.absent[1] = j.absent[3] = j.absent[4] = true;
    open_all(&j);
    assert_all_fail(
        &j, PAWL_ENOTFOUND,
        "open run: ranks 1, 3 and 4 on host {h} cannot see the directory of rank 0 on host {h}");
    assert_same_everywhere(&j);
    end(&j);
}

static void test_p06_ranks_with_another_directory_are_named_on_all(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    job j;
    init(&j, 4, true);
    j.options.group_deadline_s = 1;
    assert_ok(store_mem(&j.others[3], &err), &err);
    open_all(&j);
    assert_all_fail(&j, PAWL_ENOTFOUND,
                    "open run: rank 3 on host {h} cannot see what rank 0 on host {h} wrote");
    assert_same_everywhere(&j);
    end(&j);
}

static void test_s11_a_rank_that_does_not_come_is_named_on_all(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        job j;
        init(&j, 4, connected);
        j.options.group_deadline_s = 1;
        j.stays_away[1] = j.stays_away[2] = true;
        open_all(&j);
        assert_all_fail(&j, PAWL_ETIMEOUT, "open run: ranks 1 and 2 did not come");
        assert_same_everywhere(&j);
        end(&j);
    }
}

static void test_s11_rank_0_that_does_not_come_is_named_on_all(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        job j;
        init(&j, 3, connected);
        j.options.group_deadline_s = 1;
        j.stays_away[0] = true;
        open_all(&j);
        assert_all_fail(&j, PAWL_ETIMEOUT, "open run: rank 0 did not answer");
        end(&j);
    }
}

static void test_what_rank_0_cannot_open_no_rank_can(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        struct pawl_error err = ERROR_INIT;
        job j;
        pawl_run *other;
        init(&j, 3, connected);
        assert_ok(run_open(view_of(j.disk), NULL, platform_system(), &other, &err), &err);
        j.options.takeover_wait_s = -1;
        open_all(&j);
        assert_all_fail(
            &j, PAWL_EBUSY,
            "rank 0 (host {h}): open run: another handle of this process writes to this run");
        assert_same_everywhere(&j);
        assert_ok(run_close(other, 0, &err), &err);
        end(&j);
    }
}

static void test_ranks_of_jobs_of_different_size_are_told_apart(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        job j;
        init(&j, 3, connected);
        j.sizes[2] = 4;
        open_all(&j);
        assert_all_fail(&j, PAWL_EMISMATCH, "open run: the ranks do not agree how many they are");
        assert_same_everywhere(&j);
        end(&j);
    }
}

static void test_ranks_of_different_launches_are_told_apart(void **state) {
    (void)state;
    job j;
    init(&j, 3, true);
    j.launch[0] = j.launch[1] = "job.1";
    j.launch[2] = "job.0";
    open_all(&j);
    assert_all_fail(&j, PAWL_EMISMATCH, "open run: the ranks are of different starts of a job");
    assert_same_everywhere(&j);
    end(&j);
}

static void test_two_processes_of_one_number_are_told_apart(void **state) {
    (void)state;
    job j;
    init(&j, 3, true);
    j.ranks[2] = 1;
    open_all(&j);
    assert_all_fail(&j, PAWL_EMISMATCH,
                    "open run: a process has not the number that the group gives it");
    assert_same_everywhere(&j);
    end(&j);
}

/* What an earlier job with the same launch left is not taken for this one's. */
static void test_files_of_an_earlier_start_do_not_confuse(void **state) {
    (void)state;
    job j;
    init(&j, 4, false);
    j.options.group_deadline_s = 1;
    j.stays_away[1] = true;
    open_all(&j);
    assert_int_equal(j.status[2], PAWL_ETIMEOUT);
    assert_true(names_beginning(&j, "meet-") >= 2);
    j.stays_away[1] = false;
    j.options.group_deadline_s = 20;
    open_all(&j);
    assert_all_open(&j);
    end(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_open_a_run_by_their_callbacks),
        cmocka_unit_test(test_ranks_open_a_run_through_files),
        cmocka_unit_test(test_p05_ranks_that_have_no_such_directory_are_named_on_all),
        cmocka_unit_test(test_p06_ranks_with_another_directory_are_named_on_all),
        cmocka_unit_test(test_s11_a_rank_that_does_not_come_is_named_on_all),
        cmocka_unit_test(test_s11_rank_0_that_does_not_come_is_named_on_all),
        cmocka_unit_test(test_what_rank_0_cannot_open_no_rank_can),
        cmocka_unit_test(test_ranks_of_jobs_of_different_size_are_told_apart),
        cmocka_unit_test(test_ranks_of_different_launches_are_told_apart),
        cmocka_unit_test(test_two_processes_of_one_number_are_told_apart),
        cmocka_unit_test(test_files_of_an_earlier_start_do_not_confuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
