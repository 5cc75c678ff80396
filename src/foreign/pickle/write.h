/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle/write: Python's pickles, of protocol 2, which every Python 3 reads. What is written is
 * pushed on the reader's stack, in the order of the calls.
 */
#ifndef FOREIGN_PICKLE_WRITE_H
#define FOREIGN_PICKLE_WRITE_H

#include "base/json.h"

pawl_status pickle_begin(buffer *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status pickle_end(buffer *out, pawl_error *err) PAWL_MUST_CHECK;

pawl_status pickle_none(buffer *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status pickle_bool(buffer *out, bool v, pawl_error *err) PAWL_MUST_CHECK;
pawl_status pickle_int(buffer *out, int64_t v, pawl_error *err) PAWL_MUST_CHECK;
pawl_status pickle_float(buffer *out, double v, pawl_error *err) PAWL_MUST_CHECK;
/* UTF-8. */
pawl_status pickle_text(buffer *out, const char *text, size_t n, pawl_error *err) PAWL_MUST_CHECK;
pawl_status pickle_bytes(buffer *out, const uint8_t *bytes, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
/* A value of JSON that was checked, and is neither a list nor an object. */
pawl_status pickle_json_scalar(buffer *out, json_span span, pawl_error *err) PAWL_MUST_CHECK;
/* A class or function by its name. */
pawl_status pickle_global(buffer *out, const char *module, const char *name, pawl_error *err)
    PAWL_MUST_CHECK;

/* What a pickle has often is written once, and taken from its memo then. */
typedef struct pickle_memo {
    struct {
        size_t at, bytes; /* of what was written, in the pickle */
    } kept[32];
    uint8_t count;
} pickle_memo;
/* What was written from `from` on is one text, or one class or function. */
pawl_status pickle_share(buffer *out, pickle_memo *memo, size_t from, pawl_error *err)
    PAWL_MUST_CHECK;

/* One opcode without an argument. */
typedef enum pickle_op {
    PICKLE_MARK = '(',
    PICKLE_TUPLE = 't', /* from the mark on */
    PICKLE_EMPTY_TUPLE = ')',
    PICKLE_EMPTY_DICT = '}',
    PICKLE_EMPTY_LIST = ']',
    PICKLE_SETITEMS = 'u', /* keys and values from the mark on, into the dict below it */
    PICKLE_APPENDS = 'e',  /* the same of a list */
    PICKLE_REDUCE = 'R',   /* calls what is below a tuple with it */
    PICKLE_NEWOBJ = 0x81,  /* an object of the class below a tuple */
    PICKLE_BUILD = 'b',    /* gives an object its state */
    PICKLE_PERSID = 'Q'    /* what is on the stack names something outside */
} pickle_op;
pawl_status pickle_put(buffer *out, pickle_op op, pawl_error *err) PAWL_MUST_CHECK;

#endif
