/* SPDX-License-Identifier: Apache-2.0 */
/* Opcodes of a pickle that push what follows them: numbers, texts, bytes. */
#include "base/json.h"
#include "foreign/pickle/machine.h"
#include "format/limits.h"

#include <math.h>
#include <string.h>

#define MOST_DIGITS 4096u /* of an integer of a line, and bytes of a long one */

/* ---- lines: protocol 0 ---------------------------------------------------------------------- */

pawl_status machine_line(machine *m, pickle_text *out, pawl_error *err) {
    const uint8_t *begin = m->in.data + m->in.at;
    size_t left = cursor_left(&m->in);
    const uint8_t *end = left > 0 ? memchr(begin, '\n', left) : NULL;
    if (end == NULL) {
        return machine_refuse(m, PAWL_EDAMAGED, "a line has no end", err);
    }
    *out = (pickle_text){.bytes = (const char *)begin, .n = (size_t)(end - begin)};
    m->in.at += out->n + 1;
    return PAWL_OK;
}

static bool take_decimal(pickle_text line, int64_t *out) {
    bool negative = line.n > 0 && line.bytes[0] == '-';
    uint64_t v = 0;
    size_t i = negative ? 1 : 0;
    if (i == line.n || line.n > 20) {
        return false;
    }
    for (; i < line.n; i++) {
        uint64_t digit = (uint64_t)(line.bytes[i] - '0');
        if (digit > 9 || v > (UINT64_MAX - digit) / 10) {
            return false;
        }
        v = v * 10 + digit;
    }
    if (v > (uint64_t)INT64_MAX + (negative ? 1 : 0)) {
        return false;
    }
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

pawl_status machine_decimal(machine *m, int64_t *out, pawl_error *err) {
    pickle_text line = {0};
    TRY(machine_line(m, &line, err));
    return take_decimal(line, out)
               ? PAWL_OK
               : machine_refuse(m, PAWL_EDAMAGED, "a line is no number that fits 64 bits", err);
}

/* ---- pushing -------------------------------------------------------------------------------- */

static pawl_status push_int(machine *m, int64_t v, pawl_error *err) {
    pickle_node **shared = &m->integers[(uint64_t)v % MACHINE_SHARED];
    if (*shared == NULL || (*shared)->integer != v) {
        TRY(machine_node(m, PICKLE_INT, shared, err));
        (*shared)->integer = v;
    }
    return machine_push(m, *shared, err);
}

static pawl_status push_float(machine *m, double v, pawl_error *err) {
    pickle_node *node;
    TRY(machine_node(m, PICKLE_FLOAT, &node, err));
    node->number = v;
    return machine_push(m, node, err);
}

static pawl_status push_bool(machine *m, bool v, pawl_error *err) {
    pickle_node **shared = &m->booleans[v];
    if (*shared == NULL) {
        TRY(machine_node(m, PICKLE_BOOL, shared, err));
        (*shared)->truth = v;
    }
    return machine_push(m, *shared, err);
}

pawl_status machine_push_text(machine *m, const uint8_t *bytes, size_t n, bool text,
                              pawl_error *err) {
    pickle_node *node;
    bool is_text = text && utf8_valid((const char *)bytes, n);
    TRY(machine_node(m, is_text ? PICKLE_TEXT : PICKLE_BYTES, &node, err));
    node->text = (pickle_text){.bytes = (const char *)bytes, .n = n};
    return machine_push(m, node, err);
}

static pawl_status push_long(machine *m, uint32_t n, pawl_error *err) {
    const uint8_t *bytes = NULL;
    uint64_t v = 0;
    pickle_node *node;
    if (n > MOST_DIGITS) {
        return machine_refuse(m, PAWL_ELIMIT, "an integer is too long", err);
    }
    TRY(cursor_bytes(&m->in, n, &bytes, err));
    if (n > 8) {
        TRY(machine_node(m, PICKLE_BIG, &node, err));
        node->text = (pickle_text){.bytes = (const char *)bytes, .n = n};
        return machine_push(m, node, err);
    }
    for (uint32_t i = 0; i < n; i++) {
        v |= (uint64_t)bytes[i] << (8 * i);
    }
    if (n > 0 && n < 8 && (bytes[n - 1] & 0x80u) != 0) {
        v |= UINT64_MAX << (8 * n);
    }
    return push_int(m, (int64_t)v, err);
}

/* ---- protocol 0 ----------------------------------------------------------------------------- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* I and L: "12", "12L", and I01 and I00 for True and False. */
static pawl_status push_line_int(machine *m, bool boolean, pawl_error *err) {
    pickle_text line = {0};
    int64_t v = 0;
    TRY(machine_line(m, &line, err));
    if (boolean && line.n == 2 && line.bytes[0] == '0' &&
        (line.bytes[1] == '0' || line.bytes[1] == '1')) {
        return push_bool(m, line.bytes[1] == '1', err);
    }
    if (line.n > 0 && line.bytes[line.n - 1] == 'L') {
        line.n--;
    }
    if (take_decimal(line, &v)) {
        return push_int(m, v, err);
    }
    return machine_refuse(m, PAWL_EUNSUPPORTED, "an integer does not fit 64 bits, or is none", err);
}

static bool take_float(pickle_text line, double *out) {
    static const struct {
        const char *text;
        double v;
    } words[] = {{"inf", (double)INFINITY}, {"-inf", -(double)INFINITY}, {"nan", (double)NAN}};
    json_reader r = json_reader_of(line.bytes, line.n);
    json_span number;
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        if (line.n == strlen(words[i].text) && memcmp(line.bytes, words[i].text, line.n) == 0) {
            *out = words[i].v;
            return true;
        }
    }
    bool digits = line.n > 0 && (line.bytes[0] == '-' || hex_digit(line.bytes[0]) >= 0);
    return digits && json_skip(&r, &number) == PAWL_OK && json_end(&r) == PAWL_OK &&
           json_number(number, out);
}

static pawl_status push_line_float(machine *m, pawl_error *err) {
    pickle_text line = {0};
    double v = 0;
    TRY(machine_line(m, &line, err));
    return take_float(line, &v) ? push_float(m, v, err)
                                : machine_refuse(m, PAWL_EDAMAGED, "a line is no number", err);
}

/* `n` digits from a place of the line on; false where there are fewer. */
static bool take_hex(pickle_text line, size_t at, size_t n, uint32_t *out) {
    *out = 0;
    for (size_t i = at; i < at + n; i++) {
        int digit = i < line.n ? hex_digit(line.bytes[i]) : -1;
        if (digit < 0) {
            return false;
        }
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* At a backslash; *at is then at the last character of the escape. */
static bool take_escape(pickle_text line, size_t *at, uint8_t *out) {
    static const char names[] = "\\'\"nrtab";
    static const char means[] = "\\'\"\n\r\t\a\b";
    uint32_t code;
    char c = '\0';
    if (*at + 1 < line.n) {
        c = line.bytes[*at + 1];
    }
    const char *found = c != '\0' ? strchr(names, c) : NULL;
    if (c == 'x' && take_hex(line, *at + 2, 2, &code)) {
        *at += 3;
        *out = (uint8_t)code;
        return true;
    }
    if (found == NULL) {
        return false;
    }
    *at += 1;
    *out = (uint8_t)means[found - names];
    return true;
}

/* A text in quotes, with the escapes of Python: \\, \', \", \n, \r, \t, \xHH. */
static pawl_status push_quoted(machine *m, pawl_error *err) {
    pickle_text line = {0};
    TRY(machine_line(m, &line, err));
    bool quoted = line.n >= 2 && (line.bytes[0] == '\'' || line.bytes[0] == '"') &&
                  line.bytes[line.n - 1] == line.bytes[0];
    if (!quoted) {
        return machine_refuse(m, PAWL_EDAMAGED, "a text has no quotes", err);
    }
    uint8_t *out = arena_take(&m->tree->memory, line.n, err);
    size_t n = 0;
    if (out == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 1; i + 1 < line.n; i++) {
        if (line.bytes[i] != '\\') {
            out[n++] = (uint8_t)line.bytes[i];
            continue;
        }
        if (!take_escape((pickle_text){line.bytes, line.n - 1}, &i, &out[n++])) {
            return machine_refuse(m, PAWL_EDAMAGED, "a text has an escape that is none", err);
        }
    }
    return machine_push_text(m, out, n, true, err);
}

/* At a backslash that begins a raw Unicode escape; another one stands for itself. */
static bool take_unicode(pickle_text line, size_t *at, uint32_t *out) {
    char c = '\0';
    if (*at + 1 < line.n) {
        c = line.bytes[*at + 1];
    }
    size_t digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
        return true;
    }
    if (!take_hex(line, *at + 2, digits, out) || *out > 0x10ffff) {
        return false;
    }
    *at += 1 + digits;
    return true;
}

static size_t put_utf8(char *out, uint32_t c) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    out[0] = (char)(first[n] | c);
    return n;
}

/* Raw Unicode escapes: \uXXXX and \UXXXXXXXX; other bytes are characters of Latin-1. */
static pawl_status push_unicode_line(machine *m, pawl_error *err) {
    pickle_text line = {0};
    TRY(machine_line(m, &line, err));
    char *out = arena_take(&m->tree->memory, 2 * line.n + 8, err);
    size_t n = 0;
    if (out == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < line.n; i++) {
        uint32_t c = (uint8_t)line.bytes[i];
        if (c == '\\' && !take_unicode(line, &i, &c)) {
            return machine_refuse(m, PAWL_EDAMAGED, "a text has an escape that is none", err);
        }
        n += put_utf8(out + n, c);
    }
    return machine_push_text(m, (const uint8_t *)out, n, true, err);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static pawl_status push_counted(machine *m, uint64_t n, bool text, pawl_error *err) {
    const uint8_t *bytes = NULL;
    if (n > cursor_left(&m->in)) {
        return machine_refuse(m, PAWL_EDAMAGED, "a text or bytes go beyond the end", err);
    }
    TRY(cursor_bytes(&m->in, (size_t)n, &bytes, err));
    return machine_push_text(m, bytes, (size_t)n, text, err);
}

/* By a length of 1, 4 or 8 bytes. */
static pawl_status push_sized(machine *m, unsigned length_bytes, bool text, pawl_error *err) {
    uint8_t n1 = 0;
    uint32_t n4 = 0;
    uint64_t n8 = 0;
    switch (length_bytes) {
    case 1:
        TRY(cursor_u8(&m->in, &n1, err));
        return push_counted(m, n1, text, err);
    case 4:
        TRY(cursor_u32le(&m->in, &n4, err));
        return push_counted(m, n4, text, err);
    default:
        TRY(cursor_u64le(&m->in, &n8, err));
        return push_counted(m, n8, text, err);
    }
}

static pawl_status push_binary_number(machine *m, uint8_t opcode, pawl_error *err) {
    const uint8_t *b = NULL;
    uint32_t word = 0;
    uint64_t bits = 0;
    double v;
    switch (opcode) {
    case 'J':
        TRY(cursor_u32le(&m->in, &word, err));
        return push_int(m, (int32_t)word, err);
    case 'K':
        TRY(cursor_bytes(&m->in, 1, &b, err));
        return push_int(m, b[0], err);
    case 'M':
        TRY(cursor_bytes(&m->in, 2, &b, err));
        return push_int(m, b[0] | b[1] << 8, err);
    default: /* G: big-endian */
        TRY(cursor_bytes(&m->in, 8, &b, err));
        for (int i = 0; i < 8; i++) {
            bits = bits << 8 | b[i];
        }
        memcpy(&v, &bits, sizeof(v));
        return push_float(m, v, err);
    }
}

static pawl_status push_long_sized(machine *m, bool small, pawl_error *err) {
    uint8_t byte = 0;
    uint32_t word = 0;
    if (small) {
        TRY(cursor_u8(&m->in, &byte, err));
        return push_long(m, byte, err);
    }
    TRY(cursor_u32le(&m->in, &word, err));
    return push_long(m, word, err);
}

static pawl_status push_none(machine *m, pawl_error *err) {
    pickle_node *node;
    TRY(machine_node(m, PICKLE_NONE, &node, err));
    return machine_push(m, node, err);
}

pawl_status machine_scalar(machine *m, uint8_t opcode, bool *done, pawl_error *err) {
    switch (opcode) {
    case 'N':
        return push_none(m, err);
    case 0x88:
    case 0x89:
        return push_bool(m, opcode == 0x88, err);
    case 'I':
    case 'L':
        return push_line_int(m, opcode == 'I', err);
    case 'F':
        return push_line_float(m, err);
    case 'S':
        return push_quoted(m, err);
    case 'V':
        return push_unicode_line(m, err);
    case 'J':
    case 'K':
    case 'M':
    case 'G':
        return push_binary_number(m, opcode, err);
    case 0x8a:
    case 0x8b:
        return push_long_sized(m, opcode == 0x8a, err);
    case 'U':  /* texts of Python 2 */
    case 0x8c: /* SHORT_BINUNICODE */
        return push_sized(m, 1, true, err);
    case 'T':
    case 'X':
        return push_sized(m, 4, true, err);
    case 0x8d:
        return push_sized(m, 8, true, err);
    case 'C':
        return push_sized(m, 1, false, err);
    case 'B':
        return push_sized(m, 4, false, err);
    case 0x8e:
    case 0x96: /* bytes, and a bytearray */
        return push_sized(m, 8, false, err);
    default:
        *done = false;
        return PAWL_OK;
    }
}
