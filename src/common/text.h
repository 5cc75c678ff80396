/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common: what the library and the command both need and neither exports. Each links a copy of its
 * own, with hidden symbols. Nothing here knows struct pawl_error.
 *
 * common/text: UTF-8, text made harmless, numbers for people, checked sums, likeness of names.
 */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool utf8_valid(const char *text, size_t n);
/* Bytes of the character that begins `text`, 1 to 4; 0 when it is not UTF-8 or is cut by n. */
size_t utf8_character(const char *text, size_t n);
/* The number of the character of `length` bytes that begins `text`. */
uint32_t utf8_code(const char *text, size_t length);
/* Does a terminal act on the character of `length` bytes that begins `text`, or does it end a line
 * or reorder one? C0, DEL, C1, the separators U+2028 and U+2029, the marks and overrides of
 * direction. */
bool utf8_acts(const char *text, size_t length);
/* Makes text that filled its array of `size` bytes end in "...", cut at a character boundary. */
void text_cut(char *text, size_t size);
/* Makes text from anywhere harmless, and one line: each byte of a character that acts on a
 * terminal, and each that is not UTF-8, becomes "\xNN". Cut as by text_cut; returns `out`, which
 * may not be `text`. */
const char *text_shown(char *out, size_t size, const char *text);
/* The same for one character (n > 0). Returns the bytes written, and sets how many were read. */
#define SHOWN_CHARACTER_BYTES 5
size_t text_shown_character(char out[SHOWN_CHARACTER_BYTES], const char *text, size_t n,
                            size_t *taken);
/* The form within a JSON string of the character that begins `text` (n > 0): characters that act
 * are escaped, what is no UTF-8 becomes U+FFFD. Returns the bytes put out, sets those taken in. */
#define JSON_CHARACTER_BYTES 8
size_t json_character(char out[JSON_CHARACTER_BYTES], const char *text, size_t n, size_t *taken);
/* vsnprintf, then text_cut where it did not fit. */
void text_format(char *out, size_t size, const char *format, va_list arguments);
/* "999 B", "1.02 kB", "41.2 GB": decimal units, three digits. Returns out. */
#define TEXT_BYTES_SIZE 32
const char *text_bytes(char out[TEXT_BYTES_SIZE], uint64_t bytes);
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
/* The same of a number of 32 bits: few digits do. */
const char *text_single(char out[DOUBLE_CHARS], float v);
/* Are they the same text, or both NULL? */
bool text_equal(const char *a, const char *b);
/* Which of the two words stands behind so many: "1 entry", "0 entries". */
const char *text_noun(uint64_t n, const char *one, const char *many);
/* Likeness of two names, 0 to 1 (for near misses and renames); bounded: names over 256 bytes are
 * compared by their first 256. */
double text_likeness(const char *a, const char *b);
/* How many bytes must be changed, put in or taken out to make one of the other (Levenshtein), of
 * the first 256 bytes of both. */
size_t text_distance(const char *a, const char *b);

#endif
