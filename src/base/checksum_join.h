/* SPDX-License-Identifier: Apache-2.0 */
/* base/checksum_join: the checksum of bytes, out of those of their parts. */
#ifndef BASE_CHECKSUM_JOIN_H
#define BASE_CHECKSUM_JOIN_H

#include "base/base.h"

/* `crc` is that of what comes before n bytes, `of_more` that of these. */
uint32_t crc32c_join(uint32_t crc, uint32_t of_more, uint64_t n);
uint32_t crc32_zip_join(uint32_t crc, uint32_t of_more, uint64_t n);

#endif
