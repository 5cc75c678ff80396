/* SPDX-License-Identifier: Apache-2.0 */
/* pawl show --names: completes the beginning of an entry's name up to the next '/'. Bounded in time
 * and output, however many entries there are. */
#include "clock.h"
#include "memory.h"
#include "show.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 500, MOST_ENTRIES = 200000, ASK_EVERY = 256 };

#define MOST_NS INT64_C(1000000000)

/* The name up to and with the first '/' after `begun` bytes; NULL if it has characters that
 * text_safe would escape, since what the shell shows would not be the name. */
static char *part_of(const char *name, size_t begun) {
    const char *slash = strchr(name + begun, '/');
    char *part = must_strndup(name, slash != NULL ? (size_t)(slash + 1 - name) : strlen(name));
    char *safe = text_safe(part, strlen(part), false);
    bool same = strcmp(part, safe) == 0;
    free(safe);
    if (!same) {
        free(part);
        return NULL;
    }
    return part;
}

pawl_status show_names(output *out, pawl_checkpoint *checkpoint, const char *begin) {
    SCOPED(scoped_entries) pawl_entries *entries = NULL;
    SCOPED(scoped_free) char *before = must_strdup("");
    int64_t end_ns = clock_monotonic_ns() + MOST_NS;
    int names = 0;
    pawl_status status = pawl_entries_open(checkpoint, begin, &entries, out->err);
    for (int seen = 0; status == PAWL_OK && names < MOST_NAMES && seen < MOST_ENTRIES; seen++) {
        pawl_entry_info info = {.struct_size = sizeof info};
        int more = 0;
        status = pawl_entries_next(entries, &info, &more, out->err);
        if (status != PAWL_OK || !more ||
            (seen % ASK_EVERY == 0 && clock_monotonic_ns() > end_ns)) {
            break;
        }
        char *part = part_of(info.name, strlen(begin));
        if (part != NULL && strcmp(part, before) != 0) {
            puts(part);
            names++;
            free(before);
            before = must_strdup(part);
        }
        free(part);
    }
    return status;
}
