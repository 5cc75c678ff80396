/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes what a terminal would act on. */
#include "memory.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

char *text_safe(const char *text, size_t n, bool keep_lines) {
    char *out = must_alloc(n * 4 + 1); /* "\xNN" for a byte */
    char *to = out;
    for (size_t i = 0, taken = 1; i < n; i += taken) {
        if (keep_lines && text[i] == '\n') {
            *to++ = '\n';
            taken = 1;
        } else {
            char shown[SHOWN_CHARACTER_BYTES];
            size_t length = text_shown_character(shown, text + i, n - i, &taken);
            memcpy(to, shown, length);
            to += length;
        }
    }
    return out;
}
