/* SPDX-License-Identifier: Apache-2.0 */
/* store/implement: what implementations of a store share: checking relative paths, and failures
 * that name them absolutely. */
#ifndef STORE_IMPLEMENT_H
#define STORE_IMPLEMENT_H

#include "store/store.h"

#define STORE_MAX_NAME 255

/* PAWL_EUSAGE for what is not a plain relative path; "" is the root, where that is allowed. */
pawl_status store_check_path(const store *s, const char *path, bool root_allowed, pawl_error *err)
    PAWL_MUST_CHECK;
/* Copies the directory part ("": the root) to `parent` and returns the last component. */
const char *store_split_path(const char *path, char parent[STORE_MAX_PATH]);
/* Fills the error: `what` failed ("cannot open the file"), and what the system said about `path`.
 * As error_sys, but something of the wrong type is damage (ENOTDIR, EISDIR, ELOOP, ENXIO), and a
 * directory that is not empty is busy. */
pawl_status store_failure(const store *s, const char *path, int system_errno, pawl_error *err,
                          const char *what) PAWL_MUST_CHECK;
void store_file_init(store_file *f, store *in, const char *path);

#endif
