/* SPDX-License-Identifier: Apache-2.0 */
/* base/checksum: one pass over memory that copies and checksums it, where the processor can. */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include "base/base.h"

#define CHECKSUM_STREAM_BYTES ((size_t)16 << 10)

bool checksum_streams(void);
/* Copies CHECKSUM_STREAM_BYTES past the caches. `crc` and the result are those of the register,
 * without the initial and the final inversion. What is checksummed is what is stored, whatever
 * happens to `from` meanwhile. Only where checksum_streams(). */
uint32_t checksum_stream(uint32_t crc, void *to, const void *from);
/* Before another thread, or a device, looks at what was stored. */
void checksum_stream_end(void);

#endif
