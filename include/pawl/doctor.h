/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/doctor.h: explains, before a job starts, whether a path can be saved to and how fast,
 * whether a checkpoint is whole and fits a model, what the machine has for both, and what of a
 * SavedModel an accelerator could not run. docs/doctor.md lists what is looked at.
 */
#ifndef PAWL_DOCTOR_H
#define PAWL_DOCTOR_H

#include <pawl/restore.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_finding {
    size_t struct_size;
    const char *id; /* of the failure catalogue: "P02", "S06", ...; "ok" for what is fine; E01 to
                       E03 for limits and the clock, which the catalogue does not have */
    pawl_severity severity;
    const char *text;     /* one sentence */
    const char *next;     /* what to do, or NULL */
    const char *evidence; /* what that was concluded from, or NULL */
    const char *command;  /* `next` as a line for a shell, or NULL */
    const char *part;     /* "path", "checkpoint", "restore", "environment" or "job" */
} pawl_finding;

/* What is looked at. */
typedef enum pawl_doctor_part {
    PAWL_DOCTOR_PATH = 1, /* can a run be saved there? P01 to P10, S06, S08, S10 */
    /* What a save costs there: at most 64 MiB and about a second of writing, syncing and reading
     * back. P11; nothing is written where PATH found an error */
    PAWL_DOCTOR_PROBE = 2,
    /* The checkpoints there, of any format: are they whole? R08, R09, S09. At most verify_s seconds
     * of reading */
    PAWL_DOCTOR_CHECKPOINT = 4,
    PAWL_DOCTOR_ENVIRONMENT = 8, /* ranks, memory, limits, clock, kernel: S05, S06, S12, E01.. */
    PAWL_DOCTOR_ALL = 15
} pawl_doctor_part;

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

    int64_t parts;     /* of pawl_doctor_part [PAWL_DOCTOR_PATH alone] */
    int64_t read_only; /* 1: nothing is written: whether that would work is not found out [0] */
    double answer_s;   /* seconds that the filesystem has for its first answers (S08) [5] */
    double verify_s;   /* seconds for reading checkpoints; less than 0: all of the newest [1] */
    double every_s;    /* seconds between saves [what the run's events say] */
    double mtbf_s;     /* seconds between failures of the job, on average: then it says how often
                          to save [0: it does not] */
    uint64_t budget_bytes; /* staging memory of a save [256 MiB] */
    int64_t ranks;         /* of the job, whether or not this is one of them [group's] */
    /* NAME=VALUE, as `environ`: which launcher started this, as which rank [NULL: not looked at] */
    const char *const *environment;
    const int64_t *step; /* of a run: the checkpoint to look at [the newest] */
    /* What would restoring the checkpoint into a model report? The model is another checkpoint, of
     * any format, or a file of JSON that lists entries (docs/doctor.md); or a state. Nothing is
     * read into it. One of both [NULL: neither] */
    const char *model;
    const int64_t *model_step; /* where the model is a run [NULL: the newest] */
    pawl_state *state;
    const pawl_restore_options *restore; /* as of pawl_restore; no group, supply or step [NULL] */
    pawl_report **report; /* set to the report, for the caller to free; NULL there: none [NULL] */
    /* Called now and then while checkpoints are read, with the call's `context`: not 0 ends it with
     * PAWL_ECANCELED [none] */
    int (*stop)(void *context);
} pawl_doctor_options;

/*
 * Explains whether a run can be saved at `run_path`, and leaves nothing behind: P01 to P10, S06,
 * S10; and what else `parts` names. With PAWL_DOCTOR_CHECKPOINT the path may be a checkpoint of any
 * format; of one of another tool only that is looked at, and nothing is written beside it. With a
 * group of many ranks rank 0 alone looks at PROBE and CHECKPOINT.
 *
 * If the path is a SavedModel of TensorFlow, its directory or saved_model.pb, and one process asks,
 * it explains instead what an accelerator could not run, signature by signature, and writes
 * nothing: inputs with unknown dimensions (J03), ops and types that XLA has no kernel for (J07);
 * R08 and R14 where it cannot be read.
 *
 * Calls `each` (may be NULL) for each finding, on the caller's thread; text lives until it returns.
 * PAWL_OK whenever it could look, whatever it found; `*worst` (may be NULL) is the highest
 * severity. PAWL_EUSAGE: the call, the group or the model is wrong; PAWL_EUNSUPPORTED: many ranks
 * on another storage than the local filesystem. A model that cannot be read fails as opening it
 * does. Where the filesystem does not answer (S08) a thread is left waiting in it: a process may
 * then not be able to end before it answers.
 */
PAWL_API pawl_status pawl_doctor(const char *run_path, const pawl_doctor_options *options,
                                 void (*each)(void *context, const pawl_finding *finding),
                                 void *context, pawl_severity *worst, pawl_error *err)
    PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
