/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/orbax: checkpoints of Orbax: directories of arrays, in a database (OCDBT) or as files of
 * zarr, and of JSON; and zarr alone. The directory that is opened is read, whichever of its files
 * is named.
 */
#ifndef FOREIGN_ORBAX_ORBAX_H
#define FOREIGN_ORBAX_ORBAX_H

#include "foreign/archive.h"

/* Is it a file, or directory, that Orbax and zarr alone make? By the last component. */
bool orbax_is_named(const char *path);

/* archive_format.read */
pawl_status orbax_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
/* archive_format.verify: decodes all chunks. */
pawl_status orbax_verify(archive *a, source_verifier *v, pawl_error *err) PAWL_MUST_CHECK;

#endif
