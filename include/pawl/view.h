/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/view.h: a tensor of a checkpoint as read-only memory, without reading it first: for looking
 * at a few rows of many, or sharing one copy among processes.
 *
 *     pawl_view *view = NULL;
 *     const void *row = NULL;
 *     must(pawl_view_open(checkpoint, "model/embedding", 0, &view, err));
 *     must(pawl_view_bytes(view, token * row_bytes, row_bytes, &row, err));
 *
 * The file is mapped, once for all views of it. A view verifies each block before it returns it for
 * the first time, and never again: what another program does to the file afterwards is visible.
 * pawl_view_bytes itself reports a truncated file and failing storage; but if that happens after it
 * returned the memory, touching it raises SIGBUS, as with any mapped file. pawl_restore and
 * pawl_checkpoint_read never raise SIGBUS. Where a filesystem cannot map files, and of weights of
 * other tools, which nothing keeps from being changed, a view reads what is asked for into memory
 * of its own.
 *
 * A checkpoint and its views are used by one thread at a time, and views are closed before their
 * checkpoint; memory that they returned may be read by any number of threads until then. The
 * checkpoint's mark keeps its files from being removed meanwhile; where the mark was lost
 * (pawl_checkpoint_open), pawl_view_bytes fails with PAWL_EBUSY, and on filesystems of several
 * hosts the memory may be gone. A child forked later may read what was returned before, too, and as
 * long as it likes; it cannot ask for more.
 */
#ifndef PAWL_VIEW_H
#define PAWL_VIEW_H

#include <pawl/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_view pawl_view;

/*
 * Maps piece `piece` (0 to pieces - 1 of pawl_entry_info; a tensor saved by one process in one box
 * has one) of a tensor. Nothing of the file is read yet. PAWL_ENOTFOUND names near misses;
 * PAWL_EUSAGE: not a tensor, or no such piece; PAWL_EDAMAGED: the file is missing or of another
 * size.
 */
PAWL_API pawl_status pawl_view_open(pawl_checkpoint *checkpoint, const char *name, uint64_t piece,
                                    pawl_view **view, pawl_error *err) PAWL_MUST_CHECK;
PAWL_API void pawl_view_close(pawl_view *view); /* NULL is fine */

typedef struct pawl_view_info {
    size_t struct_size; /* sizeof(pawl_view_info) */
    pawl_dtype dtype;
    int ndim;
    const int64_t *shape;  /* of the whole tensor */
    const int64_t *offset; /* of the piece in it */
    const int64_t *extent; /* of the piece; it is dense and row-major */
    uint64_t bytes;        /* of the piece */
} pawl_view_info;

/* Pointers live as long as the view. */
PAWL_API pawl_status pawl_view_describe(const pawl_view *view, pawl_view_info *info,
                                        pawl_error *err) PAWL_MUST_CHECK;

/*
 * The address of bytes [offset, offset + n) of the piece, after verifying those of their blocks
 * (16 KiB each, by CRC32C) that this view has not verified yet. For the whole piece: 0 and its
 * bytes. The piece is aligned to its dtype, and addresses stay the same as long as the view lives.
 * PAWL_EUSAGE: the range is not within the piece. PAWL_EDAMAGED names file, range and both
 * checksums: nothing is returned, and the next call verifies again.
 */
PAWL_API pawl_status pawl_view_bytes(pawl_view *view, uint64_t offset, uint64_t n,
                                     const void **bytes, pawl_error *err) PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
