/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/zip: what is in a zip file, from its central directory (PKWARE APPNOTE 6.3.10, with
 * zip64). Stored and deflated members; all else is named and refused. Private to src/foreign.
 *
 * Nothing that a zip says of itself is trusted. Refused: members that overlap each other or the
 * directory, local headers that say something else than the directory, names that are there twice,
 * absolute ones and those with "..", links, encrypted members, sizes that the file does not have,
 * bytes behind the end, and more unpacked bytes than deflate can make of the packed ones.
 */
#ifndef FOREIGN_ZIP_H
#define FOREIGN_ZIP_H

#include "base/base.h"
#include "source/source.h"

typedef struct zip_member {
    const char *name; /* UTF-8 without NUL; a directory's ends in '/', and has no bytes */
    uint64_t at;      /* of its local header, in the file */
    uint64_t offset;  /* of its bytes, in the file */
    uint64_t packed_bytes, bytes; /* the same where it is stored */
    uint32_t crc32;               /* of its bytes, unpacked: IEEE 802.3 */
    uint16_t name_bytes;
    bool deflated;  /* else stored */
    bool unsummed;  /* zip_read never says it: who knows that crc32 is no checksum sets it */
    bool described; /* sizes and checksum are not in the local header, but behind the bytes */
} zip_member;

typedef struct zip_directory {
    zip_member *members; /* in the order of the central directory */
    size_t count;
    const zip_member **by_name; /* ascending, bytewise */
    uint64_t at, bytes;         /* of the central directory itself */
    arena memory;
} zip_directory;

/* By its first bytes: is it a zip, whole or not? */
bool zip_looks_like(const uint8_t *head, size_t n);
/* PAWL_EDAMAGED also where the end is missing: what was cut off cannot be told from what was never
 * written. Errors have the byte, and the member as their entry. */
pawl_status zip_read(const byte_source *file, zip_directory *out, pawl_error *err) PAWL_MUST_CHECK;
/* The same of the directory alone, to tell what a file is: where bytes of members are, and whether
 * local headers say the same, stays unknown. */
pawl_status zip_read_names(const byte_source *file, zip_directory *out, pawl_error *err)
    PAWL_MUST_CHECK;
void zip_free(zip_directory *d);
/* NULL: there is none. */
const zip_member *zip_find(const zip_directory *d, const char *name);
/* Of the name of a member, of any system: a clause that says so; NULL: it does not. */
const char *zip_name_leads_out(const char *name);
/* Appends a whole member of at most `limit` bytes, and compares its checksum. */
pawl_status zip_read_member(const byte_source *file, const zip_member *m, size_t limit, buffer *out,
                            pawl_error *err) PAWL_MUST_CHECK;
/* Appends the first n bytes of a member, or all where it has fewer: nothing is compared. */
pawl_status zip_read_start(const byte_source *file, const zip_member *m, size_t n, buffer *out,
                           pawl_error *err) PAWL_MUST_CHECK;

/* ---- checksums ---- */

/* Called throughout what takes long; its failure ends it. */
typedef pawl_status zip_progress(void *context, pawl_error *err);
/* Parts that were read already of the file that the zip is in, from `at` on. */
typedef struct zip_parts {
    source_parts *read; /* NULL: none */
    uint32_t file;
    uint64_t at;
    bool any; /* a member of which none was read is to be compared, too */
} zip_parts;
/* Reads a whole member, of any size, but for those parts, and compares its checksum: PAWL_EDAMAGED.
 * Where there are parts, only members that have some, and that are not compressed: reading those
 * compares it (zip_add_stream).
 * `progress` may be NULL. */
pawl_status zip_check_member(const byte_source *file, const zip_member *m, const zip_parts *parts,
                             zip_progress *progress, void *context, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
