/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run: a run's directory: commit, catalog, latest, retention, garbage, and reading checkpoints.
 * src/run/commit.c opens with the invariants that everything here relies on.
 *
 * May include everything below it. Threads: a pawl_run belongs to one thread; the commit runs on
 * the engine's thread, the owner's heartbeat on its own (presence/presence.h).
 * Ownership: a run owns the store it was opened with.
 */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include "base/base.h"
#include "engine/engine.h"
#include "format/event.h"
#include "format/manifest.h"
#include "group/group.h"
#include "match/match.h"
#include "plan/plan.h"
#include "presence/presence.h"
#include "state/state.h"
#include "store/store.h"

#include <pawl/checkpoint.h>
#include <pawl/event.h>
#include <pawl/restore.h>
#include <pawl/run.h>
#include <pawl/view.h>

/* ---- writing: run.c, save.c, commit.c, retention.c, garbage.c, remove.c --------------------- */

/* Where a run's directory is opened: rank 0 may create it; the others look whether they see the
 * same (P04 to P06). The store is the run's. */
typedef struct run_place {
    void *context;
    pawl_status (*open)(void *context, bool create, store **out, pawl_error *err);
    const char *given; /* the path as the caller wrote it, for messages; NULL: there is none */
} run_place;
/* As pawl_run_open. Collective where the options' group has many ranks. */
pawl_status run_open_at(const run_place *place, const pawl_run_options *options, const platform *os,
                        pawl_run **out, pawl_error *err) PAWL_MUST_CHECK;
/* The same on a store, which the run owns from then on, also when this fails. */
pawl_status run_open(store *s, const pawl_run_options *options, const platform *os, pawl_run **out,
                     pawl_error *err) PAWL_MUST_CHECK;
/* The process that opened it; so for checkpoints and events below. */
process_id run_process(const pawl_run *run);
/* PAWL_EUSAGE on a thread that is inside the run's event callback: it would wait for itself. */
pawl_status run_refuse_callback(const pawl_run *run, const char *call, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status run_close(pawl_run *run, double deadline_s, pawl_error *err);
/* Advances the owner's counter, as the heartbeat thread does; for platforms without threads. */
pawl_status run_heartbeat(pawl_run *run, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_save(pawl_run *run, pawl_state *state, int64_t step,
                     const pawl_save_options *options, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_save_final(pawl_run *run, pawl_state *state, int64_t step,
                           const pawl_save_options *options, double grace_s, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status run_fence(pawl_run *run, double deadline_s, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_wait(pawl_run *run, double deadline_s, pawl_save_stats *stats, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status run_cancel(pawl_run *run, double deadline_s, pawl_error *err) PAWL_MUST_CHECK;
/* As pawl_meet. */
pawl_status run_meet(pawl_run *run, double deadline_s, pawl_error *err) PAWL_MUST_CHECK;
int run_due(const pawl_run *run, int64_t step);
pawl_status run_pin(pawl_run *run, int64_t step, bool pinned, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_remove(pawl_run *run, int64_t step, bool force, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_gc(pawl_run *run, bool dry_run, pawl_gc_fn each, void *context, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status run_rebuild(pawl_run *run, int64_t step, bool force, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_restore(pawl_run *run, pawl_state *state, const pawl_restore_options *options,
                        pawl_report **report, pawl_error *err) PAWL_MUST_CHECK;

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

/* ---- reading: catalog.c, nothing.c, checkpoint.c, find.c, entries.c, slice.c, verify.c,
 * restore.c, rebuild.c --- */

/* These define the calls of pawl/checkpoint.h that cannot fail (pawl_catalog_free and the like);
 * the others are called as there, without the prefix, and need an error. */

/* `s` is borrowed. An empty catalog is no failure here. */
pawl_status catalog_open(store *s, const platform *os, const pawl_log *log, pawl_catalog **out,
                         pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_ENOTFOUND for a catalog without a checkpoint, saying what is there instead (R09);
 * PAWL_EDAMAGED when there are damaged ones. */
pawl_status catalog_explain_nothing(store *s, const pawl_catalog *catalog, pawl_error *err);
/* The same of what is there now; PAWL_OK where there is a checkpoint after all. */
pawl_status catalog_explain(store *s, const platform *os, pawl_error *err) PAWL_MUST_CHECK;

/* `s` is borrowed unless `own_store`: then it is the checkpoint's, also when this fails. Marks the
 * checkpoint as being read. */
pawl_status checkpoint_open(store *s, bool own_store, int64_t step, const platform *os,
                            const pawl_log *log, pawl_checkpoint **out, pawl_error *err)
    PAWL_MUST_CHECK;
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

/* ---- events: events.c, events_read.c -------------------------------------------------------- */

/* `s` is the reader's when `own_store`, also when this fails. pawl_events_close ends it. */
pawl_status events_open(store *s, bool own_store, pawl_events **out, pawl_error *err)
    PAWL_MUST_CHECK;
process_id events_process(const pawl_events *r);
pawl_status events_next(pawl_events *r, pawl_event *event, int *more, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
