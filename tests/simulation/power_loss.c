/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power loss of everything at once, at every operation of a job of several ranks: saves, a step a
 * second time, a save that a rank cannot make, retention, removal, gc. After each operation that
 * changes the storage, whoever made it, subsets of what was not yet synced may have reached the
 * disk, torn writes included: nothing of it, each item alone, all but each item, and a sample of
 * the rest. In every such world each checkpoint that any rank was told of is there whole, one that
 * was in progress whole or not at all (S09, G1 to G3), and the next job goes on from the newest.
 *
 * The job lives once for each part, which tries some of its moments.
 *
 * Usage: proof_power_loss [--full] [--part N]
 */
#include "lib/simulated_platform.h"
#include "proofs/proof.h"
#include "simulation/job.h"
#include "simulation/sanitizers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SKIPPED   77
#define STEPS     5
#define KEEP_LAST 2
#define NEXT_JOB  63 /* the seed of what it saves */

static const int64_t step_numbers[STEPS] = {10, 20, 30, 40, 50};

/* What a world may hold of one step. */
typedef struct expectation {
    uint64_t seeds; /* bit n: the content of seed n is allowed */
    bool absent;
} expectation;

typedef struct effort {
    size_t samples;  /* beyond each item alone, and all but it */
    uint64_t stride; /* of operations */
    uint64_t slices; /* of a life: parts that share its moments */
} effort;

typedef struct story {
    storage storage;
    cluster cluster;
    promises promises; /* only for the job; its rules are those of other proofs */
    job *job;
    int ready; /* ranks that have opened */
    const effort *bounds;
    uint64_t slice;
    proof *worlds;
    expectation expected[STEPS];
    uint64_t operation;
    store_op op; /* the last one, for messages */
    char path[STORE_MAX_PATH];
} story;

static story s; /* there is one, as there is one thread */

static size_t step_index(int64_t step) {
    size_t i = 0;
    while (step_numbers[i] != step) {
        i++;
    }
    return i;
}

/* ---- looking at a world ---------------------------------------------------------------------- */

/* The seed that a step holds; 0: the step is absent; -1: damaged, or the bytes of no seed. */
static int64_t seed_of_step(store *world, int64_t step, const platform *os, pawl_error *err) {
    static const pawl_log silent = {0};
    const pawl_restore_options options = {.struct_size = sizeof options,
                                          .per_rank = PAWL_POLICY_ALLOW};
    pawl_checkpoint *checkpoint = NULL;
    training t;
    int64_t of_step = -1;
    int64_t seed = -1;
    pawl_status status = checkpoint_open(world, false, step, os, &silent, &checkpoint, err);
    if (status != PAWL_OK) {
        return status == PAWL_ENOTFOUND ? 0 : -1;
    }
    training_make(&t, s.job->model, 0, 1, false);
    status = checkpoint_restore(checkpoint, t.state, &options, 0, 1, NULL, err);
    if (status != PAWL_OK || !training_look(&t, &of_step, &seed) || of_step != step) {
        seed = -1;
    }
    training_free(&t);
    pawl_checkpoint_close(checkpoint);
    return seed;
}

/* Retention removes a step once so many newer ones are durable, and no other does (I7). */
static bool may_be_gone(const int64_t seeds[STEPS], size_t step) {
    int newer = 0;
    for (size_t i = step + 1; i < STEPS; i++) {
        newer += seeds[i] > 0;
    }
    return s.expected[step].absent || newer >= KEEP_LAST;
}

static bool steps_as_expected(store *world, const platform *os, int64_t *newest, pawl_error *err) {
    int64_t seeds[STEPS];
    *newest = -1;
    for (size_t i = 0; i < STEPS; i++) {
        seeds[i] = seed_of_step(world, step_numbers[i], os, err);
        *newest = seeds[i] > 0 ? step_numbers[i] : *newest;
    }
    for (size_t i = 0; i < STEPS; i++) {
        bool good = seeds[i] == 0 ? may_be_gone(seeds, i)
                                  : seeds[i] > 0 && (s.expected[i].seeds >> seeds[i] & 1) != 0;
        if (!good) {
            error_wrap(err, "step %lld holds %lld", (long long)step_numbers[i],
                       (long long)seeds[i]);
            return false;
        }
    }
    return true;
}

static bool saves_again(pawl_run *run, training *t, int64_t newest, pawl_error *err) {
    pawl_report *report = NULL;
    const pawl_restore_options restoring = {.struct_size = sizeof restoring,
                                            .per_rank = PAWL_POLICY_ALLOW};
    const pawl_save_options saving = {.struct_size = sizeof saving};
    int64_t step = -1;
    int64_t seed = -1;
    pawl_status status = run_restore(run, t->state, &restoring, &report, err);
    bool good = newest < 0 ? status == PAWL_ENOTFOUND
                           : status == PAWL_OK && pawl_report_step(report) == newest &&
                                 training_look(t, &step, &seed) && step == newest;
    pawl_report_free(report);
    training_set(t, 50, NEXT_JOB);
    return good && run_save(run, t->state, 50, &saving, err) == PAWL_OK &&
           run_wait(run, 1, NULL, err) == PAWL_OK && run_gc(run, false, NULL, NULL, err) == PAWL_OK;
}

/* The next job, of one rank, takes over, restores the newest checkpoint and saves. */
static bool life_goes_on(store *world, simulated_platform *os, int64_t newest, pawl_error *err) {
    store *seen = NULL;
    pawl_run *run = NULL;
    training t;
    if (store_trace_wrap(world, &os->table, NULL, NULL, &seen, err) != PAWL_OK ||
        run_open(seen, NULL, &os->table, &run, err) != PAWL_OK) {
        return false;
    }
    training_make(&t, s.job->model, 0, 1, false);
    bool good = saves_again(run, &t, newest, err);
    good = run_close(run, 1, err) == PAWL_OK && good;
    training_free(&t);
    return good && seed_of_step(world, 50, &os->table, err) == NEXT_JOB;
}

/* ---- every world of one moment --------------------------------------------------------------- */

typedef struct moment {
    size_t pending;
    bool *keep;
    test_random random;
} moment;

static void try_world(const moment *m, size_t torn) {
    struct pawl_error err = ERROR_INIT;
    store *world = NULL;
    simulated_platform os;
    int64_t newest;
    pawl_status status =
        store_crash_world(s.storage.truth, m->keep, m->pending, torn, &world, &err);
    if (status == PAWL_EUSAGE) { /* the declared traits forbid it */
        return;
    }
    proof_must(status, &err);
    simulated_platform_init(&os, 11);
    os.others = PROCESS_DEAD;
    bool good = steps_as_expected(world, &os.table, &newest, &err) &&
                life_goes_on(world, &os, newest, &err);
    store_destroy(world);
    proof_case(s.worlds, good, "after operation %llu, %s of %s, %zu pending: %s",
               (unsigned long long)s.operation, store_op_name(s.op), s.path, m->pending,
               good ? "" : error_text(&err));
}

static void keep_all(const moment *m, bool kept) {
    for (size_t i = 0; i < m->pending; i++) {
        m->keep[i] = kept;
    }
}

/* Nothing, everything, and with each item the other way round. */
static void try_single_items(const moment *m) {
    for (int kept = 0; kept <= 1; kept++) {
        keep_all(m, kept == 1);
        try_world(m, SIZE_MAX);
        for (size_t i = 0; i < m->pending; i++) {
            m->keep[i] = kept == 0;
            try_world(m, SIZE_MAX);
            m->keep[i] = kept == 1;
        }
    }
    for (size_t i = 0; i < m->pending; i++) {
        try_world(m, i);
    }
}

static void try_samples(moment *m) {
    for (size_t i = 0; m->pending > 0 && i < s.bounds->samples; i++) {
        uint64_t bias = random_below(&m->random, 9) + 1;
        for (size_t j = 0; j < m->pending; j++) {
            m->keep[j] = random_below(&m->random, 10) < bias;
        }
        try_world(m, SIZE_MAX);
        size_t torn = (size_t)random_below(&m->random, m->pending);
        if (m->keep[torn]) {
            try_world(m, torn);
        }
    }
}

static void try_moment(void *nothing) {
    (void)nothing;
    moment m = {.pending = store_crash_pending(s.storage.truth), .random = {s.operation}};
    m.keep = calloc(m.pending + 1, sizeof *m.keep);
    if (m.keep == NULL) {
        abort();
    }
    try_single_items(&m);
    try_samples(&m);
    free(m.keep);
}

static bool changes(const storage_event *e) {
    switch (e->op) {
    case STORE_OP_OPEN:
        return store_mode_creates(e->mode);
    case STORE_OP_WRITE:
    case STORE_OP_RESERVE:
    case STORE_OP_SYNC:
    case STORE_OP_SYNC_DIR:
    case STORE_OP_RENAME:
    case STORE_OP_UNLINK:
    case STORE_OP_MAKE_DIR:
    case STORE_OP_REMOVE_DIR:
        return true;
    default:
        return false;
    }
}

static void watch(void *context, const storage_event *e) {
    (void)context;
    if (e->status != PAWL_OK || !changes(e)) {
        return;
    }
    s.op = e->op;
    snprintf(s.path, sizeof s.path, "%s", e->path);
    s.operation++;
    if (s.operation % s.bounds->stride == 0 &&
        s.operation / s.bounds->stride % s.bounds->slices == s.slice) {
        fiber_call_outside(try_moment, NULL);
    }
}

/* ---- the job --------------------------------------------------------------------------------- */

static pawl_status open_place(void *context, bool create, store **out, pawl_error *err) {
    rank_process *r = context;
    (void)create;
    (void)err;
    *out = storage_view(&s.storage, &r->machine, false);
    return PAWL_OK;
}

static void open_run(rank_process *r, bool events) {
    struct pawl_error err = ERROR_INIT;
    const struct pawl_group group = job_group(r);
    const run_place place = {.context = r, .open = open_place};
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .lease_s = 20,
        .group_deadline_s = 60,
        .retention =
            &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = KEEP_LAST},
        .no_event_file = !events,
        .group = &group};
    proof_must(run_open_at(&place, &options, &r->machine.os, &r->run, &err), &err);
}

/* What a rank was told is durable from then on, and nothing of the step that is older. */
static void told(int64_t step, uint32_t seed) {
    expectation *e = &s.expected[step_index(step)];
    e->seeds &= ~((UINT64_C(1) << seed) - 1);
    e->absent = false;
}

static pawl_status save(rank_process *r, int64_t step, uint32_t seed) {
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    s.expected[step_index(step)].seeds |= UINT64_C(1) << seed;
    training_set(&r->training, step, seed);
    pawl_status status = run_save(r->run, r->training.state, step, &options, &err);
    if (status == PAWL_OK) {
        status = run_wait(r->run, 0, NULL, &err);
    }
    if (status == PAWL_OK) {
        told(step, seed);
    }
    return status;
}

static void must_save(rank_process *r, int64_t step, uint32_t seed) {
    if (save(r, step, seed) != PAWL_OK) {
        proof_case(s.worlds, false, "rank %d could not save step %lld", r->machine.rank,
                   (long long)step);
    }
}

/* One rank's storage fails: the save is not committed, on any rank. */
static void fail_save(rank_process *r, int64_t step, uint32_t seed) {
    if (r->machine.rank == 1) {
        r->machine.fate.fail_at = r->machine.operations + 4;
        r->machine.fate.fail_count = 1;
        r->machine.fate.fail_errno = EIO;
    }
    if (save(r, step, seed) == PAWL_OK) {
        proof_case(s.worlds, false, "step %lld was saved though a rank failed", (long long)step);
    }
    s.expected[step_index(step)].seeds &= ~(UINT64_C(1) << seed); /* G3: nor later */
}

static void remove_step(rank_process *r, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    if (r->machine.rank == 0) {
        for (size_t i = 0; i <= step_index(step); i++) { /* retention was at the older ones */
            s.expected[i].absent = true;
        }
        proof_must(run_remove(r->run, step, false, &err), &err);
        proof_must(run_gc(r->run, false, NULL, NULL, &err), &err);
    }
}

static void live(void *argument) {
    struct pawl_error err = ERROR_INIT;
    rank_process *r = argument;
    open_run(r, r->job->plan.patient);
    training_make(&r->training, r->job->model, r->machine.rank, r->job->plan.world_size, false);
    must_save(r, 10, 1);
    must_save(r, 20, 2);
    must_save(r, 20, 3); /* a step a second time */
    fail_save(r, 20, 4);
    fail_save(r, 30, 5);
    must_save(r, 30, 6); /* retention removes step 10 */
    remove_step(r, 20);
    must_save(r, 40, 7);
    proof_must(run_close(r->run, 0, &err), &err);
    training_free(&r->training);
    r->machine.has_ended = true;
    r->job->ended++;
}

static void live_with_power_cuts(proof *p, const store_traits *traits, const job_plan *plan,
                                 const effort *bounds, uint64_t slice) {
    static const model m = {.rows = 7, .columns = 5};
    struct pawl_error err = ERROR_INIT;
    memset(&s, 0, sizeof s);
    fibers_begin(7);
    s.worlds = p;
    s.bounds = bounds;
    s.slice = slice;
    s.storage.latency_ns = NS_PER_S / 1000;
    proof_must(store_crash(traits, &s.storage.truth, &err), &err);
    s.storage.seen = s.storage.truth;
    for (size_t i = 0; i < STEPS; i++) {
        s.expected[i] = (expectation){.absent = true};
    }
    s.job = job_new(1, plan, &m, &s.storage, &s.promises, &s.cluster, 7);
    s.storage.watch = watch;
    for (int i = 0; i < plan->world_size; i++) {
        rank_process *r = &s.job->ranks[i];
        fiber_let_go(fiber_start(&r->machine.group, live, r));
    }
    fibers_run(UINT64_C(3600) * NS_PER_S);
    if (slice == 0 || s.job->ended != plan->world_size) { /* one case, though many live it */
        proof_case(p, s.job->ended == plan->world_size, "%d ranks did not come to their end",
                   plan->world_size - s.job->ended);
    }
    store_destroy(s.storage.truth);
}

/* ---- the parts ------------------------------------------------------------------------------- */

#define LIVES 3

typedef struct everything {
    proof *worlds;
    effort bounds;
} everything;

/* Parts that come after each other are of one life. */
static bool try_part(void *context, uint64_t part) {
    static const store_traits any_order = {
        .kind = "crash", .atomic_rename = true, .atomic_write_bytes = 512};
    static const store_traits in_order = {
        .kind = "crash", .atomic_rename = true, .ordered_names = true, .atomic_write_bytes = 4096};
    const everything *all = context;
    uint64_t life = part / all->bounds.slices;
    job_plan plan = {.world_size = 3,
                     .threads = true,
                     .callbacks = true,
                     .ranks_a_host = 2,
                     .group_deadline_s = 60,
                     .lease_s = 20};
    if (life >= LIVES) {
        return false;
    }
    if (life == LIVES - 1) { /* they meet through the storage, and events are never synced */
        plan.callbacks = false;
        plan.patient = true;
    }
    live_with_power_cuts(all->worlds, life == 1 ? &in_order : &any_order, &plan, &all->bounds,
                         part % all->bounds.slices);
    return true;
}

int main(int argc, char **argv) {
    proof_options options = proof_parse(argc, argv);
    bool full = options.full;
    everything all = {.worlds = proof_new("power loss of 3 ranks: old or new, whole"),
                      .bounds = {.samples = full ? 200 : 4,
                                 .stride = full ? 1 : 3 * SANITIZER_SLOWNESS,
                                 .slices = full ? 64 : 4}};
    const proof_parts parts = {.counts = all.worlds,
                               .count = LIVES * all.bounds.slices,
                               .apart = true,
                               .attempt = try_part,
                               .context = &all};
    if (!fibers_possible()) {
        printf("skipped: this sanitizer cannot follow fibers\n");
        return SKIPPED;
    }
    proof_try_parts(&options, &parts);
    int status = proof_end(all.worlds);
    fflush(stdout);
    /* Simulated machines last as long as their process: there is no leak to look for. */
    _exit(status);
}
