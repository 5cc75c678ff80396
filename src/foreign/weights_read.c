/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what describes the tensors of safetensors files: the index, the headers; and checks that
 * they say the same. */
#include "foreign/weights.h"

#include <stdlib.h>
#include <string.h>

/* ---- the index ---- */

static pawl_status read_index(weights *w, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    TRY(store_read_file(w->base.store, w->name, FOREIGN_MAX_INDEX, &text, err));
    w->base.reads.reads++;
    w->base.reads.bytes += text.size;
    w->index_bytes = text.size;
    TRY(shard_index_decode(text.data, text.size, &w->index, err));
    w->shards = w->index.files;
    w->base.files = (uint32_t)w->index.file_count;
    return PAWL_OK;
}

/* ---- the headers ---- */

static pawl_status read_header(weights *w, uint32_t shard, uint64_t *header_bytes,
                               pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    safetensors_header *header = &w->headers[shard];
    byte_source source;
    TRY(weights_look(w, shard, &w->seen[shard], err));
    TRY(weights_open_file(w, shard, 0, STORE_READ, &file, err));
    TRY(store_source(file, &source, err));
    TRY(safetensors_decode_foreign(&source, header, err));
    TRY(data_sum_finished(header, err)); /* a file of pawl's own that was never finished */
    w->base.reads.reads += 2;
    w->base.reads.bytes += header->data_offset;
    *header_bytes += header->data_offset;
    w->base.entries += header->tensor_count;
    if (*header_bytes <= FOREIGN_MAX_HEADERS && w->base.entries <= FOREIGN_MAX_ENTRIES) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT, "the headers of the files are too large together");
    error_expected(err, "at most %llu bytes and %llu tensors",
                   (unsigned long long)FOREIGN_MAX_HEADERS,
                   (unsigned long long)FOREIGN_MAX_ENTRIES);
    error_found(err, "%llu bytes and %llu tensors, and there may be more",
                (unsigned long long)*header_bytes, (unsigned long long)w->base.entries);
    return PAWL_ELIMIT;
}

static pawl_status read_headers(weights *w, pawl_error *err) {
    uint64_t header_bytes = 0;
    w->headers = mem_calloc(w->base.files, sizeof(*w->headers));
    w->seen = mem_calloc(w->base.files, sizeof(*w->seen));
    if (w->headers == NULL || w->seen == NULL) {
        return error_nomem(err, w->base.files * sizeof(*w->headers));
    }
    for (uint32_t i = 0; i < w->base.files; i++) {
        pawl_status status = read_header(w, i, &header_bytes, err);
        if (status != PAWL_OK) {
            weights_file_path(w, w->shards[i], err);
            return status;
        }
    }
    return PAWL_OK;
}

/* ---- the entries ---- */

static int by_tensor_name(const void *a, const void *b) {
    const weight *left = a;
    const weight *right = b;
    int order = strcmp(left->tensor->name, right->tensor->name);
    return order != 0 ? order : (left->shard > right->shard) - (left->shard < right->shard);
}

static pawl_status refuse_name(const weights *w, const weight *e, const char *why,
                               pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "a tensor has a name that no entry of pawl can have: it %s",
              why);
    weights_file_path(w, w->shards[e->shard], err);
    error_entry(err, e->tensor->name);
    error_expected(err,
                   "1 to %d bytes of UTF-8 without control characters, no empty component "
                   "between '/', and none that is . or ..",
                   PAWL_MAX_NAME_BYTES);
    error_next(err, "load it with the tool that wrote it, and give the tensor another name");
    return PAWL_EUNSUPPORTED;
}

static pawl_status check_tensor(const weights *w, const weight *e, pawl_error *err) {
    const safetensors_tensor *t = e->tensor;
    const char *why = "is not allowed";
    if (!entry_name_valid(t->name, strlen(t->name), &why)) {
        return refuse_name(w, e, why, err);
    }
    pawl_dtype counted = t->type != NULL ? PAWL_U8 : t->dtype;
    pawl_status status = shape_check(counted, t->ndim, t->shape, NULL, NULL, err);
    if (status != PAWL_OK) {
        weights_file_path(w, w->shards[e->shard], err);
        error_entry(err, t->name);
        status = status == PAWL_EUSAGE ? PAWL_EDAMAGED : status;
        err->status = status;
    }
    return status;
}

static pawl_status in_two_files(const weights *w, const weight *a, const weight *b,
                                pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "a tensor is in two files");
    weights_file_path(w, w->shards[b->shard], err);
    error_entry(err, a->tensor->name);
    error_range(err, b->tensor->offset, b->tensor->bytes);
    error_expected(err, "each tensor in one file");
    error_found(err, "it is in %.100s and in %.100s", w->shards[a->shard], w->shards[b->shard]);
    return PAWL_EDAMAGED;
}

static pawl_status gather_entries(weights *w, pawl_error *err) {
    size_t count = (size_t)w->base.entries;
    size_t at = 0;
    w->entries = mem_calloc(count, sizeof(*w->entries));
    if (w->entries == NULL) {
        return error_nomem(err, count * sizeof(*w->entries));
    }
    for (uint32_t i = 0; i < w->base.files; i++) {
        for (size_t k = 0; k < w->headers[i].tensor_count; k++) {
            w->entries[at++] = (weight){.tensor = &w->headers[i].tensors[k], .shard = i};
        }
    }
    if (count > 1) {
        qsort(w->entries, count, sizeof(*w->entries), by_tensor_name);
    }
    for (size_t i = 0; i < count; i++) {
        TRY(check_tensor(w, &w->entries[i], err));
        if (i > 0 && strcmp(w->entries[i].tensor->name, w->entries[i - 1].tensor->name) == 0) {
            return in_two_files(w, &w->entries[i - 1], &w->entries[i], err);
        }
    }
    return PAWL_OK;
}

/* ---- the index against the files ---- */

static pawl_status not_in_file(const weights *w, const shard_place *place, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED,
              "the index of the weights is wrong at byte %llu: the tensor is not in that file",
              (unsigned long long)place->at);
    weights_file_path(w, w->name, err);
    error_entry(err, place->name);
    error_range(err, place->at, 1);
    error_expected(err, "a tensor of this name in %.200s", place->file);
    return PAWL_EDAMAGED;
}

static pawl_status not_in_index(const weights *w, const weight *e, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED,
              "a file has a tensor that the index of the weights does not name");
    weights_file_path(w, w->shards[e->shard], err);
    error_entry(err, e->tensor->name);
    error_range(err, e->tensor->offset, e->tensor->bytes);
    error_expected(err, "only tensors that are in %.200s", w->name);
    return PAWL_EDAMAGED;
}

/* Both are sorted by name. */
static pawl_status compare_with_index(const weights *w, pawl_error *err) {
    const shard_index *index = &w->index;
    size_t count = (size_t)w->base.entries;
    size_t i = 0;
    for (size_t k = 0; k < index->place_count; k++, i++) {
        const shard_place *place = &index->places[k];
        int order = i < count ? strcmp(w->entries[i].tensor->name, place->name) : 1;
        if (order < 0) {
            return not_in_index(w, &w->entries[i], err);
        }
        if (order > 0 || strcmp(w->shards[w->entries[i].shard], place->file) != 0) {
            return not_in_file(w, place, err);
        }
    }
    return i < count ? not_in_index(w, &w->entries[i], err) : PAWL_OK;
}

/* ---- all of it ---- */

pawl_status weights_read(weights *w, pawl_error *err) {
    if (w->sharded) {
        pawl_status status = read_index(w, err);
        if (status != PAWL_OK) {
            weights_file_path(w, w->name, err);
            return status;
        }
    } else {
        w->shards = &w->name;
        w->base.files = 1;
    }
    TRY(read_headers(w, err));
    TRY(gather_entries(w, err));
    return w->sharded ? compare_with_index(w, err) : PAWL_OK;
}
