/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block: one block of a sorted table, being read.
 *
 *   entries | u32le restart[restart_count] | u32le restart_count
 *
 * and, not counted in its size:
 *
 *   u8 compression | u32le masked CRC32C of the block and the compression byte
 *
 * An entry is three varints (bytes shared with the key before it, further key bytes, value bytes),
 * the further key bytes and the value. At a restart point nothing is shared.
 */
#ifndef FORMAT_BLOCK_H
#define FORMAT_BLOCK_H

#include "base/base.h"

#define BLOCK_TRAILER_BYTES 5u
#define BLOCK_UNCOMPRESSED  0u
#define BLOCK_SNAPPY        1u
#define TABLE_MAGIC         0xdb4775248b80fb57u

typedef struct block_handle {
    uint64_t offset, bytes; /* without the trailer */
} block_handle;

/* Two varints. */
pawl_status block_handle_decode(cursor *c, block_handle *out, pawl_error *err) PAWL_MUST_CHECK;

typedef struct block {
    uint8_t *data; /* with the trailer */
    size_t size;   /* of the block in `data`, whose memory may be larger and is used again */
    size_t capacity;
    uint64_t offset; /* in the file */
    size_t entry_bytes;
    uint32_t restart_count;
    const char *what;
} block;

/* Reads and checks a block that must end before `limit` (of the file). May reuse *out's memory. */
pawl_status block_load(const byte_source *source, block_handle handle, uint64_t limit,
                       const char *what, block *out, pawl_error *err) PAWL_MUST_CHECK;
void block_free(block *b);

/* Is at one entry, or at the end. The block must outlive it and not change. */
typedef struct block_cursor {
    const block *in;
    cursor c; /* behind the entry */
    buffer key;
    const uint8_t *value;
    size_t value_bytes;
    bool valid;
    uint32_t restart, restart_at; /* the next restart point: its number, and its byte */
} block_cursor;

pawl_status block_first(block_cursor *c, const block *b, pawl_error *err) PAWL_MUST_CHECK;
pawl_status block_next(block_cursor *c, pawl_error *err) PAWL_MUST_CHECK;
/* Moves to the first key that is not less than `key`. */
pawl_status block_seek(block_cursor *c, const block *b, const void *key, size_t key_bytes,
                       pawl_error *err) PAWL_MUST_CHECK;
void block_cursor_free(block_cursor *c);

/* Bytewise; a prefix comes first. */
int key_compare(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

#endif
