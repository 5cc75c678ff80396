/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum of each small replica that this rank holds, or of every one (checking mode), as its
 * bytes are when the save begins. Rank 0 compares those of equal boxes: what differs was never a
 * replica, or is none any more.
 *
 * The heads of the votes carry one sum of these sums for each replica_count: ranks that share one
 * tensor share all that they have with it (pawl/state.h). Only where two of these differ the sums
 * themselves are read (merge.c), to name the tensors and the ranks.
 */
#include "votes/private.h"

#include <stdlib.h>
#include <string.h>

#define GATHER_BYTES   16384u
#define COPY_BYTES     ((size_t)1 << 20) /* at a time out of providers' memory, */
#define COPY_ITEMS     256               /* and so many stretches of boxes, */
#define WHOLE_BYTES    ((size_t)8)       /* cut between elements of any dtype */
#define INLINE_ENTRIES 1024u      /* at most so many are looked at on the trainer's thread, */
#define INLINE_BYTES   (1u << 20) /* and so many bytes read, before a thread does it */

struct replica_sums {
    const state_snapshot *snapshot;
    bool all; /* not the small ones only */
    engine *tuned;
    const platform *platform;
    platform_thread *thread; /* NULL: none, or joined */
    bool provided;           /* it reads providers' memory: the engine counts it as a reader */
    pawl_status status;
    struct pawl_error story;

    const state_entry **entries; /* compared, ascending by name; the snapshot's */
    size_t count, capacity;
    uint32_t *sums; /* of their boxes, one after the other */
    size_t sum_count, sum_capacity;
    vote_copies *copies; /* of the small ones, ascending by replica_count */
    size_t copies_count, copies_capacity;
};

static uint64_t held_bytes(const state_entry *e) {
    uint64_t bytes = 0;
    for (size_t k = 0; k < e->box_count; k++) {
        bytes += shape_bytes(e->dtype, e->ndim, state_entry_box(e, k)->extent);
    }
    return bytes;
}

static bool is_replicated(const state_entry *e) {
    return e->kind == PAWL_KIND_TENSOR && e->replicated;
}

/* ---- reading -------------------------------------------------------------------------------- */

static uint32_t sum_of_box(const state_entry *e, const state_box *held) {
    uint8_t stretch[GATHER_BYTES];
    uint32_t sum = 0;
    uint64_t bytes = shape_bytes(e->dtype, e->ndim, held->extent);
    strided v = state_box_memory(e, held);
    if (bytes > 0 && strided_is_dense(&v)) {
        return crc32c(0, v.data, (size_t)bytes);
    }
    for (uint64_t at = 0; at < bytes; at += GATHER_BYTES) {
        size_t n = bytes - at < GATHER_BYTES ? (size_t)(bytes - at) : GATHER_BYTES;
        strided_gather(&v, at, n, stretch);
        sum = crc32c(sum, stretch, n);
    }
    return sum;
}

/* Those with the entry's replica_count; NULL: no memory. */
static vote_copies *copies_of(replica_sums *s, const state_entry *e, pawl_error *err) {
    size_t at = 0;
    while (at < s->copies_count && s->copies[at].replica_count < e->replica_count) {
        at++;
    }
    if (at < s->copies_count && s->copies[at].replica_count == e->replica_count) {
        return &s->copies[at];
    }
    if (vec_reserve(&s->copies, &s->copies_capacity, s->copies_count + 1, sizeof *s->copies, err) !=
        PAWL_OK) {
        return NULL;
    }
    for (size_t i = s->copies_count++; i > at; i--) {
        s->copies[i] = s->copies[i - 1];
    }
    s->copies[at] = (vote_copies){.replica_count = e->replica_count};
    return &s->copies[at];
}

static uint32_t sum_of_numbers(uint32_t sum, int n, const int64_t *numbers) {
    return crc32c(sum, numbers, (size_t)n * sizeof *numbers);
}

static pawl_status note_small(replica_sums *s, const state_entry *e, const uint32_t *sums,
                              uint64_t bytes, pawl_error *err) {
    vote_copies *c = copies_of(s, e, err);
    if (c == NULL) {
        return PAWL_ENOMEM;
    }
    c->bytes += bytes;
    c->held_crc32c = crc32c(c->held_crc32c, e->name, strlen(e->name) + 1);
    for (size_t k = 0; k < e->box_count; k++) {
        const state_box *held = state_entry_box(e, k);
        c->held_crc32c = sum_of_numbers(c->held_crc32c, e->ndim, held->offset);
        c->held_crc32c = sum_of_numbers(c->held_crc32c, e->ndim, held->extent);
    }
    c->sums_crc32c = crc32c(c->sums_crc32c, sums, e->box_count * sizeof *sums);
    return PAWL_OK;
}

static bool is_small(const state_entry *e) {
    return held_bytes(e) <= REPLICA_SMALL_BYTES;
}

/* Those in a provider's memory have no sums yet. */
static pawl_status read_replica(replica_sums *s, const state_entry *e, pawl_error *err) {
    if (!s->all && !is_small(e)) {
        return PAWL_OK;
    }
    TRY(vec_reserve(&s->entries, &s->capacity, s->count + 1, sizeof(const state_entry *), err));
    TRY(vec_reserve(&s->sums, &s->sum_capacity, s->sum_count + e->box_count, sizeof *s->sums, err));
    uint32_t *sums = s->sums + s->sum_count;
    for (size_t k = 0; k < e->box_count; k++) {
        sums[k] = e->memory != NULL ? 0 : sum_of_box(e, state_entry_box(e, k));
    }
    s->entries[s->count++] = e;
    s->sum_count += e->box_count;
    return PAWL_OK;
}

/* ---- reading providers' memory: many boxes at a time ---- */

typedef struct reading {
    engine *engine;
    engine_wanted items[COPY_ITEMS];
    uint32_t *sums[COPY_ITEMS];
    size_t count;
    uint8_t *bytes; /* COPY_BYTES */
    size_t used;
} reading;

static pawl_status read_items(reading *r, pawl_error *err) {
    TRY(engine_copy_out(r->engine, r->items, r->count, err));
    for (size_t i = 0; i < r->count; i++) {
        *r->sums[i] = crc32c(*r->sums[i], r->items[i].to, r->items[i].n);
    }
    r->count = 0;
    r->used = 0;
    return PAWL_OK;
}

static pawl_status add_box(reading *r, const state_entry *e, const state_box *held, uint32_t *sum,
                           pawl_error *err) {
    uint64_t bytes = shape_bytes(e->dtype, e->ndim, held->extent);
    size_t n = 0;
    for (uint64_t at = 0; at < bytes; at += n) {
        if (COPY_BYTES - r->used < WHOLE_BYTES || r->count == COPY_ITEMS) {
            TRY(read_items(r, err));
        }
        size_t room = (COPY_BYTES - r->used) / WHOLE_BYTES * WHOLE_BYTES;
        n = bytes - at < room ? (size_t)(bytes - at) : room;
        r->items[r->count] =
            (engine_wanted){.entry = e, .box = held, .from = at, .n = n, .to = r->bytes + r->used};
        r->sums[r->count++] = sum;
        r->used += n;
    }
    return PAWL_OK;
}

static pawl_status read_boxes(replica_sums *s, reading *r, pawl_error *err) {
    uint32_t *sums = s->sums;
    for (size_t i = 0; i < s->count; i++) {
        const state_entry *e = s->entries[i];
        for (size_t k = 0; k < e->box_count && e->memory != NULL; k++) {
            TRY(add_box(r, e, state_entry_box(e, k), &sums[k], err));
        }
        sums += e->box_count;
    }
    return r->count > 0 ? read_items(r, err) : PAWL_OK;
}

static pawl_status read_provided(replica_sums *s, pawl_error *err) {
    AUTOFREE reading *r = mem_calloc(1, sizeof *r);
    AUTOFREE uint8_t *bytes = mem_alloc(COPY_BYTES);
    if (r == NULL || bytes == NULL) {
        return error_nomem(err, COPY_BYTES);
    }
    r->engine = s->tuned;
    r->bytes = bytes;
    return read_boxes(s, r, err);
}

/* ---- all of them ---- */

static pawl_status note_all_small(replica_sums *s, pawl_error *err) {
    const uint32_t *sums = s->sums;
    for (size_t i = 0; i < s->count; i++) {
        const state_entry *e = s->entries[i];
        if (is_small(e)) {
            TRY(note_small(s, e, sums, held_bytes(e), err));
        }
        sums += e->box_count;
    }
    return PAWL_OK;
}

static pawl_status read_replicas(replica_sums *s, pawl_error *err) {
    for (size_t i = 0; i < s->snapshot->count; i++) {
        if (i + STATE_ENTRIES_AHEAD < s->snapshot->count) {
            state_entry_expect(s->snapshot->entries[i + STATE_ENTRIES_AHEAD]);
        }
        if (is_replicated(s->snapshot->entries[i])) {
            TRY(read_replica(s, s->snapshot->entries[i], err));
        }
    }
    if (s->provided) {
        TRY(read_provided(s, err));
    }
    return note_all_small(s, err);
}

static void read_on_thread(void *argument) {
    replica_sums *s = argument;
    if (s->tuned != NULL) {
        engine_tune(s->tuned);
    }
    s->status = read_replicas(s, &s->story);
    if (s->provided) {
        engine_read_ended(s->tuned);
    }
}

/* More than the trainer's thread should wait for? */
static bool is_much(const replica_sums *s) {
    uint64_t bytes = 0;
    if (s->provided) {
        return true;
    }
    for (size_t i = 0; i < s->snapshot->count; i++) {
        const state_entry *e = s->snapshot->entries[i];
        uint64_t held = is_replicated(e) ? held_bytes(e) : 0;
        bytes += s->all || held <= REPLICA_SMALL_BYTES ? held : 0;
        if (i >= INLINE_ENTRIES || bytes > INLINE_BYTES) {
            return true;
        }
    }
    return false;
}

pawl_status replica_sums_start(const state_snapshot *snapshot, bool all, engine *tuned,
                               const platform *os, replica_sums **out, pawl_error *err) {
    replica_sums *s = mem_calloc(1, sizeof *s);
    if (s == NULL) {
        return error_nomem(err, sizeof *s);
    }
    s->snapshot = snapshot;
    s->all = all;
    s->tuned = tuned;
    s->platform = os;
    s->story = ERROR_INIT;
    s->provided = snapshot->provided && tuned != NULL;
    *out = s; /* its owner frees it, also after a failure */
    if (!is_much(s)) {
        return read_replicas(s, err);
    }
    if (s->provided) {
        engine_reading(tuned);
    }
    pawl_status status = os->thread_start(os->context, read_on_thread, s, &s->thread, err);
    if (status != PAWL_OK && s->provided) {
        engine_read_ended(tuned);
    }
    return status;
}

void replica_sums_wait(replica_sums *sums) {
    if (sums != NULL && sums->thread != NULL) {
        sums->platform->thread_join(sums->platform->context, sums->thread);
        sums->thread = NULL;
    }
}

void replica_sums_free(replica_sums *sums) {
    if (sums != NULL) {
        replica_sums_wait(sums);
        mem_free(sums->entries);
        mem_free(sums->sums);
        mem_free(sums->copies);
        mem_free(sums);
    }
}

/* ---- in a vote ------------------------------------------------------------------------------ */

pawl_status replica_sums_write(const replica_sums *sums, table_writer *w, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    CLEANUP(buffer_free) buffer value = {0};
    AUTOFREE vote_replica *replicas = mem_calloc(PAWL_MAX_BOXES, sizeof *replicas);
    if (replicas == NULL) {
        return error_nomem(err, PAWL_MAX_BOXES * sizeof *replicas);
    }
    const uint32_t *next = sums->sums;
    for (size_t i = 0; i < sums->count; i++) {
        const state_entry *e = sums->entries[i];
        for (size_t k = 0; k < e->box_count; k++) {
            const state_box *held = state_entry_box(e, k);
            replicas[k] = (vote_replica){.offset = (int64_t *)(uintptr_t)held->offset,
                                         .extent = (int64_t *)(uintptr_t)held->extent,
                                         .crc32c = *next++};
        }
        TRY(vote_key(&key, 'r', e->name, err));
        TRY(vote_replicas_encode(replicas, e->box_count, e->ndim, &value, err));
        TRY(table_writer_add(w, key.data, key.size, value.data, value.size, err));
    }
    return PAWL_OK;
}

pawl_status replica_sums_head(const replica_sums *sums, vote *head, arena *memory,
                              pawl_error *err) {
    if (sums == NULL) {
        return PAWL_OK;
    }
    if (sums->status != PAWL_OK) {
        *err = sums->story;
        return sums->status;
    }
    size_t bytes = sums->copies_count * sizeof *sums->copies;
    head->copies = arena_alloc(memory, bytes);
    if (head->copies == NULL) {
        return error_nomem(err, bytes);
    }
    if (bytes > 0) {
        memcpy(head->copies, sums->copies, bytes);
    }
    head->copies_count = sums->copies_count;
    return PAWL_OK;
}

/* ---- on rank 0 ------------------------------------------------------------------------------ */

static int compare_uint64s(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

/* By what is held; 0: the same replicas. */
static int compare_held(const vote_copies *a, const vote_copies *b) {
    int order = compare_uint64s((uint64_t)a->replica_count, (uint64_t)b->replica_count);
    order = order != 0 ? order : compare_uint64s(a->bytes, b->bytes);
    return order != 0 ? order : compare_uint64s(a->held_crc32c, b->held_crc32c);
}

static int compare_copies(const void *a, const void *b) {
    return compare_held(a, b);
}

pawl_status replica_sums_differ(const votes *v, size_t count, bool *differ, pawl_error *err) {
    size_t n = 0;
    *differ = false;
    for (size_t r = 0; r < count; r++) {
        n += v->heads[r].copies_count;
    }
    AUTOFREE vote_copies *all = mem_calloc(n, sizeof *all);
    if (all == NULL) {
        return error_nomem(err, n * sizeof *all);
    }
    size_t at = 0;
    for (size_t r = 0; r < count; r++) {
        for (size_t i = 0; i < v->heads[r].copies_count; i++) {
            all[at++] = v->heads[r].copies[i];
        }
    }
    if (n > 1) {
        qsort(all, n, sizeof *all, compare_copies);
    }
    for (size_t i = 1; i < n && !*differ; i++) {
        *differ =
            compare_held(&all[i - 1], &all[i]) == 0 && all[i - 1].sums_crc32c != all[i].sums_crc32c;
    }
    return PAWL_OK;
}
