/* SPDX-License-Identifier: Apache-2.0 */
/* An HDF5 file: its superblock, and how bytes of it are loaded. */
#include "foreign/hdf5/file.h"

#include <stdio.h>

#define WINDOW_BYTES ((size_t)65536)
/* A load costs at least as much as so many bytes: what is loaded is bounded in number, too. */
#define LEAST_CHARGE 512u

/* ---- refusing ---- */

pawl_status hdf5_refuse(const hdf5_file *f, pawl_status status, uint64_t position, uint64_t n,
                        pawl_error *err, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    text_format(text, sizeof(text), format, arguments);
    va_end(arguments);
    error_set(err, status,
              status == PAWL_EUNSUPPORTED
                  ? "the HDF5 file has something that pawl does not read: %s"
              : status == PAWL_ELIMIT ? "the HDF5 file is beyond a maximum: %s"
                                      : "the HDF5 file is wrong: %s",
              text);
    archive_error_file(f->a, archive_file_of(f->a, f->place.stream), err);
    error_range(err, position, n);
    return status;
}

pawl_status hdf5_beyond(const hdf5_file *f, const char *what, uint64_t most, pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "the HDF5 file has too many %s", what);
    archive_error_file(f->a, archive_file_of(f->a, f->place.stream), err);
    error_expected(err, "at most %llu", (unsigned long long)most);
    return PAWL_ELIMIT;
}

/* ---- loading ---- */

static pawl_status outside(const hdf5_file *f, uint64_t address, uint64_t n, const char *what,
                           pawl_error *err) {
    uint64_t position = address == HDF5_NONE ? f->base : f->base + address;
    hdf5_refuse(f, PAWL_EDAMAGED, position, n, err, "the %s is not in the file", what);
    error_expected(err, "%llu bytes before byte %llu", (unsigned long long)n,
                   (unsigned long long)f->end);
    if (address == HDF5_NONE) {
        error_found(err, "no address");
    } else {
        error_found(err, "address %llu", (unsigned long long)address);
    }
    return PAWL_EDAMAGED;
}

static pawl_status read_window(hdf5_file *f, uint64_t position, size_t n, uint8_t *to,
                               pawl_error *err) {
    buffer *w = &f->window;
    if (n > WINDOW_BYTES / 4) {
        return store_read(f->opened, position, to, n, err);
    }
    if (position < f->window_at || position - f->window_at > w->size ||
        w->size - (position - f->window_at) < n) {
        uint64_t left = f->end - position;
        w->size = 0;
        TRY(buffer_reserve(w, WINDOW_BYTES, err));
        size_t most = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        TRY(store_read(f->opened, position, w->data, most, err));
        w->size = most;
        w->data[most] = 0;
        f->window_at = position;
        f->a->base.reads.reads++;
        f->a->base.reads.bytes += most;
    }
    memcpy(to, w->data + (position - f->window_at), n);
    return PAWL_OK;
}

pawl_status hdf5_load(hdf5_file *f, uint64_t address, uint64_t n, const char *what, buffer *out,
                      cursor *c, pawl_error *err) {
    uint64_t position, end;
    if (address == HDF5_NONE || add_overflows(f->base, address, &position) ||
        add_overflows(position, n, &end) || end > f->end) {
        return outside(f, address, n, what, err);
    }
    if (n > FOREIGN_MAX_HDF5_BLOCK) {
        hdf5_refuse(f, PAWL_ELIMIT, position, n, err, "the %s is too large", what);
        error_expected(err, "at most %u bytes", FOREIGN_MAX_HDF5_BLOCK);
        error_found(err, "%llu", (unsigned long long)n);
        return PAWL_ELIMIT;
    }
    f->usage->loaded += n < LEAST_CHARGE ? LEAST_CHARGE : n;
    if (f->usage->loaded > FOREIGN_MAX_HEADERS) {
        return hdf5_beyond(f, "bytes that describe the tensors", FOREIGN_MAX_HEADERS, err);
    }
    out->size = 0;
    TRY(buffer_reserve(out, (size_t)n, err));
    TRY(read_window(f, position, (size_t)n, out->data, err));
    out->size = (size_t)n;
    out->data[n] = 0;
    *c = cursor_of(out->data, (size_t)n, position, what);
    return PAWL_OK;
}

pawl_status hdf5_number(cursor *c, unsigned bytes, uint64_t *out, pawl_error *err) {
    const uint8_t *b = NULL;
    uint64_t v = 0;
    TRY(cursor_bytes(c, bytes, &b, err));
    for (unsigned i = bytes; i > 0; i--) {
        v = v << 8 | b[i - 1];
    }
    *out = v;
    return PAWL_OK;
}

pawl_status hdf5_address(const hdf5_file *f, cursor *c, uint64_t *out, pawl_error *err) {
    TRY(hdf5_number(c, f->offset_bytes, out, err));
    if (*out == UINT64_MAX >> (64 - 8 * f->offset_bytes)) {
        *out = HDF5_NONE;
    }
    return PAWL_OK;
}

pawl_status hdf5_length(const hdf5_file *f, cursor *c, uint64_t *out, pawl_error *err) {
    return hdf5_number(c, f->length_bytes, out, err);
}

pawl_status hdf5_skip(cursor *c, size_t n, pawl_error *err) {
    const uint8_t *ignored;
    return cursor_bytes(c, n, &ignored, err);
}

pawl_status hdf5_begin(const hdf5_file *f, cursor *c, const char *signature, unsigned version,
                       pawl_error *err) {
    uint64_t position = c->base + c->at;
    const uint8_t *found = NULL;
    uint8_t is;
    TRY(cursor_bytes(c, 4, &found, err));
    if (memcmp(found, signature, 4) != 0) {
        hdf5_refuse(f, PAWL_EDAMAGED, position, 4, err, "the %s does not begin as one", c->what);
        error_expected(err, "\"%s\"", signature);
        return PAWL_EDAMAGED;
    }
    TRY(cursor_u8(c, &is, err));
    if (is != version) {
        hdf5_refuse(f, PAWL_EUNSUPPORTED, position + 4, 1, err, "a version of the %s", c->what);
        error_expected(err, "version %u", version);
        error_found(err, "version %u", is);
        return PAWL_EUNSUPPORTED;
    }
    return PAWL_OK;
}

pawl_status hdf5_checked(const hdf5_file *f, const cursor *c, pawl_error *err) {
    uint32_t stored = 0;
    cursor end = *c;
    if (c->size < 4) {
        return hdf5_refuse(f, PAWL_EDAMAGED, c->base, c->size, err, "the %s is too short", c->what);
    }
    end.at = c->size - 4;
    TRY(cursor_u32le(&end, &stored, err));
    uint32_t computed = hdf5_lookup3(c->data, c->size - 4);
    if (stored == computed) {
        return PAWL_OK;
    }
    hdf5_refuse(f, PAWL_EDAMAGED, c->base, c->size, err, "the checksum of the %s does not match",
                c->what);
    error_expected(err, "%08x, as is stored", stored);
    error_found(err, "%08x", computed);
    return PAWL_EDAMAGED;
}

/* ---- the superblock ---- */

bool hdf5_looks_like(const uint8_t *head, size_t n) {
    return n >= HDF5_SIGNATURE_BYTES && memcmp(head, HDF5_SIGNATURE, HDF5_SIGNATURE_BYTES) == 0;
}

pawl_status hdf5_locate(store_file *file, uint64_t offset, uint64_t bytes, uint64_t *out,
                        bool *found, pawl_error *err) {
    uint8_t head[HDF5_SIGNATURE_BYTES];
    *found = false;
    for (uint64_t at = 0; at + sizeof(head) <= bytes && !*found; at = at == 0 ? 512 : at * 2) {
        TRY(store_read(file, offset + at, head, sizeof(head), err));
        *found = hdf5_looks_like(head, sizeof(head));
        *out = offset + at;
    }
    return PAWL_OK;
}

static pawl_status find_signature(hdf5_file *f, pawl_error *err) {
    bool found;
    TRY(hdf5_locate(f->opened, f->place.offset, f->place.bytes, &f->base, &found, err));
    if (found) {
        return PAWL_OK;
    }
    hdf5_refuse(f, PAWL_EDAMAGED, f->place.offset, HDF5_SIGNATURE_BYTES, err,
                "it does not begin as HDF5 files do");
    error_expected(err, "89 48 44 46 0d 0a 1a 0a at its beginning, at byte 512, 1024, 2048, ...");
    return PAWL_EDAMAGED;
}

static pawl_status set_sizes(hdf5_file *f, const cursor *c, pawl_error *err) {
    unsigned o = f->offset_bytes;
    unsigned l = f->length_bytes;
    if ((o == 2 || o == 4 || o == 8) && (l == 2 || l == 4 || l == 8)) {
        return PAWL_OK;
    }
    hdf5_refuse(f, PAWL_EUNSUPPORTED, c->base, c->at, err, "the size of addresses or lengths");
    error_expected(err, "2, 4 or 8 bytes each");
    error_found(err, "%u and %u", o, l);
    return PAWL_EUNSUPPORTED;
}

typedef struct superblock {
    uint64_t base, end, driver, root; /* addresses */
} superblock;

static pawl_status read_old(hdf5_file *f, cursor *c, unsigned version, superblock *out,
                            pawl_error *err) {
    uint8_t offsets, lengths;
    uint64_t ignored;
    TRY(hdf5_skip(c, 4, err));
    TRY(cursor_u8(c, &offsets, err));
    TRY(cursor_u8(c, &lengths, err));
    f->offset_bytes = offsets;
    f->length_bytes = lengths;
    TRY(set_sizes(f, c, err));
    TRY(hdf5_skip(c, 1 + 2 + 2 + 4 + (version == 1 ? 4 : 0), err));
    TRY(hdf5_address(f, c, &out->base, err));
    TRY(hdf5_address(f, c, &ignored, err)); /* free space */
    TRY(hdf5_address(f, c, &out->end, err));
    TRY(hdf5_address(f, c, &out->driver, err));
    TRY(hdf5_length(f, c, &ignored, err)); /* the name of the root group */
    return hdf5_address(f, c, &out->root, err);
}

static pawl_status read_new(hdf5_file *f, cursor *c, superblock *out, pawl_error *err) {
    uint8_t offsets, lengths;
    uint64_t ignored;
    TRY(cursor_u8(c, &offsets, err));
    TRY(cursor_u8(c, &lengths, err));
    f->offset_bytes = offsets;
    f->length_bytes = lengths;
    TRY(set_sizes(f, c, err));
    TRY(hdf5_skip(c, 1, err)); /* flags */
    TRY(hdf5_address(f, c, &out->base, err));
    TRY(hdf5_address(f, c, &ignored, err)); /* the extension */
    TRY(hdf5_address(f, c, &out->end, err));
    TRY(hdf5_address(f, c, &out->root, err));
    out->driver = HDF5_NONE;
    if (cursor_left(c) < 4) {
        return hdf5_skip(c, 4, err);
    }
    cursor whole = *c;
    whole.size = c->at + 4;
    return hdf5_checked(f, &whole, err);
}

static pawl_status is_cut_off(const hdf5_file *f, uint64_t bytes, pawl_error *err) {
    hdf5_refuse(f, PAWL_EDAMAGED, f->end, 0, err, "it is shorter than it says");
    error_expected(err, "%llu bytes", (unsigned long long)bytes);
    error_found(err, "%llu bytes", (unsigned long long)(f->end - f->base));
    error_next(err, "get the file once more from where it came from: it was not copied, or not "
                    "written, to its end");
    return PAWL_EDAMAGED;
}

static pawl_status read_superblock(hdf5_file *f, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    superblock s = {.driver = HDF5_NONE};
    cursor c;
    uint8_t version;
    uint64_t left = f->end - f->base;
    TRY(hdf5_load(f, 0, left < 128 ? left : 128, "superblock", &bytes, &c, err));
    TRY(hdf5_skip(&c, HDF5_SIGNATURE_BYTES, err));
    TRY(cursor_u8(&c, &version, err));
    if (version > 3) {
        hdf5_refuse(f, PAWL_EUNSUPPORTED, f->base + 8, 1, err, "a version of the superblock");
        error_expected(err, "version 0 to 3");
        error_found(err, "version %u", version);
        return PAWL_EUNSUPPORTED;
    }
    TRY(version < 2 ? read_old(f, &c, version, &s, err) : read_new(f, &c, &s, err));
    if (s.driver != HDF5_NONE) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, f->base, c.at, err,
                           "it is one of several files that one is split into");
    }
    if (s.base > s.end) {
        hdf5_refuse(f, PAWL_EDAMAGED, f->base, c.at, err, "its addresses begin behind its end");
        error_expected(err, "at most %llu", (unsigned long long)s.end);
        error_found(err, "%llu", (unsigned long long)s.base);
        return PAWL_EDAMAGED;
    }
    if (s.end == HDF5_NONE || s.end - s.base > left) {
        return is_cut_off(f, s.end == HDF5_NONE ? s.end : s.end - s.base, err);
    }
    f->root = s.root;
    return PAWL_OK;
}

/* ---- opening ---- */

pawl_status hdf5_open(archive *a, const hdf5_place *place, hdf5_usage *usage, hdf5_file *out,
                      pawl_error *err) {
    *out = (hdf5_file){.a = a,
                       .place = *place,
                       .end = place->offset + place->bytes,
                       .usage = usage,
                       .collection = {.address = HDF5_NONE}};
    TRY(archive_open_stream(a, place->stream, STORE_READ, &out->opened, err));
    pawl_status status = find_signature(out, err);
    if (status == PAWL_OK) {
        status = read_superblock(out, err);
    }
    if (status != PAWL_OK) {
        hdf5_close(out);
    }
    return status;
}

void hdf5_close(hdf5_file *f) {
    store_close(f->opened);
    f->opened = NULL;
    buffer_free(&f->window);
    buffer_free(&f->collection.bytes);
    mem_free(f->collection.objects);
    f->collection.objects = NULL;
}
