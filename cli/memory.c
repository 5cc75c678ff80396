/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that succeeds or ends the command. */
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *memory) {
    if (memory == NULL) {
        fputs("pawl: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    return memory;
}

void *must_alloc(size_t bytes) {
    return must(calloc(1, bytes > 0 ? bytes : 1));
}

void *must_realloc(void *memory, size_t bytes) {
    return must(realloc(memory, bytes > 0 ? bytes : 1));
}

char *must_strdup(const char *text) {
    return must(strdup(text));
}

char *must_strndup(const char *text, size_t n) {
    return must(strndup(text, n));
}

char *must_printf(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int written = vasprintf(&text, format, args);
    va_end(args);
    return must(written < 0 ? NULL : text);
}
