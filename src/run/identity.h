/* SPDX-License-Identifier: Apache-2.0 */
/* run/identity: who a process is, as members of the records that it leaves in a run (docs/format.md).
 * Ranks tell it each other in other bytes: wire.h. */
#ifndef RUN_IDENTITY_H
#define RUN_IDENTITY_H

#include "base/base.h"

struct json_t;

/* Each with a comma before it: other members come first. */
pawl_status identity_put_members(buffer *out, const process_identity *who, pawl_error *err)
    PAWL_MUST_CHECK;
/* What is missing, or is no text or number, stays empty: then nobody can be judged by it. */
void identity_take_members(const struct json_t *record, process_identity *who);
/* Of the very same process. */
bool identity_same(const process_identity *a, const process_identity *b);
/* A member that is text, cut to fit; "" where it is not. */
void identity_take_text(const struct json_t *record, const char *member, char *to, size_t size);

#endif
