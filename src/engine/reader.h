/* SPDX-License-Identifier: Apache-2.0 */
/* engine/reader: an open data file, and blocks of it to be verified; private to the engine. */
#ifndef ENGINE_READER_H
#define ENGINE_READER_H

#include "engine/engine.h"

#define READER_WINDOW_BLOCKS (ENGINE_BUFFER_BYTES / FORMAT_BLOCK_BYTES)
/* Cached bytes are read in such steps: they stay in a processor's second-level cache until they
 * are verified and placed. */
#define READER_STEP_BYTES ((size_t)512 << 10)

struct engine_reader {
    engine_source source;
    store_mode mode;
    store_file *open; /* NULL: none */
    uint32_t file;    /* of the open file */
    uint64_t file_bytes;
    uint8_t *window;    /* ENGINE_BUFFER_BYTES; NULL until it is needed */
    uint8_t *step;      /* READER_STEP_BYTES behind the window, on small pages: a crew whose reads
                           are all cached does not wait for huge ones to be cleared */
    uint64_t window_at; /* in the file; a multiple of FORMAT_BLOCK_BYTES */
    size_t window_bytes;
    uint32_t stored[READER_WINDOW_BLOCKS];
};

/* Makes `file` the open one; *found_bytes is its size on the storage, for the caller to compare. */
pawl_status engine_reader_open(engine_reader *r, uint32_t file, uint64_t *found_bytes,
                               pawl_error *err) PAWL_MUST_CHECK;
/* The same, and checks that its size is that in the manifest. Does nothing when it is open
 * already. */
pawl_status engine_reader_need_file(engine_reader *r, uint32_t file, pawl_error *err)
    PAWL_MUST_CHECK;
/* PAWL_EDAMAGED: the open file does not have the size in the manifest. */
pawl_status engine_reader_wrong_size(const engine_reader *r, uint64_t found_bytes, pawl_error *err);
void engine_reader_close(engine_reader *r);
pawl_status engine_reader_need_window(engine_reader *r, pawl_error *err) PAWL_MUST_CHECK;
/* Fetches the stored checksums of `n` bytes from a block boundary on, where there are any. */
pawl_status engine_reader_checksums(engine_reader *r, uint32_t file, uint64_t at, uint64_t n,
                                    pawl_error *err) PAWL_MUST_CHECK;
/* Those fetched last, from a block on; NULL where there are none. */
const uint32_t *engine_reader_stored(const engine_reader *r, uint64_t block);
/* PAWL_EDAMAGED: the range is not within the file. */
pawl_status engine_reader_check_range(const engine_reader *r, uint32_t file, uint64_t offset,
                                      uint64_t n, pawl_error *err) PAWL_MUST_CHECK;

/* Bytes of a file from a block boundary on, to another or to the end of the file. */
typedef struct read_blocks {
    const uint8_t *bytes;
    size_t n;
    uint64_t at;
    const uint32_t *stored; /* checksums; NULL: there are none */
} read_blocks;

/* Blocks in a row that are damaged; bytes 0: none. */
typedef struct damaged_run {
    uint64_t at, bytes;
    uint32_t stored, computed; /* of the first */
} damaged_run;
/* The first run that begins in the blocks that [from, until) touches; it may end after them. */
damaged_run engine_blocks_damage(const read_blocks *blocks, uint64_t from, uint64_t until);
/* PAWL_EDAMAGED with file, range and both checksums. */
pawl_status engine_reader_damaged(const engine_reader *r, const damaged_run *run, pawl_error *err);

#endif
