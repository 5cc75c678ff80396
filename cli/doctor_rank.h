/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank of a job the command was started as: by its options, or by the environment. */
#ifndef CLI_DOCTOR_RANK_H
#define CLI_DOCTOR_RANK_H

#include "cli.h"

typedef struct doctor_rank {
    pawl_group group; /* world_size 1: one process alone */
    pawl_group_found found;
} doctor_rank;

/* EXIT_DONE, or the exit code after printing the reason. `r` must not be moved afterwards: `group`
 * points into `found`. */
int doctor_rank_find(const arguments *args, output *out, doctor_rank *r);

#endif
