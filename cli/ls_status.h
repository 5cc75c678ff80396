/* SPDX-License-Identifier: Apache-2.0 */
/* How pawl ls shows the status of a step, or of a checkpoint. */
#ifndef CLI_LS_STATUS_H
#define CLI_LS_STATUS_H

#include "table.h"

#include <pawl/checkpoint.h>

const char *ls_status_name(pawl_step_status status);
style ls_status_style(pawl_step_status status);
bool ls_status_is_bad(pawl_step_status status); /* damaged, or nobody could look */

#endif
