/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line on a terminal's stderr for work that takes over a second, or that something is waited
 * for; nothing anywhere else.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool wanted;
    bool shown;
    const char *what; /* "verifying"; NULL: nothing is under way */
    int64_t start_ns, last_ns;
} progress;

void progress_begin(progress *p, const char *what);
void progress_update(progress *p, uint64_t done_bytes, uint64_t of_bytes);
/* Shows this text at once, if anything is under way. */
void progress_say(progress *p, const char *text);
void progress_end(progress *p);
/* Takes the line away, before something else is printed or at the end. */
void progress_hide(progress *p);

#endif
