/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extensible arrays: chunks of datasets that may grow without an end along one dimension.
 *
 * The first elements are in the index block. Others are in data blocks, which are grouped: group u
 * has 2^(u/2) data blocks of 2^((u+1)/2) times the smallest number of elements, both rounded down.
 * The addresses of the data blocks of the first groups are in the index block, too; each further
 * group has a super block with those of its own.
 */
#include "foreign/hdf5/chunk_index.h"

#include <stdlib.h>

typedef struct extensible {
    chunk_index *x;
    uint64_t max_bits, first_elements, least, pointers, page_bits; /* of the header */
    uint64_t address;                                              /* of the index block */
    unsigned offset_bytes, least_bits;
    uint64_t next; /* number of the next element */
} extensible;

static unsigned log2_of(uint64_t v) {
    unsigned bits = 0;
    while (v > 1) {
        v >>= 1;
        bits++;
    }
    return bits;
}

static bool is_power(uint64_t v) {
    return v != 0 && (v & (v - 1)) == 0;
}

static pawl_status open_array(extensible *a, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    chunk_index *x = a->x;
    hdf5_file *f = x->f;
    cursor c;
    uint64_t client;
    TRY(hdf5_load(f, x->layout->address, 16 + 6 * f->length_bytes + f->offset_bytes,
                  "extensible array", &bytes, &c, err));
    TRY(hdf5_checked(f, &c, err));
    TRY(hdf5_begin(f, &c, "EAHD", 0, err));
    TRY(hdf5_number(&c, 1, &client, err));
    TRY(hdf5_number(&c, 1, &x->element_bytes, err));
    TRY(hdf5_number(&c, 1, &a->max_bits, err));
    TRY(hdf5_number(&c, 1, &a->first_elements, err));
    TRY(hdf5_number(&c, 1, &a->least, err));
    TRY(hdf5_number(&c, 1, &a->pointers, err));
    TRY(hdf5_number(&c, 1, &a->page_bits, err));
    TRY(hdf5_skip(&c, 6 * (size_t)f->length_bytes,
                  err)); /* how many blocks and elements there are */
    TRY(hdf5_address(f, &c, &a->address, err));
    x->filtered = client == 1;
    a->offset_bytes = (unsigned)(a->max_bits + 7) / 8;
    a->least_bits = log2_of(a->least);
    if (client > 1 || !chunk_index_fits(x) || !is_power(a->least) || !is_power(a->pointers) ||
        a->max_bits > 63 || a->max_bits < a->least_bits || a->page_bits > 30) {
        return hdf5_refuse(f, PAWL_EDAMAGED, c.base, c.size, err,
                           "an extensible array that does not fit its dataset");
    }
    return PAWL_OK;
}

/* A block that begins as all do: it is checked, and the cursor is behind its beginning. */
static pawl_status load_block(extensible *a, uint64_t address, uint64_t bytes, const char *is,
                              buffer *out, cursor *c, pawl_error *err) {
    hdf5_file *f = a->x->f;
    TRY(hdf5_load(f, address, bytes, "block of an extensible array", out, c, err));
    TRY(hdf5_checked(f, c, err));
    TRY(hdf5_begin(f, c, is, 0, err));
    return hdf5_skip(c, 1 + (size_t)f->offset_bytes, err);
}

/* Pages follow their block, each with a checksum; a bit says whether one was ever written. */
static pawl_status read_pages(extensible *a, uint64_t address, uint64_t n, const uint8_t *map,
                              pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    uint64_t page = UINT64_C(1) << a->page_bits;
    cursor c;
    for (uint64_t i = 0; i < n / page; i++) {
        uint64_t page_bytes = page * a->x->element_bytes + 4;
        if ((map[i / 8] >> (7 - i % 8) & 1) == 0) {
            continue;
        }
        TRY(hdf5_load(a->x->f, address + i * page_bytes, page_bytes, "page of an extensible array",
                      &bytes, &c, err));
        TRY(hdf5_checked(a->x->f, &c, err));
        TRY(chunk_index_elements(a->x, a->next + i * page, page, &c, err));
    }
    return PAWL_OK;
}

/* `map`: of its pages, where it has any. */
static pawl_status read_data_block(extensible *a, uint64_t address, uint64_t n, const uint8_t *map,
                                   pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    uint64_t head = 6 + (uint64_t)a->x->f->offset_bytes + a->offset_bytes;
    bool paged = n > UINT64_C(1) << a->page_bits;
    cursor c;
    if (address == HDF5_NONE) {
        return PAWL_OK;
    }
    if (n > a->x->f->end || (paged && map == NULL)) {
        return hdf5_refuse(a->x->f, PAWL_EDAMAGED, a->x->f->base + address, head, err,
                           "a block of an extensible array that cannot be so large");
    }
    TRY(load_block(a, address, head + (paged ? 0 : n * a->x->element_bytes) + 4, "EADB", &bytes, &c,
                   err));
    if (paged) {
        return read_pages(a, address + head + 4, n, map, err);
    }
    TRY(hdf5_skip(&c, a->offset_bytes, err));
    return chunk_index_elements(a->x, a->next, n, &c, err);
}

static uint64_t blocks_of(unsigned group) {
    return UINT64_C(1) << group / 2;
}

static uint64_t elements_of(const extensible *a, unsigned group) {
    return a->least << (group + 1) / 2;
}

static pawl_status read_super_block(extensible *a, uint64_t address, unsigned group,
                                    pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    hdf5_file *f = a->x->f;
    uint64_t n = elements_of(a, group);
    uint64_t blocks = blocks_of(group);
    uint64_t page = UINT64_C(1) << a->page_bits;
    uint64_t map_bytes = page > 0 && n > page ? (n / page + 7) / 8 : 0;
    const uint8_t *maps = NULL;
    cursor c;
    if (blocks > FOREIGN_MAX_HDF5_BLOCK || map_bytes > FOREIGN_MAX_HDF5_BLOCK) {
        return hdf5_beyond(f, "chunks", FOREIGN_MAX_HDF5_CHUNKS, err);
    }
    TRY(load_block(a, address,
                   6 + (uint64_t)f->offset_bytes + a->offset_bytes +
                       blocks * (map_bytes + f->offset_bytes) + 4,
                   "EASB", &bytes, &c, err));
    TRY(hdf5_skip(&c, a->offset_bytes, err));
    TRY(cursor_bytes(&c, (size_t)(blocks * map_bytes), &maps, err));
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t block;
        TRY(hdf5_address(f, &c, &block, err));
        TRY(read_data_block(a, block, n, map_bytes > 0 ? maps + i * map_bytes : NULL, err));
        a->next += n;
    }
    return PAWL_OK;
}

static pawl_status read_index_block(extensible *a, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    hdf5_file *f = a->x->f;
    unsigned groups = 1 + (unsigned)a->max_bits - a->least_bits;
    unsigned direct = 2 * log2_of(a->pointers);
    uint64_t blocks = 2 * (a->pointers - 1);
    uint64_t address;
    cursor c;
    direct = direct < groups ? direct : groups;
    TRY(load_block(a, a->address,
                   6 + f->offset_bytes + a->first_elements * a->x->element_bytes +
                       (blocks + groups - direct) * f->offset_bytes + 4,
                   "EAIB", &bytes, &c, err));
    TRY(chunk_index_elements(a->x, 0, a->first_elements, &c, err));
    a->next = a->first_elements;
    for (unsigned group = 0; group < direct; group++) {
        for (uint64_t i = 0; i < blocks_of(group); i++) {
            TRY(hdf5_address(f, &c, &address, err));
            TRY(read_data_block(a, address, elements_of(a, group), NULL, err));
            a->next += elements_of(a, group);
        }
    }
    for (unsigned group = direct; group < groups; group++) {
        TRY(hdf5_address(f, &c, &address, err));
        if (address != HDF5_NONE) {
            TRY(read_super_block(a, address, group, err));
        } else {
            a->next += blocks_of(group) * elements_of(a, group);
        }
    }
    return PAWL_OK;
}

static int by_index(const void *left, const void *right) {
    const hdf5_chunk *a = left;
    const hdf5_chunk *b = right;
    return (a->index > b->index) - (a->index < b->index);
}

pawl_status chunk_index_extensible(chunk_index *x, pawl_error *err) {
    extensible a = {.x = x};
    TRY(open_array(&a, err));
    if (a.address == HDF5_NONE) {
        return PAWL_OK;
    }
    TRY(read_index_block(&a, err));
    if (x->out->count > 1) { /* the dimension without an end need not be the slowest */
        qsort(x->out->items, x->out->count, sizeof(*x->out->items), by_index);
    }
    return PAWL_OK;
}
