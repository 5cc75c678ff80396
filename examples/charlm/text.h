/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text: the characters that the model learns from, all files in one piece. A character is a byte.
 */
#ifndef CHARLM_TEXT_H
#define CHARLM_TEXT_H

#include <stddef.h>

struct text {
    unsigned char *bytes;
    size_t size;
};

/*
 * Reads the files at `paths`, in that order; with no paths, the licence texts that every Debian
 * machine carries. Dies naming the file that could not be read.
 */
struct text text_read(char *const *paths, size_t count);
void text_free(struct text *text);

#endif
