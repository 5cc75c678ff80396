/* SPDX-License-Identifier: Apache-2.0 */
/* The progress line. */
#include "progress.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(1000000000)
#define REDRAW_NS   INT64_C(100000000)

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void progress_begin(progress *p, const char *what) {
    progress_hide(p);
    p->what = what;
    p->start_ns = now_ns();
    p->last_ns = p->start_ns;
}

void progress_update(progress *p, uint64_t done_bytes, uint64_t of_bytes) {
    if (!p->wanted || of_bytes == 0) {
        return;
    }
    int64_t now = now_ns();
    if (now - p->start_ns < PATIENCE_NS || now - p->last_ns < REDRAW_NS) {
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

/* A line that wraps could not be taken away. */
static size_t columns(void) {
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1u : 79;
}

void progress_say(progress *p, const char *text) {
    if (!p->wanted || p->what == NULL) {
        return;
    }
    char *safe = text_safe(text, strlen(text), false);
    char *line = text_shorten(safe, columns());
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
