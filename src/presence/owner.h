/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presence/owner: what owner*.c and reserve.c share. Nobody else includes it.
 *
 * owner_record.c reads and writes records, owner_take.c becomes the owner, owner.c stays it;
 * owner_object.c is what differs on object stores. The rules, O1 to O5, are at the top of owner.c,
 * O6 to O8 at that of owner_object.c.
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
    monitor guard; /* of everything below; not held during I/O */
    bool renewing; /* a thread works on the record: up to blocked_ns only it changes what follows */
    uint64_t generation, counter;
    bool tight;          /* the reserve was removed to make room */
    bool unwritten;      /* the record was created, and there is no room for its bytes yet */
    uint64_t blocked_by; /* a higher generation whose record cannot be read; 0: none */
    uint64_t blocked_ns; /* since when */
    uint64_t renewed_ns; /* when the last successful renewal began */
    bool lost;
    /* On object stores. */
    store_tag version; /* of our record; empty: we have none yet */
    bool working;
    int64_t working_on;
    heartbeat beat;
};

/* ---- owner_record.c ------------------------------------------------------------------------- */

#define OWNER_NAMES 64

/* The generations that one listing shows. Storage may show others only later. */
typedef struct owner_names {
    uint64_t highest; /* 0: none */
    uint64_t generations[OWNER_NAMES];
    size_t count;    /* the rest, where there are more, is left for the next owner to remove */
    size_t strays;   /* names that look like a record's, but that no owner makes: ignored */
    char stray[256]; /* one of those */
} owner_names;
void owner_name(const store *s, uint64_t generation, char out[32]);
pawl_status owner_list(store *s, owner_names *out, pawl_error *err) PAWL_MUST_CHECK;

/* The record of the highest generation above `least` that was listed, else that of `least`; where
 * that is 0, none. Does not ask whether its writer is alive. A record that cannot be opened or read
 * is `present` and not `readable`, and no failure: it may be about to be written, or be shown late.
 * What is not a file is ignored. */
pawl_status owner_read(store *s, const owner_names *names, uint64_t least, owner_sight *out,
                       pawl_error *err) PAWL_MUST_CHECK;
/* owner_look, and the listing that it is from. */
pawl_status owner_look_listed(store *s, const platform *os, owner_names *names, owner_sight *out,
                              pawl_error *err) PAWL_MUST_CHECK;
/* The whole record, with o->counter, durably. */
pawl_status owner_write(owner *o, store_file *file, pawl_error *err) PAWL_MUST_CHECK;
/* The counter alone, in place. */
pawl_status owner_write_counter(owner *o, uint64_t counter, pawl_error *err) PAWL_MUST_CHECK;
pawl_status owner_remove(store *s, uint64_t generation, pawl_error *err) PAWL_MUST_CHECK;

/* ---- owner_object.c ---- */

/* What a record tells, but for its generation. */
void owner_sight_fill(owner_sight *out, const owner_record *record);
pawl_status owner_object_look(store *s, owner_sight *out, pawl_error *err) PAWL_MUST_CHECK;
/* Puts our record in the place of `seen`. PAWL_EBUSY: another newcomer was faster, or the owner is
 * alive. */
pawl_status owner_object_win(owner *o, const owner_sight *seen, pawl_error *err) PAWL_MUST_CHECK;
/* Puts our record with the next counter. With PAWL_EBUSY *now is that of the new owner. */
pawl_status owner_object_renew(owner *o, owner_sight *now, pawl_error *err) PAWL_MUST_CHECK;
void owner_object_give_up(owner *o);

/* ---- owner_take.c --------------------------------------------------------------------------- */

/* Creates the record of `generation`, which is above all of `before`, and removes those. PAWL_EBUSY
 * when another process was faster, or may have been. After a failure `o` is as it was. */
pawl_status owner_win(owner *o, uint64_t generation, const owner_names *before, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- reserve.c ------------------------------------------------------------------------------ */

/* Frees the reserved room. False: there was none. */
bool reserve_remove(store *s);
/* Reserves again after that, as much as there is room for. */
void reserve_make_anew(store *s);
/* Reserves where nothing is reserved and there is plenty of room. */
void reserve_make(store *s);

#endif
