/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow/protobuf: the fields of a message of protobuf, one after the other. Nothing is copied,
 * and nothing is entered: whoever wants a message in a message makes a cursor of its bytes, so how
 * deep that goes is written in the code, and no file decides it.
 */
#ifndef FOREIGN_TENSORFLOW_PROTOBUF_H
#define FOREIGN_TENSORFLOW_PROTOBUF_H

#include "base/base.h"

/* Bytes of a key or a value; they live as long as what they were found in. */
typedef struct bundle_text {
    const uint8_t *bytes;
    size_t n;
} bundle_text;
bool bundle_text_is(bundle_text text, const char *what);
int bundle_text_compare(bundle_text a, bundle_text b); /* bytewise */

/* A field of a message. */
typedef struct proto_field {
    uint32_t number;
    unsigned wire;    /* 0: varint, 1: 8 bytes, 2: bytes, 5: 4 bytes */
    uint64_t value;   /* of 0, 1 and 5 */
    bundle_text text; /* of 2 */
} proto_field;
/* *more is false at the end of the message. */
pawl_status proto_next(cursor *c, proto_field *out, bool *more, pawl_error *err) PAWL_MUST_CHECK;

#endif
