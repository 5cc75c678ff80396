/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/index: writes the index of a checkpoint. */
#ifndef CHECKPOINT_INDEX_H
#define CHECKPOINT_INDEX_H

#include "engine/engine.h"
#include "format/format.h"
#include "plan/plan.h"

/* ---- the index of a checkpoint: index.c ----------------------------------------------------- */

/* The entries of an index encoded ahead: they do not depend on the checksums of the data. */
typedef struct index_part {
    table_part *part; /* free it with table_part_free, also after a failure */
    uint64_t count;
} index_part;
pawl_status index_part_make(entry_source entries, index_part *out, pawl_error *err) PAWL_MUST_CHECK;

/* Entries ascending by name, checksums per file: writes the table. */
typedef struct index_input {
    entry_source entries;
    const index_part *ahead; /* the entries, where they are encoded already; or NULL */
    const engine_file *files;
    size_t file_count;
} index_input;
pawl_status index_write(const index_input *input, byte_sink sink, table_summary *summary,
                        uint64_t *entry_count, pawl_error *err) PAWL_MUST_CHECK;
/* The same records into a table that has others too, with greater keys: a vote. */
pawl_status index_write_records(const index_input *input, table_writer *w, uint64_t *entry_count,
                                pawl_error *err) PAWL_MUST_CHECK;
/* The entries of a layout as an entry_source: index_layout_open .. close. */
typedef struct index_layout index_layout;
pawl_status index_layout_open(const plan_layout *layout, index_layout **out, pawl_error *err)
    PAWL_MUST_CHECK;
entry_source index_layout_source(index_layout *il);
void index_layout_close(index_layout *il);

/* Writes an index: that of this process alone (index_write), or of all ranks (merge_write). */
typedef struct index_writer {
    void *context;
    pawl_status (*write)(void *context, byte_sink sink, table_summary *summary,
                         uint64_t *entry_count, pawl_error *err);
    bool large; /* past the page cache */
} index_writer;
/* `input` is borrowed. */
index_writer index_writer_of(const index_input *input);

/* ---- index_ahead.c -------------------------------------------------------------------------- */

/* The entries of a layout's index. Many are encoded from here on, on a thread of its own that is
 * tuned as the engine's; few not before the index is written. The layout must outlive it. */
typedef struct index_ahead index_ahead;
pawl_status index_ahead_start(const plan_layout *layout, engine *moving, const platform *os,
                              index_ahead **out, pawl_error *err) PAWL_MUST_CHECK;
/* Sets the entries of an index. */
pawl_status index_ahead_wait(index_ahead *ahead, index_input *out, pawl_error *err) PAWL_MUST_CHECK;
void index_ahead_free(index_ahead *ahead); /* waits too; NULL is fine */

#endif
