/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presence: who writes to a run and who reads it: the owner with its lease and heartbeat, and the
 * marks of readers. The rules of owners, O1 to O5, are at the top of owner.c; those on object
 * stores at that of owner_object.c. An attempt is the random id of one opening of a run for
 * writing.
 *
 * Threads: owner_start_heartbeat and reader_mark_keep start one each; any thread may ask an owner.
 * Ownership: the store is the caller's, and must stay for as long as such a thread may use it.
 */
#ifndef PRESENCE_PRESENCE_H
#define PRESENCE_PRESENCE_H

#include "base/base.h"
#include "format/presence_record.h"
#include "store/store.h"

#include <pawl/run.h>

/* ---- the owner, from outside: owner_record.c ------------------------------------------------ */

/* What one look tells of the run's owner; for S10 and the doctor. */
typedef struct owner_sight {
    bool present;                 /* there is a record, and its owner has not given the run up */
    bool readable;                /* the record parses */
    uint64_t generation, counter; /* of the highest record; 0: there is none */
    process_identity who;
    char attempt[16];
    double lease_s;
    liveness alive;         /* by pid, on this host */
    double heartbeat_age_s; /* for people: clocks may differ; negative: unknown */
    /* On object stores. */
    store_tag version; /* of the record; empty: there is none */
    bool working;      /* on the manifest of the step `working_on` */
    int64_t working_on;
} owner_sight;
pawl_status owner_look(store *s, const platform *os, owner_sight *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- being the owner: owner_take.c, owner.c, owner_object.c ---------------------------------- */

typedef struct owner owner;

/* Becomes the owner, watching a present one for at most wait_s. `stop` (may be NULL) is asked while
 * it waits. */
pawl_status owner_take(store *s, const platform *os, const pawl_log *log, interrupt *stop,
                       double lease_s, double wait_s, owner **out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status owner_start_heartbeat(owner *o, pawl_error *err) PAWL_MUST_CHECK;
/* Renews the lease now. After a failure nothing may be published or removed. PAWL_EBUSY: another
 * writer has taken over. PAWL_EIO: our record cannot be read, which may pass. */
pawl_status owner_renew(owner *o, pawl_error *err) PAWL_MUST_CHECK;
/* The same, just before the manifest of `step` is published or removed. On an object store the
 * record says so until owner_work_done, also when another owner takes over: O6 in owner_object.c.
 * Only one step at a time: another one is settled first (commit/object.c). */
pawl_status owner_work_on(owner *o, int64_t step, pawl_error *err) PAWL_MUST_CHECK;
void owner_work_done(owner *o);
bool owner_is_working(owner *o, int64_t *step); /* also what an earlier owner worked on */
/* Is the lease fresh enough to publish or remove right now (O4)? Does no I/O. */
bool owner_fresh(owner *o);
const char *owner_attempt(const owner *o);
uint64_t owner_generation(owner *o);
/* Was the owner's record changed at least `seconds` after `path`, by the storage's own clock? False
 * if unknown. */
bool owner_is_newer(owner *o, const char *path, double seconds);
/* On a platform without threads: renews when a heartbeat is due. */
void owner_tend(owner *o);
/* Stops the heartbeat, gives the run up unless it is lost, and frees. NULL is fine. False when the
 * heartbeat hangs in the storage: nothing is freed then, and the store must stay. */
bool owner_release(owner *o);
/* Stops the heartbeat and counts the run as lost, but frees nothing: a thread that hangs may still
 * use the owner. */
void owner_give_up(owner *o);

/* ---- readers: reader.c, reader_mark.c, reader_watch.c --------------------------------------- */

/* Readers' marks (S14): a file reader-<id> in the step's directory, advanced while reading. */
typedef struct reader_mark reader_mark;
/* PAWL_ENOTFOUND: there is no such directory. Where the mark cannot be written for another reason
 * *out is NULL and the log says so; that is no failure. */
pawl_status reader_mark_new(store *s, const char *directory, const platform *os,
                            const pawl_log *log, reader_mark **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Starts a thread that advances it from now on. NULL is fine. */
void reader_mark_keep(reader_mark *mark);
/* Without such a thread: advances it, at most once a second. NULL is fine. */
void reader_mark_touch(reader_mark *mark);
/* How often it has been found gone, and made again. NULL is fine. */
unsigned reader_mark_losses(reader_mark *mark);
/* Removes it; NULL is fine. False when the thread hangs in the storage: the store must stay. */
bool reader_mark_free(reader_mark *mark);
/* Is anybody reading in that directory? Marks of dead processes of this host do not count. Marks of
 * processes that cannot be judged count until `watch` has seen them unchanged for the lease and for
 * READER_STILL_S; without a `watch`, always. Changes nothing in the storage. */
typedef struct reader_watch reader_watch; /* remembers marks and counters between looks */
pawl_status reader_watch_new(reader_watch **out, pawl_error *err) PAWL_MUST_CHECK;
void reader_watch_free(reader_watch *watch);
pawl_status reader_look(store *s, const char *directory, const platform *os, double lease_s,
                        reader_watch *watch, bool *being_read, pawl_error *err) PAWL_MUST_CHECK;
/* The same, and names each mark that does not count: it may be removed. */
typedef pawl_status (*reader_stale_fn)(void *context, const char *name, pawl_error *err);
pawl_status reader_look_stale(store *s, const char *directory, const platform *os, double lease_s,
                              reader_watch *watch, reader_stale_fn stale, void *context,
                              bool *being_read, pawl_error *err) PAWL_MUST_CHECK;

#endif
