/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One name in the votes of several ranks: their records become one, with the pieces of all, in the
 * order of ranks. What does not fit together is a mismatch (S12): it is noted, and the merge goes
 * on, so that one error names several of them.
 */
#include "votes/merge.h"

#include "format/record_join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_ENTRIES 256 /* parts whose memory is freed at once */

void merge_entry_free(merge_entry *e) {
    mem_free(e->voters);
    mem_free(e->parts);
    mem_free(e->pieces);
    arena_free(&e->memory);
    buffer_free(&e->key);
    buffer_free(&e->value);
}

/* ---- decode --------------------------------------------------------------------------------- */

static pawl_status of_another_rank(const record_piece *piece, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "it has a piece of another rank");
    error_found(err, "a piece of rank %d", piece->rank);
    return PAWL_EDAMAGED;
}

/* The pieces come out with the manifest's numbers of files. */
static pawl_status take_pieces(const voter *v, const record_entry *e, pawl_error *err) {
    for (size_t i = 0; i < e->piece_count; i++) {
        if (e->pieces[i].rank != v->head->rank) {
            return of_another_rank(&e->pieces[i], err);
        }
        e->pieces[i].file += v->first_file;
    }
    return PAWL_OK;
}

static pawl_status decode_part(merge_entry *e, size_t i, pawl_error *err) {
    const voter *v = e->voters[i];
    record_entry *out = &e->parts[i];
    uint32_t files = (uint32_t)v->head->file_count;
    pawl_status status =
        i == 0 ? record_entry_decode(v->key, v->key_bytes, v->value, v->value_bytes, files,
                                     &e->memory, out, err)
               : record_entry_decode_like(&e->parts[0], e->voters[0]->value, v->key, v->key_bytes,
                                          v->value, v->value_bytes, files, &e->memory, out, err);
    return status == PAWL_OK ? take_pieces(v, out, err) : status;
}

static pawl_status decode_parts(merge_entry *e, pawl_error *err) {
    if (e->used >= ARENA_ENTRIES) {
        arena_free(&e->memory);
        e->used = 0;
    }
    e->used += e->voter_count;
    TRY(vec_reserve(&e->parts, &e->part_capacity, e->voter_count, sizeof *e->parts, err));
    for (size_t i = 0; i < e->voter_count; i++) {
        if (i + VOTERS_AHEAD < e->voter_count) {
            __builtin_prefetch(e->voters[i + VOTERS_AHEAD]->value);
        }
        pawl_status status = decode_part(e, i, err);
        if (status != PAWL_OK) {
            return vote_table_failed(&e->voters[i]->table, status, err);
        }
    }
    return PAWL_OK;
}

/* ---- the same on all ranks? ----------------------------------------------------------------- */

/* "replicated tensor [10, 64] F32 (slot adam/m of w)" */
static const char *describe_part(char out[256], const record_entry *e) {
    char shape[96];
    size_t at;
    if (e->kind == PAWL_KIND_TENSOR) {
        at = (size_t)snprintf(out, 256, "%stensor %s %s", e->replicated ? "replicated " : "",
                              shape_text(shape, sizeof shape, e->ndim, e->shape),
                              pawl_dtype_name(e->dtype));
    } else {
        at = (size_t)snprintf(out, 256, "%s %s", pawl_kind_name(e->kind),
                              e->per_rank ? "of each rank's own" : "that all ranks share");
    }
    if (e->role == PAWL_ROLE_SLOT) {
        at += (size_t)snprintf(out + at, 256 - at, " (slot %s of %s)", e->slot, e->slot_of);
    } else if (e->role != PAWL_ROLE_MODEL) {
        at += (size_t)snprintf(out + at, 256 - at, " (%s)", pawl_role_name(e->role));
    }
    if (at >= 256) {
        text_cut(out, 256);
    }
    return out;
}

/* Most were decoded like the first and share its shape; a scalar has none to share. */
static bool part_is_alike(const record_entry *part, const record_entry *first) {
    return (first->ndim > 0 && part->shape == first->shape) || record_entry_alike(first, part);
}

static bool parts_differ(const merge_entry *e, mismatches *faults) {
    char first[256];
    char other[256];
    for (size_t i = 1; i < e->voter_count; i++) {
        if (!part_is_alike(&e->parts[i], &e->parts[0])) {
            mismatches_add(faults, e->parts[0].name, "make it alike on all ranks",
                           "%s on rank %d; %s on rank %d", describe_part(first, &e->parts[0]),
                           e->voters[0]->head->rank, describe_part(other, &e->parts[i]),
                           e->voters[i]->head->rank);
            return true;
        }
    }
    return false;
}

/* ---- join ----------------------------------------------------------------------------------- */

static pawl_status join_parts(merge_entry *e, record_entry *out, pawl_error *err) {
    size_t count = 0;
    for (size_t i = 0; i < e->voter_count; i++) {
        count += e->parts[i].piece_count;
    }
    TRY(vec_reserve(&e->pieces, &e->piece_capacity, count, sizeof *e->pieces, err));
    *out = e->parts[0];
    out->pieces = e->pieces;
    out->piece_count = 0;
    for (size_t i = 0; i < e->voter_count; i++) {
        const record_entry *part = &e->parts[i];
        if (part->piece_count > 0) { /* there may be none at all, and no memory for them */
            memcpy(out->pieces + out->piece_count, part->pieces,
                   part->piece_count * sizeof *part->pieces);
            out->piece_count += part->piece_count;
        }
    }
    return PAWL_OK;
}

/* ---- do the pieces cover it? ---------------------------------------------------------------- */

static const char *what_to_do(const record_entry *e, bool overlap) {
    if (e->replicated) {
        return "give replica and replica_count on each rank that holds these boxes: the number of "
               "its copy, and how many copies there are";
    }
    return overlap ? "declare it replicated, or give each rank a part of its own"
                   : "let the ranks hold all of the shape that they declare";
}

static void add_cover_fault(const record_entry *e, const plan_fault *fault, mismatches *faults) {
    char where[160];
    box_text(where, sizeof where, &fault->where);
    if (!fault->overlap) {
        mismatches_add(faults, e->name, what_to_do(e, false),
                       e->replicated ? "no rank wrote %s: a copy of it is missing"
                                     : "no rank holds %s",
                       where);
        return;
    }
    int first = e->pieces[fault->first].rank;
    int second = e->pieces[fault->second].rank;
    if (first == second) {
        mismatches_add(faults, e->name, what_to_do(e, true), "rank %d holds %s twice", first,
                       where);
    } else {
        mismatches_add(faults, e->name, what_to_do(e, true), "ranks %d and %d both hold %s",
                       first < second ? first : second, first < second ? second : first, where);
    }
}

static pawl_status check_cover(const record_entry *e, bool *whole, mismatches *faults,
                               pawl_error *err) {
    plan_fault fault;
    TRY(plan_cover_entry(e, &fault, err));
    *whole = !fault.overlap && !fault.hole;
    if (!*whole) {
        add_cover_fault(e, &fault, faults);
    }
    return PAWL_OK;
}

/* A value is of one rank, or of each rank that has its own. */
static bool check_value_parts(const merge_entry *e, mismatches *faults) {
    const record_entry *first = &e->parts[0];
    if (first->per_rank || e->voter_count == 1) {
        return true;
    }
    mismatches_add(faults, first->name, "this is a fault of pawl: report it",
                   "ranks %d and %d both wrote it", e->voters[0]->head->rank,
                   e->voters[1]->head->rank);
    return false;
}

pawl_status merge_put_entry(merge_entry *e, table_writer *w, mismatches *faults, pawl_error *err) {
    record_entry joined;
    bool whole = true;
    TRY(decode_parts(e, err));
    if (parts_differ(e, faults)) {
        return PAWL_OK;
    }
    TRY(join_parts(e, &joined, err));
    if (joined.kind == PAWL_KIND_TENSOR) {
        TRY(check_cover(&joined, &whole, faults, err));
    } else {
        whole = check_value_parts(e, faults);
    }
    if (!whole) {
        return PAWL_OK;
    }
    TRY(record_entry_encode_again(&joined, &e->value, err));
    return table_writer_add(w, e->voters[0]->key, e->voters[0]->key_bytes, e->value.data,
                            e->value.size, err);
}

/* ---- replicas ------------------------------------------------------------------------------- */

/* A replica, and who holds it. */
typedef struct held_replica {
    const int64_t *offset, *extent;
    int ndim;
    uint32_t crc32c;
    int rank;
} held_replica;

static int compare_int64s(int n, const int64_t *a, const int64_t *b) {
    for (int d = 0; d < n; d++) {
        if (a[d] != b[d]) {
            return a[d] < b[d] ? -1 : 1;
        }
    }
    return 0;
}

static int compare_boxes(const held_replica *a, const held_replica *b) {
    if (a->ndim != b->ndim) {
        return a->ndim - b->ndim;
    }
    int order = compare_int64s(a->ndim, a->offset, b->offset);
    return order != 0 ? order : compare_int64s(a->ndim, a->extent, b->extent);
}

static int compare_replicas(const void *a, const void *b) {
    const held_replica *x = a;
    const held_replica *y = b;
    int order = compare_boxes(x, y);
    return order != 0 ? order : x->rank - y->rank;
}

typedef struct replica_list {
    held_replica *items;
    size_t count, capacity;
} replica_list;

static void replica_list_free(replica_list *l) {
    mem_free(l->items);
}

static pawl_status take_replicas(const voter *v, arena *memory, replica_list *out,
                                 pawl_error *err) {
    vote_replica *replicas;
    size_t count;
    int ndim;
    pawl_status status =
        vote_replicas_decode(v->value, v->value_bytes, memory, &replicas, &count, &ndim, err);
    if (status != PAWL_OK) {
        return vote_table_failed(&v->table, status, err);
    }
    TRY(vec_reserve(&out->items, &out->capacity, out->count + count, sizeof *out->items, err));
    for (size_t i = 0; i < count; i++) {
        out->items[out->count++] = (held_replica){.offset = replicas[i].offset,
                                                  .extent = replicas[i].extent,
                                                  .ndim = ndim,
                                                  .crc32c = replicas[i].crc32c,
                                                  .rank = v->head->rank};
    }
    return PAWL_OK;
}

/* "rank 0", "ranks 0, 3, 7, ..." of those whose sum is as the first's, or is not. */
static const char *name_ranks(char out[160], const held_replica *items, size_t n, bool as_first,
                              pawl_status *status, pawl_error *err) {
    int world_size = items[n - 1].rank + 1;
    AUTOFREE unsigned char *chosen = mem_calloc((size_t)world_size, 1);
    if (chosen == NULL) {
        *status = error_nomem(err, (size_t)world_size);
        return "";
    }
    for (size_t i = 0; i < n; i++) {
        chosen[items[i].rank] |= (items[i].crc32c == items[0].crc32c) == as_first;
    }
    return group_ranks_text(out, 160, chosen, world_size);
}

/* Replicas of one box, by rank. */
static pawl_status compare_sums(const char *name, const held_replica *items, size_t n, bool *equal,
                                mismatches *faults, pawl_error *err) {
    char where[160];
    char first[160];
    char others[160];
    pawl_status status = PAWL_OK;
    *equal = true;
    for (size_t i = 1; i < n && *equal; i++) {
        *equal = items[i].crc32c == items[0].crc32c;
    }
    if (*equal) {
        return PAWL_OK;
    }
    const box held = box_of(items[0].ndim, items[0].offset, items[0].extent);
    box_text(where, sizeof where, &held);
    const char *first_text = name_ranks(first, items, n, true, &status, err);
    const char *others_text = name_ranks(others, items, n, false, &status, err);
    mismatches_add(faults, name,
                   "find the update that not all ranks make, or do not declare it replicated",
                   "%s has other bytes on %s than on %s", where, others_text, first_text);
    return status;
}

pawl_status merge_check_replicas(merge_entry *e, mismatches *faults, pawl_error *err) {
    CLEANUP(replica_list_free) replica_list all = {.items = NULL};
    CLEANUP(arena_free) arena memory = {0};
    char name[PAWL_MAX_NAME_BYTES + 1];
    bool equal = true;
    TRY(vote_key_name(e->voters[0]->key, e->voters[0]->key_bytes, name, err));
    for (size_t i = 0; i < e->voter_count; i++) {
        TRY(take_replicas(e->voters[i], &memory, &all, err));
    }
    if (all.count > 1) {
        qsort(all.items, all.count, sizeof *all.items, compare_replicas);
    }
    for (size_t i = 0; i < all.count && equal;) {
        size_t end = i + 1;
        while (end < all.count && compare_boxes(&all.items[i], &all.items[end]) == 0) {
            end++;
        }
        TRY(compare_sums(name, all.items + i, end - i, &equal, faults, err));
        i = end;
    }
    return PAWL_OK;
}
