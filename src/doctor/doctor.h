/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor: explains, before a job starts, what keeps it from saving or restoring.
 *
 * That is whether a path can be saved to and why not (P01 to P10, S06, S08, S10), how fast (P11),
 * whether what is there is whole (R08, R09, S09) and fits a model (R01 to R07, R10), what the
 * machine has for it, and, for many ranks, whether they see the same directory.
 *
 *   path         answer.c resolve.c room.c quota.c writing.c owner.c
 *   its speed    probe.c saves.c interval.c
 *   checkpoint   checkpoint.c foreign.c steps.c leftovers.c
 *   a model      template.c model.c
 *   environment  environment.c limits.c cgroup.c
 *   many ranks   same_directory.c sight.c token.c judge.c
 *
 * Treats the path as a save would: resolves it, writes and removes files, asks for room, looks at
 * the owner. Nothing that it makes stays.
 *
 * Threads: one that asks whether the filesystem answers, which is left behind where it does not;
 * those of a queue of writes. Ownership: whoever calls keeps all that is handed in.
 */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include "checkpoint/checkpoint.h"
#include "ranks/ranks.h"
#include "store/store.h"

#include <pawl/doctor.h>
#include <pawl/storage.h>

typedef void (*doctor_each)(void *context, const pawl_finding *finding);

typedef struct doctor_asked {
    const char *path;
    const pawl_storage *storage; /* NULL: the local filesystem */
    uint64_t need_bytes;         /* 0: the size of the newest checkpoint */
    job_ranks *ranks;            /* many: the call is collective */
    double group_deadline_s;
    const pawl_doctor_options *more; /* the rest; what it does not say has its default already */
    const pawl_restore_options *restore; /* NULL: none */
    /* Opens what there is at a path, of any format; `step` CHECKPOINT_NEWEST: the newest. */
    pawl_status (*open)(const char *path, const pawl_storage *storage, int64_t step,
                        pawl_checkpoint **out, pawl_error *err);
    pawl_report **report; /* NULL: not wanted */
} doctor_asked;

/* `*worst`: the most severe finding; set on success alone. On a rank other than 0 the last finding
 * is "ok" when rank 0 has heard from it: it tells what this rank sees. PAWL_EUSAGE: the model is
 * none. */
pawl_status doctor_examine(const doctor_asked *asked, doctor_each each, void *context,
                           pawl_severity *worst, pawl_error *err) PAWL_MUST_CHECK;

#endif
