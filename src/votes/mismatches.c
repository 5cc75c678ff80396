/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers what rank 0 finds wrong between the ranks into one error: a few faults in words. */
#include "votes/private.h"

#include <stdio.h>
#include <string.h>

#define MISMATCHES_SHOWN 3 /* in the text; the rest is counted */

void mismatches_add(mismatches *m, const char *entry, const char *next, const char *format, ...) {
    char sentence[sizeof(m->found)];
    va_list arguments;
    if (++m->count > MISMATCHES_SHOWN) {
        return;
    }
    va_start(arguments, format);
    text_format(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    size_t at = strlen(m->found);
    if (m->count == 1) {
        snprintf(m->entry, sizeof m->entry, "%s", entry);
        m->next = next;
        snprintf(m->found, sizeof m->found, "%s", sentence);
        return;
    }
    size_t room = sizeof m->found - at;
    if ((size_t)snprintf(m->found + at, room, "; `%s`: %s", entry, sentence) >= room) {
        text_cut(m->found, sizeof m->found);
    }
}

pawl_status mismatches_end(const mismatches *m, const char *attempt, const char *expected,
                           pawl_error *err) {
    if (m->count == 0) {
        return PAWL_OK;
    }
    if (m->count == 1) {
        error_set(err, PAWL_EMISMATCH, "%s", attempt);
    } else {
        error_set(err, PAWL_EMISMATCH, "%s, in %zu entries", attempt, m->count);
    }
    error_entry(err, m->entry);
    error_expected(err, "%s", expected);
    error_found(err, "%s", m->found);
    error_next(err, "%s", m->next);
    return PAWL_EMISMATCH;
}
