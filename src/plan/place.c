/* SPDX-License-Identifier: Apache-2.0 */
/* Puts bytes that were read where they belong, converting them where the dtypes differ. */
#include "plan/plan.h"

#include <string.h>

#define CHUNK_ELEMENTS 1024 /* converted at a time, on the stack */

/* The elements that are converted together. */
typedef struct chunk {
    uint64_t first; /* element of the piece */
    size_t count;
    const uint8_t *bytes;
} chunk;

static size_t item_bytes(pawl_dtype dtype) {
    return (size_t)pawl_dtype_bits(dtype) / 8;
}

/* Is element `linear` of `outer`, in row-major order, inside `inner`? */
static bool holds_element(const box *inner, const box *outer, uint64_t linear) {
    for (int d = outer->ndim - 1; d >= 0; d--) {
        uint64_t extent = (uint64_t)outer->extent[d];
        int64_t at = outer->offset[d] + (int64_t)(linear % extent);
        linear /= extent;
        if (at < inner->offset[d] || at >= inner->offset[d] + inner->extent[d]) {
            return false;
        }
    }
    return true;
}

/* A stretch also has elements that are not placed: their overflows are not counted. */
static uint64_t count_overflows(const strided *to, const box *source, pawl_dtype from, chunk c) {
    uint64_t overflows = 0;
    uint64_t scratch = 0;
    for (size_t i = 0; i < c.count; i++) {
        if (holds_element(&to->box, source, c.first + i)) {
            overflows +=
                cast_elements(to->dtype, &scratch, from, c.bytes + i * item_bytes(from), 1);
        }
    }
    return overflows;
}

static uint64_t place_chunk(const strided *to, const box *source, pawl_dtype from, chunk c) {
    uint64_t converted[CHUNK_ELEMENTS];
    size_t item = item_bytes(to->dtype);
    uint64_t overflows = cast_elements(to->dtype, converted, from, c.bytes, c.count);
    strided_place(to, source, c.first * item, c.count * item, (const uint8_t *)converted);
    return overflows == 0 ? 0 : count_overflows(to, source, from, c);
}

uint64_t plan_read_place(const plan_read *read, uint64_t offset, const uint8_t *bytes, size_t n) {
    const record_entry *entry = read->pair->source;
    const record_piece *piece = read->piece;
    if (read->straight != NULL) {
        uint8_t *to = read->straight + (offset - read->offset);
        mem_populate(to, n);
        memcpy(to, bytes, n);
        return 0;
    }
    strided to = state_entry_memory(read->pair->wanted, read->box);
    box source = box_of(entry->ndim, piece->box_offset, piece->box_extent);
    uint64_t at = offset - piece->offset;
    if (to.dtype == entry->dtype) {
        strided_place(&to, &source, at, n, bytes);
        return 0;
    }
    size_t item = item_bytes(entry->dtype);
    uint64_t overflows = 0;
    chunk c = {.first = at / item, .bytes = bytes};
    for (size_t left = n / item; left > 0; left -= c.count) {
        c.count = left < CHUNK_ELEMENTS ? left : CHUNK_ELEMENTS;
        overflows += place_chunk(&to, &source, entry->dtype, c);
        c.first += c.count;
        c.bytes += c.count * item;
    }
    return overflows;
}

/* ---- into a provider's memory ---- */

size_t plan_read_staged_bytes(const plan_read *read, size_t n) {
    pawl_dtype to = read->pair->wanted->dtype;
    pawl_dtype from = read->pair->source->dtype;
    return to == from ? n : n / item_bytes(from) * item_bytes(to);
}

uint64_t plan_read_stage(const plan_read *read, uint64_t offset, const uint8_t *bytes, size_t n,
                         uint8_t *to) {
    const record_entry *entry = read->pair->source;
    strided wanted = state_entry_memory(read->pair->wanted, read->box);
    if (wanted.dtype == entry->dtype) {
        memcpy(to, bytes, n);
        return 0;
    }
    size_t item = item_bytes(entry->dtype);
    uint64_t overflows = cast_elements(wanted.dtype, to, entry->dtype, bytes, n / item);
    if (overflows == 0) {
        return 0;
    }
    box source = box_of(entry->ndim, read->piece->box_offset, read->piece->box_extent);
    chunk c = {.first = (offset - read->piece->offset) / item, .count = n / item, .bytes = bytes};
    return count_overflows(&wanted, &source, entry->dtype, c);
}

pawl_status plan_read_copies(const plan_read *read, uint64_t offset, size_t n, uint8_t *to,
                             plan_copies *out, pawl_error *err) {
    const state_entry *wanted = read->pair->wanted;
    const record_entry *entry = read->pair->source;
    box source = box_of(entry->ndim, read->piece->box_offset, read->piece->box_extent);
    uint64_t at = offset - read->piece->offset;
    if (wanted->dtype != entry->dtype) {
        at = at / item_bytes(entry->dtype) * item_bytes(wanted->dtype);
    }
    return plan_copies_add(wanted, state_entry_box(wanted, read->box), &source, at,
                           plan_read_staged_bytes(read, n), to, out, err);
}
