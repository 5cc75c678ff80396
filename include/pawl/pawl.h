/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/pawl.h: the whole of libpawl. Read in this order:
 *
 *     pawl/error.h        status, error, log
 *     pawl/tensor.h       element types
 *     pawl/state.h        what is saved
 *     pawl/group.h        the ranks of a job
 *     pawl/run.h          saving
 *     pawl/restore.h      restoring
 *     pawl/checkpoint.h   looking at checkpoints, verify, doctor
 *     pawl/view.h         a tensor of a checkpoint as read-only memory
 *     pawl/event.h        what happened to a run, as it happens and later
 *     pawl/check.h        checks of a running job
 *
 * Threads: calls on different handles may run at the same time; one handle is used by one thread at
 * a time. Strings are UTF-8. Times are seconds (double) or nanoseconds (int64_t, "_ns").
 */
#ifndef PAWL_PAWL_H
#define PAWL_PAWL_H

#include <pawl/check.h>
#include <pawl/checkpoint.h>
#include <pawl/error.h>
#include <pawl/event.h>
#include <pawl/group.h>
#include <pawl/restore.h>
#include <pawl/run.h>
#include <pawl/state.h>
#include <pawl/tensor.h>
#include <pawl/view.h>

#endif
