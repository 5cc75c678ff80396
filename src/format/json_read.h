/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_read: JSON (RFC 8259) read in one pass over a bounded cursor, without a tree.
 *
 * Headers and manifests come from outside and may be large: reading them this way takes memory for
 * what is kept only, and every refusal knows its byte position. Nesting is bounded by
 * JSON_MAX_DEPTH.
 */
#ifndef FORMAT_JSON_READ_H
#define FORMAT_JSON_READ_H

#include "base/base.h"
#include "format/limits.h"

typedef struct json_reader {
    cursor c;
    bool first; /* nothing was read yet in the innermost container */
    int depth;
    uint8_t open[JSON_MAX_DEPTH]; /* '{' or '[' per level */
} json_reader;

/* `base` is the position of the text in its file, `what` names it in messages. */
json_reader json_reader_of(const void *text, size_t n, uint64_t base, const char *what);
/* Position in the file of the next byte that is not white space. */
uint64_t json_position(json_reader *r);
/* That byte, or 0 at the end. */
uint8_t json_peek(json_reader *r);

/* Enters an object ('{') or an array ('['). */
pawl_status json_enter(json_reader *r, char open, pawl_error *err) PAWL_MUST_CHECK;
/* In an object: the key of the next member (its value comes next), or leaves: *more is false. */
pawl_status json_member(json_reader *r, buffer *key, bool *more, pawl_error *err) PAWL_MUST_CHECK;
/* In an array: stands before the next value, or leaves: *more is false. */
pawl_status json_element(json_reader *r, bool *more, pawl_error *err) PAWL_MUST_CHECK;

/* Replaces `out` by the decoded text. Refuses NUL: no name of ours has one. */
pawl_status json_string(json_reader *r, buffer *out, pawl_error *err) PAWL_MUST_CHECK;
/* Written as an integer: no fraction, no exponent; for u64 no sign either. */
pawl_status json_u64(json_reader *r, uint64_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status json_i64(json_reader *r, int64_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status json_bool(json_reader *r, bool *out, pawl_error *err) PAWL_MUST_CHECK;
/* Any value, checked and passed over; its text, unless NULL, is [*text, *text + *n). */
pawl_status json_skip(json_reader *r, const uint8_t **text, size_t *n, pawl_error *err)
    PAWL_MUST_CHECK;
/* Nothing but white space is left. */
pawl_status json_end(json_reader *r, pawl_error *err) PAWL_MUST_CHECK;

/* Is the text one JSON value? PAWL_EDAMAGED with the position otherwise. */
pawl_status json_check(const void *text, size_t n, const char *what, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
