/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/retention.h: which checkpoints of a run stay.
 *
 *     pawl_retention retention = {.struct_size = sizeof retention, .keep_last = 3};
 *     pawl_run_options options = {.struct_size = sizeof options, .retention = &retention};
 */
#ifndef PAWL_RETENTION_H
#define PAWL_RETENTION_H

#include <pawl/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A checkpoint is removed only when no rule keeps it; with every rule at zero everything stays.
 * Whatever the rules say: the newest committed one stays, the one this run restored from stays
 * until a newer one is committed, one that is being read stays, a pinned one stays.
 */
typedef struct pawl_retention {
    size_t struct_size;       /* sizeof(pawl_retention) */
    int64_t keep_last;        /* the newest n */
    int64_t keep_every_steps; /* steps divisible by n */
    double keep_every_hours;  /* of older ones, one per so many hours, by when they were saved */
    int64_t keep_best;        /* the n best by `metric` */
    const char *metric;       /* name of a metric given to pawl_save */
    int metric_max;           /* 1: larger is better; 0: smaller is better */
} pawl_retention;

#ifdef __cplusplus
}
#endif

#endif
