/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned columns for people. Rows are kept until a window of them is full, then printed with
 * columns as wide as the widest cell so far: memory stays bounded, and what fits a window is
 * aligned. On a terminal no row is wider than that: columns give in their turns, and then leave.
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
    int gives;  /* in which turn it is shortened where a terminal lacks room; 0: it is not */
    int least;  /* columns that it keeps as long as another can leave; 0: a few */
    int leaves; /* in which turn it is left out where that is not enough; 0: it stays */
} column;

typedef struct table table;

/* `columns` must outlive the table. */
table *table_new(output *out, const column *columns, size_t count);
/* The next cell of the row; its text is made harmless. */
void table_cell(table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_styled(table *t, style s, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Ends the row; cells that were not given stay empty. */
void table_row(table *t);
/* Prints what is left, says which columns were left out, and frees. */
void table_end(table *t);
/* The same, but says nothing of columns: for a command that has no option to show them. */
void table_end_silently(table *t);

#endif
