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

pawl_status source_check_sums(struct source *of, source_parts *parts, int (*stop)(void *context),
                              void *context, pawl_error *err) {
    summing s = {.stop = stop, .context = context};
    source_verifier v = {.context = &s, .parts = parts, .problem = take_problem, .progress = go_on};
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
