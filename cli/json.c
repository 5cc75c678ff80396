/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming JSON writer. */
#include "json.h"
#include "numbers.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Nothing in it that JSON writes in another way? */
static bool is_plain(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c >= 0x7F || c == '"' || c == '\\') {
            return false;
        }
    }
    return true;
}

static void write_string(FILE *file, const char *text, size_t n) {
    if (is_plain(text, n)) { /* by far the most, and jansson would copy it twice */
        fputc('"', file);
        (void)fwrite(text, 1, n, file);
        fputc('"', file);
        return;
    }
    json_t *string = json_stringn(text, n); /* NULL for what is no UTF-8 */
    if (string != NULL) {
        json_dumpf(string, file, JSON_ENCODE_ANY);
        json_decref(string);
        return;
    }
    fputc('"', file);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x80) {
            fputs("\\uFFFD", file);
        } else if (c < 0x20 || c == '"' || c == '\\') {
            fprintf(file, "\\u%04x", c);
        } else {
            fputc(c, file);
        }
    }
    fputc('"', file);
}

static void new_line(const json *j) {
    fprintf(j->file, "\n%*s", j->depth, "");
}

/* What comes before every value: comma, line, key. */
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
    assert(j->depth < JSON_MAX_DEPTH);
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

void json_end(json *j) {
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

void json_end_to(json *j, int depth) {
    while (j->depth > depth) {
        json_end(j);
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

void json_put_raw(json *j, const char *key, const char *valid_json) {
    begin_value(j, key);
    fputs(valid_json, j->file);
}

void json_put_foreign(json *j, const char *key, const char *text, size_t n) {
    begin_value(j, key);
    while (n > 0 && isspace((unsigned char)text[n - 1])) {
        n--;
    }
    (void)fwrite(text, 1, n, j->file); /* what is lost shows at the end: output_end */
}
