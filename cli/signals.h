/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that end the command. A checkpoint that is open has a mark in the run, which must go
 * before the command does: so a signal is only noted, a verb that finds it noted returns, and the
 * process ends by it when everything is closed. A shell sees what it expects.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>

/* Notes that nobody reads our output any more. */
void signals_catch_broken_pipe(void);
/* Notes that somebody asks us to end, once: a second signal ends the process at once. For verbs
 * that ask signals_caught() often enough. */
void signals_catch(void);
bool signals_caught(void);
/* Ends the process by the signal that was noted; returns when there was none. */
void signals_end_by_caught(void);

#endif
