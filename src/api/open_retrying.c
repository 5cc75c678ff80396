/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the storage that path_open selects, and has it repeat what fails for a passing reason
 * (S08). */
#include "api/api.h"
#include "path/path.h"

#define RETRY_TRIES          4
#define RETRY_FIRST_DELAY_NS 100000000u

pawl_status open_retrying(const char *path, bool create, store **out, pawl_error *err) {
    store *plain;
    *out = NULL;
    TRY(path_open(path, create, &plain, err));
    return store_retry_wrap(plain, platform_system(), RETRY_TRIES, RETRY_FIRST_DELAY_NS, out, err);
}
