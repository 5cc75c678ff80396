/* SPDX-License-Identifier: Apache-2.0 */
/* run/checkpoint: what the reading files of this folder share. Nobody else includes it. */
#ifndef RUN_CHECKPOINT_H
#define RUN_CHECKPOINT_H

#include "run/run.h"

#include "engine/view.h"

/* ---- step.c: one step's directory ----------------------------------------------------------- */

typedef struct step_listing {
    char **names; /* ascending */
    store_stat *stats;
    size_t count;
} step_listing;

/* Names and sizes of what is in a step's directory. */
pawl_status step_list(store *s, const char *directory, arena *memory, step_listing *out,
                      pawl_error *err) PAWL_MUST_CHECK;
/* Numbers of the names of steps in a run, ascending, whatever is in them, or is of that name. */
pawl_status step_numbers(store *s, arena *memory, int64_t **steps, size_t *count, pawl_error *err)
    PAWL_MUST_CHECK;
/* PAWL_EDAMAGED where the name of a step belongs to something else: a file, a link, a pipe. Nothing
 * of that kind is ever touched. */
pawl_status step_check_directory(store *s, const char *directory, pawl_error *err) PAWL_MUST_CHECK;
const char *step_stranger_text(store_type type); /* "a file" */
/* PAWL_EBUSY where something is mounted on a name of the run: what lies behind a mount is not the
 * run's to remove. The other asks it of a step and of every name in it. */
pawl_status step_check_mount(store *s, const char *path, pawl_error *err) PAWL_MUST_CHECK;
pawl_status step_check_mounts(store *s, const char *directory, pawl_error *err) PAWL_MUST_CHECK;
/* *present is false only where there is none for certain: to pass a step over because the storage
 * failed would be to restore an older one without a word. */
pawl_status step_has_manifest(store *s, const char *directory, bool *present, pawl_error *err)
    PAWL_MUST_CHECK;
/* The same, of the run's owner: that none is seen is proven (store/evidence.h). */
pawl_status step_prove_manifest(store *s, const char *directory, bool *present, pawl_error *err)
    PAWL_MUST_CHECK;
/* PAWL_ENOTFOUND: the step is not committed. PAWL_EDAMAGED, PAWL_EUNSUPPORTED: by path
 * and reason. `text` is what was read, also then. */
pawl_status step_read_manifest(store *s, int64_t step, buffer *text, manifest *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* What has become of a manifest since its text was read. While it is the same every file that it
 * names stays (I5); no two saves ever publish the same one. */
typedef enum step_manifest {
    STEP_MANIFEST_SAME,
    STEP_MANIFEST_OTHER, /* the step was saved again */
    STEP_MANIFEST_GONE,  /* the step was removed */
    STEP_MANIFEST_UNREAD /* it cannot be read */
} step_manifest;
step_manifest step_manifest_now(store *s, const char *directory, const buffer *was);
/* PAWL_EDAMAGED naming the first file of the manifest that is missing or has another size. */
pawl_status step_check_files(store *s, const char *directory, const manifest *m,
                             const step_listing *listing, pawl_error *err) PAWL_MUST_CHECK;
/* The error's `safe` and `next`: which other committed step there is, older ones first. */
void step_say_safe(store *s, int64_t step, pawl_error *err);

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
    unsigned losses; /* of the mark, after which the manifest was still the same */
    bool lost;       /* it was not */

    store_file *index_file;
    byte_source index_file_source; /* wrapped by one that counts */
    table *index;
    engine_reader *reader;
    engine_views *views; /* NULL until the first one is opened */

    /* The record of checksums used last. */
    table_cursor *checksums_at;
    bool checksums_loaded;
    uint32_t checksums_file;
    uint64_t checksums_record;
    size_t checksums_count;
    uint32_t checksums[FORMAT_BLOCKS_PER_RECORD];

    /* What pawl_checkpoint_find returned last. */
    table_cursor *find_at;
    arena found_memory;
};

/* As checkpoint_open, for whoever reads all the while: nothing advances the mark while it rests.
 * Without `mark`: someone else has marked it as being read. */
pawl_status checkpoint_open_by(store *s, int64_t step, const platform *os, const pawl_log *log,
                               bool mark, pawl_checkpoint **out, pawl_error *err) PAWL_MUST_CHECK;
/* The record of one entry. PAWL_ENOTFOUND with near misses. */
pawl_status checkpoint_entry(pawl_checkpoint *c, const char *name, arena *memory, record_entry *out,
                             pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_EDAMAGED, PAWL_ELIMIT (plan_cover): an entry whose record is right, of an index that belongs
 * to this manifest, cannot be restored. (entry_check.c) */
pawl_status entry_check(const manifest *m, const record_entry *entry, pawl_error *err)
    PAWL_MUST_CHECK;
/* Of all entries together: a state cannot have a slot without its variable. */
pawl_status entry_check_slot(const record_entry *entry, bool has_variable, pawl_error *err)
    PAWL_MUST_CHECK;
/* The entry at a cursor, fully checked. */
pawl_status checkpoint_decode(const pawl_checkpoint *c, const table_cursor *at, arena *memory,
                              record_entry *out, pawl_error *err) PAWL_MUST_CHECK;
/* Without a look at the rest of its record. */
pawl_status checkpoint_has_tensor(pawl_checkpoint *c, const char *name, bool *found,
                                  pawl_error *err) PAWL_MUST_CHECK;
void checkpoint_entry_info(const record_entry *entry, pawl_entry_info *info);
/* The name whose spelling is nearest, into `out`; false when none is near. */
bool checkpoint_near_miss(pawl_checkpoint *c, const char *name, char *out, size_t size);
/* Damage of the index: adds its path. */
pawl_status checkpoint_index_failed(const pawl_checkpoint *c, pawl_status status, pawl_error *err);
/* Asked before something is read: PAWL_EBUSY once the mark was gone for a while, and the step was
 * removed or saved again meanwhile. */
pawl_status checkpoint_held(pawl_checkpoint *c, pawl_error *err) PAWL_MUST_CHECK;
/* Is this file of an open checkpoint gone because the step was removed, or saved again? Only where
 * no mark could be made, or nobody believed in it any more. Then the error says so, PAWL_EBUSY. */
bool checkpoint_lost(const pawl_checkpoint *c, const char *file, pawl_error *err);
/* A failure while an entry's piece was read: adds the entry, its damaged bytes, and
 * what is safe. Returns the error's status. */
pawl_status checkpoint_piece_failed(pawl_checkpoint *c, const record_entry *entry,
                                    const record_piece *piece, pawl_error *err);

/* The first n bytes of a piece. */
pawl_status checkpoint_piece_bytes(pawl_checkpoint *c, const record_entry *entry,
                                   const record_piece *piece, void *to, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
const record_piece *record_piece_of_rank(const record_entry *entry, int rank); /* NULL: none */

/* ---- entries.c ------------------------------------------------------------------------------ */

/* Every entry, ascending; what it yields lives until the next. */
struct pawl_entries {
    pawl_checkpoint *checkpoint;
    table_cursor *at;
    char *prefix;
    bool begun;
    arena memory;
    record_entry entry;
};
/* *out is NULL after the last. */
pawl_status entries_next_record(pawl_entries *walk, const record_entry **out, pawl_error *err)
    PAWL_MUST_CHECK;
entry_source entries_source(pawl_entries *walk);

#endif
