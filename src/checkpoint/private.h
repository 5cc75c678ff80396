/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/private: what the files of this folder share. Nobody else includes it. */
#ifndef CHECKPOINT_PRIVATE_H
#define CHECKPOINT_PRIVATE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/step_directory.h"
#include "engine/engine.h"
#include "engine/view.h"
#include "source/source.h"

typedef struct checkpoint_memory checkpoint_memory;

/* ---- the open checkpoint: checkpoint.c ------------------------------------------------------ */

struct pawl_checkpoint {
    process_id process; /* that opened it */
    struct source *source;
    const platform *platform;
    pawl_log log;
    engine_reader *reader;
    engine_views *views;       /* NULL until the first one is opened */
    checkpoint_memory *memory; /* NULL until the first tensor is handed out: as_memory.c */
    arena found_memory;        /* of what pawl_checkpoint_find returned last: find.c */
};

/* The files of a source as the engine reads them. */
engine_source source_files(struct source *s, const platform *os);

/* The same checkpoint once more, without a mark of its own, for another thread: it is closed before
 * this one is. PAWL_EBUSY, PAWL_EDAMAGED when its files are not those that were opened. */
pawl_status checkpoint_open_again(pawl_checkpoint *c, pawl_checkpoint **out, pawl_error *err)
    PAWL_MUST_CHECK;
void checkpoint_memory_free(checkpoint_memory *m); /* as_memory.c; NULL is fine */

/* ---- failures: checkpoint.c, slice.c -------------------------------------------------------- */

/* An entry could not be read, or is none: adds the file that describes it. Returns `status`. */
pawl_status checkpoint_entry_failed(const pawl_checkpoint *c, pawl_status status, pawl_error *err);
/* Call it before reading: PAWL_EBUSY when the files may no longer be those that were opened. */
pawl_status checkpoint_held(pawl_checkpoint *c, pawl_error *err) PAWL_MUST_CHECK;
/* Is this file gone because the checkpoint was removed, or saved again? If so, *err says it,
 * PAWL_EBUSY. */
bool checkpoint_lost(const pawl_checkpoint *c, const char *file, pawl_error *err);
/* Adds to an error what else is safe. */
void checkpoint_say_safe(const pawl_checkpoint *c, pawl_error *err);
/* The error's path becomes that of a file. */
void checkpoint_file_path(const pawl_checkpoint *c, uint32_t file, pawl_error *err);
/* Reading a piece failed: adds the entry, which of its bytes are damaged, and what is safe. Returns
 * the error's status. */
pawl_status checkpoint_piece_failed(pawl_checkpoint *c, const record_entry *entry,
                                    const record_piece *piece, pawl_error *err);

/* ---- find.c --------------------------------------------------------------------------------- */

/* The record of one entry. PAWL_ENOTFOUND suggests the nearest name. */
pawl_status checkpoint_entry(pawl_checkpoint *c, const char *name, arena *memory, record_entry *out,
                             pawl_error *err) PAWL_MUST_CHECK;
/* What to do next: list its entries. */
void checkpoint_say_how_to_list(const pawl_checkpoint *c, pawl_error *err);
/* The same of a tensor whose values can be read. PAWL_EUSAGE: "only tensors `what`", and how to
 * read the entry instead. PAWL_EUNSUPPORTED: its elements are of a type that is no dtype. */
pawl_status checkpoint_tensor_entry(pawl_checkpoint *c, const char *name, const char *what,
                                    arena *memory, record_entry *out, pawl_error *err)
    PAWL_MUST_CHECK;
void checkpoint_entry_info(const record_entry *entry, pawl_entry_info *info);

/* ---- entry_check.c -------------------------------------------------------------------------- */

/* entry_check of an entry as a source returned it; its record, too, unless the source is
 * `checked`. */
pawl_status entry_check_of(struct source *s, const record_entry *entry, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- a slice, and what of the files it is: slice.c ------------------------------------------ */

typedef struct slice_asked {
    const char *name;
    const int64_t *offset, *extent; /* both NULL: all of it */
    size_t to_bytes;                /* of the memory for it */
} slice_asked;
/* Decodes the entry into `memory`, and checks what is asked of it. */
pawl_status slice_find(pawl_checkpoint *c, const slice_asked *asked, arena *memory,
                       record_entry *entry, box *wanted, pawl_error *err) PAWL_MUST_CHECK;
/* Calls `part` with each piece that has some of the slice, and with what it has. */
typedef pawl_status (*slice_part)(void *context, const record_piece *piece, const box *shared,
                                  pawl_error *err);
pawl_status slice_parts(const record_entry *entry, const box *wanted, slice_part part,
                        void *context, pawl_error *err) PAWL_MUST_CHECK;
/* Calls `run` with the stretches of the piece's file that hold `shared`, ascending; they are joined
 * where reading what lies between is cheaper. */
typedef pawl_status (*slice_run)(void *context, engine_stretch stretch, pawl_error *err);
pawl_status slice_runs(const record_entry *entry, const record_piece *piece, const box *shared,
                       slice_run run, void *context, pawl_error *err) PAWL_MUST_CHECK;

/* ---- pieces: slice.c ------------------------------------------------------------------------ */

/* Reads bytes [from, from+n) of a piece. */
pawl_status checkpoint_piece_bytes(pawl_checkpoint *c, const record_entry *entry,
                                   const record_piece *piece, uint64_t from, void *to, size_t n,
                                   pawl_error *err) PAWL_MUST_CHECK;
const record_piece *record_piece_of_rank(const record_entry *entry, int rank); /* NULL: none */

/* ---- entries.c ------------------------------------------------------------------------------ */

/* Walks entries in the order of their names; what it returns lives until the next one. */
struct pawl_entries {
    pawl_checkpoint *checkpoint;
    source_walk *at; /* NULL until the first one is wanted */
    char *prefix;
    char *last; /* the name returned last; PAWL_MAX_NAME_BYTES + 1 */
};
/* *out is NULL after the last one. */
pawl_status entries_next_record(pawl_entries *walk, const record_entry **out, pawl_error *err)
    PAWL_MUST_CHECK;
entry_source entries_source(pawl_entries *walk);
void entries_free_pointer(pawl_entries **walk); /* for CLEANUP */

/* ---- supply.c ------------------------------------------------------------------------------- */

struct candidate;
struct restoration;
/* Asks the caller, once for each candidate, for memory for tensors that the state lacks. */
pawl_status restore_supply(struct candidate *a, pawl_error *err) PAWL_MUST_CHECK;
bool restore_was_supplied(const struct restoration *all, const char *name);

/* ---- verify.c ------------------------------------------------------------------------------- */

/* False for what ends a verification instead. */
bool verify_is_damage(pawl_status status);
/* Is the value of an entry not the one in its data file? Bytes that cannot be read do not differ:
 * they are reported when the file is verified. */
pawl_status verify_value_copy(engine_reader *reader, const record_entry *entry, bool *differs,
                              pawl_error *err) PAWL_MUST_CHECK;

#endif
