/* SPDX-License-Identifier: Apache-2.0 */
/* ranks/wire: texts and identities in what ranks tell each other. What comes in is bounded. */
#ifndef RANKS_WIRE_H
#define RANKS_WIRE_H

#include "base/base.h"

/* Its length and its bytes, at most `limit` of them; what is no UTF-8 becomes '?'. */
pawl_status wire_put_text(buffer *out, const char *text, size_t limit, pawl_error *err)
    PAWL_MUST_CHECK;
/* Into an array of `size` bytes; PAWL_EDAMAGED when it is longer, no UTF-8, or has a NUL. */
pawl_status wire_take_text(cursor *c, char *to, size_t size, pawl_error *err) PAWL_MUST_CHECK;
pawl_status wire_put_identity(buffer *out, const process_identity *who, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status wire_take_identity(cursor *c, process_identity *who, pawl_error *err) PAWL_MUST_CHECK;
/* What decoded is not what an encoder makes. */
pawl_status wire_damaged(const cursor *c, const char *why, pawl_error *err);

#endif
