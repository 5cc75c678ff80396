/* SPDX-License-Identifier: Apache-2.0 */
/* The chunks of a dataset, from a version 1 B-tree; and what is common to all indexes of them. */
#include "foreign/hdf5/dataset.h"

#define TREE_OF_CHUNKS 1u

void hdf5_chunks_free(hdf5_chunks *chunks) {
    mem_free(chunks->items);
    *chunks = (hdf5_chunks){.items = NULL};
}

/* `stored` and `mask` are those of the file. */
pawl_status hdf5_chunks_add(hdf5_file *f, hdf5_chunks *chunks, const hdf5_chunk *chunk,
                            const hdf5_layout *layout, pawl_error *err) {
    uint64_t position, end;
    if (chunk->at == HDF5_NONE) {
        return PAWL_OK;
    }
    if (add_overflows(f->base, chunk->at, &position) ||
        add_overflows(position, chunk->stored, &end) || end > f->end) {
        hdf5_refuse(f, PAWL_EDAMAGED, layout->message, 0, err, "a chunk is not in the file");
        error_expected(err, "%llu bytes before byte %llu", (unsigned long long)chunk->stored,
                       (unsigned long long)f->end);
        error_found(err, "address %llu", (unsigned long long)chunk->at);
        return PAWL_EDAMAGED;
    }
    if (layout->index != HDF5_EXTENSIBLE && chunks->count > 0 &&
        chunks->items[chunks->count - 1].index >= chunk->index) {
        return hdf5_refuse(f, PAWL_EDAMAGED, position, chunk->stored, err,
                           "the chunks of a dataset do not ascend");
    }
    if (++f->usage->chunks > FOREIGN_MAX_HDF5_CHUNKS) {
        return hdf5_beyond(f, "chunks", FOREIGN_MAX_HDF5_CHUNKS, err);
    }
    TRY(vec_reserve(&chunks->items, &chunks->room, chunks->count + 1, sizeof(*chunks->items), err));
    hdf5_chunk *added = &chunks->items[chunks->count++];
    *added = *chunk;
    added->at = position;
    return PAWL_OK;
}

static pawl_status set_grid(hdf5_file *f, const hdf5_space *space, const hdf5_layout *layout,
                            hdf5_chunks *out, pawl_error *err) {
    uint64_t all = 1;
    *out = (hdf5_chunks){.ndim = space->ndim};
    for (int d = 0; d < space->ndim; d++) {
        uint64_t extent = (uint64_t)layout->chunk[d];
        uint64_t shape = (uint64_t)space->shape[d];
        out->grid[d] = shape / extent + (shape % extent != 0);
        if (multiply_overflows(all, out->grid[d], &all) || all > INT64_MAX) {
            return hdf5_beyond(f, "chunks", FOREIGN_MAX_HDF5_CHUNKS, err);
        }
    }
    return PAWL_OK;
}

typedef struct chunk_tree {
    hdf5_file *f;
    const hdf5_layout *layout;
    hdf5_chunks *out;
} chunk_tree;

/* Its extents begin at multiples of the chunk's, within the shape. */
static pawl_status decode_key(const chunk_tree *t, cursor *c, hdf5_chunk *out, pawl_error *err) {
    uint64_t at = c->base + c->at;
    uint64_t mask, offset;
    *out = (hdf5_chunk){.index = 0};
    TRY(hdf5_number(c, 4, &out->stored, err));
    TRY(hdf5_number(c, 4, &mask, err));
    out->mask = (uint32_t)mask;
    for (int d = 0; d < t->out->ndim; d++) {
        TRY(hdf5_number(c, 8, &offset, err));
        uint64_t extent = (uint64_t)t->layout->chunk[d];
        if (offset % extent != 0 || offset / extent >= t->out->grid[d]) {
            hdf5_refuse(t->f, PAWL_EDAMAGED, at, 8 + 8 * ((uint64_t)t->out->ndim + 1), err,
                        "a chunk is not in the grid of its dataset");
            error_found(err, "element %llu of dimension %d", (unsigned long long)offset, d);
            return PAWL_EDAMAGED;
        }
        out->index = out->index * t->out->grid[d] + offset / extent;
    }
    return hdf5_skip(c, 8, err);
}

/* Levels descend to 0 one by one. `level` -1: any, of the root. */
static pawl_status read_tree(const chunk_tree *t, uint64_t address, int level, pawl_error *err) {
    CLEANUP(buffer_free) buffer node = {0};
    hdf5_file *f = t->f;
    size_t head = 8 + 2 * f->offset_bytes;
    uint64_t key = 8 + 8 * ((uint64_t)t->out->ndim + 1);
    cursor c;
    uint64_t type, is, count, child;
    TRY(hdf5_load(f, address, head, "B-tree of chunks", &node, &c, err));
    if (memcmp(node.data, "TREE", 4) != 0) {
        return hdf5_begin(f, &c, "TREE", 0, err);
    }
    TRY(hdf5_skip(&c, 4, err));
    TRY(hdf5_number(&c, 1, &type, err));
    TRY(hdf5_number(&c, 1, &is, err));
    TRY(hdf5_number(&c, 2, &count, err));
    uint64_t bytes = head + count * (key + f->offset_bytes) + key;
    if (type != TREE_OF_CHUNKS || is >= FOREIGN_MAX_HDF5_LEVELS || bytes > FOREIGN_MAX_HDF5_NODE ||
        (level >= 0 && is != (uint64_t)level)) {
        hdf5_refuse(f, PAWL_EDAMAGED, c.base, head, err, "a node of the B-tree of chunks");
        error_found(err, "type %u at level %u, %llu bytes", (unsigned)type, (unsigned)is,
                    (unsigned long long)bytes);
        return PAWL_EDAMAGED;
    }
    TRY(hdf5_load(f, address, bytes, "B-tree of chunks", &node, &c, err));
    TRY(hdf5_skip(&c, head, err));
    for (uint64_t i = 0; i < count; i++) {
        hdf5_chunk chunk;
        TRY(decode_key(t, &c, &chunk, err));
        TRY(hdf5_address(f, &c, &child, err));
        if (is == 0) {
            chunk.at = child;
            TRY(hdf5_chunks_add(f, t->out, &chunk, t->layout, err));
        } else {
            TRY(read_tree(t, child, (int)is - 1, err));
        }
    }
    return PAWL_OK;
}

pawl_status hdf5_chunks_read(hdf5_file *f, const hdf5_space *space, const hdf5_layout *layout,
                             hdf5_chunks *out, pawl_error *err) {
    TRY(set_grid(f, space, layout, out, err));
    if (layout->address == HDF5_NONE) {
        return PAWL_OK;
    }
    if (layout->index != HDF5_TREE_1) {
        return hdf5_chunks_indexed(f, space, layout, out, err);
    }
    const chunk_tree t = {.f = f, .layout = layout, .out = out};
    return read_tree(&t, layout->address, -1, err);
}
