/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api: what include/pawl/ exports: checks arguments, fills in what the caller left out, calls down.
 *
 * May include everything below it. Every call gives the layers below an error of its own and copies
 * it to the caller's only after a failure: a caller may pass NULL, and success leaves its error
 * untouched.
 */
#ifndef API_API_H
#define API_API_H

#include "base/base.h"
#include "store/store.h"

#include <pawl/checkpoint.h>

/* ---- errors: error.c ------------------------------------------------------------------------ */

/* Empties the call's own error, without writing all of its bytes. */
pawl_error *story_begin(struct pawl_error *story);
/* Passes a failure to the caller, if it wants to know. */
pawl_status story_end(pawl_status status, const struct pawl_error *story, pawl_error *err);

/* ---- arguments: arguments.c ----------------------------------------------------------------- */

/* Fills PAWL_EUSAGE: "pawl_save: state is a null pointer". */
void null_pointer(const char *call, const char *argument, pawl_error *err);

static inline PAWL_MUST_CHECK pawl_status need(const void *pointer, const char *call,
                                               const char *argument, pawl_error *err) {
    if (pointer == NULL) {
        null_pointer(call, argument, err);
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

/* An array, or a buffer: it may be NULL when there is nothing in it. */
static inline PAWL_MUST_CHECK pawl_status need_items(const void *items, size_t count,
                                                     const char *call, const char *argument,
                                                     pawl_error *err) {
    return count > 0 ? need(items, call, argument, err) : PAWL_OK;
}

/* PAWL_EUSAGE in a process other than the one that opened the handle, which is a forked child. To
 * be asked first: in a child the handle's locks and threads are not usable. `what`: "run"; `opens`:
 * the call that opens one. */
pawl_status need_own(process_id process, const char *call, const char *what, const char *opens,
                     pawl_error *err) PAWL_MUST_CHECK;
/* A checkpoint, not NULL, that this process opened. */
pawl_status need_checkpoint(const pawl_checkpoint *checkpoint, const char *call, pawl_error *err)
    PAWL_MUST_CHECK;

/* PAWL_EUSAGE where a caller has not set the size of its struct. */
pawl_status check_size(size_t size, const char *call, const char *type, pawl_error *err)
    PAWL_MUST_CHECK;

/*
 * Copies a caller's struct, whose first field is its size, to one of ours. Fields that an older
 * caller does not have become zero; fields that only a newer caller has must be zero. `from` NULL:
 * all zero.
 */
pawl_status take_options(void *to, size_t to_bytes, const void *from, const char *call,
                         const char *type, pawl_error *err) PAWL_MUST_CHECK;

pawl_status take_restore_options(pawl_restore_options *to, const pawl_restore_options *from,
                                 const char *call, pawl_error *err) PAWL_MUST_CHECK;
/* The same for the group in a caller's options, if it has one: it points to `known` afterwards.
 * group.c. */
pawl_status take_group(const pawl_group **group, pawl_group *known, const char *call,
                       pawl_error *err) PAWL_MUST_CHECK;

/* ---- storage: open_retrying.c --------------------------------------------------------------- */

/* path_open, as a store that repeats what fails for a passing reason. */
pawl_status open_retrying(const char *path, bool create, store **out, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
