/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_copy_failed, for the functions of a provider of memory. */
#include "api/api.h"

#include <pawl/memory.h>

pawl_status pawl_copy_failed(pawl_error *err, pawl_status status, const pawl_copy *copy,
                             const char *text) {
    if (status <= PAWL_OK || status == PAWL_ETIMEOUT || status > STATUS_LAST) {
        status = PAWL_EIO;
    }
    if (err != NULL) {
        error_set(err, status, "%s", text != NULL && text[0] != '\0' ? text : "the copy failed");
        if (copy != NULL && copy->entry != NULL) {
            error_entry(err, copy->entry);
        }
    }
    return status;
}
