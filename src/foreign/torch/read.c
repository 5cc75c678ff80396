/* SPDX-License-Identifier: Apache-2.0 */
/* A file of torch.save, which is a zip. */
#include "foreign/torch/read.h"
#include "foreign/torch/blob.h"
#include "foreign/zip/check.h"

pawl_status torch_zip_read(archive *a, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    byte_source in;
    uint32_t file;
    zip_directory *zip;
    torch_blob blob;
    TRY(zip_keep(a, &zip, err));
    TRY(archive_add_file(a, a->name, &file, err));
    TRY(archive_open_file(a, file, STORE_READ, &opened, err));
    TRY(store_source(opened, &in, err));
    TRY(torch_blob_open(&blob, a, file, &in, 0, in.size, zip, err));
    pawl_status status = torch_add_object(&blob.source, blob.tree.root, "", err);
    torch_blob_close(&blob);
    if (status != PAWL_OK && err->path[0] == '\0') {
        archive_error_file(a, file, err);
    }
    return status;
}

pawl_status torch_zip_verify(archive *a, source_verifier *v, pawl_error *err) {
    return zip_verify(a, v, err);
}
