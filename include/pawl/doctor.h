/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/doctor.h: explains, before a job starts, whether a path can be saved to, and why not.
 */
#ifndef PAWL_DOCTOR_H
#define PAWL_DOCTOR_H

#include <pawl/restore.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_finding {
    size_t struct_size;
    const char *id; /* of the failure catalogue: "P02", "S06", ...; "ok" for what is fine */
    pawl_severity severity;
    const char *text; /* one sentence */
    const char *next; /* what to do, or NULL */
} pawl_finding;

typedef struct pawl_doctor_options {
    size_t struct_size;
    uint64_t need_bytes; /* size of a future checkpoint [that of the newest one, or 0] */
    /* The ranks of the job: the call is then collective, each rank reports what it sees, and rank 0
     * what they see together: P04 to P06 [one process] */
    const pawl_group *group;
    double group_deadline_s; /* seconds to wait for the other ranks [30] */
    /* Where the run would be; of another storage than the local filesystem that can be written to
     * and who writes is all that is looked at [NULL: the local filesystem] */
    const pawl_storage *storage;
} pawl_doctor_options;

/*
 * Explains whether a run can be saved at `run_path`, and leaves nothing behind: P01 to P09, S06,
 * S10. If it is a SavedModel of TensorFlow, its directory or saved_model.pb, and one process asks,
 * explains instead what an accelerator could not run, signature by signature, and writes nothing:
 * inputs with unknown dimensions (J03), ops and types that XLA has no kernel for (J07); R08 and R14
 * where it cannot be read.
 *
 * Calls `each` (may be NULL) for each finding, on the caller's thread; text lives until it returns.
 * PAWL_OK whenever it could look, whatever it found; `*worst` (may be NULL) is the highest
 * severity. PAWL_EUSAGE: the call or the group is wrong; PAWL_EUNSUPPORTED: many ranks on another
 * storage than the local filesystem.
 */
PAWL_API pawl_status pawl_doctor(const char *run_path, const pawl_doctor_options *options,
                                 void (*each)(void *context, const pawl_finding *finding),
                                 void *context, pawl_severity *worst, pawl_error *err)
    PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
