/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes, exchanged where the ranks come together anyway (pawl_meet): one gather of which save each
 * rank has voted on, one broadcast of who did not come. Hints alone: rank 0 then reads a vote
 * whose name a late listing does not show yet. Votes and outcomes themselves are in the storage.
 */
#include "ranks/meet.h"
#include "ranks/wire.h"

#include <stdio.h>
#include <string.h>

#define RANK_NOTE_MAGIC 0x314e5250u /* "PRN1" */
#define ZERO_NOTE_MAGIC 0x32575250u /* "PRW2" */
#define NOTE_BYTES      256u
#define MISSING_CHARS   200u

/* ---- which votes are published -------------------------------------------------------------- */

static void raise_to(job_ranks *ranks, uint64_t *value, uint64_t number) {
    monitor_enter(&ranks->guard);
    if (*value < number) {
        *value = number;
    }
    monitor_leave(&ranks->guard);
}

void notes_set_voted(job_ranks *ranks, uint64_t number) {
    raise_to(ranks, &ranks->voted, number);
}

static uint64_t voted_number(job_ranks *ranks) {
    monitor_enter(&ranks->guard);
    uint64_t number = ranks->voted;
    monitor_leave(&ranks->guard);
    return number;
}

void notes_get_voted(job_ranks *ranks, uint64_t number, unsigned char *came) {
    if (ranks->rank != 0) {
        return;
    }
    monitor_enter(&ranks->guard);
    for (int rank = 1; rank < ranks->world_size; rank++) {
        if (ranks->heard_voted[rank] >= number) {
            came[rank] = 1;
        }
    }
    monitor_leave(&ranks->guard);
}

/* ---- a note as bytes ------------------------------------------------------------------------ */

typedef struct note {
    uint64_t call;               /* number of the collective call */
    uint64_t number;             /* the newest save that the rank voted on; 0 in rank 0's note */
    char missing[MISSING_CHARS]; /* in rank 0's note: the ranks that did not come */
} note;

static pawl_status note_encode(const note *n, uint32_t magic, uint8_t out[NOTE_BYTES],
                               pawl_error *err) {
    CLEANUP(buffer_free) buffer b = {0};
    TRY(buffer_u32le(&b, magic, err));
    TRY(buffer_u64le(&b, n->call, err));
    TRY(buffer_u64le(&b, n->number, err));
    TRY(wire_put_text(&b, n->missing, MISSING_CHARS - 1, err));
    memset(out, 0, NOTE_BYTES);
    memcpy(out, b.data, b.size);
    return PAWL_OK;
}

static pawl_status note_decode(const uint8_t *bytes, uint32_t magic, note *out, pawl_error *err) {
    cursor c = cursor_of(bytes, NOTE_BYTES, 0, "note of a rank");
    uint32_t found = 0;
    TRY(cursor_u32le(&c, &found, err));
    if (found != magic) {
        return wire_damaged(&c, "wrong magic number", err);
    }
    TRY(cursor_u64le(&c, &out->call, err));
    TRY(cursor_u64le(&c, &out->number, err));
    return wire_take_text(&c, out->missing, sizeof out->missing, err);
}

/* ---- the exchange --------------------------------------------------------------------------- */

static pawl_status not_in_time(const char *who, pawl_error *err) {
    error_set(err, PAWL_EPEER, "pawl_meet: %s did not come in time", who);
    error_next(err, "nothing depends on this call: the save goes on; see what holds them up");
    return PAWL_EPEER;
}

static pawl_status of_another_call(const note *n, uint64_t call, pawl_error *err) {
    error_set(err, PAWL_EMISMATCH,
              "pawl_meet: the ranks do not make the same calls in the same order");
    error_expected(err, "collective call %llu", (unsigned long long)call);
    error_found(err, "collective call %llu on rank 0", (unsigned long long)n->call);
    error_next(err, "call pawl_run_open, pawl_restore and pawl_meet on all ranks alike");
    return PAWL_EMISMATCH;
}

/* A note that cannot be read counts as missing. */
static void read_notes(job_ranks *ranks, const uint8_t *all, unsigned char *came) {
    struct pawl_error ignored = ERROR_INIT;
    for (int rank = 1; rank < ranks->world_size; rank++) {
        note n = {0};
        came[rank] = came[rank] &&
                     note_decode(all + (size_t)rank * NOTE_BYTES, RANK_NOTE_MAGIC, &n, &ignored) ==
                         PAWL_OK &&
                     n.call == ranks->met;
        if (came[rank]) {
            raise_to(ranks, &ranks->heard_voted[rank], n.number);
        }
    }
}

/* Turns `came` into who is missing. */
static void name_absent_ranks(const job_ranks *ranks, unsigned char *came,
                              char out[MISSING_CHARS]) {
    bool any = false;
    for (int rank = 0; rank < ranks->world_size; rank++) {
        came[rank] = rank > 0 && !came[rank];
        any = any || came[rank];
    }
    out[0] = '\0';
    if (any) {
        (void)group_ranks_text(out, MISSING_CHARS, came, ranks->world_size);
    }
}

static pawl_status exchange_on_rank_0(job_ranks *ranks, const uint8_t *own, double timeout_s,
                                      pawl_error *err) {
    size_t world_size = (size_t)ranks->world_size;
    uint8_t bytes[NOTE_BYTES];
    AUTOFREE uint8_t *all = mem_calloc(world_size, NOTE_BYTES);
    AUTOFREE unsigned char *came = mem_calloc(world_size, 1);
    if (all == NULL || came == NULL) {
        return error_nomem(err, world_size * NOTE_BYTES);
    }
    pawl_status gathered =
        group_gather(ranks->group, own, NOTE_BYTES, all, came, timeout_s * 3 / 4, err);
    read_notes(ranks, all, came);
    note n = {.call = ranks->met};
    name_absent_ranks(ranks, came, n.missing);
    TRY(note_encode(&n, ZERO_NOTE_MAGIC, bytes, err));
    struct pawl_error failed = ERROR_INIT;
    pawl_status sent = group_broadcast(ranks->group, bytes, NOTE_BYTES, timeout_s / 4, &failed);
    if (gathered != PAWL_OK) {
        return gathered;
    }
    if (n.missing[0] != '\0') {
        return not_in_time(n.missing, err);
    }
    *err = sent != PAWL_OK ? failed : *err;
    return sent;
}

static pawl_status exchange_on_others(job_ranks *ranks, const uint8_t *own, double timeout_s,
                                      pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    uint8_t bytes[NOTE_BYTES] = {0};
    char who[320];
    note n = {0};
    uint64_t begun_ns = platform_now_ns(ranks->platform);
    pawl_status handed =
        group_gather(ranks->group, own, NOTE_BYTES, NULL, NULL, timeout_s, &ignored);
    pawl_status heard = group_broadcast(ranks->group, bytes, NOTE_BYTES,
                                        ranks_left_s(ranks, timeout_s, begun_ns), &ignored);
    if (heard != PAWL_OK || handed != PAWL_OK) {
        return not_in_time(rank_text(who, ranks, heard != PAWL_OK ? 0 : ranks->rank), err);
    }
    TRY(note_decode(bytes, ZERO_NOTE_MAGIC, &n, err));
    if (n.call != ranks->met) {
        return of_another_call(&n, ranks->met, err);
    }
    return n.missing[0] != '\0' ? not_in_time(n.missing, err) : PAWL_OK;
}

pawl_status notes_exchange(job_ranks *ranks, double timeout_s, pawl_error *err) {
    uint8_t own[NOTE_BYTES];
    if (ranks->world_size == 1 || !ranks->group->connected) {
        return PAWL_OK;
    }
    ranks->met++;
    const note n = {.call = ranks->met, .number = voted_number(ranks)};
    TRY(note_encode(&n, RANK_NOTE_MAGIC, own, err));
    return ranks->rank == 0 ? exchange_on_rank_0(ranks, own, timeout_s, err)
                            : exchange_on_others(ranks, own, timeout_s, err);
}
