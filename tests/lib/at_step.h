/* SPDX-License-Identifier: Apache-2.0 */
/* Options that open one step: pawl_checkpoint_open(path, AT_STEP(20), &checkpoint, err). */
#ifndef LIB_AT_STEP_H
#define LIB_AT_STEP_H

#include <pawl/storage.h>

#define AT_STEP(number)                                                                            \
    (&(const pawl_open_options){.struct_size = sizeof(pawl_open_options),                          \
                                .step = &(const int64_t){number}})

#endif
