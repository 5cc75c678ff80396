/* SPDX-License-Identifier: Apache-2.0 */
/* pawl diff, one difference: as a row of the table or as JSON. */
#include "cli.h"
#include "diff.h"
#include "entry.h"
#include "memory.h"
#include "numbers.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- what one side has, as text ---- */

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

static char *side_text(const output *out, pawl_diff_kind kind, const pawl_entry_info *info) {
    SCOPED(scoped_free) char *type = NULL;
    switch (kind) {
    case PAWL_DIFFERS_IN_DTYPE:
        return must_strdup(entry_type(info));
    case PAWL_DIFFERS_IN_SHAPE:
        return text_shape(info->ndim, info->shape);
    case PAWL_DIFFERS_IN_ROLE:
        return role_text(info);
    case PAWL_DIFFERS_IN_VALUE:
    case PAWL_DIFFERS_IN_HYPERPARAMETER:
        return entry_value(info, out->value_columns);
    default:
        type = type_text(info);
        return must_printf("%s%s", type, info->per_rank != 0 ? " per rank" : "");
    }
}

/* ---- details ---- */

static char *numbers_text(const pawl_entry_info *info, const pawl_distances *d, bool transposed) {
    char max[NUMBER_SIZE];
    char mean[NUMBER_SIZE];
    char nan[TEXT_SIZE];
    if (d->compared == 0 && info->dtype == (pawl_dtype)0) {
        return must_strdup("not compared: pawl does not know this type");
    }
    if (d->compared == 0 && transposed) {
        return must_strdup("not compared: a packed tensor that is to be transposed");
    }
    if (d->compared == 0) {
        return must_printf("not compared: a packed tensor of %" PRIu64 " bytes", info->bytes);
    }
    if (!numbers_known(info->dtype)) {
        return must_printf("%" PRIu64 " of %" PRIu64 " bytes differ", d->differing, d->elements);
    }
    snprintf(nan, sizeof nan, ", %" PRIu64 " NaN on one side", d->nan_on_one_side);
    return must_printf("%" PRIu64 " of %" PRIu64 " differ, by at most %s, mean %s%s", d->differing,
                       d->elements, number_text(max, d->max_abs, SHOWN_DIGITS),
                       number_text(mean, d->mean_abs, SHOWN_DIGITS),
                       d->nan_on_one_side > 0 ? nan : "");
}

static char *lone_text(const output *out, const pawl_entry_info *info) {
    SCOPED(scoped_free) char *type = type_text(info);
    SCOPED(scoped_free) char *value = entry_value(info, out->value_columns);
    return must_printf("%s%s%s", type, *value != '\0' ? ": " : "", value);
}

static char *detail_text(const output *out, const pawl_diff_item *d) {
    if (d->a == NULL || d->b == NULL) {
        return lone_text(out, d->a != NULL ? d->a : d->b);
    }
    if (d->distances != NULL) {
        return numbers_text(d->a, d->distances, d->transposed != 0);
    }
    if (d->of_ranks > 0) {
        return must_printf("differs on %d of %d ranks", d->ranks, d->of_ranks);
    }
    SCOPED(scoped_free) char *a = side_text(out, d->kind, d->a);
    SCOPED(scoped_free) char *b = side_text(out, d->kind, d->b);
    return must_printf("%s%s -> %s", a,
                       d->transposed != 0 && d->kind == PAWL_DIFFERS_IN_SHAPE ? " transposed" : "",
                       b);
}

/* ---- as JSON ---- */

static void put_type(json *j, const char *key, const pawl_entry_info *info) {
    SCOPED(scoped_free) char *text = type_text(info);
    json_put_text(j, key, text);
}

static void put_role(json *j, const char *key, const pawl_entry_info *info) {
    SCOPED(scoped_free) char *text = role_text(info);
    json_put_text(j, key, text);
}

static void put_side(json *j, const char *key, pawl_diff_kind kind, const pawl_entry_info *info) {
    if (info == NULL || kind == PAWL_DIFFERS_IN_NUMBERS) {
        json_put_null(j, key);
        return;
    }
    switch (kind) {
    case PAWL_DIFFERS_IN_DTYPE:
        json_put_text(j, key, entry_type(info));
        break;
    case PAWL_DIFFERS_IN_SHAPE:
        entry_json_shape(j, key, info->ndim, info->shape);
        break;
    case PAWL_DIFFERS_IN_ROLE:
        put_role(j, key, info);
        break;
    case PAWL_DIFFERS_IN_VALUE:
    case PAWL_DIFFERS_IN_HYPERPARAMETER:
        entry_json_value(j, key, info); /* null per rank */
        break;
    default:
        put_type(j, key, info);
    }
}

static void put_numbers(json *j, const pawl_distances *d) {
    if (d == NULL) {
        json_put_null(j, "numbers");
        return;
    }
    json_begin_object(j, "numbers", JSON_INLINE);
    json_put_uint(j, "elements", d->elements);
    json_put_uint(j, "differing", d->differing);
    json_put_uint(j, "nan_on_one_side", d->nan_on_one_side);
    json_put_number(j, "max_abs", d->max_abs, EXACT_DIGITS);
    json_put_number(j, "mean_abs", d->mean_abs, EXACT_DIGITS);
    json_put_bool(j, "compared", d->compared != 0);
    json_close(j);
}

static const char *kind_text(pawl_diff_kind kind) {
    return kind == PAWL_ONLY_IN_A   ? "only in A"
           : kind == PAWL_ONLY_IN_B ? "only in B"
                                    : pawl_diff_kind_name(kind);
}

void diff_show(output *out, table *rows, const pawl_diff_item *difference) {
    SCOPED(scoped_free) char *detail = detail_text(out, difference);
    if (rows != NULL) {
        table_cell(rows, "%s", kind_text(difference->kind));
        table_cell(rows, "%s", difference->name);
        table_cell(rows, "%s", detail);
        table_row(rows);
        return;
    }
    json *j = &out->json;
    json_begin_object(j, NULL, JSON_INLINE);
    json_put_text(j, "what", pawl_diff_kind_name(difference->kind));
    json_put_text(j, "name", difference->name);
    put_side(j, "a", difference->kind, difference->a);
    put_side(j, "b", difference->kind, difference->b);
    put_numbers(j, difference->distances);
    json_put_bool(j, "transposed", difference->transposed != 0);
    json_put_text(j, "detail", detail);
    json_close(j);
}
