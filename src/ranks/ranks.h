/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks: how the ranks of a job meet and hear of each other. Knows no run: what they meet about is
 * the caller's.
 *
 * At a meeting every rank hands in a card, rank 0 makes one answer of them, or one failure, and all
 * get it: through the group's callbacks, or through files that are removed again:
 *
 *   RUN/meet-<key>-<n>-r<rank>    the card of a rank at the n-th meeting
 *   RUN/meet-<key>-<n>-answer     rank 0's answer
 *
 * The key is made of the launch's name at the first meeting, and is the attempt at later ones.
 * Ranks that do not own the run (`visiting`) keep the first key, and their files have names of
 * their own, which the run's owner leaves alone: RUN/visit-<key>-<n>-...
 *
 * Every wait for another rank ends at a deadline, and the error names who is missing (S11).
 *
 * May include base, store, group, format. Threads: meetings are called on the thread that opened
 * the run; what says otherwise may be called on any. Ownership: a job_ranks owns its group and
 * borrows the store and the platform.
 */
#ifndef RANKS_RANKS_H
#define RANKS_RANKS_H

#include "group/group.h"
#include "store/store.h"

/* ---- who the ranks are: ranks.c ------------------------------------------------------------- */

#define RANKS_NONCE_BYTES 8u

/* The ranks of a job, as one of them knows them. */
typedef struct job_ranks {
    store *store; /* of the run's directory; NULL until it is open */
    const platform *platform;
    pawl_log log;
    rank_group *group;
    int rank, world_size; /* of the group */
    double timeout_s;     /* for all waiting of one call: the option group_deadline_s */
    char attempt[16];     /* of all ranks: drawn by rank 0 as the owner; "" until it is known */
    bool visiting;        /* they do not own the run */
    /* Called now and then while a rank waits, for work that must go on in a process without
     * threads; or NULL. */
    void (*tend)(void *context);
    void *tend_context;
    interrupt *stop; /* of the call that meets: asked while it waits; or NULL */

    /* The rest stays zero in a process without others; all but the first two is used by src/ranks
     * alone. */
    process_identity self;
    char key[16];          /* of the files of the next meeting */
    process_identity *who; /* of all ranks on rank 0, of rank 0 on the others */
    unsigned char *known;  /* whose identity is in `who` */
    int room;              /* length of `who` and `known` */
    uint8_t nonce[RANKS_NONCE_BYTES];
    uint64_t met; /* meetings begun, and calls of notes_exchange */
    char kept_key[16];
    uint64_t kept; /* rank 0: the meeting whose files are there still; 0: none */
    monitor guard; /* of what follows: notes.c */
    uint64_t voted;
    uint64_t *heard_voted; /* rank 0, by rank */
} job_ranks;

/* `group` is the new object's, also when this fails. */
pawl_status ranks_new(rank_group *group, const platform *os, job_ranks **out, pawl_error *err)
    PAWL_MUST_CHECK;
void ranks_free(job_ranks *ranks); /* NULL is fine */
/* From now on the files of meetings bear the attempt. */
void ranks_joined(job_ranks *ranks);
/* "rank 3 (host b, pid 17)"; without what is not known. */
const char *rank_text(char out[320], const job_ranks *ranks, int rank);
/* "": not known. */
const char *rank_host(const job_ranks *ranks, int rank);
/* Is the process known to be gone? Only of the same host; otherwise PROCESS_UNKNOWN. */
liveness rank_alive(const job_ranks *ranks, int rank);
/* It is known to be dead; and whoever looks now sees all that it wrote. */
bool rank_has_ended(const job_ranks *ranks, int rank);

/* ---- waiting: ranks.c. Any thread. ---------------------------------------------------------- */

/* Rank 0 waits for others for three quarters of timeout_s, so that they hear who was missing before
 * their own time is over. */
double ranks_collect_timeout_s(const job_ranks *ranks);
/* How long a rank looks for what rank 0 has made in the storage: on another host it may take a
 * while to appear. */
double ranks_appear_timeout_s(const job_ranks *ranks);

typedef struct ranks_pause {
    uint64_t next_ns; /* 0 at first */
} ranks_pause;
/* Sleeps a little, longer each time up to 100 ms, not beyond deadline_ns; calls `tend`. */
void ranks_sleep(job_ranks *ranks, ranks_pause *pause, uint64_t deadline_ns);

/* ---- meetings: meet.c, meet_bytes.c, meet_files.c ------------------------------------------- */

#define MEET_CARD_BYTES 4096u                 /* of a card with all that travels with it */
#define MEET_MAX_MINE   (MEET_CARD_BYTES / 2) /* of what a rank hands in */

/* What one rank brings to a meeting. */
typedef struct meet_card {
    bool came;
    pawl_status status;     /* PAWL_OK, or how the rank failed before it came */
    const uint8_t *failure; /* then: failure_encode's bytes; in the meeting's memory */
    size_t failure_bytes;
    const uint8_t *bytes; /* what it handed in; a NUL follows */
    size_t n;
} meet_card;

typedef struct meeting {
    const char *what;         /* "open run": for messages; fewer than 32 characters */
    pawl_status status;       /* PAWL_OK, or how this rank failed before the meeting */
    const pawl_error *failed; /* then: the whole failure, which all ranks are told */
    const void *mine;
    size_t mine_bytes; /* at most MEET_MAX_MINE */
    /*
     * On rank 0, when all ranks came: makes the answer that all get, or the failure that all get.
     * NULL: the failures of ranks are everybody's, else an empty answer.
     */
    pawl_status (*judge)(void *context, job_ranks *ranks, const meet_card *cards, buffer *answer,
                         pawl_error *err);
    bool judge_missing; /* it judges also where ranks did not come */
    void *context;
} meeting;

/* Collective. `answer` is the same on all ranks. A failure is the same on all ranks, too, except
 * for a rank that did not get it in time. In one process the judge is simply called. */
pawl_status ranks_meet(job_ranks *ranks, const meeting *m, buffer *answer, pawl_error *err)
    PAWL_MUST_CHECK;
/* For judges. PAWL_OK where no rank came with a failure; else the first one's, and how many more
 * there are. */
pawl_status ranks_failed(job_ranks *ranks, const meet_card *cards, pawl_error *err) PAWL_MUST_CHECK;
/* The failure that one rank came with, as that of everybody. Returns its status. */
pawl_status ranks_failure(job_ranks *ranks, const meet_card *cards, int rank, pawl_error *err);

/* Rank 0, before the first meeting: removes the files that earlier jobs of this launch left under
 * the names of the next ones. Failures are logged, here and below. */
void ranks_clear(job_ranks *ranks);
/* Rank 0, the owner, once all ranks have met in its attempt, so that none is in an earlier one any
 * more: removes what earlier attempts left in the run's directory. */
void ranks_remove_earlier(job_ranks *ranks);
/* Rank 0: removes the files of the last meeting, but for its answer, which may still be read. */
void ranks_leave(job_ranks *ranks);

/* Visitors, before their first meeting: PAWL_OK where this rank can make files in the run's
 * directory, or needs none because it has callbacks. Rank 0 also removes, as ranks_clear. */
pawl_status ranks_prepare_visit(job_ranks *ranks, pawl_error *err) PAWL_MUST_CHECK;
/* Visitors, after their last meeting: no file of theirs stays. Rank 0 waits a while for the others,
 * who may still be reading its answer. */
void ranks_end_visit(job_ranks *ranks);

/* ---- notes: notes.c ------------------------------------------------------------------------- */

/* Collective: tells rank 0 by one gather which save each rank has voted on, and all by one
 * broadcast who did not come (PAWL_EPEER). Does nothing without callbacks; decides nothing. */
pawl_status notes_exchange(job_ranks *ranks, double timeout_s, pawl_error *err) PAWL_MUST_CHECK;
/* Any thread: this rank's vote on its save `number` is published, whatever it says. */
void notes_set_voted(job_ranks *ranks, uint64_t number);
/* Any thread, rank 0: sets came[r] for each rank that said it had voted; leaves the others. */
void notes_get_voted(job_ranks *ranks, uint64_t number, unsigned char *came);

/* ---- failures that travel: failure.c -------------------------------------------------------- */

/* A whole error as bytes, at most `limit` of them (texts are cut), and back. */
pawl_status failure_encode(const pawl_error *failed, size_t limit, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status failure_decode(const void *bytes, size_t n, pawl_error *failed, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
