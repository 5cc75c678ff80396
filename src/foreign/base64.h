/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/base64: bytes within JSON (RFC 4648, section 4). */
#ifndef FOREIGN_BASE64_H
#define FOREIGN_BASE64_H

#include "base/json.h"

/* Appends a string of JSON, with its quotes. */
pawl_status base64_put(buffer *json, const uint8_t *bytes, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
/* `out` has room for text.n bytes. False: it is no base64. */
bool base64_take(json_span text, uint8_t *out, size_t *n);

#endif
