/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that open a run together: threads of this process on one store. */
#ifndef RUN_JOINING_H
#define RUN_JOINING_H

#include "lib/local_group.h"
#include "lib/stored.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "ranks/meet.h"
#include "run/private.h"
#include "store/wrap.h"

#include <stdio.h>
#include <string.h>

#define MOST_RANKS 6

typedef struct joining {
    store *late, *disk;        /* as in lib/training.h; all see it */
    store *others[MOST_RANKS]; /* that one rank sees instead; NULL: the same */
    bool absent[MOST_RANKS];   /* it sees no directory */
    local_group *group;        /* NULL: the ranks meet through files */
    int world_size;
    const char *launch[MOST_RANKS];
    const char *given;     /* the path; or NULL */
    int ranks[MOST_RANKS]; /* what each process calls itself */
    int sizes[MOST_RANKS];
    pawl_run_options options;
    size_t budget[MOST_RANKS]; /* instead of that in the options; 0: the same */
    bool stays_away[MOST_RANKS];
    int (*interrupted[MOST_RANKS])(void *context); /* of the options; NULL: none */
    void *interrupted_context[MOST_RANKS];
    pawl_run *runs[MOST_RANKS];
    pawl_status status[MOST_RANKS];
    struct pawl_error err[MOST_RANKS];
    int64_t damaged_step[MOST_RANKS]; /* for this rank alone; 0: none */
    char log[4096];                   /* of rank 0 */
} joining;

/* How one rank sees the storage. The run destroys the view; the disk stays. */
typedef struct joining_view {
    store_wrapper wrapper;
    const joining *job;
    int rank;
} joining_view;

/* Of a step that is damaged for this rank alone every read of data is another. */
static inline pawl_status joining_pass_on(store_wrapper *w, store_call *call, pawl_error *err) {
    const joining_view *v = (const joining_view *)w;
    char prefix[64];
    TRY(store_call_inner(call, err));
    name_step(prefix, v->job->damaged_step[v->rank]);
    (void)snprintf(prefix + strlen(prefix), 16, "/data-");
    if (v->job->damaged_step[v->rank] > 0 && call->op == STORE_OP_READ &&
        strncmp(call->file->path, prefix, strlen(prefix)) == 0) {
        *(uint8_t *)call->into ^= 1;
    }
    return PAWL_OK;
}

static inline store *joining_view_of(const joining *j, int rank) {
    struct pawl_error err = ERROR_INIT;
    store *inner = j->others[rank] != NULL ? j->others[rank] : j->late;
    joining_view *v = mem_calloc(1, sizeof *v);
    assert_non_null(v);
    assert_ok(store_wrapper_init(&v->wrapper, inner, &err), &err);
    v->wrapper.around = joining_pass_on;
    v->job = j;
    v->rank = rank;
    return &v->wrapper.base;
}

typedef struct joining_seat {
    const joining *job;
    int rank;
} joining_seat;

static inline pawl_status joining_open_view(void *context, bool create, store **out,
                                            pawl_error *err) {
    const joining_seat *s = context;
    if (s->job->absent[s->rank] && !create) {
        error_set(err, PAWL_ENOTFOUND, "there is no such directory");
        error_path(err, "/runs/a");
        error_found(err, "/runs exists, but there is no a in it");
        return PAWL_ENOTFOUND;
    }
    *out = joining_view_of(s->job, s->rank);
    return PAWL_OK;
}

static inline void joining_note_log(void *context, pawl_log_level level, const char *text) {
    joining *j = context;
    (void)level;
    size_t at = strlen(j->log);
    (void)snprintf(j->log + at, sizeof j->log - at, "%s\n", text);
}

static inline void joining_init(joining *j, int world_size, bool connected) {
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
    assert_ok(store_chosen(platform_system(), &j->late, &err), &err);
    assert_ok(store_truth(j->late, &j->disk, &err), &err);
}

static inline void joining_open_one(void *context, int number) {
    joining *j = context;
    joining_seat s = {.job = j, .rank = number};
    const run_place place = {.context = &s, .open = joining_open_view, .given = j->given};
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
    options.budget_bytes = j->budget[number] != 0 ? j->budget[number] : options.budget_bytes;
    options.interrupted = j->interrupted[number];
    options.interrupted_context = j->interrupted_context[number];
    const pawl_log log = {
        .struct_size = sizeof log, .write = joining_note_log, .context = j, .level = PAWL_LOG_WARN};
    options.log = number == 0 ? &log : NULL;
    j->err[number] = ERROR_INIT;
    j->status[number] =
        run_open_at(&place, &options, platform_system(), &j->runs[number], &j->err[number]);
}

static inline void joining_open(joining *j) {
    local_group_run(j->world_size, joining_open_one, j);
}

static inline void joining_close(joining *j) {
    for (int r = j->world_size - 1; r >= 0; r--) {
        if (j->runs[r] != NULL) {
            assert_ok(run_close(j->runs[r], 0, &j->err[r]), &j->err[r]);
            j->runs[r] = NULL;
        }
    }
}

static inline void joining_end(joining *j) {
    joining_close(j);
    for (int r = 0; r < j->world_size; r++) {
        store_destroy(j->others[r]);
    }
    store_truth_destroy(j->disk, j->late);
    store_destroy(j->late);
    if (j->group != NULL) {
        local_group_free(j->group);
    }
}

/* On every rank that is there; {h} stands for this host. */
static inline void assert_all_fail(joining *j, pawl_status status, const char *attempt) {
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
static inline void assert_same_everywhere(joining *j) {
    const char *first = NULL;
    for (int r = 0; r < j->world_size; r++) {
        if (!j->stays_away[r]) {
            const char *text = error_text(&j->err[r]);
            first = first != NULL ? first : text;
            assert_string_equal(text, first);
        }
    }
}

#endif
