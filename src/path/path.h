/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path: opens what a user's path means in a storage, and explains why it cannot be used. Explained
 * are the path itself (P01 to P04, P08, P10), what its filesystem lacks (P07, P09), and which other
 * tool's checkpoint it is (R09).
 *
 * Threads: a pawl_storage is shared by any number; nothing else here is. Ownership: a store that is
 * opened is the caller's.
 */
#ifndef PATH_PATH_H
#define PATH_PATH_H

#include "base/base.h"
#include "store/store.h"

#include <pawl/doctor.h>
#include <pawl/storage.h>

/* ---- storage.c ------------------------------------------------------------------------------ */

/* A kind of storage. */
typedef struct storage_ops {
    /* Opens the place that a user's path means, as path_open does; called on any thread. */
    pawl_status (*open)(void *context, const char *given, bool create, store **out,
                        pawl_error *err);
    void (*destroy)(void *context); /* NULL: nothing is to be done */
} storage_ops;

/* The local filesystem, by path_open. */
extern const storage_ops storage_file;

/* A handle with one holder. `context` is taken over, also when this fails. */
pawl_status storage_new(const storage_ops *ops, void *context, pawl_storage **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* NULL is fine. `context` is destroyed when the last store that was opened is, too. */
void storage_release(pawl_storage *storage);
/* Which storage serves a path is decided here, and nowhere else in the library. `storage` NULL: the
 * local filesystem. */
pawl_status storage_open_path(const pawl_storage *storage, const char *given, bool create,
                              store **out, pawl_error *err) PAWL_MUST_CHECK;
/* Is a path one of the local filesystem? */
bool storage_is_local(const pawl_storage *storage);

/* ---- open.c --------------------------------------------------------------------------------- */

/* Opens the directory of the local filesystem that `given` means. `create`: makes missing
 * directories. */
pawl_status path_open(const char *given, bool create, store **out, pawl_error *err) PAWL_MUST_CHECK;
/* The same of a directory of another tool: as store_posix_of_links. Makes nothing. */
pawl_status path_open_of_links(const char *given, store **out, pawl_error *err) PAWL_MUST_CHECK;
/* Does the name of a file say that it can be opened? */
typedef bool (*path_file_fn)(const char *name);
/* As path_open, without making anything, of a path that may also be a file, or a link to one: then
 * the directory of the file, or of the link where only its name says what it is, is opened, as by
 * path_open_of_links, and *file is that name, to be freed; else *file is NULL. A path P that is not
 * there, where P.index is, stands for that file, as TensorFlow has it. */
pawl_status path_open_file(const char *given, path_file_fn opens, store **out, char **file,
                           pawl_error *err) PAWL_MUST_CHECK;
/* Does what a name in the root of a local store stands for, links followed, lie in that root? */
bool path_leads_within(const char *root, const char *name);
/* Is it the URL of an object store (P10), which no run can be opened at? */
bool path_is_object_store(const char *given);
/* Room and filesystem of a path, or of the part of it that exists. */
pawl_status path_space(const char *given, store_space *out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- rename.c ------------------------------------------------------------------------------- */

/* Renames a directory in the root of a local store. Nothing but an empty directory is replaced:
 * PAWL_EBUSY. */
pawl_status path_rename_directory(const store *in, const char *from, const char *to,
                                  pawl_error *err) PAWL_MUST_CHECK;

/* ---- access.c ------------------------------------------------------------------------------- */

/* P02 for a directory that exists but cannot be written to: who we are, and what it allows. */
void path_explain_access(const char *directory, pawl_error *err);

/* ---- filesystem.c --------------------------------------------------------------------------- */

/* P07 and P09: does the filesystem of a store's directory last, and what does it lack? Tries direct
 * I/O and a sync with a small file that is removed again. Only posix stores have findings. */
typedef void (*path_finding_fn)(void *context, const pawl_finding *finding);
void path_examine_filesystem(store *s, const platform *os, path_finding_fn each, void *context);
/* Can files in a directory be written past the page cache? Tries it. */
bool path_has_direct_io(const char *directory, const platform *os);

/* ---- other_tools.c: checkpoints of other tools, told by their names; opens nothing ----------- */

typedef struct tool_checkpoint {
    const char *what; /* "a PyTorch distributed checkpoint (DCP)" */
    const char *next; /* what to do */
    bool opens;       /* pawl can open it */
} tool_checkpoint;
/* Of a file or directory, by its name; NULL when the name says nothing. */
const tool_checkpoint *tool_checkpoint_by_name(const char *name, bool directory);
/* The same of a file, but only by names that no other program uses. */
const tool_checkpoint *tool_checkpoint_by_unique_name(const char *name);

#endif
