/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run on an object store: what its processes do, and what must be there afterwards.
 *
 * Q1. What was told to be saved is there, bit for bit, until something newer is.
 * Q2. Nothing else is: each step is absent, or one save of those that may be there.
 * Q3. What was told to have failed, and not that this is open, is not there, nor comes later.
 * Q4. The next process restores the newest, saves, lets retention and gc run, and Q1 holds.
 * Q5. A process that stood still, and whose run another has taken over, publishes nothing when it
 *     goes on, and changes or removes nothing that is the other's.
 */
#ifndef PROOFS_OBJECTS_STORY_H
#define PROOFS_OBJECTS_STORY_H

#include "proofs/objects_process.h"
#include "proofs/proof.h"

#define STORY_STEPS 6
#define STORY_PATHS 200

extern const int64_t story_steps[STORY_STEPS];

/* What may be there of one step. */
typedef struct expectation {
    uint32_t seeds;        /* bit n: the content of seed n */
    bool absent;           /* it may be missing */
    uint32_t absent_after; /* it may be missing where this seed is present; 0: nowhere */
} expectation;

typedef struct story {
    store *objects; /* as processes see it; where it is late, listings and reads may be old */
    store *storage; /* as it is */
    simulated_platform clock;
    bool retries; /* processes repeat what may pass */
    expectation expected[STORY_STEPS];
    char wrong[4096]; /* the first thing that must not be; "": none */
} story;

/* A process, and the run that it has open. */
typedef struct actor {
    story *story;
    process process;
    pawl_run *run; /* NULL: none */
    bool owns;     /* it opened the run */
    bool stubborn; /* goes on after a failure, as programs do */
    uint64_t failures;
    struct pawl_error failure; /* the first one */
    uint32_t keep_last;
    struct takeover *after; /* of its run, by another actor; NULL: none */
} actor;

typedef pawl_status life(actor *a, pawl_error *err);

#define LIVES 2
/* One opening each; the second one goes on where the first has ended. */
extern life *const story_lives[LIVES];

void story_begin(story *s, bool late, bool retries);
void story_end(story *s);
void story_broken(story *s, const char *format, ...) PRINTF_LIKE(2, 3);
void actor_begin(actor *a, story *s, uint64_t number);
/* Closes the run, if it is open, as a program does that has met a failure. */
void actor_end(actor *a);
/* Lives what comes before this life, to which nothing happens. */
void story_live_before(story *s, size_t which);

/* The content of a step; 0: none; -1: damaged, or of no seed. */
int64_t story_content(const story *s, size_t step, pawl_error *err);
/* Q1 to Q3, on what is there now. */
void story_check(story *s);
/* Q4, by an actor of this number, to which nothing happens, or this: then it need not succeed.
 * `earlier` [NULL]: what is on its way of that process arrives when the actor has opened the run,
 * and changes nothing (Q5). False: it has not happened. */
bool story_goes_on(story *s, uint64_t number, const fate *f, process *earlier);

/* Another actor takes the run over while `victim` stands still: `process.pause` of it. */
typedef struct takeover {
    actor *victim;
    actor other;
    bool stays;     /* it has the run open when the victim goes on */
    bool was_owner; /* the victim */
    int64_t found[STORY_STEPS], left[STORY_STEPS];
    char paths[STORY_PATHS][64]; /* what the other wrote last */
    uint32_t sums[STORY_PATHS];
    size_t sizes[STORY_PATHS];
    size_t path_count;
    bool ended;
} takeover;
void takeover_happens(void *context);
/* Q5, when the victim has ended. */
void takeover_check(takeover *t);

#endif
