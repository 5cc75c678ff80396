/* SPDX-License-Identifier: Apache-2.0 */
/* torch/read: files of torch.save: zips, alone or several with an index, and the two formats before
 * zips. */
#ifndef FOREIGN_TORCH_READ_H
#define FOREIGN_TORCH_READ_H

#include "foreign/archive.h"
#include "foreign/zip/zip.h"

/* Has the zip what torch.save puts there? */
bool torch_is_in_zip(const zip_directory *d);
/* By its name: an index of Hugging Face, not a file of tensors. */
bool torch_is_index(const char *name);
/* archive_format.read, compare, verify: of zips */
pawl_status torch_zip_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status torch_sharded_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status torch_zip_compare(const archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status torch_zip_verify(archive *a, source_verifier *v, pawl_error *err) PAWL_MUST_CHECK;

/* A file that is no zip: pickles, one behind the other, and then the storages. */
bool torch_looks_like_stream(const uint8_t *head, size_t n);
pawl_status torch_stream_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
/* The first of all: a tar with the members storages, tensors and pickle. */
bool torch_looks_like_tar(const uint8_t *head, size_t n);
pawl_status torch_tar_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;

#endif
