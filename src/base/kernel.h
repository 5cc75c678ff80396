/* SPDX-License-Identifier: Apache-2.0 */
/* base/kernel: what the kernel tells of this process, in files. For this folder, its
 * tests, and src/doctor. */
#ifndef BASE_KERNEL_H
#define BASE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The beginning of a small file, as text. False when it cannot be read; errno says why. */
bool kernel_file_read(const char *path, char *out, size_t size);

/* The bytes that this process may have at most: those of the machine, and the limits of its control
 * groups. `root`: "", or where a test has put such files. UINT64_MAX: nothing is known. */
uint64_t kernel_memory_limit(const char *root);

#endif
