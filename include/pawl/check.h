/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/check.h: checks that a trainer may make while it runs: batches (J01, J02, J06) and gradients
 * (J05).
 */
#ifndef PAWL_CHECK_H
#define PAWL_CHECK_H

#include <pawl/state.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One entry of a batch, or one gradient or variable. Calls that take an array of them take
 * `array_size`, sizeof(pawl_array), as well. */
typedef struct pawl_array {
    const char *name;
    pawl_dtype dtype;
    int ndim;
    const int64_t *shape;
    const void *data; /* gradients: searched for NaN and infinity; batches: may be NULL */
    /* What it is, where it is no array of one dtype and shape: "text", "ragged", "sparse". Such an
     * entry is refused by this word, and the rest of it is not looked at [NULL: it is an array] */
    const char *instead;
} pawl_array;

typedef struct pawl_batch_check pawl_batch_check;

PAWL_API pawl_status pawl_batch_check_new(pawl_batch_check **check, pawl_error *err)
    PAWL_MUST_CHECK;
PAWL_API void pawl_batch_check_free(pawl_batch_check *check);

/*
 * Compares a batch with the first one: same entries, dtypes, numbers of dimensions and shapes.
 * PAWL_EMISMATCH names entry, batch number (from 0) and both sides, and says what to do: drop or
 * pad the remainder (J01), or mend the input (J02). F64 entries are refused in the first batch.
 * PAWL_EUSAGE names an entry that is no array of one dtype and shape, and says what it is (J02).
 */
PAWL_API pawl_status pawl_batch_check_next(pawl_batch_check *check, const pawl_array *entries,
                                           size_t count, size_t array_size, pawl_error *err)
    PAWL_MUST_CHECK;

/* The first batch's signature as JSON, to keep in the state with PAWL_ROLE_BATCH_SIGNATURE. NULL
 * before the first batch. Lives as long as the check. */
PAWL_API const char *pawl_batch_check_signature(const pawl_batch_check *check);

/*
 * J06, after a restore: is the data loader where the checkpoint says? Compares the int64 entry
 * `position_name` of the restored state with the loader's own position. PAWL_EMISMATCH names both.
 */
PAWL_API pawl_status pawl_check_data_position(const pawl_state *state, const char *position_name,
                                              int64_t loader_position, pawl_error *err)
    PAWL_MUST_CHECK;

/*
 * J05: do gradients fit variables? Same count, and pairwise the same name, dtype and shape; no
 * gradient's data is NULL; every element is finite. PAWL_EMISMATCH names the variable and both
 * sides.
 */
PAWL_API pawl_status pawl_check_gradients(const pawl_array *variables, size_t variable_count,
                                          const pawl_array *gradients, size_t gradient_count,
                                          size_t array_size, pawl_error *err) PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
