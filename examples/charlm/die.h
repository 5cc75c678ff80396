/* SPDX-License-Identifier: Apache-2.0 */
/* die: what goes wrong before training starts (an option, the text, memory) ends the program. */
#ifndef CHARLM_DIE_H
#define CHARLM_DIE_H

#include <stddef.h>

/* Prints "charlm: " and the message, and exits with `code`: 1 a failure, 2 a wrong command line. */
_Noreturn void die(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Zeroed memory, aligned for vector instructions, to be freed with free(). Dies when there is none.
 */
void *allocate(size_t count, size_t size);

#endif
