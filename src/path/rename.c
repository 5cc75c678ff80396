/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a new directory its name; a store renames files alone. */
#include "path/path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

pawl_status path_rename_directory(const store *in, const char *from, const char *to,
                                  pawl_error *err) {
    char old_path[PATH_MAX];
    char new_path[PATH_MAX];
    int n = snprintf(old_path, sizeof(old_path), "%s/%s", in->root, from);
    int m = snprintf(new_path, sizeof(new_path), "%s/%s", in->root, to);
    int failed = n < 0 || m < 0 || n >= PATH_MAX || m >= PATH_MAX ? ENAMETOOLONG : 0;
    if (failed == 0 && rename(old_path, new_path) != 0) {
        failed = errno == ENOTEMPTY || errno == ENOTDIR ? EEXIST : errno;
    }
    if (failed == 0) {
        return PAWL_OK;
    }
    error_sys(err, failed, "cannot rename a directory");
    store_error_path(err, in, from);
    error_expected(err, "the name %s, which nothing has", to);
    return err->status;
}
