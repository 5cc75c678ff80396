/* SPDX-License-Identifier: Apache-2.0 */
/* base/structs: structs that callers hand in, whose size the callers say. */
#ifndef BASE_STRUCTS_H
#define BASE_STRUCTS_H

#include <stdbool.h>
#include <stddef.h>

/* May a struct, or an element of an array, have that size? All begin with a size or a pointer. */
bool struct_size_valid(size_t size);
/* Has it anything but zero behind the first `known` bytes? */
bool struct_has_more(const void *from, size_t size, size_t known);

#endif
