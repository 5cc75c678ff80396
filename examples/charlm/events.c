/* SPDX-License-Identifier: Apache-2.0 */
/* events: lines for programs that watch the trainer. */
#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "die.h"

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void events_open(struct events *events, const char *path, int rank) {
    events->fd = -1;
    if (!path) {
        return;
    }
    char name[4096];
    int length = rank == 0 ? snprintf(name, sizeof name, "%s", path)
                           : snprintf(name, sizeof name, "%s.%d", path, rank);
    if (length >= (int)sizeof name) {
        die(1, "cannot write events to %s: its name is too long", path);
    }
    events->fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (events->fd < 0) {
        die(1, "cannot write events to %s: %s", name, strerror(errno));
    }
}

void events_close(struct events *events) {
    if (events->fd >= 0) {
        close(events->fd);
    }
}

void events_write(const struct events *events, const char *format, ...) {
    if (events->fd < 0) {
        return;
    }
    char line[256];
    int length = snprintf(line, sizeof line, "%.6f ", seconds_now());
    va_list args;
    va_start(args, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, args);
    va_end(args);
    line[length++] = '\n';
    if (write(events->fd, line, (size_t)length) != length) {
        die(1, "cannot write events: %s", strerror(errno));
    }
}
