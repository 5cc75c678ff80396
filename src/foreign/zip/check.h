/* SPDX-License-Identifier: Apache-2.0 */
/* zip/check: compares the checksums of all members of a zip that an archive is. */
#ifndef FOREIGN_ZIP_CHECK_H
#define FOREIGN_ZIP_CHECK_H

#include "foreign/archive.h"
#include "foreign/zip/zip.h"

/* An empty directory, to be read, that is the archive's details. */
pawl_status zip_keep(archive *a, zip_directory **out, pawl_error *err) PAWL_MUST_CHECK;
/* archive_format.verify, of an archive that is one zip, kept so. */
pawl_status zip_verify(archive *a, source_verifier *v, pawl_error *err) PAWL_MUST_CHECK;

#endif
