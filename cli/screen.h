/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole terminal, for a picture that is redrawn again and again. However the command ends,
 * except by a crash or SIGKILL, the terminal is restored.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

typedef enum screen_event {
    SCREEN_TIME,  /* time is up, or the size changed: draw again */
    SCREEN_QUIT,  /* q or Ctrl-D was typed */
    SCREEN_SIGNAL /* call screen_end_by_signal */
} screen_event;

void screen_open(void);
void screen_close(void);
void screen_size(int *rows, int *columns);
/* `picture`: lines separated by '\n'; those below the last row are left out. */
void screen_draw(const char *picture);
screen_event screen_wait(double seconds);
/* Closes the screen, and ends the process by the signal that was caught. */
void screen_end_by_signal(void);

#endif
