/* SPDX-License-Identifier: Apache-2.0 */
/* record_check: checks the description of an entry, read or to be written. */
#ifndef FORMAT_RECORD_CHECK_H
#define FORMAT_RECORD_CHECK_H

#include "format/format.h"

/* Name, kind, role, slot, shape, value and pieces. `blame` is the status of a refusal:
 * PAWL_EDAMAGED for what was read, PAWL_EINTERNAL for what is to be written. */
pawl_status record_check(const record_entry *entry, uint32_t file_count, pawl_status blame,
                         pawl_error *err) PAWL_MUST_CHECK;
/* The pieces alone, where all else was checked before. */
pawl_status record_check_pieces(const record_entry *entry, uint32_t file_count, pawl_status blame,
                                pawl_error *err) PAWL_MUST_CHECK;
bool record_piece_is_whole(const record_entry *entry, const record_piece *piece);
/* How a value lies in a data file: its dtype, and whether it is a scalar (else U8 [n]). */
pawl_dtype record_value_dtype(pawl_kind kind, bool *scalar);

#endif
