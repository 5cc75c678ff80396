/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned columns, printed a window of rows at a time. */
#include "table.h"
#include "memory.h"
#include "output.h"
#include "text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_ROWS = 1024,
    GAP_COLUMNS = 2,
    LEAST_COLUMNS = 12, /* a column is shortened to this while another can be left out, */
    LAST_COLUMNS = 4,   /* and to this when none can */
    LAST_TURN = 8
};

typedef struct cell {
    char *text; /* NULL: empty */
    style style;
} cell;

struct table {
    output *out;
    const column *columns;
    size_t count;
    size_t *widths; /* per column: of the widest cell so far */
    size_t *shown;  /* per column: as printed */
    bool *omitted;
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
    t->shown = must_alloc(count * sizeof *t->shown);
    t->omitted = must_alloc(count * sizeof *t->omitted);
    t->cells = must_alloc(count * WINDOW_ROWS * sizeof *t->cells);
    for (size_t i = 0; i < count; i++) {
        t->widths[i] = columns[i].title != NULL ? text_columns(columns[i].title) : 0;
    }
    return t;
}

static void add_cell(table *t, style s, const char *format, va_list args) {
    assert(t->cells_in_row < t->count);
    char *raw = must_vprintf(format, args);
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

static void measure_cells(table *t) {
    for (size_t i = 0; i < t->rows * t->count; i++) {
        size_t width = t->cells[i].text != NULL ? text_columns(t->cells[i].text) : 0;
        if (width > t->widths[i % t->count]) {
            t->widths[i % t->count] = width;
        }
    }
}

/* The width of a row, with a gap after its last column, too. */
static size_t row_columns(const table *t, const size_t *widths) {
    size_t whole = 0;
    for (size_t i = 0; i < t->count; i++) {
        whole += t->omitted[i] ? 0 : widths[i] + GAP_COLUMNS;
    }
    return whole;
}

/* Takes up to `*excess` from a width, but leaves `least`. */
static void narrow_column(size_t *width, size_t least, size_t *excess) {
    size_t spare = *width > least ? *width - least : 0;
    size_t taken = spare < *excess ? spare : *excess;
    *width -= taken;
    *excess -= taken;
}

static void shorten_in_turn(table *t, int turn, size_t *excess) {
    for (size_t i = 0; i < t->count; i++) {
        const column *c = &t->columns[i];
        if (!t->omitted[i] && c->shorten_turn == turn) {
            narrow_column(&t->shown[i], (size_t)(c->keeps > 0 ? c->keeps : LEAST_COLUMNS), excess);
        }
    }
}

/* Takes one from the widest column that may be shortened; false when there is none. */
static bool shorten_widest(table *t, size_t *excess) {
    size_t widest = t->count;
    for (size_t i = 0; i < t->count; i++) {
        bool may = !t->omitted[i] && t->columns[i].shorten_turn > 0 && t->shown[i] > LAST_COLUMNS;
        if (may && (widest == t->count || t->shown[i] >= t->shown[widest])) {
            widest = i;
        }
    }
    if (widest < t->count) {
        t->shown[widest]--;
        --*excess;
    }
    return widest < t->count;
}

/* Leaves out the next column in turn; false when there is none. */
static bool omit_next(table *t) {
    size_t next = t->count;
    for (size_t i = 0; i < t->count; i++) {
        bool may = !t->omitted[i] && t->columns[i].omit_turn > 0;
        if (may && (next == t->count || t->columns[i].omit_turn < t->columns[next].omit_turn)) {
            next = i;
        }
    }
    if (next < t->count) {
        t->omitted[next] = true;
    }
    return next < t->count;
}

/* Shortens columns in their turns, then leaves some out unless the heading is printed already, then
 * shortens the widest further, and at last any. */
static void fit_columns(table *t) {
    memcpy(t->shown, t->widths, t->count * sizeof *t->shown);
    if (t->out->columns <= 0) {
        return;
    }
    size_t room = (size_t)t->out->columns + GAP_COLUMNS;
    size_t excess = 0;
    do {
        memcpy(t->shown, t->widths, t->count * sizeof *t->shown);
        size_t whole = row_columns(t, t->shown);
        excess = whole > room ? whole - room : 0;
        for (int turn = 1; turn <= LAST_TURN; turn++) {
            shorten_in_turn(t, turn, &excess);
        }
    } while (excess > 0 && !t->headed && omit_next(t));
    while (excess > 0 && shorten_widest(t, &excess)) {
    }
    for (size_t i = t->count; i-- > 0 && excess > 0;) {
        narrow_column(&t->shown[i], t->omitted[i] ? t->shown[i] : 1, &excess);
    }
}

static size_t last_filled(const table *t, const cell *row) {
    size_t last = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (!t->omitted[i] && row[i].text != NULL && row[i].text[0] != '\0') {
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

/* Indented text keeps as much of its indent as leaves LEAST_COLUMNS for the text. */
static char *shorten(const char *text, size_t columns) {
    size_t blanks = strspn(text, " ");
    if (text_columns(text) <= columns) {
        return must_strdup(text);
    }
    size_t most = columns > LEAST_COLUMNS ? columns - LEAST_COLUMNS : 0;
    size_t indent = blanks < most ? blanks : most;
    char *rest = text_shorten(text + blanks, columns - indent);
    char *whole = must_printf("%*s%s", (int)indent, "", rest);
    free(rest);
    return whole;
}

static void print_row(const table *t, const cell *row) {
    FILE *to = t->out->to;
    size_t last = last_filled(t, row);
    for (size_t i = 0; i <= last; i++) {
        if (t->omitted[i]) {
            continue;
        }
        char *shown = shorten(row[i].text != NULL ? row[i].text : "", t->shown[i]);
        size_t width = text_columns(shown);
        size_t pad = width < t->shown[i] ? t->shown[i] - width : 0;
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

static void print_window(table *t) {
    if (t->rows == 0) {
        return;
    }
    progress_hide(&t->out->progress);
    measure_cells(t);
    fit_columns(t);
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
        print_window(t);
    }
}

static void name_omitted_columns(const table *t) {
    char *names = must_strdup("");
    for (size_t i = 0; i < t->count; i++) {
        if (t->omitted[i] && t->columns[i].title != NULL) {
            names = must_append(names, ", ", t->columns[i].title);
        }
    }
    if (*names != '\0') {
        output_line(t->out, "not shown here: %s (see --full)", names);
    }
    free(names);
}

static void table_free(table *t) {
    free(t->cells);
    free(t->widths);
    free(t->shown);
    free(t->omitted);
    free(t);
}

void table_end(table *t) {
    print_window(t);
    name_omitted_columns(t);
    table_free(t);
}

void table_end_silently(table *t) {
    print_window(t);
    table_free(t);
}
