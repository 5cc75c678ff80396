/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint/step_scan: looking at a run while others save to it and remove from it.
 *
 * Between a listing and the look at what was listed a step may go and a newer one come, and a
 * listing that runs meanwhile may show neither. So a reader that loses a step looks again, and that
 * a run has no checkpoint is believed only after two looks in a row that saw the same, and nothing.
 *
 * Why that proves it, where looks are current: a writer commits, then writes `latest`, then removes
 * what is older (I7). Each look begins with `latest`. If it says the same before and after a look,
 * no commit ended between the two, so the step that it names was not removed by one; and that step
 * is looked at by its name, listed or not. Where `latest` is not kept, the listings alone speak.
 */
#ifndef CHECKPOINT_STEP_SCAN_H
#define CHECKPOINT_STEP_SCAN_H

#include "store/store.h"

#define STEP_SCAN_HINT_BYTES 64u

typedef struct step_scan {
    store *store;
    const platform *platform;
    uint64_t begun_ns;
    unsigned lost; /* looks that were in vain */
    /* What the latest look saw: numbers of step directories, ascending, with the one in the hint.
     * They live until the next look. */
    int64_t *steps;
    size_t count;
    char hint[STEP_SCAN_HINT_BYTES];
    arena memory;
    bool same;    /* as the look before */
    bool nothing; /* was found by the look before */
} step_scan;

/* `s` and `os` are borrowed. */
step_scan step_scan_of(store *s, const platform *os);
void step_scan_free(step_scan *l);
pawl_status step_scan_list(step_scan *l, pawl_error *err) PAWL_MUST_CHECK;
/* The newest step with a manifest that the latest look saw; -1: none. */
pawl_status step_scan_newest(const step_scan *l, int64_t *out, pawl_error *err) PAWL_MUST_CHECK;
/* The latest look found a checkpoint that is gone. */
void step_scan_saw_one(step_scan *l);
/* The latest look found no checkpoint: is that to be believed? If not, look again. */
bool step_scan_confirms_empty(step_scan *l);
/* The latest look was in vain, because the run has changed. PAWL_EBUSY when that happened too often
 * or for too long. */
pawl_status step_scan_retry(step_scan *l, pawl_error *err) PAWL_MUST_CHECK;

#endif
