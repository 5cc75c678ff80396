/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the bytes of a layout's file from memory. */
#include "plan/plan.h"

#include <assert.h>
#include <string.h>

static uint64_t piece_end(const plan_piece *piece) {
    return piece->offset + piece->bytes;
}

/* The first piece of the file that ends after byte `at`, or one past its last. Pieces without bytes
 * lie between the others and never end after a byte that comes before them. */
static size_t first_ending_after(const plan_layout *layout, const plan_file *file, uint64_t at) {
    size_t low = file->first_piece;
    size_t high = file->first_piece + file->piece_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (piece_end(&layout->pieces[middle]) > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Place in by_name of the first piece whose entry's name is not before `name`. */
static size_t first_named(const plan_layout *layout, const char *name) {
    size_t low = 0;
    size_t high = layout->piece_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(layout->pieces[layout->by_name[middle]].entry->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool plan_layout_precedes(const plan_layout *layout, const char *name, size_t file, uint64_t at) {
    for (size_t i = first_named(layout, name); i < layout->piece_count; i++) {
        const plan_piece *piece = &layout->pieces[layout->by_name[i]];
        if (strcmp(piece->entry->name, name) != 0) {
            break;
        }
        if (piece->file > file || (piece->file == file && piece_end(piece) > at)) {
            return false;
        }
    }
    return true;
}

/* NULL unless the bytes are in memory as in the file: dense. */
static const uint8_t *dense_memory(const plan_piece *piece) {
    if (piece->entry->kind != PAWL_KIND_TENSOR) {
        return piece->entry->value;
    }
    return piece->part->strides == NULL ? piece->part->data : NULL;
}

/* ---- memory of providers ---- */

typedef struct copy_taker {
    plan_copies *out;
    plan_copy first; /* of which runs are taken */
} copy_taker;

static pawl_status take_copy(void *context, strided_run run, pawl_error *err) {
    const copy_taker *t = context;
    plan_copies *out = t->out;
    TRY(vec_reserve(&out->items, &out->capacity, out->count + 1, sizeof(*out->items), err));
    plan_copy *copy = &out->items[out->count++];
    *copy = t->first;
    copy->offset += run.in_memory;
    copy->host += run.in_stretch;
    copy->bytes = run.bytes;
    return PAWL_OK;
}

pawl_status plan_copies_add(const state_entry *entry, const state_box *part, const box *source,
                            uint64_t from, size_t n, uint8_t *to, plan_copies *out,
                            pawl_error *err) {
    strided v = state_box_memory(entry, part);
    copy_taker t = {.out = out,
                    .first = {.entry = entry, .data = part->data, .offset = part->begin}};
    t.first.host = to;
    return strided_runs(&v, source, from, n, take_copy, &t, err);
}

pawl_status plan_box_copies(const state_entry *entry, const state_box *part, uint64_t from,
                            size_t n, uint8_t *to, plan_copies *out, pawl_error *err) {
    box whole = box_of(entry->ndim, part->offset, part->extent);
    return plan_copies_add(entry, part, &whole, from, n, to, out, err);
}

/* ---- host memory ---- */

static void gather_piece(const plan_piece *piece, uint64_t from, size_t n, uint8_t *to) {
    const uint8_t *dense = dense_memory(piece);
    assert(piece->entry->memory == NULL); /* only a provider touches its memory */
    if (dense != NULL) {
        memcpy(to, dense + from, n);
        return;
    }
    strided v = state_box_memory(piece->entry, piece->part);
    strided_gather(&v, from, n, to);
}

static uint64_t largest(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t smallest(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Entries are all over memory: they are prefetched this many pieces ahead. */
#define AHEAD 4

/* `out`: where copies out of providers' memory go; NULL: there are none, and nothing fails. */
static pawl_status gather_from(const plan_layout *layout, size_t file, uint64_t at, size_t n,
                               uint8_t *to, size_t *first, plan_copies *out, pawl_error *err) {
    const plan_file *f = &layout->files[file];
    uint64_t end = at + n;
    uint64_t done = at;
    if (at < f->header.size) {
        done = smallest(end, f->header.size);
        memcpy(to, f->header.data + at, (size_t)(done - at));
    }
    size_t last = f->first_piece + f->piece_count;
    size_t i = *first;
    for (; i < last && done < end; i++) {
        const plan_piece *piece = &layout->pieces[i];
        if (i + AHEAD < last) {
            __builtin_prefetch(piece[AHEAD].entry);
        }
        uint64_t begin = smallest(largest(piece->offset, done), end);
        uint64_t stop = smallest(piece_end(piece), end);
        memset(to + (done - at), 0, (size_t)(begin - done));
        done = begin;
        if (stop > begin) {
            uint64_t from = begin - piece->offset;
            size_t bytes = (size_t)(stop - begin);
            if (out != NULL && piece->entry->memory != NULL) {
                TRY(plan_box_copies(piece->entry, piece->part, from, bytes, to + (begin - at), out,
                                    err));
            } else {
                gather_piece(piece, from, bytes, to + (begin - at));
            }
            done = stop;
        }
        if (piece_end(piece) > end) {
            break; /* the rest of it is in the next stretch */
        }
    }
    *first = i;
    memset(to + (done - at), 0, (size_t)(end - done));
    return PAWL_OK;
}

void plan_layout_gather(const plan_layout *layout, size_t file, uint64_t at, size_t n,
                        uint8_t *to) {
    size_t piece = 0;
    plan_layout_gather_on(layout, file, at, n, to, &piece);
}

static void find_first(const plan_layout *layout, size_t file, uint64_t at, size_t *piece) {
    if (*piece == 0) {
        *piece = first_ending_after(layout, &layout->files[file], at);
    }
}

void plan_layout_gather_on(const plan_layout *layout, size_t file, uint64_t at, size_t n,
                           uint8_t *to, size_t *piece) {
    find_first(layout, file, at, piece);
    (void)gather_from(layout, file, at, n, to, piece, NULL, NULL);
}

pawl_status plan_layout_gather_some(const plan_layout *layout, size_t file, uint64_t at, size_t n,
                                    uint8_t *to, plan_copies *out, pawl_error *err) {
    size_t piece = 0;
    find_first(layout, file, at, &piece);
    return gather_from(layout, file, at, n, to, &piece, out, err);
}

bool plan_layout_provided(const plan_layout *layout, size_t file, uint64_t at, size_t n) {
    const plan_file *f = &layout->files[file];
    size_t last = f->first_piece + f->piece_count;
    for (size_t i = first_ending_after(layout, f, at); i < last; i++) {
        const plan_piece *piece = &layout->pieces[i];
        if (piece->offset >= at + n) {
            break;
        }
        if (piece->entry->memory != NULL) {
            return true;
        }
    }
    return false;
}

const uint8_t *plan_layout_dense(const plan_layout *layout, size_t file, uint64_t at, size_t n,
                                 size_t *piece) {
    const plan_file *f = &layout->files[file];
    find_first(layout, file, at, piece);
    size_t i = *piece;
    while (i < f->first_piece + f->piece_count && piece_end(&layout->pieces[i]) <= at) {
        i++;
    }
    *piece = i;
    if (i == f->first_piece + f->piece_count) {
        return NULL;
    }
    const plan_piece *p = &layout->pieces[i];
    const uint8_t *dense = dense_memory(p);
    bool whole = p->offset <= at && piece_end(p) >= at + n;
    return whole && dense != NULL ? dense + (at - p->offset) : NULL;
}
