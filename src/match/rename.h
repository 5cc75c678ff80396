/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rename: rename rules on names of entries. A rule fits a name that is `from` or begins with
 * `from`/; an empty `from` fits every name and puts `to`/ in front, an empty `to` takes `from`/
 * away.
 */
#ifndef MATCH_RENAME_H
#define MATCH_RENAME_H

#include "match/match.h"

/* Text that need not end in NUL. */
typedef struct span {
    const char *text;
    size_t length;
} span;

span span_of(const char *text);
bool rename_fits(span from, const char *name);
/* The name by a rule that fits it. When what comes out is no name: PAWL_EUSAGE, or PAWL_ELIMIT
 * where it is too long. */
pawl_status rename_by(span from, span to, const char *name, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Is that what rename_by returns when what comes out is no name? */
bool rename_made_none(pawl_status status);
/* The name by the first rule that fits: in `out`, or `name` itself when none does. */
pawl_status rename_apply(const pawl_restore_options *options, const char *name, buffer *out,
                         const char **renamed, pawl_error *err) PAWL_MUST_CHECK;

#endif
