/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor: explains, before a job starts, whether a path can be saved to and why not: P01 to P09,
 * S06, S10; for many ranks, whether they see the same directory.
 *
 * Treats the path as a save would: resolves it, writes and removes a small file, asks for room,
 * looks at the owner. Nothing that it makes stays.
 *
 * Threads: starts none. Ownership: whoever calls keeps all that is handed in.
 */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

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
} doctor_asked;

/* `*worst`: the most severe finding; set on success alone. On a rank other than 0 the last finding
 * is "ok" when rank 0 has heard from it: it tells what this rank sees. */
pawl_status doctor_examine(const doctor_asked *asked, doctor_each each, void *context,
                           pawl_severity *worst, pawl_error *err) PAWL_MUST_CHECK;

#endif
