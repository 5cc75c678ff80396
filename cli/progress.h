/* SPDX-License-Identifier: Apache-2.0 */
/* A line on stderr, if that is a terminal, that shows how far work is that takes over a second, or
 * what the command waits for. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool wanted;
    bool shown;
    const char *what; /* "verifying"; NULL: no work is going on */
    int64_t start_ns, last_ns;
} progress;

void progress_begin(progress *p, const char *what);
void progress_update(progress *p, uint64_t done_bytes, uint64_t of_bytes);
/* Shows a text at once, between progress_begin and progress_end. */
void progress_say(progress *p, const char *text);
void progress_end(progress *p);
/* Erases the line; call it before printing anything else. */
void progress_hide(progress *p);

#endif
