/* SPDX-License-Identifier: Apache-2.0 */
/* The progress line. */
#include "progress.h"
#include "clock.h"
#include "terminal.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_DRAW_NS INT64_C(1000000000)
#define REDRAW_NS     INT64_C(100000000)

void progress_begin(progress *p, const char *what) {
    progress_hide(p);
    p->what = what;
    p->start_ns = clock_monotonic_ns();
    p->last_ns = p->start_ns;
}

void progress_update(progress *p, uint64_t done_bytes, uint64_t of_bytes) {
    if (!p->wanted || of_bytes == 0) {
        return;
    }
    int64_t now = clock_monotonic_ns();
    if (now - p->start_ns < FIRST_DRAW_NS || now - p->last_ns < REDRAW_NS) {
        return;
    }
    char done[TEXT_SIZE];
    char of[TEXT_SIZE];
    uint64_t percent = done_bytes < of_bytes ? done_bytes / (of_bytes / 100 + 1) : 100;
    fprintf(stderr, "\r\033[K%s: %s of %s, %u%%", p->what, text_bytes(done, done_bytes),
            text_bytes(of, of_bytes), (unsigned)percent);
    (void)fflush(stderr);
    p->shown = true;
    p->last_ns = now;
}

/* One less than the terminal has: a line that wraps cannot be erased. */
static size_t progress_columns(void) {
    int columns = terminal_columns(STDERR_FILENO);
    return columns > 1 ? (size_t)columns - 1 : 79;
}

void progress_say(progress *p, const char *text) {
    if (!p->wanted || p->what == NULL) {
        return;
    }
    char *safe = text_safe(text, strlen(text), false);
    char *line = text_shorten(safe, progress_columns());
    fprintf(stderr, "\r\033[K%s", line);
    (void)fflush(stderr);
    p->shown = true;
    free(line);
    free(safe);
}

void progress_end(progress *p) {
    progress_hide(p);
    p->what = NULL;
}

void progress_hide(progress *p) {
    if (p->shown) {
        fputs("\r\033[K", stderr);
        (void)fflush(stderr);
        p->shown = false;
    }
}
