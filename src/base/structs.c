/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of structs that callers hand in: before one is believed, and what lies behind the part that
 * is known. */
#include "base/structs.h"

#include <stdint.h>

#define MAX_STRUCT_BYTES 4096u /* far above any: what is larger was never set */

/* A compiler makes the size of a struct a multiple of its alignment, which is at least that of its
 * first member. With any other size only a part of a pointer might be taken. */
bool struct_size_valid(size_t size) {
    return size > 0 && size <= MAX_STRUCT_BYTES && size % sizeof(void *) == 0;
}

bool struct_has_more(const void *from, size_t size, size_t known) {
    const uint8_t *bytes = from;
    for (size_t i = known; i < size; i++) {
        if (bytes[i] != 0) {
            return true;
        }
    }
    return false;
}
