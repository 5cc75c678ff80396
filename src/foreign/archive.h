/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/archive: a checkpoint of another tool as a source. A format's reader gathers its entries
 * once, while it is opened; all else (walking, finding, reading, noticing changes, telling it from
 * others) is the same for every format, and is here. Private to this folder.
 *
 * The bytes of entries are in streams, which have numbers. Those below `base.files` are the real
 * files. Next come the same files without their first byte, then without two, and so on, for
 * elements that are not aligned in their file. The others are made of files by recipes
 * (streams.h): decompressed, or in another order.
 *
 * Nothing keeps others from changing the files. Sizes and times of change are compared before a
 * file is opened and after each read of it: PAWL_EBUSY where they are not what they were.
 */
#ifndef FOREIGN_ARCHIVE_H
#define FOREIGN_ARCHIVE_H

#include "foreign/foreign.h"

struct archive;

/* How a stream is made. A recipe embeds this as its first member; it lives in the archive's memory,
 * and is not changed once the archive is open: several threads open streams at once. */
typedef struct stream_recipe {
    /* A file of which `read`, `size` and `close` are used, as of a source. Where the format
     * compares checksums apart (archive_format.sums), it marks what it reads (source_parts_mark),
     * or compares the checksum itself: else nobody does. */
    pawl_status (*open)(const struct stream_recipe *recipe, struct archive *a, store_mode mode,
                        store_file **out, pawl_error *err);
} stream_recipe;

/* Bytes that a recipe makes. */
typedef struct archive_stream {
    uint32_t file; /* the real file that they are made of: the name in errors */
    uint64_t bytes;
    const stream_recipe *recipe;
} archive_stream;

/* Elements are aligned to so many bytes at most. */
#define ARCHIVE_PHASES 8u

/* What a format is: one of these for each, in formats.c. */
typedef struct archive_format {
    const char *name;       /* "safetensors": pawl_checkpoint_info.format */
    const char *unverified; /* as source.unverified */
    bool sums;              /* as source.sums_apart */
    uint32_t (*sum)(uint32_t so_far, const void *bytes, size_t n); /* as source.sum */
    /* Reads a->name, and the files that it names; adds files, streams and entries. */
    pawl_status (*read)(struct archive *a, pawl_error *err);
    /* Optional: nothing. Once the entries are sorted: do the files say the same of them? */
    pawl_status (*compare)(const struct archive *a, pawl_error *err);
    /* Optional: nothing. Compares the checksums of the format; problems are reported. */
    pawl_status (*verify)(struct archive *a, source_verifier *v, pawl_error *err);
} archive_format;

/* A file, as it was before it was read. */
typedef struct archive_seen {
    const char *path;
    store_stat was;
} archive_seen;

typedef struct archive {
    struct source base;
    const archive_format *format;
    const char *name;    /* of the file that was opened */
    bool whole;          /* the path that is the user's is the directory, not the file */
    archive_seen *files; /* base.files */
    uint32_t *slots;     /* of a hash table: numbers of files, plus 1; a power of 2 */
    size_t slot_count;
    archive_seen *described; /* base.described_files */
    archive_stream *streams; /* from ARCHIVE_PHASES * base.files on */
    size_t stream_count;
    record_entry *entries; /* ascending by name, once the archive is open */
    struct archive_values {
        stream_recipe recipe;
        buffer bytes; /* of all values, and of what archive_keep_bytes keeps */
    } values;
    size_t value_count;
    uint64_t text_bytes; /* of names, types and values */
    uint64_t allowed;    /* bytes of all entries; 0: any */
    uint64_t charged;
    struct archive_packed {
        monitor lock;  /* of which decoders there are: streams_packed.c */
        uint64_t kept; /* bytes that they keep, all of them together */
        void *resting; /* one that nobody uses; may be NULL */
    } packed;
    void *details; /* of the format */
    void (*free_details)(void *details);
    size_t file_room, described_room, stream_room, entry_room;
} archive;

/* As large as a value may be. */
#define ARCHIVE_VALUE_BYTES ((size_t)PAWL_MAX_VALUE_BYTES)

/* ---- archive_build.c: what a reader calls --------------------------------------------------- */

/* A file that has bytes of entries, by its path in the directory ("d/0"): looks at it and adds it,
 * once. All files are added before the first stream and entry. PAWL_ENOTFOUND; PAWL_EUNSUPPORTED:
 * it is no regular file. */
pawl_status archive_add_file(archive *a, const char *path, uint32_t *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Opens one of the files, to be read as long as it is unchanged. */
pawl_status archive_open_file(archive *a, uint32_t file, store_mode mode, store_file **out,
                              pawl_error *err) PAWL_MUST_CHECK;
/* Appends the whole of a file that only describes others, of at most `limit` bytes. It is none of
 * base.files, but it must not change either. */
pawl_status archive_read_description(archive *a, const char *path, size_t limit, buffer *out,
                                     pawl_error *err) PAWL_MUST_CHECK;
/* The stream of `bytes` bytes that the recipe makes of a file. */
pawl_status archive_add_stream(archive *a, uint32_t file, uint64_t bytes,
                               const stream_recipe *recipe, uint32_t *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* A part of a tensor: row-major, little-endian, from `offset` on in a stream: one that a recipe
 * makes, or a file by its number, where it need not be aligned. */
typedef struct archive_part {
    uint32_t stream;
    uint64_t offset, bytes;
    const int64_t *box_offset, *box_extent; /* both NULL: all of the tensor */
} archive_part;
/* Keeps bytes in the archive's memory, aligned for any element: a part of a tensor. */
pawl_status archive_keep_bytes(archive *a, const void *bytes, size_t n, archive_part *out,
                               pawl_error *err) PAWL_MUST_CHECK;
typedef struct archive_tensor {
    const char *name;
    pawl_dtype dtype;
    const char *type; /* where dtype is 0: the name of what it has; values are not read then. With a
                         dtype: of two of these, the real part and the imaginary ("C128"). The entry
                         has one more dimension, of 2; where it would have too many, it is listed */
    int ndim;
    const int64_t *shape;
    pawl_role role;             /* 0: PAWL_ROLE_MODEL */
    const char *slot_of, *slot; /* NULL unless role is PAWL_ROLE_SLOT */
    const archive_part *parts;
    size_t part_count;
} archive_tensor;
/* Copies all of it. */
pawl_status archive_add_tensor(archive *a, const archive_tensor *tensor, pawl_error *err)
    PAWL_MUST_CHECK;
/* A value, of PAWL_KIND_BOOL (1 byte), INT64 and FLOAT64 (8 bytes, little-endian), STRING, BYTES or
 * JSON. Role: PAWL_ROLE_OTHER unless it says more. */
pawl_status archive_add_value(archive *a, const char *name, pawl_role role, pawl_kind kind,
                              const void *bytes, size_t n, pawl_error *err) PAWL_MUST_CHECK;
/* For formats in which one thing can stand for many entries: `bytes` more describe them, and all
 * entries together may take 32 bytes of memory for each, and 16 MiB. */
void archive_allow(archive *a, uint64_t bytes);
/* Names that no entry of pawl can have are refused, unless the reader escapes them with this: the
 * characters that cannot be as %XX, and % itself where it would be taken for such a one, but for
 * that of %2F. In the archive's memory. */
pawl_status archive_escape_name(archive *a, const char *name, size_t n, const char **out,
                                pawl_error *err) PAWL_MUST_CHECK;
/* The same of one key, in which "/" and any % are escaped, too. */
pawl_status archive_escape_key(archive *a, const char *key, size_t n, const char **out,
                               pawl_error *err) PAWL_MUST_CHECK;
/* The same, in other memory. */
pawl_status escape_key(arena *memory, const char *key, size_t n, const char **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* What %XX stands for, if the text begins with one; -1: it does not. */
int escaped_byte(const char *text, size_t n);
/* The real file that a stream is made of. */
uint32_t archive_file_of(const archive *a, uint32_t stream);
/* Where a piece begins: in the real file, unless a recipe makes its stream. */
uint64_t archive_offset_of(const archive *a, const record_piece *piece);
/* Adds a file of the directory to an error. */
void archive_error_file(const archive *a, uint32_t file, pawl_error *err);
/* Sorts and checks; called by archive_open. */
pawl_status archive_finish(archive *a, pawl_error *err) PAWL_MUST_CHECK;

/* ---- archive_file.c ------------------------------------------------------------------------- */

/* What is there of a file's name. PAWL_EUNSUPPORTED: no regular file. */
pawl_status archive_look(const archive *a, const char *path, store_stat *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* PAWL_EBUSY: it is not the file that was seen. */
pawl_status archive_unchanged(const archive *a, const archive_seen *file, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status archive_open_seen(archive *a, const archive_seen *seen, uint64_t skip, store_mode mode,
                              store_file **out, pawl_error *err) PAWL_MUST_CHECK;
/* Opens a stream. */
pawl_status archive_open_stream(archive *a, uint32_t stream, store_mode mode, store_file **out,
                                pawl_error *err) PAWL_MUST_CHECK;

/* ---- archive.c ------------------------------------------------------------------------------ */

/* As foreign_open, of a known format. */
pawl_status archive_open(store *s, bool own_store, const archive_format *format, const char *name,
                         bool whole, struct source **out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- identity.c ----------------------------------------------------------------------------- */

/* source_ops.identity */
pawl_status archive_identity(struct source *base, uint32_t *sum, pawl_error *err) PAWL_MUST_CHECK;

#endif
