/* SPDX-License-Identifier: Apache-2.0 */
/* Files of torch.save, which are zips: one, or those of a Hugging Face directory with an index. */
#include "foreign/torch/read.h"
#include "foreign/huggingface/sharded.h"
#include "foreign/torch/blob.h"
#include "foreign/zip/zip_archive.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_ENDING ".bin.index.json"

/* What is left for later. */
typedef struct details {
    shard_index index;   /* no files: there is none */
    zip_directory *zips; /* of each file of the archive */
    uint32_t count;
} details;

bool torch_is_index(const char *name) {
    size_t n = strlen(name);
    size_t of = sizeof(INDEX_ENDING) - 1;
    return n > of && strcmp(name + n - of, INDEX_ENDING) == 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void free_details(void *context) {
    details *d = context;
    for (uint32_t i = 0; i < d->count; i++) {
        zip_free(&d->zips[i]);
    }
    mem_free(d->zips);
    shard_index_free(&d->index);
    mem_free(d);
}

static pawl_status keep_details(archive *a, details **out, pawl_error *err) {
    *out = mem_calloc(1, sizeof(**out));
    if (*out == NULL) {
        return error_nomem(err, sizeof(**out));
    }
    a->details = *out;
    a->free_details = free_details;
    return PAWL_OK;
}

/* Of an index the files may be older than zips, which have no checksums. */
static pawl_status check_age(const byte_source *in, pawl_error *err) {
    uint8_t head[64];
    size_t n = in->size < sizeof(head) ? (size_t)in->size : sizeof(head);
    TRY(in->read_at(in->context, 0, head, n, err));
    if (!torch_looks_like_stream(head, n)) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUNSUPPORTED,
              "a file that the index of the weights names is in the format before PyTorch 1.6");
    error_expected(err, "a zip, as torch.save writes since then");
    error_next(err, "load it with torch.load, and save it again with torch.save; or open it alone");
    return PAWL_EUNSUPPORTED;
}

static pawl_status read_file(archive *a, uint32_t file, zip_directory *zip, uint64_t *described,
                             pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    byte_source in;
    torch_blob blob;
    TRY(archive_open_file(a, file, STORE_READ, &opened, err));
    TRY(store_source(opened, &in, err));
    TRY(check_age(&in, err));
    TRY(torch_blob_open(&blob, a, file, &in, 0, in.size, zip, err));
    pawl_status status = sharded_count(described, zip->bytes + blob.pickle.size, err);
    if (status == PAWL_OK) {
        status = torch_add_object(&blob.source, blob.tree.root, "", err);
    }
    torch_blob_close(&blob);
    return status;
}

static pawl_status read_files(archive *a, details *d, pawl_error *err) {
    uint64_t described = 0;
    d->zips = mem_calloc(a->base.files, sizeof(*d->zips));
    if (d->zips == NULL) {
        return error_nomem(err, a->base.files * sizeof(*d->zips));
    }
    d->count = a->base.files;
    for (uint32_t i = 0; i < d->count; i++) {
        pawl_status status = read_file(a, i, &d->zips[i], &described, err);
        if (status != PAWL_OK) {
            if (err->path[0] == '\0') {
                archive_error_file(a, i, err);
            }
            return status;
        }
    }
    return PAWL_OK;
}

pawl_status torch_zip_read(archive *a, pawl_error *err) {
    details *d;
    uint32_t file;
    TRY(keep_details(a, &d, err));
    TRY(archive_add_file(a, a->name, &file, err));
    return read_files(a, d, err);
}

pawl_status torch_sharded_read(archive *a, pawl_error *err) {
    static const shard_kind kind = {
        .ending = ".bin", .fault = "the file is no .bin file", .keys = true};
    details *d;
    TRY(keep_details(a, &d, err));
    TRY(sharded_read_index(a, &kind, &d->index, err));
    return read_files(a, d, err);
}

pawl_status torch_zip_compare(const archive *a, pawl_error *err) {
    const details *d = a->details;
    return sharded_compare(a, &d->index, err);
}

/* ---- verifying ------------------------------------------------------------------------------ */

/* Where a member is, and which entry has its bytes: of several, that share a storage, one. */
typedef struct place {
    uint32_t file;
    const zip_member *member;
    const char **name;
} place;

static int by_place(const void *a, const void *b) {
    const place *left = a;
    const place *right = b;
    if (left->file != right->file) {
        return left->file > right->file ? 1 : -1;
    }
    return (left->member->offset > right->member->offset) -
           (left->member->offset < right->member->offset);
}

/* The member whose bytes are there; NULL: none. */
static const place *place_at(const place *sorted, size_t n, uint32_t file, uint64_t at) {
    size_t low = 0;
    size_t high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const place *p = &sorted[middle];
        if (p->file < file || (p->file == file && p->member->offset <= at)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const place *p = low > 0 ? &sorted[low - 1] : NULL;
    return p != NULL && p->file == file && at - p->member->offset < p->member->packed_bytes ? p
                                                                                            : NULL;
}

static size_t count_members(const details *d) {
    size_t n = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        n += d->zips[i].count;
    }
    return n;
}

/* `names`: of all members, file by file. */
static pawl_status name_members(const archive *a, const char **names, pawl_error *err) {
    const details *d = a->details;
    size_t n = 0;
    AUTOFREE place *places = mem_calloc(count_members(d) + 1, sizeof(*places));
    if (places == NULL) {
        return error_nomem(err, count_members(d) * sizeof(*places));
    }
    for (uint32_t i = 0; i < d->count; i++) {
        for (size_t j = 0; j < d->zips[i].count; j++, n++) {
            places[n] = (place){.file = i, .member = &d->zips[i].members[j], .name = &names[n]};
        }
    }
    if (n > 1) {
        qsort(places, n, sizeof(*places), by_place);
    }
    for (size_t i = 0; i < a->base.entries; i++) {
        const record_entry *e = &a->entries[i];
        if (e->piece_count == 0 || e->pieces[0].file >= ARCHIVE_PHASES * a->base.files) {
            continue;
        }
        const place *p = place_at(places, n, archive_file_of(a, e->pieces[0].file),
                                  archive_offset_of(a, &e->pieces[0]));
        if (p != NULL) {
            *p->name = e->name;
        }
    }
    return PAWL_OK;
}

pawl_status torch_zip_verify(archive *a, source_verifier *v, pawl_error *err) {
    const details *d = a->details;
    size_t n = count_members(d);
    AUTOFREE const char **names = mem_calloc(n + 1, sizeof(*names));
    if (names == NULL) {
        return error_nomem(err, n * sizeof(*names));
    }
    TRY(name_members(a, names, err));
    n = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        const zip_verification verification = {
            .a = a, .file = i, .directory = &d->zips[i], .names = names + n, .to = v};
        TRY(zip_verify(&verification, err));
        n += d->zips[i].count;
    }
    return PAWL_OK;
}
