/* SPDX-License-Identifier: Apache-2.0 */
/* What else has a manifest's name on an object store: a placeholder before it is published, and
 * versions of the same manifest (commit/object.c). */
#include "format/manifest.h"

#include <stdio.h>
#include <string.h>

#define BEGIN "{\"unpublished\":\""
#define END   "\"}\n"

void manifest_placeholder(char out[FORMAT_MAX_PLACEHOLDER], const char *attempt, uint64_t number) {
    (void)snprintf(out, FORMAT_MAX_PLACEHOLDER, BEGIN "%s-%llu" END, attempt,
                   (unsigned long long)number);
}

bool manifest_is_placeholder(const void *text, size_t n) {
    size_t begin = strlen(BEGIN), end = strlen(END);
    const char *at = text;
    if (n <= begin + end || n >= FORMAT_MAX_PLACEHOLDER || memcmp(at, BEGIN, begin) != 0 ||
        memcmp(at + n - end, END, end) != 0) {
        return false;
    }
    for (size_t i = begin; i < n - end; i++) {
        if (at[i] == '\0' || strchr("0123456789abcdef-", at[i]) == NULL) {
            return false;
        }
    }
    return true;
}

size_t manifest_bytes(const void *text, size_t n) {
    const char *at = text;
    while (n > 1 && at[n - 1] == '\n' && at[n - 2] == '\n') {
        n--;
    }
    return n;
}
