/* SPDX-License-Identifier: Apache-2.0 */
/* The indexes of chunks that version 4 layouts have: one chunk, chunks in a row, a fixed array of
 * them, a version 2 B-tree. */
#include "foreign/hdf5/dataset.h"

typedef struct indexed {
    hdf5_file *f;
    const hdf5_space *space;
    const hdf5_layout *layout;
    hdf5_chunks *out;
    uint64_t most[PAWL_MAX_NDIM]; /* chunks along each dimension, as far as it may grow */
    uint64_t all;                 /* of those */
} indexed;

/* The chunk with a number among those of a dataset that has grown as far as it may. */
static pawl_status add_numbered(const indexed *x, uint64_t number, hdf5_chunk *chunk,
                                pawl_error *err) {
    uint64_t place = 1;
    chunk->index = 0;
    for (int d = x->out->ndim - 1; d >= 0; d--) {
        uint64_t at = number % x->most[d];
        if (at >= x->out->grid[d]) {
            return PAWL_OK; /* it is made, and still outside of the shape */
        }
        number /= x->most[d];
        chunk->index += at * place;
        place *= x->out->grid[d];
    }
    return hdf5_chunks_add(x->f, x->out, chunk, x->layout, err);
}

static pawl_status count_most(indexed *x, pawl_error *err) {
    x->all = 1;
    for (int d = 0; d < x->space->ndim; d++) {
        uint64_t extent = (uint64_t)x->layout->chunk[d];
        x->most[d] = x->space->most[d] / extent + (x->space->most[d] % extent != 0);
        if (x->space->most[d] == UINT64_MAX || x->most[d] == 0 ||
            multiply_overflows(x->all, x->most[d], &x->all) || x->all > INT64_MAX) {
            return hdf5_refuse(x->f, PAWL_EDAMAGED, x->layout->message, 0, err,
                               "an index of so many chunks that nothing can be in it");
        }
    }
    return PAWL_OK;
}

static pawl_status add_single(const indexed *x, pawl_error *err) {
    const hdf5_layout *l = x->layout;
    hdf5_chunk chunk = {.at = l->address,
                        .stored = l->single_bytes > 0 ? l->single_bytes : l->chunk_bytes,
                        .mask = l->single_mask};
    return add_numbered(x, 0, &chunk, err);
}

static pawl_status add_implicit(const indexed *x, pawl_error *err) {
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
    const indexed *x;
    uint64_t element_bytes, page_bits, count, address;
    bool filtered;
} fixed_array;

static pawl_status decode_element(const fixed_array *a, uint64_t number, cursor *c,
                                  pawl_error *err) {
    hdf5_file *f = a->x->f;
    hdf5_chunk chunk = {.stored = a->x->layout->chunk_bytes};
    uint64_t mask;
    TRY(hdf5_address(f, c, &chunk.at, err));
    if (a->filtered) {
        TRY(hdf5_number(c, (unsigned)(a->element_bytes - f->offset_bytes - 4), &chunk.stored, err));
        TRY(hdf5_number(c, 4, &mask, err));
        chunk.mask = (uint32_t)mask;
    }
    return chunk.at == HDF5_NONE ? PAWL_OK : add_numbered(a->x, number, &chunk, err);
}

static pawl_status decode_elements(const fixed_array *a, uint64_t first, uint64_t n, cursor *c,
                                   pawl_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        TRY(decode_element(a, first + i, c, err));
    }
    return PAWL_OK;
}

static pawl_status open_array(fixed_array *a, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    hdf5_file *f = a->x->f;
    cursor c;
    uint64_t client;
    TRY(hdf5_load(f, a->x->layout->address, 12 + f->length_bytes + f->offset_bytes, "fixed array",
                  &bytes, &c, err));
    TRY(hdf5_checked(f, &c, err));
    TRY(hdf5_begin(f, &c, "FAHD", 0, err));
    TRY(hdf5_number(&c, 1, &client, err));
    TRY(hdf5_number(&c, 1, &a->element_bytes, err));
    TRY(hdf5_number(&c, 1, &a->page_bits, err));
    TRY(hdf5_length(f, &c, &a->count, err));
    TRY(hdf5_address(f, &c, &a->address, err));
    a->filtered = client == 1;
    uint64_t least = f->offset_bytes + (a->filtered ? 5u : 0u);
    if (client > 1 || a->element_bytes < least ||
        a->element_bytes > least + (a->filtered ? 7 : 0) || a->page_bits > 30 ||
        a->count != a->x->all) {
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
    uint64_t page_bytes = page * a->element_bytes + 4;
    cursor c;
    for (uint64_t i = 0; i * page < a->count; i++) {
        uint64_t left = a->count - i * page;
        uint64_t n = left < page ? left : page;
        if ((map->data[map->at + i / 8] >> (7 - i % 8) & 1) == 0) {
            continue;
        }
        TRY(hdf5_load(f, a->address + head + i * page_bytes, n * a->element_bytes + 4,
                      "page of a fixed array", &bytes, &c, err));
        TRY(hdf5_checked(f, &c, err));
        TRY(decode_elements(a, i * page, n, &c, err));
    }
    return PAWL_OK;
}

static pawl_status add_fixed(const indexed *x, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    hdf5_file *f = x->f;
    fixed_array a = {.x = x};
    cursor c;
    TRY(open_array(&a, err));
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
    TRY(hdf5_load(f, a.address, paged ? head : head + a.count * a.element_bytes,
                  "block of a fixed array", &bytes, &c, err));
    TRY(hdf5_checked(f, &c, err));
    TRY(hdf5_begin(f, &c, "FADB", 0, err));
    TRY(hdf5_skip(&c, 1 + (size_t)f->offset_bytes, err));
    return paged ? read_pages(&a, head, &c, err) : decode_elements(&a, 0, a.count, &c, err);
}

/* ---- a version 2 B-tree --------------------------------------------------------------------- */

typedef struct chunk_records {
    const indexed *x;
    bool filtered;
    size_t record_bytes;
} chunk_records;

static pawl_status take_record(void *context, cursor *c, pawl_error *err) {
    const chunk_records *r = context;
    const indexed *x = r->x;
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

static pawl_status add_tree(const indexed *x, pawl_error *err) {
    chunk_records r = {.x = x, .filtered = x->layout->filters.count > 0};
    return hdf5_tree_each(x->f, x->layout->address, r.filtered ? 11 : 10, &r.record_bytes,
                          take_record, &r, err);
}

pawl_status hdf5_chunks_indexed(hdf5_file *f, const hdf5_space *space, const hdf5_layout *layout,
                                hdf5_chunks *out, pawl_error *err) {
    indexed x = {.f = f, .space = space, .layout = layout, .out = out};
    if (layout->index == HDF5_TREE_2) {
        return add_tree(&x, err);
    }
    if (layout->index == HDF5_EXTENSIBLE) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, layout->message, 0, err,
                           "chunks in an extensible array");
    }
    TRY(count_most(&x, err));
    return layout->index == HDF5_SINGLE     ? add_single(&x, err)
           : layout->index == HDF5_IMPLICIT ? add_implicit(&x, err)
                                            : add_fixed(&x, err);
}
