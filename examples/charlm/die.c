/* SPDX-License-Identifier: Apache-2.0 */
/* die: ends the program with a message. */
#include "die.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

void die(int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("charlm: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(code);
}

void *allocate(size_t count, size_t size) {
    if (size > 0 && count > (SIZE_MAX - ALIGNMENT) / size) {
        die(1, "%zu times %zu bytes is more than an address space holds", count, size);
    }
    size_t bytes = (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *memory = aligned_alloc(ALIGNMENT, bytes > 0 ? bytes : ALIGNMENT);
    if (!memory) {
        die(1, "out of memory: no %zu bytes", bytes);
    }
    return memset(memory, 0, bytes > 0 ? bytes : ALIGNMENT);
}
