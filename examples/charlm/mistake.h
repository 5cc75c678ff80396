/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mistake: what people get wrong in a training loop, made on purpose (--mistake NAME), to see what
 * pawl says. Nothing here is needed to train.
 */
#ifndef CHARLM_MISTAKE_H
#define CHARLM_MISTAKE_H

#include "batcher.h"
#include "variable.h"

enum mistake {
    MISTAKE_NONE = 0,
    MISTAKE_BATCH_DTYPE,   /* "batch-dtype": the third batch comes as int64 (J02) */
    MISTAKE_DATA_POSITION, /* "data-position": after a resume the data start from the top (J06) */
    MISTAKE_NAN_GRADIENT,  /* "nan-gradient": one element of a gradient is NaN (J05) */
    MISTAKE_NO_GRADIENT    /* "no-gradient": one variable has no gradient (J05) */
};

#define MISTAKE_NAMES "batch-dtype|data-position|nan-gradient|no-gradient"

/* One of MISTAKE_NAMES, or NULL for none. */
enum mistake mistake_from_name(const char *name);

/* `batch` counts from 0. */
void mistake_in_batch(enum mistake mistake, int64_t batch, struct batch_entries *entries);
void mistake_in_batcher(enum mistake mistake, struct batcher *batcher);
void mistake_in_gradient(enum mistake mistake, struct variable *variable, pawl_array *gradient);

#endif
