/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the checksums that chunks have: whoever reads the bytes of the file alone does not. */
#include "foreign/hdf5/dataset.h"

/* Which tensor each stream is of, by its number. */
static pawl_status name_streams(const archive *a, const char ***out, pawl_error *err) {
    uint32_t real = ARCHIVE_PHASES * a->base.files;
    *out = mem_calloc(a->stream_count + 1, sizeof(**out));
    if (*out == NULL) {
        return error_nomem(err, a->stream_count * sizeof(**out));
    }
    for (size_t i = 0; i < a->base.entries; i++) {
        const record_entry *e = &a->entries[i];
        for (size_t k = 0; k < e->piece_count; k++) {
            if (e->pieces[k].file >= real) {
                (*out)[e->pieces[k].file - real] = e->name;
            }
        }
    }
    return PAWL_OK;
}

pawl_status hdf5_verify(archive *a, source_verifier *v, pawl_error *err) {
    AUTOFREE const char **names = NULL;
    TRY(name_streams(a, &names, err));
    for (size_t i = 0; i < a->stream_count; i++) {
        const archive_stream *s = &a->streams[i];
        struct pawl_error story = ERROR_INIT;
        if (!hdf5_is_stream(s->recipe)) {
            continue;
        }
        pawl_status status = hdf5_check_stream(s->recipe, a, v, &story);
        if (status == PAWL_EDAMAGED) {
            archive_error_file(a, s->file, &story);
            v->problem(v->context, a->files[s->file].path, names[i], &story);
        } else if (status != PAWL_OK) {
            *err = story;
            return status;
        }
    }
    return PAWL_OK;
}
