/* SPDX-License-Identifier: Apache-2.0 */
/* A .npy alone, and what it has in common with those of a .npz. */
#include "foreign/numpy/array.h"
#include "foreign/numpy/numpy.h"
#include "foreign/streams.h"

#include <string.h>

#define ENDING ".npy"

pawl_status npy_entry_name(archive *a, const char *name, const char **out, pawl_error *err) {
    size_t n = strlen(name);
    size_t ending = sizeof(ENDING) - 1;
    bool ends = n > ending && strcmp(name + n - ending, ENDING) == 0;
    return archive_escape_name(a, name, ends ? n - ending : n, out, err);
}

static pawl_status wrong_size(const archive *a, const char *name, const npy_place *place,
                              uint64_t expected, uint64_t found, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED,
              found < expected ? "a .npy has fewer bytes than its header says"
                               : "a .npy has bytes behind its array");
    archive_error_file(a, place->file, err);
    error_entry(err, name);
    error_range(err, place->offset, place->bytes);
    error_expected(err, "%llu bytes of elements", (unsigned long long)expected);
    error_found(err, "%llu", (unsigned long long)found);
    return PAWL_EDAMAGED;
}

/* More than one dimension with more than one element: else both orders are the same. */
static bool is_turned(const npy_header *h) {
    int dims = 0;
    for (int i = 0; i < h->ndim; i++) {
        dims += h->shape[i] > 1;
    }
    return h->column_major && dims > 1;
}

/* ---- what is not as pawl reads it ---- */

/* Of what is decompressed: so that all of a part is kept while it is put in order. */
#define PART_BYTES ((uint64_t)STREAM_KEPT / 2)

/* A column-major array cut along its last dimensions: each part is all of the dimensions before
 * `cut`, `rows` of that one, and one of each behind. */
typedef struct slicing {
    int cut;
    int64_t rows;
    uint64_t inner; /* elements of the dimensions before */
    size_t count;
} slicing;

static slicing slice(const npy_header *h, bool whole) {
    slicing s = {.cut = 0, .inner = 1, .count = 1};
    uint64_t most = whole ? UINT64_MAX : PART_BYTES / h->element_bytes;
    while (s.cut < h->ndim - 1 && s.inner * (uint64_t)h->shape[s.cut] <= most) {
        s.inner *= (uint64_t)h->shape[s.cut++];
    }
    uint64_t length = h->ndim > 0 ? (uint64_t)h->shape[s.cut] : 1;
    uint64_t rows = most / s.inner;
    rows = rows < length ? rows : length;
    s.rows = (int64_t)(rows > 0 ? rows : 1);
    for (int i = s.cut; i < h->ndim; i++) {
        uint64_t step = i == s.cut ? (uint64_t)s.rows : 1;
        s.count *= (size_t)(((uint64_t)h->shape[i] + step - 1) / step);
    }
    return s;
}

/* The boxes of a part, and where its elements begin. */
static uint64_t find_part(const npy_header *h, const slicing *s, size_t number, int64_t *offset,
                          int64_t *extent) {
    uint64_t first = 0;
    uint64_t stride = s->inner;
    for (int i = 0; i < h->ndim; i++) {
        int64_t step = i == s->cut ? s->rows : 1;
        size_t steps = (size_t)((h->shape[i] + step - 1) / step);
        offset[i] = 0;
        extent[i] = h->shape[i];
        if (i >= s->cut) {
            offset[i] = (int64_t)(number % steps) * step;
            extent[i] = h->shape[i] - offset[i] < step ? h->shape[i] - offset[i] : step;
            number /= steps;
            first += (uint64_t)offset[i] * stride;
            stride *= (uint64_t)h->shape[i];
        }
    }
    return first;
}

/* Column-major, in the other byte order, or not aligned in what is decompressed. */
static pawl_status add_layout(archive *a, const npy_header *h, const npy_place *place,
                              const int64_t *extent, uint64_t first, archive_part *part,
                              pawl_error *err) {
    int64_t strides[PAWL_MAX_NDIM];
    int64_t stride = 1;
    uint64_t elements = 1;
    for (int i = 0; i < h->ndim; i++) {
        strides[i] = stride;
        stride *= h->shape[i];
        elements *= (uint64_t)extent[i];
    }
    const stream_layout layout = {.stream = place->stream,
                                  .offset = place->offset + h->bytes + first * h->element_bytes,
                                  .element_bytes = h->element_bytes,
                                  .swap_bytes = h->swap_bytes,
                                  .ndim = h->ndim,
                                  .shape = extent,
                                  .strides = is_turned(h) ? strides : NULL};
    part->offset = 0;
    part->bytes = elements * h->element_bytes;
    return stream_add_strided(a, &layout, place->offset + place->bytes, &part->stream, err);
}

static pawl_status add_parts(archive *a, const npy_header *h, const npy_place *place,
                             archive_tensor *tensor, pawl_error *err) {
    slicing s = slice(h, place->stream == place->file || !is_turned(h));
    int ndim = h->ndim > 0 ? h->ndim : 1;
    AUTOFREE archive_part *parts = mem_calloc(s.count, sizeof(*parts));
    AUTOFREE int64_t *boxes = mem_calloc(s.count, 2 * (size_t)ndim * sizeof(*boxes));
    if (parts == NULL || boxes == NULL) {
        return error_nomem(err, s.count * sizeof(*parts));
    }
    for (size_t i = 0; i < s.count; i++) {
        int64_t *offset = boxes + 2 * (size_t)ndim * i;
        int64_t *extent = offset + ndim;
        uint64_t first = find_part(h, &s, i, offset, extent);
        TRY(add_layout(a, h, place, extent, first, &parts[i], err));
        parts[i].box_offset = s.count > 1 ? offset : NULL;
        parts[i].box_extent = s.count > 1 ? extent : NULL;
    }
    tensor->parts = parts;
    tensor->part_count = s.count;
    return archive_add_tensor(a, tensor, err);
}

pawl_status npy_add(archive *a, const char *name, const npy_header *h, const npy_place *place,
                    pawl_error *err) {
    archive_part part = {.stream = place->stream,
                         .offset = place->offset + h->bytes,
                         .bytes = place->bytes - h->bytes};
    uint64_t bytes = h->elements * h->element_bytes; /* npy_header_decode has looked: no overflow */
    if (h->element_bytes > 0 && part.bytes != bytes) {
        return wrong_size(a, name, place, bytes, part.bytes, err);
    }
    bool other = h->dtype == 0;
    bool recipe = place->stream != place->file;
    bool aligned = other || !recipe || part.offset % dtype_alignment(h->dtype) == 0;
    archive_tensor tensor = {.name = name,
                             .dtype = h->dtype,
                             .type = h->type[0] != '\0' ? h->type : NULL,
                             .ndim = h->ndim,
                             .shape = h->shape,
                             .parts = &part,
                             .part_count = 1};
    if (!other && bytes > 0 && (is_turned(h) || h->swap_bytes > 1 || !aligned)) {
        return add_parts(a, h, place, &tensor, err);
    }
    part.offset = aligned ? part.offset : 0; /* of no bytes */
    return archive_add_tensor(a, &tensor, err);
}

/* ---- a file of its own ---------------------------------------------------------------------- */

static pawl_status read_header(const byte_source *source, buffer *text, npy_header *out,
                               pawl_error *err) {
    uint8_t start[NPY_START_BYTES];
    size_t n = source->size < sizeof(start) ? (size_t)source->size : sizeof(start);
    size_t bytes;
    TRY(source->read_at(source->context, 0, start, n, err));
    TRY(npy_header_bytes(start, n, source->size, &bytes, err));
    TRY(buffer_reserve(text, bytes, err));
    TRY(source->read_at(source->context, 0, text->data, bytes, err));
    return npy_header_decode(text->data, bytes, out, err);
}

static pawl_status several_arrays(const archive *a, uint32_t file, uint64_t at, pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "the .npy has several arrays");
    archive_error_file(a, file, err);
    error_range(err, at, 1);
    error_expected(err, "one array: the second one begins at byte %llu", (unsigned long long)at);
    error_next(err, "load them with numpy.load, and save each in a file of its own, or all with "
                    "numpy.savez");
    return PAWL_EUNSUPPORTED;
}

/* numpy.save into a file that is open writes one behind the other. */
static pawl_status look_behind(const archive *a, const byte_source *source, uint32_t file,
                               const npy_header *h, pawl_error *err) {
    uint8_t more[8];
    uint64_t end = h->bytes + h->elements * h->element_bytes;
    if (h->element_bytes == 0 || end > source->size || source->size - end < sizeof(more)) {
        return PAWL_OK;
    }
    TRY(source->read_at(source->context, end, more, sizeof(more), err));
    return npy_looks_like(more, sizeof(more)) ? several_arrays(a, file, end, err) : PAWL_OK;
}

static pawl_status read_array(archive *a, uint32_t file, npy_header *h, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    CLEANUP(buffer_free) buffer text = {0};
    byte_source source;
    TRY(archive_open_file(a, file, STORE_READ, &opened, err));
    TRY(store_source(opened, &source, err));
    TRY(read_header(&source, &text, h, err));
    a->base.reads.reads += 2;
    a->base.reads.bytes += h->bytes;
    return look_behind(a, &source, file, h, err);
}

pawl_status npy_read(archive *a, pawl_error *err) {
    uint32_t file;
    npy_header h;
    const char *name;
    TRY(archive_add_file(a, a->name, &file, err));
    pawl_status status = read_array(a, file, &h, err);
    if (status != PAWL_OK) {
        if (err->path[0] == '\0') {
            archive_error_file(a, file, err);
        }
        return status;
    }
    const char *slash = strrchr(a->name, '/');
    TRY(npy_entry_name(a, slash != NULL ? slash + 1 : a->name, &name, err));
    const npy_place place = {.file = file, .stream = file, .bytes = a->files[file].was.size};
    return npy_add(a, name, &h, &place, err);
}
