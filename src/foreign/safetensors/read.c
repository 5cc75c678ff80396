/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what describes the tensors of safetensors files: the headers, and the index of a Hugging
 * Face directory; and checks that they say the same. */
#include "foreign/huggingface/sharded.h"
#include "foreign/safetensors/safetensors.h"

#include <string.h>

#define INDEX_ENDING ".safetensors.index.json"

/* All of it, while it is read. */
typedef struct reading {
    archive *a;
    uint64_t header_bytes; /* so far */
    uint64_t data_bytes;   /* so far: of all tensors */
    shard_index index;
} reading;

/* ---- the headers ---- */

/* Shapes and names live until it is freed: an archive copies them. */
static pawl_status add_tensors(reading *r, uint32_t file, const safetensors_header *header,
                               pawl_error *err) {
    for (size_t i = 0; i < header->tensor_count; i++) {
        const safetensors_tensor *t = &header->tensors[i];
        const archive_part part = {.stream = file, .offset = t->offset, .bytes = t->bytes};
        const archive_tensor tensor = {.name = t->name,
                                       .dtype = t->dtype,
                                       .type = t->type,
                                       .ndim = t->ndim,
                                       .shape = t->shape,
                                       .parts = &part,
                                       .part_count = 1};
        TRY(archive_add_tensor(r->a, &tensor, err));
    }
    return PAWL_OK;
}

/* What pawl put there itself, when it converted a checkpoint. */
static pawl_status add_values(reading *r, const safetensors_header *header, pawl_error *err) {
    for (size_t i = 0; i < header->metadata_count; i++) {
        const safetensors_pair *pair = &header->metadata[i];
        if (strcmp(pair->key, SAFETENSORS_VALUES_KEY) == 0) {
            TRY(archive_add_values(r->a, pair->value, strlen(pair->value), err));
        }
    }
    return PAWL_OK;
}

static void free_header(safetensors_header *header) {
    safetensors_header_free(header);
}

static pawl_status read_header(reading *r, uint32_t file, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    CLEANUP(free_header) safetensors_header header = {0};
    byte_source source;
    TRY(archive_open_file(r->a, file, STORE_READ, &opened, err));
    TRY(store_source(opened, &source, err));
    TRY(safetensors_decode_foreign(&source, &header, err));
    TRY(data_sum_finished(&header, err)); /* a file of pawl's own that was never finished */
    r->a->base.reads.reads += 2;
    r->a->base.reads.bytes += header.data_offset;
    r->data_bytes += header.file_bytes - header.data_offset;
    TRY(sharded_count(&r->header_bytes, header.data_offset, err));
    TRY(add_tensors(r, file, &header, err));
    return add_values(r, &header, err);
}

static pawl_status read_headers(reading *r, pawl_error *err) {
    for (uint32_t i = 0; i < r->a->base.files; i++) {
        pawl_status status = read_header(r, i, err);
        if (status != PAWL_OK) {
            if (err->path[0] == '\0') {
                archive_error_file(r->a, i, err);
            }
            return status;
        }
    }
    return PAWL_OK;
}

/* ---- the index ---- */

/* What is left of it for later. */
typedef struct details {
    shard_index index; /* no files: there is none */
    uint64_t data_bytes;
} details;

static void free_details(void *context) {
    details *d = context;
    shard_index_free(&d->index);
    mem_free(d);
}

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name);
    size_t of = strlen(ending);
    return n > of && strcmp(name + n - of, ending) == 0;
}

bool safetensors_is_index(const char *name) {
    return ends_with(name, INDEX_ENDING);
}

static pawl_status keep_details(reading *r, pawl_error *err) {
    details *d = mem_calloc(1, sizeof(*d));
    if (d == NULL) {
        shard_index_free(&r->index);
        return error_nomem(err, sizeof(*d));
    }
    d->index = r->index;
    d->data_bytes = r->data_bytes;
    r->a->details = d;
    r->a->free_details = free_details;
    return PAWL_OK;
}

static pawl_status read_all(reading *r, pawl_error *err) {
    static const shard_kind kind = {.ending = ".safetensors",
                                    .fault = "the file is no .safetensors file"};
    uint32_t file;
    if (safetensors_is_index(r->a->name)) {
        TRY(sharded_read_index(r->a, &kind, &r->index, err));
    } else {
        TRY(archive_add_file(r->a, r->a->name, &file, err));
    }
    return read_headers(r, err);
}

pawl_status safetensors_read(archive *a, pawl_error *err) {
    reading r = {.a = a};
    pawl_status status = read_all(&r, err);
    if (status != PAWL_OK) {
        shard_index_free(&r.index);
        return status;
    }
    return keep_details(&r, err);
}

pawl_status safetensors_compare(const archive *a, pawl_error *err) {
    const details *d = a->details;
    return sharded_compare(a, &d->index, err);
}

pawl_status safetensors_verify(archive *a, source_verifier *v, pawl_error *err) {
    const details *d = a->details;
    struct pawl_error story = ERROR_INIT;
    (void)err;
    if (!d->index.has_total_size || d->index.total_size == (double)d->data_bytes) {
        return PAWL_OK;
    }
    error_set(&story, PAWL_EDAMAGED, "the index of the weights names another size of all tensors");
    store_error_path(&story, a->base.store, a->name);
    error_expected(&story, "a total_size of %llu bytes, as the headers say",
                   (unsigned long long)d->data_bytes);
    error_found(&story, "%.17g", d->index.total_size);
    v->problem(v->context, a->name, NULL, &story);
    return PAWL_OK;
}
