/* SPDX-License-Identifier: Apache-2.0 */
/* The global heap: texts of variable length. */
#include "foreign/hdf5/file.h"

#define OBJECTS 65536u /* a number has two bytes */

/* Heads of a heap, and of an object in it, have a length, and end at a multiple of 8. */
static size_t head_bytes(const hdf5_file *f) {
    return (8 + (size_t)f->length_bytes + 7) / 8 * 8;
}

/* Notes where each object begins. The one of number 0 is what is free, and is the last. */
static pawl_status find_objects(hdf5_file *f, cursor *c, pawl_error *err) {
    uint32_t *objects = f->collection.objects;
    size_t head = head_bytes(f);
    memset(objects, 0, OBJECTS * sizeof(*objects));
    while (cursor_left(c) >= head) {
        uint64_t number, bytes, ignored;
        size_t at = c->at;
        TRY(hdf5_number(c, 2, &number, err));
        TRY(hdf5_number(c, 2 + 4, &ignored, err));
        TRY(hdf5_length(f, c, &bytes, err));
        if (number == 0) {
            return PAWL_OK;
        }
        c->at = at + head;
        uint64_t padded = bytes <= c->size ? (bytes + 7) / 8 * 8 : bytes;
        if (objects[number] != 0 || padded > cursor_left(c)) {
            return hdf5_refuse(f, PAWL_EDAMAGED, c->base + at, head, err,
                               "an object of the global heap is there twice, or too long");
        }
        objects[number] = (uint32_t)at;
        TRY(hdf5_skip(c, (size_t)padded, err));
    }
    return PAWL_OK;
}

static pawl_status load_collection(hdf5_file *f, uint64_t address, pawl_error *err) {
    hdf5_collection *h = &f->collection;
    uint64_t bytes;
    cursor c;
    h->address = HDF5_NONE;
    if (h->objects == NULL) {
        h->objects = mem_calloc(OBJECTS, sizeof(*h->objects));
        if (h->objects == NULL) {
            return error_nomem(err, OBJECTS * sizeof(*h->objects));
        }
    }
    TRY(hdf5_load(f, address, 8 + f->length_bytes, "global heap", &h->bytes, &c, err));
    TRY(hdf5_begin(f, &c, "GCOL", 1, err));
    TRY(hdf5_skip(&c, 3, err));
    TRY(hdf5_length(f, &c, &bytes, err));
    size_t head = head_bytes(f);
    if (bytes < head) {
        return hdf5_refuse(f, PAWL_EDAMAGED, c.base, head, err, "a global heap that is too short");
    }
    TRY(hdf5_load(f, address, bytes, "global heap", &h->bytes, &c, err));
    c.at = head;
    TRY(find_objects(f, &c, err));
    h->address = address;
    return PAWL_OK;
}

pawl_status hdf5_variable(hdf5_file *f, cursor *reference, hdf5_bytes *out, pawl_error *err) {
    uint64_t at = reference->base + reference->at;
    const hdf5_collection *h = &f->collection;
    uint32_t length, number;
    uint64_t address, bytes;
    *out = (hdf5_bytes){.data = (const uint8_t *)"", .at = HDF5_NONE};
    TRY(cursor_u32le(reference, &length, err));
    TRY(hdf5_address(f, reference, &address, err));
    TRY(cursor_u32le(reference, &number, err));
    if (length == 0 || address == 0) {
        return PAWL_OK; /* an empty one */
    }
    if (address != h->address) {
        TRY(load_collection(f, address, err));
    }
    if (number >= OBJECTS || h->objects[number] == 0) {
        hdf5_refuse(f, PAWL_EDAMAGED, at, 8 + f->offset_bytes, err,
                    "an object of the global heap is not there");
        error_expected(err, "object %u of the heap at address %llu", number,
                       (unsigned long long)address);
        return PAWL_EDAMAGED;
    }
    cursor c = cursor_of(h->bytes.data, h->bytes.size, f->base + address, "global heap");
    c.at = h->objects[number] + 8;
    TRY(hdf5_length(f, &c, &bytes, err));
    c.at = h->objects[number] + head_bytes(f);
    if (bytes < length) {
        return hdf5_refuse(f, PAWL_EDAMAGED, at, 8 + f->offset_bytes, err,
                           "a text is longer than its object of the global heap");
    }
    out->at = c.base + c.at;
    out->n = length;
    return cursor_bytes(&c, length, &out->data, err);
}
