/* SPDX-License-Identifier: Apache-2.0 */
/* A .npz: a zip file whose members are .npy. */
#include "foreign/numpy/array.h"
#include "foreign/numpy/numpy.h"
#include "foreign/numpy/write.h"
#include "foreign/zip/zip_archive.h"
#include "format/limits.h"

#include <string.h>

#define START_BYTES 256u /* most headers are shorter */

/* What is left of it for later, and while it is read. */
typedef struct npz {
    zip_directory directory;
    const char **names;    /* of the entries, in the order of the members; NULL: it is none */
    uint64_t header_bytes; /* so far */
} npz;

static void free_npz(void *context) {
    npz *z = context;
    zip_free(&z->directory);
    mem_free(z);
}

static pawl_status headers_too_large(uint64_t bytes, pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "the headers of the arrays are too large together");
    error_expected(err, "at most %llu bytes", (unsigned long long)FOREIGN_MAX_HEADERS);
    error_found(err, "%llu bytes, and there may be more", (unsigned long long)bytes);
    return PAWL_ELIMIT;
}

/* A member's header, at its start, which is in `text`. */
static pawl_status read_header(npz *z, const byte_source *source, const zip_member *m, buffer *text,
                               npy_header *out, pawl_error *err) {
    size_t bytes;
    TRY(npy_header_bytes(text->data, text->size, m->bytes, &bytes, err));
    z->header_bytes += bytes;
    if (z->header_bytes > FOREIGN_MAX_HEADERS) {
        return headers_too_large(z->header_bytes, err);
    }
    if (bytes > text->size) {
        text->size = 0;
        TRY(zip_read_start(source, m, bytes, text, err));
    }
    return npy_header_decode(text->data, bytes, out, err);
}

/* Of a header: its own bytes are those of the member. */
static pawl_status in_member(const zip_member *m, pawl_error *err) {
    if (err->entry[0] == '\0') {
        error_wrap(err, "a member of the zip file");
        error_entry(err, m->name);
        error_range(err, m->offset, m->packed_bytes);
    }
    return err->status;
}

static bool ends_as_npy(const char *name) {
    size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".npy") == 0;
}

/* Bytes that are no array: as numpy.load gives them. */
static pawl_status add_bytes(archive *a, const char *name, uint64_t bytes, const npy_place *place,
                             pawl_error *err) {
    const int64_t shape[] = {(int64_t)bytes};
    const archive_part part = {.stream = place->stream, .offset = place->offset, .bytes = bytes};
    const archive_tensor tensor = {.name = name,
                                   .dtype = PAWL_U8,
                                   .ndim = 1,
                                   .shape = shape,
                                   .role = PAWL_ROLE_OTHER,
                                   .parts = &part,
                                   .part_count = 1};
    return archive_add_tensor(a, &tensor, err);
}

static pawl_status add_member(archive *a, npz *z, size_t i, const byte_source *source,
                              pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    const zip_member *m = &z->directory.members[i];
    npy_header h;
    npy_place place = {.file = 0, .bytes = m->bytes};
    z->names[i] = NULL;
    if (m->name[m->name_bytes - 1] == '/') { /* a directory */
        return PAWL_OK;
    }
    if (strcmp(m->name, NUMPY_VALUES) == 0) {
        TRY(zip_read_member(source, m, FOREIGN_MAX_INDEX, &text, err));
        return archive_add_values(a, (const char *)text.data, text.size, err);
    }
    TRY(zip_read_start(source, m, START_BYTES, &text, err));
    a->base.reads.reads++;
    a->base.reads.bytes += text.size;
    TRY(npy_entry_name(a, m->name, &z->names[i], err));
    bool array = npy_looks_like(text.data, text.size) || ends_as_npy(m->name);
    if (array) {
        pawl_status status = read_header(z, source, m, &text, &h, err);
        if (status != PAWL_OK) {
            return status == PAWL_ENOMEM ? status : in_member(m, err);
        }
    }
    TRY(zip_add_stream(a, 0, 0, m, &place.stream, &place.offset, err));
    return array ? npy_add(a, z->names[i], &h, &place, err)
                 : add_bytes(a, z->names[i], m->bytes, &place, err);
}

static pawl_status add_members(archive *a, npz *z, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    byte_source source;
    TRY(archive_open_file(a, 0, STORE_READ, &opened, err));
    TRY(store_source(opened, &source, err));
    TRY(zip_read(&source, &z->directory, err));
    z->names = arena_take(&z->directory.memory, (z->directory.count + 1) * sizeof(*z->names), err);
    if (z->names == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < z->directory.count; i++) {
        TRY(add_member(a, z, i, &source, err));
    }
    return PAWL_OK;
}

pawl_status npz_read(archive *a, pawl_error *err) {
    uint32_t file;
    npz *z = mem_calloc(1, sizeof(*z));
    if (z == NULL) {
        return error_nomem(err, sizeof(*z));
    }
    a->details = z;
    a->free_details = free_npz;
    TRY(archive_add_file(a, a->name, &file, err));
    pawl_status status = add_members(a, z, err);
    if (status != PAWL_OK && err->path[0] == '\0') {
        archive_error_file(a, file, err);
    }
    return status;
}

pawl_status npz_verify(archive *a, source_verifier *v, pawl_error *err) {
    const npz *z = a->details;
    const zip_verification verification = {
        .a = a, .file = 0, .directory = &z->directory, .names = z->names, .to = v};
    return zip_verify(&verification, err);
}
