/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS    (NS_PER_S / 4)
#define MANY_RANKS 16 /* which look often, where a look is answered late */

static const job_plan quiet_plan = {.world_size = 1,
                                    .threads = true,
                                    .elsewhere = true,
                                    .ranks_a_host = 8,
                                    .lease_s = 20,
                                    .group_deadline_s = 60,
                                    .deadline_s = 600,
                                    .steps = 4,
                                    .save_every = 1,
                                    .step_s = 0.5,
                                    .begin_spread_ns = NS_PER_S};

static bool is_of_objects(world_storage kind) {
    return kind == WORLD_OBJECTS || kind == WORLD_OBJECTS_LATE;
}

static uint64_t clock_ns(void *context) {
    (void)context;
    return fibers_now();
}

static int64_t clock_unix_ns(void *context) {
    (void)context;
    return (int64_t)fibers_now();
}

/* Who judges waits for nothing. */
static void wait_ns(void *context, uint64_t ns) {
    (void)context;
    if (fiber_self() != NULL) {
        fiber_sleep(ns);
    }
}

static pawl_status make_objects(world *w, pawl_error *err) {
    static const platform clock = {
        .monotonic_ns = clock_ns, .unix_time_ns = clock_unix_ns, .sleep_ns = wait_ns};
    static const double lates_s[] = {0.1, 1, 3, 8};
    store_objects_options options = {.seed = random_next(&w->random)};
    if (w->kind == WORLD_OBJECTS_LATE) {
        options.late_s = lates_s[random_below(&w->random, ARRAY_LENGTH(lates_s))];
    }
    w->storage.late_ns = (uint64_t)(options.late_s * (double)NS_PER_S);
    TRY(store_objects(&clock, &options, &w->storage.seen, err));
    return store_truth(w->storage.seen, &w->storage.truth, err);
}

static pawl_status make_filesystem(world *w, pawl_error *err) {
    TRY(store_mem(&w->storage.truth, err));
    w->storage.seen = w->storage.truth;
    return PAWL_OK;
}

void world_make(world *w, uint64_t seed, world_storage kind, bool trace) {
    struct pawl_error err = ERROR_INIT;
    memset(w, 0, sizeof *w);
    w->kind = kind;
    w->seed = seed;
    w->random.state = seed;
    fibers_begin(random_next(&w->random));
    pawl_status status = is_of_objects(kind) ? make_objects(w, &err) : make_filesystem(w, &err);
    if (status != PAWL_OK) {
        abort();
    }
    w->storage.latency_ns = NS_PER_S / 1000;
    w->storage.coherent = w->storage.seen->traits.coherent;
    w->storage.random.state = random_next(&w->random);
    w->storage.trace = trace;
    w->model = (model){.rows = 12, .columns = 10};
    w->plan = quiet_plan;
    promises_begin(&w->promises, &w->storage, &w->cluster, random_next(&w->random));
}

job *world_job(world *w, const job_plan *plan) {
    int number = ++w->job_count;
    job *j = job_new(number, plan, &w->model, &w->storage, &w->promises, &w->cluster, w->seed);
    w->jobs[number] = j;
    return j;
}

static void show_waiting(world *w, const job *j) {
    int shown = 0;
    for (int i = 0; i < j->plan.world_size; i++) {
        const rank_process *r = &j->ranks[i];
        if (!machine_is_gone(&r->machine) && !r->machine.group.stopped && shown++ < 3) {
            promises_broken(&w->promises, "job %d, rank %d still waits: %s, since %.3f s",
                            j->number, i, r->doing != NULL ? r->doing : "-",
                            (double)r->doing_since_ns / (double)NS_PER_S);
        }
    }
}

typedef struct driving {
    world *world;
    void (*drive)(void *);
} driving;

static void drive_body(void *argument) {
    driving *d = argument;
    d->drive(d->world);
    d->world->ended = true;
}

void world_run(world *w, void (*drive)(void *), double limit_s) {
    static fiber_group nobody; /* the driver is no process */
    driving d = {.world = w, .drive = drive};
    nobody = (fiber_group){0};
    fiber_let_go(fiber_start(&nobody, drive_body, &d));
    fibers_run((uint64_t)(limit_s * (double)NS_PER_S));
    for (int i = 1; i <= w->job_count; i++) {
        show_waiting(w, w->jobs[i]);
    }
    if (!w->ended) {
        promises_broken(&w->promises, "the run did not come to its end in %.0f s", limit_s);
    }
    promises_verify_all(&w->promises);
}

void world_count(const world *w, world_counts *counts) {
    counts->worlds++;
    counts->broken += w->promises.broken > 0;
    counts->operations += w->storage.operations;
    counts->commits += w->promises.count;
    counts->read_back += w->promises.checked;
    counts->takeovers +=
        w->promises.ownership_count > 1 ? (uint64_t)w->promises.ownership_count - 1 : 0;
    for (const machine *m = w->cluster.machines; m != NULL; m = m->next) {
        counts->deaths += m->group.dead && !m->has_ended;
        counts->stops += m->was_stopped;
    }
}

/* ---- what a seed decides --------------------------------------------------------------------- */

static bool chance(world *w, uint64_t one_in) {
    return random_below(&w->random, one_in) == 0;
}

static double between(world *w, double least, double most) {
    return least + (most - least) * (double)random_below(&w->random, 1000001) / 1e6;
}

static uint64_t up_to_s(world *w, uint64_t most_s) {
    return 1 + random_below(&w->random, most_s * NS_PER_S);
}

uint64_t world_lag_kinds = UINT64_MAX;

/* One history in ten has none, one in four has all of them, the others have some. */
static void choose_lags(world *w) {
    static const uint64_t often[] = {20, 100, 500};
    uint64_t kinds = random_below(&w->random, 20);
    kinds = kinds < 2 ? 0 : kinds < 7 ? 63 : 1 + random_below(&w->random, 62);
    kinds &= world_lag_kinds;
    storage_lags *l = &w->storage.lags;
    uint64_t most_s = chance(w, w->plan.world_size > MANY_RANKS ? 8 : 2) ? 60 : 3;
    storage_lags all = {.absent_ns = up_to_s(w, most_s),
                        .stat_ns = up_to_s(w, most_s),
                        .list_ns = up_to_s(w, most_s),
                        .names_ns = up_to_s(w, 10),
                        .lost_one_of = often[random_below(&w->random, ARRAY_LENGTH(often))],
                        .late_one_of = often[random_below(&w->random, ARRAY_LENGTH(often))],
                        .late_ns = 90 * NS_PER_S,
                        .of_manifests = chance(w, 2)};
    if (all.of_manifests) {
        all.lost_one_of = all.lost_one_of / 20 + 2;
        all.late_one_of = all.late_one_of / 20 + 2;
    }
    bool objects = w->storage.truth->traits.objects;
    l->absent_ns = (kinds & 1) != 0 && !objects ? all.absent_ns : 0;
    l->stat_ns = (kinds & 2) != 0 && !objects ? all.stat_ns : 0;
    l->list_ns = (kinds & 4) != 0 && !objects ? all.list_ns : 0;
    l->names_ns = (kinds & 8) != 0 && !objects ? all.names_ns : 0;
    l->lost_one_of = (kinds & 16) != 0 ? all.lost_one_of : 0;
    l->late_one_of = (kinds & 32) != 0 ? all.late_one_of : 0;
    l->late_ns = all.late_ns;
    l->of_manifests = all.of_manifests;
    bool on_time = !storage_lags_looks(&w->storage) && l->late_one_of == 0;
    w->storage.coherent = objects ? w->storage.seen->traits.coherent : on_time && chance(w, 2);
}

/* Rank 0 reads a few small files of every rank, one after the other: a timeout that is shorter than
 * this takes is no promise broken. */
#define MOST_READS_OF_A_RANK 8

static void choose_storage(world *w) {
    static const uint64_t latencies_us[] = {20, 200, 1000, 4000, 50000};
    storage *s = &w->storage;
    double reads = (double)w->plan.world_size * MOST_READS_OF_A_RANK;
    uint64_t most_ns = (uint64_t)(w->plan.group_deadline_s / reads * (double)NS_PER_S);
    uint64_t chosen_ns =
        latencies_us[random_below(&w->random, ARRAY_LENGTH(latencies_us))] * (NS_PER_S / 1000000);
    s->latency_ns = chosen_ns < most_ns ? chosen_ns : most_ns;
    choose_lags(w);
}

static void choose_plan(world *w, int ranks) {
    job_plan *p = &w->plan;
    p->world_size = ranks;
    p->threads = !chance(w, 4);
    p->callbacks = chance(w, 3);
    p->elsewhere = !chance(w, 4);
    p->ranks_a_host = (int)random_between(&w->random, 1, 16);
    p->lease_s = between(w, 10, 30);
    p->group_deadline_s = between(w, 30, 90);
    p->keep_last = random_between(&w->random, 0, 3);
    p->steps = (int)random_between(&w->random, 2, 7);
    p->save_every = (int)random_between(&w->random, 1, 2);
    p->patient = chance(w, 2);
    p->stops_at_failure = chance(w, 2);
    p->meets = chance(w, 3);
    p->cancels_one_of = chance(w, 6) ? 4 * (uint64_t)ranks : 0;
    p->on_busy = chance(w, 4) ? PAWL_ON_BUSY_SKIP : PAWL_ON_BUSY_WAIT;
    p->step_s = chance(w, 5) ? between(w, 10, 60) : between(w, 0.01, 2); /* some outlast leases */
    w->model.rows = random_between(&w->random, 1, 2 * (int64_t)ranks);
    w->model.columns = random_between(&w->random, 1, 2 * (int64_t)ranks);
}

/* ---- what happens to the first job ----------------------------------------------------------- */

static rank_process *someone(world *w, job *j) {
    bool first = chance(w, 3);
    return &j->ranks[first ? 0 : random_below(&w->random, (uint64_t)j->plan.world_size)];
}

/* Not knowing how long the job lives, in operations of a rank: about so many. */
static uint64_t some_operation(world *w) {
    return 1 + random_below(&w->random, chance(w, 2) ? 60 : 600);
}

static void let_die(world *w, job *j) {
    machine_fate *fate = &someone(w, j)->machine.fate;
    *(chance(w, 2) ? &fate->die_before : &fate->die_after) = some_operation(w);
}

static void let_fail(world *w, job *j) {
    static const int numbers[] = {EIO, ENOSPC, EACCES, ESTALE, ETIMEDOUT};
    machine_fate *fate = &someone(w, j)->machine.fate;
    fate->fail_at = some_operation(w);
    fate->fail_count = chance(w, 3) ? 200 : 1 + random_below(&w->random, 3);
    fate->fail_errno = numbers[random_below(&w->random, ARRAY_LENGTH(numbers))];
}

static void let_stop(world *w, job *j) {
    machine_fate *fate = &someone(w, j)->machine.fate;
    *(chance(w, 2) ? &fate->stop_before : &fate->stop_after) = some_operation(w);
}

static void wait_until_over(const job *j) {
    while (!job_is_over(j)) {
        fiber_sleep(LOOK_NS);
    }
}

static job *begin_job(world *w, const job_plan *plan) {
    job *j = world_job(w, plan);
    job_start(j);
    return j;
}

/* The next job has another size, and hosts of its own while the last may still live. */
static job_plan next_plan(world *w) {
    job_plan p = w->plan;
    p.world_size =
        w->plan.world_size == 1 ? 1 : (int)random_between(&w->random, 1, w->plan.world_size + 2);
    p.steps = (int)random_between(&w->random, 1, 4);
    return p;
}

/* Another attempt as a scheduler makes it, until one can open the run. */
static job *take_over(world *w, const job_plan *plan) {
    return begin_job(w, plan);
}

static void happens_nothing(world *w, job *j) {
    (void)w;
    (void)j;
}

static void happens_slowness(world *w, job *j) {
    w->storage.latency_ns = NS_PER_S / 10000;
    someone(w, j)->machine.fate.slow = 50;
}

static void happens_deaths(world *w, job *j) {
    for (uint64_t i = 1 + random_below(&w->random, 3); i > 0; i--) {
        let_die(w, j);
    }
}

static void happens_failures(world *w, job *j) {
    for (uint64_t i = 1 + random_below(&w->random, 3); i > 0; i--) {
        let_fail(w, j);
    }
}

static void happens_everything(world *w, job *j) {
    let_fail(w, j);
    let_fail(w, j);
    let_die(w, j);
}

typedef void happening(world *w, job *j);

/* The first job runs to its end, whatever that is, before the second begins. */
static void one_after_the_other(world *w, happening *what) {
    job *first = world_job(w, &w->plan);
    what(w, first);
    job_start(first);
    wait_until_over(first);
}

/* One rank is not as the others: nothing comes of the job, or of the next, but that all know. */
static void one_is_odd(world *w) {
    job_plan plan = w->plan;
    if (plan.world_size == 1) {
        return;
    }
    plan.odd = (oddness)random_between(&w->random, ODD_STORAGE, ODD_STEP);
    plan.odd_rank = (int)random_between(&w->random, 1, plan.world_size - 1);
    plan.on_busy = PAWL_ON_BUSY_WAIT;
    if (chance(w, 2)) {
        one_after_the_other(w, happens_nothing);
    }
    job *odd = begin_job(w, &plan);
    wait_until_over(odd);
    job_check_odd(odd);
}

/* All die at once. */
static void all_die(world *w) {
    job *first = begin_job(w, &w->plan);
    fiber_sleep((uint64_t)(between(w, 0, 20) * (double)NS_PER_S));
    job_kill(first);
}

/* One stands still; the others give up on it; it goes on when they have, or long after. */
static void one_stands_still(world *w) {
    job *first = world_job(w, &w->plan);
    let_stop(w, first);
    job_start(first);
    if (chance(w, 2)) {
        wait_until_over(first);
    } else {
        fiber_sleep((uint64_t)(between(w, 0, 120) * (double)NS_PER_S));
    }
    job_go_on(first);
    if (chance(w, 2)) {
        wait_until_over(first);
    }
}

/* Rank 0 is going to have asked for something that changes the run, which is late. */
static void let_first_stop(world *w, job *j) {
    static const store_op changes[] = {STORE_OP_RENAME, STORE_OP_PUT,  STORE_OP_UNLINK,
                                       STORE_OP_WRITE,  STORE_OP_OPEN, STORE_OP_REMOVE_DIR,
                                       STORE_OP_SYNC};
    machine_fate *fate = &j->ranks[0].machine.fate;
    fate->stop_op = (int)changes[random_below(&w->random, ARRAY_LENGTH(changes))];
    fate->stop_op_nth = 1 + random_below(&w->random, 16);
    if (!chance(w, 3)) {
        bool objects = w->storage.truth->traits.objects;
        fate->stop_op = chance(w, 3) ? STORE_OP_UNLINK : objects ? STORE_OP_PUT : STORE_OP_RENAME;
        fate->stop_name = NAME_MANIFEST;
        fate->stop_op_nth = 1 + random_below(&w->random, 2);
    }
}

static void let_all_stop(world *w, job *j) {
    if (chance(w, 3)) {
        job_start(j);
        fiber_sleep((uint64_t)(between(w, 0, 15) * (double)NS_PER_S));
    } else {
        let_first_stop(w, j);
        job_start(j);
        while (!j->ranks[0].machine.group.stopped && !job_is_over(j)) {
            fiber_sleep(NS_PER_S / 1000);
        }
    }
    job_stop(j);
}

/* The whole job stands still, is believed dead, and goes on after another took over. */
static void all_stand_still(world *w) {
    w->plan.elsewhere = true;
    job *first = world_job(w, &w->plan);
    let_all_stop(w, first);
    fiber_sleep((uint64_t)(between(w, 0, 2 * w->plan.lease_s) * (double)NS_PER_S));
    job_plan plan = next_plan(w);
    job *second = take_over(w, &plan);
    fiber_sleep((uint64_t)(between(w, 0, 3 * w->plan.lease_s) * (double)NS_PER_S));
    if (chance(w, 3)) {
        wait_until_over(second);
    }
    job_go_on(first);
    wait_until_over(first);
    wait_until_over(second);
}

/* Two jobs begin at the same time: one of them owns the run. */
static void two_at_once(world *w) {
    job *first = begin_job(w, &w->plan);
    fiber_sleep(random_below(&w->random, 2 * NS_PER_S));
    job_plan plan = next_plan(w);
    job *second = take_over(w, &plan);
    wait_until_over(first);
    wait_until_over(second);
}

static void first_jobs(world *w) {
    switch (random_below(&w->random, 12)) {
    case 0:
        one_after_the_other(w, happens_nothing);
        break;
    case 1:
        one_after_the_other(w, happens_slowness);
        break;
    case 2:
    case 3:
        one_after_the_other(w, happens_deaths);
        break;
    case 4:
        one_after_the_other(w, happens_failures);
        break;
    case 5:
        one_after_the_other(w, happens_everything);
        break;
    case 6:
        all_die(w);
        break;
    case 7:
        one_stands_still(w);
        break;
    case 8:
    case 9:
        all_stand_still(w);
        break;
    case 10:
        one_is_odd(w);
        break;
    default:
        two_at_once(w);
        break;
    }
}

/* What was changed elsewhere it may see late, and fails then, having changed nothing: it is begun
 * again, as a scheduler does, and after so long must find everything in order. */
static job *begin_last(world *w, const job_plan *plan) {
    job *last = begin_job(w, plan);
    wait_until_over(last);
    for (int i = 0; i < 2 && storage_lags_looks(&w->storage) && !job_did_well(last); i++) {
        job_kill(last);
        fiber_sleep(storage_most_lag_ns(&w->storage));
        last = begin_job(w, plan);
        wait_until_over(last);
    }
    return last;
}

/* Nothing happens to the last job: it must find the newest checkpoint, and save. */
static void last_job(world *w) {
    job_plan plan = next_plan(w);
    w->storage.lags.calm = true;
    plan.elsewhere = true;
    plan.patient = true;
    plan.on_busy = PAWL_ON_BUSY_WAIT;
    plan.save_every = 1;
    plan.cancels_one_of = 0;
    plan.meets = plan.meets && plan.world_size <= MANY_RANKS;
    plan.group_deadline_s =
        120 + 3 * (double)storage_most_lag_ns(&w->storage) / (double)NS_PER_S + /* of each look */
        storage_catching_up_s(&w->storage);
    job *last = begin_last(w, &plan);
    for (int i = 0; !job_did_well(last) && i < plan.world_size; i++) {
        const rank_process *r = &last->ranks[i];
        if (r->opened != PAWL_OK || r->worst != PAWL_OK ||
            (r->restored != PAWL_OK && r->restored != PAWL_ENOTFOUND)) {
            promises_broken(&w->promises, "the last job cannot go on: rank %d: %s%s", i,
                            r->opening.text, r->news.text);
            return;
        }
    }
}

/* On hosts of their own, or on those of a job that comes, or was there. */
static void start_readers(world *w) {
    uint64_t count = chance(w, 2) ? 1 + random_below(&w->random, READERS_MOST) : 0;
    for (uint64_t i = 0; i < count; i++) {
        char host[64];
        snprintf(host, sizeof host, "node-%d-0", 1 + (int)random_below(&w->random, 4));
        reader_process_start(&w->readers[i], host, &w->cluster, &w->storage, &w->promises,
                             &w->model, random_next(&w->random), &w->over);
    }
}

static void drive(void *context) {
    world *w = context;
    start_readers(w);
    first_jobs(w);
    for (int i = 1; i <= w->job_count; i++) { /* what still stands is ended by the scheduler */
        if (!job_is_over(w->jobs[i])) {
            wait_until_over(w->jobs[i]);
        }
        job_kill(w->jobs[i]);
    }
    last_job(w);
    w->over = true;
}

uint64_t world_live(uint64_t seed, int ranks, world_storage kind, bool trace,
                    world_counts *counts) {
    static world w;
    test_random random = {seed};
    if (kind == WORLD_BY_SEED) {
        kind = random_below(&random, 4) == 0 ? WORLD_OBJECTS : WORLD_FILESYSTEM;
    }
    world_make(&w, seed, kind, trace);
    choose_plan(&w, ranks);
    choose_storage(&w);
    if (trace) {
        printf("seed %llu, %d ranks, %s\n", (unsigned long long)seed, ranks,
               w.storage.truth->traits.objects ? "an object store" : "a filesystem");
    }
    world_run(&w, drive, 3600 * 3);
    world_count(&w, counts);
    return w.promises.broken;
}

/* ---- a death at each operation --------------------------------------------------------------- */

static struct {
    const world_death *death;
    rank_process *victim;
} doom;

static void arm(void *context, rank_process *r, int64_t step) {
    (void)context;
    const world_death *d = doom.death;
    if (r->machine.rank != d->rank || step != 2) {
        return;
    }
    doom.victim = r;
    machine_fate *fate = &r->machine.fate;
    *(d->after ? &fate->die_after : &fate->die_before) = r->machine.operations + d->nth;
}

/* A survivor of a save that is not committed hears of it in time, and of whom it waited for. */
static void check_survivor(world *w, const rank_process *r, bool committed) {
    char name[32];
    const world_death *d = doom.death;
    const job_plan *p = &r->job->plan;
    snprintf(name, sizeof name, "rank %d", d->rank);
    if (r->news.step != 2) {
        promises_broken(&w->promises, "rank %d was told nothing of the save", r->machine.rank);
        return;
    }
    if (r->news.after_s > p->group_deadline_s + 5) {
        promises_broken(&w->promises, "rank %d was told after %.1f s, its deadline is %.1f s",
                        r->machine.rank, r->news.after_s, p->group_deadline_s);
    }
    if (!committed && (r->news.status == PAWL_OK || strstr(r->news.text, name) == NULL)) {
        promises_broken(&w->promises, "rank %d was not told that %s is missing, but: %s: %s",
                        r->machine.rank, name, pawl_status_name(r->news.status), r->news.text);
    }
}

static void drive_to_death(void *context) {
    world *w = context;
    const world_death *d = doom.death;
    job_plan plan = w->plan;
    plan.at_save = arm;
    job *first = begin_job(w, &plan);
    wait_until_over(first);
    bool committed = promises_commit(&w->promises, 1, 2) != NULL;
    for (int i = 0; i < d->ranks; i++) {
        if (i != d->rank) {
            check_survivor(w, &first->ranks[i], committed);
        }
    }
    if (promises_commit(&w->promises, 1, 1) == NULL) {
        promises_broken(&w->promises, "the save before was not committed");
    }
    job_kill(first);
    plan.at_save = NULL;
    plan.world_size = d->ranks > 1 ? d->ranks - 1 : 1;
    plan.steps = 1;
    job *second = begin_job(w, &plan);
    wait_until_over(second);
    if (!job_did_well(second) || second->restored_step != (committed ? 2 : 1)) {
        promises_broken(&w->promises, "the job after it restored step %lld: %s%s",
                        (long long)second->restored_step, second->ranks[0].opening.text,
                        second->ranks[0].news.text);
    }
}

bool world_die(const world_death *d, bool trace, world_counts *counts, uint64_t *broken) {
    static world w;
    world_make(&w, 1, d->storage, trace);
    doom.death = d;
    doom.victim = NULL;
    w.plan.world_size = d->ranks;
    w.plan.callbacks = d->callbacks;
    w.plan.threads = d->threads;
    w.plan.ranks_a_host = 2;
    w.plan.group_deadline_s = 20 + storage_catching_up_s(&w.storage);
    w.plan.lease_s = 10;
    w.plan.steps = 2;
    w.plan.patient = true;
    world_run(&w, drive_to_death, 3600);
    world_count(&w, counts);
    *broken = w.promises.broken;
    return doom.victim == NULL || !doom.victim->machine.has_ended;
}
