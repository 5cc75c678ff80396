/* SPDX-License-Identifier: Apache-2.0 */
/* record_join: short cuts for joining millions of records (votes/merge_entry.c). */
#ifndef FORMAT_RECORD_JOIN_H
#define FORMAT_RECORD_JOIN_H

#include "format/format.h"

/* As record_entry_decode, for a further record of the name of `first`, whose record was
 * `first_value`: what is byte for byte the same is shared with `first`, `shape` for one. */
pawl_status record_entry_decode_like(const record_entry *first, const uint8_t *first_value,
                                     const uint8_t *key, size_t key_bytes, const uint8_t *value,
                                     size_t value_bytes, uint32_t file_count, arena *memory,
                                     record_entry *out, pawl_error *err) PAWL_MUST_CHECK;
/* As record_entry_encode, of what was decoded: not checked again. */
pawl_status record_entry_encode_again(const record_entry *entry, buffer *value, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
