/* SPDX-License-Identifier: Apache-2.0 */
/* JSON in one pass. The grammar is RFC 8259, to the letter. */
#include "common/json.h"

#include "common/text.h"
#include "common/try.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_reader json_reader_of(const void *text, size_t n) {
    return (json_reader){.text = text, .n = n, .first = true, .max_depth = JSON_MAX_DEPTH};
}

static uint8_t byte_here(const json_reader *r) {
    return r->at < r->n ? (uint8_t)r->text[r->at] : 0;
}

static bool is_digit(uint8_t byte) {
    return byte >= '0' && byte <= '9';
}

uint8_t json_peek(json_reader *r) {
    uint8_t byte = byte_here(r);
    while (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
        r->at++;
        byte = byte_here(r);
    }
    return byte;
}

static pawl_status refuse_found(const json_reader *r, pawl_status status, const char *expected,
                                const char *found) {
    return r->refused != NULL ? r->refused(r, status, expected, found) : status;
}

/* The text at r->at is not `expected`. */
static pawl_status refuse_json(const json_reader *r, const char *expected) {
    return refuse_found(r, PAWL_EDAMAGED, expected, NULL);
}

/* ---- strings -------------------------------------------------------------------------------- */

static pawl_status hex4(json_reader *r, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t byte = byte_here(r);
        uint8_t lower = (uint8_t)(byte | 0x20);
        if (is_digit(byte)) {
            *out = *out << 4 | (uint32_t)(byte - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            *out = *out << 4 | (uint32_t)(lower - 'a' + 10);
        } else {
            return refuse_json(r, "four hexadecimal digits after \\u");
        }
        r->at++;
    }
    return PAWL_OK;
}

/* After "\u". Half a surrogate pair is no character, and strict readers refuse it (RFC 7493). */
static pawl_status unicode_escape(json_reader *r, bool kept, uint32_t *point) {
    TRY(hex4(r, point));
    if (*point == 0 && kept && !r->nul) {
        return refuse_json(r, "text without the character U+0000");
    }
    if (*point >= 0xdc00 && *point <= 0xdfff) {
        return refuse_json(r, "a high surrogate before a low one");
    }
    if (*point >= 0xd800 && *point <= 0xdbff) {
        uint32_t low = 0;
        if (r->n - r->at < 2 || memcmp(r->text + r->at, "\\u", 2) != 0) {
            return refuse_json(r, "a low surrogate after a high one");
        }
        r->at += 2;
        TRY(hex4(r, &low));
        if (low < 0xdc00 || low > 0xdfff) {
            return refuse_json(r, "a low surrogate after a high one");
        }
        *point = 0x10000 + ((*point - 0xd800) << 10) + (low - 0xdc00);
    }
    return PAWL_OK;
}

/* At the byte after a backslash. */
static pawl_status escape(json_reader *r, bool kept, uint32_t *point) {
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    uint8_t byte = byte_here(r);
    const char *letter = byte != 0 ? strchr(letters, byte) : NULL;
    if (letter == NULL && byte != 'u') {
        return refuse_json(r, "one of \" \\ / b f n r t u after a backslash");
    }
    r->at++;
    if (letter == NULL) {
        return unicode_escape(r, kept, point);
    }
    *point = (uint8_t)meanings[letter - letters];
    return PAWL_OK;
}

/* A stretch without quotes, backslashes and control characters. */
static pawl_status plain_stretch(json_reader *r) {
    size_t n = 0;
    size_t left = r->n - r->at;
    const char *text = r->text + r->at;
    while (n < left && text[n] != '"' && text[n] != '\\' && (uint8_t)text[n] >= 0x20) {
        n++;
    }
    if (!utf8_valid(text, n)) {
        return refuse_json(r, "text in UTF-8");
    }
    r->at += n;
    return PAWL_OK;
}

/* `out` may be NULL: checked only. */
static pawl_status string_or_skip(json_reader *r, json_span *out) {
    uint32_t ignored;
    if (json_peek(r) != '"') {
        return refuse_json(r, "a string");
    }
    size_t begin = ++r->at;
    for (;;) {
        TRY(plain_stretch(r));
        uint8_t byte = byte_here(r);
        if (r->at >= r->n || byte < 0x20) {
            return refuse_json(r, "the end of a string, '\"'");
        }
        r->at++;
        if (byte == '"') {
            break;
        }
        TRY(escape(r, out != NULL, &ignored));
    }
    if (out != NULL) {
        *out = (json_span){r->text + begin, r->at - 1 - begin};
    }
    return PAWL_OK;
}

pawl_status json_string(json_reader *r, json_span *out) {
    return string_or_skip(r, out);
}

static size_t utf8_encode(uint32_t point, char out[4]) {
    static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (char)(lead[n] | point);
    return n;
}

/* Takes the next characters off a string that was checked: all before an escape as they are
 * written, or that of an escape, in `character`. */
static json_span next_characters(json_span *rest, char character[4]) {
    json_span out = {rest->text, rest->n};
    if (*rest->text == '\\') {
        json_reader r = json_reader_of(rest->text + 1, rest->n - 1);
        uint32_t point = 0;
        (void)escape(&r, false, &point);
        out = (json_span){character, utf8_encode(point, character)};
        rest->text += 1 + r.at;
        rest->n -= 1 + r.at;
        return out;
    }
    const char *backslash = memchr(rest->text, '\\', rest->n);
    out.n = backslash != NULL ? (size_t)(backslash - rest->text) : rest->n;
    rest->text += out.n;
    rest->n -= out.n;
    return out;
}

size_t json_decode(json_span string, char *out, size_t size) {
    size_t n = 0;
    while (string.n > 0) {
        char character[4];
        json_span next = next_characters(&string, character);
        size_t room = n < size ? size - n : 0;
        if (room > 0) {
            memcpy(out + n, next.text, next.n < room ? next.n : room);
        }
        n += next.n;
    }
    return n;
}

bool json_is(json_span string, const char *text) {
    while (string.n > 0) {
        char character[4];
        json_span next = next_characters(&string, character);
        if (strnlen(text, next.n) < next.n || memcmp(text, next.text, next.n) != 0) {
            return false;
        }
        text += next.n;
    }
    return *text == '\0';
}

/* ---- containers ----------------------------------------------------------------------------- */

pawl_status json_enter(json_reader *r, char open) {
    if (json_peek(r) != (uint8_t)open) {
        return refuse_json(r, open == '{' ? "an object, '{'" : "an array, '['");
    }
    if (r->depth >= r->max_depth) {
        return refuse_found(r, PAWL_ELIMIT, NULL, NULL);
    }
    r->at++;
    r->open[r->depth++] = (uint8_t)open;
    r->first = true;
    return PAWL_OK;
}

/* Before the next item of the innermost container: passes its comma, or its end. */
static pawl_status next_item(json_reader *r, bool *more) {
    uint8_t close = r->open[r->depth - 1] == '{' ? '}' : ']';
    uint8_t byte = json_peek(r);
    *more = byte != close;
    if (!*more) {
        r->at++;
        r->depth--;
        r->first = false;
        return PAWL_OK;
    }
    if (!r->first) {
        if (byte != ',') {
            return refuse_json(r, close == '}' ? "',' or '}'" : "',' or ']'");
        }
        r->at++;
    }
    r->first = false;
    return PAWL_OK;
}

pawl_status json_member(json_reader *r, json_span *key, bool *more) {
    TRY(next_item(r, more));
    if (!*more) {
        return PAWL_OK;
    }
    TRY(string_or_skip(r, key));
    if (json_peek(r) != ':') {
        return refuse_json(r, "':' after a key");
    }
    r->at++;
    return PAWL_OK;
}

pawl_status json_element(json_reader *r, bool *more) {
    return next_item(r, more);
}

/* ---- numbers and words ---------------------------------------------------------------------- */

static pawl_status digits(json_reader *r) {
    if (!is_digit(byte_here(r))) {
        return refuse_json(r, "a digit");
    }
    while (is_digit(byte_here(r))) {
        r->at++;
    }
    return PAWL_OK;
}

/* Its grammar alone: a number may have any size and any number of digits. */
static pawl_status number_grammar(json_reader *r) {
    r->at += byte_here(r) == '-';
    if (byte_here(r) == '0') {
        r->at++;
    } else {
        TRY(digits(r));
    }
    if (byte_here(r) == '.') {
        r->at++;
        TRY(digits(r));
    }
    if (byte_here(r) == 'e' || byte_here(r) == 'E') {
        r->at++;
        r->at += byte_here(r) == '+' || byte_here(r) == '-';
        TRY(digits(r));
    }
    return PAWL_OK;
}

static pawl_status skip_number(json_reader *r) {
    size_t begin = r->at;
    double rounded;
    TRY(number_grammar(r));
    if (r->round && !json_number((json_span){r->text + begin, r->at - begin}, &rounded)) {
        r->at = begin;
        return refuse_json(r, "a number that fits 64 bits of floating point");
    }
    return PAWL_OK;
}

/* The digits of an integer up to its end; `limit` is the largest value allowed. */
static pawl_status magnitude(json_reader *r, uint64_t limit, uint64_t *out) {
    size_t begin = r->at;
    bool zero_first = byte_here(r) == '0';
    uint64_t value = 0;
    if (!is_digit(byte_here(r))) {
        return refuse_json(r, "an integer that is not negative");
    }
    for (; is_digit(byte_here(r)); r->at++) {
        uint64_t digit = (uint64_t)(byte_here(r) - '0');
        if (value > (limit - digit) / 10) {
            r->at = begin;
            return refuse_json(r, "an integer of at most 64 bits");
        }
        value = value * 10 + digit;
    }
    uint8_t byte = byte_here(r);
    if (byte == '.' || byte == 'e' || byte == 'E' || (zero_first && r->at - begin > 1)) {
        r->at = begin;
        return refuse_json(r, "an integer without fraction, exponent or leading zero");
    }
    *out = value;
    return PAWL_OK;
}

pawl_status json_u64(json_reader *r, uint64_t *out) {
    (void)json_peek(r);
    return magnitude(r, UINT64_MAX, out);
}

pawl_status json_i64(json_reader *r, int64_t *out) {
    uint64_t value = 0;
    bool negative = json_peek(r) == '-';
    if (negative) {
        r->at++;
    }
    TRY(magnitude(r, negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX, &value));
    *out = (int64_t)(negative ? 0 - value : value);
    return PAWL_OK;
}

static bool begins_with(const json_reader *r, const char *word) {
    size_t n = strlen(word);
    return r->n - r->at >= n && memcmp(r->text + r->at, word, n) == 0;
}

static bool skip_word(json_reader *r, const char *word) {
    bool there = begins_with(r, word);
    r->at += there ? strlen(word) : 0;
    return there;
}

pawl_status json_bool(json_reader *r, bool *out) {
    (void)json_peek(r);
    *out = skip_word(r, "true");
    return *out || skip_word(r, "false") ? PAWL_OK : refuse_json(r, "true or false");
}

/* The number after 'e', cut off far beyond what matters. */
static int64_t exponent_of(const char *text, size_t n) {
    int64_t value = 0;
    bool negative = n > 0 && *text == '-';
    for (size_t i = 0; i < n; i++) {
        if (is_digit((uint8_t)text[i]) && value < INT64_MAX / 16) {
            value = value * 10 + (text[i] - '0');
        }
    }
    return negative ? -value : value;
}

/* As in the "C" locale, whatever that of the process is; the C library has that one ready. */
static double to_double(const char *text) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = plain != (locale_t)0 ? strtod_l(text, NULL, plain) : NAN;
    if (plain != (locale_t)0) {
        freelocale(plain);
    }
    return value;
}

/* This many digits decide how a number rounds, with whether any follow that are not 0. */
#define DECIDING_DIGITS 768

bool json_number(json_span number, double *out) {
    char text[DECIDING_DIGITS + 32];
    size_t i = *number.text == '-';
    size_t n = i;
    int64_t power = 0; /* of ten, by which the digits are multiplied */
    bool fraction = false;
    bool more = false;
    text[0] = '-';
    for (; i < number.n && number.text[i] != 'e' && number.text[i] != 'E'; i++) {
        char c = number.text[i];
        if (c == '.') {
            fraction = true;
        } else if (n < DECIDING_DIGITS) {
            text[n] = c;
            n += c != '0' || n > (*number.text == '-');
            power -= fraction;
        } else {
            more = more || c != '0';
            power += !fraction;
        }
    }
    power += i < number.n ? exponent_of(number.text + i + 1, number.n - i - 1) : 0;
    (void)snprintf(text + n, sizeof text - n, "%de%lld", more, (long long)(power - 1));
    *out = to_double(text);
    return isfinite(*out);
}

/* ---- any value ------------------------------------------------------------------------------ */

static pawl_status skip_scalar(json_reader *r) {
    /* What many writers put for a number that JSON lacks. */
    static const char *const number_words[] = {"NaN", "Infinity", "-Infinity"};
    uint8_t byte = json_peek(r);
    if (byte == '"') {
        return string_or_skip(r, NULL);
    }
    for (size_t i = 0; i < sizeof number_words / sizeof number_words[0]; i++) {
        if (begins_with(r, number_words[i])) {
            return refuse_found(r, PAWL_EDAMAGED, "a JSON value", number_words[i]);
        }
    }
    if (byte == '-' || is_digit(byte)) {
        return skip_number(r);
    }
    if (skip_word(r, "true") || skip_word(r, "false") || skip_word(r, "null")) {
        return PAWL_OK;
    }
    return refuse_json(r, "a JSON value");
}

/* One step: enters a container or passes a scalar. */
static pawl_status skip_one(json_reader *r) {
    uint8_t byte = json_peek(r);
    return byte == '{' || byte == '[' ? json_enter(r, (char)byte) : skip_scalar(r);
}

pawl_status json_skip(json_reader *r, json_span *out) {
    (void)json_peek(r);
    size_t begin = r->at;
    int depth = r->depth;
    TRY(skip_one(r));
    while (r->depth > depth) {
        bool more = false;
        if (r->open[r->depth - 1] == '{') {
            TRY(json_member(r, NULL, &more));
        } else {
            TRY(json_element(r, &more));
        }
        if (more) {
            TRY(skip_one(r));
        }
    }
    if (out != NULL) {
        *out = (json_span){r->text + begin, r->at - begin};
    }
    return PAWL_OK;
}

pawl_status json_end(json_reader *r) {
    (void)json_peek(r);
    return r->at == r->n ? PAWL_OK : refuse_json(r, "nothing more");
}
