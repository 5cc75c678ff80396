/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/pawl.h: the whole of libpawl. Read in this order:
 *
 *     pawl/error.h        status, error, log
 *     pawl/tensor.h       element types
 *     pawl/memory.h       tensors that are not in host memory
 *     pawl/state.h        what is saved
 *     pawl/group.h        the ranks of a job
 *     pawl/storage.h      where runs are, and how they are opened
 *     pawl/retention.h    which checkpoints stay
 *     pawl/run.h          saving
 *     pawl/preemption.h   being told to end
 *     pawl/restore.h      restoring
 *     pawl/checkpoint.h   looking at checkpoints, verify
 *     pawl/diff.h         comparing two checkpoints
 *     pawl/doctor.h       could a job save here?
 *     pawl/view.h         a tensor of a checkpoint as read-only memory
 *     pawl/event.h        what happened to a run, as it happens and later
 *     pawl/check.h        checks of a running job
 *
 * Threads: calls on different handles may run at the same time; one handle is used by one thread at
 * a time. Strings are UTF-8. Times are seconds (double) or nanoseconds (int64_t, "_ns").
 *
 * Structs grow at their ends, and a program may run with an older or a newer libpawl than it was
 * compiled for. Every struct that goes through a pointer begins with `struct_size`:
 *
 *   - What is passed in and what is to be filled in has it set by the program, to its sizeof:
 *     pawl_run_options options = {.struct_size = sizeof options}; PAWL_EUSAGE where it is not set.
 *     Members that are zero, or that an older program does not have, mean their default. Members
 *     that the library does not know yet must be zero (PAWL_EUNSUPPORTED), and it fills in zero.
 *   - What pawl hands out, by a pointer or to a callback, has the size that the library knows.
 *     PAWL_HAS tells whether it has a member that older libraries do not.
 *   - An array of structs without struct_size comes with the size of an element: `rename_size`,
 *     sizeof(pawl_rename). The elements of one array are alike.
 *
 * Enumerations grow, too: pass over a kind of event, a finding or a difference that you do not
 * know.
 *
 * Forked children: a run, a checkpoint, its views and walks over its entries, and a reader of
 * events belong to the process that opened them. A child made by fork has a copy of the memory, but
 * not the threads that save, and the run's ownership and a reader's mark stay the parent's. So in a
 * child every call on a handle of the parent fails at once with PAWL_EUSAGE, and pawl_due is 0;
 * closing or freeing one does nothing, and its copy of the memory stays until the child ends. The
 * parent is not affected. A child opens what it needs itself. States, catalogs, reports, errors,
 * the checks of pawl/check.h, memory from pawl_view_bytes, and descriptions of a checkpoint that
 * take no reading are plain memory: a child may use its copies. But tensors that a save was reading
 * at the fork count as being read for ever there. None of this concerns children made by
 * posix_spawn, or by vfork and exec.
 *
 * The end of the process: exit, and a return from main, may come at any time, with nothing closed
 * and a save in flight. That save is then committed whole or not at all, as if the process had been
 * killed, and whoever opens the run next finds its owner gone. pawl's threads run until the process
 * is gone, so what was handed to them must be valid until then: the memory of tensors up to the end
 * of pawl_fence, and what the callbacks for log and events use. Where memory is freed before exit
 * is called (destructors of static objects in C++, the end of an interpreter such as Python's) a
 * save may read freed memory and save it as if it were the tensor: close the run first, in Python
 * with atexit.register.
 */
#ifndef PAWL_PAWL_H
#define PAWL_PAWL_H

#include <pawl/check.h>
#include <pawl/checkpoint.h>
#include <pawl/convert.h>
#include <pawl/diff.h>
#include <pawl/doctor.h>
#include <pawl/error.h>
#include <pawl/event.h>
#include <pawl/group.h>
#include <pawl/memory.h>
#include <pawl/preemption.h>
#include <pawl/restore.h>
#include <pawl/retention.h>
#include <pawl/run.h>
#include <pawl/state.h>
#include <pawl/storage.h>
#include <pawl/survey.h>
#include <pawl/tensor.h>
#include <pawl/view.h>

#endif
