/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole terminal, for a picture that is drawn again and again. Whatever ends the command but a
 * crash or SIGKILL, the terminal is left as it was found.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

typedef enum screen_event {
    SCREEN_TIME,  /* the time has passed, or the size has changed: draw again */
    SCREEN_QUIT,  /* q, or Ctrl-D */
    SCREEN_SIGNAL /* screen_end_by_signal ends the process */
} screen_event;

void screen_open(void);
void screen_close(void);
void screen_size(int *rows, int *columns);
/* Lines separated by '\n'; what does not fit is left out. */
void screen_draw(const char *picture);
screen_event screen_wait(double seconds);
/* Closes the screen, and ends the process by the signal that asked for it. */
void screen_end_by_signal(void);

#endif
