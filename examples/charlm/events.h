/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events: a line per thing that happened, for programs that watch the trainer (demo.py does).
 *
 * Every line is "SECONDS EVENT STEP ...", by a monotonic clock. It is written in one write before
 * training goes on, so nothing is missing when the process is killed.
 */
#ifndef CHARLM_EVENTS_H
#define CHARLM_EVENTS_H

struct events {
    int fd; /* -1: nobody watches */
};

/* Appends to the file at `path`, other ranks than 0 to one beside it whose name ends with the rank.
 * NULL: nobody watches. Dies when it cannot be opened. */
void events_open(struct events *events, const char *path, int rank);
void events_close(struct events *events);
/* Adds one line; `format` is "EVENT STEP ...". */
void events_write(const struct events *events, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Seconds by a monotonic clock. */
double seconds_now(void);

#endif
