/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/checkpoint.h: looking at checkpoints without owning their run: list, open, find, read,
 * verify, and the doctor. Nothing here writes, except a small mark in a step's directory, where
 * that is possible, which keeps the checkpoint from being removed while it is open. Each open
 * checkpoint has a thread that advances the mark every 5 seconds and sleeps in between.
 *
 * Handles are used by one thread at a time; several handles may be open on one run. A forked child
 * cannot use the parent's checkpoints, for their marks are the parent's (pawl/pawl.h).
 */
#ifndef PAWL_CHECKPOINT_H
#define PAWL_CHECKPOINT_H

#include <pawl/restore.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the checkpoints of a run --------------------------------------------------------------- */

typedef enum pawl_step_status {
    PAWL_STEP_COMMITTED = 1,  /* has a manifest that verifies, and every file at its size */
    PAWL_STEP_UNFINISHED = 2, /* no manifest: a save in progress, what a crash left, no directory */
    PAWL_STEP_DAMAGED = 3     /* a manifest, but it or a file that it names is damaged or missing */
} pawl_step_status;

typedef struct pawl_step_info {
    int64_t step;
    pawl_step_status status;
    uint64_t bytes; /* of all files of the step's directory */
    uint64_t files;
    uint64_t entries;     /* committed only */
    int64_t unix_time_ns; /* of the save, by the writer's clock; 0: unknown */
    int world_size;
    int pinned;
    int being_read;
    const char *metrics_json; /* "{}" when there are none */
    const char *why;          /* why it is unfinished or damaged; otherwise NULL */
} pawl_step_info;

typedef struct pawl_catalog pawl_catalog;

/* Reads the run's directory and every manifest. Cheap: no data file is opened. Even while the run
 * changes, each step is shown as it was at one moment; PAWL_EBUSY when it changes too fast for
 * that. PAWL_ENOTFOUND says what is at the path instead (another tool's checkpoint, an empty
 * directory, one step's directory). */
PAWL_API pawl_status pawl_catalog_open(const char *run_path, const pawl_log *log,
                                       pawl_catalog **catalog, pawl_error *err) PAWL_MUST_CHECK;
PAWL_API void pawl_catalog_free(pawl_catalog *catalog);
/* Ascending by step. Text lives as long as the catalog. */
PAWL_API size_t pawl_catalog_count(const pawl_catalog *catalog);
PAWL_API const pawl_step_info *pawl_catalog_get(const pawl_catalog *catalog, size_t i);

#define PAWL_NEWEST ((int64_t)-1)

/* ---- who writes to a run -------------------------------------------------------------------- */

typedef enum pawl_owner_state {
    PAWL_OWNER_NONE = 0,   /* nobody: the last one closed the run, or there was none yet */
    PAWL_OWNER_ALIVE = 1,  /* a running process of this host */
    PAWL_OWNER_GONE = 2,   /* a process of this host that ended without closing the run */
    PAWL_OWNER_UNKNOWN = 3 /* of another host or container: only its heartbeat can tell */
} pawl_owner_state;

typedef struct pawl_owner_info {
    pawl_owner_state state;
    char host[256];
    int64_t pid;
    char attempt[16];       /* id of this opening of the run; "": the record is being written */
    double lease_s;         /* in this time it advances its heartbeat several times */
    double heartbeat_age_s; /* by two hosts' clocks, so only for people; negative: unknown */
} pawl_owner_info;

/* Reads the owner's record once. Fails like pawl_catalog_open, but not for an empty directory. */
PAWL_API pawl_status pawl_owner_look(const char *run_path, pawl_owner_info *info, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- one checkpoint ------------------------------------------------------------------------- */

typedef struct pawl_checkpoint pawl_checkpoint;

/*
 * Opens a committed checkpoint; PAWL_NEWEST takes the newest committed one (no fallback: a damaged
 * one is PAWL_EDAMAGED). Reads the manifest and a few blocks of the index. `log` may be NULL.
 *
 * The run may change meanwhile: where a step is removed while it is being opened, the run is looked
 * at again. PAWL_ENOTFOUND for PAWL_NEWEST means that there is none, PAWL_EBUSY that the run
 * changes faster than it can be opened. What is open stays readable until it is closed, whatever
 * becomes of the step and however long nothing is read: a reader's mark keeps its files. They may
 * be removed all the same where no mark can be made (a read-only mount, no permission; `log` says
 * so), and where this process stood still (stopped, or its machine asleep) for 30 seconds and a
 * whole lease of a writer that cannot see by pid that it lives, as on another host. Reading then
 * fails with PAWL_EBUSY. Closing removes the mark.
 */
PAWL_API pawl_status pawl_checkpoint_open(const char *run_path, int64_t step, const pawl_log *log,
                                          pawl_checkpoint **checkpoint, pawl_error *err)
    PAWL_MUST_CHECK;
PAWL_API void pawl_checkpoint_close(pawl_checkpoint *checkpoint); /* NULL is fine */

typedef struct pawl_checkpoint_info {
    int64_t step;
    int format_version;
    int64_t unix_time_ns;
    int world_size;
    uint64_t entries;
    uint64_t data_files;
    uint64_t data_bytes;
    uint64_t index_bytes;
    const char *attempt;
    const char *framework;     /* "" when not given */
    const char *path;          /* absolute path of the step's directory */
    const char *manifest_json; /* the whole text of the file, which was checked */
    const char *metrics_json;  /* its metrics, an object */
} pawl_checkpoint_info;

/* Text lives as long as the handle. */
PAWL_API void pawl_checkpoint_describe(const pawl_checkpoint *checkpoint,
                                       pawl_checkpoint_info *info);

/* Calls and bytes read so far, index included. */
typedef struct pawl_read_stats {
    uint64_t reads, bytes;
} pawl_read_stats;
PAWL_API pawl_read_stats pawl_checkpoint_reads(const pawl_checkpoint *checkpoint);

typedef struct pawl_entry_info {
    const char *name;
    pawl_kind kind;
    pawl_role role;
    const char *slot_of; /* NULL when not a slot */
    const char *slot;
    int per_rank;
    int replicated;
    pawl_dtype dtype;     /* tensors */
    int ndim;             /* tensors */
    const int64_t *shape; /* tensors: global shape */
    uint64_t bytes;    /* tensors: of the whole tensor; values: of the value (per rank: rank 0's) */
    uint64_t pieces;   /* boxes it is stored in, over all ranks */
    const void *value; /* values: int64 and float64 as 8 bytes in this machine's order, bool as 1
                             byte, string and JSON without a final NUL; tensors, per rank: NULL */
} pawl_entry_info;

/* Finds one entry. Pointers live until the next call on this handle. PAWL_ENOTFOUND names near
 * misses. */
PAWL_API pawl_status pawl_checkpoint_find(pawl_checkpoint *checkpoint, const char *name,
                                          pawl_entry_info *info, pawl_error *err) PAWL_MUST_CHECK;

typedef struct pawl_entries pawl_entries;

/* Walks entries whose name begins with `prefix` ("" for all), ascending by name (bytewise).
 * `*more` is 0 after the last. Pointers in `info` live until the next call on this walk. The walk
 * must be freed before its checkpoint is closed. */
PAWL_API pawl_status pawl_entries_open(pawl_checkpoint *checkpoint, const char *prefix,
                                       pawl_entries **entries, pawl_error *err) PAWL_MUST_CHECK;
PAWL_API pawl_status pawl_entries_next(pawl_entries *entries, pawl_entry_info *info, int *more,
                                       pawl_error *err) PAWL_MUST_CHECK;
PAWL_API void pawl_entries_free(pawl_entries *entries);

/*
 * Reads one slice of a tensor: `extent` elements per dimension from `offset` on (both NULL: all of
 * it), dense and row-major into `to`, which has exactly `to_bytes` bytes. Only the blocks that hold
 * the slice are read; every one is verified.
 */
PAWL_API pawl_status pawl_checkpoint_read(pawl_checkpoint *checkpoint, const char *name,
                                          const int64_t *offset, const int64_t *extent, void *to,
                                          size_t to_bytes, pawl_error *err) PAWL_MUST_CHECK;

/* Reads rank `rank`'s per-rank bytes: *size is set; up to `capacity` bytes are copied to `to`. */
PAWL_API pawl_status pawl_checkpoint_read_rank(pawl_checkpoint *checkpoint, const char *name,
                                               int rank, void *to, size_t capacity, size_t *size,
                                               pawl_error *err) PAWL_MUST_CHECK;

/* Restores a state without owning the run. `options->step` is ignored. */
PAWL_API pawl_status pawl_checkpoint_restore(pawl_checkpoint *checkpoint, pawl_state *state,
                                             const pawl_restore_options *options,
                                             pawl_report **report, pawl_error *err) PAWL_MUST_CHECK;

/* ---- verify --------------------------------------------------------------------------------- */

typedef struct pawl_problem {
    const char *file;  /* relative to the step's directory */
    const char *entry; /* entry hit by the damage, or NULL when none is (padding, index, ...) */
    uint64_t offset, length; /* damaged range of the file, in bytes */
    const char *text;        /* as of pawl_error_text */
} pawl_problem;

typedef struct pawl_verify_options {
    size_t struct_size;
    void (*problem)(void *context, const pawl_problem *problem);             /* [none] */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t of_bytes); /* [none] */
    void *context;
    uint64_t max_problems;      /* stop after so many [1000] */
    int (*stop)(void *context); /* called now and then: not 0 ends it with PAWL_ECANCELED [none] */
} pawl_verify_options;

typedef struct pawl_verify_result {
    uint64_t files, bytes, entries, problems;
} pawl_verify_result;

/* Reads every byte of the step's files, goes on after damage, reports each problem. PAWL_EDAMAGED
 * if there is one (`err` has the first). A step that was removed or saved again since it was opened
 * is verified as it was opened, and the log says so. */
PAWL_API pawl_status pawl_checkpoint_verify(pawl_checkpoint *checkpoint,
                                            const pawl_verify_options *options,
                                            pawl_verify_result *result, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- doctor --------------------------------------------------------------------------------- */

typedef struct pawl_finding {
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
} pawl_doctor_options;

/*
 * Explains whether a run can be saved at `run_path`, and leaves nothing behind: P01 to P09, S06,
 * S10. Calls `each` for each finding. PAWL_OK whenever it could look; `*worst` (may be NULL) is the
 * highest severity found.
 */
PAWL_API pawl_status pawl_doctor(const char *run_path, const pawl_doctor_options *options,
                                 void (*each)(void *context, const pawl_finding *finding),
                                 void *context, pawl_severity *worst, pawl_error *err)
    PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
