/* SPDX-License-Identifier: Apache-2.0 */
/* Forked children: whatever a child calls on what its parent opened answers at once, says why, and
 * leaves all of the parent's as it was. And the end of a process with everything open, a save in
 * flight: never a crash. */
#include "lib/at_step.h"
#include "lib/directory.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SMALL_FLOATS  4096
#define LARGE_FLOATS  (4 << 20) /* 16 MiB: at BANDWIDTH a second */
#define BANDWIDTH     (16u << 20)
#define AT_ONCE_S     1.0
#define CHILD_ALARM_S 30
#define EXITS         50

static char run_path[64];
static pawl_error *err;

/* ---- what a parent has open ----------------------------------------------------------------- */

static float small[SMALL_FLOATS], restored[SMALL_FLOATS];
static float large[LARGE_FLOATS];

typedef struct opened {
    pawl_run *run;
    pawl_state *state; /* of the run's saves */
    pawl_state *other; /* that no save knows */
    pawl_checkpoint *checkpoint;
    pawl_entries *entries;
    pawl_view *view;
    pawl_events *events;
    pawl_catalog *catalog;
    int64_t next_step;
} opened;

static void add(pawl_state *state, const char *name, float *data, int64_t n) {
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = &n,
                                .data = data};
    assert_ok(pawl_state_add_tensor(state, &tensor, err), err);
    assert_ok(pawl_state_set_int64(state, "step", PAWL_ROLE_STEP, 7, err), err);
}

static void save(opened *o) {
    assert_ok(pawl_save(o->run, o->state, o->next_step++, NULL, err), err);
}

static void open_all(opened *o, float *data, int64_t n) {
    const pawl_run_options options = {
        .struct_size = sizeof options, .lease_s = 600, .bandwidth_bytes_per_s = BANDWIDTH};
    *o = (opened){.next_step = 2};
    assert_ok(pawl_run_open(run_path, &options, &o->run, err), err);
    assert_ok(pawl_state_new(&o->other, err), err);
    add(o->other, "weights", restored, SMALL_FLOATS);
    for (int i = 0; i < SMALL_FLOATS; i++) {
        restored[i] = small[i] = (float)i;
    }
    assert_ok(pawl_save(o->run, o->other, 1, NULL, err), err);
    assert_ok(pawl_wait(o->run, 0, NULL, err), err);
    assert_ok(pawl_state_new(&o->state, err), err);
    add(o->state, "weights", data, n);
    assert_ok(pawl_checkpoint_open(run_path, AT_STEP(1), &o->checkpoint, err), err);
    assert_ok(pawl_entries_open(o->checkpoint, "", &o->entries, err), err);
    assert_ok(pawl_view_open(o->checkpoint, "weights", 0, &o->view, err), err);
    assert_ok(pawl_events_open(run_path, NULL, &o->events, err), err);
    assert_ok(pawl_catalog_open(run_path, NULL, &o->catalog, err), err);
}

static void close_all(opened *o) {
    pawl_catalog_free(o->catalog);
    pawl_events_close(o->events);
    pawl_view_close(o->view);
    pawl_entries_free(o->entries);
    pawl_checkpoint_close(o->checkpoint);
    assert_ok(pawl_run_close(o->run, 0, err), err);
    pawl_state_free(o->state);
    pawl_state_free(o->other);
}

static bool in_flight(opened *o) {
    pawl_status status = pawl_wait(o->run, -1, NULL, err);
    assert_true(status == PAWL_OK || status == PAWL_ETIMEOUT);
    return status == PAWL_ETIMEOUT;
}

/* ---- every call on a handle ----------------------------------------------------------------- */

static pawl_status call_run_close(opened *o) {
    return pawl_run_close(o->run, 0.1, err);
}
static pawl_status call_save(opened *o) {
    return pawl_save(o->run, o->other, 99, NULL, err);
}
static pawl_status call_save_final(opened *o) {
    return pawl_save_final(o->run, o->other, 99, NULL, 0.1, err);
}
static pawl_status call_fence(opened *o) {
    return pawl_fence(o->run, 0.1, err);
}
static pawl_status call_wait(opened *o) {
    return pawl_wait(o->run, 0.1, NULL, err);
}
static pawl_status call_meet(opened *o) {
    return pawl_meet(o->run, 0.1, err);
}
static pawl_status call_cancel(opened *o) {
    return pawl_cancel(o->run, 0.1, err);
}
static pawl_status call_restore(opened *o) {
    return pawl_restore(o->run, o->other, NULL, NULL, err);
}
static pawl_status call_pin(opened *o) {
    return pawl_run_pin(o->run, 1, 1, err);
}
static pawl_status call_remove(opened *o) {
    return pawl_run_remove(o->run, 1, 1, err);
}
static pawl_status call_gc(opened *o) {
    return pawl_run_gc(o->run, 0, NULL, NULL, err);
}
static pawl_status call_rebuild(opened *o) {
    return pawl_run_rebuild(o->run, 1, 1, err);
}
static pawl_status call_due(opened *o) {
    uint8_t fenced = 1;
    pawl_fenced_tensors(o->run, (const char *const[]){"weights"}, 1, &fenced);
    return pawl_due(o->run, 5) + pawl_fenced(o->run) + fenced == 0 ? PAWL_OK : PAWL_EINTERNAL;
}
static pawl_status call_find(opened *o) {
    pawl_entry_info info = {.struct_size = sizeof info};
    return pawl_checkpoint_find(o->checkpoint, "weights", &info, err);
}
static pawl_status call_read(opened *o) {
    return pawl_checkpoint_read(o->checkpoint, "weights", NULL, NULL, small, sizeof small, err);
}
static pawl_status call_read_many(opened *o) {
    return pawl_checkpoint_read_many(o->checkpoint, NULL, sizeof(pawl_slice), 0, err);
}
static pawl_status call_tensor(opened *o) {
    pawl_tensor tensor = {.struct_size = sizeof tensor};
    return pawl_checkpoint_tensor(o->checkpoint, "weights", &tensor, err);
}
static pawl_status call_read_rank(opened *o) {
    size_t size;
    return pawl_checkpoint_read_rank(o->checkpoint, "weights", 0, NULL, 0, &size, err);
}
static pawl_status call_checkpoint_restore(opened *o) {
    return pawl_checkpoint_restore(o->checkpoint, o->other, NULL, NULL, err);
}
static pawl_status call_verify(opened *o) {
    return pawl_checkpoint_verify(o->checkpoint, NULL, NULL, err);
}
static pawl_status call_entries_open(opened *o) {
    pawl_entries *entries;
    return pawl_entries_open(o->checkpoint, "", &entries, err);
}
static pawl_status call_entries_next(opened *o) {
    pawl_entry_info info = {.struct_size = sizeof info};
    int more;
    return pawl_entries_next(o->entries, &info, &more, err);
}
static pawl_status call_view_open(opened *o) {
    pawl_view *view;
    return pawl_view_open(o->checkpoint, "weights", 0, &view, err);
}
static pawl_status call_view_bytes(opened *o) {
    const void *bytes;
    return pawl_view_bytes(o->view, 0, 4, &bytes, err);
}
static pawl_status call_events_next(opened *o) {
    pawl_event event = {.struct_size = sizeof event};
    int more;
    return pawl_events_next(o->events, &event, &more, err);
}

static pawl_status call_checkpoint_close(opened *o) {
    pawl_checkpoint_close(o->checkpoint);
    return PAWL_OK;
}
static pawl_status call_describe(opened *o) {
    pawl_checkpoint_info info = {.struct_size = sizeof info};
    pawl_status status = pawl_checkpoint_describe(o->checkpoint, &info, err);
    return status == PAWL_OK && info.step != 1 ? PAWL_EINTERNAL : status;
}
static pawl_status call_reads(opened *o) {
    pawl_read_stats reads = {.struct_size = sizeof reads};
    pawl_status status = pawl_checkpoint_reads(o->checkpoint, &reads, err);
    return status == PAWL_OK && reads.bytes == 0 ? PAWL_EINTERNAL : status;
}
static pawl_status call_entries_free(opened *o) {
    pawl_entries_free(o->entries);
    return PAWL_OK;
}
static pawl_status call_view_close(opened *o) {
    pawl_view_close(o->view);
    return PAWL_OK;
}
static pawl_status call_view_describe(opened *o) {
    pawl_view_info info = {.struct_size = sizeof info};
    pawl_status status = pawl_view_describe(o->view, &info, err);
    return status == PAWL_OK && info.bytes != sizeof small ? PAWL_EINTERNAL : status;
}
static pawl_status call_events_close(opened *o) {
    pawl_events_close(o->events);
    return PAWL_OK;
}
static pawl_status call_catalog_count(opened *o) {
    return pawl_catalog_count(o->catalog) == 1 ? PAWL_OK : PAWL_EINTERNAL;
}
static pawl_status call_catalog_get(opened *o) {
    return pawl_catalog_get(o->catalog, 0)->step == 1 ? PAWL_OK : PAWL_EINTERNAL;
}
static pawl_status call_catalog_free(opened *o) {
    pawl_catalog_free(o->catalog);
    return PAWL_OK;
}

static pawl_status call_state_free(opened *o) {
    pawl_state_free(o->state);
    return PAWL_OK;
}
static pawl_status call_add_tensor(opened *o) {
    add(o->state, "more", restored, SMALL_FLOATS);
    return PAWL_OK;
}
static pawl_status call_add_tensors(opened *o) {
    return pawl_state_add_tensors(o->state, NULL, 0, err);
}
static pawl_status call_update_tensors(opened *o) {
    return pawl_state_update_tensors(o->other, NULL, 0, err);
}
static pawl_status call_count(opened *o) {
    return pawl_state_count(o->state) == 2 ? PAWL_OK : PAWL_EINTERNAL;
}
static pawl_status call_check_position(opened *o) {
    return pawl_check_data_position(o->state, "step", 7, err);
}
static pawl_status call_state_remove(opened *o) {
    return pawl_state_remove(o->other, "weights", err);
}
static pawl_status call_set_bool(opened *o) {
    return pawl_state_set_bool(o->state, "b", PAWL_ROLE_OTHER, 1, err);
}
static pawl_status call_set_int64(opened *o) {
    return pawl_state_set_int64(o->state, "step", PAWL_ROLE_STEP, 8, err);
}
static pawl_status call_set_float64(opened *o) {
    return pawl_state_set_float64(o->state, "f", PAWL_ROLE_OTHER, 0.5, err);
}
static pawl_status call_set_string(opened *o) {
    return pawl_state_set_string(o->state, "s", PAWL_ROLE_OTHER, "text", err);
}
static pawl_status call_set_json(opened *o) {
    return pawl_state_set_json(o->state, "j", PAWL_ROLE_OTHER, "{}", err);
}
static pawl_status call_set_bytes(opened *o) {
    return pawl_state_set_bytes(o->state, "y", PAWL_ROLE_OTHER, "ab", 2, err);
}
static pawl_status call_set_rank_bytes(opened *o) {
    return pawl_state_set_rank_bytes(o->state, "r", PAWL_ROLE_OTHER, "ab", 2, err);
}
static pawl_status call_get_int64(opened *o) {
    int64_t value = 0;
    pawl_status status = pawl_state_get_int64(o->state, "step", &value, err);
    return status != PAWL_OK || value == 7 ? status : PAWL_EINTERNAL;
}
/* The others of their kind: what they are asked for is not there, and they say so. */
static pawl_status not_there(pawl_status status) {
    return status == PAWL_ENOTFOUND ? PAWL_OK : PAWL_EINTERNAL;
}
static pawl_status call_get_bool(opened *o) {
    int value;
    return not_there(pawl_state_get_bool(o->state, "b", &value, err));
}
static pawl_status call_get_float64(opened *o) {
    double value;
    return not_there(pawl_state_get_float64(o->state, "f", &value, err));
}
static pawl_status call_get_string(opened *o) {
    const char *value;
    return not_there(pawl_state_get_string(o->state, "s", &value, err));
}
static pawl_status call_get_bytes(opened *o) {
    const void *value;
    size_t size;
    return not_there(pawl_state_get_bytes(o->state, "y", &value, &size, err));
}

/* What a forked child may expect of it. */
typedef enum expectation {
    REFUSED, /* PAWL_EUSAGE and its reason */
    NOTHING, /* it does nothing, and the handle is as good as before */
    MEMORY   /* it works: all that it looks at is memory */
} expectation;

typedef struct call {
    const char *name;
    expectation expects;
    pawl_status (*make)(opened *o); /* PAWL_OK: as expected */
} call;

static const call calls[] = {
    {"pawl_run_close", REFUSED, call_run_close},
    {"pawl_save", REFUSED, call_save},
    {"pawl_save_final", REFUSED, call_save_final},
    {"pawl_fence", REFUSED, call_fence},
    {"pawl_wait", REFUSED, call_wait},
    {"pawl_meet", REFUSED, call_meet},
    {"pawl_cancel", REFUSED, call_cancel},
    {"pawl_restore", REFUSED, call_restore},
    {"pawl_run_pin", REFUSED, call_pin},
    {"pawl_run_remove", REFUSED, call_remove},
    {"pawl_run_gc", REFUSED, call_gc},
    {"pawl_run_rebuild", REFUSED, call_rebuild},
    {"pawl_due", NOTHING, call_due},
    {"pawl_fenced", NOTHING, call_due},
    {"pawl_fenced_tensors", NOTHING, call_due},
    {"pawl_checkpoint_find", REFUSED, call_find},
    {"pawl_checkpoint_read", REFUSED, call_read},
    {"pawl_checkpoint_read_many", REFUSED, call_read_many},
    {"pawl_checkpoint_read_rank", REFUSED, call_read_rank},
    {"pawl_checkpoint_tensor", REFUSED, call_tensor},
    {"pawl_checkpoint_restore", REFUSED, call_checkpoint_restore},
    {"pawl_checkpoint_verify", REFUSED, call_verify},
    {"pawl_checkpoint_close", NOTHING, call_checkpoint_close},
    {"pawl_checkpoint_describe", MEMORY, call_describe},
    {"pawl_checkpoint_reads", MEMORY, call_reads},
    {"pawl_entries_open", REFUSED, call_entries_open},
    {"pawl_entries_next", REFUSED, call_entries_next},
    {"pawl_entries_free", NOTHING, call_entries_free},
    {"pawl_view_open", REFUSED, call_view_open},
    {"pawl_view_bytes", REFUSED, call_view_bytes},
    {"pawl_view_close", NOTHING, call_view_close},
    {"pawl_view_describe", MEMORY, call_view_describe},
    {"pawl_events_next", REFUSED, call_events_next},
    {"pawl_events_close", NOTHING, call_events_close},
    {"pawl_catalog_count", MEMORY, call_catalog_count},
    {"pawl_catalog_get", MEMORY, call_catalog_get},
    {"pawl_catalog_free", MEMORY, call_catalog_free},
    {"pawl_check_data_position", MEMORY, call_check_position},
    {"pawl_state_free", MEMORY, call_state_free},
    {"pawl_state_add_tensor", MEMORY, call_add_tensor},
    {"pawl_state_add_tensors", MEMORY, call_add_tensors},
    {"pawl_state_update_tensors", MEMORY, call_update_tensors},
    {"pawl_state_count", MEMORY, call_count},
    {"pawl_state_remove", MEMORY, call_state_remove},
    {"pawl_state_set_bool", MEMORY, call_set_bool},
    {"pawl_state_set_int64", MEMORY, call_set_int64},
    {"pawl_state_set_float64", MEMORY, call_set_float64},
    {"pawl_state_set_string", MEMORY, call_set_string},
    {"pawl_state_set_json", MEMORY, call_set_json},
    {"pawl_state_set_bytes", MEMORY, call_set_bytes},
    {"pawl_state_set_rank_bytes", MEMORY, call_set_rank_bytes},
    {"pawl_state_get_bool", MEMORY, call_get_bool},
    {"pawl_state_get_int64", MEMORY, call_get_int64},
    {"pawl_state_get_float64", MEMORY, call_get_float64},
    {"pawl_state_get_string", MEMORY, call_get_string},
    {"pawl_state_get_bytes", MEMORY, call_get_bytes},
};

/* ---- one call in one child ------------------------------------------------------------------ */

static void says(const char *name, pawl_error_part part, const char *words) {
    const char *text = pawl_error_get(err, part);
    if (text == NULL || strstr(text, words) == NULL) {
        print_error("%s does not say '%s': %s\n", name, words, pawl_error_text(err));
        _exit(3);
    }
}

static void check_refusal(const call *c) {
    char number[32];
    says(c->name, PAWL_ERROR_ATTEMPT, c->name);
    says(c->name, PAWL_ERROR_ATTEMPT, "this process was forked");
    (void)snprintf(number, sizeof number, "process %lld", (long long)getppid());
    says(c->name, PAWL_ERROR_EXPECTED, number);
    (void)snprintf(number, sizeof number, "process %lld", (long long)getpid());
    says(c->name, PAWL_ERROR_FOUND, number);
    says(c->name, PAWL_ERROR_SAFE, "nothing was done");
    says(c->name, PAWL_ERROR_NEXT, "open one in this process with pawl_");
}

/* Never returns. Whatever the child closed or freed it may close again. */
static void be_child(const call *c, opened *o) {
    alarm(CHILD_ALARM_S);
    double begun_s = test_now_s();
    pawl_status status = c->make(o);
    double took_s = test_now_s() - begun_s;
    pawl_status wanted = c->expects == REFUSED ? PAWL_EUSAGE : PAWL_OK;
    if (status != wanted || took_s > AT_ONCE_S) {
        print_error("%s: %s after %.2f s\n%s\n", c->name, pawl_status_name(status), took_s,
                    pawl_error_text(err));
        _exit(2);
    }
    if (c->expects == REFUSED) {
        check_refusal(c);
    }
    _exit(c->expects == NOTHING && c->make(o) != PAWL_OK ? 4 : 0);
}

static void try_in_child(const call *c, opened *o) {
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        be_child(c, o);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        print_error("%s in a child: wait status %#x\n", c->name, (unsigned)status);
        fail();
    }
}

/* ---- the parent's files --------------------------------------------------------------------- */

static uint64_t tree_sum;

static int add_to_sum(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)at;
    uint64_t sum = UINT64_C(1469598103934665603);
    for (const char *p = path; *p != '\0'; p++) {
        sum = (sum ^ (uint64_t)(unsigned char)*p) * UINT64_C(1099511628211);
    }
    tree_sum += sum * 31 + (type == FTW_F ? (uint64_t)st->st_size + (uint64_t)st->st_ino * 7 : 0);
    return 0;
}

/* Of all names, sizes and file numbers. */
static uint64_t sum_of_files(void) {
    tree_sum = 0;
    assert_int_equal(nftw(run_path, add_to_sum, 16, FTW_PHYS), 0);
    return tree_sum;
}

static int set_up(void **state) {
    (void)state;
    directory_new(run_path, "/tmp");
    err = pawl_error_new();
    return err == NULL;
}

static int tear_down(void **state) {
    (void)state;
    pawl_error_free(err);
    directory_delete(run_path);
    return 0;
}

/* ---- forked children ------------------------------------------------------------------------ */

/* The parent's handles, after its children: each does what it did before. */
static void use_all(opened *o) {
    pawl_entry_info info = {.struct_size = sizeof info};
    pawl_event event = {.struct_size = sizeof event};
    int more = 0;
    const void *bytes = NULL;
    assert_ok(
        pawl_checkpoint_read(o->checkpoint, "weights", NULL, NULL, restored, sizeof restored, err),
        err);
    assert_memory_equal(restored, small, sizeof small);
    assert_ok(pawl_entries_next(o->entries, &info, &more, err), err);
    assert_true(more);
    assert_ok(pawl_view_bytes(o->view, 0, sizeof small, &bytes, err), err);
    assert_memory_equal(bytes, small, sizeof small);
    assert_ok(pawl_events_next(o->events, &event, &more, err), err);
    assert_true(more);
    save(o);
    assert_ok(pawl_wait(o->run, 0, NULL, err), err);
}

static void test_a_child_is_refused_and_leaves_every_file_as_it_is(void **state) {
    (void)state;
    opened o;
    open_all(&o, small, SMALL_FLOATS);
    uint64_t before = sum_of_files();
    for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
        try_in_child(&calls[i], &o);
        if (sum_of_files() != before) {
            print_error("%s in a child changed the run's files\n", calls[i].name);
            fail();
        }
    }
    use_all(&o);
    close_all(&o);
}

static void test_a_child_is_refused_while_its_parent_saves(void **state) {
    (void)state;
    opened o;
    open_all(&o, large, LARGE_FLOATS);
    for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
        if (!in_flight(&o)) {
            save(&o);
        }
        assert_true(in_flight(&o));
        try_in_child(&calls[i], &o);
    }
    assert_ok(pawl_wait(o.run, 0, NULL, err), err);
    pawl_checkpoint *newest = NULL;
    assert_ok(pawl_checkpoint_open(run_path, AT_STEP(o.next_step - 1), &newest, err), err);
    assert_ok(pawl_checkpoint_verify(newest, NULL, NULL, err), err);
    pawl_checkpoint_close(newest);
    use_all(&o);
    close_all(&o);
}

/* What is handed out is memory: it stays when the parent lets go of it. */
static void test_a_child_reads_what_a_view_handed_out(void **state) {
    (void)state;
    opened o;
    const void *bytes = NULL;
    int go[2];
    int status = 0;
    char byte = 0;
    open_all(&o, small, SMALL_FLOATS);
    assert_ok(pawl_view_bytes(o.view, 0, sizeof small, &bytes, err), err);
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(CHILD_ALARM_S);
        _exit(read(go[0], &byte, 1) == 1 && memcmp(bytes, small, sizeof small) == 0 ? 0 : 1);
    }
    close_all(&o);
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(go[0]);
    close(go[1]);
}

static void test_a_child_opens_runs_and_checkpoints_of_its_own(void **state) {
    (void)state;
#if defined(__SANITIZE_THREAD__)
    print_message("SKIP: ThreadSanitizer starts no threads in a child of a process of many\n");
    skip();
#endif
    opened o;
    int status = 0;
    open_all(&o, large, LARGE_FLOATS);
    save(&o);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char other[128];
        pawl_run *run = NULL;
        pawl_checkpoint *checkpoint = NULL;
        alarm(CHILD_ALARM_S);
        (void)snprintf(other, sizeof other, "%s/other", run_path);
        bool good = pawl_run_open(other, NULL, &run, err) == PAWL_OK &&
                    pawl_save(run, o.other, 1, NULL, err) == PAWL_OK &&
                    pawl_run_close(run, 0, err) == PAWL_OK &&
                    pawl_checkpoint_open(run_path, AT_STEP(1), &checkpoint, err) == PAWL_OK &&
                    pawl_checkpoint_verify(checkpoint, NULL, NULL, err) == PAWL_OK;
        pawl_checkpoint_close(checkpoint);
        const pawl_run_options hurried = {.struct_size = sizeof hurried, .takeover_wait_s = -1};
        good = good && pawl_run_open(run_path, &hurried, &run, err) == PAWL_EBUSY;
        if (!good) {
            print_error("%s\n", pawl_error_text(err));
        }
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close_all(&o);
}

/* ---- every call is tried -------------------------------------------------------------------- */

/* Kinds of handles: the first ones are tried in children. The others are memory that only the
 * caller fills, and pawl_mpi is no part of the library. */
static const char *const handles[] = {"pawl_run",    "pawl_checkpoint", "pawl_entries", "pawl_view",
                                      "pawl_events", "pawl_catalog",    "pawl_state"};
static const char *const plain[] = {"pawl_error", "pawl_report", "pawl_batch_check", "pawl_mpi"};

static char *read_file(const char *path) {
    size_t n = 0;
    char *text = calloc(1, 1 << 20);
    FILE *f = fopen(path, "r");
    assert_non_null(text);
    if (f == NULL) {
        print_error("cannot read %s\n", path);
        fail();
        return text;
    }
    n = fread(text, 1, (1 << 20) - 1, f);
    assert_true(n > 0 && n < (1 << 20) - 1);
    (void)fclose(f);
    return text;
}

static bool is_tried(const char *name) {
    bool found = false;
    for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
        found = found || strcmp(calls[i].name, name) == 0;
    }
    return found;
}

/* Does one parameter point to a handle? A pointer to such a pointer is where one is put. */
static bool takes_handle(const char *parameters) {
    bool takes = false;
    for (size_t i = 0; i < ARRAY_LENGTH(handles); i++) {
        char type[64];
        size_t n = (size_t)snprintf(type, sizeof type, "%s *", handles[i]);
        for (const char *at = strstr(parameters, type); at != NULL; at = strstr(at + 1, type)) {
            takes = takes || at[n] != '*';
        }
    }
    return takes;
}

/* The declaration of a function that is exported: from its name on. */
static void check_declaration(const char *map, char *declaration) {
    char name[64] = "";
    char line[80];
    char *open = strchr(declaration, '(');
    if (open == NULL) {
        return;
    }
    const char *begin = open;
    while (begin > declaration && begin[-1] != ' ' && begin[-1] != '*') {
        begin--;
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)(open - begin), begin);
    (void)snprintf(line, sizeof line, " %s;", name);
    if (strstr(map, line) != NULL && takes_handle(open) != is_tried(name)) {
        print_error("%s takes a handle, and is not among the calls tried here (or otherwise)\n",
                    name);
        fail();
    }
}

static void check_type(const char *name) {
    bool known = false;
    for (size_t i = 0; i < ARRAY_LENGTH(handles); i++) {
        known = known || strcmp(name, handles[i]) == 0;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(plain); i++) {
        known = known || strcmp(name, plain[i]) == 0;
    }
    if (!known) {
        print_error("%s: is it a handle that belongs to a process? Then try its calls here\n",
                    name);
        fail();
    }
}

/* "typedef struct pawl_run pawl_run": a type whose inside is nobody's business. */
static void check_statement(const char *map, char *statement) {
    char first[64];
    char second[64];
    char *api = strstr(statement, "PAWL_API ");
    char *opaque = strstr(statement, "typedef struct ");
    if (api != NULL) {
        check_declaration(map, api);
    } else if (opaque != NULL &&
               sscanf(opaque, "typedef struct %63[a-z_] %63[a-z_]", first, second) == 2 &&
               strcmp(first, second) == 0) {
        check_type(first);
    }
}

static void test_every_call_on_a_handle_is_tried(void **state) {
    (void)state;
    static const char *const headers[] = {"check",   "checkpoint", "error", "event",  "group",
                                          "restore", "run",        "state", "tensor", "view"};
    char *map = read_file(PAWL_SOURCE "/src/api/pawl.map");
    for (size_t i = 0; i < ARRAY_LENGTH(headers); i++) {
        char path[1024];
        char *rest = NULL;
        (void)snprintf(path, sizeof path, "%s/include/pawl/%s.h", PAWL_SOURCE, headers[i]);
        char *text = read_file(path);
        for (char *s = strtok_r(text, ";", &rest); s != NULL; s = strtok_r(NULL, ";", &rest)) {
            check_statement(map, s);
        }
        free(text);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
        char line[80];
        (void)snprintf(line, sizeof line, " %s;", calls[i].name);
        assert_non_null(strstr(map, line));
    }
    free(map);
}

/* ---- the end of a process ------------------------------------------------------------------- */

static void ignore_event(void *context, const pawl_event *event) {
    (void)context;
    (void)event;
}

static void ignore_log(void *context, pawl_log_level level, const char *text) {
    (void)context;
    (void)level;
    (void)text;
}

/* Here everything is reachable to the end: nothing that is left open has leaked. */
static opened left;

static void save_and_leave_it(const char *path, int number) {
    static const pawl_io ways[] = {PAWL_IO_AUTO, PAWL_IO_THREADS, PAWL_IO_BUFFERED};
    const pawl_log log = {.struct_size = sizeof log, .write = ignore_log, .level = PAWL_LOG_DEBUG};
    pawl_run_options options = {.struct_size = sizeof options,
                                .lease_s = 1,
                                .io = ways[number % 3],
                                .checking = number % 5 == 0,
                                .event = ignore_event,
                                .log = &log};
    err = pawl_error_new();
    (void)snprintf(run_path, sizeof run_path, "%s", path);
    assert_ok(pawl_run_open(run_path, &options, &left.run, err), err);
    assert_ok(pawl_state_new(&left.state, err), err);
    add(left.state, "weights", large, LARGE_FLOATS);
    if (number % 4 != 0) { /* else there is no save, only the heartbeat */
        save(&left);
    }
}

/* The whole life of a process that closes nothing. */
static int leave(const char *path, int number) {
    unsigned seed = (unsigned)number;
    save_and_leave_it(path, number);
    const struct timespec some = {.tv_nsec = (long)((unsigned)rand_r(&seed) % 40000) * 1000};
    (void)nanosleep(&some, NULL);
    if (number % 2 == 0) {
        exit(0);
    }
    return 0;
}

/* A fresh process: it has threads of its own, and no others' leftovers. */
static int leave_in_child(int number) {
    char text[16], options[256];
    const char *given = getenv("TSAN_OPTIONS");
    int status = 0;
    (void)snprintf(text, sizeof text, "%d", number);
    /* That threads are left is what is tried here. */
    (void)snprintf(options, sizeof options, "%.200s:report_thread_leaks=0",
                   given != NULL ? given : "");
    pid_t pid = fork();
    if (pid == 0) {
        (void)setenv("TSAN_OPTIONS", options, 1);
        (void)execl("/proc/self/exe", "leave", run_path, text, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_a_process_that_ends_with_all_open_does_not_crash(void **state) {
    (void)state;
    for (int i = 0; i < EXITS; i++) {
        int status = leave_in_child(i);
        if (status != 0) {
            print_error("process %d of %d: wait status %#x\n", i, EXITS, (unsigned)status);
            fail();
        }
    }
    pawl_run *run = NULL;
    assert_ok(pawl_run_open(run_path, NULL, &run, err), err);
    assert_ok(pawl_run_close(run, 0, err), err);
}

int main(int argc, char **argv) {
    if (argc == 3) {
        return leave(argv[1], (int)strtol(argv[2], NULL, 10));
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_on_a_handle_is_tried),
        cmocka_unit_test_setup_teardown(test_a_process_that_ends_with_all_open_does_not_crash,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_child_is_refused_and_leaves_every_file_as_it_is,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_child_is_refused_while_its_parent_saves, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_child_reads_what_a_view_handed_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_child_opens_runs_and_checkpoints_of_its_own, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
