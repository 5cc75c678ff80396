/* SPDX-License-Identifier: Apache-2.0 */
/* Where results and failures go. */
#include "output.h"
#include "cli.h"
#include "memory.h"
#include "signals.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LABEL_COLUMNS = 10,
    DEFAULT_COLUMNS = 80,
    MOST_COLUMNS = 10000,
    SHORT_VALUE = 40,
    FULL_VALUE = 1000
};

/* The environment variable COLUMNS; 0: not set, or not a sensible number. */
static int asked_columns(void) {
    const char *text = getenv("COLUMNS");
    int64_t columns = 0;
    bool some = text != NULL && text_parse_int(text, &columns) && columns <= MOST_COLUMNS;
    return some ? (int)columns : 0;
}

static int output_columns(void) {
    int columns = isatty(STDOUT_FILENO) ? terminal_columns(STDOUT_FILENO) : 0;
    if (columns == 0) {
        columns = asked_columns();
    }
    return columns == 0 && isatty(STDOUT_FILENO) ? DEFAULT_COLUMNS : columns;
}

static bool colour_wanted(void) {
    const char *no_color = getenv("NO_COLOR");
    return (no_color == NULL || *no_color == '\0') && terminal_understands_escapes();
}

/* To stderr, after "pawl: ", escaped. */
static void print_to_stderr(output *out, const char *kind, const char *text) {
    char *safe = text_safe(text, strlen(text), true);
    progress_hide(&out->progress);
    (void)fflush(stdout);
    fprintf(stderr, "pawl: %s%s\n", kind, safe);
    free(safe);
}

static void write_log(void *context, pawl_log_level level, const char *text) {
    output *out = context;
    if (level <= PAWL_LOG_WARN) {
        print_to_stderr(out, level == PAWL_LOG_ERROR ? "error: " : "warning: ", text);
    }
}

pawl_open_options output_open_options(const output *out) {
    return (pawl_open_options){.struct_size = sizeof(pawl_open_options), .log = &out->log};
}

void output_begin(output *out, bool as_json, bool no_progress, bool full) {
    *out = (output){.as_json = as_json, .colour = colour_wanted()};
    out->columns = full ? 0 : output_columns();
    out->value_columns = full ? FULL_VALUE : SHORT_VALUE;
    if (out->columns > 2 * SHORT_VALUE) {
        out->value_columns = (size_t)out->columns / 2;
    }
    if (out->columns > 0) {
        text_begin_columns();
    }
    out->err = pawl_error_new();
    out->log = (pawl_log){
        .struct_size = sizeof out->log, .write = write_log, .context = out, .level = PAWL_LOG_WARN};
    out->progress.wanted = !no_progress && isatty(STDERR_FILENO);
    out->to = stdout;
    out->json.file = stdout;
    if (as_json) {
        json_begin_object(&out->json, NULL, JSON_LINES);
    }
}

void output_styled(const output *out, style s, const char *text) {
    static const char *const codes[] = {
        [STYLE_PLAIN] = "",           [STYLE_HEADING] = "\033[1m", [STYLE_GOOD] = "\033[32m",
        [STYLE_WARNING] = "\033[33m", [STYLE_BAD] = "\033[31m",
    };
    bool coloured = out->colour && s != STYLE_PLAIN && *text != '\0';
    if (!coloured) {
        fputs(text, out->to);
        return;
    }
    fprintf(out->to, "%s%s\033[0m", codes[s], text);
}

void output_line(const output *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *raw = must_vprintf(format, args);
    va_end(args);
    char *safe = text_safe(raw, strlen(raw), false);
    if (out->columns > 0) {
        text_wrap(out->to, safe, 0, out->columns);
    } else {
        fprintf(out->to, "%s\n", safe);
    }
    free(safe);
    free(raw);
}

/* What text_wrap prints, without the last newline. */
static char *wrapped_text(const char *text, int indent, int columns) {
    char *lines = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&lines, &length);
    if (to == NULL) {
        return must_strdup(text);
    }
    text_wrap(to, text, indent, columns);
    if (fclose(to) != 0 || length == 0) {
        free(lines);
        return must_strdup(text);
    }
    lines[length - 1] = '\0';
    return lines;
}

static void put_field(const output *out, const char *label, style s, const char *format,
                      va_list args) {
    char *raw = must_vprintf(format, args);
    char *safe = text_safe(raw, strlen(raw), false);
    int indent = LABEL_COLUMNS + 2;
    bool fits = out->columns <= indent || text_columns(safe) <= (size_t)(out->columns - indent);
    int pad = LABEL_COLUMNS - (int)strlen(label);
    output_styled(out, STYLE_HEADING, label);
    fprintf(out->to, "%*s  ", pad > 0 ? pad : 0, "");
    char *shown = fits                ? must_strdup(safe)
                  : out->to == stdout ? wrapped_text(safe, indent, out->columns)
                                      : text_shorten(safe, (size_t)(out->columns - indent));
    output_styled(out, s, shown);
    fputc('\n', out->to);
    free(shown);
    free(safe);
    free(raw);
}

void output_field(const output *out, const char *label, const char *format, ...) {
    va_list args;
    va_start(args, format);
    put_field(out, label, STYLE_PLAIN, format, args);
    va_end(args);
}

void output_field_styled(const output *out, const char *label, style s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    put_field(out, label, s, format, args);
    va_end(args);
}

static int exit_code_of(pawl_status status) {
    switch (status) {
    case PAWL_OK:
        return EXIT_DONE;
    case PAWL_EUSAGE:
        return EXIT_USAGE;
    case PAWL_ENOTFOUND:
        return EXIT_NOT_FOUND;
    case PAWL_EMISMATCH:
    case PAWL_EDAMAGED:
        return EXIT_DIFFERENT;
    case PAWL_EBUSY:
    case PAWL_ETIMEOUT:
        return EXIT_TRY_AGAIN;
    default:
        return EXIT_FAILED;
    }
}

int output_fail(output *out) {
    if (signals_caught()) {
        return EXIT_FAILED; /* no message: output_end ends the process by the signal */
    }
    if (out->err == NULL) {
        print_to_stderr(out, "", "out of memory");
        return EXIT_FAILED;
    }
    if (out->as_json) {
        json_close_to(&out->json, 1);
        json_put_raw(&out->json, "error", pawl_error_json(out->err));
    } else {
        print_to_stderr(out, "", pawl_error_text(out->err));
    }
    return exit_code_of(pawl_error_status(out->err));
}

/* A failure that the command found, not the library. */
static int fail_with(output *out, pawl_status status, const char *attempt, const char *next) {
    if (out->as_json) {
        json_close_to(&out->json, 1);
        json_begin_object(&out->json, "error", JSON_INLINE);
        json_put_text(&out->json, "status", pawl_status_name(status));
        json_put_text(&out->json, "attempt", attempt);
        json_put_text(&out->json, "next", next);
        json_close(&out->json);
    } else {
        SCOPED(scoped_free) char *line = text_safe(attempt, strlen(attempt), false);
        SCOPED(scoped_free) char *text = must_printf("%s\n  next:     %s", line, next);
        print_to_stderr(out, "", text);
    }
    return exit_code_of(status);
}

int output_usage(output *out, const char *verb, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = must_vprintf(format, args);
    va_end(args);
    char *attempt = must_printf("%s%s%s", verb != NULL ? verb : "", verb != NULL ? ": " : "", text);
    char *next = must_printf("pawl %s%s--help", verb != NULL ? verb : "", verb != NULL ? " " : "");
    fail_with(out, PAWL_EUSAGE, attempt, next);
    free(next);
    free(attempt);
    free(text);
    return EXIT_USAGE;
}

void output_withhold(output *out) {
    __fpurge(stdout); /* drops the opening brace of JSON */
    out->json.depth = 0;
}

int output_end(output *out, int exit_code) {
    progress_hide(&out->progress);
    json_close_to(&out->json, 0);
    pawl_error_free(out->err);
    out->err = NULL;
    errno = 0;
    bool lost = ferror(stdout) != 0;
    lost = fclose(stdout) != 0 || lost;
    signals_end_by_caught();
    if (lost) {
        fprintf(stderr, "pawl: cannot write the result to standard output: %s\n",
                errno != 0 ? strerror(errno) : "an earlier write failed");
        return EXIT_FAILED; /* whatever the result was, nobody can read it */
    }
    return exit_code;
}
