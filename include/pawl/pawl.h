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
 *
 * Forked children: a run, a checkpoint, its views and walks over its entries, and a reader of
 * events belong to the process that opened them. A child made by fork has a copy of the memory, but
 * not the threads that save, and the run's ownership and the mark of a reader stay the parent's. So
 * every call on the parent's handle is PAWL_EUSAGE in a child, at once, and pawl_due is 0; closing
 * or freeing one does nothing, and its copy of the memory stays until the child ends. The parent
 * notices nothing of it. A child opens what it needs by itself. Memory alone are states, catalogs,
 * reports, errors and the checks of pawl/check.h, and what pawl_view_bytes handed out or is told
 * about a checkpoint without reading it: a child may use its copies as its own, but tensors that a
 * save was still reading at the fork count as being read for ever. Children by posix_spawn, or by
 * vfork and exec, have none of this.
 *
 * The end of the process: exit, and a return from main, may come at any time, with nothing closed
 * and a save in flight. That save is then lost as if the process had been killed: committed whole,
 * or not at all; and whoever opens the run next finds its owner gone. pawl has nothing that exit
 * takes away, but its threads run until the process is gone: what was handed to it must be there
 * until then, the memory of tensors up to the end of pawl_fence and what the callbacks for the log
 * and for events use. A language that frees memory before it calls exit (destructors of static
 * objects in C++, the end of an interpreter such as Python's) takes it away while a save reads it,
 * and what was freed may be saved as if it were the tensor: close the run first, in Python with
 * atexit.register.
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
