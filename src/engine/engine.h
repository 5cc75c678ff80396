/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine: moves bytes between memory and data files. Writing: a layout's files through a pool of
 * buffers with a budget, copied and checksummed in one pass by one background thread, many writes
 * at a time, with copy on fence. Reading: stretches of data files, many at a time, verified block
 * by block before anything is placed.
 *
 * May include base, tensor, store, plan. Threads: an engine is used by one thread (the trainer's);
 * its background threads are its own. On a platform without threads engine_begin does everything
 * before it returns.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/base.h"
#include "plan/plan.h"
#include "store/store.h"

#include <stdatomic.h>

#define ENGINE_BUFFER_BYTES    (4u << 20) /* of a pool buffer; a multiple of FORMAT_BLOCK_BYTES */
#define ENGINE_IN_FLIGHT_BYTES (32u << 20)
#define ENGINE_MIN_BUDGET      (8u << 20) /* buffers are then smaller */

typedef struct engine engine;

typedef struct engine_options {
    const platform *platform;
    size_t budget_bytes;    /* of pool buffers in all; rounded down to whole buffers */
    size_t buffer_bytes;    /* [ENGINE_BUFFER_BYTES, or less for a small budget] */
    size_t part_bytes_min;  /* no buffer is smaller: engine_fit */
    size_t in_flight_bytes; /* of writes at a time [ENGINE_IN_FLIGHT_BYTES]; before a fence two
                               buffers more are in use */
    bool make_ready;        /* the whole budget gets its memory now, in the background */
    bool ready_first;       /* from the first large save on, before it is known what fences want */
    bool checking;          /* S01: compare what is copied with the memory at engine_begin */
    pawl_io io;
    thread_tuning tuning;
    uint64_t bandwidth_bytes_per_s; /* [no limit] */
    double hang_timeout_s;          /* [never] */
    const pawl_log *log;
} engine_options;

/* Makes the buffers as large as this storage wants parts to be. Before the first save. PAWL_EUSAGE:
 * the budget has no room for two. */
pawl_status engine_fit(engine *e, const store *s, pawl_error *err) PAWL_MUST_CHECK;
/* The most bytes that a file on this storage may have: as many parts as it takes; 0: any number. */
uint64_t engine_file_limit(const engine *e, const store *s);

/* What was written of one file: CRC32C of each FORMAT_BLOCK_BYTES (the last block may be short). */
typedef struct engine_file {
    const uint32_t *checksums;
    size_t block_count;
} engine_file;

/* A save, as the run hands it in. The callbacks are called in this order, each at most once, on the
 * engine's thread; `released` on the trainer's, inside engine_fence, when the fence copied last, or
 * on that of `hung` before it: there also while `prepare` runs. None is called when engine_begin
 * fails. */
typedef struct engine_job {
    const plan_layout *layout; /* borrowed until `done` */
    store *store;
    const char *directory; /* in the store; exists when `prepare` has returned */
    int64_t step;
    uint64_t called_ns;  /* when the user asked for the save: times are measured from there [now] */
    bool read_elsewhere; /* `released` waits for others that read the tensors, too */
    void *context;
    /* Called before the engine uses the storage. May be NULL. */
    pawl_status (*prepare)(void *context, pawl_error *err);
    /* Every byte has left the trainer's memory (also after a failure). */
    void (*released)(void *context);
    /* Bytes written so far: at most once a second, for saves that take longer. May be NULL. */
    void (*progress)(void *context, uint64_t written, uint64_t of);
    /* The save hangs and counts as failed (hang_timeout_s). `done` is still called, after `hung`
     * has returned, should the storage ever complete its requests. Not called after
     * engine_committed. On a thread of its own; must do no I/O on the storage. May be NULL. */
    void (*hung)(void *context, pawl_error *story);
    /* Every data file is written and synced: make the checkpoint exist. `files` has one item per
     * file of the layout. Not called after a failure or a cancel. Once it was called a cancel is
     * too late. */
    pawl_status (*commit)(void *context, const engine_file *files, pawl_error *err);
    /* The end: `status` is the outcome, and `err` its story. Removes leftovers of a
     * failure, frees. */
    void (*done)(void *context, pawl_status status, pawl_error *err);
} engine_job;

/* Seconds as in pawl_save_stats; `total_s` from `called_ns` on. */
typedef struct engine_stats {
    double total_s, prepare_s, write_s, sync_s, commit_s, tidy_s, fence_copy_s, fence_wait_s;
    uint64_t bytes; /* of data files */
    uint64_t written_bytes;
    uint64_t fence_copied_bytes;
    const char *io; /* store_queue_kind */
    size_t budget_bytes;
    uint64_t budget_wanted_bytes; /* for what was not yet written when the fence came */
} engine_stats;

pawl_status engine_new(const engine_options *options, engine **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Waits for the save in flight; on PAWL_ETIMEOUT the save is cancelled and its thread abandoned
 * with all it uses (store, layout, context): `done` is still called. The caller must not use the
 * engine afterwards, whatever is returned. */
pawl_status engine_free(engine *e, double timeout_s, pawl_error *err);
/* PAWL_EINTERNAL while a save is in flight: the run waits first. PAWL_EIO while one still hangs. */
pawl_status engine_begin(engine *e, const engine_job *job, pawl_error *err) PAWL_MUST_CHECK;
/* What engine_begin would say to a save now. */
pawl_status engine_ready(engine *e, pawl_error *err) PAWL_MUST_CHECK;
/* Is there a save whose outcome is not known yet? One that hangs has failed: its outcome is
 * known. */
bool engine_busy(engine *e);
/* From inside `prepare` or `commit`: tells the hang watchdog that a step of it has ended. */
void engine_made_progress(engine *e);
/* From inside `commit`: the checkpoint is durable, and `commit` will return PAWL_OK. What is still
 * to be done may hang: the save has succeeded all the same. */
void engine_committed(engine *e);
/* Copies what the save still reads of the trainer's memory, so that it may be changed. Here
 * and below a timeout of 0 or less means: do not wait. PAWL_ETIMEOUT names step, file and
 * bytes left. */
pawl_status engine_fence(engine *e, double timeout_s, pawl_error *err) PAWL_MUST_CHECK;
/* The same for the first `copied_files` of the layout: after engine_begin. PAWL_EIO: the save
 * hangs. PAWL_ECANCELED: `stop` (may be NULL) ended it. */
pawl_status engine_copy_first(engine *e, double timeout_s, interrupt *stop, pawl_error *err)
    PAWL_MUST_CHECK;
/* Does engine_fence have nothing to do? Neither copies nor waits. */
bool engine_fenced(engine *e);
/* Of each of these entries: has the save in flight read all that it needs of it? Neither copies nor
 * waits. */
void engine_fenced_entries(engine *e, const char *const *names, size_t count, uint8_t *fenced);
/* Waits for the end of the save in flight. `*outcome` and `story` tell how the save went; the
 * return value only whether the wait itself succeeded. Without a save in flight they are those of
 * the last one. `stop` (may be NULL) may end the wait: PAWL_ECANCELED. */
pawl_status engine_wait(engine *e, double timeout_s, interrupt *stop, pawl_status *outcome,
                        pawl_error *story, engine_stats *stats, pawl_error *err) PAWL_MUST_CHECK;
/* Asks the save in flight to stop at the next buffer; does not wait. False when it is too late: the
 * commit has begun, or there is no save. */
bool engine_cancel(engine *e);
/* Of the save in flight so far, or of the last one. Any thread, the job's callbacks included. */
void engine_stats_now(engine *e, engine_stats *out);
/* Bytes of the save in flight: written so far, and in all; for messages. */
void engine_written(engine *e, uint64_t *written, uint64_t *of);

/* Until engine_read_ended, which may be called by any thread, the save keeps the tensors' memory:
 * somebody else reads it, too. Also before engine_begin. */
void engine_reading(engine *e);
void engine_read_ended(engine *e);
/* Bytes [from, from+n) of the dense row-major form of a box in a provider's memory. */
typedef struct engine_wanted {
    const state_entry *entry;
    const state_box *box;
    uint64_t from;
    size_t n;
    uint8_t *to;
} engine_wanted;
/* Copies all of these. Waits until no copy has ended for hang_timeout_s: after PAWL_EIO a provider
 * may still read the tensors, and until it does not any more the save keeps them. Any thread but
 * the engine's own. */
pawl_status engine_copy_out(engine *e, const engine_wanted *wanted, size_t count, pawl_error *err)
    PAWL_MUST_CHECK;

/* Applies the CPU and I/O tuning of the options to the calling thread, which works for a save. */
void engine_tune(engine *e);

/* ---- reading: read.c ------------------------------------------------------------------------ */

/* A checkpoint's data files, as what describes it says. */
typedef struct engine_source {
    store *store;
    const char *directory; /* "": the root of the store */
    size_t file_count;
    void *context;
    const char *(*file_name)(void *context, uint32_t file);
    uint64_t (*file_bytes)(void *context, uint32_t file);
    /* Opens a file, on the thread that reads it. NULL: it is the store's, of that name. */
    pawl_status (*open)(void *context, uint32_t file, store_mode mode, store_file **out,
                        pawl_error *err);
    /* Stored checksums of blocks [first, first+n) of a file. Called before each read of a window,
     * so that the callback may also refresh a reader's mark. NULL: there are none, and what is read
     * is handed on unverified. */
    pawl_status (*checksums)(void *context, uint32_t file, uint64_t first, size_t n, uint32_t *out,
                             pawl_error *err);
    uint64_t *reads, *bytes; /* counters to advance */
    /* Read through the page cache: other processes of this machine want the same bytes, which are
     * then read from the storage once. */
    bool shared;
    /* Starts the threads that read; the callbacks and counters are then used under a lock. NULL:
     * only the caller's thread reads. */
    const platform *platform;
} engine_source;

typedef struct engine_reader engine_reader;
pawl_status engine_reader_new(const engine_source *source, engine_reader **out, pawl_error *err)
    PAWL_MUST_CHECK;
void engine_reader_free(engine_reader *r);
/*
 * Reads [offset, offset+n) of a file, verifying every block it touches, and hands verified
 * stretches (ascending, cut at block boundaries) to `take`. A window of at most ENGINE_BUFFER_BYTES
 * is kept, so ascending small reads cost one read of the file. Damage is PAWL_EDAMAGED with file,
 * range, stored and computed checksum; the caller adds the entry. A file that is missing, or of
 * another size than the manifest says, is PAWL_EDAMAGED too.
 */
typedef pawl_status (*engine_take)(void *context, uint64_t offset, const uint8_t *bytes, size_t n,
                                   pawl_error *err);
pawl_status engine_reader_read(engine_reader *r, uint32_t file, uint64_t offset, uint64_t n,
                               engine_take take, void *context, pawl_error *err) PAWL_MUST_CHECK;

/* ---- reading much: read_all.c --------------------------------------------------------------- */

typedef struct engine_stretch {
    uint32_t file;
    uint64_t offset, bytes; /* whole elements */
    uint64_t gap;           /* for plan_reads_on, with what comes before it */
    uint8_t *to;            /* where its bytes go as they are; NULL: to the job's `take` */
} engine_stretch;

/* Ascending by file, then offset; they may overlap. */
typedef struct engine_read_job {
    engine_source source;
    size_t count;
    size_t first; /* the order of the job: from this one to the last, then from 0 to before it */
    engine_stretch (*stretch)(void *context, size_t i); /* any thread */
    /* Verified bytes of stretch i, which has no `to`, cut at block boundaries: from any of several
     * threads, at the same time, each byte once. */
    void (*take)(void *context, size_t i, uint64_t offset, const uint8_t *bytes, size_t n);
    const atomic_bool *stop; /* true: read no further, which is no failure; may be NULL */
    interrupt *interrupted;  /* asked on the caller's thread, which then reads nothing itself if
                                there are others: PAWL_ECANCELED; may be NULL */
    /* Bytes read so far; on the caller's thread, as `interrupted`. May be NULL. */
    void (*progress)(void *context, uint64_t bytes);
    void *context;
} engine_read_job;

/*
 * Reads and verifies all stretches, by large reads of several threads at a time, neighbours joined.
 * The caller's thread works too. On a failure `*failed` is the first stretch, in the order of the
 * job, that could not be read, whatever the threads' order was; `err` as of engine_reader_read.
 * Stretches after it may have been taken, in part, too.
 */
pawl_status engine_read_all(const engine_read_job *job, size_t *failed, pawl_error *err)
    PAWL_MUST_CHECK;

/* Checks one whole file, many reads at a time, block by block; without checksums, that it has its
 * size and can be read. Calls `problem` for each damaged run
 * of blocks, in the order of the file, and goes on; calls `progress` with the bytes checked. Both
 * are called on the caller's thread and may be NULL; a failure of either ends the check. */
pawl_status engine_reader_verify(engine_reader *r, uint32_t file,
                                 pawl_status (*problem)(void *context, uint64_t offset,
                                                        uint64_t length, pawl_error *story),
                                 pawl_status (*progress)(void *context, uint64_t bytes,
                                                         pawl_error *err),
                                 void *context, pawl_error *err) PAWL_MUST_CHECK;

#endif
