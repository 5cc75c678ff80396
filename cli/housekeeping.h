/* SPDX-License-Identifier: Apache-2.0 */
/* What rm, gc and rebuild share: opening the run for writing, and closing it. */
#ifndef CLI_HOUSEKEEPING_H
#define CLI_HOUSEKEEPING_H

#include "cli.h"

/* Opens the run of the first operand; fails where pawl has never written. */
pawl_status housekeeping_open(const arguments *args, output *out, pawl_run **run);

/* Closes it. Returns the exit code: of `status`, whose error is in out->err, or else of a
 * failure to close. */
int housekeeping_close(output *out, pawl_run *run, pawl_status status);

#endif
