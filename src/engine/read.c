/* SPDX-License-Identifier: Apache-2.0 */
/* Reads stretches of data files; nothing is handed on before its block's checksum was compared. */
#include "engine/reader.h"

#include <assert.h>
#include <stdio.h>

/* ---- the reader and its file ---- */

pawl_status engine_reader_new(const engine_source *source, engine_reader **out, pawl_error *err) {
    engine_reader *r = mem_calloc(1, sizeof(*r));
    if (r == NULL) {
        return error_nomem(err, sizeof(*r));
    }
    r->source = *source;
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

void engine_reader_path(const engine_reader *r, uint32_t file, pawl_error *err) {
    error_path(err, "%s/%s/%s", r->source.store->root, r->source.directory, file_name(r, file));
}

static pawl_status missing(const engine_reader *r, uint32_t file, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "a data file of the checkpoint is missing");
    engine_reader_path(r, file, err);
    error_expected(err, "%llu bytes",
                   (unsigned long long)r->source.file_bytes(r->source.context, file));
    error_found(err, "no such file");
    return PAWL_EDAMAGED;
}

pawl_status engine_reader_open(engine_reader *r, uint32_t file, uint64_t *found_bytes,
                               pawl_error *err) {
    char path[STORE_MAX_PATH];
    engine_reader_close(r);
    snprintf(path, sizeof(path), "%s/%s", r->source.directory, file_name(r, file));
    pawl_status status = store_open(r->source.store, path, STORE_READ, &r->open, err);
    if (status == PAWL_ENOTFOUND) {
        return missing(r, file, err);
    }
    if (status != PAWL_OK) {
        return status;
    }
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
    engine_reader_path(r, r->file, err);
    error_expected(err, "%llu bytes", (unsigned long long)r->file_bytes);
    error_found(err, "%llu bytes", (unsigned long long)found_bytes);
    error_range(err, less ? found_bytes : r->file_bytes,
                less ? r->file_bytes - found_bytes : found_bytes - r->file_bytes);
    return PAWL_EDAMAGED;
}

static pawl_status need_file(engine_reader *r, uint32_t file, pawl_error *err) {
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

/* ---- the window ---- */

size_t engine_reader_blocks(const engine_reader *r) {
    return (r->window_bytes + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES;
}

pawl_status engine_reader_load(engine_reader *r, uint64_t at, size_t n, pawl_error *err) {
    assert(at % FORMAT_BLOCK_BYTES == 0 && n <= ENGINE_BUFFER_BYTES);
    if (r->window == NULL) {
        r->window = mem_aligned(4096, ENGINE_BUFFER_BYTES);
        if (r->window == NULL) {
            return error_nomem(err, ENGINE_BUFFER_BYTES);
        }
    }
    r->window_bytes = 0;
    size_t blocks = (n + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES;
    TRY(r->source.checksums(r->source.context, r->file, at / FORMAT_BLOCK_BYTES, blocks, r->stored,
                            err));
    TRY(store_read(r->open, at, r->window, n, err));
    *r->source.reads += 1;
    *r->source.bytes += n;
    r->window_at = at;
    r->window_bytes = n;
    return PAWL_OK;
}

static uint32_t block_sum(const engine_reader *r, size_t block) {
    size_t at = block * FORMAT_BLOCK_BYTES;
    size_t left = r->window_bytes - at;
    return crc32c(0, r->window + at, left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES);
}

damaged_run engine_reader_damage(const engine_reader *r, size_t from) {
    damaged_run run = {0};
    size_t count = engine_reader_blocks(r);
    for (size_t block = from; block < count; block++) {
        uint32_t computed = block_sum(r, block);
        if (computed == r->stored[block]) {
            if (run.count > 0) {
                break;
            }
            continue;
        }
        if (run.count == 0) {
            run.first = block;
            run.stored = r->stored[block];
            run.computed = computed;
        }
        run.count++;
    }
    return run;
}

pawl_status engine_reader_damaged(const engine_reader *r, const damaged_run *run, pawl_error *err) {
    uint64_t begin = r->window_at + run->first * FORMAT_BLOCK_BYTES;
    uint64_t end = begin + run->count * FORMAT_BLOCK_BYTES;
    end = end < r->file_bytes ? end : r->file_bytes;
    error_set(err, PAWL_EDAMAGED,
              "bytes %llu to %llu of a data file are not those that were written",
              (unsigned long long)begin, (unsigned long long)(end - 1));
    engine_reader_path(r, r->file, err);
    error_range(err, begin, end - begin);
    error_expected(err, "CRC32C %08x, stored in the index", run->stored);
    error_found(err, "CRC32C %08x%s", run->computed,
                run->count > 1 ? " in the first of these blocks" : "");
    return PAWL_EDAMAGED;
}

/* Verified blocks from the one that holds `offset` on, as far as `until` and a window reach. */
static pawl_status fill_window(engine_reader *r, uint64_t offset, uint64_t until, pawl_error *err) {
    uint64_t begin = offset - offset % FORMAT_BLOCK_BYTES;
    uint64_t end = until > r->expect ? until : r->expect;
    end = end < begin + ENGINE_BUFFER_BYTES ? end : begin + ENGINE_BUFFER_BYTES;
    end += (FORMAT_BLOCK_BYTES - end % FORMAT_BLOCK_BYTES) % FORMAT_BLOCK_BYTES;
    end = end < r->file_bytes ? end : r->file_bytes;
    TRY(engine_reader_load(r, begin, (size_t)(end - begin), err));
    damaged_run run = engine_reader_damage(r, 0);
    if (run.count == 0) {
        return PAWL_OK;
    }
    uint64_t intact_end = begin + run.first * FORMAT_BLOCK_BYTES;
    if (intact_end >= until) { /* nobody asked for the damaged bytes yet */
        r->window_bytes = (size_t)(intact_end - begin);
        return PAWL_OK;
    }
    pawl_status status = engine_reader_damaged(r, &run, err);
    r->window_bytes = 0;
    return status;
}

static bool in_window(const engine_reader *r, uint64_t offset) {
    return offset >= r->window_at && offset - r->window_at < r->window_bytes;
}

pawl_status engine_reader_read(engine_reader *r, uint32_t file, uint64_t offset, uint64_t n,
                               engine_take take, void *context, pawl_error *err) {
    assert(file < r->source.file_count);
    TRY(need_file(r, file, err));
    uint64_t until;
    if (add_overflows(offset, n, &until) || until > r->file_bytes) {
        error_set(err, PAWL_EDAMAGED, "the index points behind the end of a data file");
        engine_reader_path(r, file, err);
        error_range(err, offset, n);
        error_expected(err, "a range within its %llu bytes", (unsigned long long)r->file_bytes);
        return PAWL_EDAMAGED;
    }
    while (offset < until) {
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

void engine_reader_expect(engine_reader *r, uint64_t until_offset) {
    r->expect = until_offset;
}
