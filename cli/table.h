/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned columns for people. Rows are collected until a window of 1024 is full, then printed with
 * columns as wide as the widest cell so far: memory stays bounded, and up to 1024 rows are aligned
 * perfectly. No row is wider than the terminal: columns are shortened, then left out.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct output output;

typedef enum style { STYLE_PLAIN = 0, STYLE_HEADING, STYLE_GOOD, STYLE_WARNING, STYLE_BAD } style;

typedef struct column {
    const char *title; /* NULL in every column: no heading */
    bool right;
    /* Where a row is wider than the terminal, columns are first shortened in their turns, 1 first,
     * then left out in theirs; 0: never. */
    int shorten_turn, omit_turn;
    int keeps; /* width that it is shortened to while another can be left out; 0: the usual 12 */
} column;

typedef struct table table;

/* `columns` must outlive the table. */
table *table_new(output *out, const column *columns, size_t count);
/* The next cell of the row; escaped by text_safe. */
void table_cell(table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_styled(table *t, style s, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Ends the row; missing cells are empty. */
void table_row(table *t);
/* Prints the last rows, names the columns that were left out, and frees the table. */
void table_end(table *t);
/* The same without naming columns: for a verb without --full. */
void table_end_silently(table *t);

#endif
