/* SPDX-License-Identifier: Apache-2.0 */
/* Reads stretches of data files; nothing is handed on before its block's checksum, where there is
 * one, was compared. */
#include "engine/reader.h"
#include "store/evidence.h"

#include <assert.h>
#include <stdio.h>

/* ---- the reader and its file ---- */

pawl_status engine_reader_new(const engine_source *source, engine_reader **out, pawl_error *err) {
    engine_reader *r = mem_calloc(1, sizeof(*r));
    if (r == NULL) {
        return error_nomem(err, sizeof(*r));
    }
    r->source = *source;
    r->mode = STORE_READ;
    *out = r;
    return PAWL_OK;
}

void engine_reader_close(engine_reader *r) {
    store_close(r->open);
    r->open = NULL;
    r->window_bytes = 0;
}

void engine_reader_free(engine_reader *r) {
    if (r != NULL) {
        engine_reader_close(r);
        mem_free(r->window);
        mem_free(r);
    }
}

static const char *file_name(const engine_reader *r, uint32_t file) {
    return r->source.file_name(r->source.context, file);
}

/* The path of a data file in its store. */
static void write_file_path(const engine_reader *r, uint32_t file, char out[STORE_MAX_PATH]) {
    const char *directory = r->source.directory;
    snprintf(out, STORE_MAX_PATH, "%s%s%s", directory, directory[0] != '\0' ? "/" : "",
             file_name(r, file));
}

static void set_file_path(const engine_reader *r, uint32_t file, pawl_error *err) {
    char path[STORE_MAX_PATH];
    write_file_path(r, file, path);
    store_error_path(err, r->source.store, path);
}

static pawl_status missing(const engine_reader *r, uint32_t file, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "a data file of the checkpoint is missing");
    set_file_path(r, file, err);
    error_expected(err, "%llu bytes",
                   (unsigned long long)r->source.file_bytes(r->source.context, file));
    error_found(err, "no such file");
    return PAWL_EDAMAGED;
}

static pawl_status open_file(const engine_reader *r, uint32_t file, store_file **out,
                             pawl_error *err) {
    char path[STORE_MAX_PATH];
    if (r->source.open != NULL) {
        return r->source.open(r->source.context, file, r->mode, out, err);
    }
    write_file_path(r, file, path);
    return store_open_for_certain(r->source.store, path, r->mode, out, err);
}

pawl_status engine_reader_open(engine_reader *r, uint32_t file, uint64_t *found_bytes,
                               pawl_error *err) {
    store_file *opened = NULL;
    engine_reader_close(r);
    pawl_status status = open_file(r, file, &opened, err);
    if (status == PAWL_ENOTFOUND) {
        return missing(r, file, err);
    }
    if (status != PAWL_OK) {
        return status;
    }
    r->open = opened;
    r->file = file;
    r->file_bytes = r->source.file_bytes(r->source.context, file);
    return store_size(r->open, found_bytes, err);
}

pawl_status engine_reader_wrong_size(const engine_reader *r, uint64_t found_bytes,
                                     pawl_error *err) {
    bool less = found_bytes < r->file_bytes;
    error_set(err, PAWL_EDAMAGED, "a data file of the checkpoint %s",
              found_bytes == 0 ? "is empty"
              : less           ? "is truncated"
                               : "is longer than what was written");
    set_file_path(r, r->file, err);
    error_expected(err, "%llu bytes", (unsigned long long)r->file_bytes);
    error_found(err, "%llu bytes", (unsigned long long)found_bytes);
    error_range(err, less ? found_bytes : r->file_bytes,
                less ? r->file_bytes - found_bytes : found_bytes - r->file_bytes);
    return PAWL_EDAMAGED;
}

pawl_status engine_reader_need_file(engine_reader *r, uint32_t file, pawl_error *err) {
    uint64_t found_bytes = 0;
    if (r->open != NULL && r->file == file) {
        return PAWL_OK;
    }
    pawl_status status = engine_reader_open(r, file, &found_bytes, err);
    if (status == PAWL_OK && found_bytes != r->file_bytes) {
        status = engine_reader_wrong_size(r, found_bytes, err);
    }
    if (status != PAWL_OK) {
        engine_reader_close(r);
    }
    return status;
}

pawl_status engine_reader_check_range(const engine_reader *r, uint32_t file, uint64_t offset,
                                      uint64_t n, pawl_error *err) {
    uint64_t end;
    uint64_t file_bytes = r->source.file_bytes(r->source.context, file);
    if (!add_overflows(offset, n, &end) && end <= file_bytes) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "the index points behind the end of a data file");
    set_file_path(r, file, err);
    error_range(err, offset, n);
    error_expected(err, "a range within its %llu bytes", (unsigned long long)file_bytes);
    return PAWL_EDAMAGED;
}

/* ---- blocks ---- */

pawl_status engine_reader_checksums(engine_reader *r, uint32_t file, uint64_t at, uint64_t n,
                                    pawl_error *err) {
    const engine_source *source = &r->source;
    if (source->checksums == NULL) {
        return PAWL_OK;
    }
    size_t blocks = (size_t)((n + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES);
    return source->checksums(source->context, file, at / FORMAT_BLOCK_BYTES, blocks, r->stored,
                             err);
}

const uint32_t *engine_reader_stored(const engine_reader *r, uint64_t block) {
    return r->source.checksums != NULL ? r->stored + block : NULL;
}

static uint32_t block_sum(const read_blocks *blocks, size_t block) {
    size_t at = block * FORMAT_BLOCK_BYTES;
    size_t left = blocks->n - at;
    return crc32c(0, blocks->bytes + at, left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES);
}

damaged_run engine_blocks_damage(const read_blocks *blocks, uint64_t from, uint64_t until) {
    damaged_run run = {0};
    if (blocks->stored == NULL) {
        return run;
    }
    size_t count = (blocks->n + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES;
    uint64_t end = blocks->at + blocks->n;
    for (size_t i = (size_t)((from - blocks->at) / FORMAT_BLOCK_BYTES); i < count; i++) {
        uint64_t at = blocks->at + i * FORMAT_BLOCK_BYTES;
        if (run.bytes == 0 && at >= until) {
            break;
        }
        uint32_t computed = block_sum(blocks, i);
        if (computed == blocks->stored[i]) {
            if (run.bytes > 0) {
                break;
            }
            continue;
        }
        if (run.bytes == 0) {
            run = (damaged_run){.at = at, .stored = blocks->stored[i], .computed = computed};
        }
        run.bytes += end - at < FORMAT_BLOCK_BYTES ? end - at : FORMAT_BLOCK_BYTES;
    }
    return run;
}

pawl_status engine_reader_damaged(const engine_reader *r, const damaged_run *run, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED,
              "bytes %llu to %llu of a data file are not those that were written",
              (unsigned long long)run->at, (unsigned long long)(run->at + run->bytes - 1));
    set_file_path(r, r->file, err);
    error_range(err, run->at, run->bytes);
    error_expected(err, "CRC32C %08x, stored in the index", run->stored);
    error_found(err, "CRC32C %08x%s", run->computed,
                run->bytes > FORMAT_BLOCK_BYTES ? " in the first of these blocks" : "");
    return PAWL_EDAMAGED;
}

/* ---- the window ---- */

pawl_status engine_reader_need_window(engine_reader *r, pawl_error *err) {
    const size_t bytes = ENGINE_BUFFER_BYTES + READER_STEP_BYTES;
    if (r->window == NULL) {
        r->window = mem_pages(bytes);
    }
    if (r->window == NULL) {
        return error_nomem(err, bytes);
    }
    r->step = r->window + ENGINE_BUFFER_BYTES;
    return PAWL_OK;
}

/* Reads [at, at+n) with the stored checksums; nothing is verified. */
static pawl_status load_window(engine_reader *r, uint64_t at, size_t n, pawl_error *err) {
    assert(at % FORMAT_BLOCK_BYTES == 0 && n <= ENGINE_BUFFER_BYTES);
    TRY(engine_reader_need_window(r, err));
    r->window_bytes = 0;
    TRY(engine_reader_checksums(r, r->file, at, n, err));
    TRY(store_read(r->open, at, r->window, n, err));
    *r->source.reads += 1;
    *r->source.bytes += n;
    r->window_at = at;
    r->window_bytes = n;
    return PAWL_OK;
}

/* Verified blocks from the one that holds `offset` on, as far as `until` and a window reach. */
static pawl_status fill_window(engine_reader *r, uint64_t offset, uint64_t until, pawl_error *err) {
    uint64_t begin = offset - offset % FORMAT_BLOCK_BYTES;
    uint64_t end = until < begin + ENGINE_BUFFER_BYTES ? until : begin + ENGINE_BUFFER_BYTES;
    end += (FORMAT_BLOCK_BYTES - end % FORMAT_BLOCK_BYTES) % FORMAT_BLOCK_BYTES;
    end = end < r->file_bytes ? end : r->file_bytes;
    TRY(load_window(r, begin, (size_t)(end - begin), err));
    const read_blocks blocks = {.bytes = r->window,
                                .n = r->window_bytes,
                                .at = begin,
                                .stored = engine_reader_stored(r, 0)};
    damaged_run run = engine_blocks_damage(&blocks, begin, end);
    if (run.bytes == 0) {
        return PAWL_OK;
    }
    if (run.at >= until) { /* nobody asked for the damaged bytes yet */
        r->window_bytes = (size_t)(run.at - begin);
        return PAWL_OK;
    }
    r->window_bytes = 0;
    return engine_reader_damaged(r, &run, err);
}

static bool in_window(const engine_reader *r, uint64_t offset) {
    return offset >= r->window_at && offset - r->window_at < r->window_bytes;
}

pawl_status engine_reader_read(engine_reader *r, uint32_t file, uint64_t offset, uint64_t n,
                               engine_take take, void *context, pawl_error *err) {
    assert(file < r->source.file_count);
    TRY(engine_reader_need_file(r, file, err));
    TRY(engine_reader_check_range(r, file, offset, n, err));
    for (uint64_t until = offset + n; offset < until;) {
        if (!in_window(r, offset)) {
            TRY(fill_window(r, offset, until, err));
        }
        uint64_t window_end = r->window_at + r->window_bytes;
        uint64_t end = until < window_end ? until : window_end;
        TRY(take(context, offset, r->window + (offset - r->window_at), (size_t)(end - offset),
                 err));
        offset = end;
    }
    return PAWL_OK;
}
