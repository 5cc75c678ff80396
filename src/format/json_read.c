/* SPDX-License-Identifier: Apache-2.0 */
/* json_read: JSON in one pass over a bounded cursor. The grammar is RFC 8259, to the letter. */
#include "format/json_read.h"

#include <string.h>

json_reader json_reader_of(const void *text, size_t n, uint64_t base, const char *what) {
    return (json_reader){
        .c = cursor_of(text, n, base, what), .first = true, .max_depth = JSON_MAX_DEPTH};
}

static uint8_t byte_here(const json_reader *r) {
    return r->c.at < r->c.size ? r->c.data[r->c.at] : 0;
}

static bool is_digit(uint8_t byte) {
    return byte >= '0' && byte <= '9';
}

uint8_t json_peek(json_reader *r) {
    uint8_t byte = byte_here(r);
    while (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
        r->c.at++;
        byte = byte_here(r);
    }
    return byte;
}

uint64_t json_position(json_reader *r) {
    (void)json_peek(r);
    return r->c.base + r->c.at;
}

/* The text at the cursor is not `expected`. */
static pawl_status refuse(const json_reader *r, pawl_error *err, const char *expected) {
    uint64_t position = r->c.base + r->c.at;
    pawl_status status = error_set(err, PAWL_EDAMAGED, "the JSON of the %s is wrong at byte %llu",
                                   r->c.what, (unsigned long long)position);
    error_expected(err, "%s", expected);
    if (r->c.at >= r->c.size) {
        error_found(err, "the end of the text");
    } else if (byte_here(r) > ' ' && byte_here(r) < 0x7f) {
        error_found(err, "'%c'", byte_here(r));
    } else {
        error_found(err, "the byte 0x%02x", byte_here(r));
    }
    error_range(err, position, 1);
    return status;
}

/* ---- containers ----------------------------------------------------------------------------- */

pawl_status json_enter(json_reader *r, char open, pawl_error *err) {
    if (json_peek(r) != (uint8_t)open) {
        return refuse(r, err, open == '{' ? "an object, '{'" : "an array, '['");
    }
    if (r->depth >= r->max_depth) {
        error_set(err, PAWL_ELIMIT,
                  "the JSON of the %s is nested deeper than %d objects and lists at byte %llu",
                  r->c.what, r->max_depth, (unsigned long long)(r->c.base + r->c.at));
        return PAWL_ELIMIT;
    }
    r->c.at++;
    r->open[r->depth++] = (uint8_t)open;
    r->first = true;
    return PAWL_OK;
}

/* Before the next item of the innermost container: passes its comma, or its end. */
static pawl_status next_item(json_reader *r, bool *more, pawl_error *err) {
    uint8_t close = r->open[r->depth - 1] == '{' ? '}' : ']';
    uint8_t byte = json_peek(r);
    *more = byte != close;
    if (!*more) {
        r->c.at++;
        r->depth--;
        r->first = false;
        return PAWL_OK;
    }
    if (!r->first) {
        if (byte != ',') {
            return refuse(r, err, close == '}' ? "',' or '}'" : "',' or ']'");
        }
        r->c.at++;
    }
    r->first = false;
    return PAWL_OK;
}

static pawl_status string_or_skip(json_reader *r, buffer *out, pawl_error *err);

pawl_status json_member(json_reader *r, buffer *key, bool *more, pawl_error *err) {
    TRY(next_item(r, more, err));
    if (!*more) {
        return PAWL_OK;
    }
    TRY(string_or_skip(r, key, err));
    if (json_peek(r) != ':') {
        return refuse(r, err, "':' after a key");
    }
    r->c.at++;
    return PAWL_OK;
}

pawl_status json_element(json_reader *r, bool *more, pawl_error *err) {
    return next_item(r, more, err);
}

/* ---- strings -------------------------------------------------------------------------------- */

static pawl_status hex4(json_reader *r, uint32_t *out, pawl_error *err) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t byte = byte_here(r);
        uint8_t lower = (uint8_t)(byte | 0x20);
        if (is_digit(byte)) {
            *out = *out << 4 | (uint32_t)(byte - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            *out = *out << 4 | (uint32_t)(lower - 'a' + 10);
        } else {
            return refuse(r, err, "four hexadecimal digits after \\u");
        }
        r->c.at++;
    }
    return PAWL_OK;
}

static size_t utf8_encode(uint32_t point, uint8_t out[4]) {
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (uint8_t)(lead[n] | point);
    return n;
}

/* After "\u". Half a surrogate pair is no character, and strict readers refuse it (RFC 7493). */
static pawl_status unicode_escape(json_reader *r, bool kept, uint8_t text[4], size_t *n,
                                  pawl_error *err) {
    uint32_t point = 0;
    TRY(hex4(r, &point, err));
    if (point == 0 && kept && !r->nul) {
        return refuse(r, err, "text without the character U+0000");
    }
    if (point >= 0xdc00 && point <= 0xdfff) {
        return refuse(r, err, "a high surrogate before a low one");
    }
    if (point >= 0xd800 && point <= 0xdbff) {
        uint32_t low = 0;
        const uint8_t *pair;
        if (cursor_left(&r->c) < 2 || memcmp(r->c.data + r->c.at, "\\u", 2) != 0) {
            return refuse(r, err, "a low surrogate after a high one");
        }
        TRY(cursor_bytes(&r->c, 2, &pair, err));
        TRY(hex4(r, &low, err));
        if (low < 0xdc00 || low > 0xdfff) {
            return refuse(r, err, "a low surrogate after a high one");
        }
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    *n = utf8_encode(point, text);
    return PAWL_OK;
}

/* At the byte after a backslash. */
static pawl_status escape(json_reader *r, buffer *out, pawl_error *err) {
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    uint8_t byte = byte_here(r);
    uint8_t text[4];
    size_t n = 1;
    const char *letter = byte != 0 ? strchr(letters, byte) : NULL;
    if (letter != NULL) {
        text[0] = (uint8_t)meanings[letter - letters];
        r->c.at++;
    } else if (byte == 'u') {
        r->c.at++;
        TRY(unicode_escape(r, out != NULL, text, &n, err));
    } else {
        return refuse(r, err, "one of \" \\ / b f n r t u after a backslash");
    }
    return out == NULL ? PAWL_OK : buffer_append(out, text, n, err);
}

/* A stretch without quotes, backslashes and control characters. */
static pawl_status plain_stretch(json_reader *r, buffer *out, pawl_error *err) {
    size_t n = 0, left = cursor_left(&r->c);
    const uint8_t *text = r->c.data + r->c.at;
    while (n < left && text[n] != '"' && text[n] != '\\' && text[n] >= 0x20) {
        n++;
    }
    if (!utf8_valid((const char *)text, n)) {
        return refuse(r, err, "text in UTF-8");
    }
    TRY(cursor_bytes(&r->c, n, &text, err));
    return out == NULL ? PAWL_OK : buffer_append(out, text, n, err);
}

/* `out` may be NULL: checked only. */
static pawl_status string_or_skip(json_reader *r, buffer *out, pawl_error *err) {
    if (json_peek(r) != '"') {
        return refuse(r, err, "a string");
    }
    r->c.at++;
    if (out != NULL) {
        out->size = 0;
        TRY(buffer_append(out, "", 0, err));
    }
    for (;;) {
        TRY(plain_stretch(r, out, err));
        uint8_t byte = byte_here(r);
        if (r->c.at >= r->c.size || byte < 0x20) {
            return refuse(r, err, "the end of a string, '\"'");
        }
        r->c.at++;
        if (byte == '"') {
            return PAWL_OK;
        }
        TRY(escape(r, out, err));
    }
}

pawl_status json_string(json_reader *r, buffer *out, pawl_error *err) {
    return string_or_skip(r, out, err);
}

/* ---- numbers and words ---------------------------------------------------------------------- */

static pawl_status digits(json_reader *r, pawl_error *err) {
    if (!is_digit(byte_here(r))) {
        return refuse(r, err, "a digit");
    }
    while (is_digit(byte_here(r))) {
        r->c.at++;
    }
    return PAWL_OK;
}

/* Its grammar alone: a number may have any size and any number of digits. */
static pawl_status number_grammar(json_reader *r, pawl_error *err) {
    r->c.at += byte_here(r) == '-';
    if (byte_here(r) == '0') {
        r->c.at++;
    } else {
        TRY(digits(r, err));
    }
    if (byte_here(r) == '.') {
        r->c.at++;
        TRY(digits(r, err));
    }
    if (byte_here(r) == 'e' || byte_here(r) == 'E') {
        r->c.at++;
        r->c.at += byte_here(r) == '+' || byte_here(r) == '-';
        TRY(digits(r, err));
    }
    return PAWL_OK;
}

static pawl_status skip_number(json_reader *r, pawl_error *err) {
    size_t begin = r->c.at;
    TRY(number_grammar(r, err));
    if (r->round && !json_number_rounds((const char *)r->c.data + begin, r->c.at - begin)) {
        r->c.at = begin;
        return refuse(r, err, "a number that fits 64 bits of floating point");
    }
    return PAWL_OK;
}

/* The digits of an integer up to its end; `limit` is the largest value allowed. */
static pawl_status magnitude(json_reader *r, uint64_t limit, uint64_t *out, pawl_error *err) {
    size_t begin = r->c.at;
    bool zero_first = byte_here(r) == '0';
    uint64_t value = 0;
    if (!is_digit(byte_here(r))) {
        return refuse(r, err, "an integer that is not negative");
    }
    for (; is_digit(byte_here(r)); r->c.at++) {
        uint64_t digit = (uint64_t)(byte_here(r) - '0');
        if (value > (limit - digit) / 10) {
            r->c.at = begin;
            return refuse(r, err, "an integer of at most 64 bits");
        }
        value = value * 10 + digit;
    }
    uint8_t byte = byte_here(r);
    if (byte == '.' || byte == 'e' || byte == 'E' || (zero_first && r->c.at - begin > 1)) {
        r->c.at = begin;
        return refuse(r, err, "an integer without fraction, exponent or leading zero");
    }
    *out = value;
    return PAWL_OK;
}

pawl_status json_u64(json_reader *r, uint64_t *out, pawl_error *err) {
    (void)json_peek(r);
    return magnitude(r, UINT64_MAX, out, err);
}

pawl_status json_i64(json_reader *r, int64_t *out, pawl_error *err) {
    uint64_t value = 0;
    bool negative = json_peek(r) == '-';
    if (negative) {
        r->c.at++;
    }
    TRY(magnitude(r, INT64_MAX, &value, err));
    *out = negative ? -(int64_t)value : (int64_t)value;
    return PAWL_OK;
}

static bool begins_with(const json_reader *r, const char *word) {
    size_t n = strlen(word);
    return cursor_left(&r->c) >= n && memcmp(r->c.data + r->c.at, word, n) == 0;
}

static bool skip_word(json_reader *r, const char *word) {
    bool there = begins_with(r, word);
    r->c.at += there ? strlen(word) : 0;
    return there;
}

pawl_status json_bool(json_reader *r, bool *out, pawl_error *err) {
    (void)json_peek(r);
    *out = skip_word(r, "true");
    return *out || skip_word(r, "false") ? PAWL_OK : refuse(r, err, "true or false");
}

/* ---- any value ------------------------------------------------------------------------------ */

/* What many writers put for a number that JSON lacks. */
static pawl_status refuse_number_word(const json_reader *r, const char *word, pawl_error *err) {
    pawl_status status = refuse(r, err, "a JSON value");
    error_found(err, "%s", word);
    error_next(err,
               "JSON has no %s (RFC 8259): write null or a text such as \"%s\"; a value of its "
               "own can be set as a float64, which keeps it",
               word, word);
    return status;
}

static pawl_status skip_scalar(json_reader *r, pawl_error *err) {
    static const char *const number_words[] = {"NaN", "Infinity", "-Infinity"};
    uint8_t byte = json_peek(r);
    if (byte == '"') {
        return string_or_skip(r, NULL, err);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(number_words); i++) {
        if (begins_with(r, number_words[i])) {
            return refuse_number_word(r, number_words[i], err);
        }
    }
    if (byte == '-' || is_digit(byte)) {
        return skip_number(r, err);
    }
    if (skip_word(r, "true") || skip_word(r, "false") || skip_word(r, "null")) {
        return PAWL_OK;
    }
    return refuse(r, err, "a JSON value");
}

/* One step: enters a container or passes a scalar. */
static pawl_status skip_one(json_reader *r, pawl_error *err) {
    uint8_t byte = json_peek(r);
    return byte == '{' || byte == '[' ? json_enter(r, (char)byte, err) : skip_scalar(r, err);
}

pawl_status json_skip(json_reader *r, const uint8_t **text, size_t *n, pawl_error *err) {
    (void)json_peek(r);
    size_t begin = r->c.at;
    int depth = r->depth;
    TRY(skip_one(r, err));
    while (r->depth > depth) {
        bool more = false;
        if (r->open[r->depth - 1] == '{') {
            TRY(json_member(r, NULL, &more, err));
        } else {
            TRY(json_element(r, &more, err));
        }
        if (more) {
            TRY(skip_one(r, err));
        }
    }
    if (text != NULL) {
        *text = r->c.data + begin;
        *n = r->c.at - begin;
    }
    return PAWL_OK;
}

pawl_status json_end(json_reader *r, pawl_error *err) {
    (void)json_peek(r);
    return r->c.at == r->c.size ? PAWL_OK : refuse(r, err, "nothing more");
}

pawl_status json_check(const void *text, size_t n, const char *what, pawl_error *err) {
    json_reader r = json_reader_of(text, n, 0, what);
    r.max_depth = PAWL_MAX_JSON_DEPTH;
    TRY(json_skip(&r, NULL, NULL, err));
    return json_end(&r, err);
}
