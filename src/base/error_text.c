/* SPDX-License-Identifier: Apache-2.0 */
/* Renders an error: lines for people, one JSON object for programs. Allocates nothing. */
#include "base/base.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Escapes may make a part grow this far, then it is cut. All parts at their longest, with the words
 * around them, fit `rendered`. */
#define ESCAPE_ROOM ((size_t)64)

typedef struct writer {
    char *out;
    size_t size, at;
} writer;

static void writer_put(writer *w, const char *text, size_t n) {
    assert(n < w->size - w->at);
    memcpy(w->out + w->at, text, n);
    w->at += n;
    w->out[w->at] = '\0';
}

static void writer_put_text(writer *w, const char *text) {
    writer_put(w, text, strlen(text));
}

/* ---- for people ----------------------------------------------------------------------------- */

static void put_shown(writer *w, const char *text, size_t part_size) {
    size_t n = strlen(text);
    size_t end = w->at + part_size + ESCAPE_ROOM - 4;
    for (size_t at = 0, taken = 0; at < n; at += taken) {
        char shown[SHOWN_CHARACTER_BYTES];
        size_t length = text_shown_character(shown, text + at, n - at, &taken);
        if (w->at + length > end) {
            writer_put_text(w, "...");
            return;
        }
        writer_put(w, shown, length);
    }
}

static void put_line(writer *w, const char *label, const char *value, size_t part_size) {
    if (value[0] == '\0') {
        return;
    }
    char head[32];
    snprintf(head, sizeof(head), "\n  %-10s", label);
    writer_put_text(w, head);
    put_shown(w, value, part_size);
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
    put_line(w, "range:", range, sizeof(range));
}

const char *error_text(pawl_error *err) {
    writer w = {.out = err->rendered, .size = sizeof(err->rendered)};
    err->rendered[0] = '\0';
    put_shown(&w, err->attempt, sizeof(err->attempt));
    put_line(&w, "path:", err->path, sizeof(err->path));
    put_line(&w, "entry:", err->entry, sizeof(err->entry));
    put_range_line(&w, err);
    put_line(&w, "expected:", err->expected, sizeof(err->expected));
    put_line(&w, "found:", err->found, sizeof(err->found));
    put_line(&w, "system:", err->system, sizeof(err->system));
    put_line(&w, "safe:", err->safe, sizeof(err->safe));
    put_line(&w, "next:", err->next, sizeof(err->next));
    return err->rendered;
}

static void append_part(char *out, size_t size, const char *before, const char *value) {
    size_t at = strlen(out);
    if (value[0] != '\0' && at + 1 < size) {
        (void)snprintf(out + at, size - at, "%s%s", before, value);
    }
}

void error_line(char *out, size_t size, const pawl_error *err) {
    char whole[sizeof(err->attempt) + sizeof(err->path) + sizeof(err->system) +
               sizeof(err->expected) + sizeof(err->found) + 64];
    whole[0] = '\0';
    append_part(whole, sizeof(whole), "", err->attempt);
    append_part(whole, sizeof(whole), ": ", err->path);
    append_part(whole, sizeof(whole), ": ", err->system);
    append_part(whole, sizeof(whole), "; expected ", err->expected);
    append_part(whole, sizeof(whole), err->expected[0] != '\0' ? ", found " : "; found ",
                err->found);
    text_shown(out, size, whole);
}

/* ---- for programs --------------------------------------------------------------------------- */

static void put_member(writer *w, const char *key, const char *value, size_t part_size) {
    if (value[0] == '\0') {
        return;
    }
    writer_put_text(w, ",\"");
    writer_put_text(w, key);
    writer_put_text(w, "\":\"");
    size_t n = strlen(value);
    size_t end = w->at + part_size + ESCAPE_ROOM - 4;
    size_t at = 0;
    while (at < n) {
        char escaped[JSON_CHARACTER_BYTES];
        size_t taken;
        size_t length = json_character(escaped, value + at, n - at, &taken);
        if (w->at + length > end) {
            writer_put_text(w, "...");
            break;
        }
        writer_put(w, escaped, length);
        at += taken;
    }
    writer_put_text(w, "\"");
}

static void put_number_member(writer *w, const char *key, uint64_t number) {
    char member[64];
    snprintf(member, sizeof(member), ",\"%s\":%" PRIu64, key, number);
    writer_put_text(w, member);
}

const char *error_json(pawl_error *err) {
    writer w = {.out = err->rendered, .size = sizeof(err->rendered)};
    err->rendered[0] = '\0';
    writer_put_text(&w, "{\"status\":\"");
    writer_put_text(&w, pawl_status_name(err->status));
    writer_put_text(&w, "\"");
    put_member(&w, "attempt", err->attempt, sizeof(err->attempt));
    put_member(&w, "path", err->path, sizeof(err->path));
    put_member(&w, "entry", err->entry, sizeof(err->entry));
    if (err->step >= 0) {
        put_number_member(&w, "step", (uint64_t)err->step);
    }
    if (err->has_range) {
        put_number_member(&w, "offset", err->offset);
        put_number_member(&w, "length", err->length);
    }
    put_member(&w, "expected", err->expected, sizeof(err->expected));
    put_member(&w, "found", err->found, sizeof(err->found));
    if (err->system_errno > 0) {
        put_number_member(&w, "errno", (uint64_t)err->system_errno);
    }
    put_member(&w, "system", err->system, sizeof(err->system));
    put_member(&w, "safe", err->safe, sizeof(err->safe));
    put_member(&w, "next", err->next, sizeof(err->next));
    writer_put_text(&w, "}");
    return err->rendered;
}
