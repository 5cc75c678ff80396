/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGKILL at random moments of one rank, or of all, of a job of real processes that saves to a real
 * directory. Whatever a rank had been told is durable is there afterwards, whole; every survivor is
 * told within the deadline which rank is gone (S11); and the next job, of another number of ranks,
 * takes over and restores it (S09, S10). Ranks find each other through the run's directory.
 */
#include "lib/random.h"
#include "proofs/proof.h"

#include <pawl/pawl.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_RANKS     6
#define ROWS           60 /* of the sharded tensor: as many for each rank of any world */
#define COLUMNS        700
#define GROUP_DEADLINE 5.0
/* An owner that was killed while it wrote its record is watched for so long before it is taken for
 * dead; then there must be time left to meet. */
#define LEASE_S 2.0
/* Beyond the deadline: for a machine that has other things to do. */
#define SLACK_S 20.0

/* ---- the state of one rank ------------------------------------------------------------------ */

typedef struct shard {
    pawl_state *state;
    uint32_t rows[ROWS][COLUMNS]; /* the first of them are this rank's */
    uint32_t replica[COLUMNS];
    uint64_t own;
    int rank, world_size;
} shard;

static void must(pawl_status status, pawl_error *err) {
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_error_text(err));
        abort();
    }
}

static int row_count(const shard *s) {
    return ROWS / s->world_size;
}

static uint32_t number(int64_t step, int row, int column) {
    return (uint32_t)step * 2654435761u + (uint32_t)row * 40503u + (uint32_t)column;
}

static void fill(shard *s, int64_t step, pawl_error *err) {
    for (int r = 0; r < row_count(s); r++) {
        for (int c = 0; c < COLUMNS; c++) {
            s->rows[r][c] = number(step, s->rank * row_count(s) + r, c);
        }
    }
    for (int c = 0; c < COLUMNS; c++) {
        s->replica[c] = number(step, ROWS, c);
    }
    s->own = (uint64_t)step * 100 + (uint64_t)s->rank;
    must(pawl_state_set_int64(s->state, "step", PAWL_ROLE_STEP, step, err), err);
    must(pawl_state_set_rank_bytes(s->state, "random", PAWL_ROLE_RNG, &s->own, sizeof s->own, err),
         err);
}

/* Is all of it, bit for bit, what `step` has? */
static bool holds(const shard *s, int64_t step) {
    for (int r = 0; r < row_count(s); r++) {
        for (int c = 0; c < COLUMNS; c++) {
            if (s->rows[r][c] != number(step, s->rank * row_count(s) + r, c)) {
                return false;
            }
        }
    }
    for (int c = 0; c < COLUMNS; c++) {
        if (s->replica[c] != number(step, ROWS, c)) {
            return false;
        }
    }
    return true;
}

static void build(shard *s, pawl_error *err) {
    const int64_t shape[] = {ROWS, COLUMNS};
    const int64_t offset[] = {(int64_t)s->rank * row_count(s), 0};
    const int64_t extent[] = {row_count(s), COLUMNS};
    const pawl_box held = {.offset = offset, .extent = extent, .data = s->rows};
    const pawl_tensor sharded = {.struct_size = sizeof sharded,
                                 .name = "model/sharded",
                                 .dtype = PAWL_U32,
                                 .ndim = 2,
                                 .shape = shape,
                                 .nboxes = 1,
                                 .boxes = &held,
                                 .box_size = sizeof(pawl_box)};
    const int64_t columns = COLUMNS;
    const pawl_tensor replicated = {.struct_size = sizeof replicated,
                                    .name = "model/replicated",
                                    .dtype = PAWL_U32,
                                    .ndim = 1,
                                    .shape = &columns,
                                    .data = s->replica,
                                    .replicated = 1};
    must(pawl_state_new(&s->state, err), err);
    must(pawl_state_add_tensor(s->state, &sharded, err), err);
    must(pawl_state_add_tensor(s->state, &replicated, err), err);
    fill(s, 0, err);
}

/* ---- one rank ------------------------------------------------------------------------------- */

typedef enum news_kind {
    NEWS_RESTORED,
    NEWS_WRONG,
    NEWS_BEGUN,
    NEWS_DURABLE,
    NEWS_FAILED
} news_kind;

/* What a rank tells its parent: a record of fixed size, so that a pipe takes it whole. */
typedef struct news {
    int rank;
    news_kind kind;
    int64_t step;
    char text[400];
} news;

typedef struct job {
    const char *path;
    char launch[64];
    int world_size;
    int tell; /* a pipe */
} job;

static void tell(const job *j, int rank, news_kind kind, int64_t step, const char *text) {
    news n = {.rank = rank, .kind = kind, .step = step};
    snprintf(n.text, sizeof n.text, "%s", text);
    if (write(j->tell, &n, sizeof n) != (ssize_t)sizeof n) {
        _exit(1);
    }
}

/* Failed: says so, and ends as a job that cannot go on. */
static void give_up(const job *j, int rank, pawl_run *run, pawl_error *err) {
    tell(j, rank, NEWS_FAILED, -1, pawl_error_text(err));
    pawl_run_close(run, 0, NULL);
    _exit(0);
}

static int64_t restore(const job *j, shard *s, pawl_run *run, pawl_error *err) {
    pawl_report *report = NULL;
    const pawl_restore_options options = {.struct_size = sizeof options,
                                          .per_rank = PAWL_POLICY_ALLOW};
    pawl_status status = pawl_restore(run, s->state, &options, &report, err);
    int64_t step = 0;
    if (status == PAWL_OK) {
        step = pawl_report_step(report);
        bool whole = holds(s, step) && report_totals(report).fallbacks == 0;
        tell(j, s->rank, whole ? NEWS_RESTORED : NEWS_WRONG, step, "");
    } else if (status == PAWL_ENOTFOUND) {
        tell(j, s->rank, NEWS_RESTORED, 0, "");
    } else {
        if (status == PAWL_EMISMATCH || status == PAWL_EDAMAGED) {
            tell(j, s->rank, NEWS_WRONG, 0, pawl_error_text(err));
        }
        give_up(j, s->rank, run, err);
    }
    pawl_report_free(report);
    return step;
}

static void be_rank(const job *j, int rank) {
    static shard s;
    pawl_error *err = pawl_error_new();
    pawl_run *run = NULL;
    const pawl_group group = {.struct_size = sizeof group,
                              .rank = rank,
                              .world_size = j->world_size,
                              .launch = j->launch};
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .group = &group,
        .group_deadline_s = GROUP_DEADLINE,
        .lease_s = LEASE_S,
        .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = 2}};
    s.rank = rank;
    s.world_size = j->world_size;
    build(&s, err);
    if (pawl_run_open(j->path, &options, &run, err) != PAWL_OK) {
        give_up(j, rank, run, err);
    }
    for (int64_t step = restore(j, &s, run, err) + 1;; step++) {
        fill(&s, step, err);
        tell(j, rank, NEWS_BEGUN, step, "");
        if (pawl_save(run, s.state, step, NULL, err) != PAWL_OK ||
            pawl_wait(run, 0, NULL, err) != PAWL_OK) {
            give_up(j, rank, run, err);
        }
        tell(j, rank, NEWS_DURABLE, step, "");
    }
}

/* ---- a job ---------------------------------------------------------------------------------- */

typedef struct outcome {
    int64_t restored, begun, durable; /* the largest step of each; -1: none */
    bool wrong, disagree;             /* torn bytes; ranks that restored different steps */
    bool failed[MOST_RANKS];
    double failed_s[MOST_RANKS]; /* after the kill */
    char text[MOST_RANKS][400];
} outcome;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void note(outcome *o, const news *n, double killed_s) {
    switch (n->kind) {
    case NEWS_RESTORED:
        o->disagree = o->disagree || (o->restored >= 0 && o->restored != n->step);
        o->restored = n->step;
        break;
    case NEWS_WRONG:
        o->wrong = true;
        snprintf(o->text[n->rank], sizeof o->text[0], "%s", n->text);
        break;
    case NEWS_BEGUN:
        o->begun = n->step > o->begun ? n->step : o->begun;
        break;
    case NEWS_DURABLE:
        o->durable = n->step > o->durable ? n->step : o->durable;
        break;
    case NEWS_FAILED:
        o->failed[n->rank] = true;
        o->failed_s[n->rank] = killed_s > 0 ? now_s() - killed_s : 0;
        snprintf(o->text[n->rank], sizeof o->text[0], "%s", n->text);
        break;
    }
}

/* Takes news until `until_s`; false at the end of all ranks. */
static bool listen_until(int from, double until_s, double killed_s, outcome *o) {
    for (;;) {
        double left_s = until_s - now_s();
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int many = poll(&ready, 1, left_s > 0 ? (int)(left_s * 1000) + 1 : 0);
        news n;
        if (many == 0) {
            return true;
        }
        if (read(from, &n, sizeof n) != (ssize_t)sizeof n) {
            return false;
        }
        note(o, &n, killed_s);
    }
}

typedef struct victim {
    int rank; /* -1: all */
    double after_s;
    /* Time begins when the first save does: else it would be the opening that is hit, mostly. */
    bool while_saving;
} victim;

static void start(const job *j, pid_t pids[MOST_RANKS]) {
    for (int r = 0; r < j->world_size; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            be_rank(j, r);
        }
    }
}

static void kill_victim(const job *j, const victim *v, const pid_t pids[MOST_RANKS]) {
    for (int r = 0; r < j->world_size; r++) {
        if (v->rank < 0 || v->rank == r) {
            kill(pids[r], SIGKILL);
        }
    }
}

static void wait_for_saves(int from, outcome *o) {
    double until_s = now_s() + GROUP_DEADLINE;
    while (o->begun < 0 && now_s() < until_s && listen_until(from, now_s() + 0.002, 0, o)) {
    }
}

/* Runs a job until it is killed and all who survive have ended, or should have. */
static void run_job(job *j, const victim *v, outcome *o) {
    int ends[2];
    pid_t pids[MOST_RANKS];
    *o = (outcome){.restored = -1, .begun = -1, .durable = -1};
    if (pipe(ends) != 0) {
        abort();
    }
    j->tell = ends[1];
    start(j, pids);
    close(ends[1]);
    if (v->while_saving) {
        wait_for_saves(ends[0], o);
    }
    bool alive = listen_until(ends[0], now_s() + v->after_s, 0, o);
    kill_victim(j, v, pids);
    double killed_s = now_s();
    alive = alive && listen_until(ends[0], killed_s + GROUP_DEADLINE + SLACK_S, killed_s, o);
    for (int r = 0; r < j->world_size; r++) {
        int status;
        if (alive) { /* it hangs */
            kill(pids[r], SIGKILL);
        }
        waitpid(pids[r], &status, 0);
    }
    close(ends[0]);
}

/* ---- judging -------------------------------------------------------------------------------- */

/* Every survivor failed in time, and its error names the rank that is gone. */
static bool survivors_know(const job *j, const victim *v, const outcome *o) {
    char name[32];
    snprintf(name, sizeof name, "rank %d", v->rank);
    for (int r = 0; r < j->world_size && v->rank >= 0; r++) {
        if (r != v->rank && (!o->failed[r] || o->failed_s[r] > GROUP_DEADLINE + SLACK_S ||
                             strstr(o->text[r], name) == NULL)) {
            return false;
        }
    }
    return true;
}

static void show(const job *j, const outcome *o) {
    for (int r = 0; r < j->world_size; r++) {
        fprintf(stderr, "rank %d of %d, after %.2f s: %s\n", r, j->world_size, o->failed_s[r],
                o->text[r][0] != '\0' ? o->text[r] : "(said nothing)");
    }
}

/* What is durable when a job begins, at least and at most; and how long a survivor took at most to
 * learn who is gone. */
typedef struct promise {
    int64_t least, most;
    double slowest_s;
} promise;

static void note_slowest(const job *j, const victim *v, const outcome *o, promise *kept) {
    for (int r = 0; r < j->world_size && v->rank >= 0; r++) {
        if (r != v->rank && o->failed_s[r] > kept->slowest_s) {
            kept->slowest_s = o->failed_s[r];
        }
    }
}

static void judge(proof *p, const job *j, const victim *v, const outcome *o, promise *kept) {
    bool whole = !o->wrong && !o->disagree &&
                 (o->restored < 0 || (o->restored >= kept->least && o->restored <= kept->most));
    bool told = survivors_know(j, v, o);
    if (!whole || !told) {
        show(j, o);
    }
    proof_case(p, whole && told,
               "%s: %d ranks, rank %d killed after %.4f s: restored step %lld, of %lld to %lld; %s",
               j->launch, j->world_size, v->rank, v->after_s, (long long)o->restored,
               (long long)kept->least, (long long)kept->most,
               !whole ? "lost or torn" : "a survivor was not told");
    kept->least = o->durable > kept->least ? o->durable : kept->least;
    kept->most = o->begun > kept->most ? o->begun : kept->most;
    note_slowest(j, v, o, kept);
}

int main(int argc, char **argv) {
    static const int worlds[] = {4, 3, 4, 6, 4, 2, 4, 5}; /* all divide ROWS */
    int jobs = proof_parse(argc, argv).full ? 240 : 16;
    proof *p = proof_new("SIGKILL of a rank, or of all");
    test_random random = {.state = (uint64_t)getpid()};
    char path[] = "proof-ranks-XXXXXX";
    promise kept = {.least = 0, .most = 0, .slowest_s = 0};
    if (mkdtemp(path) == NULL) {
        perror("mkdtemp");
        return EXIT_FAILURE;
    }
    p->of = (uint64_t)jobs + 1;
    for (int i = 0; i <= jobs;
         i++, p->done++) { /* the last one only restores what the one before it left */
        job j = {.path = path, .world_size = worlds[i % 8]};
        victim v = {.rank = i == jobs || random_below(&random, 5) == 0
                                ? -1
                                : (int)random_below(&random, (uint64_t)j.world_size),
                    .after_s = (double)random_below(&random, 250000) / 1e6,
                    .while_saving = i == jobs || i % 4 != 0};
        outcome o;
        snprintf(j.launch, sizeof j.launch, "proof.%lld.%d", (long long)getpid(), i);
        run_job(&j, &v, &o);
        judge(p, &j, &v, &o, &kept);
    }
    proof_remove_tree(path);
    snprintf(p->note, sizeof p->note, "survivors learnt who is gone within %.2f s of %.0f s",
             kept.slowest_s, GROUP_DEADLINE);
    return proof_end(p);
}
