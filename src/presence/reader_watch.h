/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presence/reader_watch: marks of readers that cannot be judged by pid, remembered between looks:
 * one that stands still for long enough is of a reader that is gone. Used by reader.c.
 */
#ifndef PRESENCE_READER_WATCH_H
#define PRESENCE_READER_WATCH_H

#include "presence/presence.h"

/* Has the mark stood still for `still_s`? Each name once in a look. */
pawl_status reader_watch_judge(reader_watch *watch, const char *directory, const char *name,
                               uint64_t counter, uint64_t now_ns, double still_s, bool *stale,
                               pawl_error *err) PAWL_MUST_CHECK;
/* Ends a look: what was not in it is gone from the directory, and need not be remembered. */
void reader_watch_end(reader_watch *watch, const char *directory);

#endif
