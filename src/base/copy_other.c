/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of copy_x86.c on other processors: an ordinary copy. */
#if !defined(__x86_64__)
#include "base/base.h"

#include <string.h>

void mem_copy_past_caches(void *to, const void *from, size_t n) {
    memcpy(to, from, n);
}

void mem_copies_end(void) {
}
#endif
