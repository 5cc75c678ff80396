/* SPDX-License-Identifier: Apache-2.0 */
/* run/sweep: looks for leftovers in one directory of a run and removes them. Used by garbage.c. */
#ifndef RUN_SWEEP_H
#define RUN_SWEEP_H

#include "run/private.h"

/* Begins with what is not marked otherwise; the rest is zero. */
typedef struct sweep {
    pawl_run *run;
    const char *directory;
    bool dry_run;
    bool under_way; /* a save is: the one of this number has not ended */
    pawl_gc_fn each;
    void *context;
    uint64_t removed, left; /* out: names */
    bool come_back;         /* out: what stays now may go later */
    bool gone;              /* out: the directory is; its name is to be synced */
    manifest manifest;      /* within sweep_step; `seen` only */
    bool seen;
} sweep;

/* Removes a file of the directory, unless this is a dry run; tells of it in either case. */
pawl_status sweep_file(sweep *s, const char *name, const char *reason, pawl_error *err)
    PAWL_MUST_CHECK;
/* What a look left (evidence.h). */
bool sweep_is_look(const char *name);
void sweep_remove_look(const sweep *s);
/* A step's directory, all of it. */
pawl_status sweep_step(sweep *s, pawl_error *err) PAWL_MUST_CHECK;

#endif
