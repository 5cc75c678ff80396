/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, text made harmless, numbers for people, checked sums, and how much two names differ. */
#include "common/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIKENESS_BYTES 256

static bool is_continuation(char c) {
    return ((unsigned char)c & 0xc0U) == 0x80U;
}

static size_t sequence_length(unsigned char first) {
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        return 2;
    }
    if (first >= 0xe0 && first <= 0xef) {
        return 3;
    }
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* Overlong forms, surrogates and what lies beyond U+10FFFF all show in the second byte. */
static bool second_byte_fits(unsigned char first, unsigned char second) {
    switch (first) {
    case 0xe0:
        return second >= 0xa0;
    case 0xed:
        return second <= 0x9f;
    case 0xf0:
        return second >= 0x90;
    case 0xf4:
        return second <= 0x8f;
    default:
        return true;
    }
}

size_t utf8_character(const char *text, size_t n) {
    if (n == 0) {
        return 0;
    }
    size_t length = sequence_length((unsigned char)text[0]);
    if (length == 0 || length > n) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(text[i])) {
            return 0;
        }
    }
    if (length > 1 && !second_byte_fits((unsigned char)text[0], (unsigned char)text[1])) {
        return 0;
    }
    return length;
}

bool utf8_valid(const char *text, size_t n) {
    size_t at = 0;
    while (at < n) {
        size_t length = utf8_character(text + at, n - at);
        if (length == 0) {
            return false;
        }
        at += length;
    }
    return true;
}

uint32_t utf8_code(const char *text, size_t length) {
    unsigned char first = (unsigned char)text[0];
    uint32_t code = length == 1 ? first : first & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | ((unsigned char)text[i] & 0x3fU);
    }
    return code;
}

bool utf8_acts(const char *text, size_t length) {
    if (length > 3) {
        return false;
    }
    uint32_t c = utf8_code(text, length);
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t text_shown_character(char out[SHOWN_CHARACTER_BYTES], const char *text, size_t n,
                            size_t *taken) {
    size_t length = utf8_character(text, n);
    if (length == 0 || utf8_acts(text, length)) {
        *taken = 1; /* what follows of the character is no UTF-8 then */
        return (size_t)snprintf(out, SHOWN_CHARACTER_BYTES, "\\x%02x", (unsigned char)text[0]);
    }
    *taken = length;
    memcpy(out, text, length);
    return length;
}

const char *text_shown(char *out, size_t size, const char *text) {
    size_t n = strlen(text);
    size_t used = 0;
    for (size_t at = 0, taken = 0; at < n; at += taken) {
        char character[SHOWN_CHARACTER_BYTES];
        size_t length = text_shown_character(character, text + at, n - at, &taken);
        if (used + length >= size) {
            out[used] = '\0';
            text_cut(out, size);
            return out;
        }
        memcpy(out + used, character, length);
        used += length;
    }
    out[used] = '\0';
    return out;
}

void text_cut(char *text, size_t size) {
    if (size < 4) {
        return;
    }
    size_t end = size - 4;
    /* At most three bytes: text that is not UTF-8 could lead back to its beginning. */
    for (int back = 0; back < 3 && end > 0 && is_continuation(text[end]); back++) {
        end--;
    }
    memcpy(text + end, "...", 4);
}

void text_format(char *out, size_t size, const char *format, va_list arguments) {
    int n = vsnprintf(out, size, format, arguments);
    if (n < 0) {
        out[0] = '\0';
    } else if ((size_t)n >= size) {
        text_cut(out, size);
    }
}

size_t json_character(char out[JSON_CHARACTER_BYTES], const char *text, size_t n, size_t *taken) {
    size_t length = utf8_character(text, n);
    unsigned char c = (unsigned char)text[0];
    *taken = length > 0 ? length : 1;
    if (length == 0) {
        memcpy(out, "\xef\xbf\xbd", 3);
        return 3;
    }
    if (c == '"' || c == '\\') {
        out[0] = '\\';
        out[1] = (char)c;
        return 2;
    }
    if (utf8_acts(text, length)) {
        return (size_t)snprintf(out, JSON_CHARACTER_BYTES, "\\u%04x",
                                (unsigned)utf8_code(text, length));
    }
    memcpy(out, text, length);
    return length;
}

size_t text_decimal(char out[DECIMAL_DIGITS], uint64_t v) {
    char backwards[DECIMAL_DIGITS];
    size_t n = 0;
    do {
        backwards[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    for (size_t i = 0; i < n; i++) {
        out[i] = backwards[n - 1 - i];
    }
    return n;
}

/* Puts '.' in the place of the locale's decimal point, which may have several bytes: all between
 * the digits before it and the digits or the 'e' after it. */
static void put_point(char *number) {
    char *point = number + strspn(number, "-0123456789");
    size_t bytes = strcspn(point, "0123456789e");
    if (bytes > 0) {
        *point = '.';
        memmove(point + 1, point + bytes, strlen(point + bytes) + 1);
    }
}

const char *text_double(char out[DOUBLE_CHARS], double v) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, DOUBLE_CHARS, "%.*g", digits, v);
        if (strtod(out, NULL) == v) {
            break;
        }
    }
    if (isfinite(v)) {
        put_point(out);
    }
    return out;
}

const char *text_single(char out[DOUBLE_CHARS], float v) {
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(out, DOUBLE_CHARS, "%.*g", digits, (double)v);
        if (strtof(out, NULL) == v) {
            break;
        }
    }
    if (isfinite(v)) {
        put_point(out);
    }
    return out;
}

static uint64_t round_to(uint64_t bytes, uint64_t step) {
    return bytes / step + (bytes % step >= step - step / 2);
}

/* In integers: the locale of the process has no say in the point. */
const char *text_bytes(char out[TEXT_BYTES_SIZE], uint64_t bytes) {
    static const char prefixes[] = "kMGTPE";
    if (bytes < 1000) {
        snprintf(out, TEXT_BYTES_SIZE, "%u B", (unsigned)bytes);
        return out;
    }
    size_t i = 0;
    uint64_t unit = 1000;
    for (; round_to(bytes, unit) >= 1000; i++) { /* 999.5 would be shown as 1000 */
        unit *= 1000;
    }
    unsigned hundredths = (unsigned)round_to(bytes, unit / 100);
    unsigned tenths = (unsigned)round_to(bytes, unit / 10);
    if (hundredths < 1000) {
        snprintf(out, TEXT_BYTES_SIZE, "%u.%02u %cB", hundredths / 100, hundredths % 100,
                 prefixes[i]);
    } else if (tenths < 1000) {
        snprintf(out, TEXT_BYTES_SIZE, "%u.%u %cB", tenths / 10, tenths % 10, prefixes[i]);
    } else {
        snprintf(out, TEXT_BYTES_SIZE, "%u %cB", (unsigned)round_to(bytes, unit), prefixes[i]);
    }
    return out;
}

static void text_long_time(char out[32], uint64_t seconds) {
    unsigned long long minutes = seconds / 60;
    unsigned long long hours = minutes / 60;
    if (hours >= 24) {
        snprintf(out, 32, "%llu d %llu h", hours / 24, hours % 24);
    } else if (hours > 0) {
        snprintf(out, 32, "%llu h %llu min", hours, minutes % 60);
    } else {
        snprintf(out, 32, "%llu min %llu s", minutes, (unsigned long long)(seconds % 60));
    }
}

const char *text_seconds(char out[32], double seconds) {
    if (isnan(seconds) || seconds > 1e15) {
        snprintf(out, 32, "an unlimited time");
    } else if (seconds <= 0) {
        snprintf(out, 32, "0 s");
    } else if (seconds < 0.0995) {
        snprintf(out, 32, seconds < 0.0009995 ? "under 1 ms" : "%.0f ms", seconds * 1e3);
    } else if (seconds < 9.95) {
        snprintf(out, 32, "%.1f s", seconds);
    } else if (seconds < 59.5) {
        snprintf(out, 32, "%.0f s", seconds);
    } else {
        text_long_time(out, (uint64_t)(seconds + 0.5));
    }
    return out;
}

bool add_overflows(uint64_t a, uint64_t b, uint64_t *sum) {
    return __builtin_add_overflow(a, b, sum);
}

bool multiply_overflows(uint64_t a, uint64_t b, uint64_t *product) {
    return __builtin_mul_overflow(a, b, product);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Levenshtein's distance, one row at a time. */
static size_t edit_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    size_t row[LIKENESS_BYTES + 1];
    for (size_t j = 0; j <= b_bytes; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_bytes; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = least(changed, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_bytes];
}

size_t text_distance(const char *a, const char *b) {
    return edit_distance(a, strnlen(a, LIKENESS_BYTES), b, strnlen(b, LIKENESS_BYTES));
}

double text_likeness(const char *a, const char *b) {
    size_t a_bytes = strnlen(a, LIKENESS_BYTES);
    size_t b_bytes = strnlen(b, LIKENESS_BYTES);
    size_t longer = a_bytes > b_bytes ? a_bytes : b_bytes;
    if (longer == 0) {
        return 1.0;
    }
    return 1.0 - (double)edit_distance(a, a_bytes, b, b_bytes) / (double)longer;
}

const char *text_noun(uint64_t n, const char *one, const char *many) {
    return n == 1 ? one : many;
}

bool text_equal(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}
