/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan: pure functions that decide: the layout of a save, the match of a checkpoint against a state
 * with its report, the reads of a restore. No I/O, no clock, no threads.
 *
 * May include base, tensor, format, state. A layout borrows the snapshot it was made from, a match
 * borrows the snapshot and the options: they must outlive it.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "base/base.h"
#include "format/format.h"
#include "state/state.h"
#include "tensor/tensor.h"

#include <pawl/restore.h>

/* ---- layout of a save: layout.c ------------------------------------------------------------- */

/* Replicated boxes are shared out among their replicas, whole or in slices, so that each writes
 * about as many bytes. Every replica comes to the same by itself: from what is replicated alone. At
 * most one piece of a box is a rank's. */
typedef struct plan_piece {
    const state_entry *entry;
    const state_box *part;  /* tensors: what of the tensor it is, and where it stands in memory */
    uint32_t file;          /* which of the layout's files */
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
    plan_piece *pieces; /* in file order: descending alignment, then name */
    size_t *by_name;    /* places of the pieces, ascending by entry name, then file */
    size_t piece_count;
    uint64_t bytes; /* of all files */
    const state_snapshot *snapshot;
    int64_t step;
    int rank, world_size;
    arena memory; /* of the parts that are no box of an entry */
} plan_layout;

typedef struct plan_layout_options {
    const char *tag; /* of the attempt and save: part of file names */
    int rank, world_size;
    /* A new file begins before a header grows larger [FORMAT_SPLIT_HEADER]. */
    uint64_t split_header_bytes;
} plan_layout_options;

/* A file holds at most one piece of a tensor; further boxes go to further files. Values that are
 * not per rank are written by rank 0. There is always at least one file; with more than one rank
 * their names carry the rank, and each rank counts its own. PAWL_EUSAGE when there is one rank and
 * a tensor's boxes do not cover it, and for more replicas than ranks. */
pawl_status plan_layout_make(const state_snapshot *snapshot, const plan_layout_options *options,
                             plan_layout **out, pawl_error *err) PAWL_MUST_CHECK;
void plan_layout_free(plan_layout *layout); /* NULL is fine */

/* Where bytes [at, at+n) of a file stand in memory, when they are of one dense piece; else NULL.
 * `piece` as for plan_layout_gather_on. */
const uint8_t *plan_layout_dense(const plan_layout *layout, size_t file, uint64_t at, size_t n,
                                 size_t *piece);
/* Bytes [at, at+n) of a file: header, pieces gathered from memory, zero between. Any thread. */
void plan_layout_gather(const plan_layout *layout, size_t file, uint64_t at, size_t n, uint8_t *to);
/* The same for one who goes through a file: `*piece`, 0 at first, is where the next call goes on,
 * which must not ask for bytes before those of this one. */
void plan_layout_gather_on(const plan_layout *layout, size_t file, uint64_t at, size_t n,
                           uint8_t *to, size_t *piece);
/* The piece that byte `at` of a file belongs to; NULL in the header and between pieces. */
const plan_piece *plan_layout_locate(const plan_layout *layout, size_t file, uint64_t at);

/* ---- do the pieces of all ranks make up a tensor? cover.c ----------------------------------- */

/* One fault of a set of boxes inside `shape`; the boxes are disjoint and cover it where there is
 * none. */
typedef struct plan_fault {
    bool overlap, hole;
    size_t first, second; /* overlap: which two boxes */
    box where;            /* the elements that both have, or a box that nobody has */
} plan_fault;
/* Sorts the boxes until they fall apart: near n log n for any grid, and for meshes inside meshes.
 * Empty boxes do not count. PAWL_ELIMIT for boxes that interlock or overlap in too many ways to be
 * sorted out. */
pawl_status plan_cover(int ndim, const int64_t *shape, const box *boxes, size_t n, plan_fault *out,
                       pawl_error *err) PAWL_MUST_CHECK;
/* The same of the pieces of a tensor's entry. */
pawl_status plan_cover_entry(const record_entry *entry, plan_fault *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- report: report.c (also defines pawl_report_*) ------------------------------------------ */

pawl_status report_new(pawl_report **out, pawl_error *err) PAWL_MUST_CHECK;
/* Copies the item's texts; writes the sentence (`text`) itself when it is NULL. */
pawl_status report_add(pawl_report *report, const pawl_report_item *item, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_report_counts *report_counts(pawl_report *report);
void report_set_step(pawl_report *report, int64_t step);
/* Why a newer checkpoint was passed over; shown in text and JSON, counted as a fallback. */
pawl_status report_add_fallback(pawl_report *report, int64_t step, const char *why, pawl_error *err)
    PAWL_MUST_CHECK;
/* Renders text and JSON; call once at the end, before pawl_report_text. */
pawl_status report_finish(pawl_report *report, pawl_error *err) PAWL_MUST_CHECK;

/* ---- the match of a job: job.c -------------------------------------------------------------- */

/* What an entry of the checkpoint is to a rank of a job. */
typedef enum plan_want {
    PLAN_LEAVES = 0, /* left out on request */
    PLAN_LACKS = 1,  /* not in its state */
    PLAN_HOLDS = 2,  /* in its state: all of it, or a part */
    PLAN_SHARES = 3  /* in its state, as what all ranks have alike */
} plan_want;
typedef struct plan_stance {
    plan_want want;
    int copies;              /* HOLDS: ranks that hold each element, as declared; at least 1 */
    uint64_t held, elements; /* HOLDS: in its boxes, of all; 1 of 1 where these cannot be told */
} plan_stance;

/* What is wrong with an entry that some rank lacks; where it is not listed other ranks want it. */
typedef enum plan_job_error {
    PLAN_NOBODY = 1,   /* no rank wants it */
    PLAN_NOT_ALL = 2,  /* some have it as what all ranks have alike */
    PLAN_NOT_WHOLE = 3 /* those that hold it do not want all of it */
} plan_job_error;
typedef struct plan_job_fault {
    uint64_t first, count; /* of the checkpoint's entries, by their places */
    plan_job_error error;
    const char *lacking, *holding; /* "rank 3", "ranks 0 to 2"; NOBODY: "" */
} plan_job_fault;
typedef struct plan_job_faults {
    plan_job_fault *items; /* ascending */
    size_t count, capacity;
    arena memory;
} plan_job_faults;
/* Copies the texts; joins what goes on from the last one. */
pawl_status plan_job_fault_add(plan_job_faults *faults, const plan_job_fault *fault,
                               pawl_error *err) PAWL_MUST_CHECK;
void plan_job_faults_free(plan_job_faults *faults);

/* Who restores. */
typedef struct plan_ranks {
    int rank, world_size, saved_world_size;
    /* The ranks match as one job: what a rank lacks is unexpected only where `faults` has it. NULL:
     * they have not compared yet, and nothing that is lacking is reported. */
    bool job;
    const plan_job_faults *faults;
} plan_ranks;

/* ---- match: match.c ------------------------------------------------------------------------- */

/* The checkpoint's entries, ascending by name; *out is NULL at the end and valid until the next. */
typedef struct entry_source {
    void *context;
    pawl_status (*next)(void *context, const record_entry **out, pawl_error *err);
} entry_source;

/* One entry of the state together with where its bytes are. */
typedef struct plan_pair {
    const state_entry *wanted;
    const record_entry *source;
    bool keep_caller; /* hyperparameter policy CALLER: matched, but not to be restored */
} plan_pair;

typedef struct plan_match {
    plan_pair *pairs; /* to restore */
    size_t pair_count;
    bool refused;         /* some difference is an error: nothing may be restored */
    plan_stance *stances; /* of a job: to each entry of the checkpoint, in its order */
    size_t stance_count;
    uint64_t lacking; /* of them */
    arena memory;     /* of the sources */
} plan_match;

/*
 * Matches everything against everything and adds every difference to `report`: R01 to R07, R10,
 * R13, J06, kinds. Counts kept and ignored. The caller turns `refused` into PAWL_EMISMATCH with
 * plan_match_error. PAWL_EUSAGE for options that cannot be, and for a state without entries.
 *
 * `options` may be NULL. A rename rule with an empty `from` puts `to`/ in front of every name, one
 * with an empty `to` takes `from`/ away. A changed batch signature that is allowed leaves the
 * state's. Of each kind of difference some thousands are kept as items; the rest is counted, and
 * said.
 */
pawl_status plan_match_make(const state_snapshot *wanted, entry_source checkpoint,
                            const pawl_restore_options *options, const plan_ranks *ranks,
                            pawl_report *report, plan_match **out, pawl_error *err) PAWL_MUST_CHECK;
void plan_match_free(plan_match *match); /* NULL is fine */
/* PAWL_EMISMATCH with the number of differences, the first few, and the next step. */
pawl_status plan_match_error(const pawl_report *report, pawl_error *err);

/* ---- reads of a restore: reads.c ------------------------------------------------------------ */

/* One stretch of a data file and where its elements go. */
typedef struct plan_read {
    uint32_t file;
    uint32_t box;           /* of the wanted tensor */
    uint64_t offset, bytes; /* in the file; whole elements */
    uint64_t gap;           /* for plan_reads_on */
    const plan_pair *pair;
    const record_piece *piece;
    /* Where the piece lies in memory byte for byte as in the file; NULL: element by element. */
    uint8_t *straight;
} plan_read;

typedef struct plan_reads {
    plan_read *reads; /* ascending by file, then offset */
    size_t count;
    uint64_t bytes;
} plan_reads;

/* Is what lies between two stretches read along, rather than beginning another read? Always where
 * no whole block lies between them; otherwise `gap` bytes at most. */
bool plan_reads_on(uint64_t end, uint64_t begin, uint64_t gap);
/* That gap, in front of a run of bytes of a tensor: 4 blocks for a small one; for one of more than
 * 1 MiB so little that at most 1.05 times the blocks that it needs are read. */
uint64_t plan_gap(uint64_t tensor_bytes, uint64_t run_bytes);

/* Stretches are cut where bytes in between are not worth reading, and after PLAN_READ_BYTES. The
 * pieces of the checkpoint are aligned, and cover the tensor, each element once (plan_cover).
 * PAWL_EDAMAGED naming the entry when the value of this rank is not there. Values are not read:
 * they are in the index, those per rank in the piece of the rank. Packed elements come in the boxes
 * they were saved in, else PAWL_EUNSUPPORTED. */
#define PLAN_READ_BYTES ((uint64_t)16 << 20)
pawl_status plan_reads_make(const plan_pair *pairs, size_t pair_count, int rank, plan_reads *out,
                            pawl_error *err) PAWL_MUST_CHECK;
void plan_reads_free(plan_reads *reads);
/* Places bytes [offset, offset+n) of the file (inside the read's stretch, whole elements) into the
 * wanted tensor's memory, casting when dtypes differ. Returns the overflows of the cast. Any
 * thread. */
uint64_t plan_read_place(const plan_read *read, uint64_t offset, const uint8_t *bytes, size_t n);

#endif
