/* SPDX-License-Identifier: Apache-2.0 */
/* pawl diff: how a difference is shown. */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "output.h"
#include "table.h"

#include <pawl/diff.h>

/* A row of the table; NULL: an object of the open JSON array. */
void diff_show(output *out, table *rows, const pawl_diff_item *difference);

#endif
