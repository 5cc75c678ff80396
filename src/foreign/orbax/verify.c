/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes all chunks: whoever reads the bytes of the files alone does not. */
#include "foreign/orbax/orbax.h"
#include "foreign/orbax/zarr.h"

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

static void tell(const archive *a, source_verifier *v, const archive_stream *s, const char *entry,
                 pawl_error *story) {
    if (story->path[0] == '\0') {
        archive_error_file(a, s->file, story);
    }
    const char *root = a->base.store->root;
    size_t n = strlen(root);
    bool inside = strncmp(story->path, root, n) == 0 && story->path[n] == '/';
    v->problem(v->context, inside ? story->path + n + 1 : a->files[s->file].path, entry, story);
}

pawl_status orbax_verify(archive *a, source_verifier *v, pawl_error *err) {
    AUTOFREE const char **names = NULL;
    TRY(name_streams(a, &names, err));
    for (size_t i = 0; i < a->stream_count; i++) {
        const archive_stream *s = &a->streams[i];
        struct pawl_error story = ERROR_INIT;
        if (!zarr_is_stream(s->recipe)) {
            continue;
        }
        pawl_status status = zarr_check_stream(s->recipe, a, v, &story);
        if (status == PAWL_EDAMAGED) {
            tell(a, v, s, names[i], &story);
        } else if (status != PAWL_OK) {
            *err = story;
            return status;
        }
    }
    return PAWL_OK;
}
