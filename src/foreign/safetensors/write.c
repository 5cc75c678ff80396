/* SPDX-License-Identifier: Apache-2.0 */
/* Writes safetensors: one file, or several with an index, as Hugging Face's libraries name them. */
#include "foreign/safetensors/safetensors.h"

#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_CHARS 64u

const char *safetensors_refuses(const writer_item *item) {
    bool whole = item->kind != PAWL_KIND_TENSOR || pawl_dtype_bits(item->dtype) % 8 == 0 ||
                 item->bytes > 0 || item->ndim > 0;
    return whole ? NULL : "a single element of its type fills no whole byte";
}

/* ---- which tensor is in which file ---------------------------------------------------------- */

typedef struct placed {
    uint32_t file; /* 0 is the first */
    size_t item;
} placed;

typedef struct writing {
    const writer_job *job;
    placed *places; /* of all tensors; by file, and there in the order of their bytes */
    size_t count;
    uint32_t files;
    uint64_t total;
} writing;

/* Files are filled in the order of names. */
static pawl_status place_all(writing *w, pawl_error *err) {
    const writer_job *job = w->job;
    uint64_t in_file = 0;
    w->places = mem_calloc(job->count + 1, sizeof(*w->places));
    if (w->places == NULL) {
        return error_nomem(err, job->count * sizeof(*w->places));
    }
    for (size_t i = 0; i < job->count; i++) {
        const writer_item *item = &job->items[i];
        if (item->kind != PAWL_KIND_TENSOR) {
            continue;
        }
        if (job->shard_bytes > 0 && in_file > 0 && in_file + item->bytes > job->shard_bytes) {
            w->files++;
            in_file = 0;
        }
        w->places[w->count++] = (placed){.file = w->files, .item = i};
        in_file += item->bytes;
        w->total += item->bytes;
    }
    w->files++;
    return w->files <= FOREIGN_MAX_SHARDS
               ? PAWL_OK
               : error_set(err, PAWL_ELIMIT, "the weights would be in more than %u files",
                           FOREIGN_MAX_SHARDS);
}

/* Larger elements first, so that each tensor is aligned; then by name. */
static int by_bytes(const void *a, const void *b, void *context) {
    const writer_item *items = context;
    const placed *left = a;
    const placed *right = b;
    if (left->file != right->file) {
        return left->file < right->file ? -1 : 1;
    }
    pawl_dtype of_left = items[left->item].dtype;
    pawl_dtype of_right = items[right->item].dtype;
    if (of_left != of_right) {
        return of_left > of_right ? -1 : 1;
    }
    return (left->item > right->item) - (left->item < right->item);
}

static pawl_status tell_order(const writing *w, pawl_error *err) {
    AUTOFREE size_t *order = mem_calloc(w->count + 1, sizeof(*order));
    if (order == NULL) {
        return error_nomem(err, w->count * sizeof(*order));
    }
    for (size_t i = 0; i < w->count; i++) {
        order[i] = w->places[i].item;
    }
    return w->job->begin(w->job->context, order, w->count, err);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void name_file(const writing *w, uint32_t file, char out[FILE_CHARS]) {
    snprintf(out, FILE_CHARS, "model-%05u-of-%05u.safetensors", file + 1, w->files);
}

static pawl_status make_header(const writing *w, size_t first, size_t n, bool values, buffer *out,
                               uint64_t *bytes, pawl_error *err) {
    CLEANUP(buffer_free) buffer json = {0};
    AUTOFREE safetensors_tensor *tensors = mem_calloc(n + 1, sizeof(*tensors));
    safetensors_pair metadata[2] = {{.key = "format", .value = "pt"}};
    size_t pairs = 1;
    if (tensors == NULL) {
        return error_nomem(err, n * sizeof(*tensors));
    }
    for (size_t i = 0; i < n; i++) {
        const writer_item *item = &w->job->items[w->places[first + i].item];
        tensors[i] = (safetensors_tensor){
            .name = item->name, .dtype = item->dtype, .ndim = item->ndim, .shape = item->shape};
    }
    if (values) {
        TRY(writer_values(w->job->items, w->job->count, &json, err));
    }
    if (json.size > 0) {
        metadata[pairs++] =
            (safetensors_pair){.key = SAFETENSORS_VALUES_KEY, .value = (const char *)json.data};
    }
    return safetensors_encode(tensors, n, metadata, pairs, out, bytes, err);
}

static pawl_status write_file(const writing *w, const char *name, size_t first, size_t n,
                              bool values, pawl_error *err) {
    CLEANUP(output_close) output out = {0};
    CLEANUP(buffer_free) buffer header = {0};
    uint64_t bytes = 0;
    TRY(make_header(w, first, n, values, &header, &bytes, err));
    TRY(output_open(&out, w->job, name, bytes, err));
    TRY(output_write(&out, header.data, header.size, err));
    for (size_t i = 0; i < n; i++) {
        TRY(w->job->read(w->job->context, output_take, &out, err));
    }
    if (out.at != bytes) {
        return error_set(err, PAWL_EINTERNAL, "%llu bytes were written, not %llu",
                         (unsigned long long)out.at, (unsigned long long)bytes);
    }
    return output_end(&out, err);
}

/* In the order of names, as the index of transformers is. */
static pawl_status write_index(const writing *w, const uint32_t *file_of, pawl_error *err) {
    CLEANUP(output_close) output out = {0};
    CLEANUP(buffer_free) buffer json = {0};
    bool first = true;
    TRY(buffer_printf(&json, err, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n",
                      (unsigned long long)w->total));
    TRY(buffer_printf(&json, err, "  \"weight_map\": {"));
    for (size_t i = 0; i < w->job->count; i++) {
        const writer_item *item = &w->job->items[i];
        char name[FILE_CHARS];
        if (item->kind != PAWL_KIND_TENSOR) {
            continue;
        }
        name_file(w, file_of[i], name);
        TRY(buffer_printf(&json, err, "%s\n    ", first ? "" : ","));
        TRY(buffer_json_string(&json, item->name, strlen(item->name), err));
        TRY(buffer_printf(&json, err, ": \"%s\"", name));
        first = false;
    }
    TRY(buffer_printf(&json, err, "\n  }\n}\n"));
    TRY(output_open(&out, w->job, "model.safetensors.index.json", 0, err));
    TRY(output_write(&out, json.data, json.size, err));
    return output_end(&out, err);
}

static pawl_status write_shards(const writing *w, pawl_error *err) {
    AUTOFREE uint32_t *file_of = mem_calloc(w->job->count + 1, sizeof(*file_of));
    size_t n = 0;
    if (file_of == NULL) {
        return error_nomem(err, w->job->count * sizeof(*file_of));
    }
    for (size_t at = 0, file = 0; file < w->files; at += n, file++) {
        char name[FILE_CHARS];
        for (n = 0; at + n < w->count && w->places[at + n].file == file; n++) {
            file_of[w->places[at + n].item] = (uint32_t)file;
        }
        name_file(w, (uint32_t)file, name);
        TRY(write_file(w, name, at, n, file == 0, err));
    }
    return write_index(w, file_of, err);
}

static pawl_status write_all(writing *w, pawl_error *err) {
    TRY(place_all(w, err));
    if (w->count > 1) {
        qsort_r(w->places, w->count, sizeof(*w->places), by_bytes, (void *)w->job->items);
    }
    TRY(tell_order(w, err));
    return w->job->shard_bytes > 0 ? write_shards(w, err)
                                   : write_file(w, w->job->name, 0, w->count, true, err);
}

pawl_status safetensors_write(const writer_job *job, pawl_error *err) {
    writing w = {.job = job};
    pawl_status status = write_all(&w, err);
    mem_free(w.places);
    return status;
}
