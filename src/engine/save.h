/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/save: the parts of a save in flight, private to the engine.
 *
 * A layout's files are cut into chunks of buffer_bytes, in file order. Whoever has time claims the
 * next chunk: the engine's thread, or the trainer's thread inside engine_fence. A claimed chunk has
 * a buffer in the queue; the engine's thread alone writes, in queue order, which is file order.
 */
#ifndef ENGINE_SAVE_H
#define ENGINE_SAVE_H

#include "engine/engine.h"

typedef struct engine_buffer {
    struct engine_buffer *next; /* in the queue, or among the free ones */
    uint8_t *memory;
    size_t file;
    uint64_t at; /* in that file */
    size_t bytes;
    bool filled;
} engine_buffer;

typedef struct engine_checks engine_checks;

struct engine {
    engine_options options;
    pawl_log log;
    size_t buffer_limit;
    monitor monitor;

    platform_thread *thread; /* the trainer's thread alone looks at it */

    /* Constant while a save is in flight. */
    engine_job job;
    uint64_t total; /* bytes of all files */
    /* The job's own are gone after `done`, while a wait or a fence may still look. */
    char directory[STORE_MAX_PATH];
    uint64_t chunks; /* of all files */
    uint32_t *checksums;
    engine_file *files;
    engine_checks *checks; /* NULL unless checking */
    uint64_t begun_ns;

    /* Under the monitor, down to the end. */
    bool active;    /* from engine_begin to after `done` */
    bool cancelled; /* stop before the next write */
    bool stopped;   /* nothing more is claimed */
    bool committing;
    bool abandoned; /* the engine's thread frees the engine at its end */
    bool release_begun, released;
    size_t next_file; /* the next chunk to claim */
    uint64_t next_at;
    size_t filling; /* chunks being copied out of the trainer's memory now */
    engine_buffer *queue, *queue_last, *free_buffers;
    size_t buffer_count;
    uint64_t written;
    char file_name[80]; /* the file being written */

    bool fenced;
    uint64_t fence_copy_ns, fence_wait_ns;
    pawl_status outcome; /* of the last save, like the next two */
    struct pawl_error story;
    engine_stats stats;
};

/* ---- fill.c: chunks, buffers, release ------------------------------------------------------- */

/* Monitor held. False when every chunk is claimed. */
bool engine_chunk_left(engine *e);
/* Monitor held. Claims a chunk, lets go of the monitor while copying it, and tells what is
 * released. False when there is nothing to claim or no buffer. */
bool engine_fill_one(engine *e);
/* Monitor held: the buffer may be used again. */
void engine_buffer_return(engine *e, engine_buffer *b);
void engine_buffers_free(engine *e);
/* Monitor held. Nothing is claimed any more; returns once the trainer's memory is let go. */
void engine_release(engine *e);

/* ---- write.c: the engine's thread ----------------------------------------------------------- */

void engine_write_body(void *argument);

/* ---- engine.c ------------------------------------------------------------------------------- */

uint64_t engine_now(const engine *e);
/* Saturates: any number of seconds is a deadline. */
uint64_t engine_deadline(const engine *e, double seconds);
/* Monitor held: PAWL_ETIMEOUT naming what is being written, and how far it came. */
pawl_status engine_timeout(engine *e, double waited_s, const char *what, pawl_error *err);
/* Monitor held: brings the statistics of the save in flight up to now. */
void engine_stats_update(engine *e);
void engine_destroy(engine *e);

/* ---- checks.c: checking mode (S01) ---------------------------------------------------------- */

/* Remembers a checksum of every block of every piece, as the memory is now. */
pawl_status engine_checks_new(const plan_layout *layout, engine_checks **out, pawl_error *err)
    PAWL_MUST_CHECK;
void engine_checks_free(engine_checks *checks); /* NULL is fine */
/* Compares a filled buffer with what was there. */
pawl_status engine_checks_compare(const engine_checks *checks, const plan_layout *layout,
                                  const engine_buffer *b, pawl_error *err) PAWL_MUST_CHECK;
/* Monitor held, both: the first difference found is kept for the engine's thread. */
void engine_checks_keep(engine_checks *checks, const pawl_error *difference);
const pawl_error *engine_checks_found(const engine_checks *checks); /* NULL: none; NULL is fine */

#endif
