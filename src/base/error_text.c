/* SPDX-License-Identifier: Apache-2.0 */
/* Renders an error: lines for people, one JSON object for programs. Allocates nothing. */
#include "base/base.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Below the first line of a value, its further lines begin where the first did. */
#define CONTINUATION "\n            "

/* Escapes may make a part grow this far, then it is cut. All parts at their longest, with what
 * stands around them, fit `rendered`. */
#define ESCAPE_ROOM ((size_t)64)

typedef struct writer {
    char *out;
    size_t size, at;
} writer;

static void put(writer *w, const char *text, size_t n) {
    assert(n < w->size - w->at);
    memcpy(w->out + w->at, text, n);
    w->at += n;
    w->out[w->at] = '\0';
}

static void put_text(writer *w, const char *text) {
    put(w, text, strlen(text));
}

/* ---- for people ----------------------------------------------------------------------------- */

/* A character as it may go to a terminal: control characters and bytes that are no UTF-8 as hex. */
static size_t shown_character(char out[8], const char *text, size_t n, size_t *taken) {
    unsigned char c = (unsigned char)text[0];
    size_t length = utf8_character(text, n);
    bool c1 = length == 2 && c == 0xc2 && (unsigned char)text[1] <= 0x9f;
    if (length == 0 || c1 || c < 0x20 || c == 0x7f) {
        *taken = 1;
        return (size_t)snprintf(out, 8, "\\x%02x", (unsigned)c);
    }
    *taken = length;
    memcpy(out, text, length);
    return length;
}

/* Of a C1 character only the first byte is escaped above; its second is no UTF-8 then. */
static void put_shown(writer *w, const char *text, size_t part_size, bool lines) {
    size_t n = strlen(text);
    size_t end = w->at + part_size + ESCAPE_ROOM - 4;
    size_t at = 0;
    while (at < n) {
        char shown[8];
        const char *piece = shown;
        size_t taken = 1;
        size_t length = shown_character(shown, text + at, n - at, &taken);
        if (lines && text[at] == '\n') {
            piece = CONTINUATION;
            length = strlen(CONTINUATION);
        }
        if (w->at + length > end) {
            put_text(w, "...");
            return;
        }
        put(w, piece, length);
        at += taken;
    }
}

static void put_line(writer *w, const char *label, const char *value, size_t part_size,
                     bool lines) {
    if (value[0] == '\0') {
        return;
    }
    char head[32];
    snprintf(head, sizeof(head), "\n  %-10s", label);
    put_text(w, head);
    put_shown(w, value, part_size, lines);
}

static void put_range_line(writer *w, const pawl_error *err) {
    char range[64];
    if (!err->has_range) {
        return;
    }
    if (err->length <= 1) {
        snprintf(range, sizeof(range), "byte %" PRIu64, err->offset);
    } else {
        uint64_t last;
        if (add_overflows(err->offset, err->length - 1, &last)) {
            last = UINT64_MAX;
        }
        snprintf(range, sizeof(range), "bytes %" PRIu64 " to %" PRIu64, err->offset, last);
    }
    put_line(w, "range:", range, sizeof(range), false);
}

const char *error_text(pawl_error *err) {
    writer w = {.out = err->rendered, .size = sizeof(err->rendered)};
    err->rendered[0] = '\0';
    put_shown(&w, err->attempt, sizeof(err->attempt), true);
    put_line(&w, "path:", err->path, sizeof(err->path), false);
    put_line(&w, "entry:", err->entry, sizeof(err->entry), false);
    put_range_line(&w, err);
    put_line(&w, "expected:", err->expected, sizeof(err->expected), true);
    put_line(&w, "found:", err->found, sizeof(err->found), true);
    put_line(&w, "system:", err->system, sizeof(err->system), false);
    put_line(&w, "safe:", err->safe, sizeof(err->safe), true);
    put_line(&w, "next:", err->next, sizeof(err->next), true);
    return err->rendered;
}

static void add(char *out, size_t size, const char *before, const char *value) {
    size_t at = strlen(out);
    if (value[0] != '\0' && at + 1 < size) {
        (void)snprintf(out + at, size - at, "%s%s", before, value);
    }
}

void error_line(char *out, size_t size, const pawl_error *err) {
    char whole[sizeof(err->attempt) + sizeof(err->path) + sizeof(err->system) +
               sizeof(err->expected) + sizeof(err->found) + 64];
    whole[0] = '\0';
    add(whole, sizeof(whole), "", err->attempt);
    add(whole, sizeof(whole), ": ", err->path);
    add(whole, sizeof(whole), ": ", err->system);
    add(whole, sizeof(whole), "; expected ", err->expected);
    add(whole, sizeof(whole), err->expected[0] != '\0' ? ", found " : "; found ", err->found);
    for (char *c = whole; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = ' ';
        }
    }
    if ((size_t)snprintf(out, size, "%s", whole) >= size) {
        text_cut(out, size);
    }
}

/* ---- for programs --------------------------------------------------------------------------- */

static void put_member(writer *w, const char *key, const char *value, size_t part_size) {
    if (value[0] == '\0') {
        return;
    }
    put_text(w, ",\"");
    put_text(w, key);
    put_text(w, "\":\"");
    size_t n = strlen(value);
    size_t end = w->at + part_size + ESCAPE_ROOM - 4;
    size_t at = 0;
    while (at < n) {
        char escaped[JSON_CHARACTER_BYTES];
        size_t taken;
        size_t length = json_character(escaped, value + at, n - at, &taken);
        if (w->at + length > end) {
            put_text(w, "...");
            break;
        }
        put(w, escaped, length);
        at += taken;
    }
    put_text(w, "\"");
}

static void put_number(writer *w, const char *key, uint64_t number) {
    char member[64];
    snprintf(member, sizeof(member), ",\"%s\":%" PRIu64, key, number);
    put_text(w, member);
}

const char *error_json(pawl_error *err) {
    writer w = {.out = err->rendered, .size = sizeof(err->rendered)};
    err->rendered[0] = '\0';
    put_text(&w, "{\"status\":\"");
    put_text(&w, pawl_status_name(err->status));
    put_text(&w, "\"");
    put_member(&w, "attempt", err->attempt, sizeof(err->attempt));
    put_member(&w, "path", err->path, sizeof(err->path));
    put_member(&w, "entry", err->entry, sizeof(err->entry));
    if (err->step >= 0) {
        put_number(&w, "step", (uint64_t)err->step);
    }
    if (err->has_range) {
        put_number(&w, "offset", err->offset);
        put_number(&w, "length", err->length);
    }
    put_member(&w, "expected", err->expected, sizeof(err->expected));
    put_member(&w, "found", err->found, sizeof(err->found));
    if (err->system_errno > 0) {
        put_number(&w, "errno", (uint64_t)err->system_errno);
    }
    put_member(&w, "system", err->system, sizeof(err->system));
    put_member(&w, "safe", err->safe, sizeof(err->safe));
    put_member(&w, "next", err->next, sizeof(err->next));
    put_text(&w, "}");
    return err->rendered;
}
