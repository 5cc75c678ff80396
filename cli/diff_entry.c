/* SPDX-License-Identifier: Apache-2.0 */
/* pawl diff, one entry: kind, dtype, shape, role, value or numbers. */
#include "diff.h"
#include "memory.h"
#include "numbers.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Writes what one side has as the member `key`. */
typedef void (*put_side_fn)(json *j, const char *key, const pawl_entry_info *info);

static double mean_distance(const distances *d) {
    return d->finite > 0 ? (double)(d->sum / (long double)d->finite) : 0;
}

static void put_numbers(json *j, const distances *d) {
    if (d == NULL) {
        json_put_null(j, "numbers");
        return;
    }
    json_begin_object(j, "numbers", JSON_INLINE);
    json_put_uint(j, "elements", d->elements);
    json_put_uint(j, "differing", d->differing);
    json_put_uint(j, "nan_on_one_side", d->nan);
    json_put_number(j, "max_abs", d->max_abs, EXACT_DIGITS);
    json_put_number(j, "mean_abs", mean_distance(d), EXACT_DIGITS);
    json_put_bool(j, "compared", !d->uncompared);
    json_close(j);
}

static void put_side(json *j, const char *key, const pawl_entry_info *info, put_side_fn put) {
    if (info != NULL && put != NULL) {
        put(j, key, info);
    } else {
        json_put_null(j, key);
    }
}

/* One difference. As JSON, `put` adds the members "a" and "b"; NULL: both null. */
static void report_difference(comparison *c, const char *what, const pawl_entry_info *a,
                              const pawl_entry_info *b, put_side_fn put, const distances *d,
                              const char *detail) {
    const pawl_entry_info *either = a != NULL ? a : b;
    const char *name = either != NULL ? either->name : "";
    json *j = &c->out->json;
    if (c->table != NULL) {
        table_cell(c->table, "%s", what);
        table_cell(c->table, "%s", name);
        table_cell(c->table, "%s", detail);
        table_row(c->table);
        return;
    }
    json_begin_object(j, NULL, JSON_INLINE);
    json_put_text(j, "what", what);
    json_put_text(j, "name", name);
    put_side(j, "a", a, put);
    put_side(j, "b", b, put);
    put_numbers(j, d);
    json_put_text(j, "detail", detail);
    json_close(j);
}

/* ---- the sides of a difference as JSON ---- */

static char *type_text(const pawl_entry_info *info) {
    SCOPED(scoped_free) char *shape = entry_shape(info);
    return must_printf("%s%s%s", entry_type(info), *shape != '\0' ? " " : "", shape);
}

static char *role_text(const pawl_entry_info *info) {
    return info->slot_of == NULL
               ? must_strdup(pawl_role_name(info->role))
               : must_printf("%s %s of %s", pawl_role_name(info->role),
                             info->slot != NULL ? info->slot : "?", info->slot_of);
}

static void put_type(json *j, const char *key, const pawl_entry_info *info) {
    SCOPED(scoped_free) char *text = type_text(info);
    json_put_text(j, key, text);
}

static void put_dtype(json *j, const char *key, const pawl_entry_info *info) {
    json_put_text(j, key, entry_type(info));
}

static void put_shape(json *j, const char *key, const pawl_entry_info *info) {
    entry_json_shape(j, key, info->ndim, info->shape);
}

static void put_role(json *j, const char *key, const pawl_entry_info *info) {
    SCOPED(scoped_free) char *text = role_text(info);
    json_put_text(j, key, text);
}

/* ---- comparing ---- */

static void report_pair(comparison *c, const char *what, const pawl_entry_info *a,
                        const pawl_entry_info *b, put_side_fn put, const char *text_a,
                        const char *text_b) {
    SCOPED(scoped_free) char *detail = must_printf("%s -> %s", text_a, text_b);
    report_difference(c, what, a, b, put, NULL, detail);
}

/* Each of these returns whether the two agree, after reporting a difference. */
static bool same_kind(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b) {
    if (a->kind == b->kind && !a->per_rank == !b->per_rank) {
        return true;
    }
    SCOPED(scoped_free) char *text_a = type_text(a);
    SCOPED(scoped_free) char *text_b = type_text(b);
    const char *ranks_a = a->per_rank ? " per rank" : "";
    const char *ranks_b = b->per_rank ? " per rank" : "";
    SCOPED(scoped_free)
    char *detail = must_printf("%s%s -> %s%s", text_a, ranks_a, text_b, ranks_b);
    report_difference(c, "kind", a, b, put_type, NULL, detail);
    return false;
}

static bool same_dtype(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b) {
    if (a->kind != PAWL_KIND_TENSOR || strcmp(entry_type(a), entry_type(b)) == 0) {
        return true;
    }
    report_pair(c, "dtype", a, b, put_dtype, entry_type(a), entry_type(b));
    return false;
}

static bool same_shape(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b) {
    if (a->kind != PAWL_KIND_TENSOR ||
        (a->ndim == b->ndim &&
         (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0))) {
        return true;
    }
    SCOPED(scoped_free) char *text_a = text_shape(a->ndim, a->shape);
    SCOPED(scoped_free) char *text_b = text_shape(b->ndim, b->shape);
    report_pair(c, "shape", a, b, put_shape, text_a, text_b);
    return false;
}

static bool same_role(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b) {
    SCOPED(scoped_free) char *text_a = role_text(a);
    SCOPED(scoped_free) char *text_b = role_text(b);
    if (strcmp(text_a, text_b) == 0) {
        return true;
    }
    report_pair(c, "role", a, b, put_role, text_a, text_b);
    return false;
}

static bool same_value(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b) {
    bool hyperparameter =
        a->role == PAWL_ROLE_HYPERPARAMETER || b->role == PAWL_ROLE_HYPERPARAMETER;
    if (a->value == NULL || b->value == NULL || (c->structure && !hyperparameter)) {
        return true;
    }
    if (a->bytes == b->bytes && memcmp(a->value, b->value, (size_t)a->bytes) == 0) {
        return true;
    }
    SCOPED(scoped_free) char *text_a = entry_value(a, c->out->value_columns);
    SCOPED(scoped_free) char *text_b = entry_value(b, c->out->value_columns);
    report_pair(c, hyperparameter ? "hyperparameter" : "value", a, b, entry_json_value, text_a,
                text_b);
    return false;
}

static char *numbers_text(const tensor_ref *t, const distances *d) {
    char max[NUMBER_SIZE];
    char mean[NUMBER_SIZE];
    char nan[TEXT_SIZE];
    if (d->uncompared && t->dtype == (pawl_dtype)0) {
        return must_strdup("not compared: pawl does not know this type");
    }
    if (d->uncompared) {
        return must_printf("not compared: a packed tensor of %" PRIu64 " bytes", t->bytes);
    }
    if (!numbers_known(t->dtype)) {
        return must_printf("%" PRIu64 " of %" PRIu64 " bytes differ", d->differing, d->elements);
    }
    snprintf(nan, sizeof nan, ", %" PRIu64 " NaN on one side", d->nan);
    return must_printf("%" PRIu64 " of %" PRIu64 " differ, by at most %s, mean %s%s", d->differing,
                       d->elements, number_text(max, d->max_abs, SHOWN_DIGITS),
                       number_text(mean, mean_distance(d), SHOWN_DIGITS), d->nan > 0 ? nan : "");
}

static pawl_status compare_numbers(comparison *c, const pawl_entry_info *a,
                                   const pawl_entry_info *b, const tensor_bytes *bytes,
                                   bool *same) {
    distances d;
    SCOPED(tensor_ref_free) tensor_ref t = tensor_ref_of(a);
    pawl_status status = diff_numbers(c, &t, bytes, &d);
    if (status != PAWL_OK || (d.differing == 0 && !d.uncompared)) {
        return status;
    }
    SCOPED(scoped_free) char *detail = numbers_text(&t, &d);
    report_difference(c, "numbers", a, b, NULL, &d, detail);
    c->max_abs = d.max_abs > c->max_abs ? d.max_abs : c->max_abs;
    c->uncompared += d.uncompared;
    *same = false;
    return PAWL_OK;
}

/* `*bytes` and `*size` are left alone for a rank that the checkpoint does not have; so is the
 * error, which may have been filled by what comes after this entry. */
static pawl_status read_rank(comparison *c, pawl_checkpoint *from, const char *name, int rank,
                             char **bytes, size_t *size) {
    pawl_status status = entry_read_rank(from, name, rank, SIZE_MAX, bytes, size, NULL);
    if (status == PAWL_OK || status == PAWL_ENOTFOUND) {
        return PAWL_OK;
    }
    return entry_read_rank(from, name, rank, SIZE_MAX, bytes, size, c->out->err);
}

static pawl_status compare_ranks(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b,
                                 bool *same) {
    int differing = 0;
    for (int rank = 0; rank < c->world_size; rank++) {
        SCOPED(scoped_free) char *bytes_a = NULL;
        SCOPED(scoped_free) char *bytes_b = NULL;
        size_t size_a = SIZE_MAX;
        size_t size_b = SIZE_MAX;
        pawl_status status = read_rank(c, c->a, a->name, rank, &bytes_a, &size_a);
        if (status == PAWL_OK) {
            status = read_rank(c, c->b, b->name, rank, &bytes_b, &size_b);
        }
        if (status != PAWL_OK) {
            return status;
        }
        bool equal =
            size_a == size_b && (size_a == SIZE_MAX || memcmp(bytes_a, bytes_b, size_a) == 0);
        differing += !equal;
    }
    if (differing > 0) {
        SCOPED(scoped_free)
        char *detail = must_printf("differs on %d of %d ranks", differing, c->world_size);
        report_difference(c, "value", a, b, NULL, NULL, detail);
        *same = false;
    }
    return PAWL_OK;
}

pawl_status diff_entry(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b,
                       const tensor_bytes *bytes) {
    bool same = same_kind(c, a, b);
    pawl_status status = PAWL_OK;
    if (same) {
        bool dtype = same_dtype(c, a, b);
        bool shape = same_shape(c, a, b);
        bool role = same_role(c, a, b);
        bool value = same_value(c, a, b);
        same = dtype && shape && role && value;
        if (a->per_rank && !c->structure) {
            status = compare_ranks(c, a, b, &same);
        } else if (a->kind == PAWL_KIND_TENSOR && dtype && shape && !c->structure) {
            status = compare_numbers(c, a, b, bytes, &same);
        }
    }
    c->same += same;
    c->different += !same;
    return status;
}

void diff_lone_entry(comparison *c, const pawl_entry_info *info, bool in_a) {
    SCOPED(scoped_free) char *type = type_text(info);
    SCOPED(scoped_free) char *value = entry_value(info, c->out->value_columns);
    SCOPED(scoped_free)
    char *detail = must_printf("%s%s%s", type, *value != '\0' ? ": " : "", value);
    c->only_a += in_a;
    c->only_b += !in_a;
    const char *what =
        c->table == NULL ? (in_a ? "only_a" : "only_b") : (in_a ? "only in A" : "only in B");
    report_difference(c, what, in_a ? info : NULL, in_a ? NULL : info, put_type, NULL, detail);
}
