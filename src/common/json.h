/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/json: JSON (RFC 8259) read in one pass, without a tree and without memory of its own.
 *
 * Texts come from outside and may be large: reading them this way takes memory for what is kept
 * only, and every refusal knows its position. Nesting is bounded. What is passed over may be any
 * text of RFC 8259 in UTF-8, but for halves of surrogate pairs: numbers of any size (unless
 * `round`), keys that occur twice.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <pawl/error.h>
#include <pawl/state.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nested objects and lists: those of a value, in the two of the manifest around it. */
#define JSON_MAX_DEPTH (PAWL_MAX_JSON_DEPTH + 2)

/* A part of the text that is read. Of a string: what stands between its quotes, escapes and all. */
typedef struct json_span {
    const char *text;
    size_t n;
} json_span;

typedef struct json_reader json_reader;

/* Called for a refusal, at r->at; returns the status that the reading function then returns.
 * `found`: NULL for whatever byte is there. */
typedef pawl_status json_refused(const json_reader *r, pawl_status status, const char *expected,
                                 const char *found);

struct json_reader {
    const char *text;
    size_t n, at;
    bool first; /* nothing was read yet in the innermost container */
    bool nul;   /* a string that is kept may have U+0000; no name of ours has */
    bool round; /* a number that is passed over must round to a double */
    int depth, max_depth;
    uint8_t open[JSON_MAX_DEPTH]; /* '{' or '[' per level */
    json_refused *refused;        /* NULL: not called */
    void *told;                   /* for `refused`, as are these: */
    uint64_t base;                /* position of the text in its file */
    const char *what;             /* "manifest", "header of the data file", ... */
};

/* Reading fails with PAWL_EDAMAGED where the text is wrong, and with PAWL_ELIMIT where it is nested
 * too deep. max_depth may be lowered before, `nul` and `round` set. */
json_reader json_reader_of(const void *text, size_t n);
/* The next byte that is not white space, or 0 at the end. */
uint8_t json_peek(json_reader *r);

/* Enters an object ('{') or an array ('['). */
pawl_status json_enter(json_reader *r, char open) PAWL_MUST_CHECK;
/* In an object: the key of the next member (its value comes next), or leaves: *more is false. `key`
 * may be NULL. */
pawl_status json_member(json_reader *r, json_span *key, bool *more) PAWL_MUST_CHECK;
/* In an array: moves to the next value, or leaves: *more is false. */
pawl_status json_element(json_reader *r, bool *more) PAWL_MUST_CHECK;

pawl_status json_string(json_reader *r, json_span *out) PAWL_MUST_CHECK;
/* Written as an integer: no fraction, no exponent; for u64 no sign either. */
pawl_status json_u64(json_reader *r, uint64_t *out) PAWL_MUST_CHECK;
pawl_status json_i64(json_reader *r, int64_t *out) PAWL_MUST_CHECK;
pawl_status json_bool(json_reader *r, bool *out) PAWL_MUST_CHECK;
/* Any value, checked and passed over; `out` may be NULL. */
pawl_status json_skip(json_reader *r, json_span *out) PAWL_MUST_CHECK;
/* Nothing but white space is left. */
pawl_status json_end(json_reader *r) PAWL_MUST_CHECK;

/* ---- of what was read ----------------------------------------------------------------------- */

/* The characters of a string: at most `size` bytes of them, without a NUL. Returns how many there
 * are; never more than string.n. */
size_t json_decode(json_span string, char *out, size_t size);
bool json_is(json_span string, const char *text);
/* A number, rounded to the nearest; false where it is too large for a double. */
bool json_number(json_span number, double *out);

/* ---- members of known names: json_fields.c -------------------------------------------------- */

typedef enum field_type {
    FIELD_INTEGER, /* int64_t */
    FIELD_COUNT,   /* uint64_t, not negative and at most INT64_MAX */
    FIELD_NUMBER,  /* double */
    FIELD_STRING,  /* json_span */
    FIELD_OBJECT,  /* nothing; its members may be fields */
    FIELD_ANY      /* json_span of the value */
} field_type;

typedef enum field_found { FIELD_ABSENT, FIELD_FOUND, FIELD_OTHER_TYPE } field_found;

typedef struct json_field {
    const char *object; /* the key of the object that it is a member of; NULL: the outermost */
    const char *key;
    void *to; /* left alone unless it is found */
    field_type type;
    field_found found;
} json_field;

/* Reads an object with these members, in any order, and others. False: it is no JSON, no object,
 * has one of them twice, or a number that its type cannot hold. */
bool json_fields(const char *text, size_t n, json_field *fields, size_t count);

#endif
