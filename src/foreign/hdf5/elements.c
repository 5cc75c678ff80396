/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of the elements of a dataset: where they lie in the file as pawl reads them, there;
 * otherwise in a stream that is made of them. */
#include "foreign/hdf5/dataset.h"

/* Parts of a tensor while they are gathered: chunks, and between them what was never written. */
typedef struct gathering {
    hdf5_file *f;
    const hdf5_elements *e;
    const hdf5_layout *layout;
    hdf5_chunks present;
    hdf5_chunk *streamed; /* of the stream */
    size_t streamed_count, streamed_room;
    uint64_t stream_bytes;
    archive_part *parts; /* `stream` is UINT32_MAX where it is the one to be made */
    size_t count, room;
    arena memory;
} gathering;

static void gathering_free(gathering *g) {
    hdf5_chunks_free(&g->present);
    mem_free(g->streamed);
    mem_free(g->parts);
    arena_free(&g->memory);
}

static pawl_status add_tensor(hdf5_file *f, const hdf5_elements *e, const archive_part *parts,
                              size_t count, pawl_error *err) {
    const hdf5_type *type = e->type;
    const archive_tensor tensor = {.name = e->name,
                                   .dtype = type->dtype,
                                   .type = type->dtype == 0 || type->paired ? type->name : NULL,
                                   .ndim = e->space->ndim,
                                   .shape = e->space->shape,
                                   .role = e->role,
                                   .parts = parts,
                                   .part_count = count};
    return archive_add_tensor(f->a, &tensor, err);
}

/* Does the stream that the HDF5 file is in take parts that are not aligned, or is this one? */
static bool is_direct(const hdf5_file *f, const hdf5_type *type, uint64_t at) {
    return type->swap <= 1 && (f->place.stream < f->a->base.files || type->dtype == 0 ||
                               at % dtype_alignment(type->dtype) == 0);
}

/* ---- elements in one piece, or nowhere ---- */

static pawl_status add_plain(hdf5_file *f, const hdf5_elements *e, const hdf5_layout *layout,
                             uint64_t bytes, pawl_error *err) {
    archive_part part = {.stream = f->place.stream, .offset = layout->at, .bytes = bytes};
    if (bytes > 0 && layout->at != HDF5_NONE && layout->bytes < bytes) {
        hdf5_refuse(f, PAWL_EDAMAGED, layout->at, layout->bytes, err,
                    "a dataset has fewer bytes than its shape needs");
        error_expected(err, "%llu", (unsigned long long)bytes);
        error_found(err, "%llu", (unsigned long long)layout->bytes);
        return PAWL_EDAMAGED;
    }
    if (bytes == 0) {
        part.offset = 0;
    } else if (layout->at == HDF5_NONE || !is_direct(f, e->type, layout->at)) {
        const hdf5_chunk all = {.at = layout->at, .stored = bytes};
        hdf5_layout whole = *layout;
        whole.filters.count = 0;
        whole.chunk_bytes = bytes;
        memcpy(whole.chunk, e->space->shape, (size_t)e->space->ndim * sizeof(whole.chunk[0]));
        const hdf5_stream_spec spec = {.layout = &whole,
                                       .chunks = &all,
                                       .count = 1,
                                       .ndim = e->space->ndim,
                                       .shape = e->space->shape,
                                       .element_bytes = e->type->bytes,
                                       .swap = e->type->swap,
                                       .bytes = bytes};
        TRY(hdf5_add_stream(f, &spec, &part.stream, err));
        part.offset = 0;
    }
    return add_tensor(f, e, &part, 1, err);
}

/* ---- chunks ---- */

static pawl_status add_part(gathering *g, const box *b, uint64_t at, bool direct, uint64_t *bytes,
                            pawl_error *err) {
    size_t n = (size_t)b->ndim;
    int64_t *numbers = arena_take(&g->memory, (2 * n + 1) * sizeof(*numbers), err);
    if (numbers == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(numbers, b->offset, n * sizeof(*numbers));
    memcpy(numbers + n, b->extent, n * sizeof(*numbers));
    TRY(vec_reserve(&g->parts, &g->room, g->count + 1, sizeof(*g->parts), err));
    *bytes = box_elements(b) * g->e->type->bytes;
    g->parts[g->count++] = (archive_part){.stream = direct ? g->f->place.stream : UINT32_MAX,
                                          .offset = direct ? at : g->stream_bytes,
                                          .bytes = *bytes,
                                          .box_offset = numbers,
                                          .box_extent = numbers + n};
    return PAWL_OK;
}

static pawl_status add_streamed(gathering *g, const box *b, const hdf5_chunk *chunk,
                                pawl_error *err) {
    uint64_t bytes;
    TRY(add_part(g, b, 0, false, &bytes, err));
    TRY(vec_reserve(&g->streamed, &g->streamed_room, g->streamed_count + 1, sizeof(*g->streamed),
                    err));
    hdf5_chunk *added = &g->streamed[g->streamed_count++];
    *added = *chunk;
    added->out = g->stream_bytes;
    g->stream_bytes += bytes;
    return PAWL_OK;
}

/* What a box of chunks has of the tensor. */
static void cut_box(const gathering *g, const box *chunks, box *out) {
    out->ndim = chunks->ndim;
    for (int d = 0; d < chunks->ndim; d++) {
        int64_t extent = g->layout->chunk[d];
        int64_t shape = g->e->space->shape[d];
        int64_t left = shape - chunks->offset[d] * extent;
        bool whole = chunks->extent[d] <= (left - 1) / extent;
        out->offset[d] = chunks->offset[d] * extent;
        out->extent[d] = whole ? chunks->extent[d] * extent : left;
    }
}

static bool is_prefix(const gathering *g, const box *b) {
    for (int d = 1; d < b->ndim; d++) {
        if (b->extent[d] != g->layout->chunk[d]) {
            return false;
        }
    }
    return true;
}

static bool is_filtered(const hdf5_layout *l, const hdf5_chunk *chunk) {
    return (chunk->mask & ((1u << l->filters.count) - 1)) != (1u << l->filters.count) - 1;
}

/* Whoever reads two files by turns reads a block of each again and again. So where some chunks are
 * read from the stream, since they are cut, small ones are read from it, too. */
static bool is_read_in_place(const gathering *g, const box *b) {
    bool small = g->layout->chunk_bytes < FORMAT_BLOCK_BYTES;
    for (int d = 1; small && d < b->ndim; d++) {
        if (g->e->space->shape[d] % g->layout->chunk[d] != 0) {
            return false;
        }
    }
    return is_prefix(g, b);
}

static bool is_cut(const gathering *g, const box *b) {
    return !is_prefix(g, b) || (b->ndim > 0 && b->extent[0] != g->layout->chunk[0]);
}

static pawl_status refuse_chunk(const gathering *g, const hdf5_chunk *chunk, pawl_error *err) {
    hdf5_refuse(g->f, PAWL_EDAMAGED, chunk->at, chunk->stored, err,
                "a chunk that is stored as it is has another size");
    error_expected(err, "%llu bytes", (unsigned long long)g->layout->chunk_bytes);
    error_found(err, "%llu bytes", (unsigned long long)chunk->stored);
    return PAWL_EDAMAGED;
}

static pawl_status chunk_too_large(const gathering *g, const hdf5_chunk *chunk, pawl_error *err) {
    hdf5_refuse(g->f, PAWL_ELIMIT, chunk->at, chunk->stored, err, "a chunk is too large");
    error_expected(err, "at most %u bytes, where chunks are compressed", FOREIGN_MAX_CHUNK);
    error_found(err, "%llu bytes", (unsigned long long)g->layout->chunk_bytes);
    return PAWL_ELIMIT;
}

static pawl_status add_chunk(gathering *g, const box *grid, hdf5_chunk chunk, pawl_error *err) {
    box b;
    uint64_t bytes;
    cut_box(g, grid, &b);
    if (g->layout->cut_raw && is_cut(g, &b)) {
        chunk.mask = UINT32_MAX;
    }
    bool filtered = is_filtered(g->layout, &chunk);
    if (!filtered && chunk.stored != g->layout->chunk_bytes) {
        return refuse_chunk(g, &chunk, err);
    }
    if (filtered && (g->layout->chunk_bytes > FOREIGN_MAX_CHUNK ||
                     chunk.stored > 2 * (uint64_t)FOREIGN_MAX_CHUNK)) {
        return chunk_too_large(g, &chunk, err);
    }
    if (!filtered && is_read_in_place(g, &b) && is_direct(g->f, g->e->type, chunk.at)) {
        return add_part(g, &b, chunk.at, true, &bytes, err);
    }
    return add_streamed(g, &b, &chunk, err);
}

/* Chunks [first, end) were never written: as few boxes as they make up. */
static pawl_status add_gap(gathering *g, const box *grid, uint64_t first, uint64_t end,
                           pawl_error *err) {
    while (first < end) {
        const hdf5_chunk none = {.at = HDF5_NONE};
        box chunks = box_leading(grid, first, end - first);
        box b;
        if (++g->f->usage->chunks > FOREIGN_MAX_HDF5_CHUNKS) {
            return hdf5_beyond(g->f, "chunks", FOREIGN_MAX_HDF5_CHUNKS, err);
        }
        cut_box(g, &chunks, &b);
        TRY(add_streamed(g, &b, &none, err));
        first += box_elements(&chunks);
    }
    return PAWL_OK;
}

static pawl_status gather(gathering *g, pawl_error *err) {
    const hdf5_chunks *p = &g->present;
    box grid = {.ndim = p->ndim};
    uint64_t next = 0;
    for (int d = 0; d < p->ndim; d++) {
        grid.extent[d] = (int64_t)p->grid[d];
    }
    for (size_t i = 0; i < p->count; i++) {
        TRY(add_gap(g, &grid, next, p->items[i].index, err));
        box one = box_leading(&grid, p->items[i].index, 1);
        TRY(add_chunk(g, &one, p->items[i], err));
        next = p->items[i].index + 1;
    }
    return add_gap(g, &grid, next, box_elements(&grid), err);
}

static pawl_status make_stream(gathering *g, pawl_error *err) {
    uint32_t stream;
    if (g->streamed_count == 0) {
        return PAWL_OK;
    }
    const hdf5_stream_spec spec = {.layout = g->layout,
                                   .chunks = g->streamed,
                                   .count = g->streamed_count,
                                   .ndim = g->e->space->ndim,
                                   .shape = g->e->space->shape,
                                   .element_bytes = g->e->type->bytes,
                                   .swap = g->e->type->swap,
                                   .bytes = g->stream_bytes};
    TRY(hdf5_add_stream(g->f, &spec, &stream, err));
    for (size_t i = 0; i < g->count; i++) {
        if (g->parts[i].stream == UINT32_MAX) {
            g->parts[i].stream = stream;
        }
    }
    return PAWL_OK;
}

static pawl_status add_chunked(hdf5_file *f, const hdf5_elements *e, const hdf5_layout *layout,
                               uint64_t bytes, pawl_error *err) {
    gathering g = {.f = f, .e = e, .layout = layout};
    pawl_status status = hdf5_chunks_read(f, e->space, layout, &g.present, err);
    if (status == PAWL_OK && (g.present.count == 0 || bytes == 0)) {
        status = add_plain(f, e, layout, bytes, err); /* `at` is nowhere */
    } else if (status == PAWL_OK) {
        status = gather(&g, err);
        status = status == PAWL_OK ? make_stream(&g, err) : status;
        status = status == PAWL_OK ? add_tensor(f, e, g.parts, g.count, err) : status;
    }
    gathering_free(&g);
    return status;
}

/* ---- all of them ---- */

pawl_status hdf5_add_elements(hdf5_file *f, const hdf5_elements *e, const hdf5_layout *layout,
                              pawl_error *err) {
    uint64_t elements, bytes;
    TRY(hdf5_space_bytes(f, e->space, e->type->bytes, &elements, &bytes, err));
    if (e->type->dtype == 0) { /* listed, not read */
        bool there = !layout->chunked && layout->at != HDF5_NONE;
        const archive_part part = {.stream = f->place.stream,
                                   .offset = there ? layout->at : 0,
                                   .bytes = there ? layout->bytes : 0};
        return add_tensor(f, e, &part, 1, err);
    }
    return layout->chunked ? add_chunked(f, e, layout, bytes, err)
                           : add_plain(f, e, layout, bytes, err);
}
