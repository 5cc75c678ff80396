/* SPDX-License-Identifier: Apache-2.0 */
/* The indexes of chunks that version 4 layouts have: one chunk, chunks in a row, a fixed array of
 * them, a version 2 B-tree. */
#include "foreign/hdf5/chunk_index.h"

/* The chunk with a number among those of a dataset that has grown as far as it may. */
static pawl_status add_numbered(const chunk_index *x, uint64_t number, hdf5_chunk *chunk,
                                pawl_error *err) {
    uint64_t at[PAWL_MAX_NDIM] = {0};
    chunk->index = 0;
    for (int d = x->out->ndim - 1; d >= 0; d--) {
        if (d != x->endless) {
            at[d] = number % x->most[d];
            number /= x->most[d];
        }
    }
    if (x->endless >= 0) {
        at[x->endless] = number;
    }
    for (int d = 0; d < x->out->ndim; d++) {
        if (at[d] >= x->out->grid[d]) {
            return PAWL_OK; /* it is made, and outside of the shape */
        }
        chunk->index = chunk->index * x->out->grid[d] + at[d];
    }
    return hdf5_chunks_add(x->f, x->out, chunk, x->layout, err);
}

static pawl_status count_most(chunk_index *x, pawl_error *err) {
    bool fits = true;
    unsigned endless = 0;
    x->all = 1;
    x->endless = -1;
    for (int d = 0; d < x->space->ndim; d++) {
        uint64_t extent = (uint64_t)x->layout->chunk[d];
        uint64_t most = x->space->most[d];
        if (most == UINT64_MAX) {
            x->endless = d;
            endless++;
            continue;
        }
        x->most[d] = most / extent + (most % extent != 0);
        fits = fits && x->most[d] > 0 && !multiply_overflows(x->all, x->most[d], &x->all) &&
               x->all <= INT64_MAX;
    }
    if (fits && endless == (x->layout->index == HDF5_EXTENSIBLE ? 1 : 0)) {
        return PAWL_OK;
    }
    return hdf5_refuse(x->f, PAWL_EDAMAGED, x->layout->message, 0, err,
                       "an index that does not fit the shape of its dataset");
}

static pawl_status add_single(const chunk_index *x, pawl_error *err) {
    const hdf5_layout *l = x->layout;
    hdf5_chunk chunk = {.at = l->address,
                        .stored = l->single_bytes > 0 ? l->single_bytes : l->chunk_bytes,
                        .mask = l->single_mask};
    return add_numbered(x, 0, &chunk, err);
}

static pawl_status add_implicit(const chunk_index *x, pawl_error *err) {
    uint64_t bytes = x->layout->chunk_bytes;
    uint64_t end;
    if (multiply_overflows(x->all, bytes, &end) || end > x->f->end) {
        return hdf5_refuse(x->f, PAWL_EDAMAGED, x->layout->message, 0, err,
                           "chunks in a row that are not in the file");
    }
    for (uint64_t i = 0; i < x->all; i++) {
        hdf5_chunk chunk = {.at = x->layout->address + i * bytes, .stored = bytes};
        TRY(add_numbered(x, i, &chunk, err));
    }
    return PAWL_OK;
}

/* ---- a fixed array -------------------------------------------------------------------------- */

typedef struct fixed_array {
    const chunk_index *x;
    uint64_t page_bits, count, address;
} fixed_array;

bool chunk_index_fits(const chunk_index *x) {
    uint64_t least = x->f->offset_bytes + (x->filtered ? 5u : 0u);
    return x->element_bytes >= least && x->element_bytes <= least + (x->filtered ? 7u : 0u);
}

static pawl_status decode_element(const chunk_index *x, uint64_t number, cursor *c,
                                  pawl_error *err) {
    hdf5_file *f = x->f;
    hdf5_chunk chunk = {.stored = x->layout->chunk_bytes};
    uint64_t mask;
    TRY(hdf5_address(f, c, &chunk.at, err));
    if (x->filtered) {
        TRY(hdf5_number(c, (unsigned)(x->element_bytes - f->offset_bytes - 4), &chunk.stored, err));
        TRY(hdf5_number(c, 4, &mask, err));
        chunk.mask = (uint32_t)mask;
    }
    return chunk.at == HDF5_NONE ? PAWL_OK : add_numbered(x, number, &chunk, err);
}

pawl_status chunk_index_elements(const chunk_index *x, uint64_t first, uint64_t n, cursor *c,
                                 pawl_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        TRY(decode_element(x, first + i, c, err));
    }
    return PAWL_OK;
}

static pawl_status open_array(chunk_index *x, fixed_array *a, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    hdf5_file *f = x->f;
    cursor c;
    uint64_t client;
    TRY(hdf5_load(f, x->layout->address, 12 + f->length_bytes + f->offset_bytes, "fixed array",
                  &bytes, &c, err));
    TRY(hdf5_checked(f, &c, err));
    TRY(hdf5_begin(f, &c, "FAHD", 0, err));
    TRY(hdf5_number(&c, 1, &client, err));
    TRY(hdf5_number(&c, 1, &x->element_bytes, err));
    TRY(hdf5_number(&c, 1, &a->page_bits, err));
    TRY(hdf5_length(f, &c, &a->count, err));
    TRY(hdf5_address(f, &c, &a->address, err));
    x->filtered = client == 1;
    if (client > 1 || !chunk_index_fits(x) || a->page_bits > 30 || a->count != x->all) {
        return hdf5_refuse(f, PAWL_EDAMAGED, c.base, c.size, err,
                           "a fixed array that does not fit its dataset");
    }
    return PAWL_OK;
}

/* Pages have elements and a checksum; a bit says of each whether it was ever written. */
static pawl_status read_pages(const fixed_array *a, uint64_t head, const cursor *map,
                              pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    hdf5_file *f = a->x->f;
    uint64_t page = UINT64_C(1) << a->page_bits;
    uint64_t page_bytes = page * a->x->element_bytes + 4;
    cursor c;
    for (uint64_t i = 0; i * page < a->count; i++) {
        uint64_t left = a->count - i * page;
        uint64_t n = left < page ? left : page;
        if ((map->data[map->at + i / 8] >> (7 - i % 8) & 1) == 0) {
            continue;
        }
        TRY(hdf5_load(f, a->address + head + i * page_bytes, n * a->x->element_bytes + 4,
                      "page of a fixed array", &bytes, &c, err));
        TRY(hdf5_checked(f, &c, err));
        TRY(chunk_index_elements(a->x, i * page, n, &c, err));
    }
    return PAWL_OK;
}

static pawl_status add_fixed(chunk_index *x, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    hdf5_file *f = x->f;
    fixed_array a = {.x = x};
    cursor c;
    TRY(open_array(x, &a, err));
    if (a.address == HDF5_NONE) {
        return PAWL_OK;
    }
    uint64_t page = UINT64_C(1) << a.page_bits;
    bool paged = a.count > page;
    uint64_t pages = paged ? (a.count - 1) / page + 1 : 0;
    uint64_t head = 6 + (uint64_t)f->offset_bytes + (pages + 7) / 8 + 4;
    if (a.count > f->end) {
        return hdf5_beyond(f, "chunks", FOREIGN_MAX_HDF5_CHUNKS, err);
    }
    TRY(hdf5_load(f, a.address, paged ? head : head + a.count * x->element_bytes,
                  "block of a fixed array", &bytes, &c, err));
    TRY(hdf5_checked(f, &c, err));
    TRY(hdf5_begin(f, &c, "FADB", 0, err));
    TRY(hdf5_skip(&c, 1 + (size_t)f->offset_bytes, err));
    return paged ? read_pages(&a, head, &c, err) : chunk_index_elements(x, 0, a.count, &c, err);
}

/* ---- a version 2 B-tree --------------------------------------------------------------------- */

typedef struct chunk_records {
    const chunk_index *x;
    bool filtered;
    size_t record_bytes;
} chunk_records;

static pawl_status take_record(void *context, cursor *c, pawl_error *err) {
    const chunk_records *r = context;
    const chunk_index *x = r->x;
    hdf5_file *f = x->f;
    hdf5_chunk chunk = {.stored = x->layout->chunk_bytes};
    uint64_t mask, scaled;
    size_t fixed = f->offset_bytes + 8 * (size_t)x->out->ndim + (r->filtered ? 4 : 0);
    if (r->record_bytes < fixed + r->filtered || r->record_bytes > fixed + (r->filtered ? 8 : 0)) {
        return hdf5_refuse(f, PAWL_EDAMAGED, c->base, c->size, err,
                           "a B-tree of chunks with records of %zu bytes", r->record_bytes);
    }
    TRY(hdf5_address(f, c, &chunk.at, err));
    if (r->filtered) {
        TRY(hdf5_number(c, (unsigned)(r->record_bytes - fixed), &chunk.stored, err));
        TRY(hdf5_number(c, 4, &mask, err));
        chunk.mask = (uint32_t)mask;
    }
    for (int d = 0; d < x->out->ndim; d++) {
        TRY(hdf5_number(c, 8, &scaled, err));
        if (scaled >= x->out->grid[d]) {
            return hdf5_refuse(f, PAWL_EDAMAGED, c->base, c->size, err,
                               "a chunk is not in the grid of its dataset");
        }
        chunk.index = chunk.index * x->out->grid[d] + scaled;
    }
    return hdf5_chunks_add(f, x->out, &chunk, x->layout, err);
}

static pawl_status add_tree(const chunk_index *x, pawl_error *err) {
    chunk_records r = {.x = x, .filtered = x->layout->filters.count > 0};
    return hdf5_tree_each(x->f, x->layout->address, r.filtered ? 11 : 10, &r.record_bytes,
                          take_record, &r, err);
}

pawl_status hdf5_chunks_indexed(hdf5_file *f, const hdf5_space *space, const hdf5_layout *layout,
                                hdf5_chunks *out, pawl_error *err) {
    chunk_index x = {.f = f, .space = space, .layout = layout, .out = out};
    if (layout->index == HDF5_TREE_2) {
        return add_tree(&x, err);
    }
    TRY(count_most(&x, err));
    switch (layout->index) {
    case HDF5_SINGLE:
        return add_single(&x, err);
    case HDF5_IMPLICIT:
        return add_implicit(&x, err);
    case HDF5_FIXED:
        return add_fixed(&x, err);
    default:
        return chunk_index_extensible(&x, err);
    }
}
