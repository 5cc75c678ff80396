/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/native: a committed step of a run, as a source; private to this folder. */
#ifndef CHECKPOINT_NATIVE_H
#define CHECKPOINT_NATIVE_H

#include "format/manifest.h"
#include "presence/presence.h"
#include "source/source.h"

typedef struct native_source {
    struct source base;
    const platform *platform;
    pawl_log log;
    char directory[32];
    buffer manifest_text;
    manifest manifest;
    buffer metrics; /* of the manifest, as JSON */
    reader_mark *mark;
    unsigned losses; /* times the mark was lost and the manifest found unchanged afterwards */
    bool lost;       /* it had changed: the files may be gone */

    store_file *index_file;
    byte_source index_file_source; /* the table reads it through one that counts reads */
    table *index;
    table_cursor *find_at;

    /* The record of checksums used last: checksums.c. */
    table_cursor *checksums_at;
    bool checksums_loaded;
    uint32_t checksums_file;
    uint64_t checksums_record;
    size_t checksums_count;
    uint32_t checksums[FORMAT_BLOCKS_PER_RECORD];
} native_source;

/* ---- native.c ------------------------------------------------------------------------------- */

/* PAWL_ENOTFOUND: the step is not committed, or changed while it was opened. `s` is borrowed. With
 * `mark` a reader's mark protects the step from being removed. */
pawl_status native_open(store *s, int64_t step, const platform *os, const pawl_log *log, bool mark,
                        struct source **out, pawl_error *err) PAWL_MUST_CHECK;
/* A thread keeps the mark fresh from now on. */
void native_keep_mark(struct source *s);

/* ---- native_entries.c ----------------------------------------------------------------------- */

pawl_status native_walk(struct source *s, const char *prefix, const char *from, source_walk **out,
                        pawl_error *err) PAWL_MUST_CHECK;
pawl_status native_next(source_walk *w, const record_entry **out, pawl_error *err) PAWL_MUST_CHECK;
void native_end(source_walk *w);
pawl_status native_find(struct source *s, const char *name, arena *memory, record_entry *out,
                        bool *found, pawl_error *err) PAWL_MUST_CHECK;
/* Is there a tensor of this name? Its record is not checked. */
pawl_status native_has_tensor(native_source *n, const char *name, bool *found, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status native_decode(const native_source *n, const table_cursor *at, arena *memory,
                          record_entry *out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- checksums.c, native_verify.c ----------------------------------------------------------- */

pawl_status native_checksums(struct source *s, uint32_t file, uint64_t first, size_t n,
                             uint32_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status native_verify(struct source *s, source_verifier *to, pawl_error *err) PAWL_MUST_CHECK;
/* Adds the path and step of the index to an error. Returns `status`. */
pawl_status native_index_failed(struct source *s, pawl_status status, pawl_error *err);

#endif
