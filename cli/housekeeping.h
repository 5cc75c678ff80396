/* SPDX-License-Identifier: Apache-2.0 */
/* What rm, gc and rebuild share: owning a run for a moment. */
#ifndef CLI_HOUSEKEEPING_H
#define CLI_HOUSEKEEPING_H

#include "cli.h"

/* Opens the first target's run, which must hold something that pawl wrote. */
pawl_status housekeeping_open(const arguments *args, output *out, pawl_run **run);

/* Closes it; the exit code of `status`, whose story is in out->err, or else of the closing. */
int housekeeping_close(output *out, pawl_run *run, pawl_status status);

#endif
