/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path: from what a user typed to a directory that is open, and what there is to say about it: why
 * it cannot be used (P01 to P04, P08), what it lies on (P07, P09), whose checkpoint it is (R09).
 *
 * Threads: nothing here is shared. Ownership: a store that is opened is the caller's.
 */
#ifndef PATH_PATH_H
#define PATH_PATH_H

#include "base/base.h"
#include "store/store.h"

#include <pawl/checkpoint.h>

/* ---- open.c --------------------------------------------------------------------------------- */

/* Opens a posix store on the absolute path that `given` stands for. `create`: makes missing
 * directories. */
pawl_status path_open(const char *given, bool create, store **out, pawl_error *err) PAWL_MUST_CHECK;
/* Room and filesystem of a path that need not exist, of the part of it that does. */
pawl_status path_space(const char *given, store_space *out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- access.c ------------------------------------------------------------------------------- */

/* P02 for a directory that cannot be written to, though it exists: who we are, what it allows. */
void path_explain_access(const char *directory, pawl_error *err);

/* ---- findings.c ----------------------------------------------------------------------------- */

/* P07 and P09: what a store's directory lies on, and what that lacks. Tries direct I/O and a sync
 * with a small file that is removed again. Stores that are no directory have no findings. */
typedef void (*path_finding_fn)(void *context, const pawl_finding *finding);
void path_examine_filesystem(store *s, const platform *os, path_finding_fn each, void *context);

/* ---- recognise.c: other people's checkpoints ------------------------------------------------ */

typedef struct tool_checkpoint {
    const char *what; /* "a PyTorch distributed checkpoint (DCP)" */
    const char *next; /* what to do */
} tool_checkpoint;
/* By name alone; NULL when the name says nothing. */
const tool_checkpoint *tool_checkpoint_by_name(const char *name, bool directory);
/* The same of a file whose name only the tool's own directories have. */
const tool_checkpoint *tool_checkpoint_by_unique_name(const char *name);

#endif
