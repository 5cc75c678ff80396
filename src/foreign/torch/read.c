/* SPDX-License-Identifier: Apache-2.0 */
/* Reads zips of torch.save: PREFIX/data.pkl, and the storages PREFIX/data/KEY. */
#include "foreign/torch/read.h"
#include "foreign/streams.h"
#include "foreign/torch/object.h"
#include "foreign/zip/check.h"
#include "format/limits.h"

#include <stdio.h>
#include <string.h>

#define MEMBER_CHARS 1200u

typedef struct reading {
    archive *a;
    uint32_t file;
    byte_source bytes;
    zip_directory *zip;
    char prefix[1024]; /* with its "/" */
    bool swapped;
    buffer pickle;
} reading;

/* The prefix is what the first member is in; readers of PyTorch take it from there, too. */
static bool take_prefix(const zip_directory *d, char out[1024]) {
    const char *slash = d->count > 0 ? strchr(d->members[0].name, '/') : NULL;
    size_t n = slash != NULL ? (size_t)(slash - d->members[0].name) + 1 : 0;
    if (slash == NULL || n >= 1024) {
        return false;
    }
    memcpy(out, d->members[0].name, n);
    out[n] = '\0';
    return true;
}

static const zip_member *find_member(const zip_directory *d, const char *prefix, const char *name) {
    char whole[MEMBER_CHARS];
    int n = snprintf(whole, sizeof(whole), "%s%s", prefix, name);
    return n > 0 && (size_t)n < sizeof(whole) ? zip_find(d, whole) : NULL;
}

bool torch_is_in_zip(const zip_directory *d) {
    char prefix[1024];
    return take_prefix(d, prefix) && find_member(d, prefix, "data.pkl") != NULL;
}

/* ---- what describes it ---------------------------------------------------------------------- */

static pawl_status is_a_program(pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "this is a program of TorchScript, not a checkpoint");
    error_found(err, "a member constants.pkl");
    error_next(err, "load it with torch.jit.load, and save its state_dict() with torch.save");
    return PAWL_EUNSUPPORTED;
}

static pawl_status read_byte_order(reading *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    const zip_member *m = find_member(r->zip, r->prefix, "byteorder");
    if (m == NULL) {
        return PAWL_OK; /* older files have none, and are little-endian */
    }
    TRY(zip_read_member(&r->bytes, m, 16, &text, err));
    r->swapped = strcmp((const char *)text.data, "big") == 0;
    if (r->swapped || strcmp((const char *)text.data, "little") == 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "the byte order of the file is neither little nor big");
    error_range(err, m->offset, m->packed_bytes);
    return PAWL_EDAMAGED;
}

/* ---- storages ------------------------------------------------------------------------------- */

static pawl_status no_storage(pickle_text key, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the bytes of a tensor are not in the file");
    error_expected(err, "a member data/%.*s", key.n < 100 ? (int)key.n : 100, key.bytes);
    return PAWL_EDAMAGED;
}

static pawl_status find_storage(void *context, pickle_text key, torch_storage *out,
                                pawl_error *err) {
    reading *r = context;
    char name[MEMBER_CHARS];
    int n = snprintf(name, sizeof(name), "data/%.*s", key.n < 1000 ? (int)key.n : 1000, key.bytes);
    const zip_member *m = n > 0 ? find_member(r->zip, r->prefix, name) : NULL;
    if (m == NULL) {
        return no_storage(key, err);
    }
    *out = (torch_storage){
        .stream = r->file, .offset = m->offset, .bytes = m->bytes, .swapped = r->swapped};
    if (!m->deflated) {
        return PAWL_OK;
    }
    const stream_packed packed = {.stream = r->file,
                                  .offset = m->offset,
                                  .packed_bytes = m->packed_bytes,
                                  .bytes = m->bytes,
                                  .packing = STREAM_DEFLATE};
    out->offset = 0;
    return stream_add_packed(r->a, &packed, &out->stream, err);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status read_object(reading *r, pawl_error *err) {
    const torch_source source = {.a = r->a, .context = r, .find = find_storage};
    const zip_member *m = find_member(r->zip, r->prefix, "data.pkl");
    pickle_tree tree;
    if (m == NULL) {
        return error_set(err, PAWL_EDAMAGED, "the zip has no member data.pkl");
    }
    TRY(zip_read_member(&r->bytes, m, FOREIGN_MAX_PICKLE, &r->pickle, err));
    TRY(pickle_read(r->pickle.data, r->pickle.size, m->deflated ? 0 : m->offset, torch_knows, &tree,
                    err));
    pawl_status status = torch_add_object(&source, tree.root, "", err);
    pickle_free(&tree);
    return status;
}

static pawl_status read_zip(reading *r, pawl_error *err) {
    TRY(zip_read(&r->bytes, r->zip, err));
    r->a->base.reads.reads += 2;
    r->a->base.reads.bytes += r->zip->bytes;
    if (!take_prefix(r->zip, r->prefix)) {
        return error_set(err, PAWL_EDAMAGED, "the zip has no member data.pkl");
    }
    if (find_member(r->zip, r->prefix, "constants.pkl") != NULL) {
        return is_a_program(err);
    }
    TRY(read_byte_order(r, err));
    return read_object(r, err);
}

pawl_status torch_zip_read(archive *a, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    reading r = {.a = a};
    TRY(zip_keep(a, &r.zip, err));
    TRY(archive_add_file(a, a->name, &r.file, err));
    TRY(archive_open_file(a, r.file, STORE_READ, &opened, err));
    TRY(store_source(opened, &r.bytes, err));
    pawl_status status = read_zip(&r, err);
    buffer_free(&r.pickle);
    if (status != PAWL_OK && err->path[0] == '\0') {
        archive_error_file(a, r.file, err);
    }
    return status;
}

pawl_status torch_zip_verify(archive *a, source_verifier *v, pawl_error *err) {
    return zip_verify(a, v, err);
}
