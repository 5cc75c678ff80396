/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes what a terminal would act on. */
#include "memory.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

static bool is_continuation(unsigned char byte) {
    return (byte & 0xC0) == 0x80;
}

size_t text_character(const char *from, size_t n, uint32_t *character) {
    const unsigned char *text = (const unsigned char *)from;
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = text[0] < 0x80             ? 1
                    : (text[0] & 0xE0) == 0xC0 ? 2
                    : (text[0] & 0xF0) == 0xE0 ? 3
                    : (text[0] & 0xF8) == 0xF0 ? 4
                                               : 0;
    if (length == 0 || length > n) {
        return 0;
    }
    uint32_t value = length == 1 ? text[0] : text[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(text[i])) {
            return 0;
        }
        value = value << 6 | (text[i] & 0x3Fu);
    }
    *character = value;
    bool surrogate = value >= 0xD800 && value <= 0xDFFF;
    return value < smallest[length] || value > 0x10FFFF || surrogate ? 0 : length;
}

bool text_acts(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

char *text_safe(const char *text, size_t n, bool keep_lines) {
    static const char digits[] = "0123456789abcdef";
    char *out = must_alloc(n * 4 + 1); /* "\xNN" for a byte */
    char *to = out;
    for (size_t i = 0; i < n;) {
        uint32_t character = 0;
        size_t length = text_character(text + i, n - i, &character);
        bool harmless = length > 0 && (!text_acts(character) || (keep_lines && character == '\n'));
        for (size_t k = 0; k < (length > 0 ? length : 1); k++, i++) {
            if (harmless) {
                *to++ = text[i];
            } else {
                *to++ = '\\';
                *to++ = 'x';
                *to++ = digits[(unsigned char)text[i] >> 4];
                *to++ = digits[(unsigned char)text[i] & 0xF];
            }
        }
    }
    return out;
}
