/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor: dtypes, shapes, boxes, strided copies, casts. Pure functions over memory that the caller
 * owns; any thread.
 *
 * A shape or box is plain arrays of `ndim` int64_t. A box is `offset` and `extent` inside a shape.
 * All arithmetic on them is checked; functions marked "valid" assume shape_check or box_check
 * passed.
 */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include "base/base.h"

#include <pawl/state.h>
#include <pawl/tensor.h>

/* ---- dtype: dtype.c (also defines pawl_dtype_name and friends) ------------------------------ */

bool dtype_valid(pawl_dtype dtype);
/* Bytes an element must be aligned to: 1, 2, 4 or 8 (sub-byte types: 1). C64 is 8. */
size_t dtype_alignment(pawl_dtype dtype);
bool dtype_castable(pawl_dtype dtype);     /* one of F64, F32, F16, BF16 */
pawl_dtype dtype_of_value(pawl_kind kind); /* as which a value's bytes are kept */

/* ---- shape: shape.c ------------------------------------------------------------------------- */

/* PAWL_ELIMIT past PAWL_MAX_NDIM, and where the element or byte count passes 2^62; PAWL_EUSAGE when
 * an extent is negative, or the bits do not fill whole bytes. From an extent of 0 on both counts
 * are 0, however large the others are. Counts may be NULL. */
pawl_status shape_check(pawl_dtype dtype, int ndim, const int64_t *shape, uint64_t *elements,
                        uint64_t *bytes, pawl_error *err) PAWL_MUST_CHECK;
uint64_t shape_elements(int ndim, const int64_t *shape);                /* valid */
uint64_t shape_bytes(pawl_dtype dtype, int ndim, const int64_t *shape); /* valid */
bool shape_equal(int ndim_a, const int64_t *a, int ndim_b, const int64_t *b);
/* "[64, 10]"; cut with "..." when out is short. Returns out. */
const char *shape_text(char *out, size_t size, int ndim, const int64_t *shape);

/* ---- box: box.c ----------------------------------------------------------------------------- */

typedef struct box {
    int ndim;
    int64_t offset[PAWL_MAX_NDIM];
    int64_t extent[PAWL_MAX_NDIM];
} box;

box box_whole(int ndim, const int64_t *shape);
box box_of(int ndim, const int64_t *offset, const int64_t *extent);
/* Inside the shape, nothing negative, nothing overflowing? */
pawl_status box_check(const box *b, int ndim, const int64_t *shape, pawl_error *err)
    PAWL_MUST_CHECK;
uint64_t box_elements(const box *b);
/* The same for a box given as two arrays, without an error. */
bool box_inside(int ndim, const int64_t *offset, const int64_t *extent, const int64_t *shape);
bool box_equal(const box *a, const box *b);
bool box_contains(const box *outer, const box *inner); /* an empty box is in every box */
/* False when they share no element (then *out is unspecified). */
bool box_intersect(const box *a, const box *b, box *out);
bool boxes_disjoint(const box *boxes, size_t n, size_t *first, size_t *second);
/* Do disjoint boxes inside `shape` cover all of it? (Counts elements; empty shapes are covered.) */
bool boxes_cover(const box *boxes, size_t n, int ndim, const int64_t *shape);
/* "[0:64, 128:256]" */
const char *box_text(char *out, size_t size, const box *b);

/*
 * The runs of consecutive elements, in row-major memory of the box `outer`, that make up the box
 * `inner` (which must be contained in it): ascending, maximal, disjoint.
 */
typedef struct box_runs {
    box inner, outer;
    int64_t index[PAWL_MAX_NDIM];
    int split;     /* dimensions from here on are one run */
    uint64_t run;  /* elements of each run */
    uint64_t left; /* runs still to come */
} box_runs;
box_runs box_runs_of(const box *inner, const box *outer);
/* False at the end; otherwise a run: first element (linear, within outer) and count. */
bool box_runs_next(box_runs *r, uint64_t *first, uint64_t *count);

/* ---- elements of less than a byte: packed.c -------------------------------------------------- */

/*
 * Makes of two boxes of a tensor of packed elements boxes of U8, in the same place to each other:
 * what they share, and what lies between, is then told in bytes. False, and they are of no use,
 * where one begins within a byte of the other, or has rows that end within a byte. Boxes of other
 * dtypes are left alone.
 */
bool boxes_as_bytes(pawl_dtype dtype, box *a, box *b);

/* ---- strided memory: copy.c ----------------------------------------------------------------- */

/* A box of a tensor as it lies in memory. Sub-byte dtypes: dense only. */
typedef struct strided {
    pawl_dtype dtype;
    box box;                /* which part of the tensor it is */
    const int64_t *strides; /* in bytes, one of each dimension; NULL: dense row-major */
    uint8_t *data;
} strided;
bool strided_is_dense(const strided *memory);
/*
 * The largest box of consecutive elements of `whole` (in row-major order) that begins with element
 * `first` and has at most `most` elements, at least one. Its offset is absolute, as whole's.
 */
box box_leading(const box *whole, uint64_t first, uint64_t most);
/*
 * Gathers bytes [from, from+n) of its dense row-major form into `to`: how the writer takes any
 * stretch of a piece out of strided memory. Any byte range, element boundaries or not.
 */
void strided_gather(const strided *memory, uint64_t from, size_t n, uint8_t *to);
/*
 * Places a stretch [from, from+n) of the dense row-major form of box `source` (of the same tensor
 * and dtype) into the elements of `memory` that intersect it; bytes outside the intersection are
 * skipped. `from` and `n` are whole elements, or any bytes where the boxes are equal. Sub-byte
 * dtypes: any bytes, of boxes that boxes_as_bytes takes.
 */
void strided_place(const strided *memory, const box *source, uint64_t from, size_t n,
                   const uint8_t *bytes);
/* What strided_place would copy (and, where `source` is memory's own box, strided_gather), as runs
 * that are contiguous on both sides, for memory that only its provider touches. */
typedef struct strided_run {
    int64_t in_memory; /* bytes from the first element of `memory` on */
    size_t in_stretch; /* bytes from the beginning of the stretch on */
    size_t bytes;
} strided_run;
typedef pawl_status (*strided_take)(void *context, strided_run run, pawl_error *err);
pawl_status strided_runs(const strided *memory, const box *source, uint64_t from, size_t n,
                         strided_take take, void *context, pawl_error *err) PAWL_MUST_CHECK;

/* ---- cast: cast.c (also defines pawl_cast), widen.c (pawl_to_double) ------------------------ */

/* As pawl_cast, for types already known to be castable. Returns the number of overflows. */
uint64_t cast_elements(pawl_dtype to_dtype, void *to, pawl_dtype from_dtype, const void *from,
                       size_t count);

#endif
