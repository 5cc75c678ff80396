/* SPDX-License-Identifier: Apache-2.0 */
/* base/json: what common/json.h reads, with errors of the library and strings in buffers. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/base.h"
#include "common/json.h"

/* A reader whose refusals fill `err`. `base` is the position of the text in its file, `what` names
 * it in messages. */
json_reader json_reader_for(const void *text, size_t n, uint64_t base, const char *what,
                            pawl_error *err);
/* Position in the file of the next byte that is not white space. */
uint64_t json_position(json_reader *r);
/* json_member and json_string; `key` and `out` are replaced by the characters. */
pawl_status json_key(json_reader *r, buffer *key, bool *more, pawl_error *err) PAWL_MUST_CHECK;
pawl_status json_text(json_reader *r, buffer *out, pawl_error *err) PAWL_MUST_CHECK;

/* Is the text one JSON value, nested PAWL_MAX_JSON_DEPTH deep at most? PAWL_ELIMIT, PAWL_EDAMAGED
 * with the position otherwise. */
pawl_status json_check(const void *text, size_t n, const char *what, pawl_error *err)
    PAWL_MUST_CHECK;

/* Do two texts that passed json_check say the same: json_same.c. White space, the order of members
 * and how a number or a text is written do not count; numbers are compared digit by digit, members
 * of one key in their order. False also where there is no memory for it. */
bool json_same(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

#endif
