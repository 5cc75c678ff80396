/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the checksums that a format has, and that reading it does not compare. */
#include "source/source.h"

typedef struct summing {
    int (*stop)(void *context); /* NULL: never */
    void *context;
    bool failed;
    struct pawl_error story; /* the first problem */
} summing;

static void take_problem(void *context, const char *file, const char *entry, pawl_error *story) {
    summing *s = context;
    (void)file; /* it is in the story's path */
    if (s->failed) {
        return;
    }
    s->failed = true;
    s->story = *story;
    if (entry != NULL) {
        error_entry(&s->story, entry);
    }
}

/* The first problem ends it: nothing more is told than that. */
static pawl_status go_on(void *context, uint64_t bytes, pawl_error *err) {
    const summing *s = context;
    (void)bytes;
    if (s->failed || (s->stop != NULL && s->stop(s->context) != 0)) {
        return error_set(err, PAWL_ECANCELED, "it was stopped by its caller");
    }
    return PAWL_OK;
}

pawl_status source_note_begin(struct source *of, pawl_error *err) {
    source_note_end(of);
    return of->sums_apart ? source_parts_new(&of->parts, err) : PAWL_OK;
}

void source_note(struct source *of, uint32_t file, uint64_t at, const void *bytes, size_t n) {
    if (of->parts != NULL) {
        source_parts_add(of->parts, of, file, at, bytes, n);
    }
}

void source_note_end(struct source *of) {
    source_parts_free(of->parts);
    of->parts = NULL;
}

pawl_status source_check_sums(struct source *of, int (*stop)(void *context), void *context,
                              pawl_error *err) {
    summing s = {.stop = stop, .context = context};
    source_verifier v = {
        .context = &s, .parts = of->parts, .problem = take_problem, .progress = go_on};
    if (!of->sums_apart) {
        return PAWL_OK;
    }
    pawl_status status = of->ops->verify(of, &v, err);
    if (s.failed) {
        *err = s.story;
        return err->status;
    }
    return status;
}
