/* SPDX-License-Identifier: Apache-2.0 */
/* Text as a JSON string on standard output, for the tests in Python. */
#ifndef PYTHON_PRINT_STRING_H
#define PYTHON_PRINT_STRING_H

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void print_string(const char *text) {
    CLEANUP(buffer_free) buffer json = {.data = NULL};
    pawl_error err = ERROR_INIT;
    if (buffer_json_string(&json, text, strlen(text), &err) != PAWL_OK) {
        exit(1);
    }
    (void)fputs((const char *)json.data, stdout);
}

#endif
