/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff: compares two checkpoints by walking their sorted entries side by side.
 *
 * diff.c walks, and gathers entries of which small tensors are read together; renames.c sorts the
 * entries of A by other names; entry.c compares one entry; numbers.c the numbers of two tensors,
 * transpose.c reads them where one of the two is turned. May include base, tensor, match and
 * checkpoint.
 *
 * Threads: the caller's alone, but for those of checkpoint_read_many.
 */
#ifndef DIFF_DIFF_H
#define DIFF_DIFF_H

#include "base/base.h"

#include <pawl/diff.h>

/* As pawl_checkpoint_diff. `options` and `result` are of this library's size; `err` not NULL. */
pawl_status checkpoint_diff(pawl_checkpoint *a, pawl_checkpoint *b,
                            const pawl_diff_options *options, pawl_diff_result *result,
                            pawl_error *err) PAWL_MUST_CHECK;

#endif
