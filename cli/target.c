/* SPDX-License-Identifier: Apache-2.0 */
/* RUN[@STEP] on the command line. */
#include "cli.h"
#include "memory.h"

#include <pawl/pawl.h>
#include <stdlib.h>
#include <string.h>

static bool is_newest(const char *word) {
    return strcmp(word, "newest") == 0 || strcmp(word, "latest") == 0;
}

/* False for anything but digits, and for a number that no step can have. */
static bool parse_step(const char *word, int64_t *step) {
    int64_t value = 0;
    if (*word == '\0') {
        return false;
    }
    for (const char *digit = word; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9' || value > (INT64_MAX - 9) / 10) {
            return false;
        }
        value = value * 10 + (*digit - '0');
    }
    *step = value;
    return true;
}

target target_parse(const char *text) {
    target t = {.step = PAWL_NEWEST};
    const char *at = strrchr(text, '@');
    t.has_step = at != NULL && at != text && (is_newest(at + 1) || parse_step(at + 1, &t.step));
    t.run = must_strndup(text, t.has_step ? (size_t)(at - text) : strlen(text));
    return t;
}

void target_free(target *t) {
    free(t->run);
    t->run = NULL;
}
