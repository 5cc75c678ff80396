/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned columns, a window of rows at a time. */
#include "table.h"
#include "memory.h"
#include "output.h"
#include "text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_ROWS = 1024, GAP_COLUMNS = 2, LEAST_COLUMNS = 24 };

typedef struct cell {
    char *text; /* NULL: empty */
    style style;
} cell;

struct table {
    output *out;
    const column *columns;
    size_t count;
    size_t *widths;
    cell *cells; /* WINDOW_ROWS rows of count cells */
    size_t rows, cells_in_row;
    bool headed;
};

table *table_new(output *out, const column *columns, size_t count) {
    table *t = must_alloc(sizeof *t);
    t->out = out;
    t->columns = columns;
    t->count = count;
    t->widths = must_alloc(count * sizeof *t->widths);
    t->cells = must_alloc(count * WINDOW_ROWS * sizeof *t->cells);
    for (size_t i = 0; i < count; i++) {
        t->widths[i] = columns[i].title != NULL ? text_columns(columns[i].title) : 0;
    }
    return t;
}

static void add_cell(table *t, style s, const char *format, va_list args) {
    char *raw = NULL;
    assert(t->cells_in_row < t->count);
    if (vasprintf(&raw, format, args) < 0) {
        raw = must_strdup("");
    }
    cell *c = &t->cells[t->rows * t->count + t->cells_in_row++];
    c->text = text_safe(raw, strlen(raw), false);
    c->style = s;
    free(raw);
}

void table_cell(table *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_cell(t, STYLE_PLAIN, format, args);
    va_end(args);
}

void table_styled(table *t, style s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_cell(t, s, format, args);
    va_end(args);
}

/* The last column is as wide as each cell of it. */
static void measure(table *t) {
    for (size_t i = 0; i < t->rows * t->count; i++) {
        size_t width = t->cells[i].text != NULL ? text_columns(t->cells[i].text) : 0;
        if (width > t->widths[i % t->count]) {
            t->widths[i % t->count] = width;
        }
    }
}

/* Takes from the columns that give what the terminal lacks. */
static void fit(table *t) {
    if (t->out->columns <= 0) {
        return;
    }
    size_t whole = 0;
    for (size_t i = 0; i < t->count; i++) {
        whole += t->widths[i] + GAP_COLUMNS;
    }
    size_t room = (size_t)t->out->columns + GAP_COLUMNS;
    for (size_t i = 0; i < t->count && whole > room; i++) {
        if (t->columns[i].gives && t->widths[i] > LEAST_COLUMNS) {
            size_t spare = t->widths[i] - LEAST_COLUMNS;
            size_t taken = whole - room < spare ? whole - room : spare;
            t->widths[i] -= taken;
            whole -= taken;
        }
    }
}

static size_t last_filled(const table *t, const cell *row) {
    size_t last = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (row[i].text != NULL && row[i].text[0] != '\0') {
            last = i;
        }
    }
    return last;
}

static void print_blanks(FILE *to, size_t count) {
    static const char blanks[] = "                                ";
    for (; count > sizeof blanks - 1; count -= sizeof blanks - 1) {
        fputs(blanks, to);
    }
    fputs(blanks + sizeof blanks - 1 - count, to);
}

static void print_row(const table *t, const cell *row) {
    FILE *to = t->out->to;
    size_t last = last_filled(t, row);
    for (size_t i = 0; i <= last; i++) {
        const char *text = row[i].text != NULL ? row[i].text : "";
        char *shown = t->columns[i].gives ? text_shorten(text, t->widths[i]) : must_strdup(text);
        size_t width = text_columns(shown);
        size_t pad = width < t->widths[i] ? t->widths[i] - width : 0;
        print_blanks(to, t->columns[i].right ? pad : 0);
        output_styled(t->out, row[i].style, shown);
        print_blanks(to, t->columns[i].right || i == last ? 0 : pad);
        fputs(i < last ? "  " : "\n", to);
        free(shown);
    }
}

static void print_heading(table *t) {
    cell *row = must_alloc(t->count * sizeof *row);
    bool titled = false;
    for (size_t i = 0; i < t->count; i++) {
        row[i].text = t->columns[i].title != NULL ? must_strdup(t->columns[i].title) : NULL;
        row[i].style = STYLE_HEADING;
        titled = titled || row[i].text != NULL;
    }
    if (titled && !t->headed) {
        print_row(t, row);
    }
    t->headed = true;
    for (size_t i = 0; i < t->count; i++) {
        free(row[i].text);
    }
    free(row);
}

static void flush(table *t) {
    if (t->rows == 0) {
        return;
    }
    progress_hide(&t->out->progress);
    measure(t);
    fit(t);
    print_heading(t);
    for (size_t r = 0; r < t->rows; r++) {
        print_row(t, &t->cells[r * t->count]);
    }
    for (size_t i = 0; i < t->rows * t->count; i++) {
        free(t->cells[i].text);
        t->cells[i] = (cell){0};
    }
    t->rows = 0;
}

void table_row(table *t) {
    t->rows++;
    t->cells_in_row = 0;
    if (t->rows == WINDOW_ROWS) {
        flush(t);
    }
}

void table_end(table *t) {
    flush(t);
    free(t->cells);
    free(t->widths);
    free(t);
}
