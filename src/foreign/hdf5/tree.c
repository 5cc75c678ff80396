/* SPDX-License-Identifier: Apache-2.0 */
/* Version 2 B-trees: their records, in order. */
#include "foreign/hdf5/file.h"

#define NODE_OVERHEAD 10u /* signature, version, type, checksum */

typedef struct tree {
    hdf5_file *f;
    unsigned type;
    uint64_t node_bytes, record_bytes;
    unsigned depth;
    unsigned count_bytes;                        /* of the records of a child */
    unsigned all_bytes[FOREIGN_MAX_HDF5_LEVELS]; /* of those of it and all below, by level */
    uint64_t left;                               /* records still to come */
    hdf5_each_record each;
    void *context;
} tree;

static unsigned bytes_for(uint64_t most) {
    unsigned bytes = 1;
    while (bytes < 8 && most >> (8 * bytes) != 0) {
        bytes++;
    }
    return bytes;
}

/* How many records nodes may have says how long the numbers are that count them. */
static pawl_status set_levels(tree *t, cursor *c, pawl_error *err) {
    uint64_t room = t->node_bytes > NODE_OVERHEAD ? t->node_bytes - NODE_OVERHEAD : 0;
    uint64_t most = t->record_bytes > 0 ? room / t->record_bytes : 0;
    uint64_t all = most;
    t->count_bytes = bytes_for(most);
    t->all_bytes[0] = 0;
    for (unsigned i = 1; i <= t->depth && most > 0; i++) {
        uint64_t child = t->f->offset_bytes + t->count_bytes + t->all_bytes[i - 1];
        most = room > child ? (room - child) / (t->record_bytes + child) : 0;
        uint64_t grown;
        if (multiply_overflows(most + 1, all, &grown) || add_overflows(grown, most, &all)) {
            all = UINT64_MAX;
        }
        t->all_bytes[i] = bytes_for(all);
    }
    if (most > 0 && t->node_bytes <= FOREIGN_MAX_HDF5_NODE) {
        return PAWL_OK;
    }
    return hdf5_refuse(t->f, PAWL_EDAMAGED, c->base, c->size, err,
                       "a B-tree of nodes that have no room, or too much");
}

static pawl_status give_record(tree *t, cursor *c, pawl_error *err) {
    const uint8_t *bytes = NULL;
    uint64_t at = c->base + c->at;
    TRY(cursor_bytes(c, (size_t)t->record_bytes, &bytes, err));
    if (t->left-- == 0) {
        t->left = 0;
        return hdf5_refuse(t->f, PAWL_EDAMAGED, at, t->record_bytes, err,
                           "a B-tree has more records than it says");
    }
    cursor record = cursor_of(bytes, (size_t)t->record_bytes, at, c->what);
    return t->each(t->context, &record, err);
}

/* `count` records, and between, before and behind them the children of an inner node. */
static pawl_status read_node(tree *t, uint64_t address, uint64_t count, unsigned level,
                             pawl_error *err) {
    CLEANUP(buffer_free) buffer node = {0};
    hdf5_file *f = t->f;
    cursor c, children;
    uint64_t type, child, below, bytes, child_bytes;
    child_bytes = level > 0 ? f->offset_bytes + t->count_bytes + t->all_bytes[level - 1] : 0;
    bytes = NODE_OVERHEAD + count * t->record_bytes + (count + 1) * child_bytes;
    if (count > t->node_bytes || bytes > t->node_bytes) {
        return hdf5_refuse(f, PAWL_EDAMAGED, f->base + address, t->node_bytes, err,
                           "a node of a B-tree has more records than room");
    }
    TRY(hdf5_load(f, address, bytes, "B-tree", &node, &c, err));
    TRY(hdf5_checked(f, &c, err));
    TRY(hdf5_begin(f, &c, level > 0 ? "BTIN" : "BTLF", 0, err));
    TRY(hdf5_number(&c, 1, &type, err));
    if (type != t->type) {
        return hdf5_refuse(f, PAWL_EDAMAGED, c.base, c.at, err, "a node of another B-tree");
    }
    children = c;
    TRY(hdf5_skip(&children, (size_t)(count * t->record_bytes), err));
    for (uint64_t i = 0; i <= count; i++) {
        if (level > 0) {
            TRY(hdf5_address(f, &children, &child, err));
            TRY(hdf5_number(&children, t->count_bytes, &below, err));
            TRY(hdf5_skip(&children, t->all_bytes[level - 1], err));
            TRY(read_node(t, child, below, level - 1, err));
        }
        if (i < count) {
            TRY(give_record(t, &c, err));
        }
    }
    return PAWL_OK;
}

pawl_status hdf5_tree_each(hdf5_file *f, uint64_t address, unsigned type, size_t *record_bytes,
                           hdf5_each_record each, void *context, pawl_error *err) {
    CLEANUP(buffer_free) buffer head = {0};
    tree t = {.f = f, .type = type, .each = each, .context = context};
    cursor c;
    uint64_t is, depth, root, count;
    TRY(hdf5_load(f, address, 22 + f->offset_bytes + f->length_bytes, "B-tree", &head, &c, err));
    TRY(hdf5_checked(f, &c, err));
    TRY(hdf5_begin(f, &c, "BTHD", 0, err));
    TRY(hdf5_number(&c, 1, &is, err));
    TRY(hdf5_number(&c, 4, &t.node_bytes, err));
    TRY(hdf5_number(&c, 2, &t.record_bytes, err));
    TRY(hdf5_number(&c, 2, &depth, err));
    TRY(hdf5_skip(&c, 2, err)); /* when nodes are split and merged */
    TRY(hdf5_address(f, &c, &root, err));
    TRY(hdf5_number(&c, 2, &count, err));
    TRY(hdf5_length(f, &c, &t.left, err));
    if (is != type || depth >= FOREIGN_MAX_HDF5_LEVELS) {
        hdf5_refuse(f, PAWL_EDAMAGED, c.base, c.size, err, "a B-tree of another type, or too deep");
        error_expected(err, "type %u, fewer than %u levels", type, FOREIGN_MAX_HDF5_LEVELS);
        error_found(err, "type %u, %u levels", (unsigned)is, (unsigned)depth);
        return PAWL_EDAMAGED;
    }
    t.depth = (unsigned)depth;
    *record_bytes = (size_t)t.record_bytes;
    if (root == HDF5_NONE) {
        return PAWL_OK;
    }
    TRY(set_levels(&t, &c, err));
    uint64_t all = t.left;
    TRY(read_node(&t, root, count, t.depth, err));
    if (t.left > 0) {
        hdf5_refuse(f, PAWL_EDAMAGED, c.base, c.size, err,
                    "a B-tree has fewer records than it says");
        error_expected(err, "%llu", (unsigned long long)all);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}
