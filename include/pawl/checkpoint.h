/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/checkpoint.h: looking at checkpoints without owning their run: list, open, find, read,
 * and verify. Nothing here writes, except a small mark in a step's directory, where that is
 * possible, which keeps the checkpoint from being removed while it is open. Each open checkpoint
 * has a thread that advances the mark every 5 seconds and sleeps in between.
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
    PAWL_STEP_DAMAGED = 3,    /* a manifest, but it or a file that it names is damaged or missing */
    PAWL_STEP_UNREADABLE = 4  /* the system refused to read it: it may be whole */
} pawl_step_status;

typedef struct pawl_step_info {
    size_t struct_size;
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
    const char *why;          /* why it is not committed; otherwise NULL */
} pawl_step_info;

typedef struct pawl_catalog pawl_catalog;

/* Reads the run's directory and every manifest. Cheap: no data file is opened. `options` may be
 * NULL, here and below; their `step` must be NULL where no step is opened. Even while the run
 * changes, each step is shown as it was at one moment; PAWL_EBUSY when it changes too fast for
 * that. PAWL_ENOTFOUND says what is there instead (another tool's checkpoint, one step). */
PAWL_API pawl_status pawl_catalog_open(const char *run_path, const pawl_open_options *options,
                                       pawl_catalog **catalog, pawl_error *err) PAWL_MUST_CHECK;
PAWL_API void pawl_catalog_free(pawl_catalog *catalog);
/* Ascending by step. Text lives as long as the catalog. */
PAWL_API size_t pawl_catalog_count(const pawl_catalog *catalog);
PAWL_API const pawl_step_info *pawl_catalog_get(const pawl_catalog *catalog, size_t i);

/* ---- who writes to a run -------------------------------------------------------------------- */

typedef enum pawl_owner_state {
    PAWL_OWNER_NONE = 0,   /* nobody: the last one closed the run, or there was none yet */
    PAWL_OWNER_ALIVE = 1,  /* a running process of this host */
    PAWL_OWNER_GONE = 2,   /* a process of this host that ended without closing the run */
    PAWL_OWNER_UNKNOWN = 3 /* of another host or container: only its heartbeat can tell */
} pawl_owner_state;

/* Nothing is to be freed: the texts are in arrays, with room for the longest name that a host may
 * have, and for longer ids than there are. */
typedef struct pawl_owner_info {
    size_t struct_size; /* sizeof(pawl_owner_info) */
    pawl_owner_state state;
    int64_t pid;
    char host[256];
    char attempt[64];       /* id of this opening of the run; "": the record is being written */
    double lease_s;         /* in this time it advances its heartbeat several times */
    double heartbeat_age_s; /* by two hosts' clocks, so only for people; negative: unknown */
} pawl_owner_info;

/* Reads the owner's record once. Fails like pawl_catalog_open, but not for an empty directory. */
PAWL_API pawl_status pawl_owner_look(const char *run_path, const pawl_open_options *options,
                                     pawl_owner_info *info, pawl_error *err) PAWL_MUST_CHECK;

/* ---- one checkpoint ------------------------------------------------------------------------- */

typedef struct pawl_checkpoint pawl_checkpoint;

/*
 * Opens a committed checkpoint, the newest one where `options` name no step (no fallback: a damaged
 * one is PAWL_EDAMAGED). Reads the manifest and a few blocks of the index.
 *
 * The run may change meanwhile: where a step is removed while it is being opened, the run is looked
 * at again. PAWL_ENOTFOUND without a step means that there is none, PAWL_EBUSY that the run
 * changes faster than it can be opened. What is open stays readable until it is closed, whatever
 * becomes of the step and however long nothing is read: a reader's mark keeps its files. They may
 * be removed all the same where no mark can be made (a read-only mount, no permission; `log` says
 * so), and where this process stood still (stopped, or its machine asleep) for 30 seconds and a
 * whole lease of a writer that cannot see by pid that it lives, as on another host. Reading then
 * fails with PAWL_EBUSY. Closing removes the mark. Weights of other tools (docs/sources.md), which
 * are opened, too, get none: reading a file that was changed meanwhile is PAWL_EBUSY.
 */
PAWL_API pawl_status pawl_checkpoint_open(const char *run_path, const pawl_open_options *options,
                                          pawl_checkpoint **checkpoint, pawl_error *err)
    PAWL_MUST_CHECK;
PAWL_API void pawl_checkpoint_close(pawl_checkpoint *checkpoint); /* NULL is fine */

typedef struct pawl_checkpoint_info {
    size_t struct_size; /* sizeof(pawl_checkpoint_info) */
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
    const char *path;          /* absolute path of the step's directory, or of what was opened */
    const char *manifest_json; /* the whole text of the file, which was checked */
    const char *metrics_json;  /* its metrics, an object */
    /* What it is: "pawl"; or "safetensors", "PyTorch, sharded" and what else there is of other
     * tools. Those have no step (-1), no ranks (0), no manifest and no metrics ("{}"), and
     * unix_time_ns is when a file of theirs was changed last. */
    const char *format;
} pawl_checkpoint_info;

/* Text lives as long as the handle. */
PAWL_API pawl_status pawl_checkpoint_describe(const pawl_checkpoint *checkpoint,
                                              pawl_checkpoint_info *info, pawl_error *err)
    PAWL_MUST_CHECK;

/* Calls and bytes read so far, index included. */
typedef struct pawl_read_stats {
    size_t struct_size; /* sizeof(pawl_read_stats) */
    uint64_t reads, bytes;
} pawl_read_stats;
PAWL_API pawl_status pawl_checkpoint_reads(const pawl_checkpoint *checkpoint,
                                           pawl_read_stats *stats, pawl_error *err) PAWL_MUST_CHECK;

typedef struct pawl_entry_info {
    size_t struct_size; /* sizeof(pawl_entry_info) */
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
    const char *type;  /* tensors: the name of the type of their elements: as of pawl_dtype_name, or
                          one that is no pawl_dtype, whose values cannot be read; dtype is 0 then */
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
 * it), dense and row-major into `to`, of exactly `to_bytes` bytes. Only blocks that hold the slice
 * are read, verified if there are checksums of them. PAWL_ENOTFOUND names near misses; PAWL_EUSAGE:
 * no tensor, a slice not within it, or another size; PAWL_EDAMAGED names file and bytes.
 */
PAWL_API pawl_status pawl_checkpoint_read(pawl_checkpoint *checkpoint, const char *name,
                                          const int64_t *offset, const int64_t *extent, void *to,
                                          size_t to_bytes, pawl_error *err) PAWL_MUST_CHECK;

/*
 * Fills `tensor`, whose struct_size the caller has set, so that pawl_state_add_tensor adds this
 * tensor of the checkpoint to a state: name, dtype, shape, role, slot, and as its memory the
 * checkpoint (pawl/memory.h), which is read when the state is saved, by the thread of the save and
 * without disturbing calls on this handle. So one checkpoint is converted into another while only
 * the staging budget is in memory. Other members are zero, and may be set: replicated, another
 * name. What is read is verified as by pawl_checkpoint_read; damage fails the save with
 * PAWL_EDAMAGED, naming file and tensor. Nothing can be restored into such a state.
 *
 * What the members point to lives until the checkpoint is closed. It must stay open until no state
 * has the tensor any more, and the runs that saved it are closed. PAWL_ENOTFOUND names near misses;
 * PAWL_EUSAGE: not a tensor; PAWL_EUNSUPPORTED: elements of no pawl_dtype, or packed ones that
 * were saved in several boxes. The first call opens the files once more: PAWL_EBUSY, PAWL_EDAMAGED
 * when they are not those that were opened.
 */
PAWL_API pawl_status pawl_checkpoint_tensor(pawl_checkpoint *checkpoint, const char *name,
                                            pawl_tensor *tensor, pawl_error *err) PAWL_MUST_CHECK;

/* One of many slices: as the arguments of pawl_checkpoint_read. */
typedef struct pawl_slice {
    const char *name;
    const int64_t *offset, *extent; /* both NULL: all of the tensor */
    void *to;                       /* memory of its own: no other slice's */
    size_t to_bytes;
    pawl_status status; /* set by the call */
} pawl_slice;

/*
 * Reads `count` slices, as many calls of pawl_checkpoint_read would, but in the order of the data
 * files, neighbours together, and by several threads. `slice_size` is sizeof(pawl_slice). Names may
 * repeat, and slices may overlap in the checkpoint. Some thousand slices are read at a time, in the
 * order of the array, so memory is bounded, and blocks that are wanted by slices far apart in it
 * are read again: the order of names is a good one.
 *
 * A failure ends the call, and the error names the entry and its place in the array. `status` of
 * each slice tells what its memory holds: PAWL_OK: all of its bytes, verified; PAWL_ECANCELED: it
 * was not read, or not all of it, because another one failed first, or the call as a whole (without
 * a checkpoint, in a forked child); else why it failed itself. It is set whatever the failure is,
 * but for one: with a wrong `slice_size` or `count` pawl cannot tell where the slices are, and
 * touches none.
 */
PAWL_API pawl_status pawl_checkpoint_read_many(pawl_checkpoint *checkpoint, pawl_slice *slices,
                                               size_t slice_size, size_t count, pawl_error *err)
    PAWL_MUST_CHECK;

/* Reads rank `rank`'s per-rank bytes: *size is set; up to `capacity` bytes are copied to `to`.
 * PAWL_ENOTFOUND: no such entry or rank; PAWL_EUSAGE: not a per-rank entry. */
PAWL_API pawl_status pawl_checkpoint_read_rank(pawl_checkpoint *checkpoint, const char *name,
                                               int rank, void *to, size_t capacity, size_t *size,
                                               pawl_error *err) PAWL_MUST_CHECK;

/*
 * Restores a state without owning the run, and fails as pawl_restore. `options->step` is ignored.
 *
 * With `options->group` the call is collective, as pawl_restore is, for any number of ranks,
 * whoever owns the run: each has opened the same checkpoint (R11: otherwise PAWL_EMISMATCH names
 * the ranks and what they have opened), what all of them together want decides what is unexpected,
 * and all restore it or all fail alike. Each wait ends after `options->group_deadline_s`, with
 * PAWL_EPEER that names who is missing.
 *
 * The same step is that of one attempt with one manifest. Weights of other tools have neither: they
 * are the same where the names, types, shapes and places of all tensors are, the sizes of the
 * files, and samples of the bytes, 4 KiB out of each tensor (of at most 4096 tensors; 64 samples at
 * least). Paths and times of files take no part: each node may have a copy of its own.
 *
 * Ranks without callbacks meet through small files in the run's directory, of which none stays;
 * `launch` is another one than that of any other job that restores from this run at the time. A
 * rank that cannot write there fails at once and says so, and the others when their deadline has
 * passed: where a reader has no such right, give the group its callbacks. Beside weights of other
 * tools nothing is written: there ranks without callbacks are refused at once, PAWL_EUSAGE.
 */
PAWL_API pawl_status pawl_checkpoint_restore(pawl_checkpoint *checkpoint, pawl_state *state,
                                             const pawl_restore_options *options,
                                             pawl_report **report, pawl_error *err) PAWL_MUST_CHECK;

/* ---- verify --------------------------------------------------------------------------------- */

typedef struct pawl_problem {
    size_t struct_size;
    const char *file;  /* relative to the step's directory */
    const char *entry; /* entry hit by the damage, or NULL when none is (padding, index, ...) */
    uint64_t offset, length; /* damaged range of the file, in bytes */
    const char *text;        /* as of pawl_error_text */
} pawl_problem;

/* The functions are called on the caller's thread; text that they get lives until they return. */
typedef struct pawl_verify_options {
    size_t struct_size;
    void (*problem)(void *context, const pawl_problem *problem);             /* [none] */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t of_bytes); /* [none] */
    void *context;
    uint64_t max_problems;      /* stop after so many [1000] */
    int (*stop)(void *context); /* called now and then: not 0 ends it with PAWL_ECANCELED [none] */
} pawl_verify_options;

typedef struct pawl_verify_result {
    size_t struct_size; /* sizeof(pawl_verify_result) */
    uint64_t files, bytes, entries, problems;
    /* Where the format has no checksums: a sentence that says what was checked, and what could not
     * be; as long as the checkpoint. NULL: every byte was compared with a checksum. */
    const char *unverified;
} pawl_verify_result;

/* Reads every byte of the step's files, goes on after damage, reports each problem. PAWL_EDAMAGED
 * if there is one (`err` has the first); PAWL_EPERMISSION if all are files that may not be read.
 * `result` may be NULL. A step removed or saved again since is verified as opened, says the log. */
PAWL_API pawl_status pawl_checkpoint_verify(pawl_checkpoint *checkpoint,
                                            const pawl_verify_options *options,
                                            pawl_verify_result *result, pawl_error *err)
    PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
