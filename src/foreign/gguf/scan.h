/* SPDX-License-Identifier: Apache-2.0 */
/* gguf/scan: reads a file forwards, a window at a time. */
#ifndef FOREIGN_GGUF_SCAN_H
#define FOREIGN_GGUF_SCAN_H

#include "base/base.h"

#define SCAN_WINDOW 65536u

typedef struct scan {
    byte_source in;
    uint64_t at;      /* of what comes next */
    uint64_t window;  /* where the window begins */
    size_t in_window; /* bytes that it has */
    uint8_t bytes[SCAN_WINDOW];
} scan;

/* At most SCAN_WINDOW bytes, valid until the next call. PAWL_EDAMAGED at the end of the file. */
pawl_status scan_bytes(scan *s, size_t n, const uint8_t **out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status scan_skip(scan *s, uint64_t n, pawl_error *err) PAWL_MUST_CHECK;
pawl_status scan_u32(scan *s, uint32_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status scan_u64(scan *s, uint64_t *out, pawl_error *err) PAWL_MUST_CHECK;
/* A length of 8 bytes, and so many bytes, at most `limit`. */
pawl_status scan_text(scan *s, size_t limit, buffer *out, pawl_error *err) PAWL_MUST_CHECK;

#endif
