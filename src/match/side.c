/* SPDX-License-Identifier: Apache-2.0 */
/* Writes values and tensors as text for a report, and compares values. */
#include "match/side.h"
#include "base/json.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

side side_of_state(const state_entry *e) {
    return (side){.kind = e->kind,
                  .per_rank = e->per_rank,
                  .dtype = e->dtype,
                  .ndim = e->ndim,
                  .shape = e->shape,
                  .value = e->value,
                  .value_bytes = e->value_bytes};
}

side side_of_record(const record_entry *e) {
    return (side){.kind = e->kind,
                  .per_rank = e->per_rank,
                  .dtype = e->dtype,
                  .type = e->type,
                  .ndim = e->ndim,
                  .shape = e->shape,
                  .value = e->value,
                  .value_bytes = e->value_bytes};
}

static uint64_t load_u64le(const uint8_t *bytes) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) {
        v = v << 8 | bytes[i];
    }
    return v;
}

static double load_f64le(const uint8_t *bytes) {
    uint64_t bits = load_u64le(bytes);
    double v = 0;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* As much of the text as fits, made one harmless line; in quotes if `quoted`. */
static void line_text(char *out, size_t size, const char *text, size_t n, bool quoted) {
    size_t room = size - 6; /* a quote, "...", a quote and the NUL */
    size_t length = 0;
    size_t at = 0;
    if (quoted) {
        out[length++] = '"';
    }
    while (at < n) {
        char character[JSON_CHARACTER_BYTES];
        size_t taken = 1;
        size_t bytes = json_character(character, text + at, n - at, &taken);
        if (!quoted && (text[at] == '"' || text[at] == '\\')) {
            character[0] = text[at];
            bytes = 1;
        } else if (!quoted && (unsigned char)text[at] < 0x20) {
            character[0] = ' ';
            bytes = 1;
        }
        if (length + bytes > room) {
            memcpy(out + length, "...", 3);
            length += 3;
            break;
        }
        memcpy(out + length, character, bytes);
        length += bytes;
        at += taken;
    }
    if (quoted) {
        out[length++] = '"';
    }
    out[length] = '\0';
}

/* The digits of a float32 where it was one, and they are fewer. */
static void float_text(char *out, double v, bool exact) {
    char single[DOUBLE_CHARS];
    text_double(out, v);
    if (!exact && strchr(out, '.') != NULL && fabs(v) <= (double)FLT_MAX && (double)(float)v == v &&
        strlen(text_single(single, (float)v)) + 4 <= strlen(out)) {
        memcpy(out, single, strlen(single) + 1);
    }
}

static void value_text(char *out, size_t size, const side *s) {
    const char *text = (const char *)s->value;
    switch (s->kind) {
    case PAWL_KIND_BOOL:
        snprintf(out, size, "%s", s->value[0] != 0 ? "true" : "false");
        break;
    case PAWL_KIND_INT64:
        snprintf(out, size, "%" PRId64, (int64_t)load_u64le(s->value));
        break;
    case PAWL_KIND_FLOAT64:
        float_text(out, load_f64le(s->value), s->exact);
        break;
    case PAWL_KIND_STRING:
        line_text(out, size, text, s->value_bytes, true);
        break;
    case PAWL_KIND_JSON:
        line_text(out, size, text, s->value_bytes, false);
        break;
    default:
        text_bytes(out, s->value_bytes);
    }
}

/* Room for the words around a value. */
#define VALUE_BYTES (SIDE_BYTES - 32)

const char *side_text(char out[SIDE_BYTES], const side *s, bool with_kind) {
    char text[VALUE_BYTES];
    bool shown = with_kind && s->kind != PAWL_KIND_BYTES; /* "3 bytes" says it */
    const char *kind = shown ? pawl_kind_name(s->kind) : "";
    const char *space = shown ? " " : "";
    if (s->kind == PAWL_KIND_TENSOR) {
        shape_text(text, sizeof(text), s->ndim, s->shape);
        snprintf(out, SIDE_BYTES, "%s%s%s %s", kind, space, text,
                 s->type != NULL ? s->type : pawl_dtype_name(s->dtype));
    } else if (s->per_rank) {
        snprintf(out, SIDE_BYTES, "%s for each rank", pawl_kind_name(s->kind));
    } else if (s->value == NULL) {
        snprintf(out, SIDE_BYTES, "%s", pawl_kind_name(s->kind));
    } else {
        value_text(text, sizeof(text), s);
        snprintf(out, SIDE_BYTES, "%s%s%s", kind, space, text);
    }
    return out;
}

int side_first_difference(int a_ndim, const int64_t *a, int b_ndim, const int64_t *b) {
    for (int d = 0; a_ndim == b_ndim && d < a_ndim; d++) {
        if (a[d] != b[d]) {
            return d;
        }
    }
    return -1;
}

static bool same_bytes(const side *a, const side *b) {
    return a->value_bytes == b->value_bytes &&
           (a->value_bytes == 0 || memcmp(a->value, b->value, a->value_bytes) == 0);
}

bool side_values_equal(const side *a, const side *b) {
    if (a->value == NULL || b->value == NULL) {
        return a->value == b->value;
    }
    if (same_bytes(a, b)) {
        return true;
    }
    if (a->kind == PAWL_KIND_JSON) {
        return json_same(a->value, a->value_bytes, b->value, b->value_bytes);
    }
    return a->kind == PAWL_KIND_FLOAT64 && load_f64le(a->value) == load_f64le(b->value);
}
