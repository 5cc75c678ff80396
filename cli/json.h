/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A streaming JSON writer: it remembers only the nesting. `key` is the member's name inside
 * objects, and NULL elsewhere. Bytes that are not UTF-8 become U+FFFD, and characters that a
 * terminal would act on are escaped.
 */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_WRITER_DEPTH 16

typedef enum json_layout {
    JSON_INLINE = 0, /* all members on one line */
    JSON_LINES = 1   /* one member a line */
} json_layout;

typedef struct json {
    FILE *file;
    int depth;
    struct {
        char closer;
        json_layout layout;
        bool filled;
    } open[JSON_WRITER_DEPTH];
} json;

void json_begin_object(json *j, const char *key, json_layout layout);
void json_begin_array(json *j, const char *key, json_layout layout);
void json_close(json *j);
/* Closes containers until `depth` are left open. */
void json_close_to(json *j, int depth);

void json_put_text(json *j, const char *key, const char *text); /* NULL: null */
void json_put_text_n(json *j, const char *key, const char *text, size_t n);
void json_put_hex(json *j, const char *key, const void *bytes, size_t n);
void json_put_int(json *j, const char *key, int64_t value);
void json_put_uint(json *j, const char *key, uint64_t value);
/* The shortest text of at most `digits` significant digits; "nan", "inf" and "-inf" as strings. */
void json_put_number(json *j, const char *key, double value, int digits);
void json_put_bool(json *j, const char *key, bool value);
void json_put_null(json *j, const char *key);
/* A value that is JSON already and known to be valid: its numbers keep every digit, white space at
 * its end is left out. */
void json_put_raw(json *j, const char *key, const char *valid_json);
void json_put_raw_n(json *j, const char *key, const char *valid_json, size_t n);

#endif
