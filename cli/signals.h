/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that end the command. An open checkpoint has a reader's mark in the run, which must be
 * removed first: so the handler only remembers the signal, the verb returns early, and when
 * everything is closed the process ends by that signal, as the shell expects.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>

/* SIGPIPE: nobody reads the output any more. Caught even where the parent process ignored it. */
void signals_catch_broken_pipe(void);
/* SIGXFSZ: a file may not grow any more (ulimit -f). Writing then fails, which is told. */
void signals_ignore_file_limit(void);
/* SIGINT, SIGTERM and SIGHUP, unless ignored; a second one ends the process at once. For verbs that
 * call signals_caught() often. */
void signals_catch(void);
bool signals_caught(void); /* then the verb returns early */
/* Ends the process by the signal that was caught; returns if there was none. */
void signals_end_by_caught(void);

#endif
