/* SPDX-License-Identifier: Apache-2.0 */
/* The check of gradients against variables (J05): names, dtypes, shapes, and no NaN or infinity. */
#include "api/api.h"
#include "tensor/tensor.h"

#include <pawl/check.h>

#include <string.h>

/* ---- elements that are not finite ---- */

/* How NaN and infinity look in the bits of an element, little-endian. */
typedef struct float_bits {
    int bytes;
    uint64_t exponent; /* all of these set: infinity, or NaN when a mantissa bit is set too */
    uint64_t mantissa;
    uint64_t
        only_nan; /* without infinities: NaN is exactly this, after the sign when `signed_nan` */
    bool has_infinity, signed_nan;
} float_bits;

static bool float_bits_of(pawl_dtype dtype, float_bits *out) {
    switch (dtype) {
    case PAWL_F64:
        *out = (float_bits){8, 0x7ff0000000000000u, 0x000fffffffffffffu, 0, true, false};
        return true;
    case PAWL_F32:
    case PAWL_C64:
        *out = (float_bits){4, 0x7f800000u, 0x007fffffu, 0, true, false};
        return true;
    case PAWL_F16:
        *out = (float_bits){2, 0x7c00u, 0x03ffu, 0, true, false};
        return true;
    case PAWL_BF16:
        *out = (float_bits){2, 0x7f80u, 0x007fu, 0, true, false};
        return true;
    case PAWL_F8_E5M2:
        *out = (float_bits){1, 0x7cu, 0x03u, 0, true, false};
        return true;
    case PAWL_F8_E4M3:
        *out = (float_bits){1, 0, 0, 0x7fu, false, true};
        return true;
    case PAWL_F8_E8M0:
        *out = (float_bits){1, 0, 0, 0xffu, false, false};
        return true;
    case PAWL_F8_E4M3FNUZ:
    case PAWL_F8_E5M2FNUZ:
        *out = (float_bits){1, 0, 0, 0x80u, false, false};
        return true;
    default:
        return false; /* integers, and floats that have neither */
    }
}

typedef struct census {
    uint64_t nans, infinities, first;
} census;

static void count_element(census *c, const float_bits *f, uint64_t bits, uint64_t index) {
    bool nan = false;
    bool infinity = false;
    if (f->has_infinity) {
        bool special = (bits & f->exponent) == f->exponent;
        nan = special && (bits & f->mantissa) != 0;
        infinity = special && !nan;
    } else {
        nan = (f->signed_nan ? bits & 0x7fu : bits) == f->only_nan;
    }
    if ((nan || infinity) && c->nans + c->infinities == 0) {
        c->first = index;
    }
    c->nans += nan;
    c->infinities += infinity;
}

static census count_special(const void *data, uint64_t elements, const float_bits *f) {
    census c = {0};
    const uint8_t *at = data;
    for (uint64_t i = 0; i < elements; i++) {
        uint64_t bits = 0;
        memcpy(&bits, at, (size_t)f->bytes);
        count_element(&c, f, bits, i);
        at += f->bytes;
    }
    return c;
}

static pawl_status check_finite(const pawl_array *gradient, pawl_error *err) {
    float_bits f;
    uint64_t parts = gradient->dtype == PAWL_C64 ? 2 : 1;
    if (gradient->data == NULL || !float_bits_of(gradient->dtype, &f)) {
        return PAWL_OK; /* it has no elements: check_pair refuses other arrays without data */
    }
    uint64_t elements = shape_elements(gradient->ndim, gradient->shape);
    census c = count_special(gradient->data, elements * parts, &f);
    if (c.nans + c.infinities == 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EMISMATCH, "the gradient of `%s` is not finite: %s at element %llu",
              gradient->name, c.nans > 0 ? "NaN" : "infinity",
              (unsigned long long)(c.first / parts));
    if (c.nans > 0 && c.infinities > 0) {
        error_set(err, PAWL_EMISMATCH,
                  "the gradient of `%s` is not finite: NaN and infinity, first at element %llu",
                  gradient->name, (unsigned long long)(c.first / parts));
    }
    error_entry(err, gradient->name);
    error_expected(err, "%llu finite elements", (unsigned long long)elements);
    error_found(err, "%llu NaN, %llu infinite", (unsigned long long)c.nans,
                (unsigned long long)c.infinities);
    error_next(err,
               "leave out this step, or go back to the last checkpoint with a smaller learning "
               "rate; look at this batch for NaN, division by zero or overflow");
    return PAWL_EMISMATCH;
}

/* ---- pairs ---- */

static pawl_status check_pair_array(const pawl_array *a, const char *what, size_t i,
                                    pawl_error *err) {
    if (a->name == NULL || a->name[0] == '\0') {
        return error_set(err, PAWL_EUSAGE, "%s %zu has no name", what, i);
    }
    if (a->instead != NULL) {
        error_set(err, PAWL_EUSAGE, "%s `%s` is %.100s, no array", what, a->name, a->instead);
        error_entry(err, a->name);
        return PAWL_EUSAGE;
    }
    if (a->ndim > 0 && a->shape == NULL) {
        error_set(err, PAWL_EUSAGE, "%s `%s` has no shape", what, a->name);
        error_entry(err, a->name);
        return PAWL_EUSAGE;
    }
    pawl_status status = shape_check(a->dtype, a->ndim, a->shape, NULL, NULL, err);
    if (status != PAWL_OK) {
        error_wrap(err, "%s `%s`", what, a->name);
        error_entry(err, a->name);
    }
    return status;
}

static pawl_status check_arrays(const pawl_array *arrays, size_t count, const char *what,
                                pawl_error *err) {
    for (size_t i = 0; i < count; i++) {
        TRY(check_pair_array(&arrays[i], what, i, err));
    }
    return PAWL_OK;
}

/* The first name that `among` lacks; NULL: it has all. Usually both are in the same order, so that
 * is tried first. */
static const char *without_partner(const pawl_array *of, size_t count, const pawl_array *among,
                                   size_t among_count) {
    for (size_t i = 0; i < count; i++) {
        bool found = i < among_count && strcmp(of[i].name, among[i].name) == 0;
        for (size_t j = 0; j < among_count && !found; j++) {
            found = strcmp(of[i].name, among[j].name) == 0;
        }
        if (!found) {
            return of[i].name;
        }
    }
    return NULL;
}

static pawl_status unpaired(const char *variable, const char *gradient, size_t variable_count,
                            size_t gradient_count, pawl_error *err) {
    if (variable != NULL) {
        error_set(err, PAWL_EMISMATCH, "the variable `%s` has no gradient", variable);
        error_next(err,
                   "is it used by the loss? Freeze it by leaving it out of both lists, or give "
                   "it a gradient of zeros");
    } else {
        error_set(err, PAWL_EMISMATCH, "the gradient of `%s` has no variable", gradient);
        error_next(err, "give the optimizer the variables that the gradients were taken of");
    }
    error_entry(err, variable != NULL ? variable : gradient);
    error_expected(err, "%zu %s for %zu %s", variable_count,
                   text_noun(variable_count, "gradient", "gradients"), variable_count,
                   text_noun(variable_count, "variable", "variables"));
    error_found(err, "%zu %s", gradient_count, text_noun(gradient_count, "gradient", "gradients"));
    return PAWL_EMISMATCH;
}

static pawl_status check_names(const pawl_array *variables, size_t variable_count,
                               const pawl_array *gradients, size_t gradient_count,
                               pawl_error *err) {
    const char *variable = without_partner(variables, variable_count, gradients, gradient_count);
    const char *gradient = without_partner(gradients, gradient_count, variables, variable_count);
    if (variable != NULL || gradient != NULL || variable_count != gradient_count) {
        if (variable == NULL && gradient == NULL) {
            error_set(err, PAWL_EMISMATCH, "%zu %s for %zu %s: a name is repeated", gradient_count,
                      text_noun(gradient_count, "gradient", "gradients"), variable_count,
                      text_noun(variable_count, "variable", "variables"));
            error_expected(err, "one gradient for each variable");
            error_found(err, "%zu %s", gradient_count,
                        text_noun(gradient_count, "gradient", "gradients"));
            return PAWL_EMISMATCH;
        }
        return unpaired(variable, gradient, variable_count, gradient_count, err);
    }
    for (size_t i = 0; i < variable_count; i++) {
        if (strcmp(variables[i].name, gradients[i].name) != 0) {
            error_set(err, PAWL_EMISMATCH, "gradient %zu is that of `%s`, variable %zu is `%s`", i,
                      gradients[i].name, i, variables[i].name);
            error_entry(err, variables[i].name);
            error_expected(err, "gradients in the order of the variables");
            error_found(err, "another order");
            error_next(err, "bring both lists into the same order");
            return PAWL_EMISMATCH;
        }
    }
    return PAWL_OK;
}

static pawl_status show_both(const pawl_array *variable, const pawl_array *gradient,
                             pawl_error *err) {
    char shape[256];
    error_entry(err, variable->name);
    error_expected(err, "%s %s, as the variable", pawl_dtype_name(variable->dtype),
                   shape_text(shape, sizeof(shape), variable->ndim, variable->shape));
    error_found(err, "%s %s", pawl_dtype_name(gradient->dtype),
                shape_text(shape, sizeof(shape), gradient->ndim, gradient->shape));
    return PAWL_EMISMATCH;
}

static pawl_status check_pair(const pawl_array *variable, const pawl_array *gradient,
                              pawl_error *err) {
    char wanted[256];
    char found[256];
    shape_text(wanted, sizeof(wanted), variable->ndim, variable->shape);
    shape_text(found, sizeof(found), gradient->ndim, gradient->shape);
    if (!shape_equal(variable->ndim, variable->shape, gradient->ndim, gradient->shape)) {
        error_set(err, PAWL_EMISMATCH, "the gradient of `%s` has shape %s, the variable %s",
                  variable->name, found, wanted);
        error_next(err,
                   "was the model rebuilt without the optimizer, or the gradient reduced over a "
                   "wrong dimension?");
        return show_both(variable, gradient, err);
    }
    if (variable->dtype != gradient->dtype) {
        error_set(err, PAWL_EMISMATCH, "the gradient of `%s` has dtype %s, the variable %s",
                  variable->name, pawl_dtype_name(gradient->dtype),
                  pawl_dtype_name(variable->dtype));
        error_next(err, "convert the gradient before it is applied");
        return show_both(variable, gradient, err);
    }
    if (gradient->data == NULL && shape_elements(gradient->ndim, gradient->shape) > 0) {
        error_set(err, PAWL_EMISMATCH, "the gradient of `%s` is missing: it is a null pointer",
                  variable->name);
        error_next(err, "is the variable used by the loss? Freeze it by leaving it out of both "
                        "lists, or give it a gradient of zeros");
        (void)show_both(variable, gradient, err);
        error_found(err, "a null pointer");
        return PAWL_EMISMATCH;
    }
    return check_finite(gradient, err);
}

static pawl_status check_gradients(const pawl_array *variables, size_t variable_count,
                                   const pawl_array *gradients, size_t gradient_count,
                                   size_t array_size, pawl_error *err) {
    static const char call[] = "pawl_check_gradients";
    CLEANUP(mem_free_pointer) void *known_variables = NULL;
    CLEANUP(mem_free_pointer) void *known_gradients = NULL;
    TRY(take_arrays(&variables, variable_count, array_size, &known_variables, call, "variables",
                    err));
    TRY(take_arrays(&gradients, gradient_count, array_size, &known_gradients, call, "gradients",
                    err));
    TRY(check_arrays(variables, variable_count, "variable", err));
    TRY(check_arrays(gradients, gradient_count, "gradient", err));
    TRY(check_names(variables, variable_count, gradients, gradient_count, err));
    for (size_t i = 0; i < variable_count; i++) {
        TRY(check_pair(&variables[i], &gradients[i], err));
    }
    return PAWL_OK;
}

pawl_status pawl_check_gradients(const pawl_array *variables, size_t variable_count,
                                 const pawl_array *gradients, size_t gradient_count,
                                 size_t array_size, pawl_error *err) {
    struct pawl_error story;
    return story_end(check_gradients(variables, variable_count, gradients, gradient_count,
                                     array_size, story_begin(&story)),
                     &story, err);
}
