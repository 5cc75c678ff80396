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
    int columns;          /* width of lines; 0: unlimited */
    size_t value_columns; /* width of values in a table */
    FILE *to;             /* for text and tables: stdout, or a frame of pawl top */
    json json;            /* the outermost object is open from the start */
    progress progress;
    pawl_error *err; /* for all calls of the library */
    pawl_log log;    /* warnings, to stderr */
};

/* For opening what is read: its warnings go to `out`, too. */
pawl_open_options output_open_options(const output *out);

/* `full`: lines of any length. Otherwise they fit the terminal, or, where stdout is none,
 * COLUMNS if that is set. `out` must not be moved afterwards. */
void output_begin(output *out, bool as_json, bool no_progress, bool full);

void output_styled(const output *out, style s, const char *text);
/* A sentence, escaped and wrapped. */
void output_line(const output *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "label      value": a line above a table. The value is escaped; a long one is wrapped, or in a
 * frame of pawl top shortened. */
void output_field(const output *out, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void output_field_styled(const output *out, const char *label, style s, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Prints out->err as the reason why the verb fails; returns the exit code. */
int output_fail(output *out);
/* Prints what is wrong with the command line, and which --help to read. */
int output_usage(output *out, const char *verb, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints nothing at all, not even JSON, because another rank does. Call it before anything else. */
void output_withhold(output *out);

/* Closes the JSON object and stdout. Returns `exit_code`, or EXIT_FAILED if the result could not be
 * written; if a signal was caught (signals.h) the process ends by it. */
int output_end(output *out, int exit_code);

#endif
