/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that can be written. */
#include "foreign/archive.h"
#include "foreign/dcp/write.h"
#include "foreign/numpy/write.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/tensorflow/write.h"
#include "foreign/torch/sequences.h"
#include "foreign/torch/write.h"
#include "foreign/writer.h"

#include <string.h>

static const writer_format writers[] = {
    {.name = "safetensors",
     .endings = {".safetensors"},
     .shape = WRITER_FILE_OR_DIRECTORY,
     .refuses = safetensors_refuses,
     .write = safetensors_write},
    {.name = "torch",
     .endings = {".pt", ".pth", ".bin", ".ckpt"},
     .shape = WRITER_FILE,
     .refuses = torch_refuses,
     .changes = torch_changes,
     .last = TORCH_SEQUENCES,
     .misfit = torch_misfit,
     .write = torch_write},
    {.name = "dcp",
     .shape = WRITER_DIRECTORY,
     .refuses = torch_refuses,
     .changes = torch_changes,
     .last = TORCH_SEQUENCES,
     .misfit = torch_misfit,
     .write = dcp_write},
    {.name = "tensorflow",
     .shape = WRITER_PREFIX,
     .refuses = bundle_refuses,
     .last = BUNDLE_LAST,
     .misfit = bundle_misfit,
     .write = bundle_write},
    {.name = "npz",
     .endings = {".npz"},
     .shape = WRITER_FILE,
     .refuses = npz_refuses,
     .write = npz_write},
    {.name = "npy",
     .endings = {".npy"},
     .shape = WRITER_FILE,
     .refuses = npy_refuses,
     .write = npy_write},
};

const writer_format *writer_by_name(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(writers); i++) {
        if (strcmp(writers[i].name, name) == 0) {
            return &writers[i];
        }
    }
    return NULL;
}

static bool ends_in_one_of(const char *path, const char *const endings[WRITER_MOST_ENDINGS]) {
    size_t n = strlen(path);
    for (size_t i = 0; i < WRITER_MOST_ENDINGS && endings[i] != NULL; i++) {
        size_t of = strlen(endings[i]);
        if (n > of && strcmp(path + n - of, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

const writer_format *writer_by_path(const char *path) {
    for (size_t i = 0; i < ARRAY_LENGTH(writers); i++) {
        if (ends_in_one_of(path, writers[i].endings)) {
            return &writers[i];
        }
    }
    return NULL;
}

const char *writer_names(void) {
    return "pawl, safetensors, torch, dcp, tensorflow, npz, npy";
}

uint64_t writer_tensor_bytes(const writer_job *job) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < job->count; i++) {
        bytes += job->items[i].kind == PAWL_KIND_TENSOR ? job->items[i].bytes : 0;
    }
    return bytes;
}

void writer_flat_name(const writer_item *item, char out[PAWL_MAX_NAME_BYTES + 1]) {
    const char *name = item->name;
    size_t n = strnlen(name, PAWL_MAX_NAME_BYTES);
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        int byte = escaped_byte(name + i, n - i);
        if (byte > 0 && byte != '/') {
            out[at++] = (char)byte;
            i += 3;
        } else {
            out[at++] = name[i++];
        }
    }
    out[at] = '\0';
}

pawl_status writer_begin_all(const writer_job *job, pawl_error *err) {
    AUTOFREE size_t *order = mem_calloc(job->count + 1, sizeof(*order));
    size_t n = 0;
    if (order == NULL) {
        return error_nomem(err, job->count * sizeof(*order));
    }
    for (size_t i = 0; i < job->count; i++) {
        if (job->items[i].kind == PAWL_KIND_TENSOR) {
            order[n++] = i;
        }
    }
    return job->begin(job->context, order, n, err);
}
