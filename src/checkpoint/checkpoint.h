/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint: one committed step, read: which steps a run has, opening one, reading, viewing,
 * verifying and restoring what is in it; and the index, which is written here, too. What a save
 * is, and when it exists, is src/run's matter; nothing here knows an open run.
 *
 * Other headers of this folder for the folders above: step_directory.h (the files of a step),
 * step_scan.h (which steps there are, while others save and remove), index.h (writing an index),
 * restore.h (a restore that may try several steps), data_files.h (what data files say of
 * themselves). private.h is for this folder alone.
 *
 * Threads: a checkpoint, and what was opened from it, belongs to one thread. A restore, and reading
 * a large slice, start threads of their own and join them; a mark of the reader is kept fresh by
 * another (presence/presence.h).
 * Ownership: a checkpoint borrows its store, or owns it where it was told so. Whatever was opened
 * from a checkpoint (entries, views) borrows the checkpoint, and ends before it.
 */
#ifndef CHECKPOINT_CHECKPOINT_H
#define CHECKPOINT_CHECKPOINT_H

#include "base/base.h"
#include "format/manifest.h"
#include "plan/plan.h"
#include "state/state.h"
#include "store/store.h"

#include <pawl/checkpoint.h>
#include <pawl/event.h>
#include <pawl/restore.h>
#include <pawl/view.h>

/* These define the calls of pawl/checkpoint.h that cannot fail (pawl_catalog_free and the like);
 * the others are called as there, without the prefix, and need an error. */

/* `s` is borrowed. An empty catalog is no failure here. */
pawl_status catalog_open(store *s, const platform *os, const pawl_log *log, pawl_catalog **out,
                         pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_ENOTFOUND for a catalog without a checkpoint, saying what is there instead (R09);
 * PAWL_EDAMAGED when there are damaged ones. */
pawl_status catalog_explain_missing(store *s, const pawl_catalog *catalog, pawl_error *err);
/* The same of what is there now; PAWL_OK where there is a checkpoint after all. */
pawl_status checkpoint_explain_missing(store *s, const platform *os, pawl_error *err)
    PAWL_MUST_CHECK;

/* `s` is borrowed unless `own_store`: then it is the checkpoint's, also when this fails. Marks the
 * checkpoint as being read. */
pawl_status checkpoint_open(store *s, bool own_store, int64_t step, const platform *os,
                            const pawl_log *log, pawl_checkpoint **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* As checkpoint_open, for whoever reads all the while: nothing advances the mark while it rests.
 * Without `mark`: someone else has marked it as being read. */
pawl_status checkpoint_open_for_call(store *s, int64_t step, const platform *os,
                                     const pawl_log *log, bool mark, pawl_checkpoint **out,
                                     pawl_error *err) PAWL_MUST_CHECK;
/* Closing what another process opened does nothing: the mark is that process's. */
process_id checkpoint_process(const pawl_checkpoint *c);
process_id entries_process(const pawl_entries *walk);
process_id view_process(const pawl_view *v);
pawl_status checkpoint_find(pawl_checkpoint *c, const char *name, pawl_entry_info *info,
                            pawl_error *err) PAWL_MUST_CHECK;
pawl_status entries_open(pawl_checkpoint *c, const char *prefix, pawl_entries **out,
                         pawl_error *err) PAWL_MUST_CHECK;
pawl_status entries_next(pawl_entries *walk, pawl_entry_info *info, int *more, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status checkpoint_read(pawl_checkpoint *c, const char *name, const int64_t *offset,
                            const int64_t *extent, void *to, size_t to_bytes, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status checkpoint_read_rank(pawl_checkpoint *c, const char *name, int rank, void *to,
                                 size_t capacity, size_t *size, pawl_error *err) PAWL_MUST_CHECK;
pawl_status checkpoint_view_open(pawl_checkpoint *c, const char *name, uint64_t piece,
                                 pawl_view **out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status checkpoint_view_bytes(pawl_view *v, uint64_t offset, uint64_t n, const void **bytes,
                                  pawl_error *err) PAWL_MUST_CHECK;
/* `report` may be NULL; otherwise it is set whenever the match was made. */
pawl_status checkpoint_restore(pawl_checkpoint *c, pawl_state *state,
                               const pawl_restore_options *options, int rank, int world_size,
                               pawl_report **report, pawl_error *err) PAWL_MUST_CHECK;
pawl_status checkpoint_verify(pawl_checkpoint *c, const pawl_verify_options *options,
                              pawl_verify_result *result, pawl_error *err) PAWL_MUST_CHECK;

/* ---- what an entry must fulfil: entry_check.c ------------------------------------------------ */

/* PAWL_EDAMAGED, PAWL_ELIMIT (plan_cover): an entry whose record is right, of an index that belongs
 * to this manifest, cannot be restored. */
pawl_status entry_check(const manifest *m, const record_entry *entry, pawl_error *err)
    PAWL_MUST_CHECK;
/* Of all entries together: a state cannot have a slot without its variable. */
pawl_status entry_check_slot(const record_entry *entry, bool has_variable, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- events: events_read.c -------------------------------------------------------- */

/* `s` is the reader's when `own_store`, also when this fails. pawl_events_close ends it. */
pawl_status events_open(store *s, bool own_store, pawl_events **out, pawl_error *err)
    PAWL_MUST_CHECK;
process_id events_process(const pawl_events *r);
pawl_status events_next(pawl_events *r, pawl_event *event, int *more, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
