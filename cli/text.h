/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people, beside what common/text.h has: times, counts, shapes, and making foreign text
 * harmless. Functions that return char * allocate it; the caller frees.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_SIZE 64 /* of the arrays that are written to below */

/* Reads digits, exact up to INT64_MAX; no sign, no blanks. False for anything else. */
bool text_parse_int(const char *text, int64_t *value);
/* Reads "1000", "40GB", "1.5 TB", "512MiB", up to INT64_MAX; without a point, exactly. False
 * when it is no size. */
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

/*
 * Text from outside made harmless: bytes of characters that act, and bytes that are no UTF-8,
 * become \xNN. `keep_lines` leaves newlines alone.
 */
char *text_safe(const char *text, size_t n, bool keep_lines);

/* ---- columns: columns.c; of harmless text --------------------------------------------------- */

/* Takes the widths of characters from the locale, and what stands for what was cut: "\u2026" where
 * it has that. Until then that is "...", and a character beyond ASCII may be taken for too wide. */
void text_begin_columns(void);
/* Columns that UTF-8 text takes: two for wide characters, none for those that combine. */
size_t text_columns(const char *text);
/* The text in at most `columns` columns, what is too much of it taken out of its middle; never
 * within a character and what combines with it. */
char *text_shorten(const char *text, size_t columns);
/* Prints paragraphs (separated by '\n') with lines of at most `columns`, each after `indent`
 * blanks; a longer word is shortened. The first line goes on where the caller stopped printing.
 * Ends with a newline. */
void text_wrap(FILE *to, const char *text, int indent, int columns);
/* Prints lines as they are, but broken where they would pass `columns`. */
void text_fold(FILE *to, const char *text, int columns);

/* The word of the list (ended by NULL) that `word` was probably meant to be; or NULL. */
const char *text_nearest(const char *word, const char *const *words);

#endif
