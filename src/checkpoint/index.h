/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint/index: writes an index: the block checksums of the data files, then the entries
 * (docs/format.md).
 */
#ifndef CHECKPOINT_INDEX_H
#define CHECKPOINT_INDEX_H

#include "engine/engine.h"
#include "format/format.h"
#include "plan/plan.h"

/* ---- the entries of a layout: index.c ------------------------------------------------------- */

/* An entry_source over a layout, which is borrowed. */
typedef struct index_layout index_layout;
pawl_status index_layout_open(const plan_layout *layout, index_layout **out, pawl_error *err)
    PAWL_MUST_CHECK;
entry_source index_layout_source(index_layout *il); /* begins at the first entry again */
void index_layout_close(index_layout *il);

/* ---- an index: index.c ---------------------------------------------------------------------- */

/* Entries encoded before the checksums of the data are known. */
typedef struct index_part {
    table_part *part; /* free it with table_part_free, also after a failure */
    uint64_t count;
} index_part;
pawl_status index_part_make(entry_source entries, index_part *out, pawl_error *err) PAWL_MUST_CHECK;

typedef struct index_input {
    entry_source entries;    /* ascending by name */
    const index_part *ahead; /* the same entries, already encoded; or NULL */
    const engine_file *files;
    size_t file_count;
} index_input;
/* Adds the records of an index to a table. Records that follow must have greater keys (a vote). */
pawl_status index_write_records(const index_input *input, table_writer *w, uint64_t *entry_count,
                                pawl_error *err) PAWL_MUST_CHECK;

/* Writes a whole index: that of this process alone (index_writer_of), or of all ranks
 * (merge_write). */
typedef struct index_writer {
    void *context;
    pawl_status (*write)(void *context, byte_sink sink, table_summary *summary,
                         uint64_t *entry_count, pawl_error *err);
    bool large; /* to be written past the page cache */
} index_writer;
index_writer index_writer_of(const index_input *input); /* `input` is borrowed */

/* ---- entries encoded during the save: index_ahead.c ----------------------------------------- */

/* The entries of a layout's index. Where there are many, a thread begins to encode them now; few
 * are encoded when the index is written. The thread applies the CPU and I/O tuning of an engine,
 * which must outlive it, as must the layout. */
typedef struct index_ahead index_ahead;
pawl_status index_ahead_start(const plan_layout *layout, engine *tuned, const platform *os,
                              index_ahead **out, pawl_error *err) PAWL_MUST_CHECK;
/* Waits for the thread, then sets `entries` and `ahead` of an index. */
pawl_status index_ahead_wait(index_ahead *ahead, index_input *out, pawl_error *err) PAWL_MUST_CHECK;
void index_ahead_free(index_ahead *ahead); /* waits too; NULL is fine */

#endif
