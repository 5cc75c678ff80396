/* SPDX-License-Identifier: Apache-2.0 */
/* torch/blob: what torch.save wrote, as a zip: a file, or a part of one. */
#ifndef FOREIGN_TORCH_BLOB_H
#define FOREIGN_TORCH_BLOB_H

#include "foreign/torch/object.h"
#include "foreign/zip/zip.h"

typedef struct torch_blob {
    archive *a;
    uint32_t file;
    byte_source in; /* the file */
    uint64_t at;    /* where it begins there */
    byte_source bytes;
    zip_directory *zip; /* that is filled */
    zip_directory own;  /* which is this, unless the caller has one */
    char prefix[1024];  /* of all members, with its "/" */
    bool swapped;
    buffer pickle;
    pickle_tree tree;
    torch_source source; /* of its storages */
} torch_blob;

/* Reads all but the storages. `zip`: an empty directory that outlives it, or NULL. The blob must
 * not be moved; it is closed also where this fails. */
pawl_status torch_blob_open(torch_blob *b, archive *a, uint32_t file, const byte_source *in,
                            uint64_t at, uint64_t bytes, zip_directory *zip, pawl_error *err)
    PAWL_MUST_CHECK;
void torch_blob_close(torch_blob *b); /* for CLEANUP */

#endif
