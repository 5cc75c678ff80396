/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation that succeeds, or ends the command with a message and EXIT_FAILED. Free the result
 * with free().
 */
#ifndef CLI_MEMORY_H
#define CLI_MEMORY_H

#include <stdarg.h>
#include <stddef.h>

void *must_alloc(size_t bytes); /* zeroed */
void *must_realloc(void *memory, size_t bytes);
char *must_strdup(const char *text);
char *must_strndup(const char *text, size_t n);
char *must_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *must_vprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
/* `list` with `more` behind it, after `between` unless the list is empty; frees `list`. */
char *must_append(char *list, const char *between, const char *more);

#endif
