/* SPDX-License-Identifier: Apache-2.0 */
/* engine/reader: a window of verified blocks over one open data file; private to the engine. */
#ifndef ENGINE_READER_H
#define ENGINE_READER_H

#include "engine/engine.h"

#define READER_WINDOW_BLOCKS (ENGINE_BUFFER_BYTES / FORMAT_BLOCK_BYTES)

struct engine_reader {
    engine_source source;
    store_file *open; /* NULL: none */
    uint32_t file;    /* of the open file */
    uint64_t file_bytes;
    uint64_t expect; /* how far the caller is going to read */
    uint8_t *window;
    uint64_t window_at; /* in the file; a multiple of FORMAT_BLOCK_BYTES */
    size_t window_bytes;
    uint32_t stored[READER_WINDOW_BLOCKS];
};

/* The absolute path of a data file, into the error. */
void engine_reader_path(const engine_reader *r, uint32_t file, pawl_error *err);
/* Makes `file` the open one; its size is that of the storage, to be compared. */
pawl_status engine_reader_open(engine_reader *r, uint32_t file, uint64_t *found_bytes,
                               pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_EDAMAGED: the open file has not the size that the manifest says. */
pawl_status engine_reader_wrong_size(const engine_reader *r, uint64_t found_bytes, pawl_error *err);
void engine_reader_close(engine_reader *r);
/* Reads [at, at+n), at most a window, from a block boundary to another or to the end of the file,
 * with the stored checksums; nothing is verified. */
pawl_status engine_reader_load(engine_reader *r, uint64_t at, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;

/* A run of damaged blocks in the window; count 0: none from `from` on. */
typedef struct damaged_run {
    size_t first, count;
    uint32_t stored, computed; /* of the first */
} damaged_run;
damaged_run engine_reader_damage(const engine_reader *r, size_t from);
size_t engine_reader_blocks(const engine_reader *r);
/* PAWL_EDAMAGED with file, range and both checksums. */
pawl_status engine_reader_damaged(const engine_reader *r, const damaged_run *run, pawl_error *err);

#endif
