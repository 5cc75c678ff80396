/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pawl promises, checked from outside while the cluster runs: it sees every operation on the
 * storage as it takes effect, and is told what the ranks were told.
 *
 * V1. When a manifest becomes visible, every file that it names is there at its size, was synced
 *     after its last write, and its name and its directory's were synced. None of them is changed
 *     or removed as long as it is named.
 * V2. A checkpoint is removed only by the owner, after a newer one.
 * V3. A job that was taken over publishes nothing, and removes nothing but what is its own and
 *     named by nobody; except by an operation that was on its way when it was taken over.
 * V4. Who is told that a save succeeded can count on a manifest that was published; who is told
 *     that it failed, and not that this is open, sees none then or later.
 * V5. Every restored state, and every visible checkpoint, is exactly one save of one job.
 * V7. What somebody knows to be durable is not replaced, or removed, by what was asked for before
 *     it was published.
 * V8. Nobody loses the run while nobody else makes himself its owner.
 * V6. A trainer that fences, or saves and was told of no failure before, asks nothing of the
 *     storage itself: it stands still for nobody's, however slow that is.
 * V7. Who restores and asks for no step gets none that is older than the newest checkpoint that was
 *     there when it began, whatever the storage shows.
 */
#ifndef SIMULATION_PROMISES_H
#define SIMULATION_PROMISES_H

#include "format/manifest.h"
#include "simulation/storage.h"

#define PROMISES_MOST_JOBS 8

/* A manifest that was published at some time. */
typedef struct commit {
    int64_t step;
    char tag[FORMAT_TAG_CHARS];
    int job;
    bool visible;
    bool removed;                 /* by its owner, after a newer one */
    bool told;                    /* somebody knows that it is durable */
    uint64_t asked_ns;            /* when its publication was asked for */
    uint64_t shown_ns, hidden_ns; /* when it became visible, and when it was no more */
    manifest manifest;
} commit;

/* Somebody was told that this save failed, for certain. */
typedef struct told_failure {
    int job, rank;
    int64_t step;
} told_failure;

/* How durable a name is: when it last changed, and was synced. Moments count up by one. */
typedef struct durability {
    uint64_t hash; /* of the path; 0: free */
    uint64_t named, written, synced;
} durability;

typedef struct promises {
    storage *storage;
    commit *commits;
    size_t count, capacity;
    /* When a job became the owner, as a number; 0: it did not. The last one that is the owner, and
     * has looked at the run since, so that others must be gone. */
    int ownerships[PROMISES_MOST_JOBS], ownership_count;
    int owner_job;
    int record_job; /* that made an owner's record last */
    told_failure *failures;
    size_t failure_count, failure_capacity;
    durability *names;
    size_t name_count, name_capacity;
    uint64_t moment, taken_over_ns;
    uint64_t nothing_ns; /* until then nothing was visible; UINT64_MAX: nothing is */
    uint64_t damaged_ns; /* when a file of a visible checkpoint was changed; 0: never */
    uint64_t broken;
    uint64_t checked;       /* manifests looked at in full */
    unsigned verify_one_of; /* so many published manifests is read back at once; 0: none */
    test_random random;
    cluster *cluster;
    machine reader;
} promises;

void promises_begin(promises *p, storage *s, cluster *c, uint64_t seed);
/* Something that must not be: says so, counts it. */
void promises_broken(promises *p, const char *format, ...) PRINTF_LIKE(2, 3);
/* A job's rank 0 has opened the run: whoever owned it before has lost it. */
void promises_taken_over(promises *p, int job);
/* A rank learned how its job's save of a step went. `err` of a failure. A job saves a step once. */
void promises_told(promises *p, const machine *m, int64_t step, pawl_status status,
                   const pawl_error *err);
const commit *promises_commit(const promises *p, int job, int64_t step); /* NULL: none */
/* The visible commit of a step, or NULL. */
const commit *promises_visible(const promises *p, int64_t step);
/* One that everybody could see at some time, and that is still there; or, where nothing lags, any:
 * NULL when there was none at some moment since. */
const commit *promises_lasting(const promises *p, uint64_t since_ns);
/* Which commit's manifest this text is; `count` when nobody saw it published. */
size_t promises_named(const promises *p, const char *manifest_json);
/* The newest step with a visible commit; -1: none. */
int64_t promises_newest(const promises *p);
/* Reads every visible checkpoint back. */
void promises_verify_all(promises *p);

#endif
