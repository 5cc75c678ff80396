/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/view: ranges of data files as read-only memory, verified block by block before it is
 * handed out. A file is opened and mapped once for all its views; where it cannot be mapped, a view
 * has memory of its own, into which blocks are read when they are wanted.
 *
 * Blocks are verified by reading them, not through the mapping: so a file that was cut off, or
 * storage that fails, is an error here and not a signal. Both use the same open file, and so show
 * the same bytes.
 */
#ifndef ENGINE_VIEW_H
#define ENGINE_VIEW_H

#include "engine/engine.h"

/* The open files of one checkpoint's views; it and they are used by one thread at a time. */
typedef struct engine_views engine_views;
typedef struct engine_view engine_view;

pawl_status engine_views_new(const engine_source *source, engine_views **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* NULL is fine. All views are closed before. */
void engine_views_free(engine_views *all);

/* A view of bytes [offset, offset + n) of a file; reads nothing. PAWL_EDAMAGED: the file is
 * missing, of another size than the manifest says, or ends before the range does. */
pawl_status engine_view_open(engine_views *all, uint32_t file, uint64_t offset, uint64_t n,
                             engine_view **out, pawl_error *err) PAWL_MUST_CHECK;
void engine_view_close(engine_view *v); /* NULL is fine */
/* Bytes [at, at + n) of the view, which are within it. *bytes has the alignment of their offset in
 * the file, up to a block's. Damage as of engine_reader_read; those blocks stay unverified. */
pawl_status engine_view_bytes(engine_view *v, uint64_t at, uint64_t n, const void **bytes,
                              pawl_error *err) PAWL_MUST_CHECK;

#endif
