/* SPDX-License-Identifier: Apache-2.0 */
/* Whole texts compared, with places for what differs from run to run. */
#include "failures.h"

#include <ctype.h>

static size_t span(const char *text, const char *of) {
    return strspn(text, of);
}

static size_t span_bytes(const char *text) {
    size_t n = span(text, "0123456789.");
    if (n == 0 || text[n] != ' ') {
        return 0;
    }
    size_t unit = span(text + n + 1, "kMGTPB");
    return unit > 0                                ? n + 1 + unit
           : strncmp(text + n + 1, "byte", 4) == 0 ? n + 5 + span(text + n + 5, "s")
                                                   : 0;
}

static size_t span_word(const char *text) {
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || (text[n] != '\0' && strchr("-_.:+", text[n]))) {
        n++;
    }
    while (n > 0 && strchr(".:", text[n - 1]) != NULL) {
        n--; /* the end of a sentence, or of what comes before a list */
    }
    return n;
}

/* How much of `text` the place stands for; 0: none. */
static size_t place(char kind, const char *text) {
    size_t n = 0;
    switch (kind) {
    case 'n':
        n = span(text, "0123456789.");
        return n > 0 && text[n - 1] == '.' ? n - 1 : n;
    case 'b':
        return span_bytes(text);
    case 'w':
        return span_word(text);
    case 'p':
        return text[0] == '/' ? 1 + strcspn(text + 1, " ;,:)\n") : 0;
    case 'x':
        n = span(text, "0123456789abcdef");
        return n == 8 ? n : 0;
    case 'd':
        return strncmp(text, "/tmp/pawl-failures-", 19) == 0 ? 25 : 0;
    case 'f':
        n = span_word(text);
        return strncmp(text, "data-", 5) == 0 || strncmp(text, "index-", 6) == 0 ? n : 0;
    default:
        return 0;
    }
}

bool text_fits(const char *got, const char *wanted) {
    while (*wanted != '\0') {
        size_t n =
            wanted[0] == '{' && wanted[1] != '\0' && wanted[2] == '}' ? place(wanted[1], got) : 0;
        if (n > 0) {
            got += n;
            wanted += 3;
        } else if (*got == *wanted) {
            got++;
            wanted++;
        } else {
            return false;
        }
    }
    return *got == '\0';
}

void check_text(const char *got, const char *wanted, const char *file, int line) {
    if (got == NULL || !text_fits(got, wanted)) {
        (void)fprintf(stderr, "---- said:\n%s\n---- instead of:\n%s\n----\n",
                      got != NULL ? got : "(nothing)", wanted);
        _fail(file, line);
    }
}

void check_tells(pawl_status got, pawl_status status, pawl_error *err, const char *wanted,
                 const char *file, int line) {
    check_text(got == PAWL_OK ? "(it worked)" : pawl_error_text(err), wanted, file, line);
    _assert_string_equal(pawl_status_name(got), pawl_status_name(status), file, line);
    _assert_string_equal(pawl_status_name(pawl_error_status(err)), pawl_status_name(status), file,
                         line);
}

void check_works(pawl_status got, pawl_error *err, const char *file, int line) {
    if (got != PAWL_OK) {
        (void)fprintf(stderr, "---- failed:\n%s\n----\n", pawl_error_text(err));
        _fail(file, line);
    }
}
