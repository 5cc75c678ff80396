/* SPDX-License-Identifier: Apache-2.0 */
/* A file of torch.save, which is a zip. */
#include "foreign/torch/read.h"
#include "foreign/torch/blob.h"
#include "foreign/zip/zip_archive.h"

#include <stdlib.h>

static void free_directory(void *details) {
    zip_free(details);
    mem_free(details);
}

/* An empty one, which is the archive's details. */
static pawl_status keep_directory(archive *a, zip_directory **out, pawl_error *err) {
    *out = mem_calloc(1, sizeof(**out));
    if (*out == NULL) {
        return error_nomem(err, sizeof(**out));
    }
    a->details = *out;
    a->free_details = free_directory;
    return PAWL_OK;
}

pawl_status torch_zip_read(archive *a, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    byte_source in;
    uint32_t file;
    zip_directory *zip;
    torch_blob blob;
    TRY(keep_directory(a, &zip, err));
    TRY(archive_add_file(a, a->name, &file, err));
    TRY(archive_open_file(a, file, STORE_READ, &opened, err));
    TRY(store_source(opened, &in, err));
    TRY(torch_blob_open(&blob, a, file, &in, 0, in.size, zip, err));
    pawl_status status = torch_add_object(&blob.source, blob.tree.root, "", err);
    torch_blob_close(&blob);
    if (status != PAWL_OK && err->path[0] == '\0') {
        archive_error_file(a, file, err);
    }
    return status;
}

static int by_offset(const void *a, const void *b) {
    const zip_member *left = *(const zip_member *const *)a;
    const zip_member *right = *(const zip_member *const *)b;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

/* The member whose bytes are there; NULL: none. */
static const zip_member *member_at(const zip_member **sorted, size_t n, uint64_t at) {
    size_t low = 0;
    size_t high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sorted[middle]->offset <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && at - sorted[low - 1]->offset < sorted[low - 1]->packed_bytes ? sorted[low - 1]
                                                                                   : NULL;
}

/* Which entry has the bytes of each member: of several, that share a storage, one. */
static pawl_status name_members(const archive *a, const zip_directory *d, const char **names,
                                pawl_error *err) {
    AUTOFREE const zip_member **sorted = mem_calloc(d->count + 1, sizeof(void *));
    if (sorted == NULL) {
        return error_nomem(err, d->count * sizeof(void *));
    }
    for (size_t i = 0; i < d->count; i++) {
        sorted[i] = &d->members[i];
    }
    if (d->count > 1) {
        qsort(sorted, d->count, sizeof(void *), by_offset);
    }
    for (size_t i = 0; i < a->base.entries; i++) {
        const record_entry *e = &a->entries[i];
        if (e->piece_count == 0 || e->pieces[0].file >= ARCHIVE_PHASES * a->base.files) {
            continue;
        }
        const zip_member *m = member_at(sorted, d->count, archive_offset_of(a, &e->pieces[0]));
        if (m != NULL) {
            names[m - d->members] = e->name;
        }
    }
    return PAWL_OK;
}

pawl_status torch_zip_verify(archive *a, source_verifier *v, pawl_error *err) {
    const zip_directory *d = a->details;
    AUTOFREE const char **names = mem_calloc(d->count + 1, sizeof(*names));
    if (names == NULL) {
        return error_nomem(err, d->count * sizeof(*names));
    }
    TRY(name_members(a, d, names, err));
    const zip_verification verification = {
        .a = a, .file = 0, .directory = d, .names = names, .to = v};
    return zip_verify(&verification, err);
}
