/* SPDX-License-Identifier: Apache-2.0 */
/* base/checksum: one pass over memory that copies and checksums it, where the processor can. */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include "base/base.h"

#define CHECKSUM_STREAM_BYTES ((size_t)16 << 10)

bool checksum_streams(void);
/* Copies CHECKSUM_STREAM_BYTES as mem_copy_past_caches does. `crc` and the result lack the initial
 * and the final inversion of a CRC32C. What is checksummed is what is stored, even if `from`
 * changes meanwhile. Only where checksum_streams(). */
uint32_t checksum_stream(uint32_t crc, void *to, const void *from);

#endif
