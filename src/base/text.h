/* SPDX-License-Identifier: Apache-2.0 */
/* base/text: UTF-8, cut and harmless text, numbers for people, checked sums, likeness and validity
 * of names. Part of base.h. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool utf8_valid(const char *text, size_t n);
/* Bytes of the character that begins `text`, 1 to 4; 0 when it is not UTF-8 or is cut by n. */
size_t utf8_character(const char *text, size_t n);
/* Does a terminal act on the character of `length` bytes that begins `text`, or does it end a line
 * or reorder one? C0, DEL, C1, the separators U+2028 and U+2029, the marks and overrides of
 * direction. */
bool utf8_acts(const char *text, size_t length);
/* Makes text that filled its array of `size` bytes end in "...", cut at a character boundary. */
void text_cut(char *text, size_t size);
/* Text from anywhere as a part of one line: of characters that act, and of what is no UTF-8, each
 * byte becomes "\xNN". Cut as text_cut has it; returns `out`, which may not be `text`. */
const char *text_shown(char *out, size_t size, const char *text);
/* The same of one character (n > 0). Returns the bytes put out and sets those taken in. */
#define SHOWN_CHARACTER_BYTES 5
size_t text_shown_character(char out[SHOWN_CHARACTER_BYTES], const char *text, size_t n,
                            size_t *taken);
/* The form within a JSON string of the character that begins `text` (n > 0): characters that act
 * are escaped, what is no UTF-8 becomes U+FFFD. Returns the bytes put out, sets those taken in. */
#define JSON_CHARACTER_BYTES 8
size_t json_character(char out[JSON_CHARACTER_BYTES], const char *text, size_t n, size_t *taken);
/* vsnprintf, then text_cut where it did not fit. */
void text_format(char *out, size_t size, const char *format, va_list arguments);
/* "41.2 GB", decimal units as df -H; "704 bytes" below 1000. */
const char *text_bytes(char out[32], uint64_t bytes);
/* "3 min 20 s", "0.8 s". */
const char *text_seconds(char out[32], double seconds);
bool add_overflows(uint64_t a, uint64_t b, uint64_t *sum);
bool multiply_overflows(uint64_t a, uint64_t b, uint64_t *product);
/* The digits of v, without a NUL; returns how many. */
#define DECIMAL_DIGITS 20
size_t text_decimal(char out[DECIMAL_DIGITS], uint64_t v);
/* The shortest text that reads back as the same number, with a point whatever the locale; what is
 * not finite as printf has it. */
#define DOUBLE_CHARS 48
const char *text_double(char out[DOUBLE_CHARS], double v);
/* Likeness of two names, 0 to 1 (for near misses and renames); bounded: names over 256 bytes are
 * compared by their first 256. */
double text_likeness(const char *a, const char *b);

/* The names that entries may have (S15): UTF-8 paths, no empty, "." or ".." component, no leading
 * '/', no control characters, at most PAWL_MAX_NAME_BYTES. `why` (may be NULL) gets a static
 * reason. */
bool entry_name_valid(const char *name, size_t n, const char **why);

#endif
