/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads many slices in the order of the data files, neighbours together, by several threads.
 *
 * So many at a time are found, planned and read, that memory does not grow with their number. What
 * a slice still lacks is counted as it is taken: where reading fails, the others that lack nothing
 * hold verified bytes all the same.
 */
#include "checkpoint/private.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_SLICES    16384u
#define BATCH_PIECES    65536u /* of the slices' entries, which are kept decoded */
#define BATCH_STRETCHES 65536u

typedef struct wanted_slice {
    record_entry entry;
    const int64_t *offset, *extent;
    uint8_t *to;
    bool planned;              /* all of its stretches */
    atomic_uint_fast64_t left; /* bytes of them that were not taken yet */
} wanted_slice;

typedef struct wanted_stretch {
    engine_stretch at;
    wanted_slice *of;
    const record_piece *piece;
    bool straight; /* the slice is that piece: in memory as in the file */
} wanted_stretch;

typedef struct slice_batch {
    pawl_checkpoint *checkpoint;
    const slice_array *array;
    size_t first; /* of the array */
    wanted_slice *slices;
    size_t slice_count, piece_count;
    wanted_stretch *stretches;
    size_t stretch_count, stretch_room;
    const record_piece *piece; /* the one that is being planned */
    bool straight;
    arena memory;
    bool failed;
} slice_batch;

pawl_slice *slice_array_at(const slice_array *array, size_t i) {
    return (pawl_slice *)(void *)((uint8_t *)array->first + i * array->size);
}

void slice_array_cancel(const slice_array *array) {
    for (size_t i = 0; i < array->count; i++) {
        slice_array_at(array, i)->status = PAWL_ECANCELED;
    }
}

/* ---- reading what is planned ---------------------------------------------------------------- */

static int by_place_in_files(const void *a, const void *b) {
    const engine_stretch *left = &((const wanted_stretch *)a)->at;
    const engine_stretch *right = &((const wanted_stretch *)b)->at;
    if (left->file != right->file) {
        return left->file < right->file ? -1 : 1;
    }
    return (left->offset > right->offset) - (left->offset < right->offset);
}

static void sort_stretches(slice_batch *b) {
    for (size_t i = 1; i < b->stretch_count; i++) {
        if (by_place_in_files(&b->stretches[i - 1], &b->stretches[i]) > 0) {
            qsort(b->stretches, b->stretch_count, sizeof(*b->stretches), by_place_in_files);
            return;
        }
    }
}

static engine_stretch get_wanted_stretch(void *context, size_t i) {
    const slice_batch *b = context;
    return b->stretches[i].at;
}

static void place_in_slice(void *context, size_t i, uint64_t offset, const uint8_t *bytes,
                           size_t n) {
    const slice_batch *b = context;
    const wanted_stretch *s = &b->stretches[i];
    wanted_slice *w = s->of;
    source_note(b->checkpoint->source, s->at.file, offset, bytes, n);
    uint64_t at = offset - s->piece->offset;
    if (s->straight) {
        memcpy(w->to + at, bytes, n);
    } else {
        const strided to = {.dtype = w->entry.dtype,
                            .box = box_of(w->entry.ndim, w->offset, w->extent),
                            .data = w->to};
        box source = box_of(w->entry.ndim, s->piece->box_offset, s->piece->box_extent);
        strided_place(&to, &source, at, n, bytes);
    }
    (void)atomic_fetch_sub_explicit(&w->left, n, memory_order_relaxed);
}

/* The first that fails is told of, with its place in the array. */
static pawl_status slice_failed(slice_batch *b, const wanted_slice *w, pawl_error *err) {
    size_t place = b->first + (size_t)(w - b->slices);
    if (b->failed) {
        return err->status;
    }
    b->failed = true;
    slice_array_at(b->array, place)->status = err->status;
    error_wrap(err, "slices[%zu]", place);
    return err->status;
}

static pawl_status read_stretches(slice_batch *b, pawl_error *err) {
    size_t failed = 0;
    const engine_read_job job = {.source =
                                     source_files(b->checkpoint->source, b->checkpoint->platform),
                                 .count = b->stretch_count,
                                 .stretch = get_wanted_stretch,
                                 .take = place_in_slice,
                                 .context = b};
    sort_stretches(b);
    pawl_status status = engine_read_all(&job, &failed, err);
    b->stretch_count = 0;
    if (status == PAWL_OK) {
        return PAWL_OK;
    }
    const wanted_stretch *s = &b->stretches[failed];
    checkpoint_piece_failed(b->checkpoint, &s->of->entry, s->piece, err);
    return slice_failed(b, s->of, err);
}

/* ---- planning ------------------------------------------------------------------------------- */

static pawl_status plan_stretch(void *context, engine_stretch stretch, pawl_error *err) {
    slice_batch *b = context;
    if (b->stretch_count == BATCH_STRETCHES) {
        TRY(read_stretches(b, err));
    }
    TRY(vec_reserve(&b->stretches, &b->stretch_room, b->stretch_count + 1, sizeof(*b->stretches),
                    err));
    wanted_slice *w = &b->slices[b->slice_count - 1];
    b->stretches[b->stretch_count++] =
        (wanted_stretch){.at = stretch, .of = w, .piece = b->piece, .straight = b->straight};
    (void)atomic_fetch_add_explicit(&w->left, stretch.bytes, memory_order_relaxed);
    return PAWL_OK;
}

static pawl_status plan_part(void *context, const record_piece *piece, const box *shared,
                             pawl_error *err) {
    slice_batch *b = context;
    const wanted_slice *w = &b->slices[b->slice_count - 1];
    box wanted = box_of(w->entry.ndim, w->offset, w->extent);
    box whole = box_of(w->entry.ndim, piece->box_offset, piece->box_extent);
    b->piece = piece;
    b->straight = box_equal(&wanted, &whole);
    return slice_runs(&w->entry, piece, shared, plan_stretch, b, err);
}

static pawl_status plan_slice(slice_batch *b, wanted_slice *w, const pawl_slice *slice,
                              pawl_error *err) {
    static const int64_t origin[PAWL_MAX_NDIM];
    box wanted;
    const slice_asked asked = {.name = slice->name,
                               .offset = slice->offset,
                               .extent = slice->extent,
                               .to_bytes = slice->to_bytes};
    TRY(slice_find(b->checkpoint, &asked, &b->memory, &w->entry, &wanted, err));
    w->offset = slice->offset != NULL ? slice->offset : origin;
    w->extent = slice->offset != NULL ? slice->extent : w->entry.shape;
    w->to = slice->to;
    if (slice->to_bytes > 0) {
        TRY(slice_parts(&w->entry, &wanted, plan_part, b, err));
    }
    w->planned = true;
    return PAWL_OK;
}

/* ---- one batch, and all --------------------------------------------------------------------- */

static pawl_status plan_and_read(slice_batch *b, size_t most, pawl_error *err) {
    while (b->slice_count < most && b->piece_count < BATCH_PIECES) {
        const pawl_slice *slice = slice_array_at(b->array, b->first + b->slice_count);
        wanted_slice *w = &b->slices[b->slice_count++];
        *w = (wanted_slice){.planned = false};
        if (plan_slice(b, w, slice, err) != PAWL_OK) {
            return slice_failed(b, w, err);
        }
        b->piece_count += w->entry.piece_count;
    }
    return b->stretch_count > 0 ? read_stretches(b, err) : PAWL_OK;
}

static void tell_what_is_read(const slice_batch *b) {
    for (size_t i = 0; i < b->slice_count; i++) {
        const wanted_slice *w = &b->slices[i];
        if (w->planned && atomic_load_explicit(&w->left, memory_order_relaxed) == 0) {
            slice_array_at(b->array, b->first + i)->status = PAWL_OK;
        }
    }
}

static void batch_free(slice_batch *b) {
    mem_free(b->slices);
    mem_free(b->stretches);
    arena_free(&b->memory);
}

pawl_status checkpoint_read_many(pawl_checkpoint *c, const slice_array *slices, pawl_error *err) {
    CLEANUP(batch_free) slice_batch b = {.checkpoint = c, .array = slices};
    size_t most = slices->count < BATCH_SLICES ? slices->count : BATCH_SLICES;
    slice_array_cancel(slices);
    b.slices = mem_calloc(most, sizeof(*b.slices));
    if (b.slices == NULL) {
        return error_nomem(err, most * sizeof(*b.slices));
    }
    pawl_status status = PAWL_OK;
    while (status == PAWL_OK && b.first < slices->count) {
        size_t left = slices->count - b.first;
        status = plan_and_read(&b, left < most ? left : most, err);
        tell_what_is_read(&b);
        b.first += b.slice_count;
        b.slice_count = 0;
        b.piece_count = 0;
        arena_free(&b.memory);
    }
    return status;
}
