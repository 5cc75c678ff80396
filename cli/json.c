/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming JSON writer. */
#include "json.h"
#include "numbers.h"
#include "text.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How many bytes from the start need no escape: printable ASCII. */
static size_t plain_bytes(const char *text, size_t n) {
    size_t i = 0;
    while (i < n && text[i] >= 0x20 && text[i] < 0x7F && text[i] != '"' && text[i] != '\\') {
        i++;
    }
    return i;
}

/* One character: escaped if a terminal would act on it, U+FFFD for a byte that is not UTF-8.
 * Returns how many bytes of the text it took. */
static size_t write_character(FILE *file, const char *text, size_t n) {
    size_t length = utf8_character(text, n);
    if (length == 0) {
        fputs("\\uFFFD", file);
    } else if (utf8_acts(text, length)) {
        fprintf(file, "\\u%04X", (unsigned)utf8_code(text, length));
    } else {
        (void)fwrite(text, 1, length, file);
    }
    return length > 0 ? length : 1;
}

/* The letter of an escape such as \n; 0 for characters that have none. */
static int short_escape(char c) {
    static const char written[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    const char *found = c != '\0' ? strchr(written, c) : NULL;
    return found != NULL ? letters[found - written] : '\0';
}

static void write_string(FILE *file, const char *text, size_t n) {
    fputc('"', file);
    for (size_t i = 0; i < n;) {
        size_t plain = plain_bytes(text + i, n - i);
        (void)fwrite(text + i, 1, plain, file);
        i += plain;
        int letter = i < n ? short_escape(text[i]) : '\0';
        if (letter != '\0') {
            fprintf(file, "\\%c", letter);
            i++;
        } else if (i < n) {
            i += write_character(file, text + i, n - i);
        }
    }
    fputc('"', file);
}

/* Valid JSON, with characters that a terminal would act on escaped: they can only be in strings, or
 * white space between tokens. */
static void write_json(FILE *file, const char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        if (text[i] == '\n' || text[i] == '\r' || text[i] == '\t') {
            fputc(text[i] == '\n' ? '\n' : ' ', file);
            i++;
        } else {
            i += write_character(file, text + i, n - i);
        }
    }
}

static void new_line(const json *j) {
    fprintf(j->file, "\n%*s", j->depth, "");
}

/* The comma, line break and key before a value. */
static void begin_value(json *j, const char *key) {
    if (j->depth > 0) {
        bool filled = j->open[j->depth - 1].filled;
        j->open[j->depth - 1].filled = true;
        assert((key != NULL) == (j->open[j->depth - 1].closer == '}'));
        if (filled) {
            fputc(',', j->file);
        }
        if (j->open[j->depth - 1].layout == JSON_LINES) {
            new_line(j);
        } else if (filled) {
            fputc(' ', j->file);
        }
    }
    if (key != NULL) {
        write_string(j->file, key, strlen(key));
        fputs(": ", j->file);
    }
}

static void begin_container(json *j, const char *key, json_layout layout, char opener,
                            char closer) {
    assert(j->depth < JSON_WRITER_DEPTH);
    begin_value(j, key);
    fputc(opener, j->file);
    j->open[j->depth].closer = closer;
    j->open[j->depth].layout = layout;
    j->open[j->depth].filled = false;
    j->depth++;
}

void json_begin_object(json *j, const char *key, json_layout layout) {
    begin_container(j, key, layout, '{', '}');
}

void json_begin_array(json *j, const char *key, json_layout layout) {
    begin_container(j, key, layout, '[', ']');
}

void json_close(json *j) {
    assert(j->depth > 0);
    j->depth--;
    if (j->open[j->depth].layout == JSON_LINES && j->open[j->depth].filled) {
        new_line(j);
    }
    fputc(j->open[j->depth].closer, j->file);
    if (j->depth == 0) {
        fputc('\n', j->file);
    }
}

void json_close_to(json *j, int depth) {
    while (j->depth > depth) {
        json_close(j);
    }
}

void json_put_text(json *j, const char *key, const char *text) {
    if (text == NULL) {
        json_put_null(j, key);
    } else {
        json_put_text_n(j, key, text, strlen(text));
    }
}

void json_put_text_n(json *j, const char *key, const char *text, size_t n) {
    begin_value(j, key);
    write_string(j->file, text, n);
}

void json_put_hex(json *j, const char *key, const void *bytes, size_t n) {
    begin_value(j, key);
    fputc('"', j->file);
    for (size_t i = 0; i < n; i++) {
        fprintf(j->file, "%02x", ((const unsigned char *)bytes)[i]);
    }
    fputc('"', j->file);
}

void json_put_int(json *j, const char *key, int64_t value) {
    begin_value(j, key);
    fprintf(j->file, "%" PRId64, value);
}

void json_put_uint(json *j, const char *key, uint64_t value) {
    begin_value(j, key);
    fprintf(j->file, "%" PRIu64, value);
}

void json_put_number(json *j, const char *key, double value, int digits) {
    if (isfinite(value)) {
        char text[NUMBER_SIZE];
        begin_value(j, key);
        fputs(number_text(text, value, digits), j->file);
    } else {
        json_put_text(j, key, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    }
}

void json_put_bool(json *j, const char *key, bool value) {
    begin_value(j, key);
    fputs(value ? "true" : "false", j->file);
}

void json_put_null(json *j, const char *key) {
    begin_value(j, key);
    fputs("null", j->file);
}

void json_put_raw_n(json *j, const char *key, const char *valid_json, size_t n) {
    begin_value(j, key);
    while (n > 0 && isspace((unsigned char)valid_json[n - 1])) {
        n--;
    }
    write_json(j->file, valid_json, n);
}

void json_put_raw(json *j, const char *key, const char *valid_json) {
    json_put_raw_n(j, key, valid_json, strlen(valid_json));
}
