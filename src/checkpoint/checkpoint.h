/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint: reads committed steps: lists those of a run; opens one; finds, reads, views, verifies
 * and restores what is in it. A step is one kind of source (source/source.h); what is opened from
 * another kind is read by the same code. The index is also written here. Saving is done in src/run;
 * nothing here knows a run that is open for writing.
 *
 * Further headers for the folders above: step_directory.h (the files of a step), step_scan.h
 * (listing steps while others save and remove), restore.h (restoring from one of several steps),
 * index.h (writing an index), data_files.h (reading data files without an index). private.h and
 * native.h are for this folder alone.
 *
 * Threads: a checkpoint and whatever was opened from it is used by one thread at a time. Restoring,
 * and reading a large slice, start threads and join them before they return; a thread of its own
 * keeps the reader's mark fresh (presence/presence.h).
 * Ownership: a checkpoint borrows its store unless it is told to own it. Entries and views borrow
 * the checkpoint, and are freed before it.
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

/* Functions of <pawl/checkpoint.h>, <pawl/view.h> and <pawl/event.h> that cannot fail
 * (pawl_catalog_free and the like) are defined in this folder. Those that can are declared here,
 * without their prefix; `err` must not be NULL. What they fill has no struct_size yet. */

/* ---- the steps of a run: catalog.c, explain_missing.c --------------------------------------- */

/* `s` is borrowed. An empty catalog is no failure. */
pawl_status catalog_open(store *s, const platform *os, const pawl_log *log, pawl_catalog **out,
                         pawl_error *err) PAWL_MUST_CHECK;
/* The newest committed step, -1: none. Looks at no older one, and not at the files of unfinished
 * ones. */
pawl_status catalog_newest(store *s, const platform *os, int64_t *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Why a catalog has no committed step, and what is there instead (R09): PAWL_EDAMAGED where there
 * are damaged or unreadable ones, otherwise PAWL_ENOTFOUND. */
pawl_status catalog_explain_missing(store *s, const pawl_catalog *catalog, pawl_error *err);
/* The same after listing the steps again; PAWL_OK when there is a committed one by now. */
pawl_status checkpoint_explain_missing(store *s, const platform *os, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- an open checkpoint: checkpoint.c ------------------------------------------------------- */

#define CHECKPOINT_NEWEST ((int64_t)-1)

/* `s` is borrowed unless `own_store`: then it is the checkpoint's, also when this fails. Until it
 * is closed a reader's mark, kept fresh by a thread, protects the step from being removed. */
pawl_status checkpoint_open(store *s, bool own_store, int64_t step, const platform *os,
                            const pawl_log *log, pawl_checkpoint **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* The same for use within one call: `s` is borrowed, and no thread keeps the mark fresh, which is
 * touched by every read. Without `mark` none is made: another process has marked the step. */
pawl_status checkpoint_open_for_call(store *s, int64_t step, const platform *os,
                                     const pawl_log *log, bool mark, pawl_checkpoint **out,
                                     pawl_error *err) PAWL_MUST_CHECK;
struct source; /* source/source.h */
/* Opens what a source has; `s` is the checkpoint's, also when this fails. */
pawl_status checkpoint_open_source(struct source *s, const platform *os, const pawl_log *log,
                                   pawl_checkpoint **out, pawl_error *err) PAWL_MUST_CHECK;
/* The process that opened it. Closing it in another one (after fork) does nothing: the mark is not
 * that one's. */
process_id checkpoint_process(const pawl_checkpoint *c);
/* For whoever reads it together with others: what it stands on, borrowed, and what it is called:
 * "step 200", "model.safetensors". */
store *checkpoint_store(const pawl_checkpoint *c);
int64_t checkpoint_step(const pawl_checkpoint *c); /* negative: of no run */
const pawl_log *checkpoint_log(const pawl_checkpoint *c);
const char *checkpoint_label(const pawl_checkpoint *c);
/* What nothing in it can show; NULL: all has checksums. */
const char *checkpoint_unverified(const pawl_checkpoint *c);
struct source *checkpoint_source(pawl_checkpoint *c);
process_id entries_process(const pawl_entries *walk);
process_id view_process(const pawl_view *v);
/* Text lives as long as the checkpoint. */
void checkpoint_describe(const pawl_checkpoint *c, pawl_checkpoint_info *info);
pawl_read_stats checkpoint_reads(const pawl_checkpoint *c);

#define CHECKPOINT_IDENTITY_CHARS 128
/* A text by which ranks tell it from any other checkpoint: "step 200 (attempt 7f3a9c21e04b,
 * manifest 5b3e01a2)". Reads samples of what has no manifest. */
pawl_status checkpoint_identity(pawl_checkpoint *c, char out[CHECKPOINT_IDENTITY_CHARS],
                                pawl_error *err) PAWL_MUST_CHECK;

/* ---- what is in it: find.c, entries.c, slice.c, read_many.c, ... ----------------- */

pawl_status checkpoint_find(pawl_checkpoint *c, const char *name, pawl_entry_info *info,
                            pawl_error *err) PAWL_MUST_CHECK;
pawl_status entries_open(pawl_checkpoint *c, const char *prefix, pawl_entries **out,
                         pawl_error *err) PAWL_MUST_CHECK;
pawl_status entries_next(pawl_entries *walk, pawl_entry_info *info, int *more, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status checkpoint_read(pawl_checkpoint *c, const char *name, const int64_t *offset,
                            const int64_t *extent, void *to, size_t to_bytes, pawl_error *err)
    PAWL_MUST_CHECK;
/* What a caller has named: entries, or what is above some of them. */
typedef struct given_names {
    const char *what;         /* by which argument: "only" */
    const char *const *names; /* or NULL, and */
    const pawl_rename *rules; /* `from` of rename rules; those that swap characters fit all */
    size_t count;
} given_names;
/* PAWL_EUSAGE: one of them fits no entry, or rules before it fit all that it fits. */
pawl_status checkpoint_check_given(pawl_checkpoint *c, const given_names *given, pawl_error *err)
    PAWL_MUST_CHECK;
/* A caller's array of pawl_slice, with `size` bytes from one to the next. */
typedef struct slice_array {
    void *first;
    size_t size, count;
} slice_array;
pawl_slice *slice_array_at(const slice_array *array, size_t i);
/* No slice was read so far: PAWL_ECANCELED. */
void slice_array_cancel(const slice_array *array);
pawl_status checkpoint_read_many(pawl_checkpoint *c, const slice_array *slices, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status checkpoint_read_rank(pawl_checkpoint *c, const char *name, int rank, void *to,
                                 size_t capacity, size_t *size, pawl_error *err) PAWL_MUST_CHECK;
/* *out borrows the checkpoint, until it is closed; `struct_size` of it stays as it is. */
pawl_status checkpoint_tensor(pawl_checkpoint *c, const char *name, pawl_tensor *out,
                              pawl_error *err) PAWL_MUST_CHECK;
pawl_status checkpoint_view_open(pawl_checkpoint *c, const char *name, uint64_t piece,
                                 pawl_view **out, pawl_error *err) PAWL_MUST_CHECK;
pawl_view_info checkpoint_view_describe(const pawl_view *v);
pawl_status checkpoint_view_bytes(pawl_view *v, uint64_t offset, uint64_t n, const void **bytes,
                                  pawl_error *err) PAWL_MUST_CHECK;
/* `report` may be NULL; otherwise *report is set on success and with PAWL_EMISMATCH, else NULL. */
pawl_status checkpoint_restore(pawl_checkpoint *c, pawl_state *state,
                               const pawl_restore_options *options, int rank, int world_size,
                               pawl_report **report, pawl_error *err) PAWL_MUST_CHECK;
/* What a restore of this state would report, and as what it would fail: reads no tensor, and writes
 * to none, so that those of the state need no memory. */
pawl_status checkpoint_match(pawl_checkpoint *c, pawl_state *state,
                             const pawl_restore_options *options, int rank, int world_size,
                             pawl_report **report, pawl_error *err) PAWL_MUST_CHECK;
pawl_status checkpoint_verify(pawl_checkpoint *c, const pawl_verify_options *options,
                              pawl_verify_result *result, pawl_error *err) PAWL_MUST_CHECK;

/* ---- is an entry usable: entry_check.c ------------------------------------------------------ */

/* Can this entry, whose record is valid, be restored from the files of this manifest? Otherwise
 * PAWL_EDAMAGED, or PAWL_ELIMIT (plan_cover). */
pawl_status entry_check(const manifest *m, const record_entry *entry, pawl_error *err)
    PAWL_MUST_CHECK;
/* PAWL_EDAMAGED for a slot whose variable is not in the checkpoint. */
pawl_status entry_check_slot(const record_entry *entry, bool has_variable, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
