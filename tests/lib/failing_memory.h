/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that fail on demand, and a count of those that were not freed. The linker sends every
 * malloc, calloc, realloc, posix_memalign, strdup and free of a test program here (not those inside
 * shared libraries). Any thread.
 */
#ifndef LIB_FAILING_MEMORY_H
#define LIB_FAILING_MEMORY_H

#include "base/base.h"

/* From now on, the nth allocation (1: the next) fails, once. 0: none does. */
void failing_memory_set(uint64_t nth);
/* Did it fail since it was set? */
bool failing_memory_fired(void);
/* Allocations of this program that are not freed yet. */
uint64_t failing_memory_live(void);

/*
 * Runs `operation` with its first allocation failing, then with its second, and so on until it does
 * not get to the one that would fail. Each run must return PAWL_ENOMEM when the allocation failed,
 * PAWL_OK when none did, and leave as many live allocations as there were. `operation` undoes what
 * it did. Returns how many runs failed, so that a test can tell that there were any.
 */
typedef pawl_status failing_memory_operation(void *context, pawl_error *err);
uint64_t failing_memory_each(failing_memory_operation *operation, void *context);

#endif
