/* SPDX-License-Identifier: Apache-2.0 */
/* Reads `.keras` files: the weights where they lie in the zip, all else as values. */
#include "base/json.h"
#include "foreign/hdf5/hdf5.h"
#include "foreign/keras/keras.h"
#include "foreign/streams.h"
#include "foreign/zip/zip_archive.h"

#include <string.h>

#define WEIGHTS     "model.weights.h5"
#define MAX_VALUE   ((size_t)PAWL_MAX_VALUE_BYTES)
#define WEIGHTS_NPZ "model.weights.npz"

/* What is left of it for later: the members, for their checksums. */
typedef struct details {
    zip_directory zip;
} details;

typedef struct reading {
    archive *a;
    uint32_t file;
    const byte_source *source;
    const zip_directory *zip;
    hdf5_usage usage;
} reading;

static void free_details(void *context) {
    details *d = context;
    zip_free(&d->zip);
    mem_free(d);
}

static pawl_status refuse(const reading *r, const zip_member *m, const char *what,
                          pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "%s", what);
    archive_error_file(r->a, r->file, err);
    error_entry(err, m->name);
    error_range(err, m->offset, m->packed_bytes);
    return PAWL_EUNSUPPORTED;
}

/* Where the bytes of a member are, unpacked. */
static pawl_status place_member(reading *r, const zip_member *m, hdf5_place *out, pawl_error *err) {
    *out = (hdf5_place){.bytes = m->bytes};
    return zip_add_stream(r->a, r->file, 0, m, &out->stream, &out->offset, err);
}

/* ---- members that are no weights ---- */

static bool is_json(const char *name) {
    return strcmp(name, "config.json") == 0 || strcmp(name, "metadata.json") == 0;
}

static pawl_status add_value(reading *r, const zip_member *m, const char *name, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    struct pawl_error ignored = ERROR_INIT;
    TRY(zip_read_member(r->source, m, MAX_VALUE, &bytes, err));
    bool json =
        is_json(m->name) && json_check(bytes.data, bytes.size, m->name, &ignored) == PAWL_OK;
    r->usage.value_bytes += bytes.size;
    return archive_add_value(r->a, name, PAWL_ROLE_OTHER, json ? PAWL_KIND_JSON : PAWL_KIND_BYTES,
                             bytes.data, bytes.size, err);
}

/* What is too large for a value is a tensor of its bytes, where it lies. */
static pawl_status add_bytes(reading *r, const zip_member *m, const char *name, pawl_error *err) {
    int64_t shape = (int64_t)m->bytes;
    hdf5_place place;
    TRY(place_member(r, m, &place, err));
    const archive_part part = {.stream = place.stream, .offset = place.offset, .bytes = m->bytes};
    const archive_tensor tensor = {.name = name,
                                   .dtype = PAWL_U8,
                                   .ndim = 1,
                                   .shape = &shape,
                                   .role = PAWL_ROLE_OTHER,
                                   .parts = &part,
                                   .part_count = 1};
    return archive_add_tensor(r->a, &tensor, err);
}

static pawl_status add_member(reading *r, const zip_member *m, pawl_error *err) {
    const char *name;
    size_t n = strlen(m->name);
    if (n > 0 && m->name[n - 1] == '/') { /* a directory */
        return PAWL_OK;
    }
    TRY(archive_escape_name(r->a, m->name, n, &name, err));
    r->usage.name_bytes += n;
    if (r->usage.name_bytes > FOREIGN_MAX_HDF5_NAMES) {
        error_set(err, PAWL_ELIMIT, "the names of the members are too long together");
        error_expected(err, "at most %u bytes", FOREIGN_MAX_HDF5_NAMES);
        archive_error_file(r->a, r->file, err);
        return PAWL_ELIMIT;
    }
    if (m->bytes <= MAX_VALUE && m->bytes + r->usage.value_bytes <= FOREIGN_MAX_HDF5_VALUES) {
        return add_value(r, m, name, err);
    }
    return add_bytes(r, m, name, err);
}

/* ---- the weights ---- */

static pawl_status add_weights(reading *r, pawl_error *err) {
    const zip_member *m = zip_find(r->zip, WEIGHTS);
    if (m == NULL && zip_find(r->zip, WEIGHTS_NPZ) != NULL) {
        return refuse(r, zip_find(r->zip, WEIGHTS_NPZ),
                      "the weights of the .keras file are NumPy objects in pickles, which are not "
                      "read",
                      err);
    }
    if (m == NULL) {
        error_set(err, PAWL_EDAMAGED, "the .keras file has no weights");
        archive_error_file(r->a, r->file, err);
        error_expected(err, "a member " WEIGHTS);
        return PAWL_EDAMAGED;
    }
    if (m->deflated && m->bytes > STREAM_KEPT) { /* it is read here and there */
        (void)refuse(r, m, "the weights of the .keras file are compressed", err);
        error_expected(err, "a member that is stored, as Keras does it, or at most %u bytes",
                       STREAM_KEPT);
        error_found(err, "%llu bytes", (unsigned long long)m->bytes);
        error_next(err, "unpack the file, and pack it again without compression: zip -0");
        return PAWL_EUNSUPPORTED;
    }
    hdf5_place place;
    TRY(place_member(r, m, &place, err));
    pawl_status status = hdf5_add(r->a, &place, &r->usage, err);
    if (status != PAWL_OK && status != PAWL_ENOMEM) {
        error_wrap(err, WEIGHTS);
    }
    return status;
}

static pawl_status add_all(reading *r, pawl_error *err) {
    TRY(add_weights(r, err));
    for (size_t i = 0; i < r->zip->count; i++) {
        if (strcmp(r->zip->members[i].name, WEIGHTS) != 0) {
            TRY(add_member(r, &r->zip->members[i], err));
        }
    }
    return PAWL_OK;
}

pawl_status keras_read(archive *a, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    reading r = {.a = a};
    byte_source source;
    TRY(archive_add_file(a, a->name, &r.file, err));
    TRY(archive_open_file(a, r.file, STORE_READ, &opened, err));
    TRY(store_source(opened, &source, err));
    details *d = mem_calloc(1, sizeof(*d));
    if (d == NULL) {
        return error_nomem(err, sizeof(*d));
    }
    pawl_status status = zip_read(&source, &d->zip, err);
    if (status == PAWL_OK) {
        a->details = d;
        a->free_details = free_details;
        r.source = &source;
        r.zip = &d->zip;
        status = add_all(&r, err);
    } else {
        mem_free(d);
    }
    if (status != PAWL_OK && status != PAWL_ENOMEM && err->path[0] == '\0') {
        archive_error_file(a, r.file, err);
    }
    return status;
}

/* ---- verifying ---- */

typedef struct verifying {
    source_verifier *v;
} verifying;

static pawl_status go_on(void *context, pawl_error *err) {
    const verifying *k = context;
    return k->v->progress(k->v->context, 0, err);
}

static pawl_status verify_member(archive *a, source_verifier *v, const byte_source *source,
                                 const zip_member *m, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    verifying context = {.v = v};
    const zip_parts parts = {.read = v->parts, .any = true};
    pawl_status status = zip_check_member(source, m, &parts, go_on, &context, &story);
    if (status == PAWL_EDAMAGED) {
        archive_error_file(a, 0, &story);
        v->problem(v->context, a->name, NULL, &story);
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        *err = story;
    }
    return status;
}

pawl_status keras_verify(archive *a, source_verifier *v, pawl_error *err) {
    const details *d = a->details;
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    byte_source source;
    TRY(archive_open_file(a, 0, STORE_READ, &opened, err));
    TRY(store_source(opened, &source, err));
    for (size_t i = 0; i < d->zip.count; i++) {
        TRY(verify_member(a, v, &source, &d->zip.members[i], err));
    }
    return v->parts == NULL ? hdf5_verify(a, v, err) : PAWL_OK; /* reading compared its sums */
}
