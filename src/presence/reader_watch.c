/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers marks between looks, sorted by directory and then by name, so that looking at one
 * directory takes no longer for marks in others. */
#include "presence/reader_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A mark, and since when it has been seen with this counter. */
typedef struct watched {
    char *name;
    uint64_t counter;
    uint64_t since_ns;
    bool seen; /* in the present look */
} watched;

typedef struct watched_directory {
    char name[32];
    watched *marks;
    size_t count, capacity;
    size_t sorted; /* the first so many are sorted; the present look appends behind them */
} watched_directory;

struct reader_watch {
    watched_directory *directories;
    size_t count, capacity;
};

pawl_status reader_watch_new(reader_watch **out, pawl_error *err) {
    *out = mem_calloc(1, sizeof(**out));
    return *out != NULL ? PAWL_OK : error_nomem(err, sizeof(**out));
}

static void free_marks(watched_directory *d) {
    for (size_t i = 0; i < d->count; i++) {
        mem_free(d->marks[i].name);
    }
    mem_free(d->marks);
}

void reader_watch_free(reader_watch *watch) {
    if (watch == NULL) {
        return;
    }
    for (size_t i = 0; i < watch->count; i++) {
        free_marks(&watch->directories[i]);
    }
    mem_free(watch->directories);
    mem_free(watch);
}

/* ---- directories ---------------------------------------------------------------------------- */

/* The index at which it is, or would be inserted. */
static size_t place_of(const reader_watch *watch, const char *directory) {
    size_t low = 0, high = watch->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(watch->directories[middle].name, directory) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static watched_directory *find_directory(const reader_watch *watch, const char *directory) {
    size_t at = place_of(watch, directory);
    bool there = at < watch->count && strcmp(watch->directories[at].name, directory) == 0;
    return there ? &watch->directories[at] : NULL;
}

/* Done only when the array is full, so that its cost is spread. */
static void forget_empty(reader_watch *watch) {
    size_t kept = 0;
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->directories[i].count > 0) {
            watch->directories[kept++] = watch->directories[i];
        } else {
            free_marks(&watch->directories[i]);
        }
    }
    watch->count = kept;
}

static pawl_status add_directory(reader_watch *watch, const char *directory,
                                 watched_directory **out, pawl_error *err) {
    if (watch->count == watch->capacity) {
        forget_empty(watch);
    }
    TRY(vec_reserve(&watch->directories, &watch->capacity, watch->count + 1,
                    sizeof(*watch->directories), err));
    watched_directory *d = watch->directories + place_of(watch, directory);
    watched_directory *end = watch->directories + watch->count;
    memmove(d + 1, d, (size_t)(end - d) * sizeof(*d)); /* usually nothing: most come in order */
    *d = (watched_directory){.count = 0};
    snprintf(d->name, sizeof(d->name), "%s", directory);
    watch->count++;
    *out = d;
    return PAWL_OK;
}

/* ---- marks ---------------------------------------------------------------------------------- */

static int compare_marks(const void *a, const void *b) {
    return strcmp(((const watched *)a)->name, ((const watched *)b)->name);
}

static int compare_name(const void *name, const void *mark) {
    return strcmp(name, ((const watched *)mark)->name);
}

static watched *find_mark(const watched_directory *d, const char *name) {
    return d == NULL || d->sorted == 0
               ? NULL
               : bsearch(name, d->marks, d->sorted, sizeof(*d->marks), compare_name);
}

static pawl_status begin_watching(reader_watch *watch, const char *directory, const watched *mark,
                                  pawl_error *err) {
    watched_directory *d = find_directory(watch, directory);
    if (d == NULL) {
        TRY(add_directory(watch, directory, &d, err));
    }
    TRY(vec_reserve(&d->marks, &d->capacity, d->count + 1, sizeof(*d->marks), err));
    d->marks[d->count] = *mark;
    d->marks[d->count].name = mem_strdup(mark->name);
    if (d->marks[d->count].name == NULL) {
        return error_nomem(err, strlen(mark->name) + 1);
    }
    d->count++;
    return PAWL_OK;
}

pawl_status reader_watch_judge(reader_watch *watch, const char *directory, const char *name,
                               uint64_t counter, uint64_t now_ns, double still_s, bool *stale,
                               pawl_error *err) {
    watched *known = find_mark(find_directory(watch, directory), name);
    *stale = false;
    if (known == NULL) {
        const watched mark = {
            .name = (char *)name, .counter = counter, .since_ns = now_ns, .seen = true};
        return begin_watching(watch, directory, &mark, err);
    }
    if (known->counter != counter) {
        known->counter = counter;
        known->since_ns = now_ns;
    } else {
        *stale = (double)(now_ns - known->since_ns) >= still_s * 1e9;
    }
    known->seen = true;
    return PAWL_OK;
}

void reader_watch_end(reader_watch *watch, const char *directory) {
    watched_directory *d = find_directory(watch, directory);
    if (d == NULL) {
        return;
    }
    size_t kept = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (d->marks[i].seen) {
            d->marks[kept] = d->marks[i];
            d->marks[kept++].seen = false;
        } else {
            mem_free(d->marks[i].name);
        }
    }
    if (kept > 1) {
        qsort(d->marks, kept, sizeof(*d->marks), compare_marks);
    }
    d->count = d->sorted = kept;
}
