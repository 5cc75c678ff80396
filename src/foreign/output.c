/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is written from its beginning to its end, in large pieces, several at a time. */
#include "foreign/writer.h"
#include "store/queue.h"

#include <string.h>

#define PIECES      4u
#define PIECE_BYTES 4194304u /* a multiple of STORE_DIRECT_ALIGNMENT */

typedef struct output_piece {
    store_io io;
    bool under_way;
} output_piece;

pawl_status output_open(output *o, const writer_job *job, const char *path, uint64_t least,
                        pawl_error *err) {
    *o = (output){.platform = job->platform,
                  .pieces = mem_calloc(PIECES, sizeof(*o->pieces)),
                  .memory = mem_pages((size_t)PIECES * PIECE_BYTES)};
    if (o->memory == NULL || o->pieces == NULL) {
        return error_nomem(err, (size_t)PIECES * PIECE_BYTES);
    }
    TRY(store_open(job->into, path, STORE_CREATE_BULK, &o->file, err));
    /* A file that grows is written by one at a time. */
    o->reserved = least > PIECE_BYTES ? least : 0;
    return o->reserved > 0 ? store_reserve(o->file, least, err) : PAWL_OK;
}

/* ---- pieces --------------------------------------------------------------------------------- */

static uint8_t *memory_of(const output *o, size_t piece) {
    return o->memory + piece * PIECE_BYTES;
}

/* The next one that is written. */
static pawl_status wait_for_one(const output *o, pawl_error *err) {
    store_io *io = store_queue_wait(o->queue, UINT64_MAX);
    if (io == NULL) {
        return PAWL_OK;
    }
    ((output_piece *)io->context)->under_way = false;
    if (io->status != PAWL_OK) {
        *err = io->story;
    }
    return io->status;
}

static pawl_status wait_for_piece(const output *o, size_t piece, pawl_error *err) {
    while (o->pieces[piece].under_way) {
        TRY(wait_for_one(o, err));
    }
    return PAWL_OK;
}

static pawl_status begin_queue(output *o, pawl_error *err) {
    const store_queue_options options = {
        .platform = o->platform, .io = PAWL_IO_AUTO, .depth = PIECES};
    return o->queue != NULL ? PAWL_OK : store_queue_new(&options, &o->queue, err);
}

/* The piece that is full is written; the next one is free. */
static pawl_status hand_over(output *o, pawl_error *err) {
    output_piece *p = &o->pieces[o->piece];
    TRY(begin_queue(o, err));
    p->io = (store_io){.kind = STORE_IO_WRITE,
                       .file = o->file,
                       .at = o->at - o->used,
                       .memory = memory_of(o, o->piece),
                       .n = o->used,
                       .context = p};
    p->under_way = true;
    store_queue_submit(o->queue, &p->io);
    o->piece = (o->piece + 1) % PIECES;
    o->used = 0;
    return wait_for_piece(o, o->piece, err);
}

/* ---- writing -------------------------------------------------------------------------------- */

pawl_status output_write(output *o, const void *bytes, size_t n, pawl_error *err) {
    for (const uint8_t *from = bytes; n > 0;) {
        size_t room = PIECE_BYTES - o->used;
        size_t part = n < room ? n : room;
        memcpy(memory_of(o, o->piece) + o->used, from, part);
        o->used += part;
        o->at += part;
        from += part;
        n -= part;
        if (o->used == PIECE_BYTES) {
            TRY(hand_over(o, err));
        }
    }
    return PAWL_OK;
}

pawl_status output_align(output *o, uint32_t alignment, pawl_error *err) {
    static const uint8_t zeros[STORE_DIRECT_ALIGNMENT];
    uint64_t over = o->at % alignment;
    for (uint64_t left = over > 0 ? alignment - over : 0; left > 0;) {
        size_t part = left < sizeof(zeros) ? (size_t)left : sizeof(zeros);
        TRY(output_write(o, zeros, part, err));
        left -= part;
    }
    return PAWL_OK;
}

pawl_status output_take(void *to, const uint8_t *bytes, size_t n, pawl_error *err) {
    return output_write(to, bytes, n, err);
}

/* ---- ending --------------------------------------------------------------------------------- */

pawl_status output_end(output *o, pawl_error *err) {
    if (o->at < o->reserved) {
        return error_set(err, PAWL_EINTERNAL, "%llu bytes were written, of %llu at least",
                         (unsigned long long)o->at, (unsigned long long)o->reserved);
    }
    for (size_t i = 0; i < PIECES; i++) {
        TRY(wait_for_piece(o, i, err));
    }
    if (o->used > 0) {
        TRY(store_write(o->file, o->at - o->used, memory_of(o, o->piece), o->used, err));
    }
    TRY(store_sync(o->file, err));
    output_close(o);
    return PAWL_OK;
}

void output_close(output *o) {
    for (size_t i = 0; o->pieces != NULL && i < PIECES; i++) {
        while (o->pieces[i].under_way) {
            struct pawl_error ignored = ERROR_INIT;
            (void)!wait_for_one(o, &ignored);
        }
    }
    if (o->queue != NULL) {
        store_queue_forget(o->queue, o->file);
    }
    store_queue_free(o->queue);
    store_close(o->file);
    mem_free(o->pieces);
    mem_free(o->memory);
    *o = (output){.file = NULL};
}
