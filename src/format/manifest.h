/* SPDX-License-Identifier: Apache-2.0 */
/* format/manifest: the commit record of a checkpoint, both ways: manifest.c. */
#ifndef FORMAT_MANIFEST_H
#define FORMAT_MANIFEST_H

#include "format/format.h"

typedef struct manifest_file {
    const char *name;
    uint64_t bytes;
    int rank;
} manifest_file;

/* Values people want to see, and metrics: text is JSON already. */
typedef struct manifest_value {
    const char *name, *json;
} manifest_value;

typedef struct manifest {
    int version;
    int64_t step;
    int64_t unix_time_ns;
    int world_size;
    const char *attempt, *framework, *writer; /* writer: "pawl 0.2.0" */
    uint64_t entries;
    manifest_file *files;
    size_t file_count;
    const char *index_name;
    table_summary index;
    manifest_value *hyperparameters, *metrics;
    size_t hyperparameter_count, metric_count;
    const char *batch_signature; /* JSON, or NULL */
    const char **file_names;     /* of a decoded one: the files', ascending */
    arena memory;
} manifest;

/* JSON text that ends with its own checksum: `"crc32c": "xxxxxxxx"\n}\n`. The result has been
 * decoded once, as a check. PAWL_EUSAGE for a text or value that cannot be in it, PAWL_ELIMIT
 * beyond a maximum. */
pawl_status manifest_encode(const manifest *m, buffer *out, pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_EUNSUPPORTED names both versions (R12); PAWL_EDAMAGED otherwise. File names are single path
 * components that name_data or name_index could have made. */
pawl_status manifest_decode(const void *text, size_t n, manifest *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* unpublished.c. On object stores a step has a placeholder of this text in the place of its
 * manifest before it is published, which is no checkpoint. No two have the same number under
 * one attempt. */
void manifest_placeholder(char out[FORMAT_MAX_PLACEHOLDER], const char *attempt, uint64_t number);
bool manifest_is_placeholder(const void *text, size_t n);
/* Without the newlines at the end that a new owner of an object store may have added, so that the
 * object has another version: those are no part of the manifest. */
size_t manifest_bytes(const void *text, size_t n);
void manifest_free(manifest *m);
/* Does a decoded manifest name that data file? */
bool manifest_lists(const manifest *m, const char *name);
/* Appends its metrics as one JSON object, as they stand in it. */
pawl_status manifest_metrics_json(const manifest *m, buffer *out, pawl_error *err) PAWL_MUST_CHECK;

#endif
