/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path: opens the directory that a user's path means, and explains why it cannot be used. Explained
 * are the path itself (P01 to P04, P08), what its filesystem lacks (P07, P09), and which other
 * tool's checkpoint it is (R09).
 *
 * Threads: nothing here is shared. Ownership: a store that is opened is the caller's.
 */
#ifndef PATH_PATH_H
#define PATH_PATH_H

#include "base/base.h"
#include "store/store.h"

#include <pawl/checkpoint.h>

/* ---- open.c --------------------------------------------------------------------------------- */

/* Opens the directory that `given` means. `create`: makes missing directories. Which storage serves
 * a path is decided here, and nowhere else in the library: so far, always store_posix. */
pawl_status path_open(const char *given, bool create, store **out, pawl_error *err) PAWL_MUST_CHECK;
/* Room and filesystem of a path, or of the part of it that exists. */
pawl_status path_space(const char *given, store_space *out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- access.c ------------------------------------------------------------------------------- */

/* P02 for a directory that exists but cannot be written to: who we are, and what it allows. */
void path_explain_access(const char *directory, pawl_error *err);

/* ---- filesystem.c --------------------------------------------------------------------------- */

/* P07 and P09: does the filesystem of a store's directory last, and what does it lack? Tries direct
 * I/O and a sync with a small file that is removed again. Only posix stores have findings. */
typedef void (*path_finding_fn)(void *context, const pawl_finding *finding);
void path_examine_filesystem(store *s, const platform *os, path_finding_fn each, void *context);

/* ---- other_tools.c: checkpoints of other tools, told by their names; opens nothing ----------- */

typedef struct tool_checkpoint {
    const char *what; /* "a PyTorch distributed checkpoint (DCP)" */
    const char *next; /* what to do */
} tool_checkpoint;
/* Of a file or directory, by its name; NULL when the name says nothing. */
const tool_checkpoint *tool_checkpoint_by_name(const char *name, bool directory);
/* The same of a file, but only by names that no other program uses. */
const tool_checkpoint *tool_checkpoint_by_unique_name(const char *name);

#endif
