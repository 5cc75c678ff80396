/* SPDX-License-Identifier: Apache-2.0 */
/* format/event: a line of events.jsonl; docs/format.md lists its members. */
#ifndef FORMAT_EVENT_H
#define FORMAT_EVENT_H

#include "base/base.h"
#include "format/limits.h"

#include <pawl/event.h>
#include <pawl/restore.h>

typedef struct event_fallback {
    int64_t step;
    const char *why;
} event_fallback;

/* What PAWL_EVENT_RESTORED tells beyond pawl_event. */
typedef struct event_restore {
    pawl_report_counts counts;
    const event_fallback *fallbacks; /* the first few are written, and how many there are */
    size_t fallback_count;
} event_restore;

/* Appends the line, without its end. `event->json` is not used; `restore` may be NULL. */
pawl_status event_encode(const pawl_event *event, const event_restore *restore, buffer *out,
                         pawl_error *err) PAWL_MUST_CHECK;

/* What event_decode understood: `event` points into the rest. `line`: the line, and its texts. */
typedef struct event_decoded {
    pawl_event event;
    pawl_save_stats stats;
    char *line;
} event_decoded;
/* False for what is no event: `out` needs no freeing then. */
bool event_decode(const void *line, size_t n, event_decoded *out);
void event_decoded_free(event_decoded *decoded);

#endif
