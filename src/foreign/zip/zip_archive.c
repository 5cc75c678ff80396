/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of members, and verifying them. */
#include "foreign/zip/zip_archive.h"
#include "foreign/streams.h"

pawl_status zip_add_stream(archive *a, uint32_t file, uint64_t at, const zip_member *m,
                           uint32_t *stream, uint64_t *offset, pawl_error *err) {
    if (!m->deflated) {
        *stream = file;
        *offset = at + m->offset;
        return PAWL_OK;
    }
    const stream_packed packed = {.stream = file,
                                  .offset = at + m->offset,
                                  .packed_bytes = m->packed_bytes,
                                  .bytes = m->bytes,
                                  .packing = STREAM_DEFLATE,
                                  .summed = !m->unsummed,
                                  .crc32 = m->crc32};
    *offset = 0;
    return stream_add_packed(a, &packed, stream, err);
}

/* Bytes are counted by who reads the files; this asks whether to go on. */
static pawl_status go_on(void *context, pawl_error *err) {
    const source_verifier *v = context;
    return v->progress(v->context, 0, err);
}

static pawl_status verify_member(const zip_verification *v, const byte_source *source, size_t i,
                                 pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    const zip_parts parts = {.read = v->to->parts, .file = v->file};
    pawl_status status =
        zip_check_member(source, &v->directory->members[i], &parts, go_on, v->to, &story);
    if (status == PAWL_EDAMAGED || status == PAWL_EIO) {
        archive_error_file(v->a, v->file, &story);
        v->to->problem(v->to->context, v->a->files[v->file].path,
                       v->names != NULL ? v->names[i] : NULL, &story);
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        *err = story;
    }
    return status;
}

pawl_status zip_verify(const zip_verification *v, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    byte_source source;
    TRY(archive_open_file(v->a, v->file, STORE_READ, &opened, err));
    TRY(store_source(opened, &source, err));
    for (size_t i = 0; i < v->directory->count; i++) {
        TRY(verify_member(v, &source, i, err));
    }
    return PAWL_OK;
}
