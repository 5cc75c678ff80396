/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which stretches of which files fill the state's tensors: for each wanted box, what every
 * piece of the checkpoint has of it. The pieces make up the tensor, each element once: that was
 * checked when the entry was read from the index (checkpoint/entry_check.c).
 */
#include "plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The gap in a small tensor: reading so many bytes costs less than another read. */
#define MAX_GAP_BYTES ((uint64_t)4 * FORMAT_BLOCK_BYTES)
#define SMALL_BYTES   ((uint64_t)1 << 20)
/* In a larger one: 1/64 of the run. It is allowed twice, between runs that become a stretch and
 * between stretches that are read together, so 1/32 in all. */
#define MAX_GAP_PART 64
typedef struct planning {
    plan_reads *out;
    size_t capacity;
    const match_pair *pair;
    uint64_t tensor_bytes; /* of the pair's */
} planning;

static box piece_box(const match_pair *pair, const record_piece *piece) {
    return box_of(pair->source->ndim, piece->box_offset, piece->box_extent);
}

/* ---- stretches ------------------------------------------------------------------------------ */

/* Is the wanted box all of the piece? */
static bool same_box(const planning *p, const state_box *wanted, const record_piece *piece) {
    size_t bytes = (size_t)p->pair->source->ndim * sizeof(int64_t);
    return memcmp(wanted->offset, piece->box_offset, bytes) == 0 &&
           memcmp(wanted->extent, piece->box_extent, bytes) == 0;
}

static uint8_t *straight_memory(const planning *p, uint32_t wanted_box, const record_piece *piece) {
    const state_box *wanted = state_entry_box(p->pair->wanted, wanted_box);
    bool straight = wanted->strides == NULL && p->pair->wanted->memory == NULL &&
                    same_box(p, wanted, piece) && p->pair->wanted->dtype == p->pair->source->dtype;
    return straight ? wanted->data : NULL;
}

bool plan_reads_on(uint64_t end, uint64_t begin, uint64_t gap) {
    uint64_t next_block = end / FORMAT_BLOCK_BYTES + (end % FORMAT_BLOCK_BYTES != 0);
    return begin <= end || begin / FORMAT_BLOCK_BYTES <= next_block || begin - end <= gap;
}

uint64_t plan_gap(uint64_t tensor_bytes, uint64_t run_bytes) {
    uint64_t part = run_bytes / MAX_GAP_PART;
    bool most = tensor_bytes <= SMALL_BYTES || part > MAX_GAP_BYTES;
    return most ? MAX_GAP_BYTES : part;
}

/* Bytes [from, end) of the piece. */
static pawl_status add_read(planning *p, uint32_t wanted_box, const record_piece *piece,
                            uint64_t from, uint64_t end, pawl_error *err) {
    plan_reads *out = p->out;
    uint8_t *straight = straight_memory(p, wanted_box, piece);
    for (uint64_t bytes; from < end; from += bytes) {
        bytes = end - from < PLAN_READ_BYTES ? end - from : PLAN_READ_BYTES;
        TRY(vec_reserve(&out->reads, &p->capacity, out->count + 1, sizeof(*out->reads), err));
        out->reads[out->count++] =
            (plan_read){.file = piece->file,
                        .box = wanted_box,
                        .offset = piece->offset + from,
                        .bytes = bytes,
                        .gap = plan_gap(p->tensor_bytes, bytes),
                        .pair = p->pair,
                        .piece = piece,
                        .straight = straight != NULL ? straight + from : NULL};
        out->bytes += bytes;
    }
    return PAWL_OK;
}

/* The stretches of the piece that hold `part` of it. */
static pawl_status add_stretches(planning *p, uint32_t wanted_box, const record_piece *piece,
                                 const box *part, pawl_error *err) {
    uint64_t item_bits = (uint64_t)pawl_dtype_bits(p->pair->source->dtype);
    box whole = piece_box(p->pair, piece);
    box_runs runs = box_runs_of(part, &whole);
    uint64_t first = 0;
    uint64_t count = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    while (box_runs_next(&runs, &first, &count)) {
        uint64_t from = first * item_bits / 8;
        uint64_t gap = plan_gap(p->tensor_bytes, count * item_bits / 8);
        if (end > begin && !plan_reads_on(piece->offset + end, piece->offset + from, gap)) {
            TRY(add_read(p, wanted_box, piece, begin, end, err));
            begin = from;
        } else if (end == begin) {
            begin = from;
        }
        end = (first + count) * item_bits / 8;
    }
    return add_read(p, wanted_box, piece, begin, end, err);
}

/* Elements of less than a byte are cut between bytes only. */
static pawl_status check_packed_box(const planning *p, const record_piece *piece, const box *wanted,
                                    pawl_error *err) {
    box whole = piece_box(p->pair, piece);
    box other = *wanted;
    if (boxes_as_bytes(p->pair->source->dtype, &whole, &other)) {
        return PAWL_OK;
    }
    char text[256];
    whole = piece_box(p->pair, piece);
    error_set(err, PAWL_EUNSUPPORTED, "cannot cut a tensor of packed elements (%s) within a byte",
              pawl_dtype_name(p->pair->source->dtype));
    error_entry(err, p->pair->wanted->name);
    error_expected(err, "a box that begins and ends where a byte of the checkpoint's %s does",
                   box_text(text, sizeof(text), &whole));
    error_found(err, "%s", box_text(text, sizeof(text), wanted));
    error_next(err, "restore with the boxes that saved it, or with even ones");
    return PAWL_EUNSUPPORTED;
}

/* ---- one wanted box ------------------------------------------------------------------------- */

/* Most pieces of a tensor in many boxes have nothing of one box. */
static bool lies_apart(const box *wanted, const record_piece *piece) {
    for (int d = 0; d < wanted->ndim; d++) {
        if (piece->box_offset[d] >= wanted->offset[d] + wanted->extent[d] ||
            piece->box_offset[d] + piece->box_extent[d] <= wanted->offset[d]) {
            return true;
        }
    }
    return false;
}

static pawl_status take_piece(planning *p, uint32_t wanted_box, const box *wanted,
                              const record_piece *piece, uint64_t *elements, pawl_error *err) {
    box part;
    if (lies_apart(wanted, piece)) {
        return PAWL_OK;
    }
    box whole = piece_box(p->pair, piece);
    if (!box_intersect(wanted, &whole, &part)) {
        return PAWL_OK;
    }
    *elements += box_elements(&part);
    TRY(check_packed_box(p, piece, wanted, err));
    return add_stretches(p, wanted_box, piece, &part, err);
}

/* What was not read must not count as restored. */
static pawl_status refuse_hole(const planning *p, const box *wanted, uint64_t elements,
                               pawl_error *err) {
    char text[256];
    error_set(err, PAWL_EDAMAGED, "the checkpoint does not hold all of the tensor");
    error_entry(err, p->pair->wanted->name);
    error_expected(err, "pieces that cover %s", box_text(text, sizeof(text), wanted));
    error_found(err, "%" PRIu64 " of %" PRIu64 " elements", elements, box_elements(wanted));
    error_next(err, "restore another step");
    return PAWL_EDAMAGED;
}

/* A tensor that was saved as it is wanted, in one piece, as most are. */
static bool is_whole_piece(const planning *p, uint32_t wanted_box) {
    const record_entry *source = p->pair->source;
    return source->piece_count == 1 &&
           same_box(p, state_entry_box(p->pair->wanted, wanted_box), &source->pieces[0]);
}

static pawl_status plan_box(planning *p, uint32_t wanted_box, pawl_error *err) {
    const record_entry *source = p->pair->source;
    if (is_whole_piece(p, wanted_box)) {
        return add_read(p, wanted_box, &source->pieces[0], 0, source->pieces[0].bytes, err);
    }
    strided v = state_entry_memory(p->pair->wanted, wanted_box);
    uint64_t elements = 0;
    for (size_t i = 0; i < source->piece_count; i++) {
        TRY(take_piece(p, wanted_box, &v.box, &source->pieces[i], &elements, err));
    }
    return elements == box_elements(&v.box) ? PAWL_OK : refuse_hole(p, &v.box, elements, err);
}

/* ---- one entry, and all of them ------------------------------------------------------------- */

/* The value that this rank saved must be there; the run reads it. */
static pawl_status check_rank_piece(const match_pair *pair, int rank, pawl_error *err) {
    for (size_t i = 0; i < pair->source->piece_count; i++) {
        if (pair->source->pieces[i].rank == rank) {
            return PAWL_OK;
        }
    }
    error_set(err, PAWL_EDAMAGED, "the checkpoint does not hold the value of rank %d", rank);
    error_entry(err, pair->wanted->name);
    error_next(err, "restore another step");
    return PAWL_EDAMAGED;
}

static pawl_status plan_pair_reads(planning *p, int rank, pawl_error *err) {
    const state_entry *wanted = p->pair->wanted;
    if (p->pair->keep_caller) {
        return PAWL_OK;
    }
    if (wanted->kind != PAWL_KIND_TENSOR) {
        return wanted->per_rank ? check_rank_piece(p->pair, rank, err) : PAWL_OK;
    }
    p->tensor_bytes = shape_bytes(p->pair->source->dtype, wanted->ndim, wanted->shape);
    for (size_t i = 0; i < wanted->box_count; i++) {
        TRY(plan_box(p, (uint32_t)i, err));
    }
    return PAWL_OK;
}

static int by_file(const void *a, const void *b) {
    const plan_read *left = a;
    const plan_read *right = b;
    if (left->file != right->file) {
        return left->file < right->file ? -1 : 1;
    }
    if (left->offset != right->offset) {
        return left->offset < right->offset ? -1 : 1;
    }
    if (left->bytes != right->bytes) {
        return left->bytes < right->bytes ? -1 : 1;
    }
    return (left->box > right->box) - (left->box < right->box);
}

static bool ascending(const plan_reads *reads) {
    for (size_t i = 1; i < reads->count; i++) {
        if (by_file(&reads->reads[i - 1], &reads->reads[i]) > 0) {
            return false;
        }
    }
    return true;
}

pawl_status plan_reads_make(const match_pair *pairs, size_t pair_count, int rank, plan_reads *out,
                            pawl_error *err) {
    plan_reads made = {0};
    planning p = {.out = &made};
    for (size_t i = 0; i < pair_count; i++) {
        p.pair = &pairs[i];
        pawl_status status = plan_pair_reads(&p, rank, err);
        if (status != PAWL_OK) {
            error_wrap(err, "cannot restore");
            plan_reads_free(&made);
            return status;
        }
    }
    if (made.reads != NULL && !ascending(&made)) {
        qsort(made.reads, made.count, sizeof(*made.reads), by_file);
    }
    *out = made;
    return PAWL_OK;
}

void plan_reads_free(plan_reads *reads) {
    mem_free(reads->reads);
    *reads = (plan_reads){0};
}
