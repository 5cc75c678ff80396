/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/view.h"

#include "engine/reader.h"

#include <assert.h>
#include <string.h>

#define PAGE_BYTES 4096u

typedef struct viewed_file {
    struct viewed_file *next;
    uint32_t number;
    uint64_t bytes;
    store_file *open;
    store_mapping map; /* of all of it, or empty */
    size_t users;
} viewed_file;

struct engine_views {
    engine_reader *reader; /* lent the open file that is read */
    viewed_file *files;
};

struct engine_view {
    engine_views *all;
    viewed_file *file;
    uint64_t offset, bytes; /* in the file */
    uint64_t first_block;
    uint8_t *memory;   /* of its blocks, where the file is not mapped; else NULL */
    uint8_t *verified; /* a bit for each of its blocks */
};

pawl_status engine_views_new(const engine_source *source, engine_views **out, pawl_error *err) {
    engine_views *all = mem_calloc(1, sizeof(*all));
    if (all == NULL) {
        return error_nomem(err, sizeof(*all));
    }
    pawl_status status = engine_reader_new(source, &all->reader, err);
    if (status != PAWL_OK) {
        mem_free(all);
        return status;
    }
    *out = all;
    return PAWL_OK;
}

void engine_views_free(engine_views *all) {
    if (all != NULL) {
        assert(all->files == NULL);
        engine_reader_free(all->reader);
        mem_free(all);
    }
}

/* ---- files ---- */

static void file_free(viewed_file *f) {
    store_unmap(&f->map);
    store_close(f->open);
    mem_free(f);
}

/* A file that cannot be mapped is read instead; other failures are failures. */
static pawl_status map_file(viewed_file *f, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    if (f->bytes == 0 || f->bytes > SIZE_MAX) {
        return PAWL_OK;
    }
    pawl_status status = store_map(f->open, (size_t)f->bytes, &f->map, &story);
    if (status != PAWL_OK && status != PAWL_EUNSUPPORTED) {
        *err = story;
        return status;
    }
    return PAWL_OK;
}

static pawl_status open_file(engine_views *all, uint32_t number, viewed_file **out,
                             pawl_error *err) {
    engine_reader *r = all->reader;
    TRY(engine_reader_need_file(r, number, err));
    viewed_file *f = mem_calloc(1, sizeof(*f));
    if (f == NULL) {
        engine_reader_close(r);
        (void)error_nomem(err, sizeof(*f));
        return PAWL_ENOMEM;
    }
    f->number = number;
    f->bytes = r->file_bytes;
    f->open = r->open;
    r->open = NULL;
    pawl_status status = map_file(f, err);
    if (status != PAWL_OK) {
        file_free(f);
        return status;
    }
    f->next = all->files;
    all->files = f;
    *out = f;
    return PAWL_OK;
}

static pawl_status need_file(engine_views *all, uint32_t number, viewed_file **out,
                             pawl_error *err) {
    for (viewed_file *f = all->files; f != NULL; f = f->next) {
        if (f->number == number) {
            *out = f;
            return PAWL_OK;
        }
    }
    return open_file(all, number, out, err);
}

static void let_file_go(engine_views *all, viewed_file *f) {
    if (f->users > 0) {
        return;
    }
    viewed_file **at = &all->files;
    while (*at != f) {
        at = &(*at)->next;
    }
    *at = f->next;
    file_free(f);
}

/* ---- views ---- */

static uint64_t end_block(const engine_view *v) {
    uint64_t end = v->offset + v->bytes;
    return end / FORMAT_BLOCK_BYTES + (end % FORMAT_BLOCK_BYTES != 0);
}

static uint64_t block_at(const engine_view *v, uint64_t block) {
    uint64_t at = block * FORMAT_BLOCK_BYTES;
    return at < v->file->bytes ? at : v->file->bytes;
}

static pawl_status allocate_blocks(engine_view *v, pawl_error *err) {
    if (v->bytes == 0) {
        return PAWL_OK;
    }
    uint64_t blocks = end_block(v) - v->first_block;
    v->verified = mem_calloc(blocks / 8 + 1, 1);
    if (v->verified == NULL) {
        return error_nomem(err, (size_t)(blocks / 8 + 1));
    }
    if (v->file->map.bytes != NULL) {
        return PAWL_OK;
    }
    uint64_t bytes = block_at(v, end_block(v)) - block_at(v, v->first_block);
    v->memory = bytes <= SIZE_MAX ? mem_aligned(PAGE_BYTES, (size_t)bytes) : NULL;
    return v->memory != NULL ? PAWL_OK : error_nomem(err, (size_t)bytes);
}

pawl_status engine_view_open(engine_views *all, uint32_t file, uint64_t offset, uint64_t n,
                             engine_view **out, pawl_error *err) {
    TRY(engine_reader_check_range(all->reader, file, offset, n, err));
    viewed_file *f = NULL;
    TRY(need_file(all, file, &f, err));
    engine_view *v = mem_calloc(1, sizeof(*v));
    if (v == NULL) {
        let_file_go(all, f);
        return error_nomem(err, sizeof(*v));
    }
    *v = (engine_view){.all = all,
                       .file = f,
                       .offset = offset,
                       .bytes = n,
                       .first_block = offset / FORMAT_BLOCK_BYTES};
    f->users++;
    pawl_status status = allocate_blocks(v, err);
    if (status != PAWL_OK) {
        engine_view_close(v);
        return status;
    }
    *out = v;
    return PAWL_OK;
}

void engine_view_close(engine_view *v) {
    if (v == NULL) {
        return;
    }
    v->file->users--;
    let_file_go(v->all, v->file);
    mem_free(v->memory);
    mem_free(v->verified);
    mem_free(v);
}

/* ---- bytes ---- */

static bool is_verified(const engine_view *v, uint64_t block) {
    uint64_t i = block - v->first_block;
    return (v->verified[i / 8] >> i % 8 & 1) != 0;
}

/* Whole blocks, the last of the file perhaps shorter. */
static pawl_status take_blocks(void *context, uint64_t offset, const uint8_t *bytes, size_t n,
                               pawl_error *err) {
    (void)err;
    const engine_view *v = context;
    if (v->memory != NULL) {
        memcpy(v->memory + (offset - block_at(v, v->first_block)), bytes, n);
    }
    for (uint64_t at = offset; at < offset + n; at += FORMAT_BLOCK_BYTES) {
        uint64_t i = at / FORMAT_BLOCK_BYTES - v->first_block;
        v->verified[i / 8] |= (uint8_t)(1u << i % 8);
    }
    return PAWL_OK;
}

static pawl_status verify_blocks(engine_view *v, uint64_t first, uint64_t end, pawl_error *err) {
    engine_reader *r = v->all->reader;
    uint64_t at = block_at(v, first);
    r->open = v->file->open;
    r->file = v->file->number;
    r->file_bytes = v->file->bytes;
    r->window_bytes = 0; /* the window may hold an older state of the file */
    pawl_status status =
        engine_reader_read(r, r->file, at, block_at(v, end) - at, take_blocks, v, err);
    r->open = NULL;
    return status;
}

/* Runs of blocks that were not verified yet, each read in one go. */
static pawl_status verify_range(engine_view *v, uint64_t first, uint64_t end, pawl_error *err) {
    while (first < end) {
        uint64_t until = first;
        while (until < end && !is_verified(v, until)) {
            until++;
        }
        if (until > first) {
            TRY(verify_blocks(v, first, until, err));
        }
        first = until + 1;
    }
    return PAWL_OK;
}

pawl_status engine_view_bytes(engine_view *v, uint64_t at, uint64_t n, const void **bytes,
                              pawl_error *err) {
    static const uint64_t nothing[2];
    assert(at <= v->bytes && n <= v->bytes - at);
    if (v->bytes == 0) {
        *bytes = nothing;
        return PAWL_OK;
    }
    uint64_t begin = v->offset + at;
    uint64_t end = begin + n;
    if (n > 0) {
        TRY(verify_range(v, begin / FORMAT_BLOCK_BYTES,
                         end / FORMAT_BLOCK_BYTES + (end % FORMAT_BLOCK_BYTES != 0), err));
    }
    *bytes = v->memory != NULL ? v->memory + (begin - block_at(v, v->first_block))
                               : v->file->map.bytes + begin;
    return PAWL_OK;
}
