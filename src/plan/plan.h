/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan: pure functions that decide which bytes go where: the layout of a save, whether the pieces
 * of all ranks make up a tensor, the reads of a restore.
 *
 * May include base, tensor, format, state, match. No I/O, no clock. Threads: no shared state; a
 * layout and reads may be used by several threads at once, as they do not change once made.
 * Ownership: a layout borrows the snapshot it was made from, reads borrow the pairs of a match;
 * what is borrowed must outlive the borrower.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "base/base.h"
#include "format/format.h"
#include "match/match.h"
#include "state/state.h"
#include "tensor/tensor.h"

/* ---- layout of a save: layout.c ------------------------------------------------------------- */

/* Replicated boxes are divided among their replicas, whole or in slices, so that each writes about
 * as many bytes. Every replica computes the same division by itself, from what all of them know. A
 * rank writes at most one piece of a box. */
typedef struct plan_piece {
    const state_entry *entry;
    const state_box *part;  /* tensors: which part of the tensor it is, and where it is in memory */
    uint32_t file;          /* which of the layout's files */
    uint32_t further;       /* tensors: its file may have so many earlier pieces of its entry */
    uint64_t offset, bytes; /* in that file */
} plan_piece;

typedef struct plan_file {
    char name[80];
    buffer header; /* safetensors, padding included: the file's first bytes, without their sum */
    uint64_t bytes;
    size_t first_piece, piece_count; /* in layout->pieces, ascending by offset */
} plan_file;

typedef struct plan_layout {
    plan_file *files;
    size_t file_count;
    size_t copied_files; /* the first ones: of all tensors to be copied, and of no others */
    plan_piece *pieces;  /* in file order: descending alignment, then name */
    size_t *by_name;     /* places of the pieces, ascending by entry name, then box */
    size_t piece_count;
    size_t *values; /* places of the pieces of values, ascending by entry name */
    size_t value_count;
    uint64_t bytes; /* of all files */
    const state_snapshot *snapshot;
    int64_t step;
    int rank, world_size;
    arena memory; /* for parts that are slices of a box */
} plan_layout;

typedef struct plan_layout_options {
    const char *tag; /* of the attempt and save: part of file names */
    int rank, world_size;
    /* A new file begins before a header grows larger [FORMAT_SPLIT_HEADER]. */
    uint64_t split_header_bytes;
    /* A new file begins before one has more bytes than that, header included; a file of one piece
     * may have more [no limit]. */
    uint64_t split_bytes;
} plan_layout_options;

/* A file holds at most one piece of a tensor; further boxes go to further files. Values that are
 * not per rank are written by rank 0. There is always at least one file; with more than one rank
 * their names carry the rank, and each rank numbers its own. PAWL_EUSAGE when there is one rank and
 * a tensor's boxes do not cover it, and for more replicas than ranks. */
pawl_status plan_layout_make(const state_snapshot *snapshot, const plan_layout_options *options,
                             plan_layout **out, pawl_error *err) PAWL_MUST_CHECK;
/* Makes it the layout of another save with the same rank and world size, if it would be the same
 * but for the step, the tag and the bytes of values. Otherwise returns false and changes nothing.
 * Of the snapshot it had no values are needed. */
bool plan_layout_renew(plan_layout *layout, const state_snapshot *snapshot, const char *tag)
    PAWL_MUST_CHECK;
void plan_layout_free(plan_layout *layout); /* NULL is fine */

/* ---- the layout of the last save: kept.c ---------------------------------------------------- */

/* Kept for the next save: making one costs time for every entry. Begins zeroed. */
typedef struct plan_kept {
    plan_layout *layout; /* NULL: none */
    state_snapshot *snapshot;
    uint64_t reuses; /* for tests */
} plan_kept;
/* As plan_layout_make, by renewing what is kept where that is possible; otherwise it is freed.
 * `options` differ from the last ones by the tag alone. */
pawl_status plan_kept_make(plan_kept *kept, const state_snapshot *snapshot,
                           const plan_layout_options *options, plan_layout **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Takes over a layout and its snapshot, which are not used any more; either may be NULL. */
void plan_kept_keep(plan_kept *kept, plan_layout *layout, state_snapshot *snapshot);
void plan_kept_free(plan_kept *kept);

/* Do all pieces of that entry end before byte `at` of a file, in the order of the files? True
 * where it has none. */
bool plan_layout_precedes(const plan_layout *layout, const char *name, size_t file, uint64_t at);

/* Where bytes [at, at+n) of a file are in memory, when they belong to one dense piece; else NULL.
 * `piece` as for plan_layout_gather_on. */
const uint8_t *plan_layout_dense(const plan_layout *layout, size_t file, uint64_t at, size_t n,
                                 size_t *piece);
/* Bytes [at, at+n) of a file: header, pieces gathered from memory, zero between. Any thread. */
void plan_layout_gather(const plan_layout *layout, size_t file, uint64_t at, size_t n, uint8_t *to);
/* The same for going through a file in ascending order: `*piece` is 0 at first, and then where the
 * next call goes on. */
void plan_layout_gather_on(const plan_layout *layout, size_t file, uint64_t at, size_t n,
                           uint8_t *to, size_t *piece);

/* Copies between host memory and the memory of providers, which is not touched here. */
typedef struct plan_copy {
    const state_entry *entry;
    void *data;     /* of the box: whatever its provider takes it for */
    int64_t offset; /* from there on */
    uint8_t *host;
    size_t bytes;
} plan_copy;

typedef struct plan_copies {
    plan_copy *items;
    size_t count, capacity;
} plan_copies;

/* As plan_layout_gather_on, but of tensors in a provider's memory the copies that fill `to` are
 * appended to `out`. The functions above are for host memory alone. */
pawl_status plan_layout_gather_some(const plan_layout *layout, size_t file, uint64_t at, size_t n,
                                    uint8_t *to, plan_copies *out, pawl_error *err) PAWL_MUST_CHECK;
/* Has a tensor in a provider's memory bytes in [at, at+n) of a file? */
bool plan_layout_provided(const plan_layout *layout, size_t file, uint64_t at, size_t n);
/* The copies between `to` and bytes [from, from+n) of the dense form of a box `source`, of what it
 * shares with a box of the tensor. */
pawl_status plan_copies_add(const state_entry *entry, const state_box *part, const box *source,
                            uint64_t from, size_t n, uint8_t *to, plan_copies *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* The copies that gather bytes [from, from+n) of the dense row-major form of a tensor's box. */
pawl_status plan_box_copies(const state_entry *entry, const state_box *part, uint64_t from,
                            size_t n, uint8_t *to, plan_copies *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- do the pieces of all ranks make up a tensor? cover.c ----------------------------------- */

/* One fault of a set of boxes inside `shape`; the boxes are disjoint and cover it where there is
 * none. */
typedef struct plan_fault {
    bool overlap, hole;
    size_t first, second; /* overlap: which two boxes */
    box where;            /* the elements that both have, or a box that nobody has */
} plan_fault;
/* Sorts the boxes along their dimensions until they separate: near n log n for any grid, and for
 * meshes inside meshes. Empty boxes do not count. PAWL_ELIMIT for boxes that interlock or overlap
 * in too many ways to be sorted out. */
pawl_status plan_cover(int ndim, const int64_t *shape, const box *boxes, size_t n, plan_fault *out,
                       pawl_error *err) PAWL_MUST_CHECK;
/* The same of the pieces of a tensor's entry. */
pawl_status plan_cover_entry(const record_entry *entry, plan_fault *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- reads of a restore: reads.c ------------------------------------------------------------ */

/* One stretch of a data file and where its elements go. */
typedef struct plan_read {
    uint32_t file;
    uint32_t box;           /* of the wanted tensor */
    uint64_t offset, bytes; /* in the file; whole elements */
    uint64_t gap;           /* for plan_reads_on */
    const match_pair *pair;
    const record_piece *piece;
    uint8_t *straight; /* where its bytes go as they are; NULL: element by element */
} plan_read;

typedef struct plan_reads {
    plan_read *reads; /* ascending by file, then offset */
    size_t count;
    uint64_t bytes;
} plan_reads;

/* Are the bytes between two stretches read too, instead of beginning another read? Always where no
 * whole block lies between them; otherwise where they are at most `gap`. */
bool plan_reads_on(uint64_t end, uint64_t begin, uint64_t gap);
/* That gap between runs of a tensor: 4 blocks for a small tensor; for one of more than 1 MiB few
 * enough bytes that at most 1.05 times the blocks needed are read. */
uint64_t plan_gap(uint64_t tensor_bytes, uint64_t run_bytes);

/* Stretches end where the bytes up to the next are not worth reading, and after PLAN_READ_BYTES.
 * The pieces of the checkpoint are aligned, and cover the tensor, each element once (plan_cover).
 * PAWL_EDAMAGED naming the entry when the value of this rank is not there. Values are not read:
 * they are in the index, those per rank in the piece of the rank. Packed elements come in the boxes
 * they were saved in, else PAWL_EUNSUPPORTED. */
#define PLAN_READ_BYTES ((uint64_t)16 << 20)
pawl_status plan_reads_make(const match_pair *pairs, size_t pair_count, int rank, plan_reads *out,
                            pawl_error *err) PAWL_MUST_CHECK;
void plan_reads_free(plan_reads *reads);
/* Places bytes [offset, offset+n) of the file (inside the read's stretch, whole elements) into the
 * wanted tensor's memory, casting when dtypes differ. Returns the overflows of the cast. Any
 * thread. */
uint64_t plan_read_place(const plan_read *read, uint64_t offset, const uint8_t *bytes, size_t n);
/* The same where the wanted tensor is in a provider's memory: how many bytes these are as elements
 * of that tensor; puts them into `to`, and returns overflows; appends the copies from `to`. */
size_t plan_read_staged_bytes(const plan_read *read, size_t n);
uint64_t plan_read_stage(const plan_read *read, uint64_t offset, const uint8_t *bytes, size_t n,
                         uint8_t *to);
pawl_status plan_read_copies(const plan_read *read, uint64_t offset, size_t n, uint8_t *to,
                             plan_copies *out, pawl_error *err) PAWL_MUST_CHECK;

#endif
