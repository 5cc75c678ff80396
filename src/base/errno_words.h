/* SPDX-License-Identifier: Apache-2.0 */
/* errno_words: names and words of the system's errors. */
#ifndef BASE_ERRNO_WORDS_H
#define BASE_ERRNO_WORDS_H

typedef struct errno_words {
    const char *name;  /* "ENOSPC" */
    const char *words; /* "No space left on device" */
} errno_words;

/* Both NULL where there is no such error. */
errno_words errno_words_of(int system_errno);

#endif
