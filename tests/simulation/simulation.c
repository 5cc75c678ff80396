/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs by simulation: whole jobs, their storage and what befalls them, in one process and from a
 * seed. Each history runs in a process of its own, some beside each other, so that one which
 * crashes or never ends is a finding like any other. A history that breaks a promise prints the
 * command that replays it.
 *
 *   proof_simulation [--full] [--from SEED] [--seeds N] [--ranks N]
 *   proof_simulation --deaths [--ranks N]
 *   proof_simulation --replay SEED --ranks N [--trace]
 *       --objects strong|late: on an object store, whose listings and reads are up to date, or may
 *       be old [by seed: on a filesystem, or an object store that is up to date]
 *       --lags KINDS: only these of the storage's lags (world.h)
 *   proof_simulation --death RANK:OPERATION:before|after:VARIANT --ranks N [--trace]
 */
#include "proofs/proof.h"
#include "simulation/sanitizers.h"
#include "simulation/world.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SKIPPED         77
#define VARIANTS        3
#define MOST_OPERATIONS 10000

typedef struct options {
    uint64_t seeds, from;
    int ranks;
    world_storage storage;
    bool full, trace, given, deaths;
    const char *replay, *death;
} options;

static const proof_options in_parts = {.alone = false};

/* What the histories were, of all processes. */
static world_counts *totals;

static void add(uint64_t *to, uint64_t n) {
    __atomic_fetch_add(to, n, __ATOMIC_RELAXED);
}

static void add_counts(const world_counts *c) {
    add(&totals->worlds, c->worlds);
    add(&totals->broken, c->broken);
    add(&totals->operations, c->operations);
    add(&totals->commits, c->commits);
    add(&totals->read_back, c->read_back);
    add(&totals->deaths, c->deaths);
    add(&totals->stops, c->stops);
    add(&totals->takeovers, c->takeovers);
}

/* ---- histories from seeds -------------------------------------------------------------------- */

typedef struct histories {
    proof *p;
    uint64_t from;
    int ranks;
    world_storage storage;
} histories;

/* The option by which a history is replayed on its storage. */
static const char *storage_option(world_storage kind) {
    switch (kind) {
    case WORLD_OBJECTS:
        return " --objects strong";
    case WORLD_OBJECTS_LATE:
        return " --objects late";
    default:
        return "";
    }
}

static void replay_seed(const void *context, uint64_t part, char *text, size_t capacity) {
    const histories *h = context;
    snprintf(text, capacity, "--replay %llu --ranks %d%s --trace",
             (unsigned long long)(h->from + part), h->ranks, storage_option(h->storage));
}

static bool try_seed(void *context, uint64_t part) {
    const histories *h = context;
    world_counts counts = {0};
    uint64_t broken = world_live(h->from + part, h->ranks, h->storage, false, &counts);
    proof_case(h->p, broken == 0, "%llu promises", (unsigned long long)broken);
    add_counts(&counts);
    return true;
}

static void try_seeds(proof *p, uint64_t from, uint64_t seeds, int ranks, world_storage kind) {
    histories h = {.p = p, .from = from, .ranks = ranks, .storage = kind};
    const proof_parts parts = {.counts = p,
                               .count = seeds,
                               .apart = true,
                               .attempt = try_seed,
                               .context = &h,
                               .replay = replay_seed};
    proof_try_parts(&in_parts, &parts);
}

/* ---- deaths at each operation ---------------------------------------------------------------- */

typedef struct dying {
    proof *p;
    int ranks, rank, variant;
    world_storage storage;
    bool after;
} dying;

/* How the ranks meet, and whether the library has threads. */
static void set_variant(world_death *d, int variant) {
    d->threads = variant != 1;
    d->callbacks = variant == 2;
}

static void replay_dying(const void *context, uint64_t part, char *text, size_t capacity) {
    const dying *d = context;
    snprintf(text, capacity, "--death %d:%llu:%s:%d --ranks %d%s --trace", d->rank,
             (unsigned long long)(part + 1), d->after ? "after" : "before", d->variant, d->ranks,
             storage_option(d->storage));
}

static bool try_death(void *context, uint64_t part) {
    const dying *d = context;
    world_death death = {.ranks = d->ranks,
                         .rank = d->rank,
                         .nth = part + 1,
                         .after = d->after,
                         .storage = d->storage};
    world_counts counts = {0};
    uint64_t broken = 0;
    set_variant(&death, d->variant);
    bool died = world_die(&death, false, &counts, &broken);
    add_counts(&counts);
    if (died) {
        proof_case(d->p, broken == 0, "%llu promises", (unsigned long long)broken);
    }
    return died;
}

static void try_deaths(const dying *d) {
    const proof_parts parts = {.counts = d->p,
                               .count = MOST_OPERATIONS,
                               .open = true,
                               .apart = true,
                               .attempt = try_death,
                               .context = (void *)d,
                               .replay = replay_dying};
    proof_try_parts(&in_parts, &parts);
}

static void try_all_deaths(proof *p, int ranks, int variants, world_storage kind) {
    dying d = {.p = p, .ranks = ranks, .storage = kind};
    for (d.variant = 0; d.variant < variants; d.variant++) {
        for (d.rank = 0; d.rank < ranks; d.rank++) {
            d.after = false;
            try_deaths(&d);
            d.after = true;
            try_deaths(&d);
        }
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static int replay(const options *o) {
    world_counts counts = {0};
    return world_live(strtoull(o->replay, NULL, 10), o->ranks, o->storage, o->trace, &counts) > 0;
}

static int replay_death(const options *o) {
    world_death death = {.ranks = o->ranks, .storage = o->storage};
    world_counts counts = {0};
    uint64_t broken = 0;
    char *at;
    death.rank = (int)strtol(o->death, &at, 10);
    death.nth = strtoull(at + (*at == ':'), &at, 10);
    death.after = strncmp(at, ":after", 6) == 0;
    const char *variant = strrchr(at, ':');
    if (death.rank < 0 || death.rank >= o->ranks || death.nth == 0 || variant == NULL) {
        fprintf(stderr, "--death RANK:OPERATION:before|after:VARIANT\n");
        return EXIT_FAILURE;
    }
    set_variant(&death, (int)strtol(variant + 1, NULL, 10));
    (void)world_die(&death, o->trace, &counts, &broken);
    return broken > 0;
}

static bool parse_storage(const char *text, options *o) {
    o->storage = strcmp(text, "late") == 0 ? WORLD_OBJECTS_LATE : WORLD_OBJECTS;
    return o->storage == WORLD_OBJECTS_LATE || strcmp(text, "strong") == 0;
}

static bool parse(int argc, char **argv, options *o) {
    static const struct option known[] = {{"full", no_argument, NULL, 'f'},
                                          {"seeds", required_argument, NULL, 's'},
                                          {"from", required_argument, NULL, 'b'},
                                          {"ranks", required_argument, NULL, 'r'},
                                          {"replay", required_argument, NULL, 'p'},
                                          {"death", required_argument, NULL, 'd'},
                                          {"trace", no_argument, NULL, 't'},
                                          {"deaths", no_argument, NULL, 'a'},
                                          {"lags", required_argument, NULL, 'l'},
                                          {"objects", required_argument, NULL, 'o'},
                                          {NULL, 0, NULL, 0}};
    int found;
    while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
        o->full = o->full || found == 'f';
        o->trace = o->trace || found == 't';
        o->deaths = o->deaths || found == 'a';
        o->given = o->given || found == 's';
        o->seeds = found == 's' ? strtoull(optarg, NULL, 10) : o->seeds;
        o->from = found == 'b' ? strtoull(optarg, NULL, 10) : o->from;
        o->ranks = found == 'r' ? (int)strtol(optarg, NULL, 10) : o->ranks;
        o->replay = found == 'p' ? optarg : o->replay;
        o->death = found == 'd' ? optarg : o->death;
        world_lag_kinds = found == 'l' ? strtoull(optarg, NULL, 10) : world_lag_kinds;
        if (found == '?' || (found == 'o' && !parse_storage(optarg, o))) {
            return false;
        }
    }
    return o->ranks > 0;
}

static void say_counts(const world_counts *c) {
    fprintf(stderr,
            "%llu histories: %llu storage operations, %llu commits, %llu read back, %llu deaths, "
            "%llu stops, %llu takeovers\n",
            (unsigned long long)c->worlds, (unsigned long long)c->operations,
            (unsigned long long)c->commits, (unsigned long long)c->read_back,
            (unsigned long long)c->deaths, (unsigned long long)c->stops,
            (unsigned long long)c->takeovers);
}

static void try_sizes(proof *one, proof *few, proof *many, const options *o) {
    world_storage kind = o->storage;
    try_seeds(one, o->from, o->full ? 10000 : 200 / SANITIZER_SLOWNESS, 1, kind);
    try_seeds(few, o->from, o->full ? 10000 : 400 / SANITIZER_SLOWNESS, 4, kind);
    try_seeds(many, o->from, o->full ? 2000 : 40 / SANITIZER_SLOWNESS, 64, kind);
}

/* On an object store: of each seed a job of some size from 1 to 64 ranks. */
static void try_objects(proof *p, const options *o, world_storage kind) {
    static const int sizes[] = {1, 2, 4, 7, 16, 64};
    static const uint64_t full[] = {2000, 2000, 2000, 1000, 500, 500};
    static const uint64_t some[] = {40, 40, 60, 15, 6, 4};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        uint64_t fewer = (some[i] + SANITIZER_SLOWNESS - 1) / SANITIZER_SLOWNESS;
        try_seeds(p, o->from, o->full ? full[i] : fewer, sizes[i], kind);
    }
}

static int prove_objects(const options *o) {
    proof *strong = proof_new("simulated runs on an object store, by seed");
    proof *late = proof_new("simulated runs on one that is seen late, by seed");
    proof *deaths = proof_new("deaths at each operation on an object store, 4 ranks");
    try_objects(strong, o, WORLD_OBJECTS);
    try_objects(late, o, WORLD_OBJECTS_LATE);
    try_all_deaths(deaths, 4, o->full ? VARIANTS : 1, WORLD_OBJECTS);
    if (o->full) {
        try_all_deaths(deaths, 4, VARIANTS, WORLD_OBJECTS_LATE);
    }
    return proof_end(strong) | proof_end(late) | proof_end(deaths);
}

static int prove(const options *o) {
    proof *one = proof_new("simulated runs of 1 rank, by seed");
    proof *few = proof_new("simulated runs of 4 ranks, by seed");
    proof *many = proof_new("simulated runs of 64 ranks, by seed");
    proof *huge = proof_new("a simulated run of 4,096 ranks");
    proof *deaths = proof_new("deaths at each operation of a save of 4 ranks");
    try_sizes(one, few, many, o);
    try_all_deaths(deaths, 4, o->full ? VARIANTS : 1, WORLD_FILESYSTEM);
    if (o->full) {
        try_seeds(huge, o->from, 1, 4096, o->storage);
    }
    int failed = proof_end(one) | proof_end(few) | proof_end(many) | proof_end(deaths);
    failed |= prove_objects(o);
    say_counts(totals);
    return o->full ? failed | proof_end(huge) : failed;
}

static int prove_deaths(const options *o) {
    char name[64];
    snprintf(name, sizeof name, "deaths at each operation of a save of %d ranks", o->ranks);
    proof *p = proof_new(name);
    try_all_deaths(p, o->ranks, VARIANTS, o->storage);
    say_counts(totals);
    return proof_end(p);
}

static int prove_given(const options *o) {
    char name[64];
    snprintf(name, sizeof name, "simulated runs of %d ranks, by seed", o->ranks);
    proof *p = proof_new(name);
    try_seeds(p, o->from, o->seeds, o->ranks, o->storage);
    say_counts(totals);
    return proof_end(p);
}

/* Simulated machines last as long as their process: there is no leak to look for. */
static _Noreturn void end(int status) {
    fflush(stdout);
    _exit(status);
}

int main(int argc, char **argv) {
    options o = {.from = 1, .ranks = 64};
    if (!parse(argc, argv, &o)) {
        return EXIT_FAILURE;
    }
    if (!fibers_possible()) {
        printf("skipped: this sanitizer cannot follow fibers\n");
        return SKIPPED;
    }
    totals = proof_shared(sizeof *totals);
    if (o.replay != NULL) {
        end(replay(&o));
    }
    if (o.death != NULL) {
        end(replay_death(&o));
    }
    if (o.deaths) {
        return prove_deaths(&o);
    }
    return o.given ? prove_given(&o) : prove(&o);
}
