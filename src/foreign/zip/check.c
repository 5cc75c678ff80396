/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the checksums of all members of a zip that an archive is. */
#include "foreign/zip/check.h"

static void free_directory(void *details) {
    zip_free(details);
    mem_free(details);
}

pawl_status zip_keep(archive *a, zip_directory **out, pawl_error *err) {
    *out = mem_calloc(1, sizeof(**out));
    if (*out == NULL) {
        return error_nomem(err, sizeof(**out));
    }
    a->details = *out;
    a->free_details = free_directory;
    return PAWL_OK;
}

static pawl_status go_on(void *context, pawl_error *err) {
    source_verifier *v = context;
    return v->progress(v->context, 0, err);
}

/* The entry whose bytes the member has; NULL: none, or several. */
static const char *entry_of(const archive *a, const zip_member *m) {
    const char *found = NULL;
    for (size_t i = 0; i < a->base.entries; i++) {
        const record_entry *e = &a->entries[i];
        const record_piece *piece = e->piece_count > 0 ? &e->pieces[0] : NULL;
        uint64_t at = piece != NULL ? archive_offset_of(a, piece) : 0;
        if (piece != NULL && piece->file < ARCHIVE_PHASES * a->base.files && at >= m->offset &&
            at < m->offset + m->packed_bytes) {
            if (found != NULL) {
                return NULL;
            }
            found = e->name;
        }
    }
    return found;
}

pawl_status zip_verify(archive *a, source_verifier *v, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    const zip_directory *d = a->details;
    byte_source bytes;
    TRY(archive_open_file(a, 0, STORE_READ, &opened, err));
    TRY(store_source(opened, &bytes, err));
    for (size_t i = 0; i < d->count; i++) {
        struct pawl_error story = ERROR_INIT;
        pawl_status status = zip_check_member(&bytes, &d->members[i], go_on, v, &story);
        if (status == PAWL_ECANCELED || status == PAWL_ENOMEM || status == PAWL_EBUSY) {
            *err = story;
            return status;
        }
        if (status != PAWL_OK) {
            v->problem(v->context, a->files[0].path, entry_of(a, &d->members[i]), &story);
        }
    }
    return PAWL_OK;
}
