/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl_meet: one gather and one broadcast of a few bytes, by which ranks learn without asking the
 * storage how far the save in flight is. Nothing is decided by it: votes and outcomes are in the
 * storage, and these only tell that it is time to look.
 */
#include "run/meet.h"
#include "run/wire.h"

#include <stdio.h>
#include <string.h>

#define NOTE_MAGIC   0x314e5250u /* "PRN1" */
#define NEWS_MAGIC   0x32575250u /* "PRW2" */
#define NEWS_BYTES   256u
#define NEWS_TEXT    200u
#define LEAST_WAIT_S 1.0

/* ---- what the engine's thread says and asks ------------------------------------------------- */

static void raise_to(struct ranks *r, uint64_t *value, uint64_t number) {
    monitor_enter(&r->guard);
    if (*value < number) {
        *value = number;
    }
    monitor_leave(&r->guard);
}

void ranks_note_voted(pawl_run *run, uint64_t number) {
    if (run->ranks != NULL) {
        raise_to(run->ranks, &run->ranks->voted, number);
    }
}

void ranks_note_told(pawl_run *run, uint64_t number) {
    if (run->ranks != NULL) {
        raise_to(run->ranks, &run->ranks->told, number);
    }
}

void ranks_heard_votes(pawl_run *run, uint64_t number, unsigned char *came) {
    struct ranks *r = run->ranks;
    if (r == NULL || run->rank != 0) {
        return;
    }
    monitor_enter(&r->guard);
    for (int rank = 1; rank < run->world_size; rank++) {
        if (r->heard_voted[rank] >= number) {
            came[rank] = 1;
        }
    }
    monitor_leave(&r->guard);
}

bool ranks_heard_outcome(pawl_run *run, uint64_t number) {
    struct ranks *r = run->ranks;
    if (r == NULL) {
        return false;
    }
    monitor_enter(&r->guard);
    bool heard = r->heard_told >= number;
    monitor_leave(&r->guard);
    return heard;
}

static uint64_t look_at(struct ranks *r, const uint64_t *value) {
    monitor_enter(&r->guard);
    uint64_t number = *value;
    monitor_leave(&r->guard);
    return number;
}

/* ---- what travels --------------------------------------------------------------------------- */

/* A rank's note; rank 0's news are the same, with the ranks that are missing as text. */
typedef struct meet_note {
    uint64_t call; /* number of the collective call */
    uint64_t
        number; /* the newest save that the rank voted on, or that rank 0 told the outcome of */
    char missing[NEWS_TEXT];
} meet_note;

static pawl_status note_encode(const meet_note *note, uint32_t magic, uint8_t out[NEWS_BYTES],
                               pawl_error *err) {
    CLEANUP(buffer_free) buffer b = {0};
    TRY(buffer_u32le(&b, magic, err));
    TRY(buffer_u64le(&b, note->call, err));
    TRY(buffer_u64le(&b, note->number, err));
    TRY(wire_put_text(&b, note->missing, NEWS_TEXT - 1, err));
    memset(out, 0, NEWS_BYTES);
    memcpy(out, b.data, b.size);
    return PAWL_OK;
}

static pawl_status note_decode(const uint8_t *bytes, uint32_t magic, meet_note *out,
                               pawl_error *err) {
    cursor c = cursor_of(bytes, NEWS_BYTES, 0, "note of a rank");
    uint32_t found = 0;
    TRY(cursor_u32le(&c, &found, err));
    if (found != magic) {
        return wire_damaged(&c, "it begins otherwise", err);
    }
    TRY(cursor_u64le(&c, &out->call, err));
    TRY(cursor_u64le(&c, &out->number, err));
    return wire_take_text(&c, out->missing, sizeof out->missing, err);
}

/* ---- meeting -------------------------------------------------------------------------------- */

static pawl_status late(pawl_run *run, const char *who, pawl_error *err) {
    error_set(err, PAWL_EPEER, "pawl_meet: %s did not come in time", who);
    run_error_path(run, err, "");
    run_say_safe(run, err);
    error_next(err, "nothing depends on this call: the save goes on; see what holds them up");
    return PAWL_EPEER;
}

static pawl_status other_call(const meet_note *note, uint64_t call, int rank, pawl_error *err) {
    error_set(err, PAWL_EMISMATCH,
              "pawl_meet: the ranks do not make the same calls in the same "
              "order");
    error_expected(err, "collective call %llu", (unsigned long long)call);
    error_found(err, "collective call %llu on rank %d", (unsigned long long)note->call, rank);
    error_next(err, "call pawl_run_open, pawl_restore and pawl_meet on all ranks alike");
    return PAWL_EMISMATCH;
}

/* One that cannot be read only does not count. */
static void take_notes(pawl_run *run, const uint8_t *all, unsigned char *came) {
    struct ranks *r = run->ranks;
    struct pawl_error ignored = ERROR_INIT;
    for (int rank = 1; rank < run->world_size; rank++) {
        meet_note note = {0};
        if (came[rank] &&
            note_decode(all + (size_t)rank * NEWS_BYTES, NOTE_MAGIC, &note, &ignored) == PAWL_OK &&
            note.call == r->met) {
            raise_to(r, &r->heard_voted[rank], note.number);
        } else {
            came[rank] = 0;
        }
    }
}

static void name_missing(const pawl_run *run, unsigned char *came, char *out) {
    bool any = false;
    for (int rank = 0; rank < run->world_size; rank++) {
        came[rank] = rank > 0 && !came[rank];
        any = any || came[rank];
    }
    out[0] = '\0';
    if (any) {
        (void)group_ranks_text(out, NEWS_TEXT, came, run->world_size);
    }
}

static pawl_status lead(pawl_run *run, const uint8_t *own, double deadline_s, pawl_error *err) {
    struct ranks *r = run->ranks;
    size_t world_size = (size_t)run->world_size;
    uint8_t bytes[NEWS_BYTES];
    AUTOFREE uint8_t *all = mem_calloc(world_size, NEWS_BYTES);
    AUTOFREE unsigned char *came = mem_calloc(world_size, 1);
    if (all == NULL || came == NULL) {
        return error_nomem(err, world_size * NEWS_BYTES);
    }
    pawl_status gathered =
        group_gather(run->group, own, NEWS_BYTES, all, came, deadline_s * 3 / 4, err);
    take_notes(run, all, came);
    meet_note news = {.call = r->met, .number = look_at(r, &r->told)};
    name_missing(run, came, news.missing);
    TRY(note_encode(&news, NEWS_MAGIC, bytes, err));
    struct pawl_error story = ERROR_INIT;
    pawl_status told = group_broadcast(run->group, bytes, NEWS_BYTES, deadline_s / 4, &story);
    if (gathered != PAWL_OK) {
        return gathered;
    }
    if (news.missing[0] != '\0') {
        return late(run, news.missing, err);
    }
    *err = told != PAWL_OK ? story : *err;
    return told;
}

static pawl_status follow(pawl_run *run, const uint8_t *own, double deadline_s, pawl_error *err) {
    struct ranks *r = run->ranks;
    struct pawl_error ignored = ERROR_INIT;
    uint8_t bytes[NEWS_BYTES] = {0};
    char zero[320];
    meet_note news = {0};
    uint64_t begun_ns = ranks_now_ns(run);
    pawl_status handed =
        group_gather(run->group, own, NEWS_BYTES, NULL, NULL, deadline_s, &ignored);
    double left_s = deadline_s - ranks_seconds_since(run, begun_ns);
    pawl_status heard = group_broadcast(run->group, bytes, NEWS_BYTES,
                                        left_s > LEAST_WAIT_S ? left_s : LEAST_WAIT_S, &ignored);
    if (heard != PAWL_OK || handed != PAWL_OK) {
        return late(run, rank_text(zero, run, heard != PAWL_OK ? 0 : run->rank), err);
    }
    TRY(note_decode(bytes, NEWS_MAGIC, &news, err));
    if (news.call != r->met) {
        return other_call(&news, r->met, 0, err);
    }
    raise_to(r, &r->heard_told, news.number);
    return news.missing[0] != '\0' ? late(run, news.missing, err) : PAWL_OK;
}

pawl_status run_meet(pawl_run *run, double deadline_s, pawl_error *err) {
    struct ranks *r = run->ranks;
    uint8_t own[NEWS_BYTES];
    if (r == NULL || !run->group->connected) {
        return PAWL_OK;
    }
    r->met++;
    meet_note note = {.call = r->met, .number = look_at(r, &r->voted)};
    TRY(note_encode(&note, NOTE_MAGIC, own, err));
    double limit_s = run_deadline(run, deadline_s);
    return run->rank == 0 ? lead(run, own, limit_s, err) : follow(run, own, limit_s, err);
}
