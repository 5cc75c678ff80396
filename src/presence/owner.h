/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presence/owner: what the files owner*.c share. Nobody else includes it.
 *
 * owner_record.c reads and writes records, owner_take.c becomes the owner, owner.c stays it. The
 * rules, O1 to O5, are at the top of owner.c.
 */
#ifndef PRESENCE_OWNER_H
#define PRESENCE_OWNER_H

#include "presence/heartbeat.h"
#include "presence/presence.h"

struct owner {
    store *store;
    const platform *platform;
    pawl_log log;
    double lease_s;
    process_identity self;
    char attempt[16];
    monitor guard; /* of everything below; never held during I/O */
    bool renewing; /* someone is at the record: generation, counter, what follows are theirs */
    uint64_t generation, counter;
    bool tight;          /* the reserve was given away */
    bool unwritten;      /* the record was created, and there is no room for its bytes yet */
    uint64_t blocked_by; /* a higher generation whose record cannot be read; 0: none */
    uint64_t blocked_ns; /* since when */
    uint64_t renewed_ns; /* when the last successful renewal began */
    bool lost;
    heartbeat beat;
};

/* ---- owner_record.c ------------------------------------------------------------------------- */

#define OWNER_NAMES 64

/* The generations that one listing shows. It may be a late look: what it lacks may be there. */
typedef struct owner_names {
    uint64_t highest; /* 0: none */
    uint64_t generations[OWNER_NAMES];
    size_t count;    /* more than OWNER_NAMES wait for the next owner */
    size_t strays;   /* names that look like these, and that no owner makes: not among them */
    char stray[256]; /* one of those */
} owner_names;
pawl_status owner_list(store *s, owner_names *out, pawl_error *err) PAWL_MUST_CHECK;

/* The record of the highest generation above `least` that was listed, else of `least` itself; of
 * none, where that is 0. Not whether its writer is alive. One that cannot be read is no failure,
 * for its writer may be about to write it, nor one that does not open, for that look may be a late
 * one: it is `present`, and not `readable`. What is no file is passed over: it was none when it was
 * made, and so nobody's record. */
pawl_status owner_read(store *s, const owner_names *names, uint64_t least, owner_sight *out,
                       pawl_error *err) PAWL_MUST_CHECK;
/* owner_look, and what the listing showed. */
pawl_status owner_look_listed(store *s, const platform *os, owner_names *names, owner_sight *out,
                              pawl_error *err) PAWL_MUST_CHECK;
/* All of it, with o->counter, durably. */
pawl_status owner_write(owner *o, store_file *file, pawl_error *err) PAWL_MUST_CHECK;
/* The counter alone, in place. */
pawl_status owner_write_counter(owner *o, uint64_t counter, pawl_error *err) PAWL_MUST_CHECK;
pawl_status owner_remove(store *s, uint64_t generation, pawl_error *err) PAWL_MUST_CHECK;

/* ---- owner_take.c --------------------------------------------------------------------------- */

/* Creates the record of `generation`, which is above all of `before`, and removes those. PAWL_EBUSY
 * when someone else was faster, or may have been. Leaves `o` as it was after a failure. */
pawl_status owner_win(owner *o, uint64_t generation, const owner_names *before, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- reserve.c ------------------------------------------------------------------------------ */

/* Gives the reserved room to whoever needs it now. False: there was none. */
bool reserve_remove(store *s);
/* After that: as much as there still is room for. */
void reserve_make_anew(store *s);
/* Where there is none, and plenty of room. */
void reserve_make(store *s);

#endif
