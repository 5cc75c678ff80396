/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locales that write "0,5" for 0.5. The library may be loaded into a program that called
 * setlocale(LC_ALL, ""), and what it writes for machines must not change by that.
 */
#ifndef LIB_LOCALE_H
#define LIB_LOCALE_H

#include <stdbool.h>

typedef enum test_locale {
    LOCALE_COMMA, /* de_DE: "0,5" */
    LOCALE_WIDE,  /* ps_AF: U+066B, two bytes */
} test_locale;

/* Makes it this program's, with the system's or with one made for the test. False, with the reason
 * printed, where there is neither. */
bool locale_begin(test_locale which);
/* "C" again. */
void locale_end(void);

#endif
