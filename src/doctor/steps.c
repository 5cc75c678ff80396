/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of a run: which is damaged (R08), and which is safe? */
#include "doctor/examination.h"

#include <stdio.h>
#include <string.h>

#define MOST_DAMAGED 8u /* steps that are told one by one */

static const pawl_log silent = {0};

/* ---- one step ------------------------------------------------------------------------------- */

static doctor_verdict verify_step(examination *x, store *s, int64_t step, pawl_severity severity,
                                  uint64_t deadline_ns) {
    struct pawl_error story = ERROR_INIT;
    char what[48];
    pawl_checkpoint *c = NULL;
    bool mark = x->asked->more->read_only == 0;
    (void)snprintf(what, sizeof what, "step %lld", (long long)step);
    if (checkpoint_open_for_call(s, step, x->os, &silent, mark, &c, &story) != PAWL_OK) {
        if (doctor_tell_unread(x, what, &story)) {
            return (doctor_verdict){.unread = true};
        }
        doctor_tell_error_as(x, "R08", severity, &story);
        return (doctor_verdict){.damaged = true};
    }
    doctor_verdict v = doctor_verify(x, c, what, severity, deadline_ns);
    pawl_checkpoint_close(c);
    v.unverified = NULL;
    return v;
}

static void tell_verdict(examination *x, const pawl_step_info *step, const doctor_verdict *v,
                         bool newest) {
    char bytes[32];
    char done[32];
    char word[1024];
    const char *age = newest ? ", the newest," : ", the newest that is not damaged,";
    if (v->finished) {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL,
                    "step %lld%s is safe to restore: all of its %s are as their checksums say",
                    (long long)step->step, age, text_bytes(bytes, step->bytes));
    } else {
        doctor_command(x, "pawl verify %s@%lld", doctor_word(word, x->path), (long long)step->step);
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, "'pawl verify' reads all of it",
                    "step %lld%s is committed, and all of its files have their sizes; no damage in "
                    "the %s of %s that were read",
                    (long long)step->step, age, text_bytes(done, v->done_bytes),
                    text_bytes(bytes, step->bytes));
    }
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void tell_unreadable(examination *x, const pawl_step_info *step) {
    doctor_evidence(x, "%s", step->why);
    doctor_tell(x, "P02", PAWL_SEVERITY_ERROR,
                "let this user read it, it may be whole; until then a restore has to name its step",
                "step %lld may not be read", (long long)step->step);
}

static void tell_damaged(examination *x, const pawl_catalog *catalog, int64_t newest) {
    size_t told = 0;
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        char word[1024];
        char first[600];
        bool unreadable = info->status == PAWL_STEP_UNREADABLE;
        if ((info->status != PAWL_STEP_DAMAGED && !unreadable) || told++ >= MOST_DAMAGED) {
            continue;
        }
        if (unreadable) {
            tell_unreadable(x, info);
            continue;
        }
        (void)snprintf(first, sizeof first, "%.*s",
                       (int)strcspn(info->why != NULL ? info->why : "", "\n"),
                       info->why != NULL ? info->why : "");
        doctor_evidence(x, "%s", info->why != NULL ? info->why : "its manifest");
        doctor_command(x, "pawl verify %s@%lld", doctor_word(word, x->path), (long long)info->step);
        doctor_tell(x, "R08", info->step > newest ? PAWL_SEVERITY_ERROR : PAWL_SEVERITY_WARNING,
                    "'pawl verify' lists what is damaged in it; no restore takes it by itself",
                    "step %lld is damaged: %s", (long long)info->step, first);
    }
}

static const pawl_step_info *committed_below(const pawl_catalog *catalog, int64_t below) {
    const pawl_step_info *found = NULL;
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        if (info->status == PAWL_STEP_COMMITTED && info->step < below) {
            found = info;
        }
    }
    return found;
}

static const pawl_step_info *step_asked_for(examination *x, const pawl_catalog *catalog) {
    const int64_t *step = x->asked->more->step;
    if (step == NULL) {
        return committed_below(catalog, INT64_MAX);
    }
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        if (info->step == *step && info->status == PAWL_STEP_COMMITTED) {
            return info;
        }
    }
    doctor_tell(x, "R09", PAWL_SEVERITY_ERROR, "'pawl ls' lists the steps",
                "there is no committed step %lld", (long long)*step);
    return NULL;
}

/* The newest is read; where it is damaged the one before, until one is found that is not. */
static void find_safe(examination *x, store *s, const pawl_catalog *catalog) {
    uint64_t deadline_ns = doctor_verify_deadline(x);
    const pawl_step_info *first = step_asked_for(x, catalog);
    const pawl_step_info *step = first;
    while (step != NULL) {
        doctor_verdict v = verify_step(x, s, step->step, PAWL_SEVERITY_ERROR, deadline_ns);
        if (v.unread || x->stopped) {
            return; /* the one before would be no better */
        }
        if (!v.damaged) {
            tell_verdict(x, step, &v, step == first);
            x->newest = step->step;
            return;
        }
        step = committed_below(catalog, step->step);
    }
    if (first != NULL) {
        doctor_tell(x, "R08", PAWL_SEVERITY_ERROR, "look for a copy of the run elsewhere",
                    "no step of the run is safe to restore");
    }
}

static void tell_none_committed(examination *x, store *s, const pawl_catalog *catalog) {
    struct pawl_error story = ERROR_INIT;
    if (pawl_catalog_count(catalog) > 0 && catalog_explain_missing(s, catalog, &story) != PAWL_OK) {
        doctor_tell_error_as(x, "R09", PAWL_SEVERITY_WARNING, &story);
    }
}

void doctor_examine_run(examination *x, store *s) {
    struct pawl_error story = ERROR_INIT;
    pawl_catalog *catalog = NULL;
    if (catalog_open(s, x->os, &silent, &catalog, &story) != PAWL_OK) {
        if (!doctor_tell_unread(x, "the run", &story)) {
            doctor_tell_error(x, "R09", &story);
        }
        return;
    }
    const pawl_step_info *newest = committed_below(catalog, INT64_MAX);
    if (pawl_catalog_count(catalog) == 0) {
        doctor_examine_below(x, s);
    } else {
        tell_damaged(x, catalog, newest != NULL ? newest->step : -1);
        find_safe(x, s, catalog);
        doctor_examine_unfinished(x, s, catalog);
        if (newest == NULL) {
            tell_none_committed(x, s, catalog);
        }
    }
    pawl_catalog_free(catalog);
}
