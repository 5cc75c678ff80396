/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint/step_scan: lists the steps of a run while others save to it and remove from it.
 *
 * Between a listing and the opening of a step that it shows, the step may be removed and a newer
 * one committed; a listing that runs meanwhile may show neither. So a reader that loses a step
 * lists again, and believes that a run has no checkpoint only when two listings in a row are the
 * same and no step of either has a manifest.
 *
 * Why that is enough, where the storage shows every change at once: a writer commits, then writes
 * `latest`, then removes what is older (I7 in src/commit/commit.c). Each listing begins by reading
 * `latest`. If it says the same in two listings, no commit was completed in between, so no commit
 * removed the step that it names; and that step is looked for by its name, listed or not. Where
 * `latest` is missing, there are only the listings to go by.
 */
#ifndef CHECKPOINT_STEP_SCAN_H
#define CHECKPOINT_STEP_SCAN_H

#include "store/store.h"

#define STEP_SCAN_HINT_BYTES 64u

typedef struct step_scan {
    store *store;
    const platform *platform;
    uint64_t begun_ns;
    unsigned retries;
    /* The latest listing: numbers of step directories, ascending, with the one that `latest` names.
     * They live until the next listing. */
    int64_t *steps;
    size_t count;
    char hint[STEP_SCAN_HINT_BYTES]; /* what `latest` said */
    arena memory;
    bool unchanged; /* the latest listing equals the one before */
    bool was_empty; /* no checkpoint was found in the listing before */
} step_scan;

/* `s` and `os` are borrowed. */
step_scan step_scan_of(store *s, const platform *os);
void step_scan_free(step_scan *scan);
pawl_status step_scan_list(step_scan *scan, pawl_error *err) PAWL_MUST_CHECK;
/* The newest step of the latest listing that has a manifest; -1: none. */
pawl_status step_scan_newest(const step_scan *scan, int64_t *out, pawl_error *err) PAWL_MUST_CHECK;
/* The latest listing had a checkpoint, though it is gone now. */
void step_scan_saw_one(step_scan *scan);
/* The latest listing had no checkpoint. True when that is certain; otherwise retry. */
bool step_scan_confirms_empty(step_scan *scan);
/* Call it before listing again. PAWL_EBUSY after too many retries, or too long. */
pawl_status step_scan_retry(step_scan *scan, pawl_error *err) PAWL_MUST_CHECK;

#endif
