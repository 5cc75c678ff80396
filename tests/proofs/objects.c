/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run on an object store, and each of its calls to the storage: the process dies at it, before it
 * or when it is done; stands still at it while another process takes the run over, and goes on; is
 * told that it failed, done or not. Then the next process opens the run, restores, saves, and lets
 * retention and gc run: nothing that was told to be saved is lost, and nothing else is offered
 * (objects_story.h). On a store whose listings and reads are always up to date, and on one where
 * they may be old.
 *
 * Usage: proof_objects [--full]
 *        proof_objects --try MODE:LIFE:EVENT:CALL[:EVENT[:next]]
 */
#include "proofs/objects_story.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The suite tries one of so many calls. A sanitizer makes each many times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PART 16
#else
#define PART 2
#endif

#define MOST_CALLS      5000
#define SHORTEST_OUTAGE 3 /* calls */
#define SHORT_OUTAGE    5 /* calls */
#define LONG_OUTAGE     25
#define DEATH_REACH     60 /* a death comes so many calls after a call that is late, at most */
#define PAIR_REACH      12 /* the second failure comes so many calls after the first, at most */

typedef struct event {
    const char *name;
    fate fate;
    bool retries;  /* by a process that repeats what may pass */
    bool harmless; /* nothing is lost by it: the life ends well */
    bool for_next; /* FATE_LATE: it arrives when the next process has the run */
    bool stays;    /* FATE_PAUSES: the other process does not end before */
} event;

static const event deaths[] = {
    {.name = "dies", .fate = {.kind = FATE_DIES}},
    {.name = "dies-done", .fate = {.kind = FATE_DIES, .done = true}},
};

static const event pauses[] = {
    {.name = "pauses", .fate = {.kind = FATE_PAUSES}},
    {.name = "pauses-done", .fate = {.kind = FATE_PAUSES, .done = true}},
    {.name = "pauses-beside", .fate = {.kind = FATE_PAUSES}, .stays = true},
    {.name = "pauses-done-beside", .fate = {.kind = FATE_PAUSES, .done = true}, .stays = true},
};

static const event lates[] = {
    {.name = "late", .fate = {.kind = FATE_LATE, .system_errno = ETIMEDOUT}},
    {.name = "late-for-next",
     .fate = {.kind = FATE_LATE, .system_errno = ETIMEDOUT},
     .for_next = true},
    {.name = "dies-late", .fate = {.kind = FATE_LATE}, .for_next = true},
    {.name = "late-outage",
     .fate = {.kind = FATE_LATE, .system_errno = ETIMEDOUT, .outage = LONG_OUTAGE}},
    {.name = "late-outage-for-next",
     .fate = {.kind = FATE_LATE, .system_errno = ETIMEDOUT, .outage = LONG_OUTAGE},
     .for_next = true},
    {.name = "late-short-outage-for-next",
     .fate = {.kind = FATE_LATE, .system_errno = ETIMEDOUT, .outage = SHORT_OUTAGE},
     .for_next = true},
};

/* Then it dies; its put or removal arrives before the next process opens the run, or after. */
static const event late_manifests[] = {
    {.name = "late-manifest",
     .fate = {.kind = FATE_LATE,
              .system_errno = ETIMEDOUT,
              .outage = SHORTEST_OUTAGE,
              .of_manifest = true}},
    {.name = "late-manifest-for-next",
     .fate = {.kind = FATE_LATE,
              .system_errno = ETIMEDOUT,
              .outage = SHORT_OUTAGE,
              .of_manifest = true},
     .for_next = true},
};

static const event failures[] = {
    {.name = "eio", .fate = {.kind = FATE_FAILS, .system_errno = EIO}},
    {.name = "eio-done", .fate = {.kind = FATE_FAILS, .system_errno = EIO, .done = true}},
    {.name = "timeout", .fate = {.kind = FATE_FAILS, .system_errno = ETIMEDOUT}},
    {.name = "timeout-done", .fate = {.kind = FATE_FAILS, .system_errno = ETIMEDOUT, .done = true}},
    {.name = "refused", .fate = {.kind = FATE_FAILS, .system_errno = EACCES}},
    {.name = "full", .fate = {.kind = FATE_FAILS, .system_errno = ENOSPC}},
    {.name = "throttled", .fate = {.kind = FATE_FAILS, .system_errno = EAGAIN}},
    {.name = "throttled-repeated",
     .fate = {.kind = FATE_FAILS, .system_errno = EAGAIN},
     .retries = true,
     .harmless = true},
    {.name = "timeout-repeated",
     .fate = {.kind = FATE_FAILS, .system_errno = ETIMEDOUT},
     .retries = true},
    {.name = "timeout-done-repeated",
     .fate = {.kind = FATE_FAILS, .system_errno = ETIMEDOUT, .done = true},
     .retries = true},
};

static const event *find_in(const event *events, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(events[i].name, name) == 0) {
            return &events[i];
        }
    }
    return NULL;
}

static const event *find_event(const char *name) {
    const event *found = find_in(deaths, ARRAY_LENGTH(deaths), name);
    found = found != NULL ? found : find_in(late_manifests, ARRAY_LENGTH(late_manifests), name);
    found = found != NULL ? found : find_in(lates, ARRAY_LENGTH(lates), name);
    found = found != NULL ? found : find_in(pauses, ARRAY_LENGTH(pauses), name);
    return found != NULL ? found : find_in(failures, ARRAY_LENGTH(failures), name);
}

/* ---- one history ----------------------------------------------------------------------------- */

typedef struct history {
    bool late;
    size_t life;
    const event *first, *second; /* `second`: of two failures; NULL: one */
    uint64_t nth;
    uint64_t beyond; /* the second is so many calls after the first, or the next process's n-th */
    bool of_next;    /* the second befalls the next process */
} history;

static void set_fates(process *p, const history *h) {
    p->fates[0] = h->first->fate;
    p->fates[0].nth = h->nth;
    if (h->second != NULL && !h->of_next) {
        p->fates[1] = h->second->fate;
        p->fates[1].nth = h->nth + h->beyond;
    }
}

static bool goes_on(const history *h, story *s, process *first) {
    const fate nothing = {.kind = FATE_NONE};
    bool met = true;
    if (h->of_next) {
        fate f = h->second->fate;
        f.nth = h->beyond;
        met = story_goes_on(s, 3, &f, NULL);
    }
    (void)story_goes_on(s, 4, &nothing, first);
    return met;
}

/* False: the life, or the next, has no such call. *idle: it is none that is worth a look. */
static bool live(const history *h, story *s, char at[STORE_MAX_PATH + 32], bool *idle) {
    struct pawl_error err = ERROR_INIT;
    actor a;
    takeover t = {.victim = &a, .stays = h->first->stays};
    story_begin(s, h->late, h->first->retries);
    story_live_before(s, h->life);
    actor_begin(&a, s, 1);
    a.stubborn = h->first->fate.kind == FATE_FAILS || h->first->fate.kind == FATE_LATE;
    set_fates(&a.process, h);
    a.process.pause = takeover_happens;
    a.process.pause_context = &t;
    pawl_status status = story_lives[h->life](&a, &err);
    actor_end(&a);
    if (!h->first->for_next) {
        process_deliver(&a.process);
    }
    bool met = process_met_its_fate(&a.process);
    *idle = a.process.idle;
    snprintf(at, STORE_MAX_PATH + 32, "%s", a.process.at);
    if (met && h->first->harmless && (status != PAWL_OK || a.failures > 0)) {
        story_broken(s, "it should have passed: %s", error_text(&a.failure));
    }
    if (t.ended) {
        takeover_check(&t);
    }
    if (met) {
        story_check(s);
        met = goes_on(h, s, &a.process);
    }
    process_free(&a.process);
    return met;
}

static bool try_history(proof *p, const history *h, bool *idle) {
    static story s;
    char at[STORE_MAX_PATH + 32];
    bool met = live(h, &s, at, idle);
    if (met && !*idle) {
        proof_case(p, s.wrong[0] == '\0', "%s: %s", at, s.wrong);
    }
    story_end(&s);
    return met;
}

/* ---- many ------------------------------------------------------------------------------------ */

typedef struct effort {
    proof *p;
    history h;
    uint64_t stride;
    uint64_t reach, next_stride; /* of the second event; reach 0: there is none */
} effort;

static bool try_call(void *context, uint64_t part) {
    effort *e = context;
    history h = e->h;
    h.nth = part * e->stride + 1;
    bool idle = false;
    if (e->reach == 0) {
        return try_history(e->p, &h, &idle);
    }
    bool any = false;
    bool met = true;
    for (h.beyond = 1; h.beyond <= e->reach && (met || !h.of_next) && !idle;
         h.beyond += e->next_stride) {
        met = try_history(e->p, &h, &idle);
        any = any || met || idle;
    }
    return any;
}

static const char *mode_name(bool late) {
    return late ? "late" : "strong";
}

static void replay_call(const void *context, uint64_t part, char *text, size_t capacity) {
    const effort *e = context;
    snprintf(text, capacity, "--try %s:%zu:%s:%llu%s%s%s", mode_name(e->h.late), e->h.life,
             e->h.first->name, (unsigned long long)(part * e->stride + 1),
             e->h.second != NULL ? ":" : "", e->h.second != NULL ? e->h.second->name : "",
             e->h.of_next ? ":next" : "");
}

static void try_each_call(const effort *e) {
    const proof_options in_parts = {.alone = false};
    const proof_parts parts = {.counts = e->p,
                               .count = MOST_CALLS,
                               .open = true,
                               .attempt = try_call,
                               .context = (void *)e,
                               .replay = replay_call};
    proof_try_parts(&in_parts, &parts);
}

static void try_all(proof *p, const event *events, size_t count, uint64_t stride) {
    for (size_t i = 0; i < count * LIVES * 2; i++) {
        const effort e = {.p = p,
                          .stride = stride,
                          .h = {.first = &events[i % count],
                                .life = i / count % LIVES,
                                .late = i / count / LIVES > 0}};
        try_each_call(&e);
    }
}

/* Two failures at calls that are near each other, of the kinds that leave most open. */
static void try_pairs(proof *p, uint64_t stride) {
    static const char *const kinds[] = {"eio-done", "timeout", "timeout-done"};
    size_t count = ARRAY_LENGTH(kinds);
    for (size_t i = 0; i < count * count * LIVES * 2; i++) {
        const effort e = {.p = p,
                          .stride = stride,
                          .reach = PAIR_REACH,
                          .next_stride = 1,
                          .h = {.first = find_event(kinds[i % count]),
                                .second = find_event(kinds[i / count % count]),
                                .life = i / count / count % LIVES,
                                .late = i / count / count / LIVES > 0}};
        try_each_call(&e);
    }
}

/* The process that comes after a death dies, too. */
static void try_deaths_after_deaths(proof *p, uint64_t stride, uint64_t next_stride) {
    for (size_t i = 0; i < 4 * LIVES * 2; i++) {
        const effort e = {.p = p,
                          .stride = stride,
                          .reach = MOST_CALLS,
                          .next_stride = next_stride,
                          .h = {.first = &deaths[i % 2],
                                .second = &deaths[i / 2 % 2],
                                .of_next = true,
                                .life = i / 4 % LIVES,
                                .late = i / 4 / LIVES > 0}};
        try_each_call(&e);
    }
}

static void try_deaths_after_late_manifests(proof *p, uint64_t next_stride) {
    for (size_t i = 0; i < 2 * LIVES * 2; i++) {
        const effort e = {.p = p,
                          .stride = 1,
                          .reach = DEATH_REACH,
                          .next_stride = next_stride,
                          .h = {.first = &late_manifests[i % 2],
                                .second = &deaths[0],
                                .life = i / 2 % LIVES,
                                .late = i / 2 / LIVES > 0}};
        try_each_call(&e);
    }
}

static int prove(bool full) {
    proof *dying = proof_new("deaths at each call to an object store");
    proof *again = proof_new("deaths after deaths on an object store");
    proof *late = proof_new("calls that an object store does late");
    proof *pausing = proof_new("takeovers at each call to an object store");
    proof *failing = proof_new("failures of each call to an object store");
    proof *pairs = proof_new("failures of two calls to an object store");
    uint64_t part = full ? 1 : PART;
    try_all(dying, deaths, ARRAY_LENGTH(deaths), part);
    try_deaths_after_deaths(again, full ? 1 : 18 * part, full ? 3 : 31);
    try_all(late, lates, ARRAY_LENGTH(lates), full ? 1 : 2 * part);
    try_deaths_after_late_manifests(late, full ? 1 : 8 * part);
    try_all(pausing, pauses, ARRAY_LENGTH(pauses), part);
    try_all(failing, failures, ARRAY_LENGTH(failures), full ? 1 : 3 * part);
    try_pairs(pairs, full ? 1 : 44 * part);
    return proof_end(dying) | proof_end(again) | proof_end(late) | proof_end(pausing) |
           proof_end(failing) | proof_end(pairs);
}

/* ---- one of them ----------------------------------------------------------------------------- */

static int try_one(const char *text) {
    char mode[16];
    char first[40];
    char second[40] = "";
    char next[8] = "";
    unsigned long long nth;
    proof *p = proof_new("one history");
    effort e = {.p = p, .stride = 1, .next_stride = 1};
    int fields = sscanf(text, "%15[a-z]:%zu:%39[a-z-]:%llu:%39[a-z-]:%7[a-z]", mode, &e.h.life,
                        first, &nth, second, next);
    e.h.late = strcmp(mode, "late") == 0;
    e.h.first = fields >= 4 ? find_event(first) : NULL;
    e.h.second = fields >= 5 ? find_event(second) : NULL;
    e.h.of_next = fields == 6;
    e.reach = fields < 5 ? 0 : fields == 5 ? PAIR_REACH : MOST_CALLS;
    if (e.h.first == NULL || e.h.life >= LIVES || (fields >= 5 && e.h.second == NULL)) {
        fprintf(stderr, "--try strong|late:LIFE:EVENT:CALL[:EVENT[:next]]\n");
        return EXIT_FAILURE;
    }
    (void)try_call(&e, nth - 1);
    return proof_end(p);
}

int main(int argc, char **argv) {
    static const struct option known[] = {{"full", no_argument, NULL, 'f'},
                                          {"try", required_argument, NULL, 't'},
                                          {NULL, 0, NULL, 0}};
    bool full = false;
    int found;
    while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (found == 't') {
            return try_one(optarg);
        }
        if (found == '?') {
            return EXIT_FAILURE;
        }
        full = true;
    }
    return prove(full);
}
