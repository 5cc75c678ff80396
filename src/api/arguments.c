/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the arguments of every call: null pointers, handles of other processes, and structs of
 * other versions. */
#include "api/api.h"
#include "checkpoint/checkpoint.h"
#include "run/run.h"

#include <string.h>

void null_pointer(const char *call, const char *argument, pawl_error *err) {
    (void)error_set(err, PAWL_EUSAGE, "%s: %s is a null pointer", call, argument);
}

static pawl_status refuse_child(process_id process, const char *call, const char *what,
                                const char *opens, pawl_error *err) {
    long long parent = (long long)process;
    error_set(err, PAWL_EUSAGE,
              "%s: this process was forked, and the %s belongs to the process that it came from",
              call, what);
    error_expected(err, "process %lld, which opened it", parent);
    error_found(err, "process %lld", (long long)process_self());
    error_safe(err, "nothing was done; it goes on in process %lld as if there were no fork",
               parent);
    error_next(err, "use it in process %lld, or open one in this process with %s", parent, opens);
    return PAWL_EUSAGE;
}

pawl_status need_own(process_id process, const char *call, const char *what, const char *opens,
                     pawl_error *err) {
    return process_is_self(process) ? PAWL_OK : refuse_child(process, call, what, opens, err);
}

pawl_status need_checkpoint(const pawl_checkpoint *checkpoint, const char *call, pawl_error *err) {
    TRY(need(checkpoint, call, "checkpoint", err));
    return need_own(checkpoint_process(checkpoint), call, "checkpoint", "pawl_checkpoint_open",
                    err);
}

static pawl_status no_size(const char *call, const char *type, size_t found, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "%s: struct_size of %s is not set", call, type);
    error_expected(err, "sizeof(%s)", type);
    error_found(err, "%zu", found);
    error_next(err, "begin with: %s options = {.struct_size = sizeof options};", type);
    return PAWL_EUSAGE;
}

static pawl_status newer(const char *call, const char *type, size_t expected, size_t found,
                         pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "%s: %s has a field set that this library does not know",
              call, type);
    error_expected(err, "at most %zu bytes", expected);
    error_found(err, "%zu bytes", found);
    error_next(err,
               "the program was compiled with a newer pawl than the %s that runs: bring them "
               "to the same version",
               pawl_version());
    return PAWL_EUNSUPPORTED;
}

pawl_status check_size(size_t size, const char *call, const char *type, pawl_error *err) {
    return size < 2 * sizeof(size) || size > 65536 ? no_size(call, type, size, err) : PAWL_OK;
}

pawl_status take_options(void *to, size_t to_bytes, const void *from, const char *call,
                         const char *type, pawl_error *err) {
    size_t size = to_bytes;
    memset(to, 0, to_bytes);
    if (from != NULL) {
        memcpy(&size, from, sizeof(size));
        TRY(check_size(size, call, type, err));
        const uint8_t *bytes = from;
        for (size_t i = to_bytes; i < size; i++) {
            if (bytes[i] != 0) {
                return newer(call, type, to_bytes, size, err);
            }
        }
        memcpy(to, from, size < to_bytes ? size : to_bytes);
    }
    memcpy(to, &to_bytes, sizeof(to_bytes));
    return PAWL_OK;
}

pawl_status take_restore_options(pawl_restore_options *to, const pawl_restore_options *from,
                                 const char *call, pawl_error *err) {
    TRY(take_options(to, sizeof(*to), from, call, "pawl_restore_options", err));
    return need_items(to->renames, to->rename_count, call, "renames", err);
}
