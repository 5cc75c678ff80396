/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people, beside what common/text.h has: times, counts, shapes; escaping; terminal
 * columns. What is returned as char * is allocated, and freed by the caller.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_SIZE 64 /* of the `out` arrays below */

/* Parses digits up to INT64_MAX; no sign, no blanks. False for anything else. */
bool text_parse_int(const char *text, int64_t *value);
/* Parses "1000", "40GB", "1.5 TB" or "512MiB", up to INT64_MAX; exact without a decimal point.
 * False for anything else. */
bool text_parse_bytes(const char *text, uint64_t *bytes);

/* "2026-11-21 08:30:12" in the local time zone; "-" for 0. Returns out. */
const char *text_time_local(char out[TEXT_SIZE], int64_t unix_time_ns);
/* "2026-11-21T08:30:12.123456789Z". Returns out. */
const char *text_time_utc(char out[TEXT_SIZE], int64_t unix_time_ns);

/* "0 ms", "0.42 ms", "431 ms", "4.31 s", "3 min 20 s", "2 h 5 min". Returns out. */
const char *text_duration(char out[TEXT_SIZE], double seconds);

/* "1 file", "3 files". Returns out. */
const char *text_count(char out[TEXT_SIZE], uint64_t n, const char *one, const char *many);

/* "[64, 10]" */
char *text_shape(int ndim, const int64_t *shape);

/* Escapes characters that a terminal acts on (utf8_acts), and bytes that are not UTF-8, as \xNN per
 * byte. `keep_lines`: newlines stay. */
char *text_safe(const char *text, size_t n, bool keep_lines);

/* ---- terminal columns; for text that was escaped -------------------------------------------- */

/* Takes the widths of characters from the locale, and shortens with "\u2026" if the locale has it.
 * Before, characters beyond ASCII may count as wider than they are, and "..." is used. */
void text_begin_columns(void);
/* The columns that UTF-8 text takes: two for wide characters, none for combining ones. */
size_t text_columns(const char *text);
/* The text shortened in its middle to at most `columns`. Combining characters stay with theirs. */
char *text_shorten(const char *text, size_t columns);
/* Prints paragraphs (separated by '\n') in lines of at most `columns`, indented by `indent`
 * blanks except for the first, whose indent the caller has printed. Longer words are shortened.
 * Ends with a newline. */
void text_wrap(FILE *to, const char *text, int indent, int columns);
/* Prints lines, breaking those that are longer than `columns`. */
void text_fold(FILE *to, const char *text, int columns);

/* Which word of the list (it ends with NULL) was probably meant by `word`; or NULL. */
const char *text_nearest(const char *word, const char *const *words);

#endif
