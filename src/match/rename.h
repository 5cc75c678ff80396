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
/* Renames by a rule that fits the name. PAWL_EUSAGE if the result is not a valid name, PAWL_ELIMIT
 * if it is too long. */
pawl_status rename_by(span from, span to, const char *name, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Does that status of rename_by mean that the result is not a valid name? */
bool rename_is_invalid(pawl_status status);
/* {"/", "."} and {".", "/"}: the one character becomes the other, in all of a name. */
bool rename_swaps(const pawl_rename *rule);
/* Renames by the first rule that fits, then by those that swap: *renamed is in `out`, or is `name`
 * itself when none fits. */
pawl_status rename_apply(const pawl_restore_options *options, const char *name, buffer *out,
                         const char **renamed, pawl_error *err) PAWL_MUST_CHECK;

#endif
