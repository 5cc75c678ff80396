/* SPDX-License-Identifier: Apache-2.0 */
/* Links and attributes of objects that have many: a B-tree of names, and a fractal heap that has
 * what they name. */
#include "foreign/hdf5/file.h"

enum { OBJECT_MANAGED = 0, OBJECT_HUGE = 1, OBJECT_TINY = 2 };

typedef struct heap {
    hdf5_file *f;
    const hdf5_dense *dense;
    hdf5_each_message each;
    void *context;
    unsigned id_bytes, offset_bytes, length_bytes;
    bool checksums;                     /* of direct blocks */
    uint64_t width, start, most_direct; /* blocks in a row; bytes of the smallest, the largest */
    uint64_t root, rows;                /* rows 0: the root is a direct block */
    unsigned max_bits;
    buffer block; /* the direct block that was looked into last */
    uint64_t block_address, block_bytes;
    uint64_t huge; /* address of the tree of objects that are too large for blocks */
} heap;

/* The id of an object has numbers of the fewest bytes that hold the largest ones. */
static unsigned bytes_for(uint64_t most) {
    unsigned bytes = 1;
    while (bytes < 8 && most >> (8 * bytes) != 0) {
        bytes++;
    }
    return bytes;
}

static bool is_power(uint64_t v) {
    return v != 0 && (v & (v - 1)) == 0;
}

static pawl_status refuse_heap(const heap *h, const cursor *c, pawl_status status, const char *what,
                               pawl_error *err) {
    return hdf5_refuse(h->f, status, c->base, c->size, err, "a fractal heap %s", what);
}

static pawl_status decode_head(heap *h, cursor *c, pawl_error *err) {
    hdf5_file *f = h->f;
    uint64_t id_bytes, filters, flags, most_managed, bits;
    TRY(hdf5_begin(f, c, "FRHP", 0, err));
    TRY(hdf5_number(c, 2, &id_bytes, err));
    TRY(hdf5_number(c, 2, &filters, err));
    TRY(hdf5_number(c, 1, &flags, err));
    TRY(hdf5_number(c, 4, &most_managed, err));
    TRY(hdf5_skip(c, f->length_bytes, err));
    TRY(hdf5_address(f, c, &h->huge, err));
    /* free space, and how many and how large all objects are */
    TRY(hdf5_skip(c, 9 * f->length_bytes + f->offset_bytes, err));
    TRY(hdf5_number(c, 2, &h->width, err));
    TRY(hdf5_length(f, c, &h->start, err));
    TRY(hdf5_length(f, c, &h->most_direct, err));
    TRY(hdf5_number(c, 2, &bits, err));
    TRY(hdf5_skip(c, 2, err)); /* rows to begin with */
    TRY(hdf5_address(f, c, &h->root, err));
    TRY(hdf5_number(c, 2, &h->rows, err));
    if (filters != 0) {
        return refuse_heap(h, c, PAWL_EUNSUPPORTED, "that is compressed", err);
    }
    if (!is_power(h->width) || !is_power(h->start) || !is_power(h->most_direct) ||
        h->start > h->most_direct || h->most_direct > FOREIGN_MAX_HDF5_BLOCK || bits == 0 ||
        bits > 63 || id_bytes == 0 || id_bytes > 64 || h->rows > 64) {
        return refuse_heap(h, c, PAWL_EDAMAGED, "of sizes that cannot be", err);
    }
    h->id_bytes = (unsigned)id_bytes;
    h->checksums = (flags & 2) != 0;
    h->max_bits = (unsigned)bits;
    h->offset_bytes = (h->max_bits + 7) / 8;
    h->length_bytes = bytes_for(most_managed < h->most_direct ? most_managed : h->most_direct);
    return PAWL_OK;
}

static pawl_status open_heap(heap *h, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    hdf5_file *f = h->f;
    cursor c;
    size_t n = 22 + 12 * (size_t)f->length_bytes + 3 * (size_t)f->offset_bytes + 4;
    TRY(hdf5_load(f, h->dense->heap, n, "fractal heap", &bytes, &c, err));
    if (bytes.data[7] != 0 || bytes.data[8] != 0) { /* a longer one, which is refused */
        return decode_head(h, &c, err);
    }
    TRY(hdf5_checked(f, &c, err));
    return decode_head(h, &c, err);
}

/* ---- where an object is --------------------------------------------------------------------- */

/* Of a row of a table: bytes of each block, and where the row begins. Both rows at the top have the
 * smallest blocks; from then on they double. */
static uint64_t row_block(const heap *h, unsigned row) {
    return row < 2 ? h->start : h->start << (row - 1);
}

static uint64_t row_begin(const heap *h, unsigned row) {
    return row == 0 ? 0 : (h->width * h->start) << (row - 1);
}

static bool find_row(const heap *h, uint64_t offset, uint64_t rows, unsigned *out) {
    for (unsigned row = 0; row < rows && row < 40; row++) {
        uint64_t begin = row_begin(h, row);
        uint64_t bytes = row_block(h, row) * h->width;
        if (offset >= begin && offset - begin < bytes) {
            *out = row;
            return true;
        }
    }
    return false;
}

static unsigned direct_rows(const heap *h) {
    unsigned row = 1;
    while (row < 40 && row_block(h, row) < h->most_direct) {
        row++;
    }
    return row + 1;
}

static unsigned log2_of(uint64_t v) {
    unsigned bits = 0;
    while (v > 1) {
        v >>= 1;
        bits++;
    }
    return bits;
}

/* The rows of an indirect block that stands for so many bytes. */
static uint64_t rows_of(const heap *h, uint64_t bytes) {
    unsigned all = log2_of(bytes);
    unsigned first = log2_of(h->start * h->width);
    return all >= first ? (uint64_t)all - first + 1 : 0;
}

/* Goes down one indirect block: to the child that has the offset. */
static pawl_status go_down(heap *h, uint64_t *address, uint64_t *offset, uint64_t *rows,
                           uint64_t *bytes, pawl_error *err) {
    CLEANUP(buffer_free) buffer block = {0};
    hdf5_file *f = h->f;
    cursor c;
    unsigned row = 0;
    size_t head = 5 + (size_t)f->offset_bytes + h->offset_bytes;
    uint64_t direct = direct_rows(h);
    uint64_t cells = *rows * h->width;
    TRY(hdf5_load(f, *address, head + cells * f->offset_bytes + 4, "indirect block", &block, &c,
                  err));
    TRY(hdf5_checked(f, &c, err));
    TRY(hdf5_begin(f, &c, "FHIB", 0, err));
    if (!find_row(h, *offset, *rows, &row)) {
        return refuse_heap(h, &c, PAWL_EDAMAGED, "does not have an object", err);
    }
    uint64_t left = *offset - row_begin(h, row);
    uint64_t column = left / row_block(h, row);
    c.at = head + (size_t)(row * h->width + column) * f->offset_bytes;
    TRY(hdf5_address(f, &c, address, err));
    *offset = left % row_block(h, row);
    *bytes = row_block(h, row);
    *rows = row < direct ? 0 : rows_of(h, *bytes);
    return PAWL_OK;
}

static pawl_status load_direct(heap *h, uint64_t address, uint64_t bytes, pawl_error *err) {
    cursor c;
    if (h->block_address == address && h->block_bytes == bytes) {
        return PAWL_OK;
    }
    h->block_address = HDF5_NONE;
    TRY(hdf5_load(h->f, address, bytes, "direct block", &h->block, &c, err));
    TRY(hdf5_begin(h->f, &c, "FHDB", 0, err));
    if (h->checksums) { /* counted with zeros in its own place */
        size_t at = 5 + (size_t)h->f->offset_bytes + h->offset_bytes;
        uint32_t stored = 0;
        c.at = at;
        TRY(cursor_u32le(&c, &stored, err));
        memset(h->block.data + at, 0, 4);
        if (hdf5_lookup3(h->block.data, h->block.size) != stored) {
            return refuse_heap(h, &c, PAWL_EDAMAGED, "has a block whose checksum does not match",
                               err);
        }
    }
    h->block_address = address;
    h->block_bytes = bytes;
    return PAWL_OK;
}

static pawl_status give_object(heap *h, uint64_t offset, uint64_t n, const cursor *id,
                               pawl_error *err) {
    uint64_t address = h->root;
    uint64_t rows = h->rows;
    uint64_t bytes = h->start;
    for (unsigned i = 0; rows > 0; i++) {
        if (i == FOREIGN_MAX_HDF5_LEVELS) {
            return refuse_heap(h, id, PAWL_EDAMAGED, "that is too deep", err);
        }
        TRY(go_down(h, &address, &offset, &rows, &bytes, err));
    }
    TRY(load_direct(h, address, bytes, err));
    if (offset > h->block.size || n > h->block.size - offset) {
        return refuse_heap(h, id, PAWL_EDAMAGED, "does not have an object", err);
    }
    const hdf5_message m = {.type = h->dense->type,
                            .data = h->block.data + offset,
                            .n = (size_t)n,
                            .at = h->f->base + address + offset};
    return h->each(h->context, &m, err);
}

/* ---- objects that are too large for blocks -------------------------------------------------- */

typedef struct huge_search {
    hdf5_file *f;
    uint64_t id, address, bytes;
    bool found;
} huge_search;

static pawl_status compare_huge(void *context, cursor *record, pawl_error *err) {
    huge_search *s = context;
    uint64_t address, bytes, id;
    TRY(hdf5_address(s->f, record, &address, err));
    TRY(hdf5_length(s->f, record, &bytes, err));
    TRY(hdf5_length(s->f, record, &id, err));
    if (id == s->id) {
        s->address = address;
        s->bytes = bytes;
        s->found = true;
    }
    return PAWL_OK;
}

/* By a number that a tree has. Few objects are so large, so all of the tree is read for each. */
static pawl_status give_huge(heap *h, cursor *id, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    hdf5_file *f = h->f;
    huge_search s = {.f = f};
    unsigned n = h->id_bytes - 1 < f->length_bytes ? h->id_bytes - 1 : f->length_bytes;
    size_t record_bytes;
    cursor c;
    if (h->id_bytes - 1 >= f->offset_bytes + f->length_bytes) {
        TRY(hdf5_address(f, id, &s.address, err)); /* there is room for where it is */
        TRY(hdf5_length(f, id, &s.bytes, err));
    } else {
        TRY(hdf5_number(id, n, &s.id, err));
        TRY(hdf5_tree_each(f, h->huge, 1, &record_bytes, compare_huge, &s, err));
        if (!s.found) {
            return refuse_heap(h, id, PAWL_EDAMAGED, "does not have an object", err);
        }
    }
    TRY(hdf5_load(f, s.address, s.bytes, "large attribute", &bytes, &c, err));
    const hdf5_message m = {
        .type = h->dense->type, .data = bytes.data, .n = bytes.size, .at = c.base};
    return h->each(h->context, &m, err);
}

static pawl_status take_record(void *context, cursor *record, pawl_error *err) {
    heap *h = context;
    uint64_t first, offset, n;
    TRY(hdf5_skip(record, h->dense->id_at, err));
    cursor id = *record;
    TRY(hdf5_number(record, 1, &first, err));
    unsigned kind = (unsigned)first >> 4 & 3;
    if (kind == OBJECT_HUGE) {
        return give_huge(h, record, err);
    }
    if (kind != OBJECT_MANAGED) {
        return refuse_heap(h, &id, PAWL_EUNSUPPORTED, "with links or attributes within their ids",
                           err);
    }
    TRY(hdf5_number(record, h->offset_bytes, &offset, err));
    TRY(hdf5_number(record, h->length_bytes, &n, err));
    return give_object(h, offset, n, &id, err);
}

pawl_status hdf5_dense_each(hdf5_file *f, const hdf5_dense *dense, hdf5_each_message each,
                            void *context, pawl_error *err) {
    heap h = {.f = f, .dense = dense, .each = each, .context = context, .block_address = HDF5_NONE};
    size_t record_bytes;
    TRY(open_heap(&h, err));
    pawl_status status =
        hdf5_tree_each(f, dense->tree, dense->tree_type, &record_bytes, take_record, &h, err);
    buffer_free(&h.block);
    return status;
}
