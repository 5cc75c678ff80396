/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between dense and strided memory. A stretch of the dense row-major form is cut into boxes
 * (at most two for each dimension), and each box is one strided copy.
 */
#include "tensor/tensor.h"

#include <assert.h>
#include <string.h>

/* Below this many contiguous bytes, two dimensions are copied tile by tile, so that a transposed
 * tensor's cache lines are used whole. No more lines at once than the ways of a first-level cache:
 * with strides of a power of two they share a set. */
#define TILE_RUN_BYTES 64
#define TILE_ROWS      ((size_t)8)

static size_t element_bytes(pawl_dtype dtype) {
    return (size_t)pawl_dtype_bits(dtype) / 8;
}

/* They may overflow for an empty box, which has no element that they lead to. */
static void row_major_strides(int ndim, const int64_t *extent, size_t item, int64_t *strides) {
    uint64_t stride = item;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = (int64_t)stride;
        stride *= (uint64_t)extent[i];
    }
}

static void byte_strides(const strided *memory, size_t item, int64_t *strides) {
    if (memory->strides == NULL) {
        row_major_strides(memory->box.ndim, memory->box.extent, item, strides);
        return;
    }
    memcpy(strides, memory->strides, (size_t)memory->box.ndim * sizeof(*strides));
}

bool strided_is_dense(const strided *memory) {
    size_t item = element_bytes(memory->dtype);
    if (memory->strides == NULL || item == 0 || box_elements(&memory->box) == 0) {
        return true;
    }
    int64_t strides[PAWL_MAX_NDIM] = {0};
    row_major_strides(memory->box.ndim, memory->box.extent, item, strides);
    for (int i = 0; i < memory->box.ndim; i++) {
        if (memory->box.extent[i] > 1 && memory->strides[i] != strides[i]) {
            return false;
        }
    }
    return true;
}

/* ---- one box from strides to strides -------------------------------------------------------- */

typedef struct copying {
    int ndim;
    int64_t extent[PAWL_MAX_NDIM];
    int64_t to_stride[PAWL_MAX_NDIM], from_stride[PAWL_MAX_NDIM];
    size_t run; /* contiguous bytes on both sides, below the dimensions above */
} copying;

static inline __attribute__((always_inline)) void copy_items(uint8_t *to, int64_t to_stride,
                                                             const uint8_t *from,
                                                             int64_t from_stride, size_t bytes,
                                                             size_t count) {
    for (int64_t i = 0; i < (int64_t)count; i++) {
        memcpy(to + i * to_stride, from + i * from_stride, bytes);
    }
}

/* With the sizes of elements as constants, memcpy is one move. */
static void copy_row(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride,
                     size_t bytes, size_t count) {
    switch (bytes) {
    case 1:
        copy_items(to, to_stride, from, from_stride, 1, count);
        break;
    case 2:
        copy_items(to, to_stride, from, from_stride, 2, count);
        break;
    case 4:
        copy_items(to, to_stride, from, from_stride, 4, count);
        break;
    case 8:
        copy_items(to, to_stride, from, from_stride, 8, count);
        break;
    case 16:
        copy_items(to, to_stride, from, from_stride, 16, count);
        break;
    default:
        copy_items(to, to_stride, from, from_stride, bytes, count);
    }
}

/* Leaves out extents of 1, joins dimensions that are contiguous on both sides, and makes the last
 * one the run where it is. */
static copying copying_of(int ndim, const int64_t *extent, const int64_t *to_stride,
                          const int64_t *from_stride, size_t item) {
    copying c = {.run = item};
    for (int i = 0; i < ndim; i++) {
        if (extent[i] == 1) {
            continue;
        }
        int last = c.ndim - 1;
        int64_t longer = extent[i];
        if (last >= 0 && c.to_stride[last] == to_stride[i] * extent[i] &&
            c.from_stride[last] == from_stride[i] * extent[i]) {
            longer *= c.extent[last];
            c.ndim = last;
        }
        c.extent[c.ndim] = longer;
        c.to_stride[c.ndim] = to_stride[i];
        c.from_stride[c.ndim] = from_stride[i];
        c.ndim++;
    }
    int last = c.ndim - 1;
    if (last >= 0 && c.to_stride[last] == (int64_t)item && c.from_stride[last] == (int64_t)item) {
        c.run = item * (size_t)c.extent[last];
        c.ndim = last;
    }
    return c;
}

/* The two last dimensions. */
static void copy_plane(const copying *c, uint8_t *to, const uint8_t *from) {
    int outer = c->ndim - 2;
    int inner = c->ndim - 1;
    size_t count = (size_t)c->extent[inner];
    size_t tile = c->run < TILE_RUN_BYTES ? TILE_ROWS : count;
    for (size_t begin = 0; begin < count; begin += tile) {
        size_t rows = count - begin < tile ? count - begin : tile;
        int64_t skip = (int64_t)begin;
        for (int64_t i = 0; i < c->extent[outer]; i++) {
            copy_row(to + i * c->to_stride[outer] + skip * c->to_stride[inner], c->to_stride[inner],
                     from + i * c->from_stride[outer] + skip * c->from_stride[inner],
                     c->from_stride[inner], c->run, rows);
        }
    }
}

static void copy_planes(const copying *c, uint8_t *to, const uint8_t *from) {
    int64_t index[PAWL_MAX_NDIM] = {0};
    for (;;) {
        int64_t to_at = 0;
        int64_t from_at = 0;
        for (int i = 0; i < c->ndim - 2; i++) {
            to_at += index[i] * c->to_stride[i];
            from_at += index[i] * c->from_stride[i];
        }
        copy_plane(c, to + to_at, from + from_at);
        int i = c->ndim - 3;
        while (i >= 0 && ++index[i] == c->extent[i]) {
            index[i--] = 0;
        }
        if (i < 0) {
            return;
        }
    }
}

static void copy_strided(int ndim, const int64_t *extent, uint8_t *to, const int64_t *to_stride,
                         const uint8_t *from, const int64_t *from_stride, size_t item) {
    copying c = copying_of(ndim, extent, to_stride, from_stride, item);
    if (c.ndim == 0) {
        memcpy(to, from, c.run);
    } else if (c.ndim == 1) {
        copy_row(to, c.to_stride[0], from, c.from_stride[0], c.run, (size_t)c.extent[0]);
    } else {
        copy_planes(&c, to, from);
    }
}

/* ---- a stretch, box by box ------------------------------------------------------------------ */

box box_leading(const box *whole, uint64_t first, uint64_t most) {
    box b = {.ndim = whole->ndim};
    uint64_t size = 1;  /* elements of one step in the dimension at hand */
    bool begins = true; /* at the beginning of every dimension further in */
    for (int i = whole->ndim - 1; i >= 0; i--) {
        uint64_t extent = (uint64_t)whole->extent[i];
        uint64_t index = first % extent;
        uint64_t steps = begins ? most / size : 0;
        first /= extent;
        b.offset[i] = whole->offset[i] + (int64_t)index;
        b.extent[i] = 1;
        if (steps > 0) {
            b.extent[i] = (int64_t)(steps < extent - index ? steps : extent - index);
            for (int j = i + 1; j < whole->ndim; j++) {
                b.extent[j] = whole->extent[j];
            }
        }
        begins = begins && index == 0;
        size *= extent;
    }
    return b;
}

static int64_t place_in(const box *b, const int64_t *strides, const box *outer) {
    int64_t at = 0;
    for (int i = 0; i < b->ndim; i++) {
        at += (b->offset[i] - outer->offset[i]) * strides[i];
    }
    return at;
}

static uint8_t *element_of(const strided *memory, uint64_t element, const int64_t *strides) {
    box at = box_leading(&memory->box, element, 1);
    return memory->data + place_in(&at, strides, &memory->box);
}

typedef struct stretch {
    uint64_t from; /* elements */
    uint64_t n;
} stretch;

static void gather_elements(const strided *memory, const int64_t *strides, stretch s, uint8_t *to) {
    size_t item = element_bytes(memory->dtype);
    while (s.n > 0) {
        box b = box_leading(&memory->box, s.from, s.n);
        uint64_t count = box_elements(&b);
        int64_t dense[PAWL_MAX_NDIM] = {0};
        row_major_strides(b.ndim, b.extent, item, dense);
        copy_strided(b.ndim, b.extent, to, dense,
                     memory->data + place_in(&b, strides, &memory->box), strides, item);
        to += count * item;
        s.from += count;
        s.n -= count;
    }
}

static void scatter_elements(const strided *memory, const int64_t *strides, stretch s,
                             const uint8_t *bytes) {
    size_t item = element_bytes(memory->dtype);
    while (s.n > 0) {
        box b = box_leading(&memory->box, s.from, s.n);
        uint64_t count = box_elements(&b);
        int64_t dense[PAWL_MAX_NDIM] = {0};
        row_major_strides(b.ndim, b.extent, item, dense);
        copy_strided(b.ndim, b.extent, memory->data + place_in(&b, strides, &memory->box), strides,
                     bytes, dense, item);
        bytes += count * item;
        s.from += count;
        s.n -= count;
    }
}

/* Bytes of the first element of a stretch where it has only a part of it; else 0. */
static size_t partial_bytes(uint64_t from, size_t n, size_t item) {
    size_t within = (size_t)(from % item);
    size_t rest = item - within;
    if (within == 0 && n >= item) {
        return 0;
    }
    return n < rest ? n : rest;
}

void strided_gather(const strided *memory, uint64_t from, size_t n, uint8_t *to) {
    if (n == 0) {
        return;
    }
    if (strided_is_dense(memory)) {
        memcpy(to, memory->data + from, n);
        return;
    }
    size_t item = element_bytes(memory->dtype);
    int64_t strides[PAWL_MAX_NDIM] = {0};
    byte_strides(memory, item, strides);
    while (n > 0) {
        size_t now = partial_bytes(from, n, item);
        if (now > 0) {
            memcpy(to, element_of(memory, from / item, strides) + from % item, now);
        } else {
            now = n / item * item;
            gather_elements(memory, strides, (stretch){from / item, n / item}, to);
        }
        to += now;
        from += now;
        n -= now;
    }
}

/* The reverse of strided_gather. */
static void scatter(const strided *memory, uint64_t from, size_t n, const uint8_t *bytes) {
    if (n == 0) {
        return;
    }
    if (strided_is_dense(memory)) {
        memcpy(memory->data + from, bytes, n);
        return;
    }
    size_t item = element_bytes(memory->dtype);
    int64_t strides[PAWL_MAX_NDIM] = {0};
    byte_strides(memory, item, strides);
    while (n > 0) {
        size_t now = partial_bytes(from, n, item);
        if (now > 0) {
            memcpy(element_of(memory, from / item, strides) + from % item, bytes, now);
        } else {
            now = n / item * item;
            scatter_elements(memory, strides, (stretch){from / item, n / item}, bytes);
        }
        bytes += now;
        from += now;
        n -= now;
    }
}

/* Places those elements of `b` that are in the memory; `bytes` is the dense form of `b`. */
static void place_box(const strided *memory, const int64_t *strides, const box *b,
                      const uint8_t *bytes) {
    size_t item = element_bytes(memory->dtype);
    box shared;
    if (!box_intersect(&memory->box, b, &shared)) {
        return;
    }
    int64_t dense[PAWL_MAX_NDIM] = {0};
    row_major_strides(b->ndim, b->extent, item, dense);
    copy_strided(b->ndim, shared.extent, memory->data + place_in(&shared, strides, &memory->box),
                 strides, bytes + place_in(&shared, dense, b), dense, item);
}

/* Packed elements as the bytes that they are; such memory is dense. */
static strided bytes_of_packed(const strided *memory, box *source) {
    strided bytes = {.dtype = PAWL_U8, .box = memory->box, .data = memory->data};
    bool whole = boxes_as_bytes(memory->dtype, source, &bytes.box);
    assert(whole && memory->strides == NULL);
    (void)whole;
    return bytes;
}

void strided_place(const strided *memory, const box *source, uint64_t from, size_t n,
                   const uint8_t *bytes) {
    if (n == 0) {
        return;
    }
    if (box_equal(&memory->box, source)) {
        scatter(memory, from, n, bytes);
        return;
    }
    size_t item = element_bytes(memory->dtype);
    if (item == 0) {
        box all = *source;
        strided packed = bytes_of_packed(memory, &all);
        strided_place(&packed, &all, from, n, bytes);
        return;
    }
    assert(from % item == 0 && n % item == 0);
    int64_t strides[PAWL_MAX_NDIM] = {0};
    byte_strides(memory, item, strides);
    stretch s = {from / item, n / item};
    while (s.n > 0) {
        box b = box_leading(source, s.from, s.n);
        uint64_t count = box_elements(&b);
        place_box(memory, strides, &b, bytes);
        bytes += count * item;
        s.from += count;
        s.n -= count;
    }
}

/* ---- as runs -------------------------------------------------------------------------------- */

/* Where runs go, and what is added to their places. */
typedef struct run_taker {
    strided_take take;
    void *context;
    int64_t in_memory;
    size_t in_stretch;
} run_taker;

static pawl_status take_runs(const copying *c, const run_taker *t, pawl_error *err) {
    int64_t index[PAWL_MAX_NDIM] = {0};
    for (;;) {
        strided_run run = {.in_memory = t->in_memory, .in_stretch = t->in_stretch, .bytes = c->run};
        for (int i = 0; i < c->ndim; i++) {
            run.in_memory += index[i] * c->to_stride[i];
            run.in_stretch += (size_t)(index[i] * c->from_stride[i]);
        }
        TRY(t->take(t->context, run, err));
        int i = c->ndim - 1;
        while (i >= 0 && ++index[i] == c->extent[i]) {
            index[i--] = 0;
        }
        if (i < 0) {
            return PAWL_OK;
        }
    }
}

/* Those elements of `b`, which begins at `at` in the stretch, that are in the memory. */
static pawl_status take_box(const strided *memory, const int64_t *strides, const box *b, size_t at,
                            run_taker *t, pawl_error *err) {
    size_t item = element_bytes(memory->dtype);
    box shared;
    if (!box_intersect(&memory->box, b, &shared)) {
        return PAWL_OK;
    }
    int64_t dense[PAWL_MAX_NDIM] = {0};
    row_major_strides(b->ndim, b->extent, item, dense);
    t->in_memory = place_in(&shared, strides, &memory->box);
    t->in_stretch = at + (size_t)place_in(&shared, dense, b);
    copying c = copying_of(b->ndim, shared.extent, strides, dense, item);
    return take_runs(&c, t, err);
}

pawl_status strided_runs(const strided *memory, const box *source, uint64_t from, size_t n,
                         strided_take take, void *context, pawl_error *err) {
    if (n == 0) {
        return PAWL_OK;
    }
    if (box_equal(&memory->box, source) && strided_is_dense(memory)) {
        return take(context, (strided_run){.in_memory = (int64_t)from, .bytes = n}, err);
    }
    size_t item = element_bytes(memory->dtype);
    if (item == 0) {
        box all = *source;
        strided packed = bytes_of_packed(memory, &all);
        return strided_runs(&packed, &all, from, n, take, context, err);
    }
    assert(from % item == 0 && n % item == 0);
    int64_t strides[PAWL_MAX_NDIM] = {0};
    byte_strides(memory, item, strides);
    run_taker t = {.take = take, .context = context};
    uint64_t first = from / item;
    for (size_t at = 0; at < n;) {
        box b = box_leading(source, first, (n - at) / item);
        uint64_t count = box_elements(&b);
        TRY(take_box(memory, strides, &b, at, &t, err));
        first += count;
        at += (size_t)count * item;
    }
    return PAWL_OK;
}
