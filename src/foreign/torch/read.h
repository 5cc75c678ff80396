/* SPDX-License-Identifier: Apache-2.0 */
/* torch/read: files of torch.save: zips, and the two formats before them. */
#ifndef FOREIGN_TORCH_READ_H
#define FOREIGN_TORCH_READ_H

#include "foreign/archive.h"
#include "foreign/zip/zip.h"

/* Has the zip what torch.save puts there? */
bool torch_is_in_zip(const zip_directory *d);
/* archive_format.read, verify: of zips */
pawl_status torch_zip_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status torch_zip_verify(archive *a, source_verifier *v, pawl_error *err) PAWL_MUST_CHECK;

#endif
