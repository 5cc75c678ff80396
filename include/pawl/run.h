/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/run.h: a run's directory, and saving into it.
 *
 * A run is one directory that collects the checkpoints of one training job. One process writes to
 * it at a time; any number may read. The life of a trainer:
 *
 *     pawl_run_open            own the directory
 *     pawl_restore             continue from the newest checkpoint, if there is one
 *     loop:
 *         forward, backward    parameters are only read
 *         pawl_fence           the save in flight has let go of the parameters
 *         optimizer step       parameters change
 *         if pawl_due(...)     every n steps or every t seconds
 *             pawl_save        returns at once; writing goes on in the background
 *     pawl_wait                the last save is durable, or failed and says why
 *     pawl_run_close
 *
 * A job of many ranks does the same on each, with `group` in the options: all open the run
 * together; each adds the boxes of tensors that it holds, and saves without waiting for the others.
 * When the data of all ranks is durable rank 0 commits one checkpoint, and every rank learns of it;
 * where one fails, dies or is late, all are told which. Any other number of ranks can restore it.
 *
 * A run is used by one thread at a time, and not in a forked child (pawl/pawl.h). `deadline_s` is a
 * timeout, in seconds from the call on: 0 means the option's, less than 0 not to wait. Every wait
 * for a save or another process has one. pawl_save, pawl_fence and pawl_wait do no I/O on this
 * thread, with two exceptions: a save that cannot begin is noted in the event file, and a rank of a
 * group looks for files of the others. Opening, restoring and housekeeping do I/O themselves.
 */
#ifndef PAWL_RUN_H
#define PAWL_RUN_H

#include <pawl/group.h>
#include <pawl/preemption.h>
#include <pawl/retention.h>
#include <pawl/state.h>
#include <pawl/storage.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_MAX_FRAMEWORK_BYTES 4096
#define PAWL_MAX_METRICS         10000

/* What pawl_save does while the previous save is still being written (failure S04). */
typedef enum pawl_on_busy {
    PAWL_ON_BUSY_WAIT = 0, /* wait for it, at most deadline_s */
    PAWL_ON_BUSY_SKIP = 1, /* save nothing and return PAWL_OK; the statistics say so */
    PAWL_ON_BUSY_ERROR = 2 /* PAWL_EBUSY */
} pawl_on_busy;

/* How the bytes of data files reach the storage. */
typedef enum pawl_io {
    /* Direct I/O where the filesystem supports it: by io_uring where kernel and container allow it,
     * else by threads; a save that fits into one buffer is written by the engine's thread. */
    PAWL_IO_AUTO = 0,
    PAWL_IO_URING = 1,   /* by io_uring, or PAWL_EUNSUPPORTED from pawl_run_open, which says why */
    PAWL_IO_THREADS = 2, /* by threads, never io_uring */
    PAWL_IO_BUFFERED = 3 /* by threads, through the page cache */
} pawl_io;

/* The priority of the library's I/O, as of ioprio_set(2). Schedulers without priorities ("none",
 * most virtual disks) ignore it. */
typedef enum pawl_io_priority {
    PAWL_IO_PRIORITY_DEFAULT = 0, /* as the process */
    PAWL_IO_PRIORITY_LOW = 1,     /* best effort, lowest level */
    PAWL_IO_PRIORITY_IDLE = 2     /* only when nobody else uses the disk */
} pawl_io_priority;

struct pawl_event; /* pawl/event.h */

typedef struct pawl_run_options {
    size_t struct_size; /* sizeof(pawl_run_options) */
    int must_exist;     /* 1: PAWL_ENOTFOUND instead of creating the directory [0] */
    /* Who writes, for people: "charlm 1.0". UTF-8, at most PAWL_MAX_FRAMEWORK_BYTES [none] */
    const char *framework;
    /* A writer advances its heartbeat several times per lease. Another process takes over the run
     * when the owner is a dead process of the same host, or when it saw no heartbeat for a whole
     * lease. */
    double lease_s;           /* seconds, at least 1 [30] */
    double takeover_wait_s;   /* for a writer that may be dead; negative: none [lease_s + 5] */
    double deadline_s;        /* the default of the calls' deadline_s [600] */
    size_t budget_bytes;      /* staging memory of a save, at most [256 MiB]; at least 8 MiB */
    pawl_on_busy on_busy;     /* [PAWL_ON_BUSY_WAIT] */
    int checking;             /* 1: find tensors that change while they are being saved, and large
                               replicas that differ, by reading everything twice [0] */
    int64_t save_every_steps; /* for pawl_due [0: never by steps] */
    double save_every_s;      /* for pawl_due [0: never by time] */
    const pawl_retention *retention; /* which checkpoints stay; copied [all] */
    const pawl_log *log;             /* copied, but for what its context points to [none] */
    const pawl_storage *storage;     /* where the run is [NULL: the local filesystem] */

    /* Leaving resources to others. Where the system refuses io_priority or cpus the log has a
     * warning, and the save goes on. */
    pawl_io io;                     /* [PAWL_IO_AUTO] */
    size_t in_flight_bytes;         /* of writes at a time, part of the budget: 1 MiB to 1 GiB
                                       [32 MiB, or the budget if that is less] */
    uint64_t bandwidth_bytes_per_s; /* of data files, averaged over a second [no limit] */
    pawl_io_priority io_priority;   /* [PAWL_IO_PRIORITY_DEFAULT] */
    const int *cpus;                /* processors, by number from 0 on, that the threads which save
                                       may run on; copied [any] */
    size_t cpu_count;               /* numbers in `cpus` [0] */
    /* Seconds. A save that makes no progress for so long has failed: the storage hangs (S08). Its
     * tensors are released, and saves are refused until the storage answers. One that is committed
     * and removes what it replaced is a success, however long that takes. */
    double hang_deadline_s; /* [deadline_s] */

    /* The ranks that save together. Copied, but for what its context points to. All ranks use
     * equivalent options and save the same steps; only rank 0 does housekeeping and writes event
     * files. [one process] */
    const pawl_group *group;
    /* Seconds that ranks wait for each other: to open, to restore, for a save's outcome, and three
     * quarters of it for its votes. Then all are told who is missing (S11). [deadline_s] */
    double group_deadline_s;

    /* Called with each event of the run, on threads as pawl/event.h says [none]. */
    void (*event)(void *context, const struct pawl_event *event);
    void *event_context; /* the callback's `context`; lives as long as the run */
    int no_event_file;   /* 1: keep no events.jsonl in the run's directory [0] */

    /* 1: the whole budget gets its memory as the run is opened, in the background, and keeps it:
     * new memory costs a fence several times what copying costs. 0: so does, from the first save
     * on, as much of a budget that was given as that save may need, and what no fence used is given
     * back; the default budget gets memory when a fence needs it. What a fence used is kept.
     * PAWL_ENOMEM with 1 where the machine, or a limit of this process, has less. [0] */
    int budget_ready;
    /* Asked at least every 0.1 s, on the caller's thread, while pawl_run_open and pawl_restore wait
     * or read, pawl_run_close waits, and pawl_save copies. Not 0, as after Ctrl-C: that call ends
     * with PAWL_ECANCELED once reads and copies under way have ended, and does not ask again. The
     * run is not opened; not closed, and the handle stays; not restored (see there); or the save is
     * given up. Other ranks hear of it where they next meet, or find this one missing (S11). A
     * group's callbacks are not interrupted. It calls neither state nor run (PAWL_EUSAGE) [none] */
    int (*interrupted)(void *context);
    void *interrupted_context; /* lives as long as the run */
} pawl_run_options;

typedef struct pawl_run pawl_run;

/*
 * Opens a run for writing and becomes its owner. Creates the directory and its parents. `options`
 * may be NULL; they are copied. Waits at most takeover_wait_s; the log names the other writer, and
 * again every few seconds. PAWL_EBUSY names it, too (host, pid, heartbeat); PAWL_EUSAGE names an
 * invalid option, PAWL_ELIMIT one that is too large; PAWL_EUSAGE, PAWL_ENOTFOUND, PAWL_EPERMISSION
 * and PAWL_EIO explain the path; PAWL_EUNSUPPORTED says why io_uring is not available.
 * With a group the call is collective, rank 0 is the owner, and all ranks open the run or all fail
 * alike; each wait for other ranks ends after group_deadline_s. PAWL_EPEER names the missing ranks
 * (S11), PAWL_ENOTFOUND those that see another directory than rank 0 (P05, P06), PAWL_EMISMATCH
 * those of another start of the job.
 */
PAWL_API pawl_status pawl_run_open(const char *path, const pawl_run_options *options,
                                   pawl_run **run, pawl_error *err) PAWL_MUST_CHECK;

/*
 * Waits for the save in flight and gives up ownership. NULL is fine. The handle is freed whatever
 * is returned, except PAWL_EUSAGE (called in a callback of the run), and when `interrupted` ends
 * the call: the save then goes on. Returns the last save's failure if no call has returned it yet.
 * After PAWL_ETIMEOUT the engine's thread goes on: the tensors' memory must stay valid, and the
 * callbacks for log and events may still be called. The same after a save that hangs (PAWL_EIO),
 * but the tensors are no longer used.
 */
PAWL_API pawl_status pawl_run_close(pawl_run *run, double deadline_s, pawl_error *err);

/* An element of an array, whose user says how large each is. */
typedef struct pawl_metric {
    const char *name;
    double value;
} pawl_metric;

typedef struct pawl_save_options {
    size_t struct_size;
    const pawl_metric *metrics; /* copied, each name once; for the manifest and retention [none] */
    size_t metric_count;        /* at most PAWL_MAX_METRICS; names by the rules of entries' names */
    size_t metric_size;         /* sizeof(pawl_metric); needed where metric_count is not 0 */
    int pin;                    /* 1: retention never removes this checkpoint [0] */
    double deadline_s;          /* for PAWL_ON_BUSY_WAIT and copying `copied` tensors [the run's] */
} pawl_save_options;

/*
 * Starts to save `state` as `step` (0 or more) and returns. Values are copied now; tensors without
 * `copied` are read from their memory until pawl_fence returns. Checks first what can be checked:
 * slots fit their variables, what the manifest shows (metrics, hyperparameters) fits its 64 MiB
 * (PAWL_ELIMIT). Whether the disk has room is found out in the background, before the first byte is
 * written. Saving a step again replaces it atomically once the new one is whole.
 *
 * When the previous save failed and no call has returned that yet, this call returns that failure
 * and starts nothing; call it again to save. With a group it saves, after a warning in the log, if
 * that save was only given up (PAWL_ECANCELED: a rank was busy, cancelled it, or got a failure
 * returned instead of saving). After any other failure nothing was written either.
 */
PAWL_API pawl_status pawl_save(pawl_run *run, pawl_state *state, int64_t step,
                               const pawl_save_options *options, pawl_error *err) PAWL_MUST_CHECK;

/* Returns when the save in flight no longer needs the tensors' memory: every byte is written or
 * copied into the staging budget, and replicas to compare with other ranks' are read. Call it
 * before anything changes a tensor; without a save in flight it returns at once. PAWL_ETIMEOUT
 * names what it waited for; the memory is then still in use. PAWL_OK after a save that failed. */
PAWL_API pawl_status pawl_fence(pawl_run *run, double deadline_s, pawl_error *err) PAWL_MUST_CHECK;

/* 1: no save in flight needs the tensors' memory, so that pawl_fence has nothing to do; 0: one
 * does, or this is a forked child or a callback of the run. Copies nothing and never waits. */
PAWL_API int pawl_fenced(const pawl_run *run);

/* The same of `count` single tensors, whose memory can then be given back early: fenced[i] is 1
 * where no save in flight needs the memory of names[i], else 0. A save reads them in an order of
 * its own; where replicas are compared, all are needed until pawl_fenced. 1 for unknown names. */
PAWL_API void pawl_fenced_tensors(const pawl_run *run, const char *const *names, size_t count,
                                  uint8_t *fenced);

/* How the last save went, by one monotonic clock. `total_s`: from the call of pawl_save until the
 * outcome was known: the manifest is durable, or the save failed, or, on ranks other than 0, rank 0
 * said so. busy_wait_s to commit_s are parts of it, in this order; the rest passes before the first
 * byte: a thread, room, a directory, a file, a full buffer. Events, `pawl ls` and `pawl top` have
 * the same numbers. The fence's pass meanwhile, in pawl_fence, and in pawl_save for `copied`. */
typedef struct pawl_save_stats {
    size_t struct_size;          /* sizeof(pawl_save_stats) */
    int64_t step;                /* -1: no save was started yet */
    int skipped;                 /* the latest pawl_save was skipped (PAWL_ON_BUSY_SKIP) */
    uint64_t bytes;              /* of data files */
    uint64_t files;              /* data files */
    double total_s;              /* in all; a save that did not begin: the next two alone */
    double busy_wait_s;          /* pawl_save waited for the previous save */
    double prepare_s;            /* pawl_save itself: values copied, files laid out */
    double write_s;              /* data files, from the first byte until all are written */
    double sync_s;               /* then until they were durable */
    double commit_s;             /* then index, manifest, names; other ranks: vote, outcome */
    double group_wait_s;         /* part of that: rank 0 waited for votes, others for the outcome */
    double tidy_s;               /* after total_s: latest, retention; pawl_wait waits for it */
    double fence_copy_s;         /* pawl_fence copied into the staging budget */
    double fence_wait_s;         /* pawl_fence waited for writes because the budget was full */
    uint64_t fence_copied_bytes; /* into the staging budget, while pawl_fence ran */
    size_t budget_bytes;         /* the budget it had */
    uint64_t budget_wanted_bytes; /* the budget with which pawl_fence would not have waited */
    uint64_t retries;             /* operations repeated after failures that may be temporary */
    const char *io;               /* static: "io_uring", "threads", "in line"; NULL: not opened */
    uint64_t written_bytes;       /* of `bytes`, so far; after a failure: until then */
} pawl_save_stats;

/* Waits until the save in flight is durable and committed, or failed; fills `stats` (may be NULL;
 * on PAWL_ETIMEOUT: how far it is). PAWL_OK if no save is in flight and no failure unreturned. */
PAWL_API pawl_status pawl_wait(pawl_run *run, double deadline_s, pawl_save_stats *stats,
                               pawl_error *err) PAWL_MUST_CHECK;

/* Collective, and never needed. Where the ranks come together anyway, after a training step, a
 * gather tells rank 0 whose vote on the save in flight is in the storage, so that it reads the
 * vote even while listings are out of date; a broadcast tells all who did not come (PAWL_EPEER;
 * the save goes on). In one process, and with a group without callbacks, it does nothing. */
PAWL_API pawl_status pawl_meet(pawl_run *run, double deadline_s, pawl_error *err) PAWL_MUST_CHECK;

/* Gives up the save in flight, on all ranks: nothing of it remains. pawl_wait then returns
 * PAWL_ECANCELED, or PAWL_OK if it was committed already; once this rank's part is durable, rank 0
 * tells which. */
PAWL_API pawl_status pawl_cancel(pawl_run *run, double deadline_s, pawl_error *err) PAWL_MUST_CHECK;

/* Is a save due at `step`, by save_every_steps or save_every_s? Not twice at the same step. By
 * save_every_s ranks would differ: call it on rank 0, and tell the others. */
PAWL_API int pawl_due(const pawl_run *run, int64_t step);

/* The final save: starts it and waits until it is durable, at most `grace_s` seconds in all (0 or
 * less: no time). If that is too short, cancels it and returns PAWL_ETIMEOUT, which says how far it
 * came and which step is safe; the next call tells what became of it, as after pawl_cancel. */
PAWL_API pawl_status pawl_save_final(pawl_run *run, pawl_state *state, int64_t step,
                                     const pawl_save_options *options, double grace_s,
                                     pawl_error *err) PAWL_MUST_CHECK;

/* ---- housekeeping; with a group rank 0's alone, PAWL_EUSAGE on the others ------------------- */

/* A pinned checkpoint is never removed by retention. PAWL_ENOTFOUND without such a checkpoint. */
PAWL_API pawl_status pawl_run_pin(pawl_run *run, int64_t step, int pinned, pawl_error *err)
    PAWL_MUST_CHECK;

/* Removes one checkpoint, pinned or not. PAWL_EBUSY when someone reads it, when it is the only one
 * and `force` is 0, or when something is mounted on it or in it. */
PAWL_API pawl_status pawl_run_remove(pawl_run *run, int64_t step, int force, pawl_error *err)
    PAWL_MUST_CHECK;

/* Called for each thing that gc removes (or would): path relative to the run, its bytes, why. On
 * the caller's thread; text lives until it returns; it makes no calls on the same run. */
typedef void (*pawl_gc_fn)(void *context, const char *path, uint64_t bytes, const char *reason);

/* Removes what interrupted saves and removals left behind: files that no manifest names and whose
 * writer is provably gone. Never touches a file that pawl did not write, nor what is mounted.
 * `each` may be NULL. */
PAWL_API pawl_status pawl_run_gc(pawl_run *run, int dry_run, pawl_gc_fn each, void *context,
                                 pawl_error *err) PAWL_MUST_CHECK;

/*
 * Writes a new index and manifest for `step` from its data files alone, after reading all of them.
 * PAWL_EDAMAGED, with nothing changed, if the present index proves them damaged or their bytes are
 * not those that their writer left; `force` not 0 overrules both. A file that its writer did not
 * finish is never used.
 */
PAWL_API pawl_status pawl_run_rebuild(pawl_run *run, int64_t step, int force, pawl_error *err)
    PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
