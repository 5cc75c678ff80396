/* SPDX-License-Identifier: Apache-2.0 */
/* common/try: the macro TRY, which passes a failure up to the caller. */
#ifndef COMMON_TRY_H
#define COMMON_TRY_H

#include <pawl/error.h>

/* The only macro in the project that changes control flow. Where the level has something to add, it
 * is written out with error_wrap instead. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        pawl_status try_status = (call);                                                           \
        if (try_status != PAWL_OK) {                                                               \
            return try_status;                                                                     \
        }                                                                                          \
    } while (0)

#endif
