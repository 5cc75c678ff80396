/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/save: the parts of a save in flight, private to the engine.
 *
 * A layout's files are cut into chunks of buffer_bytes, in file order. The engine's thread claims
 * the next chunk and copies it into a buffer, and so does the trainer's thread inside engine_fence.
 * A filled buffer is ready; the engine's thread alone submits buffers to the store's queue, takes
 * them back when their writes have completed, and syncs and closes a file when all of it is
 * written.
 *
 * Of tensors in a provider's memory a chunk is not filled at once: its copies are handed to the
 * mover, and it is filled when they have ended (fill.c). The trainer's thread and the engine's
 * never call a provider, but to allocate buffers.
 *
 * The first chunk of a file is kept back until all others of that file are filled: the file's
 * header is in it, and holds a sum of the whole file, which is known only then.
 */
#ifndef ENGINE_SAVE_H
#define ENGINE_SAVE_H

#include "engine/engine.h"
#include "engine/mover.h"
#include "store/queue.h"

#include <stdatomic.h>

#define ENGINE_OPEN_FILES 8 /* being written at a time */

typedef struct engine_buffer {
    store_io io;
    struct engine_buffer *next;  /* among the ready, or among the free ones */
    struct engine_buffer *older; /* links all buffers of an engine */
    uint8_t *memory;
    size_t capacity;
    bool in_slab;
    bool has_pages; /* the system has given all of its memory */
    bool readying;  /* is being made ready: neither free nor used */
    size_t file;
    uint64_t at; /* in that file */
    size_t bytes;
    bool filling; /* is claimed, and not filled yet */
    bool under_way;
    /* Copies out of providers' memory that fill it. */
    engine *engine;
    plan_copies copies;
    mover_batch batch;
    size_t unfinished; /* jobs, and one for whoever submits them */
    bool failed;       /* one of them has failed */
} engine_buffer;

typedef struct engine_buffers {
    engine_buffer *first, **end; /* `end`: the link behind the last */
} engine_buffers;

/* What is still to be done for one file of the layout. */
typedef struct engine_part {
    engine_buffer *head; /* its first chunk, filled and kept back */
    uint64_t unfilled;   /* chunks, without the first */
    uint64_t unwritten;  /* chunks */
    uint32_t edge_crc;   /* for data_sum */
} engine_part;

/* A file that is open for writing. */
typedef struct engine_output {
    store_file *file; /* NULL: none */
    size_t index;     /* in the layout */
    store_io sync;
} engine_output;

typedef struct engine_checks engine_checks;

/* What the engine's thread is doing that may hang. */
typedef enum engine_doing {
    ENGINE_WRITING, /* data files, through the queue: that hangs when requests do not complete */
    ENGINE_PREPARING,
    ENGINE_OPENING,
    ENGINE_TELLING, /* in the callback `progress` */
    ENGINE_COMMITTING,
    ENGINE_TIDYING, /* in `commit` after engine_committed: the checkpoint is durable already */
    ENGINE_ENDING   /* in the callback `done`: removing the leftovers of a failed save */
} engine_doing;

/* Of the watching thread: time with a request outstanding and no completion. */
typedef struct engine_quiet {
    uint64_t looked_ns;
    uint64_t progress_ns; /* engine.progress_ns at that time */
    uint64_t ns;
} engine_quiet;

struct engine {
    engine_options options;
    pawl_log log;
    int *cpus; /* options.tuning.cpus */
    size_t buffer_bytes;
    size_t buffer_limit; /* buffers that the budget allows */
    size_t stream_limit; /* buffers in use before a fence */
    size_t write_limit;  /* writes under way at a time */
    monitor monitor;

    platform_thread *thread, *ahead; /* used by the trainer's thread alone */
    uint64_t allowed_ns;             /* bandwidth: no write begins before */

    /* Constant while a save is in flight. */
    engine_job job;
    uint64_t total; /* bytes of all files */
    /* A copy: the job's own may be freed in `done`, while a wait or a fence still needs it. */
    char directory[STORE_MAX_PATH];
    uint64_t chunks; /* of all files */
    uint32_t *checksums;
    engine_file *files;
    engine_checks *checks; /* NULL unless checking */
    bool small;            /* it fits into one buffer: no queue with threads, no slab */

    /* Of the engine's thread. */
    bool draining; /* after a failure: nothing further begins */
    atomic_bool tuning_told;
    atomic_bool ahead_ends; /* asked of the thread `ahead` */
    engine_output outputs[ENGINE_OPEN_FILES];
    store_queue *line_queue; /* for small saves: writes on the engine's own thread */
    uint64_t told_ns;
    size_t unsynced; /* files */

    /* Guarded by `monitor`, down to progress_ns. */
    store_queue *queue; /* made by the engine's thread when first needed */
    uint8_t *slab;      /* of the first buffers; the queue may have registered it */
    size_t slab_buffers;
    engine_part *parts;
    bool active;    /* from engine_begin to after `done` */
    bool cancelled; /* stop before the next write */
    bool stopped;   /* nothing more is claimed */
    bool committing;
    bool committed; /* the checkpoint is durable, whatever fails afterwards */
    bool abandoned; /* the engine's thread frees the engine at its end */
    bool release_begun, released;
    bool fenced;        /* a fence came: the whole budget may be used */
    bool fencing;       /* a fence waits */
    bool hung;          /* the save hangs and counts as failed: watch.c */
    bool telling;       /* `hung` is being called */
    bool unwatched;     /* `hung` is not called any more */
    bool left_watching; /* the watching thread was abandoned: the engine is freed after its end */
    bool provided;      /* the save has tensors in providers' memory */
    bool memory_hangs;  /* `hung` because of a provider, called that: */
    char hanging[PAWL_MAX_MEMORY_NAME_BYTES + 1];
    engine_doing doing;
    engine_quiet quiet, copy_quiet;
    size_t next_file; /* the next chunk to claim */
    uint64_t next_at;
    size_t filling;          /* chunks being copied out of the trainer's memory now */
    uint64_t unfilled_first; /* chunks of the layout's copied_files that are not filled */
    mover *mover;            /* NULL until there are such tensors */
    size_t copying;          /* `filling`, if provided */
    size_t readers;          /* engine_reading: others that read the trainer's memory */
    pawl_status copy_status;
    struct pawl_error copy_story; /* the first failure of a copy */
    uint64_t copy_progress_ns;    /* when a copy began or ended last */
    /* Where buffers come from; NULL: mem_pages. Changed between saves only. */
    const pawl_memory *allocator;
    engine_buffers ready;
    /* Free ones in the slab, free ones outside it, and all. */
    engine_buffer *free_streaming, *free_staging, *newest;
    size_t buffer_count, buffers_used, readying;
    size_t wanted_buffers; /* the most that a fence has wanted, within the budget */
    bool wants_known;      /* it has been seen what a large save's fence wants, if one came */
    bool ahead_runs;       /* the thread of ahead.c has work */
    size_t under_way;      /* writes and syncs that have not come back */
    size_t writes_under_way;
    uint64_t written, chunks_written;
    char file_name[80]; /* the file opened last */

    /* When each part of the save began; 0: not yet. */
    uint64_t called_ns, begun_ns, first_write_ns, written_ns, commit_begun_ns;
    uint64_t ended_ns;  /* its outcome was known */
    uint64_t tidied_ns; /* the cleanup after it was done */
    uint64_t fence_copy_ns, fence_wait_ns;
    pawl_status outcome; /* of the last save, like the next two */
    struct pawl_error story;
    engine_stats stats;

    uint64_t progress_ns; /* time of the last completion, or of the first request after idle */
    /* Guards what follows. Never entered while `monitor` is held. */
    monitor alarm;
    platform_thread *watcher; /* used by the trainer's thread alone */
    uint64_t watched;         /* number of saves begun */
    bool watch_ends;
};

/* ---- buffers.c ------------------------------------------------------------------------------ */

/* 4 MiB; less for a small budget, few bytes in flight, or little bandwidth. */
size_t engine_buffer_size(const engine_options *options, size_t budget_bytes);
/* Monitor held: room for `bytes`; NULL: the limit is reached, or there is no memory. */
engine_buffer *engine_buffer_take(engine *e, size_t bytes);
/* Monitor held: it may be used again. */
void engine_buffer_return(engine *e, engine_buffer *b);
/* Monitor held, all but two of them. A buffer to be made ready, a new one if there are fewer than
 * `most`; NULL: none. Nobody else uses it until engine_buffer_made. */
engine_buffer *engine_buffer_unready(engine *e, size_t most);
bool engine_buffer_give_memory(engine *e, engine_buffer *b); /* without the monitor */
/* From now on it is free; without memory it is forgotten. */
void engine_buffer_made(engine *e, engine_buffer *b);
/* A free one that is not in the slab, if there are more than enough: the caller's, to be freed. */
engine_buffer *engine_buffer_surplus(engine *e, size_t enough);
void engine_buffer_free(const engine *e, engine_buffer *b); /* without the monitor */
/* Nothing is filling or under way: all are free. */
void engine_buffers_reset(engine *e);
void engine_buffers_free(engine *e);
/* Between saves: from now on buffers are taken from that provider (NULL: ordinary memory). */
void engine_buffers_from(engine *e, const pawl_memory *allocator);
/* PAWL_ENOMEM: there is not one buffer of so many bytes. */
pawl_status engine_no_memory(const engine *e, size_t bytes, pawl_error *err);
pawl_status engine_slab_make(engine *e, pawl_error *err) PAWL_MUST_CHECK;

/* ---- ahead.c: memory for the next fence ----------------------------------------------------- */

/* Trainer's thread: buffers that a fence may want are made ready by a thread, if there are too few.
 * Without that thread the fence allocates them itself. */
void engine_ahead_begin(engine *e);
void engine_ahead_body(void *argument);
/* Trainer's thread: ends that thread, at the latest when it has touched one page more. */
void engine_ahead_end(engine *e);

/* ---- fill.c: chunks, release ---------------------------------------------------------------- */

/* Monitor held. False when every chunk is claimed. */
bool engine_chunk_left(engine *e);
/* Monitor held. Claims a chunk, lets go of the monitor while copying it, and tells what is
 * released. False when there is nothing to claim or no buffer. */
bool engine_fill_one(engine *e);
/* Monitor held. Tells what is released, if all is read. Not to be called by the mover's thread. */
void engine_release_if_read(engine *e);
/* Monitor held. Nothing is claimed any more; returns once the trainer's memory is let go. */
void engine_release(engine *e);
/* Monitor held: wakes everyone who waits, the engine's thread too. */
void engine_announce(engine *e);

/* ---- output.c: files being written ---------------------------------------------------------- */

/* The queue of this save. Engine's thread, like all of these. */
store_queue *engine_queue(engine *e);
pawl_status engine_queue_open(engine *e, pawl_error *err) PAWL_MUST_CHECK;
/* Can that file be written to now, or opened? */
bool engine_output_free(const engine *e, size_t file);
/* Creates it unless it is open. */
pawl_status engine_output_open(engine *e, size_t file, pawl_error *err) PAWL_MUST_CHECK;
engine_output *engine_output_of(engine *e, size_t file);
/* Submits its sync to the queue; all of its writes have completed. */
void engine_output_sync(engine *e, size_t file);
void engine_output_close(engine *e, engine_output *o);
void engine_outputs_close(engine *e);

/* ---- write.c: the engine's thread moves the data files -------------------------------------- */

/* Writes and syncs all files. Afterwards nothing is under way and no file is open, on a failure
 * too. */
pawl_status engine_write_files(engine *e, pawl_error *err) PAWL_MUST_CHECK;
/* Monitor held: PAWL_OK, or why the save must stop. */
pawl_status engine_stop_reason(const engine *e, pawl_error *err) PAWL_MUST_CHECK;

/* ---- body.c: the engine's thread, from its first step to its last --------------------------- */

void engine_body(void *argument);

/* ---- watch.c: a save that hangs (S08) ------------------------------------------------------- */

/* Trainer's thread, after a save began: starts the watching thread, or wakes it. */
pawl_status engine_watch(engine *e, pawl_error *err) PAWL_MUST_CHECK;
/* Ends that thread, or abandons it where it is inside the callback `hung`. */
void engine_watch_end(engine *e);
/* Monitor held: a request was submitted or completed, so the save does not hang. */
void engine_mark_progress(engine *e);
/* Monitor held: the same, and what the engine's thread is doing from now on. */
void engine_set_doing(engine *e, engine_doing what);
/* The same; enters the monitor itself. */
void engine_now_doing(engine *e, engine_doing what);
/* Monitor held: are there copies out of providers' memory that have not ended? */
bool engine_copies_outstanding(const engine *e);
/* Monitor held: a copy has begun or ended, so its provider does not hang. */
void engine_mark_copy(engine *e);
/* Monitor held: what hangs, and for how long. Returns PAWL_EIO. */
pawl_status engine_hang_story(const engine *e, pawl_error *err);

/* ---- engine.c ------------------------------------------------------------------------------- */

uint64_t engine_now(const engine *e);
/* The instant that many seconds from now; very many are about a century. */
uint64_t engine_deadline(const engine *e, double seconds);
double engine_seconds(uint64_t ns);
uint64_t engine_ns(double seconds);
/* Monitor held: PAWL_ETIMEOUT naming what is being written, and how much of it is. */
pawl_status engine_timeout(engine *e, double waited_s, const char *what, pawl_error *err);
/* Monitor held, both; `stop` may be NULL. False: the deadline has passed. Asks `stop` without the
 * monitor. */
bool engine_wait_a_while(engine *e, uint64_t deadline_ns, const interrupt *stop);
bool engine_interrupted(engine *e, interrupt *stop);
/* PAWL_ECANCELED. */
pawl_status engine_interrupted_while(const engine *e, const char *what, pawl_error *err);
/* Monitor held: brings the statistics of the save in flight up to now. */
void engine_stats_update(engine *e);
void engine_destroy(engine *e);

/* ---- copies.c: reading providers' memory ----------------------------------------------------- */

pawl_status engine_need_mover(engine *e, pawl_error *err) PAWL_MUST_CHECK;

/* ---- checks.c: checking mode (S01) ---------------------------------------------------------- */

/* Remembers a checksum of every block of every piece, as the memory is now. */
pawl_status engine_checks_new(engine *e, const plan_layout *layout, engine_checks **out,
                              pawl_error *err) PAWL_MUST_CHECK;
void engine_checks_free(engine_checks *checks); /* NULL is fine */
/* Compares a filled buffer with those checksums. */
pawl_status engine_checks_compare(const engine_checks *checks, const plan_layout *layout,
                                  const engine_buffer *b, pawl_error *err) PAWL_MUST_CHECK;
/* Monitor held, both: the first difference found is kept for the engine's thread. */
void engine_checks_keep(engine_checks *checks, const pawl_error *difference);
const pawl_error *engine_checks_found(const engine_checks *checks); /* NULL: none; NULL is fine */

#endif
