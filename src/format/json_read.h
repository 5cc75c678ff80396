/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_read: JSON (RFC 8259) read in one pass over a bounded cursor, without a tree.
 *
 * Headers and manifests come from outside and may be large: reading them this way takes memory for
 * what is kept only, and every refusal knows its byte position. Nesting is bounded. What is passed
 * over may be any text of RFC 8259 in UTF-8, but for halves of surrogate pairs: numbers of any
 * size (unless `round`), keys that occur twice.
 */
#ifndef FORMAT_JSON_READ_H
#define FORMAT_JSON_READ_H

#include "base/base.h"
#include "format/limits.h"

typedef struct json_reader {
    cursor c;
    bool first; /* nothing was read yet in the innermost container */
    bool nul;   /* a text that is kept may have U+0000; no name of ours has */
    bool round; /* a number that is passed over must round to a double */
    int depth, max_depth;
    uint8_t open[JSON_MAX_DEPTH]; /* '{' or '[' per level */
} json_reader;

/* `base` is the position of the text in its file, `what` names it in messages. max_depth may be
 * lowered then, `nul` and `round` set. */
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

/* Replaces `out` by the decoded text. */
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

/* Is the text one JSON value, nested PAWL_MAX_JSON_DEPTH deep at most? PAWL_ELIMIT, PAWL_EDAMAGED
 * with the position otherwise. */
pawl_status json_check(const void *text, size_t n, const char *what, pawl_error *err)
    PAWL_MUST_CHECK;

/* Does a number of JSON round to a double, or is it too large for one? json_double.c. */
bool json_number_rounds(const char *text, size_t n);

/* Do two texts that passed json_check say the same: json_same.c. White space, the order of members
 * and how a number or a text is written do not count; numbers are compared digit by digit, members
 * of one key in their order. False also where there is no memory for it. */
bool json_same(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

#endif
