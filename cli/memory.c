/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that succeeds or ends the command. */
#include "memory.h"

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

char *must_vprintf(const char *format, va_list args) {
    char *text = NULL;
    return must(vasprintf(&text, format, args) < 0 ? NULL : text);
}

char *must_printf(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = must_vprintf(format, args);
    va_end(args);
    return text;
}

char *must_append(char *list, const char *between, const char *more) {
    char *longer = must_printf("%s%s%s", list, *list != '\0' ? between : "", more);
    free(list);
    return longer;
}
