/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensor whose elements lie at fixed distances in another stream, made row-major and
 * little-endian.
 *
 * It is made tile by tile. A tile is a box: some rows of one dimension, and all of those behind it.
 * Where the elements of a tile lie close together they are read at once, and picked from memory.
 * Otherwise they are read in runs along the dimension whose elements lie closest, so that of a
 * column-major matrix a piece of each column is read, not element by element.
 */
#include "foreign/streams.h"

#include <stdio.h>
#include <string.h>

#define TILE_BYTES 4194304u
#define SPAN_BYTES 4194304u /* read at once */

typedef struct strided_recipe {
    stream_recipe base;
    stream_layout layout; /* its arrays are the archive's; strides are there */
    uint64_t bytes;       /* of the whole tensor */
} strided_recipe;

typedef struct strided_file {
    store_file base;
    store in;
    store_file *inner;
    const stream_layout *layout;
    uint64_t bytes;
    uint8_t *tile, *span;        /* TILE_BYTES, SPAN_BYTES */
    uint64_t tile_at, tile_size; /* which bytes of the tensor the tile has */
} strided_file;

/* ---- tiles ---------------------------------------------------------------------------------- */

/* Elements of a tensor: all indexes of the dimensions from `ndim` - `count` on. */
typedef struct tile_box {
    uint64_t first; /* element of the tensor, in row-major order */
    uint64_t elements;
    int64_t extent[PAWL_MAX_NDIM]; /* 1 in the dimensions before the one that is cut */
    int64_t source;                /* element of its first element */
} tile_box;

/* The tile that has the element. */
static void find_tile(const stream_layout *l, uint64_t element, tile_box *out) {
    uint64_t room = TILE_BYTES / l->element_bytes;
    uint64_t behind = 1; /* elements of the dimensions behind the one that is cut */
    int cut = l->ndim;
    while (cut > 0 && behind * (uint64_t)l->shape[cut - 1] <= room) {
        behind *= (uint64_t)l->shape[--cut];
    }
    for (int d = 0; d < l->ndim; d++) {
        out->extent[d] = d < cut ? 1 : l->shape[d];
    }
    out->first = element / behind * behind;
    out->elements = behind;
    if (cut > 0) {
        uint64_t length = (uint64_t)l->shape[cut - 1];
        uint64_t row = element / behind % length;
        uint64_t rows = room / behind;
        uint64_t begin = row / rows * rows;
        rows = rows < length - begin ? rows : length - begin;
        out->extent[cut - 1] = (int64_t)rows;
        out->first -= (row - begin) * behind;
        out->elements = rows * behind;
    }
    uint64_t left = out->first;
    out->source = 0;
    for (int d = l->ndim - 1; d >= 0; d--) {
        out->source += (int64_t)(left % (uint64_t)l->shape[d]) * l->strides[d];
        left /= (uint64_t)l->shape[d];
    }
}

/* The element of the source that is the lowest of the box, and how many from there to the last. */
static uint64_t find_span(const stream_layout *l, const tile_box *b, int64_t *lowest) {
    uint64_t span = 1;
    *lowest = b->source;
    for (int d = 0; d < l->ndim; d++) {
        int64_t reach = (b->extent[d] - 1) * l->strides[d];
        *lowest += reach < 0 ? reach : 0;
        span += (uint64_t)(reach < 0 ? -reach : reach);
    }
    return span;
}

/* ---- reading them --------------------------------------------------------------------------- */

static pawl_status read_elements(strided_file *f, int64_t first, uint64_t n, void *to,
                                 pawl_error *err) {
    const stream_layout *l = f->layout;
    uint64_t at = l->offset + (uint64_t)first * l->element_bytes;
    return store_read(f->inner, at, to, (size_t)(n * l->element_bytes), err);
}

static inline void copy_element(uint8_t *to, const uint8_t *from, uint32_t bytes) {
    switch (bytes) {
    case 1:
        *to = *from;
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    default:
        memcpy(to, from, bytes);
        break;
    }
}

/* `n` elements, from one distance to another. */
static void copy_run(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step,
                     uint64_t n, uint32_t bytes) {
    for (uint64_t i = 0; i < n; i++) {
        copy_element(to + (int64_t)i * to_step * bytes, from + (int64_t)i * from_step * bytes,
                     bytes);
    }
}

/* A walk over a box, along all dimensions but one. */
typedef struct run_walk {
    const stream_layout *layout;
    const tile_box *box;
    int along;
    int64_t out_strides[PAWL_MAX_NDIM];
    int64_t index[PAWL_MAX_NDIM];
    int64_t source, out; /* elements */
} run_walk;

static void begin_runs(run_walk *w, const stream_layout *l, const tile_box *b, int along) {
    *w = (run_walk){.layout = l, .box = b, .along = along, .source = b->source};
    int64_t stride = 1;
    for (int d = l->ndim - 1; d >= 0; d--) {
        w->out_strides[d] = stride;
        stride *= b->extent[d];
    }
}

static bool next_run(run_walk *w) {
    for (int d = w->layout->ndim - 1; d >= 0; d--) {
        if (d == w->along) {
            continue;
        }
        w->source += w->layout->strides[d];
        w->out += w->out_strides[d];
        if (++w->index[d] < w->box->extent[d]) {
            return true;
        }
        w->source -= w->box->extent[d] * w->layout->strides[d];
        w->out -= w->box->extent[d] * w->out_strides[d];
        w->index[d] = 0;
    }
    return false;
}

/* The dimension along which elements lie closest, of those that have more than one. */
static int closest_dimension(const stream_layout *l, const tile_box *b) {
    int best = l->ndim - 1;
    uint64_t best_stride = UINT64_MAX;
    for (int d = l->ndim - 1; d >= 0; d--) {
        uint64_t stride = (uint64_t)(l->strides[d] < 0 ? -l->strides[d] : l->strides[d]);
        if (b->extent[d] > 1 && stride < best_stride) {
            best = d;
            best_stride = stride;
        }
    }
    return best;
}

static void pick_from_span(const strided_file *f, const tile_box *b, int64_t lowest) {
    const stream_layout *l = f->layout;
    uint32_t bytes = l->element_bytes;
    run_walk w;
    int last = l->ndim - 1;
    begin_runs(&w, l, b, last);
    do {
        const uint8_t *from = f->span + (w.source - lowest) * bytes;
        uint8_t *to = f->tile + w.out * bytes;
        if (l->strides[last] == 1) {
            memcpy(to, from, (size_t)b->extent[last] * bytes);
        } else {
            copy_run(to, 1, from, l->strides[last], (uint64_t)b->extent[last], bytes);
        }
    } while (next_run(&w));
}

/* A run of elements whose distance is `stride`, some at a time through the span's memory. */
static pawl_status read_run(strided_file *f, const run_walk *w, pawl_error *err) {
    const stream_layout *l = f->layout;
    uint32_t bytes = l->element_bytes;
    int64_t stride = l->strides[w->along];
    uint64_t distance = (uint64_t)(stride < 0 ? -stride : stride);
    uint64_t length = (uint64_t)w->box->extent[w->along];
    uint64_t room = SPAN_BYTES / bytes;
    uint64_t most = distance < room ? (distance > 0 ? (room - 1) / distance + 1 : length) : 1;
    for (uint64_t i = 0; i < length; i += most) {
        uint64_t n = most < length - i ? most : length - i;
        uint64_t span = (n - 1) * distance + 1;
        int64_t first = w->source + (int64_t)i * stride;
        int64_t lowest = stride < 0 ? first - (int64_t)(span - 1) : first;
        TRY(read_elements(f, lowest, span, f->span, err));
        copy_run(f->tile + (w->out + (int64_t)i * w->out_strides[w->along]) * bytes,
                 w->out_strides[w->along], f->span + (first - lowest) * bytes, stride, n, bytes);
    }
    return PAWL_OK;
}

static pawl_status read_runs(strided_file *f, const tile_box *b, pawl_error *err) {
    run_walk w;
    begin_runs(&w, f->layout, b, closest_dimension(f->layout, b));
    do {
        TRY(read_run(f, &w, err));
    } while (next_run(&w));
    return PAWL_OK;
}

static void swap_elements(uint8_t *bytes, uint64_t n, uint32_t each) {
    for (uint64_t i = 0; i + each <= n; i += each) {
        for (uint32_t k = 0; k < each / 2; k++) {
            uint8_t byte = bytes[i + k];
            bytes[i + k] = bytes[i + each - 1 - k];
            bytes[i + each - 1 - k] = byte;
        }
    }
}

/* The sign is the highest bit, which is last. */
static void conjugate_elements(uint8_t *bytes, uint64_t n, uint32_t each) {
    for (uint64_t end = each; end <= n; end += each) {
        bytes[end - 1] ^= 0x80;
    }
}

static pawl_status make_tile(strided_file *f, uint64_t at, pawl_error *err) {
    const stream_layout *l = f->layout;
    tile_box b;
    int64_t lowest;
    find_tile(l, at / l->element_bytes, &b);
    uint64_t span = find_span(l, &b, &lowest);
    f->tile_size = 0;
    if (span <= SPAN_BYTES / l->element_bytes && span / 4 <= b.elements) {
        TRY(read_elements(f, lowest, span, f->span, err));
        pick_from_span(f, &b, lowest);
    } else {
        TRY(read_runs(f, &b, err));
    }
    f->tile_at = b.first * l->element_bytes;
    f->tile_size = b.elements * l->element_bytes;
    if (l->swap_bytes > 1) {
        swap_elements(f->tile, f->tile_size, l->swap_bytes);
    }
    if (l->conjugated) {
        conjugate_elements(f->tile, f->tile_size, l->element_bytes);
    }
    return PAWL_OK;
}

/* ---- the file ------------------------------------------------------------------------------- */

static pawl_status read_strided(store_file *base, uint64_t at, void *to, size_t n, size_t *got,
                                pawl_error *err) {
    strided_file *f = (strided_file *)base;
    *got = 0;
    if (at >= f->bytes || n == 0) {
        return PAWL_OK;
    }
    if (at < f->tile_at || at - f->tile_at >= f->tile_size) {
        TRY(make_tile(f, at, err));
    }
    uint64_t left = f->tile_size - (at - f->tile_at);
    *got = n < left ? n : (size_t)left;
    memcpy(to, f->tile + (at - f->tile_at), *got);
    return PAWL_OK;
}

static pawl_status size_of_strided(store_file *base, uint64_t *out, pawl_error *err) {
    (void)err;
    *out = ((strided_file *)base)->bytes;
    return PAWL_OK;
}

static void close_strided(store_file *base) {
    strided_file *f = (strided_file *)base;
    store_close(f->inner);
    mem_free(f->tile);
    mem_free(f->span);
    mem_free(f);
}

static const store_ops strided_ops = {
    .read = read_strided, .size = size_of_strided, .close = close_strided};

static pawl_status open_strided(const stream_recipe *base, archive *a, store_mode mode,
                                store_file **out, pawl_error *err) {
    const strided_recipe *r = (const strided_recipe *)base;
    CLEANUP(store_close_pointer) store_file *inner = NULL;
    (void)mode; /* what is read of the other stream is small, or is read again: by the page cache */
    TRY(archive_open_stream(a, r->layout.stream, STORE_READ, &inner, err));
    if (a->base.parts != NULL && r->layout.stream < a->base.files) {
        source_parts_mark(a->base.parts, r->layout.stream, r->layout.offset);
    }
    strided_file *f = mem_calloc(1, sizeof(*f));
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    f->tile = mem_alloc(TILE_BYTES);
    f->span = mem_alloc(SPAN_BYTES);
    if (f->tile == NULL || f->span == NULL) {
        close_strided(&f->base);
        return error_nomem(err, (size_t)TILE_BYTES + SPAN_BYTES);
    }
    f->in =
        (store){.ops = &strided_ops, .traits = a->base.store->traits, .root = a->base.store->root};
    f->base.in = &f->in;
    (void)snprintf(f->base.path, sizeof(f->base.path), "%s", inner->path);
    f->inner = inner;
    inner = NULL;
    f->layout = &r->layout;
    f->bytes = r->bytes;
    *out = &f->base;
    return PAWL_OK;
}

/* ---- adding one ----------------------------------------------------------------------------- */

static pawl_status refuse_layout(const stream_layout *l, uint64_t stream_bytes, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "a tensor has elements outside of what it is made of");
    error_expected(err, "elements of %u bytes within %llu bytes", l->element_bytes,
                   (unsigned long long)stream_bytes);
    error_found(err, "the first at byte %llu, and %d strides that lead beyond",
                (unsigned long long)l->offset, l->ndim);
    return PAWL_EDAMAGED;
}

/* How far the elements reach below and above the first; false where that is beyond all bounds. */
static bool find_reach(const stream_layout *l, uint64_t *below, uint64_t *above) {
    *below = 0;
    *above = 0;
    for (int d = 0; d < l->ndim; d++) {
        uint64_t stride = l->strides[d] < 0 ? 0 - (uint64_t)l->strides[d] : (uint64_t)l->strides[d];
        uint64_t reach;
        uint64_t *side = l->strides[d] < 0 ? below : above;
        if (multiply_overflows((uint64_t)l->shape[d] - 1, stride, &reach) ||
            add_overflows(*side, reach, side) || *side > INT64_MAX / 2) {
            return false;
        }
    }
    return true;
}

static bool stays_inside(const stream_layout *l, uint64_t stream_bytes) {
    uint64_t below, above, bytes, end;
    if (!find_reach(l, &below, &above)) {
        return false;
    }
    return !multiply_overflows(below, l->element_bytes, &bytes) && bytes <= l->offset &&
           !multiply_overflows(above + 1, l->element_bytes, &bytes) &&
           !add_overflows(l->offset, bytes, &end) && end <= stream_bytes;
}

/* Of an empty tensor nothing is read. */
static pawl_status count_bytes(const stream_layout *l, uint64_t *out, pawl_error *err) {
    uint64_t bytes = l->element_bytes;
    for (int d = 0; d < l->ndim; d++) {
        if (l->shape[d] <= 0) {
            *out = 0;
            return l->shape[d] == 0 ? PAWL_OK : refuse_layout(l, 0, err);
        }
        if (multiply_overflows(bytes, (uint64_t)l->shape[d], &bytes) || bytes > INT64_MAX) {
            return refuse_layout(l, 0, err);
        }
    }
    *out = bytes;
    return PAWL_OK;
}

static pawl_status copy_layout(archive *a, const stream_layout *l, strided_recipe *r,
                               pawl_error *err) {
    size_t n = (size_t)l->ndim;
    int64_t *numbers = arena_take(&a->base.memory, (2 * n + 2) * sizeof(*numbers), err);
    if (numbers == NULL) {
        return PAWL_ENOMEM;
    }
    int64_t *shape = numbers;
    int64_t *strides = numbers + n + 1;
    int64_t stride = 1;
    for (int d = l->ndim - 1; d >= 0; d--) {
        shape[d] = l->shape[d];
        strides[d] = l->strides != NULL ? l->strides[d] : stride;
        stride = r->bytes > 0 ? stride * l->shape[d] : 0; /* nothing is read of an empty one */
    }
    r->layout = *l;
    if (l->ndim == 0) { /* a scalar is a vector of one */
        shape[0] = 1;
        strides[0] = 1;
        r->layout.ndim = 1;
    }
    r->layout.shape = shape;
    r->layout.strides = strides;
    return PAWL_OK;
}

pawl_status stream_add_strided(archive *a, const stream_layout *layout, uint64_t stream_bytes,
                               uint32_t *out, pawl_error *err) {
    uint64_t bytes;
    TRY(count_bytes(layout, &bytes, err));
    strided_recipe *r = arena_take(&a->base.memory, sizeof(*r), err);
    if (r == NULL) {
        return PAWL_ENOMEM;
    }
    *r = (strided_recipe){.base = {.open = open_strided}, .bytes = bytes};
    TRY(copy_layout(a, layout, r, err));
    if (bytes > 0 && !stays_inside(&r->layout, stream_bytes)) {
        return refuse_layout(&r->layout, stream_bytes, err);
    }
    return archive_add_stream(a, archive_file_of(a, layout->stream), bytes, &r->base, out, err);
}
