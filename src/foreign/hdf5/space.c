/* SPDX-License-Identifier: Apache-2.0 */
/* Dataspaces: the shapes of datasets and attributes. */
#include "foreign/hdf5/file.h"

enum { TYPE_SCALAR, TYPE_SIMPLE, TYPE_NULL };

static pawl_status read_extents(hdf5_file *f, cursor *c, bool most, hdf5_space *out,
                                pawl_error *err) {
    for (int d = 0; d < out->ndim; d++) {
        uint64_t extent;
        TRY(hdf5_length(f, c, &extent, err));
        if (extent > INT64_MAX) {
            return hdf5_refuse(f, PAWL_EDAMAGED, c->base + c->at - f->length_bytes, f->length_bytes,
                               err, "an extent that is too large");
        }
        out->shape[d] = (int64_t)extent;
        out->most[d] = extent;
    }
    for (int d = 0; most && d < out->ndim; d++) {
        TRY(hdf5_length(f, c, &out->most[d], err));
        if (out->most[d] == UINT64_MAX >> (64 - 8 * f->length_bytes)) {
            out->most[d] = UINT64_MAX;
        }
        if (out->most[d] < (uint64_t)out->shape[d]) {
            return hdf5_refuse(f, PAWL_EDAMAGED, c->base, c->size, err,
                               "a dataspace that is larger than it may grow to");
        }
    }
    return PAWL_OK;
}

pawl_status hdf5_space_read(hdf5_file *f, const hdf5_message *m, hdf5_space *out, pawl_error *err) {
    cursor c = hdf5_message_cursor(m, "dataspace");
    uint8_t version, ndim, flags, type = TYPE_SIMPLE;
    *out = (hdf5_space){.null = false};
    if (m->shared) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, m->at, m->n, err, "a shared dataspace");
    }
    TRY(cursor_u8(&c, &version, err));
    TRY(cursor_u8(&c, &ndim, err));
    TRY(cursor_u8(&c, &flags, err));
    if (version != 1 && version != 2) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, m->at, 1, err, "a dataspace of version %u",
                           version);
    }
    if (version == 1) {
        TRY(hdf5_skip(&c, 5, err));
    } else {
        TRY(cursor_u8(&c, &type, err));
    }
    if (type > TYPE_NULL || (type != TYPE_SIMPLE && ndim > 0)) {
        return hdf5_refuse(f, PAWL_EDAMAGED, m->at, m->n, err, "a dataspace of no known class");
    }
    if (ndim > PAWL_MAX_NDIM || (version == 1 && (flags & 2) != 0)) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, m->at, m->n, err,
                           "a dataspace of %u dimensions, or with permuted ones", ndim);
    }
    out->null = type == TYPE_NULL;
    out->ndim = ndim;
    return read_extents(f, &c, (flags & 1) != 0, out, err);
}

pawl_status hdf5_space_bytes(const hdf5_file *f, const hdf5_space *space, uint32_t element_bytes,
                             uint64_t *elements, uint64_t *bytes, pawl_error *err) {
    pawl_status status = PAWL_OK;
    *elements = 0;
    *bytes = 0;
    if (!space->null) {
        status = shape_check(PAWL_U8, space->ndim, space->shape, elements, NULL, err);
    }
    if (status == PAWL_OK && !multiply_overflows(*elements, element_bytes, bytes) &&
        *bytes <= (UINT64_MAX >> 2)) {
        return PAWL_OK;
    }
    hdf5_refuse(f, PAWL_ELIMIT, f->base, 0, err, "a dataset of more than 2^62 bytes");
    return PAWL_ELIMIT;
}
