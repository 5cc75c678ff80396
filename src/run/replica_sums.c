/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking mode: the checksum of every replica that this rank holds, as its bytes are when the save
 * begins. Rank 0 compares those of equal boxes (merge.c): what differs was never a replica, or is
 * none any more.
 */
#include "run/votes.h"

#define GATHER_BYTES 16384u

struct replica_sums {
    size_t count;
    const state_entry **entries; /* replicated tensors, ascending by name; the snapshot's */
    uint32_t *sums;              /* of their boxes, one after the other */
};

static bool is_replicated(const state_entry *e) {
    return e->kind == PAWL_KIND_TENSOR && e->replicated;
}

static uint32_t sum_of_box(const state_entry *e, const state_box *held) {
    uint8_t stretch[GATHER_BYTES];
    uint32_t sum = 0;
    uint64_t bytes = shape_bytes(e->dtype, e->ndim, held->extent);
    view v = state_box_view(e, held);
    if (bytes > 0 && view_dense(&v)) {
        return crc32c(0, v.data, (size_t)bytes);
    }
    for (uint64_t at = 0; at < bytes; at += GATHER_BYTES) {
        size_t n = bytes - at < GATHER_BYTES ? (size_t)(bytes - at) : GATHER_BYTES;
        view_gather(&v, at, n, stretch);
        sum = crc32c(sum, stretch, n);
    }
    return sum;
}

static void fill(replica_sums *sums, const state_snapshot *snapshot) {
    uint32_t *next = sums->sums;
    for (size_t i = 0; i < snapshot->count; i++) {
        const state_entry *e = snapshot->entries[i];
        if (!is_replicated(e)) {
            continue;
        }
        sums->entries[sums->count++] = e;
        for (size_t k = 0; k < e->box_count; k++) {
            *next++ = sum_of_box(e, state_entry_box(e, k));
        }
    }
}

pawl_status replica_sums_make(const state_snapshot *snapshot, replica_sums **out, pawl_error *err) {
    size_t count = 0;
    size_t boxes = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        const state_entry *e = snapshot->entries[i];
        count += is_replicated(e);
        boxes += is_replicated(e) ? e->box_count : 0;
    }
    replica_sums *sums = mem_calloc(1, sizeof *sums);
    if (sums != NULL) {
        sums->entries = mem_calloc(count, sizeof(const state_entry *));
        sums->sums = mem_calloc(boxes, sizeof *sums->sums);
    }
    if (sums == NULL || sums->entries == NULL || sums->sums == NULL) {
        replica_sums_free(sums);
        return error_nomem(err, count * sizeof(const state_entry *));
    }
    fill(sums, snapshot);
    *out = sums;
    return PAWL_OK;
}

void replica_sums_free(replica_sums *sums) {
    if (sums != NULL) {
        mem_free(sums->entries);
        mem_free(sums->sums);
        mem_free(sums);
    }
}

pawl_status replica_sums_write(const replica_sums *sums, table_writer *w, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    CLEANUP(buffer_free) buffer value = {0};
    vote_replica replicas[PAWL_MAX_BOXES];
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
