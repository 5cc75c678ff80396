/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a verb's results go: tables or one JSON object on stdout, failures as text on stderr or as
 * the member "error" of that object.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "json.h"
#include "progress.h"
#include "table.h"

#include <pawl/pawl.h>

struct output {
    bool as_json;
    bool colour;
    int columns;          /* that lines may take; 0: any number */
    size_t value_columns; /* that a value may take in a table */
    FILE *to;             /* of text and tables: stdout, or a frame for the screen */
    json json;            /* its outermost object is open from the start */
    progress progress;
    pawl_error *err; /* for every call of a verb */
    pawl_log log;    /* warnings, to stderr */
};

/*
 * `no_progress` and `as_json` as asked for; `full`: lines of any length. Otherwise they fit the
 * terminal; where stdout is none, COLUMNS where that is set. `out` must stay where it is.
 */
void output_begin(output *out, bool as_json, bool no_progress, bool full);

void output_styled(const output *out, style s, const char *text);
/* A sentence, made harmless, in as many lines as it takes. */
void output_line(const output *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "label      value": a line above a table; label and value are made harmless. What is too long
 * goes on below; in a frame for the screen it loses its middle. */
void output_field(const output *out, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void output_field_styled(const output *out, const char *label, style s, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Reports out->err as the reason why the verb ends; returns the exit code. */
int output_fail(output *out);
/* Reports a wrong command line: what is wrong, and whom to ask. */
int output_usage(output *out, const char *verb, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Nothing at all is printed: someone else has said it. Before anything was. */
void output_withhold(output *out);

/* Closes the JSON object and stdout. What could not be written makes a failure of any code; a
 * signal that was noted (signals.h) ends the process. */
int output_end(output *out, int exit_code);

#endif
