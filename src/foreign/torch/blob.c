/* SPDX-License-Identifier: Apache-2.0 */
/* Reads zips of torch.save: PREFIX/data.pkl, and where the storages PREFIX/data/KEY are. */
#include "foreign/torch/blob.h"
#include "foreign/torch/read.h"
#include "foreign/zip/zip_archive.h"
#include "format/limits.h"

#include <stdio.h>
#include <string.h>

#define MEMBER_CHARS 1200u
#define MOST_KEY     100u

#define NO_CHECKSUMS                                                                               \
    "checked: the zip, and that every byte can be read; not checked: the values of tensors, for "  \
    "the file was written without checksums (set_crc32_options)"
#define NOT_ALL_CHECKSUMS                                                                          \
    "not checked: the values of tensors whose storage has no checksum: torch.save left them out "  \
    "(skip_data)"

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

static pawl_status read_byte_order(torch_blob *r, pawl_error *err) {
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
    const torch_blob *r = context;
    char name[MEMBER_CHARS];
    const zip_member *m = NULL;
    if (key.n <= MOST_KEY && memchr(key.bytes, 0, key.n) == NULL) {
        snprintf(name, sizeof(name), "data/%.*s", (int)key.n, key.bytes);
        m = find_member(r->zip, r->prefix, name);
    }
    if (m == NULL) {
        return no_storage(key, err);
    }
    *out = (torch_storage){.bytes = m->bytes, .swapped = r->swapped};
    return zip_add_stream(r->a, r->file, r->at, m, &out->stream, &out->offset, err);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status read_part(void *context, uint64_t offset, void *to, size_t n, pawl_error *err) {
    const torch_blob *b = context;
    return b->in.read_at(b->in.context, b->at + offset, to, n, err);
}

/* PyTorch writes zeros for checksums that it does not compute: of all members where
 * set_crc32_options(False) says so, of storages that skip_data left to be filled in. */
static void find_unsummed(torch_blob *b) {
    bool all = true;
    bool any = false;
    size_t n = strlen(b->prefix);
    for (size_t i = 0; i < b->zip->count; i++) {
        all = all && b->zip->members[i].crc32 == 0;
    }
    for (size_t i = 0; i < b->zip->count; i++) {
        zip_member *m = &b->zip->members[i];
        bool storage = strncmp(m->name, b->prefix, n) == 0 && strncmp(m->name + n, "data/", 5) == 0;
        m->unsummed = m->crc32 == 0 && m->bytes > 0 && (all || storage);
        any = any || m->unsummed;
    }
    if (any) {
        b->a->base.unverified = all ? NO_CHECKSUMS : NOT_ALL_CHECKSUMS;
    }
}

static pawl_status read_zip(torch_blob *b, pawl_error *err) {
    TRY(zip_read(&b->bytes, b->zip, err));
    b->a->base.reads.reads += 2;
    b->a->base.reads.bytes += b->zip->bytes;
    if (!take_prefix(b->zip, b->prefix)) {
        return error_set(err, PAWL_EDAMAGED, "the zip has no member data.pkl");
    }
    if (find_member(b->zip, b->prefix, "constants.pkl") != NULL) {
        return is_a_program(err);
    }
    find_unsummed(b);
    const zip_member *m = find_member(b->zip, b->prefix, "data.pkl");
    if (m == NULL) {
        return error_set(err, PAWL_EDAMAGED, "the zip has no member data.pkl");
    }
    TRY(read_byte_order(b, err));
    TRY(zip_read_member(&b->bytes, m, FOREIGN_MAX_PICKLE, &b->pickle, err));
    b->source.bytes = b->pickle.size;
    archive_allow(b->a, b->pickle.size);
    return pickle_read(b->pickle.data, b->pickle.size, m->deflated ? 0 : b->at + m->offset,
                       torch_knows, &b->tree, err);
}

pawl_status torch_blob_open(torch_blob *b, archive *a, uint32_t file, const byte_source *in,
                            uint64_t at, uint64_t bytes, zip_directory *zip, pawl_error *err) {
    uint64_t end;
    *b = (torch_blob){.a = a, .file = file, .in = *in, .at = at};
    b->zip = zip != NULL ? zip : &b->own;
    b->bytes = (byte_source){.context = b, .size = bytes, .read_at = read_part};
    b->source = (torch_source){.a = a, .context = b, .find = find_storage};
    if (add_overflows(at, bytes, &end) || end > in->size) {
        error_set(err, PAWL_EDAMAGED, "a part of a file lies behind its end");
        archive_error_file(a, file, err);
        error_expected(err, "a file of at least %llu bytes", (unsigned long long)end);
        error_found(err, "%llu bytes", (unsigned long long)in->size);
        return PAWL_EDAMAGED;
    }
    pawl_status status = read_zip(b, err);
    if (status != PAWL_OK) {
        torch_blob_close(b);
        if (err->path[0] == '\0') {
            archive_error_file(a, file, err);
        }
    }
    return status;
}

void torch_blob_close(torch_blob *b) {
    pickle_free(&b->tree);
    buffer_free(&b->pickle);
    zip_free(&b->own);
}
