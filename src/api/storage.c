/* SPDX-License-Identifier: Apache-2.0 */
/* The storage of a path: a posix store that is asked again where that makes sense (S08). */
#include "api/api.h"
#include "path/path.h"

#define RETRY_ATTEMPTS       4
#define RETRY_FIRST_DELAY_NS 100000000u

pawl_status storage_open(const char *path, bool create, store **out, pawl_error *err) {
    store *posix;
    TRY(path_open(path, create, &posix, err));
    return store_retry_wrap(posix, platform_system(), RETRY_ATTEMPTS, RETRY_FIRST_DELAY_NS, out,
                            err);
}
