/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank of a job the command was started as: by its options, or by the environment. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "cli.h"

typedef struct ranks {
    pawl_group group; /* world_size 1: one process alone */
    pawl_group_found found;
} ranks;

/* EXIT_DONE, or the exit code after saying why not. `r` must stay where it is. */
int ranks_find(const arguments *args, output *out, ranks *r);

#endif
