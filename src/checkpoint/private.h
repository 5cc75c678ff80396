/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/private: what the files of this folder share. Nobody else includes it. */
#ifndef CHECKPOINT_PRIVATE_H
#define CHECKPOINT_PRIVATE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/step_directory.h"
#include "engine/engine.h"
#include "engine/view.h"
#include "presence/presence.h"

/* ---- the open checkpoint: checkpoint.c ------------------------------------------------------ */

struct pawl_checkpoint {
    process_id process; /* that opened it */
    store *store;
    bool own_store;
    const platform *platform;
    pawl_log log;
    int64_t step;
    char directory[32];
    char *path; /* absolute */
    buffer manifest_text;
    manifest manifest;
    buffer metrics; /* of the manifest, as JSON */
    pawl_read_stats reads;
    reader_mark *mark;
    unsigned losses; /* times the mark was lost and the manifest found unchanged afterwards */
    bool lost;       /* it had changed: the files may be gone */

    store_file *index_file;
    byte_source index_file_source; /* the table reads it through one that counts reads */
    table *index;
    engine_reader *reader;
    engine_views *views; /* NULL until the first one is opened */

    /* The record of checksums used last: checksums.c. */
    table_cursor *checksums_at;
    bool checksums_loaded;
    uint32_t checksums_file;
    uint64_t checksums_record;
    size_t checksums_count;
    uint32_t checksums[FORMAT_BLOCKS_PER_RECORD];

    /* What pawl_checkpoint_find returned last: find.c. */
    table_cursor *find_at;
    arena found_memory;
};

/* ---- find.c --------------------------------------------------------------------------------- */

/* The record of one entry. PAWL_ENOTFOUND suggests the nearest name. */
pawl_status checkpoint_entry(pawl_checkpoint *c, const char *name, arena *memory, record_entry *out,
                             pawl_error *err) PAWL_MUST_CHECK;
/* The entry at a cursor, decoded and checked (entry_check). */
pawl_status checkpoint_decode(const pawl_checkpoint *c, const table_cursor *at, arena *memory,
                              record_entry *out, pawl_error *err) PAWL_MUST_CHECK;
/* Is there a tensor of this name? Its record is not checked. */
pawl_status checkpoint_has_tensor(pawl_checkpoint *c, const char *name, bool *found,
                                  pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_EUSAGE: "only tensors `what`", and how to read the entry instead. (slice.c) */
pawl_status checkpoint_not_a_tensor(const pawl_checkpoint *c, const record_entry *entry,
                                    const char *what, pawl_error *err);
void checkpoint_entry_info(const record_entry *entry, pawl_entry_info *info);
/* ---- failures: checkpoint.c, slice.c -------------------------------------------------------- */

/* Adds the path and step of the index to an error. Returns `status`. */
pawl_status checkpoint_index_failed(const pawl_checkpoint *c, pawl_status status, pawl_error *err);
/* Call it before reading: PAWL_EBUSY when the mark was lost for a while (the process stood still)
 * and the step was removed or saved again meanwhile. */
pawl_status checkpoint_held(pawl_checkpoint *c, pawl_error *err) PAWL_MUST_CHECK;
/* Is this file gone because the step was removed, or saved again? That takes a mark that could not
 * be made, or was taken for stale. If so, *err says it, PAWL_EBUSY. */
bool checkpoint_lost(const pawl_checkpoint *c, const char *file, pawl_error *err);
/* Reading a piece failed: adds the entry, which of its bytes are damaged, and what is safe. Returns
 * the error's status. */
pawl_status checkpoint_piece_failed(pawl_checkpoint *c, const record_entry *entry,
                                    const record_piece *piece, pawl_error *err);

/* ---- pieces: slice.c ------------------------------------------------------------------------ */

/* Reads the first n bytes of a piece. */
pawl_status checkpoint_piece_bytes(pawl_checkpoint *c, const record_entry *entry,
                                   const record_piece *piece, void *to, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
const record_piece *record_piece_of_rank(const record_entry *entry, int rank); /* NULL: none */

/* ---- entries.c ------------------------------------------------------------------------------ */

/* Walks entries in the order of their names; what it returns lives until the next one. */
struct pawl_entries {
    pawl_checkpoint *checkpoint;
    table_cursor *at;
    char *prefix;
    bool begun;
    arena memory;
    record_entry entry;
};
/* *out is NULL after the last one. */
pawl_status entries_next_record(pawl_entries *walk, const record_entry **out, pawl_error *err)
    PAWL_MUST_CHECK;
entry_source entries_source(pawl_entries *walk);
void entries_free_pointer(pawl_entries **walk); /* for CLEANUP */

/* ---- checksums.c ---------------------------------------------------------------------------- */

/* The checkpoint's data files as the engine reads them, with their block checksums out of the
 * index. */
engine_source checksums_source(pawl_checkpoint *c);

#endif
