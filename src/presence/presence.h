/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presence: who writes to a run and who reads in it: the owner with its lease and heartbeat, and
 * the marks of readers. The rules of owners, O1 to O5, are at the top of owner.c.
 *
 * Threads: owner_start_heartbeat and reader_mark_keep start one each; any thread may ask an owner.
 * Ownership: the store is the caller's, and must stay for as long as such a thread may be in it.
 */
#ifndef PRESENCE_PRESENCE_H
#define PRESENCE_PRESENCE_H

#include "base/base.h"
#include "format/presence_record.h"
#include "store/store.h"

#include <pawl/run.h>

/* ---- the owner, from outside: owner_record.c ------------------------------------------------ */

/* Who writes to the run, as far as one look can tell; for S10 and the doctor. */
typedef struct owner_view {
    bool present;                 /* there is a record that was not given up */
    bool readable;                /* the record parses */
    uint64_t generation, counter; /* of the highest record; 0: there is none */
    process_identity who;
    char attempt[16];
    double lease_s;
    liveness alive;         /* by pid, on this host */
    double heartbeat_age_s; /* for people: clocks may differ; negative: unknown */
} owner_view;
pawl_status owner_look(store *s, const platform *os, owner_view *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- being the owner: owner_take.c, owner.c ------------------------------------------------- */

typedef struct owner owner;

/* Becomes the owner, watching a present one for at most wait_s. */
pawl_status owner_take(store *s, const platform *os, const pawl_log *log, double lease_s,
                       double wait_s, owner **out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status owner_start_heartbeat(owner *o, pawl_error *err) PAWL_MUST_CHECK;
/* Renews now. PAWL_EBUSY once another writer took over, or when the lease ran out and someone else
 * was faster to renew it; PAWL_EIO while storage does not show what it should: nothing may be
 * published or removed then. */
pawl_status owner_renew(owner *o, pawl_error *err) PAWL_MUST_CHECK;
/* Is the lease fresh enough to publish right now? Does no I/O. */
bool owner_fresh(owner *o);
const char *owner_attempt(const owner *o);
uint64_t owner_generation(owner *o);
/* Was the record changed so long after `path`, by the storage's own clock? False if unknown. */
bool owner_is_newer(owner *o, const char *path, double seconds);
/* On a platform without threads: renews when a heartbeat is due. */
void owner_tend(owner *o);
/* Stops the heartbeat, gives the record up unless it is no longer ours, frees. NULL is fine. False
 * when the heartbeat hangs in the storage: nothing is freed then, and the store must stay. */
bool owner_release(owner *o);
/* Stops the heartbeat and refuses from now on, but frees nothing: a lost thread may still ask. */
void owner_give_up(owner *o);

/* ---- readers: reader.c, reader_mark.c, reader_watch.c --------------------------------------- */

/* Readers' marks (S14): a file reader-<id> in the step's directory, advanced while reading. */
typedef struct reader_mark reader_mark;
/* PAWL_ENOTFOUND: there is no such directory. Not being able to write a mark for another reason is
 * no failure: *out is NULL then, and the log says so. */
pawl_status reader_mark_new(store *s, const char *directory, const platform *os,
                            const pawl_log *log, reader_mark **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Starts a thread that advances it from now on. NULL is fine. */
void reader_mark_keep(reader_mark *mark);
/* Where there is none: at most once a second. NULL is fine. */
void reader_mark_touch(reader_mark *mark);
/* How often it was found gone, and made again, so far. NULL is fine. */
unsigned reader_mark_losses(reader_mark *mark);
/* Removes it; NULL is fine. False when the thread hangs in the storage: the store must stay. */
bool reader_mark_free(reader_mark *mark);
/* Is someone reading in that directory? Marks of dead processes of this host do not count. Those
 * that cannot be judged do until `watch` has seen them unchanged for a lease, and READER_STILL_S;
 * with `watch` NULL, always. Changes nothing in the storage. */
typedef struct reader_watch reader_watch; /* remembers marks and counters between looks */
pawl_status reader_watch_new(reader_watch **out, pawl_error *err) PAWL_MUST_CHECK;
void reader_watch_free(reader_watch *watch);
pawl_status reader_look(store *s, const char *directory, const platform *os, double lease_s,
                        reader_watch *watch, bool *being_read, pawl_error *err) PAWL_MUST_CHECK;
/* The same, and tells each mark that does not count, by its name, which may be removed then. */
typedef pawl_status (*reader_stale_fn)(void *context, const char *name, pawl_error *err);
pawl_status reader_look_stale(store *s, const char *directory, const platform *os, double lease_s,
                              reader_watch *watch, reader_stale_fn stale, void *context,
                              bool *being_read, pawl_error *err) PAWL_MUST_CHECK;

#endif
