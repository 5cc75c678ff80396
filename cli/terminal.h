/* SPDX-License-Identifier: Apache-2.0 */
/* What standard output and standard error are connected to. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>

/* Of the terminal behind the descriptor; 0 where there is none, or it does not tell. */
int terminal_rows(int fd);
int terminal_columns(int fd);
/* Is standard output a terminal that understands escape sequences? */
bool terminal_understands_escapes(void);

#endif
