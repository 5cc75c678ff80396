/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presence/reader_watch: remembers, from one look to the next, the marks of readers that cannot be
 * judged by pid. One whose counter stays the same for long enough is stale. Used by reader.c.
 */
#ifndef PRESENCE_READER_WATCH_H
#define PRESENCE_READER_WATCH_H

#include "presence/presence.h"

/* Has its counter been the same for `still_s`? To be asked once for each name in a look. */
pawl_status reader_watch_judge(reader_watch *watch, const char *directory, const char *name,
                               uint64_t counter, uint64_t now_ns, double still_s, bool *stale,
                               pawl_error *err) PAWL_MUST_CHECK;
/* Ends a look: marks that were not in it are gone from the directory, and are forgotten. */
void reader_watch_end(reader_watch *watch, const char *directory);

#endif
