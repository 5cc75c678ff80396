/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/zip/zip_archive: a zip file as what a format's archive is made of. */
#ifndef FOREIGN_ZIP_ARCHIVE_H
#define FOREIGN_ZIP_ARCHIVE_H

#include "foreign/archive.h"
#include "foreign/zip/zip.h"

/* Compares the checksums of all members; each that differs is reported, with its entry. For
 * archive_format.verify. */
typedef struct zip_verification {
    archive *a;
    uint32_t file; /* that the zip is */
    const zip_directory *directory;
    const char *const *names; /* of their entries, in the order of the members; NULL: none */
    source_verifier *to;
} zip_verification;
pawl_status zip_verify(const zip_verification *v, pawl_error *err) PAWL_MUST_CHECK;

/* The stream that has a member's bytes, and where they begin in it: the file itself, in which the
 * zip begins at `at`, where it is stored, else one that is decompressed. */
pawl_status zip_add_stream(archive *a, uint32_t file, uint64_t at, const zip_member *m,
                           uint32_t *stream, uint64_t *offset, pawl_error *err) PAWL_MUST_CHECK;

#endif
