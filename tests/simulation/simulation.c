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
} histories;

static void replay_seed(const void *context, uint64_t part, char *text, size_t capacity) {
    const histories *h = context;
    snprintf(text, capacity, "--replay %llu --ranks %d --trace",
             (unsigned long long)(h->from + part), h->ranks);
}

static bool try_seed(void *context, uint64_t part) {
    const histories *h = context;
    world_counts counts = {0};
    uint64_t broken = world_live(h->from + part, h->ranks, false, &counts);
    proof_case(h->p, broken == 0, "%llu promises", (unsigned long long)broken);
    add_counts(&counts);
    return true;
}

static void try_seeds(proof *p, uint64_t from, uint64_t seeds, int ranks) {
    histories h = {.p = p, .from = from, .ranks = ranks};
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
    bool after;
} dying;

/* How the ranks meet, and whether the library has threads. */
static void set_variant(world_death *d, int variant) {
    d->threads = variant != 1;
    d->callbacks = variant == 2;
}

static void replay_dying(const void *context, uint64_t part, char *text, size_t capacity) {
    const dying *d = context;
    snprintf(text, capacity, "--death %d:%llu:%s:%d --ranks %d --trace", d->rank,
             (unsigned long long)(part + 1), d->after ? "after" : "before", d->variant, d->ranks);
}

static bool try_death(void *context, uint64_t part) {
    const dying *d = context;
    world_death death = {.ranks = d->ranks, .rank = d->rank, .nth = part + 1, .after = d->after};
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

static void try_deaths(proof *p, int ranks, int rank, bool after, int variant) {
    dying d = {.p = p, .ranks = ranks, .rank = rank, .after = after, .variant = variant};
    const proof_parts parts = {.counts = p,
                               .count = MOST_OPERATIONS,
                               .open = true,
                               .apart = true,
                               .attempt = try_death,
                               .context = &d,
                               .replay = replay_dying};
    proof_try_parts(&in_parts, &parts);
}

static void try_all_deaths(proof *p, int ranks, int variants) {
    for (int variant = 0; variant < variants; variant++) {
        for (int rank = 0; rank < ranks; rank++) {
            try_deaths(p, ranks, rank, false, variant);
            try_deaths(p, ranks, rank, true, variant);
        }
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static int replay(const options *o) {
    world_counts counts = {0};
    return world_live(strtoull(o->replay, NULL, 10), o->ranks, o->trace, &counts) > 0;
}

static int replay_death(const options *o) {
    world_death death = {.ranks = o->ranks};
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

static bool parse(int argc, char **argv, options *o) {
    static const struct option known[] = {
        {"full", no_argument, NULL, 'f'},         {"seeds", required_argument, NULL, 's'},
        {"from", required_argument, NULL, 'b'},   {"ranks", required_argument, NULL, 'r'},
        {"replay", required_argument, NULL, 'p'}, {"death", required_argument, NULL, 'd'},
        {"trace", no_argument, NULL, 't'},        {"deaths", no_argument, NULL, 'a'},
        {"lags", required_argument, NULL, 'l'},   {NULL, 0, NULL, 0}};
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
        if (found == '?') {
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

static int prove(const options *o) {
    proof *one = proof_new("simulated runs of 1 rank, by seed");
    proof *few = proof_new("simulated runs of 4 ranks, by seed");
    proof *many = proof_new("simulated runs of 64 ranks, by seed");
    proof *huge = proof_new("a simulated run of 4,096 ranks");
    proof *deaths = proof_new("deaths at each operation of a save of 4 ranks");
    try_seeds(one, o->from, o->full ? 10000 : 200 / SANITIZER_SLOWNESS, 1);
    try_seeds(few, o->from, o->full ? 10000 : 400 / SANITIZER_SLOWNESS, 4);
    try_seeds(many, o->from, o->full ? 2000 : 40 / SANITIZER_SLOWNESS, 64);
    try_all_deaths(deaths, 4, o->full ? VARIANTS : 1);
    if (o->full) {
        try_seeds(huge, o->from, 1, 4096);
    }
    say_counts(totals);
    int failed = proof_end(one) | proof_end(few) | proof_end(many) | proof_end(deaths);
    return o->full ? failed | proof_end(huge) : failed;
}

static int prove_deaths(const options *o) {
    char name[64];
    snprintf(name, sizeof name, "deaths at each operation of a save of %d ranks", o->ranks);
    proof *p = proof_new(name);
    try_all_deaths(p, o->ranks, VARIANTS);
    say_counts(totals);
    return proof_end(p);
}

static int prove_given(const options *o) {
    char name[64];
    snprintf(name, sizeof name, "simulated runs of %d ranks, by seed", o->ranks);
    proof *p = proof_new(name);
    try_seeds(p, o->from, o->seeds, o->ranks);
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
