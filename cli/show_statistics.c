/* SPDX-License-Identifier: Apache-2.0 */
/* pawl show, a tensor's statistics: one pass over all its values, slice by slice. */
#include "memory.h"
#include "numbers.h"
#include "show.h"
#include "signals.h"
#include "slices.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 4096 };

typedef struct statistics {
    uint64_t elements, nan, infinite;
    double least, most;
    char least_wide[8], most_wide[8]; /* I64 and U64: the exact elements */
    long double sum;                  /* of the finite values */
} statistics;

static void add_doubles(statistics *s, const double *numbers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double x = numbers[i];
        if (isnan(x)) {
            s->nan++;
            continue;
        }
        bool first = s->elements + i == s->nan;
        s->least = first || x < s->least ? x : s->least;
        s->most = first || x > s->most ? x : s->most;
        if (isinf(x)) {
            s->infinite++;
        } else {
            s->sum += (long double)x;
        }
    }
    s->elements += count;
}

static void add_64_bit_integers(statistics *s, pawl_dtype dtype, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *x = bytes + i * sizeof s->least_wide;
        bool first = s->elements + i == 0;
        if (first || numbers_below(dtype, x, s->least_wide)) {
            memcpy(s->least_wide, x, sizeof s->least_wide);
        }
        if (first || numbers_below(dtype, s->most_wide, x)) {
            memcpy(s->most_wide, x, sizeof s->most_wide);
        }
    }
}

static void add_to_statistics(statistics *s, pawl_dtype dtype, const char *bytes, uint64_t count) {
    double numbers[AT_ONCE];
    size_t size = numbers_size(dtype);
    for (uint64_t done = 0; done < count; done += AT_ONCE) {
        size_t n = count - done < AT_ONCE ? (size_t)(count - done) : AT_ONCE;
        if (numbers_wide(dtype)) {
            add_64_bit_integers(s, dtype, bytes + done * size, n);
        }
        numbers_widen(dtype, bytes + done * size, numbers, n);
        add_doubles(s, numbers, n);
    }
}

/* The first and the last `room` elements; `last` is a ring. */
typedef struct ends {
    char *first, *last;
    size_t room, size;
    uint64_t seen;
} ends;

static void add_ends(ends *e, const char *bytes, uint64_t count) {
    for (uint64_t i = 0; i < count && e->seen + i < e->room; i++) {
        memcpy(e->first + (e->seen + i) * e->size, bytes + i * e->size, e->size);
    }
    for (uint64_t i = count > e->room ? count - e->room : 0; i < count; i++) {
        memcpy(e->last + (e->seen + i) % e->room * e->size, bytes + i * e->size, e->size);
    }
    e->seen += count;
}

static void put_element(json *j, pawl_dtype dtype, const char *from) {
    char text[NUMBER_SIZE];
    double value = 0;
    if (dtype != PAWL_C64) {
        numbers_widen(dtype, from, &value, 1);
    }
    numbers_element(text, dtype, from, 0);
    if (dtype == PAWL_C64 || !isfinite(value)) {
        json_put_text(j, NULL, text);
    } else {
        json_put_raw(j, NULL, text);
    }
}

static void put_ends(json *j, const tensor_ref *t, const ends *e) {
    uint64_t n = e->seen < e->room ? e->seen : e->room;
    json_begin_array(j, "first", JSON_INLINE);
    for (uint64_t i = 0; i < n; i++) {
        put_element(j, t->dtype, e->first + i * e->size);
    }
    json_close(j);
    json_begin_array(j, "last", JSON_INLINE);
    for (uint64_t i = e->seen - n; i < e->seen; i++) {
        put_element(j, t->dtype, e->last + i % e->room * e->size);
    }
    json_close(j);
}

static double mean_of_finite(const statistics *s) {
    uint64_t finite = s->elements - s->nan - s->infinite;
    return finite > 0 ? (double)(s->sum / (long double)finite) : NAN;
}

/* Digits for people; all digits of integers. */
static int shown_digits(pawl_dtype dtype) {
    return numbers_digits(dtype) == EXACT_DIGITS && dtype != PAWL_F64 ? EXACT_DIGITS : SHOWN_DIGITS;
}

/* The least or the largest value as text. */
static const char *extreme_text(char out[NUMBER_SIZE], pawl_dtype dtype, double value,
                                const char *wide, int digits) {
    return numbers_wide(dtype) ? numbers_element(out, dtype, wide, 0)
                               : number_text(out, value, digits);
}

static void put_extreme(json *j, const char *key, pawl_dtype dtype, double value,
                        const char *wide) {
    char text[NUMBER_SIZE];
    if (numbers_wide(dtype)) {
        json_put_raw(j, key, numbers_element(text, dtype, wide, 0));
    } else {
        json_put_number(j, key, value, numbers_digits(dtype));
    }
}

static void put_statistics_json(json *j, const tensor_ref *t, const statistics *s, const ends *e) {
    json_begin_object(j, "numbers", JSON_LINES);
    json_put_bool(j, "magnitudes", t->dtype == PAWL_C64);
    json_put_uint(j, "elements", s->elements);
    json_put_uint(j, "nan", s->nan);
    json_put_uint(j, "infinite", s->infinite);
    if (s->elements > s->nan) {
        put_extreme(j, "min", t->dtype, s->least, s->least_wide);
        put_extreme(j, "max", t->dtype, s->most, s->most_wide);
    } else {
        json_put_null(j, "min");
        json_put_null(j, "max");
    }
    if (s->elements > s->nan + s->infinite) {
        json_put_number(j, "mean", mean_of_finite(s), EXACT_DIGITS);
    } else {
        json_put_null(j, "mean");
    }
    put_ends(j, t, e);
    json_close(j);
}

static void print_statistics(output *out, const tensor_ref *t, const statistics *s) {
    char text[NUMBER_SIZE];
    pawl_dtype dtype = t->dtype;
    const char *of = dtype == PAWL_C64 ? " (of the magnitudes)" : "";
    int digits = shown_digits(dtype);
    if (s->elements > s->nan) {
        output_field(out, "min", "%s%s", extreme_text(text, dtype, s->least, s->least_wide, digits),
                     of);
        output_field(out, "max", "%s%s", extreme_text(text, dtype, s->most, s->most_wide, digits),
                     of);
    }
    if (s->elements > s->nan + s->infinite) {
        output_field(out, "mean", "%s%s%s", number_text(text, mean_of_finite(s), SHOWN_DIGITS), of,
                     s->infinite > 0 ? " (of the finite values)" : "");
    }
    output_field(out, "NaN", "%" PRIu64 " of %" PRIu64, s->nan, s->elements);
    output_field(out, "infinite", "%" PRIu64 " of %" PRIu64, s->infinite, s->elements);
}

static pawl_status read_tensor(output *out, pawl_checkpoint *checkpoint, const tensor_ref *t,
                               statistics *s, ends *e) {
    slices cut = slices_of(t->ndim, t->shape, SLICE_BYTES / e->size);
    uint64_t most = t->bytes < SLICE_BYTES ? t->bytes : SLICE_BYTES;
    SCOPED(scoped_free) char *bytes = must_alloc((size_t)most);
    progress_begin(&out->progress, "reading");
    while (slices_next(&cut)) {
        if (signals_caught()) {
            return PAWL_ECANCELED;
        }
        pawl_status status = pawl_checkpoint_read(checkpoint, t->name, cut.offset, cut.extent,
                                                  bytes, (size_t)cut.elements * e->size, out->err);
        if (status != PAWL_OK) {
            return status;
        }
        add_to_statistics(s, t->dtype, bytes, cut.elements);
        add_ends(e, bytes, cut.elements);
        progress_update(&out->progress, s->elements * e->size, t->bytes);
    }
    progress_hide(&out->progress);
    return PAWL_OK;
}

pawl_status show_statistics(output *out, pawl_checkpoint *checkpoint, const tensor_ref *t,
                            int64_t edge) {
    statistics s = {0};
    ends e = {.room = (size_t)edge, .size = numbers_size(t->dtype)};
    e.first = must_alloc(e.room * e.size);
    e.last = must_alloc(e.room * e.size);
    pawl_status status = read_tensor(out, checkpoint, t, &s, &e);
    if (status == PAWL_OK && out->as_json) {
        put_statistics_json(&out->json, t, &s, &e);
    } else if (status == PAWL_OK) {
        print_statistics(out, t, &s);
    }
    free(e.first);
    free(e.last);
    return status;
}
