/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format/outcome: what rank 0 tells the other ranks when a save has ended.
 *
 *   "pawl-end"  u32le version  u32le end  u64le step  u32le story bytes  story
 *   u32le CRC32C of all before
 *
 * A story is what ranks/failure.c makes of an error; there is one unless the save is committed.
 */
#ifndef FORMAT_OUTCOME_H
#define FORMAT_OUTCOME_H

#include "format/format.h"

#define OUTCOME_VERSION   1
#define OUTCOME_MAX_BYTES (OUTCOME_MAX_STORY + 32u)

/* How a save ended, for good (G3 in run/save.h). */
typedef enum save_end {
    SAVE_END_COMMITTED = 1, /* the manifest is durable */
    SAVE_END_FAILED = 2,    /* no manifest names the save's files, now or later */
    SAVE_END_UNKNOWN = 3    /* a manifest may name them, and may be gone after a power loss */
} save_end;

typedef struct save_outcome {
    save_end end;
    int64_t step; /* that rank 0 saved */
    const uint8_t *story;
    size_t story_bytes;
} save_outcome;

pawl_status outcome_encode(const save_outcome *o, buffer *out, pawl_error *err) PAWL_MUST_CHECK;
/* The story stays in `bytes`. */
pawl_status outcome_decode(const uint8_t *bytes, size_t n, save_outcome *out, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
