/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The elements of chunks as a stream: each chunk's after the other, row-major within it and cut at
 * the shape, little-endian. A chunk that is compressed is unpacked whole, the last one is kept;
 * others are read through a window.
 */
#include "foreign/hdf5/chunk_unpack.h"

#include <stdio.h>

#define WINDOW_BYTES ((uint64_t)1048576)
#define NO_CHUNK     SIZE_MAX

typedef struct chunk_recipe {
    stream_recipe base;
    uint32_t stream; /* that the file is in */
    hdf5_filters filters;
    const hdf5_chunk *chunks;
    size_t count;
    int ndim;
    const int64_t *shape, *extent; /* of the tensor, and of a chunk */
    uint64_t chunk_bytes, bytes;
    uint32_t element_bytes, swap;
    bool filled, unpacks; /* any of the chunks is unpacked */
    uint8_t fill[16];     /* little-endian */
} chunk_recipe;

typedef struct chunk_file {
    store_file base;
    store in;
    archive *a;
    const chunk_recipe *recipe;
    chunk_unpacker u;
    size_t chunk;        /* that was looked at last */
    uint64_t at, loaded; /* bytes of it that are in u.data */
} chunk_file;

/* ---- elements ---- */

static void swap_units(uint8_t *bytes, size_t n, size_t unit) {
    for (size_t i = 0; unit > 1 && i + unit <= n; i += unit) {
        for (size_t k = 0; k < unit / 2; k++) {
            uint8_t byte = bytes[i + k];
            bytes[i + k] = bytes[i + unit - 1 - k];
            bytes[i + unit - 1 - k] = byte;
        }
    }
}

/* First all first bytes of the chunk's elements, then all second ones. */
static void gather_shuffled(const chunk_file *f, uint64_t first, size_t n, uint8_t *to) {
    const chunk_recipe *r = f->recipe;
    size_t each = r->element_bytes;
    size_t all = (size_t)(r->chunk_bytes / each);
    for (size_t k = 0; k < each; k++) {
        const uint8_t *from = f->u.data + k * all + first;
        for (size_t i = 0; i < n; i++) {
            to[i * each + k] = from[i];
        }
    }
}

/* Loads so many elements of the chunk that is looked at as lie together; at least one. */
static pawl_status load_window(chunk_file *f, const hdf5_chunk *chunk, uint64_t at, uint64_t *n,
                               pawl_error *err) {
    const chunk_recipe *r = f->recipe;
    if (at < f->at || at - f->at >= f->loaded || f->loaded - (at - f->at) < r->element_bytes) {
        uint64_t left = r->chunk_bytes - at;
        uint64_t bytes = left < WINDOW_BYTES ? left : WINDOW_BYTES;
        f->loaded = 0;
        TRY(store_read(f->u.inner, chunk->at + at, f->u.data, (size_t)bytes, err));
        f->at = at;
        f->loaded = bytes;
    }
    uint64_t there = (f->loaded - (at - f->at)) / r->element_bytes;
    *n = *n < there ? *n : there;
    return PAWL_OK;
}

/* `*n` elements that lie together in a chunk, or fewer. */
static pawl_status copy_run(chunk_file *f, const hdf5_chunk *chunk, uint64_t first, uint64_t *n,
                            uint8_t *to, pawl_error *err) {
    const chunk_recipe *r = f->recipe;
    uint64_t at = first * r->element_bytes;
    if (f->u.shuffled) {
        gather_shuffled(f, first, (size_t)*n, to);
    } else {
        if (!chunk_is_packed(&r->filters, chunk->mask)) {
            TRY(load_window(f, chunk, at, n, err));
        }
        memcpy(to, f->u.data + (at - f->at), (size_t)*n * r->element_bytes);
    }
    swap_units(to, (size_t)*n * r->element_bytes, r->swap);
    return PAWL_OK;
}

/* How a chunk is cut: its part of the tensor, and how many elements of it lie together. */
typedef struct cut {
    uint64_t extent[PAWL_MAX_NDIM];
    uint64_t together;
} cut;

static void find_cut(const chunk_recipe *r, const hdf5_chunk *chunk, cut *out) {
    uint64_t index = chunk->index;
    bool whole = true;
    out->together = 1;
    for (int d = r->ndim - 1; d >= 0; d--) {
        uint64_t extent = (uint64_t)r->extent[d];
        uint64_t grid = ((uint64_t)r->shape[d] - 1) / extent + 1;
        uint64_t left = (uint64_t)r->shape[d] - index % grid * extent;
        index /= grid;
        out->extent[d] = left < extent ? left : extent;
        out->together *= whole ? out->extent[d] : 1;
        whole = whole && out->extent[d] == extent;
    }
}

/* Where an element of the cut box is in the chunk. */
static uint64_t place_of(const chunk_recipe *r, const cut *c, uint64_t element) {
    uint64_t stride = 1;
    uint64_t place = 0;
    for (int d = r->ndim - 1; d >= 0; d--) {
        place += element % c->extent[d] * stride;
        element /= c->extent[d];
        stride *= (uint64_t)r->extent[d];
    }
    return place;
}

static pawl_status copy_elements(chunk_file *f, const hdf5_chunk *chunk, uint64_t at, uint8_t *to,
                                 size_t n, pawl_error *err) {
    const chunk_recipe *r = f->recipe;
    uint32_t each = r->element_bytes;
    cut c;
    find_cut(r, chunk, &c);
    while (n > 0) {
        uint8_t one[16];
        uint64_t element = at / each;
        size_t skip = (size_t)(at % each);
        uint64_t first = place_of(r, &c, element);
        uint64_t run = c.together - element % c.together;
        size_t bytes;
        if (skip > 0 || n < each) { /* an element is begun, or ended */
            run = 1;
            TRY(copy_run(f, chunk, first, &run, one, err));
            bytes = n < each - skip ? n : each - skip;
            memcpy(to, one + skip, bytes);
        } else {
            run = run < n / each ? run : n / each;
            TRY(copy_run(f, chunk, first, &run, to, err));
            bytes = (size_t)run * each;
        }
        at += bytes;
        to += bytes;
        n -= bytes;
    }
    return PAWL_OK;
}

static void copy_fill(const chunk_recipe *r, uint64_t at, uint8_t *to, size_t n) {
    memset(to, 0, n);
    for (size_t i = 0; r->filled && i < n; i++) {
        to[i] = r->fill[(at + i) % r->element_bytes];
    }
}

/* ---- the file ---- */

static size_t find_chunk(const chunk_recipe *r, uint64_t at) {
    size_t low = 0;
    size_t high = r->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (r->chunks[middle].out <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static pawl_status look_at(chunk_file *f, size_t i, pawl_error *err) {
    const chunk_recipe *r = f->recipe;
    const hdf5_chunk *chunk = &r->chunks[i];
    if (f->chunk == i) {
        return PAWL_OK;
    }
    f->chunk = NO_CHUNK;
    f->at = 0;
    f->loaded = 0;
    f->u.shuffled = false;
    if (chunk_is_packed(&r->filters, chunk->mask)) {
        TRY(chunk_unpack(&f->u, &r->filters, chunk, r->chunk_bytes, err));
    }
    f->chunk = i;
    return PAWL_OK;
}

static pawl_status read_chunks(store_file *base, uint64_t at, void *to, size_t n, size_t *got,
                               pawl_error *err) {
    chunk_file *f = (chunk_file *)base;
    const chunk_recipe *r = f->recipe;
    *got = 0;
    if (at >= r->bytes || n == 0) {
        return PAWL_OK;
    }
    size_t i = find_chunk(r, at);
    const hdf5_chunk *chunk = &r->chunks[i];
    uint64_t left = (i + 1 < r->count ? chunk[1].out : r->bytes) - at;
    n = n < left ? n : (size_t)left;
    pawl_status status = PAWL_OK;
    if (chunk->at == HDF5_NONE) {
        copy_fill(r, at - chunk->out, to, n);
    } else {
        status = look_at(f, i, err);
        if (status == PAWL_OK) {
            status = copy_elements(f, chunk, at - chunk->out, to, n, err);
        }
    }
    if (status == PAWL_EDAMAGED && err->path[0] == '\0') {
        archive_error_file(f->a, archive_file_of(f->a, r->stream), err);
    }
    *got = status == PAWL_OK ? n : 0;
    return status;
}

static pawl_status size_of_chunks(store_file *base, uint64_t *out, pawl_error *err) {
    (void)err;
    *out = ((chunk_file *)base)->recipe->bytes;
    return PAWL_OK;
}

static void close_chunks(store_file *base) {
    chunk_file *f = (chunk_file *)base;
    store_close(f->u.inner);
    chunk_unpacker_free(&f->u);
    mem_free(f);
}

static const store_ops chunk_ops = {
    .read = read_chunks, .size = size_of_chunks, .close = close_chunks};

static pawl_status open_chunks(const stream_recipe *base, archive *a, store_mode mode,
                               store_file **out, pawl_error *err) {
    const chunk_recipe *r = (const chunk_recipe *)base;
    CLEANUP(store_close_pointer) store_file *inner = NULL;
    (void)mode; /* chunks are small, and lie anywhere */
    TRY(archive_open_stream(a, r->stream, STORE_READ, &inner, err));
    chunk_file *f = mem_calloc(1, sizeof(*f));
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    uint64_t window = r->chunk_bytes < WINDOW_BYTES ? r->chunk_bytes : WINDOW_BYTES;
    uint64_t room = r->unpacks ? chunk_room(&r->filters, r->chunk_bytes) : window;
    f->u.data = mem_alloc((size_t)(room > window ? room : window));
    if (f->u.data == NULL) {
        mem_free(f);
        return error_nomem(err, (size_t)room);
    }
    f->in =
        (store){.ops = &chunk_ops, .traits = a->base.store->traits, .root = a->base.store->root};
    f->base.in = &f->in;
    (void)snprintf(f->base.path, sizeof(f->base.path), "%s", inner->path);
    f->u.inner = inner;
    inner = NULL;
    f->a = a;
    f->recipe = r;
    f->chunk = NO_CHUNK;
    *out = &f->base;
    return PAWL_OK;
}

/* ---- checking one ---- */

bool hdf5_is_stream(const stream_recipe *recipe) {
    return recipe->open == open_chunks;
}

pawl_status hdf5_check_stream(const stream_recipe *recipe, archive *a, source_verifier *v,
                              pawl_error *err) {
    const chunk_recipe *r = (const chunk_recipe *)recipe;
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    if (!r->unpacks) {
        return PAWL_OK;
    }
    TRY(open_chunks(recipe, a, STORE_READ, &opened, err));
    for (size_t i = 0; opened != NULL && i < r->count; i++) {
        if (r->chunks[i].at != HDF5_NONE) {
            TRY(look_at((chunk_file *)opened, i, err));
            TRY(v->progress(v->context, 0, err));
        }
    }
    return PAWL_OK;
}

/* ---- adding one ---- */

static void *keep(hdf5_file *f, const void *items, size_t bytes, pawl_error *err) {
    void *copy = arena_take(&f->a->base.memory, bytes + 1, err);
    if (copy != NULL && bytes > 0) {
        memcpy(copy, items, bytes);
    }
    return copy;
}

pawl_status hdf5_add_stream(hdf5_file *f, const hdf5_stream_spec *spec, uint32_t *out,
                            pawl_error *err) {
    size_t numbers = (size_t)spec->ndim * sizeof(int64_t);
    chunk_recipe *r = arena_take(&f->a->base.memory, sizeof(*r), err);
    if (r == NULL) {
        return PAWL_ENOMEM;
    }
    *r = (chunk_recipe){.base = {.open = open_chunks},
                        .stream = f->place.stream,
                        .filters = spec->layout->filters,
                        .chunks = keep(f, spec->chunks, spec->count * sizeof(*spec->chunks), err),
                        .count = spec->count,
                        .ndim = spec->ndim,
                        .shape = keep(f, spec->shape, numbers, err),
                        .extent = keep(f, spec->layout->chunk, numbers, err),
                        .chunk_bytes = spec->layout->chunk_bytes,
                        .bytes = spec->bytes,
                        .element_bytes = spec->element_bytes,
                        .swap = spec->swap,
                        .filled = spec->layout->filled};
    if (r->chunks == NULL || r->shape == NULL || r->extent == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < r->count; i++) {
        r->unpacks = r->unpacks || (r->chunks[i].at != HDF5_NONE &&
                                    chunk_is_packed(&r->filters, r->chunks[i].mask));
    }
    memcpy(r->fill, spec->layout->fill, sizeof(r->fill));
    swap_units(r->fill, r->element_bytes, r->swap);
    return archive_add_stream(f->a, archive_file_of(f->a, f->place.stream), spec->bytes, &r->base,
                              out, err);
}
