/* SPDX-License-Identifier: Apache-2.0 */
/* How the elements of a dataset are stored: layout, filters, and what stands for those that were
 * never written. */
#include "foreign/hdf5/dataset.h"

enum { CLASS_COMPACT, CLASS_CONTIGUOUS, CLASS_CHUNKED, CLASS_VIRTUAL };
enum { CHUNKED_CUT_RAW = 1, CHUNKED_SINGLE_FILTERED = 2 }; /* flags of version 4 and 5 */

typedef struct layout_reading {
    hdf5_file *f;
    const hdf5_space *space;
    const hdf5_type *type;
    hdf5_layout *out;
    cursor c;
} layout_reading;

static pawl_status not_read(const layout_reading *r, pawl_error *err, const char *what) {
    return hdf5_refuse(r->f, PAWL_EUNSUPPORTED, r->c.base, r->c.size, err, "%s", what);
}

/* ---- filters ---- */

static const char *filter_name(unsigned id) {
    switch (id) {
    case 4:
        return "szip";
    case 5:
        return "n-bit";
    case 6:
        return "scale-offset";
    case 32001:
        return "blosc";
    case 32004:
        return "lz4";
    case 32008:
        return "bitshuffle";
    case 32015:
        return "zstd";
    default:
        return "unknown";
    }
}

static pawl_status decode_filter(const hdf5_file *f, cursor *c, unsigned version, hdf5_filters *out,
                                 pawl_error *err) {
    uint64_t at = c->base + c->at;
    uint64_t id, name_bytes = 0, values;
    TRY(hdf5_number(c, 2, &id, err));
    if (version == 1 || id >= 256) {
        TRY(hdf5_number(c, 2, &name_bytes, err));
    }
    TRY(hdf5_skip(c, 2, err)); /* whether a chunk may do without it */
    TRY(hdf5_number(c, 2, &values, err));
    TRY(hdf5_skip(c, (size_t)(version == 1 ? (name_bytes + 7) / 8 * 8 : name_bytes), err));
    TRY(hdf5_skip(c, 4 * (size_t)values, err));
    TRY(hdf5_skip(c, version == 1 && values % 2 == 1 ? 4 : 0, err));
    if (id != HDF5_DEFLATE && id != HDF5_SHUFFLE && id != HDF5_FLETCHER32 && id != HDF5_LZF) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, at, 2, err, "filter %u (%s)", (unsigned)id,
                           filter_name((unsigned)id));
    }
    out->id[out->count++] = (hdf5_filter_id)id;
    return PAWL_OK;
}

/* Bytes are shuffled first, if they are, and compressed at most once. Checksums are anywhere. */
static bool is_known_order(const hdf5_filters *filters) {
    unsigned packed = 0, shuffled = 0, before = 0, behind = 0;
    for (unsigned i = 0; i < filters->count; i++) {
        bool sum = filters->id[i] == HDF5_FLETCHER32;
        bool shuffle = filters->id[i] == HDF5_SHUFFLE;
        if (shuffle && i > 0) {
            return false;
        }
        shuffled += shuffle;
        packed += !sum && !shuffle;
        before += sum && packed == 0;
        behind += sum && packed > 0;
    }
    return packed <= 1 && before <= 1 && behind <= 1 && shuffled <= 1;
}

static pawl_status read_filters(hdf5_file *f, const hdf5_header *h, hdf5_filters *out,
                                pawl_error *err) {
    const hdf5_message *m = hdf5_find(h, HDF5_FILTERS);
    uint64_t version, count;
    *out = (hdf5_filters){.count = 0};
    if (m == NULL) {
        return PAWL_OK;
    }
    cursor c = hdf5_message_cursor(m, "filters of a dataset");
    TRY(hdf5_number(&c, 1, &version, err));
    TRY(hdf5_number(&c, 1, &count, err));
    if (m->shared || version < 1 || version > 2 || count > HDF5_MAX_FILTERS) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, m->at, m->n, err,
                           "so many filters, or shared ones");
    }
    TRY(hdf5_skip(&c, version == 1 ? 6 : 0, err));
    for (uint64_t i = 0; i < count; i++) {
        TRY(decode_filter(f, &c, (unsigned)version, out, err));
    }
    return is_known_order(out)
               ? PAWL_OK
               : hdf5_refuse(f, PAWL_EUNSUPPORTED, m->at, m->n, err, "filters in such an order");
}

/* ---- the value of what was never written ---- */

static pawl_status read_fill(hdf5_file *f, const hdf5_header *h, const hdf5_type *type,
                             hdf5_layout *out, pawl_error *err) {
    const hdf5_message *m = hdf5_find(h, HDF5_FILL);
    const hdf5_message *old = hdf5_find(h, HDF5_OLD_FILL);
    const uint8_t *bytes = NULL;
    uint64_t version = 0, flags = 0, n = 0, ignored;
    if (m == NULL && old == NULL) {
        return PAWL_OK;
    }
    cursor c = hdf5_message_cursor(m != NULL ? m : old, "fill value");
    if (m != NULL) {
        TRY(hdf5_number(&c, 1, &version, err));
        if (m->shared || version < 1 || version > 3) {
            return hdf5_refuse(f, PAWL_EUNSUPPORTED, m->at, m->n, err, "a fill value of version %u",
                               (unsigned)version);
        }
        TRY(version == 3 ? PAWL_OK : hdf5_number(&c, 2, &ignored, err));
        TRY(hdf5_number(&c, 1, &flags, err));
        bool there = version == 3 ? (flags & 0x20) != 0 : version == 1 || flags == 1;
        if (!there || cursor_left(&c) == 0) {
            return PAWL_OK;
        }
    }
    TRY(hdf5_number(&c, 4, &n, err));
    if (n == 0 || type->bytes > sizeof(out->fill)) {
        return PAWL_OK;
    }
    if (n != type->bytes) {
        return hdf5_refuse(f, PAWL_EDAMAGED, c.base, c.size, err,
                           "a fill value that is not as long as an element");
    }
    TRY(cursor_bytes(&c, (size_t)n, &bytes, err));
    memcpy(out->fill, bytes, (size_t)n);
    out->filled = true;
    return PAWL_OK;
}

/* ---- layouts ---- */

static pawl_status read_compact(layout_reading *r, pawl_error *err) {
    TRY(hdf5_number(&r->c, 2, &r->out->bytes, err));
    r->out->at = r->c.base + r->c.at;
    return hdf5_skip(&r->c, (size_t)r->out->bytes, err);
}

static pawl_status read_contiguous(layout_reading *r, pawl_error *err) {
    hdf5_file *f = r->f;
    hdf5_layout *out = r->out;
    uint64_t address, end;
    TRY(hdf5_address(f, &r->c, &address, err));
    TRY(hdf5_length(f, &r->c, &out->bytes, err));
    if (address == HDF5_NONE) {
        return PAWL_OK;
    }
    if (add_overflows(f->base, address, &out->at) || add_overflows(out->at, out->bytes, &end) ||
        end > f->end) {
        hdf5_refuse(f, PAWL_EDAMAGED, r->c.base, r->c.size, err,
                    "the elements of a dataset are not in the file");
        error_expected(err, "%llu bytes before byte %llu", (unsigned long long)out->bytes,
                       (unsigned long long)f->end);
        error_found(err, "address %llu", (unsigned long long)address);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}

/* Extents of a chunk, and behind them the bytes of an element. */
static pawl_status read_chunk(layout_reading *r, unsigned count, unsigned bytes, pawl_error *err) {
    hdf5_layout *out = r->out;
    uint64_t extent = 0;
    out->chunk_bytes = r->type->bytes;
    if (count != (unsigned)r->space->ndim + 1) {
        return hdf5_refuse(r->f, PAWL_EDAMAGED, r->c.base, r->c.size, err,
                           "chunks of %u dimensions in a dataset of %d", count - 1, r->space->ndim);
    }
    for (unsigned d = 0; d < count; d++) {
        TRY(hdf5_number(&r->c, bytes, &extent, err));
        if (d + 1 == count) {
            break;
        }
        out->chunk[d] = (int64_t)extent;
        if (extent == 0 || extent > UINT32_MAX ||
            multiply_overflows(out->chunk_bytes, extent, &out->chunk_bytes) ||
            out->chunk_bytes > UINT64_MAX >> 8) {
            return hdf5_refuse(r->f, PAWL_EDAMAGED, r->c.base, r->c.size, err,
                               "chunks without elements, or with too many");
        }
    }
    if (extent != r->type->bytes) {
        return hdf5_refuse(r->f, PAWL_EDAMAGED, r->c.base, r->c.size, err,
                           "chunks of elements of another size than the dataset's");
    }
    return PAWL_OK;
}

static pawl_status read_chunked_3(layout_reading *r, pawl_error *err) {
    uint64_t count;
    r->out->chunked = true;
    TRY(hdf5_number(&r->c, 1, &count, err));
    TRY(hdf5_address(r->f, &r->c, &r->out->address, err));
    return read_chunk(r, (unsigned)count, 4, err);
}

static pawl_status read_index(layout_reading *r, unsigned flags, pawl_error *err) {
    static const hdf5_index kinds[] = {HDF5_SINGLE, HDF5_IMPLICIT, HDF5_FIXED, HDF5_EXTENSIBLE,
                                       HDF5_TREE_2};
    uint64_t kind, mask;
    hdf5_layout *out = r->out;
    TRY(hdf5_number(&r->c, 1, &kind, err));
    if (kind < 1 || kind > ARRAY_LENGTH(kinds)) {
        return not_read(r, err, "an index of chunks of an unknown kind");
    }
    out->index = kinds[kind - 1];
    if (out->index == HDF5_SINGLE && (flags & CHUNKED_SINGLE_FILTERED) != 0) {
        TRY(hdf5_length(r->f, &r->c, &out->single_bytes, err));
        TRY(hdf5_number(&r->c, 4, &mask, err));
        out->single_mask = (uint32_t)mask;
    }
    static const uint8_t parameters[] = {0, 0, 1, 5, 6}; /* bytes of them, by kind */
    TRY(hdf5_skip(&r->c, parameters[kind - 1], err));
    return hdf5_address(r->f, &r->c, &out->address, err);
}

static pawl_status read_chunked_4(layout_reading *r, pawl_error *err) {
    uint64_t flags, count, bytes;
    r->out->chunked = true;
    TRY(hdf5_number(&r->c, 1, &flags, err));
    TRY(hdf5_number(&r->c, 1, &count, err));
    TRY(hdf5_number(&r->c, 1, &bytes, err));
    if (bytes < 1 || bytes > 8) {
        return hdf5_refuse(r->f, PAWL_EDAMAGED, r->c.base, r->c.size, err,
                           "extents of chunks of %u bytes", (unsigned)bytes);
    }
    TRY(read_chunk(r, (unsigned)count, (unsigned)bytes, err));
    r->out->cut_raw = (flags & CHUNKED_CUT_RAW) != 0;
    return read_index(r, (unsigned)flags, err);
}

static pawl_status read_layout(layout_reading *r, pawl_error *err) {
    uint64_t version, class;
    TRY(hdf5_number(&r->c, 1, &version, err));
    if (version < 3 || version > 5) {
        hdf5_refuse(r->f, PAWL_EUNSUPPORTED, r->c.base, 1, err, "a version of the layout of data");
        error_expected(err, "version 3, 4 or 5");
        error_found(err, "version %u", (unsigned)version);
        return PAWL_EUNSUPPORTED;
    }
    TRY(hdf5_number(&r->c, 1, &class, err));
    switch (class) {
    case CLASS_COMPACT:
        return read_compact(r, err);
    case CLASS_CONTIGUOUS:
        return read_contiguous(r, err);
    case CLASS_CHUNKED:
        return version == 3 ? read_chunked_3(r, err) : read_chunked_4(r, err);
    case CLASS_VIRTUAL:
        return not_read(r, err, "a virtual dataset, which is made of others");
    default:
        return not_read(r, err, "a layout of data of an unknown class");
    }
}

pawl_status hdf5_layout_read(hdf5_file *f, const hdf5_header *h, const hdf5_space *space,
                             const hdf5_type *type, hdf5_layout *out, pawl_error *err) {
    const hdf5_message *m = hdf5_find(h, HDF5_LAYOUT);
    *out = (hdf5_layout){.at = HDF5_NONE, .message = m != NULL ? m->at : f->base + h->address};
    if (m == NULL || m->shared) {
        return hdf5_refuse(f, PAWL_EDAMAGED, f->base + h->address, 0, err,
                           "a dataset does not say how it is stored");
    }
    if (hdf5_find(h, HDF5_EXTERNAL) != NULL) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, f->base + h->address, 0, err,
                           "a dataset whose elements are in other files");
    }
    layout_reading r = {.f = f, .space = space, .type = type, .out = out};
    r.c = hdf5_message_cursor(m, "layout of data");
    TRY(read_layout(&r, err));
    TRY(read_filters(f, h, &out->filters, err));
    return read_fill(f, h, type, out, err);
}
