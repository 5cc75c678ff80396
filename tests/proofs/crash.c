/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power loss at every operation of a run's life: saves, second saves of a step, retention, removal,
 * gc, a second owner. After each operation that changes something, each subset of what was not yet
 * synced (up to a bound; beyond it a sample) may have reached the disk, torn writes included. From
 * some of those worlds the next owner sets out, and loses power in turn, at every operation. In
 * every such world, opening the run finds each acknowledged checkpoint whole, and the one that was
 * in progress whole or not at all (S09, promises 1 and 5); and a rebuild of one that is not
 * committed refuses, or gives the bytes of a save.
 *
 * Usage: proof_crash [--full] [--part N]
 */
#include "lib/simulated_platform.h"
#include "proofs/proof.h"
#include "stores/stores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS           5
#define MOST_OPERATIONS 1000
#define NOBODY          UINT32_MAX

/* The suite tries one of so many operations. A sanitizer makes each many times slower. */
#if defined(__SANITIZE_ADDRESS__)
#define STRIDE 6
#else
#define STRIDE 2
#endif

static const int64_t step_numbers[STEPS] = {10, 20, 30, 40, 50};

/* What a world may hold of one step. */
typedef struct expectation {
    uint32_t seeds;        /* bit n: the content of seed n is allowed */
    bool absent;           /* it may be missing */
    uint32_t absent_after; /* it may be missing where this seed is present (I7); or NOBODY */
} expectation;

typedef struct story {
    store *disk; /* the crash store; `run` sees it through a trace, which does not own it */
    simulated_platform os;
    pawl_run *run;
    expectation expected[STEPS];
    uint32_t keep_last;
    bool events;    /* keep events.jsonl, which is never synced: all of it stays pending */
    int64_t newest; /* that a recovery begins with; -1: none */
} story;

typedef pawl_status life(story *s, pawl_error *err);

typedef struct effort {
    size_t all_subsets_up_to; /* pending items */
    size_t samples;           /* beyond it */
    uint64_t stride;          /* of operation boundaries */
    uint64_t recoveries;      /* one world of so many boundaries is recovered from; 0: none */
    bool events;
} effort;

/* ---- the life of a run ---------------------------------------------------------------------- */

static pawl_status act_open(story *s, pawl_error *err) {
    store *seen;
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .no_event_file = s->events ? 0 : 1,
        .retention =
            &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = s->keep_last}};
    TRY(store_trace_wrap(s->disk, &s->os.table, NULL, NULL, &seen, err));
    return run_open(seen, &options, &s->os.table, &s->run, err);
}

static pawl_status act_close(story *s, pawl_error *err) {
    pawl_run *run = s->run;
    s->run = NULL;
    return run_close(run, 1, err);
}

static size_t step_index(int64_t step) {
    size_t i = 0;
    while (step_numbers[i] != step) {
        i++;
    }
    return i;
}

static pawl_status act_save(story *s, int64_t step, uint32_t seed, int64_t victim,
                            pawl_error *err) {
    expectation *mine = &s->expected[step_index(step)];
    const pawl_save_options options = {.struct_size = sizeof options};
    proof_state ps;
    proof_state_make(&ps, seed);
    mine->seeds |= 1u << seed;
    if (victim >= 0) {
        s->expected[step_index(victim)].absent_after = seed;
    }
    pawl_status status = run_save(s->run, ps.state, step, &options, err);
    if (status == PAWL_OK) {
        status = run_wait(s->run, 1, NULL, err);
    }
    if (status == PAWL_OK) {
        *mine = (expectation){.seeds = 1u << seed, .absent_after = NOBODY};
        if (victim >= 0) {
            s->expected[step_index(victim)].absent = true;
        }
    }
    proof_state_free(&ps);
    return status;
}

static pawl_status act_remove(story *s, int64_t step, pawl_error *err) {
    s->expected[step_index(step)].absent = true;
    return run_remove(s->run, step, false, err);
}

static pawl_status first_life(story *s, pawl_error *err) {
    TRY(act_open(s, err));
    TRY(act_save(s, 10, 1, -1, err));
    TRY(act_save(s, 20, 2, -1, err));
    TRY(act_save(s, 20, 3, -1, err)); /* a step a second time */
    TRY(act_save(s, 30, 4, 10, err)); /* retention removes step 10 */
    TRY(act_close(s, err));
    TRY(act_open(s, err)); /* another owner, another attempt */
    TRY(act_save(s, 30, 5, -1, err));
    TRY(act_remove(s, 20, err));
    TRY(act_save(s, 40, 6, -1, err));
    TRY(run_gc(s->run, false, NULL, NULL, err));
    return act_close(s, err);
}

/* The owner after a crash: replaces the newest checkpoint, adds one, cleans up. */
static pawl_status second_life(story *s, pawl_error *err) {
    TRY(act_open(s, err));
    TRY(act_save(s, s->newest > 0 ? s->newest : 10, 7, -1, err));
    TRY(act_save(s, 50, 8, -1, err));
    TRY(run_gc(s->run, false, NULL, NULL, err));
    return act_close(s, err);
}

static void story_begin(story *s, const store_traits *traits) {
    struct pawl_error err = ERROR_INIT;
    memset(s, 0, sizeof *s);
    simulated_platform_init(&s->os, 7);
    s->keep_last = 2;
    for (size_t i = 0; i < STEPS; i++) {
        s->expected[i] = (expectation){.absent = true, .absent_after = NOBODY};
    }
    if (store_crash(traits, &s->disk, &err) != PAWL_OK) {
        abort();
    }
}

static void story_end(story *s) {
    struct pawl_error err = ERROR_INIT;
    if (s->run != NULL) {
        (void)run_close(s->run, 1, &err);
    }
    store_destroy(s->disk);
}

/* ---- looking at a world --------------------------------------------------------------------- */

static bool present(const int64_t *seeds, uint32_t seed) {
    for (size_t i = 0; i < STEPS; i++) {
        if (seeds[i] == (int64_t)seed) {
            return true;
        }
    }
    return false;
}

static bool steps_as_expected(const story *s, store *world, int64_t *newest, pawl_error *err) {
    simulated_platform os;
    int64_t seeds[STEPS];
    simulated_platform_init(&os, 11);
    *newest = -1;
    for (size_t i = 0; i < STEPS; i++) {
        seeds[i] = proof_seed_of_step(world, step_numbers[i], &os.table, err);
        *newest = seeds[i] > 0 ? step_numbers[i] : *newest;
    }
    for (size_t i = 0; i < STEPS; i++) {
        const expectation *e = &s->expected[i];
        bool absent_ok =
            e->absent || (e->absent_after != NOBODY && present(seeds, e->absent_after));
        if (seeds[i] < 0 || (seeds[i] == 0 && !absent_ok) ||
            (seeds[i] > 0 && (e->seeds & (1u << seeds[i])) == 0)) {
            error_wrap(err, "step %lld holds %lld", (long long)step_numbers[i],
                       (long long)seeds[i]);
            return false;
        }
    }
    return true;
}

/* A trainer comes back: it owns the run, restores the newest checkpoint, saves, and nothing is
 * left. */
static bool life_goes_on(store *world, int64_t newest, pawl_error *err) {
    simulated_platform os;
    store *seen;
    pawl_run *run;
    proof_state ps;
    pawl_report *report = NULL;
    const pawl_save_options saving = {.struct_size = sizeof saving};
    simulated_platform_init(&os, 13);
    os.others = PROCESS_DEAD;
    os.identity.pid++; /* another process */
    if (store_trace_wrap(world, &os.table, NULL, NULL, &seen, err) != PAWL_OK ||
        run_open(seen, NULL, &os.table, &run, err) != PAWL_OK) {
        return false;
    }
    proof_state_make(&ps, 31);
    pawl_status status = run_restore(run, ps.state, NULL, &report, err);
    bool good = newest < 0 ? status == PAWL_ENOTFOUND
                           : status == PAWL_OK && pawl_report_step(report) == newest &&
                                 proof_state_seed(&ps) > 0;
    pawl_report_free(report);
    good = good && run_save(run, ps.state, 50, &saving, err) == PAWL_OK &&
           run_wait(run, 1, NULL, err) == PAWL_OK;
    good = good && proof_seed_of_step(world, 50, &os.table, err) == proof_state_seed(&ps);
    good = run_close(run, 1, err) == PAWL_OK && good;
    proof_state_free(&ps);
    return good;
}

static bool has_manifest(store *world, int64_t step) {
    struct pawl_error ignored = ERROR_INIT;
    store_stat found;
    char directory[32];
    char path[STORE_MAX_PATH];
    name_step(directory, step);
    snprintf(path, sizeof path, "%s/" NAME_MANIFEST, directory);
    return store_stat_path(world, path, &found, &ignored) == PAWL_OK;
}

/* Rebuilds every step that is not committed; those that were refused prove nothing. */
static void rebuild_all(proof *p, store *world, pawl_run *run, uint64_t operation) {
    simulated_platform os;
    simulated_platform_init(&os, 19);
    for (size_t i = 0; i < STEPS; i++) {
        struct pawl_error err = ERROR_INIT;
        int64_t step = step_numbers[i];
        if (has_manifest(world, step) || run_rebuild(run, step, false, &err) != PAWL_OK) {
            continue;
        }
        int64_t seed = proof_seed_of_step(world, step, &os.table, &err);
        proof_case(p, seed > 0, "after operation %llu, step %lld was rebuilt: %s",
                   (unsigned long long)operation, (long long)step,
                   seed > 0 ? "" : error_text(&err));
    }
}

static void try_rebuilds(proof *p, store *world, uint64_t operation) {
    struct pawl_error err = ERROR_INIT;
    simulated_platform os;
    store *seen;
    pawl_run *run;
    simulated_platform_init(&os, 19);
    os.others = PROCESS_DEAD;
    os.identity.pid++;
    proof_must(store_trace_wrap(world, &os.table, NULL, NULL, &seen, &err), &err);
    proof_must(run_open(seen, NULL, &os.table, &run, &err), &err);
    rebuild_all(p, world, run, operation);
    proof_must(run_close(run, 1, &err), &err);
}

/* ---- a crash after a crash ------------------------------------------------------------------ */

typedef struct copying {
    store *from, *to;
    const char *directory;
} copying;

static pawl_status copy_name(void *context, const store_listed *listed, pawl_error *err);

static pawl_status copy_directory(copying *c, const char *directory, pawl_error *err) {
    copying inside = {.from = c->from, .to = c->to, .directory = directory};
    TRY(store_list(c->from, directory, copy_name, &inside, err));
    return store_sync_dir(c->to, directory, err);
}

static pawl_status copy_file(copying *c, const char *path, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(store_read_file(c->from, path, SIZE_MAX / 2, &bytes, err));
    TRY(store_open(c->to, path, STORE_CREATE, &file, err));
    TRY(store_write(file, 0, bytes.data, bytes.size, err));
    return store_sync(file, err);
}

static pawl_status copy_name(void *context, const store_listed *listed, pawl_error *err) {
    const char *name = listed->name;
    copying *c = context;
    char path[STORE_MAX_PATH];
    store_stat found;
    snprintf(path, sizeof path, "%s%s%s", c->directory, c->directory[0] != '\0' ? "/" : "", name);
    TRY(store_stat_path(c->from, path, &found, err));
    if (found.type == STORE_FILE_TYPE) {
        return copy_file(c, path, err);
    }
    TRY(store_make_dir(c->to, path, err));
    return copy_directory(c, path, err);
}

/* A story whose disk holds, durably, what `world` holds. */
static void story_begin_from(story *s, const store_traits *traits, store *world) {
    struct pawl_error err = ERROR_INIT;
    story_begin(s, traits);
    simulated_platform_init(&s->os, 17);
    s->os.others = PROCESS_DEAD;
    s->os.identity.pid += 2;
    s->keep_last = 0;
    s->newest = -1;
    copying c = {.from = world, .to = s->disk, .directory = ""};
    if (copy_directory(&c, "", &err) != PAWL_OK) {
        fprintf(stderr, "%s\n", error_text(&err));
        abort();
    }
    for (size_t i = 0; i < STEPS; i++) {
        int64_t seed = proof_seed_of_step(world, step_numbers[i], &s->os.table, &err);
        if (seed > 0) {
            s->expected[i] = (expectation){.seeds = 1u << seed, .absent_after = NOBODY};
            s->newest = step_numbers[i];
        }
    }
}

typedef struct proofs {
    proof *worlds, *rebuilt;
} proofs;

static void try_life(const proofs *p, const store_traits *traits, const effort *bounds, life *live,
                     store *world);

/* ---- every world of one boundary ------------------------------------------------------------ */

typedef struct boundary {
    const proofs *proofs;
    const story *story;
    uint64_t operation;
    size_t pending;
    bool *keep;
} boundary;

/* NULL: the declared traits forbid it. */
static store *make_world(const boundary *b, size_t torn) {
    struct pawl_error err = ERROR_INIT;
    store *world = NULL;
    pawl_status status = store_crash_world(b->story->disk, b->keep, b->pending, torn, &world, &err);
    if (status == PAWL_EUSAGE) {
        return NULL;
    }
    proof_must(status, &err);
    return world;
}

static void try_world(boundary *b, size_t torn) {
    struct pawl_error err = ERROR_INIT;
    int64_t newest;
    store *world = make_world(b, torn);
    if (world == NULL) {
        return;
    }
    bool good = steps_as_expected(b->story, world, &newest, &err);
    good = good && life_goes_on(world, newest, &err);
    store_destroy(world);
    proof_case(b->proofs->worlds, good, "after operation %llu, %zu pending: %s",
               (unsigned long long)b->operation, b->pending, good ? "" : error_text(&err));
    world = make_world(b, torn);
    try_rebuilds(b->proofs->rebuilt, world, b->operation);
    store_destroy(world);
}

/* The subset whole, and with each of its writes torn. */
static void try_subset(boundary *b, bool tear) {
    try_world(b, SIZE_MAX);
    for (size_t i = 0; tear && i < b->pending; i++) {
        if (b->keep[i]) {
            try_world(b, i);
        }
    }
}

static void try_all_subsets(boundary *b) {
    for (uint64_t bits = 0; bits < UINT64_C(1) << b->pending; bits++) {
        for (size_t i = 0; i < b->pending; i++) {
            b->keep[i] = (bits >> i & 1) != 0;
        }
        try_subset(b, b->pending <= 8);
    }
}

static void try_some_subsets(boundary *b, size_t samples) {
    test_random random = {.state = b->operation};
    for (size_t i = 0; i < samples; i++) {
        uint64_t bias = random_below(&random, 9) + 1;
        for (size_t j = 0; j < b->pending; j++) {
            b->keep[j] = random_below(&random, 10) < bias;
        }
        try_world(b, SIZE_MAX);
        size_t torn = (size_t)random_below(&random, b->pending);
        if (b->keep[torn]) {
            try_world(b, torn);
        }
    }
}

static void try_boundary(const proofs *p, const story *s, uint64_t operation,
                         const effort *bounds) {
    boundary b = {
        .proofs = p, .story = s, .operation = operation, .pending = store_crash_pending(s->disk)};
    b.keep = calloc(b.pending + 1, sizeof *b.keep);
    if (b.keep == NULL) {
        abort();
    }
    if (b.pending <= bounds->all_subsets_up_to) {
        try_all_subsets(&b);
    } else {
        try_some_subsets(&b, bounds->samples);
    }
    free(b.keep);
}

/* One of the worlds of this boundary, chosen by its number. */
static store *some_world(const story *s, uint64_t operation) {
    struct pawl_error err = ERROR_INIT;
    test_random random = {.state = operation};
    size_t pending = store_crash_pending(s->disk);
    bool *keep = calloc(pending + 1, sizeof *keep);
    store *world = NULL;
    if (keep == NULL) {
        abort();
    }
    for (int attempt = 0; attempt < 20 && world == NULL; attempt++) {
        for (size_t i = 0; i < pending; i++) {
            keep[i] = random_below(&random, 2) != 0;
        }
        if (store_crash_world(s->disk, keep, pending, SIZE_MAX, &world, &err) != PAWL_OK) {
            world = NULL;
        }
    }
    free(keep);
    return world;
}

static void recover_from(const proofs *p, const store_traits *traits, const effort *bounds,
                         const story *s, uint64_t operation) {
    effort once = *bounds;
    once.recoveries = 0;
    store *world = some_world(s, operation);
    if (world != NULL) {
        try_life(p, traits, &once, second_life, world);
        store_destroy(world);
    }
}

/* The life, up to this operation. True: the life ends before it. */
static bool try_operation(const proofs *p, const store_traits *traits, const effort *bounds,
                          life *live, store *world, uint64_t operation) {
    struct pawl_error err = ERROR_INIT;
    story s;
    if (world != NULL) {
        story_begin_from(&s, traits, world);
    } else {
        story_begin(&s, traits);
    }
    s.events = bounds->events;
    store_crash_stop_after(s.disk, operation);
    bool ended = live(&s, &err) == PAWL_OK;
    if (operation > MOST_OPERATIONS) {
        fprintf(stderr, "the life does not end: %s\n", error_text(&err));
        abort();
    }
    try_boundary(p, &s, operation, bounds);
    if (bounds->recoveries != 0 && operation % bounds->recoveries == 0) {
        recover_from(p, traits, bounds, &s, operation);
    }
    story_end(&s);
    return ended;
}

/* Lives the life again and again, up to each of its operations. */
static void try_life(const proofs *p, const store_traits *traits, const effort *bounds, life *live,
                     store *world) {
    uint64_t operation = 0;
    while (!try_operation(p, traits, bounds, live, world, operation)) {
        operation += bounds->stride;
    }
}

/* ---- the parts ------------------------------------------------------------------------------ */

/* A first life, of which each operation is a part. */
typedef struct plan {
    store_traits traits;
    effort bounds;
    uint64_t parts;
} plan;

#define PLANS 3

typedef struct everything {
    proofs proofs;
    plan plans[PLANS];
} everything;

/* From none of the life's operations to all of them. */
static uint64_t count_parts(const plan *one) {
    struct pawl_error err = ERROR_INIT;
    story s;
    story_begin(&s, &one->traits);
    s.events = one->bounds.events;
    proof_must(first_life(&s, &err), &err);
    uint64_t operations = store_crash_operations(s.disk);
    story_end(&s);
    return (operations + one->bounds.stride - 1) / one->bounds.stride + 1;
}

static bool try_part(void *context, uint64_t part) {
    const everything *all = context;
    size_t i = 0;
    while (i < PLANS && part >= all->plans[i].parts) {
        part -= all->plans[i++].parts;
    }
    if (i == PLANS) {
        return false;
    }
    const plan *one = &all->plans[i];
    (void)try_operation(&all->proofs, &one->traits, &one->bounds, first_life, NULL,
                        part * one->bounds.stride);
    return true;
}

int main(int argc, char **argv) {
    proof_options options = proof_parse(argc, argv);
    bool full = options.full;
    const effort how_much = {.all_subsets_up_to = full ? 12 : 5,
                             .samples = full ? 4000 : 40,
                             .stride = full ? 1 : STRIDE,
                             .recoveries = full ? 2 : 32};
    effort with_events = how_much;
    with_events.events = true;
    const store_traits any_order = {
        .kind = "crash", .atomic_rename = true, .atomic_write_bytes = 512};
    const store_traits in_order = {
        .kind = "crash", .atomic_rename = true, .ordered_names = true, .atomic_write_bytes = 4096};
    /* What takes longest first, so that all processes end at about the same time. */
    everything all = {
        .proofs = {.worlds = proof_new("crash states: old or new, whole"),
                   .rebuilt = proof_new("rebuilt after a crash: the bytes of a save")},
        .plans = {{.traits = any_order, .bounds = with_events},
                  {.traits = any_order, .bounds = how_much},
                  {.traits = in_order, .bounds = how_much}}};
    proof_parts parts = {.counts = all.proofs.worlds, .attempt = try_part, .context = &all};
    for (size_t i = 0; i < PLANS; i++) {
        all.plans[i].parts = count_parts(&all.plans[i]);
        parts.count += all.plans[i].parts;
    }
    proof_try_parts(&options, &parts);
    int whole = proof_end(all.proofs.worlds);
    return proof_end(all.proofs.rebuilt) | whole;
}
