/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking mode: finds a tensor that changes while it is being saved (S01). One checksum per piece
 * and block of the file, so that a difference is never blamed on a neighbour in the same block.
 */
#include "engine/save.h"

#include <assert.h>
#include <string.h>

struct engine_checks {
    uint64_t *first; /* per piece: its first checksum */
    uint32_t *sums;
    bool found;
    struct pawl_error difference;
};

/* Where block number `k` of a piece, counted from the piece's first, lies in the file. */
typedef struct stretch {
    uint64_t begin, end;
} stretch;

static uint64_t piece_blocks(const plan_piece *piece) {
    if (piece->bytes == 0) {
        return 0;
    }
    uint64_t last = (piece->offset + piece->bytes - 1) / FORMAT_BLOCK_BYTES;
    return last - piece->offset / FORMAT_BLOCK_BYTES + 1;
}

static stretch piece_stretch(const plan_piece *piece, uint64_t k) {
    uint64_t block = piece->offset / FORMAT_BLOCK_BYTES + k;
    uint64_t begin = block * FORMAT_BLOCK_BYTES;
    uint64_t end = begin + FORMAT_BLOCK_BYTES;
    uint64_t piece_end = piece->offset + piece->bytes;
    return (stretch){.begin = begin > piece->offset ? begin : piece->offset,
                     .end = end < piece_end ? end : piece_end};
}

static void piece_sums(const plan_layout *layout, const plan_piece *piece, uint32_t *sums) {
    uint8_t block[FORMAT_BLOCK_BYTES];
    uint64_t count = piece_blocks(piece);
    for (uint64_t k = 0; k < count; k++) {
        stretch s = piece_stretch(piece, k);
        size_t n = (size_t)(s.end - s.begin);
        plan_layout_gather(layout, piece->file, s.begin, n, block);
        sums[k] = crc32c(0, block, n);
    }
}

/* Of a piece in a provider's memory: as many blocks at a time as fit into a buffer. */
static pawl_status provided_sums(engine *e, const plan_piece *piece, uint32_t *sums,
                                 pawl_error *err) {
    uint64_t count = piece_blocks(piece);
    AUTOFREE uint8_t *bytes = mem_alloc(e->buffer_bytes);
    if (bytes == NULL) {
        return error_nomem(err, e->buffer_bytes);
    }
    for (uint64_t k = 0; k < count;) {
        uint64_t begin = piece_stretch(piece, k).begin;
        uint64_t end = k + 1;
        while (end < count && piece_stretch(piece, end).end - begin <= e->buffer_bytes) {
            end++;
        }
        size_t n = (size_t)(piece_stretch(piece, end - 1).end - begin);
        const engine_wanted wanted = {.entry = piece->entry,
                                      .box = piece->part,
                                      .from = begin - piece->offset,
                                      .n = n,
                                      .to = bytes};
        TRY(engine_copy_out(e, &wanted, 1, err));
        for (; k < end; k++) {
            stretch s = piece_stretch(piece, k);
            sums[k] = crc32c(0, bytes + (s.begin - begin), (size_t)(s.end - s.begin));
        }
    }
    return PAWL_OK;
}

static pawl_status fill_sums(engine *e, engine_checks *c, const plan_layout *layout,
                             pawl_error *err) {
    for (size_t i = 0; i < layout->piece_count; i++) {
        const plan_piece *piece = &layout->pieces[i];
        if (piece->entry->memory != NULL) {
            TRY(provided_sums(e, piece, c->sums + c->first[i], err));
        } else {
            piece_sums(layout, piece, c->sums + c->first[i]);
        }
    }
    return PAWL_OK;
}

pawl_status engine_checks_new(engine *e, const plan_layout *layout, engine_checks **out,
                              pawl_error *err) {
    engine_checks *c = mem_calloc(1, sizeof(*c));
    if (c == NULL) {
        return error_nomem(err, sizeof(*c));
    }
    uint64_t total = 0;
    c->first = mem_calloc(layout->piece_count, sizeof(*c->first));
    for (size_t i = 0; c->first != NULL && i < layout->piece_count; i++) {
        c->first[i] = total;
        total += piece_blocks(&layout->pieces[i]);
    }
    c->sums = c->first != NULL ? mem_calloc(total, sizeof(*c->sums)) : NULL;
    if (c->sums == NULL) {
        engine_checks_free(c);
        return error_nomem(err, layout->piece_count * sizeof(*c->first));
    }
    pawl_status status = fill_sums(e, c, layout, err);
    if (status != PAWL_OK) {
        engine_checks_free(c);
        return status;
    }
    *out = c;
    return PAWL_OK;
}

void engine_checks_free(engine_checks *checks) {
    if (checks != NULL) {
        mem_free(checks->first);
        mem_free(checks->sums);
        mem_free(checks);
    }
}

/* The first piece of the file that ends after `at`; a file's pieces ascend by offset. */
static size_t first_piece_after(const plan_layout *layout, size_t file, uint64_t at) {
    const plan_file *f = &layout->files[file];
    size_t low = f->first_piece;
    size_t high = f->first_piece + f->piece_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const plan_piece *piece = &layout->pieces[middle];
        if (piece->offset + piece->bytes <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static pawl_status changed(const plan_piece *piece, uint64_t begin, uint64_t end, pawl_error *err) {
    const state_entry *entry = piece->entry;
    error_set(err, PAWL_EUSAGE, "a tensor changed while it was being saved");
    error_entry(err, entry->name);
    error_expected(err, "the bytes that were there when the save began");
    unsigned long long from = begin - piece->offset;
    unsigned long long to = end - piece->offset - 1;
    if (entry->box_count > 1) {
        char text[256];
        strided v = state_box_memory(entry, piece->part);
        error_found(err, "bytes %llu to %llu of the %llu bytes of its box %s are different", from,
                    to, (unsigned long long)piece->bytes, box_text(text, sizeof(text), &v.box));
    } else {
        error_found(err, "bytes %llu to %llu of its %llu bytes are different", from, to,
                    (unsigned long long)piece->bytes);
    }
    error_next(err, "call pawl_fence before the optimizer's step, and before anything else that "
                    "changes tensors");
    return PAWL_EUSAGE;
}

/* The blocks of one piece that lie in the buffer. */
static pawl_status compare_piece(const plan_piece *piece, const uint32_t *sums,
                                 const engine_buffer *b, pawl_error *err) {
    uint64_t count = piece_blocks(piece);
    uint64_t first_block = piece->offset / FORMAT_BLOCK_BYTES;
    uint64_t buffer_block = b->at / FORMAT_BLOCK_BYTES;
    stretch bad = {0, 0};
    for (uint64_t k = buffer_block > first_block ? buffer_block - first_block : 0; k < count; k++) {
        stretch s = piece_stretch(piece, k);
        if (s.begin >= b->at + b->bytes) {
            break;
        }
        uint32_t sum = crc32c(0, b->memory + (s.begin - b->at), (size_t)(s.end - s.begin));
        if (sum != sums[k]) {
            bad.begin = bad.end == 0 ? s.begin : bad.begin;
            bad.end = s.end;
        } else if (bad.end != 0) {
            break;
        }
    }
    return bad.end == 0 ? PAWL_OK : changed(piece, bad.begin, bad.end, err);
}

pawl_status engine_checks_compare(const engine_checks *checks, const plan_layout *layout,
                                  const engine_buffer *b, pawl_error *err) {
    const plan_file *f = &layout->files[b->file];
    size_t end = f->first_piece + f->piece_count;
    for (size_t i = first_piece_after(layout, b->file, b->at); i < end; i++) {
        const plan_piece *piece = &layout->pieces[i];
        if (piece->offset >= b->at + b->bytes) {
            break;
        }
        TRY(compare_piece(piece, checks->sums + checks->first[i], b, err));
    }
    return PAWL_OK;
}

void engine_checks_keep(engine_checks *checks, const pawl_error *difference) {
    if (!checks->found) {
        checks->found = true;
        checks->difference = *difference;
    }
}

const pawl_error *engine_checks_found(const engine_checks *checks) {
    return checks != NULL && checks->found ? &checks->difference : NULL;
}
