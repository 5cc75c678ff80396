/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/unpack: decompresses bytes piece by piece, whatever they are compressed with. Private to
 * this folder. One thread at a time.
 */
#ifndef FOREIGN_UNPACK_H
#define FOREIGN_UNPACK_H

#include "foreign/streams.h"

typedef struct unpacker unpacker;

/* PAWL_EUNSUPPORTED: there is no decoder for it. */
pawl_status unpacker_new(stream_packing packing, unpacker **out, pawl_error *err) PAWL_MUST_CHECK;
void unpacker_free(unpacker *u);          /* NULL is fine */
void unpacker_free_pointer(unpacker **u); /* for CLEANUP */
void unpacker_begin(unpacker *u);         /* anew */

/* One step moves both ends on. Nothing moves where input is missing, or nothing comes after the
 * end. */
typedef struct unpack_step {
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t room;
    /* The compressed bytes say that they are all; what is left of `in` is behind them, and so are
     * the last `over` bytes of those that were taken. */
    bool ended;
    unsigned over;
} unpack_step;
/* PAWL_EDAMAGED, without a place. */
pawl_status unpacker_step(unpacker *u, unpack_step *step, pawl_error *err) PAWL_MUST_CHECK;

/* Can so many bytes be compressed to so few? PAWL_EUNSUPPORTED as for unpacker_new. */
pawl_status unpack_fits(stream_packing packing, uint64_t packed_bytes, uint64_t bytes, bool *fits,
                        pawl_error *err) PAWL_MUST_CHECK;

#endif
