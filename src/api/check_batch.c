/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch check (J01, J02): every later batch is compared with the first one, the signature.
 *
 * Compiled training steps have static shapes, so one smaller batch at the end of an epoch, or one
 * entry that changes its type, costs a compilation or the job. Here it is named before it reaches
 * the model.
 */
#include "api/api.h"

#include <pawl/check.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct batch_entry {
    const char *name;
    pawl_dtype dtype;
    int ndim;
    int64_t shape[PAWL_MAX_NDIM];
} batch_entry;

struct pawl_batch_check {
    batch_entry *entries; /* of the first batch, ascending by name; NULL before it */
    size_t count;
    uint64_t batches; /* seen so far */
    buffer signature;
    arena memory;
};

static pawl_status new_check(pawl_batch_check **check, pawl_error *err) {
    TRY(need(check, "pawl_batch_check_new", "check", err));
    *check = mem_calloc(1, sizeof(**check));
    return *check != NULL ? PAWL_OK : error_nomem(err, sizeof(**check));
}

pawl_status pawl_batch_check_new(pawl_batch_check **check, pawl_error *err) {
    struct pawl_error story;
    return story_end(new_check(check, story_begin(&story)), &story, err);
}

void pawl_batch_check_free(pawl_batch_check *check) {
    if (check != NULL) {
        mem_free(check->entries);
        buffer_free(&check->signature);
        arena_free(&check->memory);
        mem_free(check);
    }
}

/* ---- messages ---- */

/* "[64,224,224,3]" */
static const char *shape_words(char out[512], int ndim, const int64_t *shape) {
    size_t at = (size_t)snprintf(out, 512, "[");
    for (int i = 0; i < ndim && at < 480; i++) {
        at += (size_t)snprintf(out + at, 512 - at, "%s%lld", i > 0 ? "," : "", (long long)shape[i]);
    }
    snprintf(out + at, 512 - at, "]");
    return out;
}

static const char *dtype_words(pawl_dtype dtype) {
    const char *name = pawl_dtype_name(dtype);
    return name != NULL ? name : "no dtype";
}

static pawl_status other_shape(const pawl_batch_check *c, const pawl_array *found,
                               const batch_entry *first, const char *advice, pawl_error *err) {
    char found_shape[512];
    char first_shape[512];
    shape_words(found_shape, found->ndim, found->shape);
    shape_words(first_shape, first->ndim, first->shape);
    error_set(err, PAWL_EMISMATCH, "batch %llu `%s` has shape %s, the first had %s; %s",
              (unsigned long long)c->batches, first->name, found_shape, first_shape, advice);
    error_entry(err, first->name);
    error_expected(err, "%s", first_shape);
    error_found(err, "%s", found_shape);
    error_next(err, "%s", advice);
    return PAWL_EMISMATCH;
}

static pawl_status other_dtype(const pawl_batch_check *c, const pawl_array *found,
                               const batch_entry *first, pawl_error *err) {
    error_set(err, PAWL_EMISMATCH, "batch %llu `%s` has dtype %s, the first had %s; mend the input",
              (unsigned long long)c->batches, first->name, dtype_words(found->dtype),
              dtype_words(first->dtype));
    error_entry(err, first->name);
    error_expected(err, "%s", dtype_words(first->dtype));
    error_found(err, "%s", dtype_words(found->dtype));
    error_next(err, "mend the input: convert the entry, or find out why it changed");
    return PAWL_EMISMATCH;
}

static pawl_status missing_entry(const pawl_batch_check *c, const char *name, pawl_error *err) {
    error_set(err, PAWL_EMISMATCH, "batch %llu has no `%s`, the first had it; mend the input",
              (unsigned long long)c->batches, name);
    error_entry(err, name);
    error_expected(err, "the %zu %s of the first batch", c->count,
                   text_noun(c->count, "entry", "entries"));
    error_found(err, "no `%s`", name);
    error_next(err, "mend the input: every batch has the entries of the first");
    return PAWL_EMISMATCH;
}

static pawl_status extra_entry(const pawl_batch_check *c, const char *name, pawl_error *err) {
    error_set(err, PAWL_EMISMATCH, "batch %llu has `%s`, the first had not; mend the input",
              (unsigned long long)c->batches, name);
    error_entry(err, name);
    error_expected(err, "the %zu %s of the first batch", c->count,
                   text_noun(c->count, "entry", "entries"));
    error_found(err, "`%s` as well", name);
    error_next(err, "mend the input: every batch has the entries of the first");
    return PAWL_EMISMATCH;
}

/* ---- one batch by itself ---- */

static pawl_status no_array(const pawl_batch_check *c, const char *name, const char *what,
                            pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "batch %llu `%s` %s", (unsigned long long)c->batches, name, what);
    error_entry(err, name);
    error_next(err,
               "a batch is made of arrays of one dtype and one shape: pad what is ragged, turn "
               "text into numbers");
    return PAWL_EUSAGE;
}

static pawl_status check_batch_array(const pawl_batch_check *c, const pawl_array *a,
                                     pawl_error *err) {
    if (a->name == NULL || a->name[0] == '\0') {
        return error_set(err, PAWL_EUSAGE, "batch %llu has an entry without a name",
                         (unsigned long long)c->batches);
    }
    if (a->instead != NULL) {
        char what[128];
        snprintf(what, sizeof(what), "is %.100s", a->instead);
        return no_array(c, a->name, what, err);
    }
    if (pawl_dtype_name(a->dtype) == NULL) {
        return no_array(c, a->name, "has no dtype: it may be text, or ragged", err);
    }
    if (a->ndim > PAWL_MAX_NDIM) {
        (void)no_array(c, a->name, "has too many dimensions", err);
        error_expected(err, "at most %d (PAWL_MAX_NDIM)", PAWL_MAX_NDIM);
        error_found(err, "%d", a->ndim);
        err->status = PAWL_ELIMIT;
        return PAWL_ELIMIT;
    }
    if (a->ndim < 0 || (a->ndim > 0 && a->shape == NULL)) {
        return no_array(c, a->name, "has no shape: it may be ragged", err);
    }
    for (int i = 0; i < a->ndim; i++) {
        if (a->shape[i] < 0) {
            return no_array(c, a->name, "has a dimension of unknown size", err);
        }
    }
    return PAWL_OK;
}

static int compare_array_names(const void *a, const void *b) {
    return strcmp(((const pawl_array *)a)->name, ((const pawl_array *)b)->name);
}

/* A copy of the batch, ascending by name, each name once. */
static pawl_status sort_batch(const pawl_batch_check *c, const pawl_array *entries, size_t count,
                              pawl_array **out, pawl_error *err) {
    for (size_t i = 0; i < count; i++) {
        TRY(check_batch_array(c, &entries[i], err));
    }
    pawl_array *sorted = mem_calloc(count, sizeof(*sorted));
    if (sorted == NULL) {
        (void)error_nomem(err, count * sizeof(*sorted));
        return PAWL_ENOMEM;
    }
    *out = sorted;
    if (count > 0) {
        memcpy(sorted, entries, count * sizeof(*sorted));
        qsort(sorted, count, sizeof(*sorted), compare_array_names);
    }
    for (size_t i = 1; i < count; i++) {
        if (strcmp(sorted[i - 1].name, sorted[i].name) == 0) {
            return no_array(c, sorted[i].name, "is there more than once", err);
        }
    }
    return PAWL_OK;
}

/* ---- the first batch ---- */

static pawl_status refuse_f64(const pawl_batch_check *c, const pawl_array *a, pawl_error *err) {
    error_set(err, PAWL_EMISMATCH,
              "batch %llu `%s` has dtype F64; accelerators compute it slowly or "
              "not at all",
              (unsigned long long)c->batches, a->name);
    error_entry(err, a->name);
    error_expected(err, "F32, BF16 or F16");
    error_found(err, "F64");
    error_next(err, "convert it to F32 in the input (NumPy makes F64 unless told otherwise)");
    return PAWL_EMISMATCH;
}

static pawl_status write_signature(pawl_batch_check *c, pawl_error *err) {
    buffer *out = &c->signature;
    out->size = 0;
    TRY(buffer_printf(out, err, "{"));
    for (size_t i = 0; i < c->count; i++) {
        const batch_entry *e = &c->entries[i];
        char shape[512];
        TRY(buffer_printf(out, err, "%s", i > 0 ? "," : ""));
        TRY(buffer_json_string(out, e->name, strlen(e->name), err));
        TRY(buffer_printf(out, err, ":{\"dtype\":\"%s\",\"shape\":%s}", dtype_words(e->dtype),
                          shape_words(shape, e->ndim, e->shape)));
    }
    return buffer_printf(out, err, "}");
}

static pawl_status take_entry(pawl_batch_check *c, const pawl_array *a, batch_entry *e,
                              pawl_error *err) {
    *e = (batch_entry){
        .name = arena_strdup(&c->memory, a->name), .dtype = a->dtype, .ndim = a->ndim};
    if (e->name == NULL) {
        return error_nomem(err, strlen(a->name) + 1);
    }
    for (int i = 0; i < a->ndim; i++) {
        e->shape[i] = a->shape[i];
    }
    return PAWL_OK;
}

static pawl_status take_first(pawl_batch_check *c, const pawl_array *batch, size_t count,
                              pawl_error *err) {
    for (size_t i = 0; i < count; i++) {
        if (batch[i].dtype == PAWL_F64) {
            return refuse_f64(c, &batch[i], err);
        }
    }
    AUTOFREE batch_entry *entries = mem_calloc(count, sizeof(*entries));
    if (entries == NULL) {
        return error_nomem(err, count * sizeof(*entries));
    }
    for (size_t i = 0; i < count; i++) {
        TRY(take_entry(c, &batch[i], &entries[i], err));
    }
    c->entries = entries;
    c->count = count;
    entries = NULL;
    pawl_status status = write_signature(c, err);
    if (status != PAWL_OK) {
        mem_free(c->entries);
        c->entries = NULL;
    }
    return status;
}

/* ---- a later batch ---- */

/* J01: only the first dimension differs, and it is smaller. */
static bool is_remainder(const pawl_array *a, const batch_entry *first) {
    for (int i = 1; i < a->ndim; i++) {
        if (a->shape[i] != first->shape[i]) {
            return false;
        }
    }
    return a->ndim > 0 && a->shape[0] < first->shape[0];
}

static bool same_shape(const pawl_array *a, const batch_entry *first) {
    bool same = a->ndim == first->ndim;
    for (int i = 0; same && i < a->ndim; i++) {
        same = a->shape[i] == first->shape[i];
    }
    return same;
}

static pawl_status compare_entry(const pawl_batch_check *c, const pawl_array *a,
                                 const batch_entry *first, pawl_error *err) {
    if (a->dtype != first->dtype) {
        return other_dtype(c, a, first, err);
    }
    if (same_shape(a, first)) {
        return PAWL_OK;
    }
    bool remainder = a->ndim == first->ndim && is_remainder(a, first);
    return other_shape(c, a, first, remainder ? "drop or pad the remainder" : "mend the input",
                       err);
}

static pawl_status compare_with_first(const pawl_batch_check *c, const pawl_array *batch,
                                      size_t count, pawl_error *err) {
    for (size_t i = 0; i < count || i < c->count; i++) {
        if (i == count) {
            return missing_entry(c, c->entries[i].name, err);
        }
        int order = i == c->count ? -1 : strcmp(batch[i].name, c->entries[i].name);
        if (order != 0) {
            return order < 0 ? extra_entry(c, batch[i].name, err)
                             : missing_entry(c, c->entries[i].name, err);
        }
        TRY(compare_entry(c, &batch[i], &c->entries[i], err));
    }
    return PAWL_OK;
}

static pawl_status next_batch(pawl_batch_check *c, const pawl_array *entries, size_t count,
                              pawl_error *err) {
    AUTOFREE pawl_array *sorted = NULL;
    TRY(sort_batch(c, entries, count, &sorted, err));
    return c->entries == NULL ? take_first(c, sorted, count, err)
                              : compare_with_first(c, sorted, count, err);
}

/* A refused batch counts as well: the numbers are those of the loader. */
static pawl_status next_counted(pawl_batch_check *c, const pawl_array *entries, size_t count,
                                size_t array_size, pawl_error *err) {
    static const char call[] = "pawl_batch_check_next";
    CLEANUP(mem_free_pointer) void *copy = NULL;
    TRY(need(c, call, "check", err));
    TRY(take_arrays(&entries, count, array_size, &copy, call, "entries", err));
    pawl_status status = next_batch(c, entries, count, err);
    c->batches++;
    return status;
}

pawl_status pawl_batch_check_next(pawl_batch_check *check, const pawl_array *entries, size_t count,
                                  size_t array_size, pawl_error *err) {
    struct pawl_error story;
    return story_end(next_counted(check, entries, count, array_size, story_begin(&story)), &story,
                     err);
}

const char *pawl_batch_check_signature(const pawl_batch_check *check) {
    return check != NULL && check->entries != NULL ? (const char *)check->signature.data : NULL;
}
