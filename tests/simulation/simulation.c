/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs by simulation: whole jobs, their storage and what befalls them, in one process and from a
 * seed. Each history runs in a process of its own, so that one which crashes or never ends is a
 * finding like any other. A history that breaks a promise prints the command that replays it.
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
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED         77
#define MOST_SECONDS    3600 /* of real time, for one history */
#define MOST_LOST       20
#define VARIANTS        3
#define MOST_OPERATIONS 10000

typedef struct options {
    uint64_t seeds, from;
    int ranks;
    bool full, trace, given, deaths;
    const char *replay, *death;
} options;

/* What a child tells of its history. */
typedef struct answer {
    world_counts counts;
    uint64_t broken;
    bool died;
} answer;

static answer *shared;

/* Zero: no promise was broken. */
static int in_a_child(void (*live)(const void *what), const void *what) {
    int status;
    (void)fflush(stdout);
    shared->broken = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(MOST_SECONDS);
        live(what);
        (void)fflush(stdout);
        _exit(shared->broken > 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("a child");
        exit(EXIT_FAILURE);
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "%s\n", strsignal(WTERMSIG(status)));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

/* ---- histories from seeds -------------------------------------------------------------------- */

typedef struct history {
    uint64_t seed;
    int ranks;
    bool trace;
} history;

static void live_history(const void *what) {
    const history *h = what;
    shared->broken = world_live(h->seed, h->ranks, h->trace, &shared->counts);
}

static void try_seeds(proof *p, uint64_t from, uint64_t seeds, int ranks) {
    for (uint64_t i = 0; i < seeds && p->lost < MOST_LOST; i++) {
        const history h = {.seed = from + i, .ranks = ranks};
        proof_case(p, in_a_child(live_history, &h) == 0,
                   "replay it with: proof_simulation --replay %llu --ranks %d --trace",
                   (unsigned long long)h.seed, ranks);
    }
}

/* ---- deaths at each operation ---------------------------------------------------------------- */

typedef struct dying {
    world_death death;
    bool trace;
} dying;

static void live_and_die(const void *what) {
    const dying *d = what;
    shared->died = world_die(&d->death, d->trace, &shared->counts, &shared->broken);
}

/* How the ranks meet, and whether the library has threads. */
static void set_variant(world_death *d, int variant) {
    d->threads = variant != 1;
    d->callbacks = variant == 2;
}

static void try_deaths(proof *p, int ranks, int rank, bool after, int variant) {
    for (uint64_t nth = 1; nth < MOST_OPERATIONS && p->lost < MOST_LOST; nth++) {
        dying d = {.death = {.ranks = ranks, .rank = rank, .nth = nth, .after = after}};
        set_variant(&d.death, variant);
        shared->died = true;
        bool good = in_a_child(live_and_die, &d) == 0;
        if (!shared->died) {
            return;
        }
        proof_case(p, good,
                   "replay it with: proof_simulation --death %d:%llu:%s:%d --ranks %d --trace",
                   rank, (unsigned long long)nth, after ? "after" : "before", variant, ranks);
    }
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
    const history h = {.seed = strtoull(o->replay, NULL, 10), .ranks = o->ranks, .trace = o->trace};
    return in_a_child(live_history, &h);
}

static int replay_death(const options *o) {
    dying d = {.death = {.ranks = o->ranks}, .trace = o->trace};
    char *at;
    d.death.rank = (int)strtol(o->death, &at, 10);
    d.death.nth = strtoull(at + (*at == ':'), &at, 10);
    d.death.after = strncmp(at, ":after", 6) == 0;
    const char *variant = strrchr(at, ':');
    if (d.death.rank < 0 || d.death.rank >= o->ranks || d.death.nth == 0 || variant == NULL) {
        fprintf(stderr, "--death RANK:OPERATION:before|after:VARIANT\n");
        return EXIT_FAILURE;
    }
    set_variant(&d.death, (int)strtol(variant + 1, NULL, 10));
    return in_a_child(live_and_die, &d);
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
    proof one = {.name = "simulated runs of 1 rank, by seed"};
    proof few = {.name = "simulated runs of 4 ranks, by seed"};
    proof many = {.name = "simulated runs of 64 ranks, by seed"};
    proof huge = {.name = "a simulated run of 4,096 ranks"};
    proof deaths = {.name = "deaths at each operation of a save of 4 ranks"};
    try_seeds(&one, o->from, o->full ? 10000 : 200 / SANITIZER_SLOWNESS, 1);
    try_seeds(&few, o->from, o->full ? 10000 : 400 / SANITIZER_SLOWNESS, 4);
    try_seeds(&many, o->from, o->full ? 2000 : 40 / SANITIZER_SLOWNESS, 64);
    try_all_deaths(&deaths, 4, o->full ? VARIANTS : 1);
    if (o->full) {
        try_seeds(&huge, o->from, 1, 4096);
    }
    say_counts(&shared->counts);
    int failed = proof_end(&one) | proof_end(&few) | proof_end(&many) | proof_end(&deaths);
    return o->full ? failed | proof_end(&huge) : failed;
}

static int prove_deaths(const options *o) {
    char name[64];
    snprintf(name, sizeof name, "deaths at each operation of a save of %d ranks", o->ranks);
    proof p = {.name = name};
    try_all_deaths(&p, o->ranks, VARIANTS);
    say_counts(&shared->counts);
    return proof_end(&p);
}

static int prove_given(const options *o) {
    char name[64];
    snprintf(name, sizeof name, "simulated runs of %d ranks, by seed", o->ranks);
    proof p = {.name = name};
    try_seeds(&p, o->from, o->seeds, o->ranks);
    say_counts(&shared->counts);
    return proof_end(&p);
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
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("shared memory");
        return EXIT_FAILURE;
    }
    if (o.replay != NULL) {
        return replay(&o);
    }
    if (o.death != NULL) {
        return replay_death(&o);
    }
    if (o.deaths) {
        return prove_deaths(&o);
    }
    return o.given ? prove_given(&o) : prove(&o);
}
