/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/orbax/zstd: what is compressed with zstd, all at once. */
#ifndef FOREIGN_ORBAX_ZSTD_H
#define FOREIGN_ORBAX_ZSTD_H

#include "base/base.h"

/* Appends what the frames decompress to, at most `limit` bytes. PAWL_EDAMAGED, PAWL_ELIMIT. */
pawl_status zstd_unpack(const void *packed, size_t n, size_t limit, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
