/* SPDX-License-Identifier: Apache-2.0 */
/* Who the ranks of a job are, and waiting for them. */
#include "run/meet.h"

#include <stdio.h>
#include <string.h>

#define NANOSECONDS    1e9
#define FIRST_PAUSE_NS UINT64_C(1000000)
#define LAST_PAUSE_NS  UINT64_C(100000000)

/* ---- one run's knowledge of its ranks ------------------------------------------------------- */

/* Twelve digits that a launch's name always gives: ranks without callbacks know nothing else of
 * each other at first. */
static void launch_key(const char *launch, char key[16]) {
    uint32_t first = crc32c(0, launch, strlen(launch));
    uint32_t second = crc32c(first, launch, strlen(launch));
    (void)snprintf(key, 16, "%08x%04x", first, second & 0xffffu);
}

static pawl_status fill(pawl_run *run, struct ranks *r, pawl_error *err) {
    r->room = run->rank == 0 ? run->world_size : 1;
    r->who = mem_calloc((size_t)r->room, sizeof *r->who);
    r->known = mem_calloc((size_t)r->room, 1);
    r->heard_voted = mem_calloc((size_t)r->room, sizeof *r->heard_voted);
    if (r->who == NULL || r->known == NULL || r->heard_voted == NULL) {
        return error_nomem(err, (size_t)r->room * sizeof *r->who);
    }
    TRY(run->platform->identity(run->platform->context, &r->self, err));
    TRY(run->platform->random_bytes(run->platform->context, r->nonce, sizeof r->nonce, err));
    if (run->rank == 0) {
        r->who[0] = r->self;
        r->known[0] = 1;
    }
    if (run->group->launch != NULL) {
        launch_key(run->group->launch, r->key);
    }
    return PAWL_OK;
}

/* A process alone needs nothing of all this. */
pawl_status ranks_new(pawl_run *run, pawl_error *err) {
    if (run->world_size == 1) {
        return PAWL_OK;
    }
    struct ranks *r = mem_calloc(1, sizeof *r);
    if (r == NULL) {
        return error_nomem(err, sizeof *r);
    }
    pawl_status status = monitor_init(&r->guard, err);
    if (status != PAWL_OK) {
        mem_free(r);
        return status;
    }
    run->ranks = r;
    return fill(run, r, err);
}

void ranks_free(struct ranks *r) {
    if (r != NULL) {
        monitor_destroy(&r->guard);
        mem_free(r->who);
        mem_free(r->known);
        mem_free(r->heard_voted);
        mem_free(r);
    }
}

void ranks_learn(pawl_run *run, int rank, const process_identity *who) {
    struct ranks *r = run->ranks;
    if (rank < r->room && !r->known[rank]) {
        r->who[rank] = *who;
        r->known[rank] = 1;
    }
}

void ranks_joined(pawl_run *run) {
    (void)snprintf(run->ranks->key, sizeof run->ranks->key, "%s", run->attempt);
}

/* ---- names and lives ------------------------------------------------------------------------ */

static const process_identity *identity_of(const pawl_run *run, int rank) {
    const struct ranks *r = run->ranks;
    if (r == NULL) {
        return NULL;
    }
    if (rank == run->rank) {
        return &r->self;
    }
    return rank < r->room && r->known[rank] ? &r->who[rank] : NULL;
}

const char *rank_text(char out[320], const pawl_run *run, int rank) {
    const process_identity *who = identity_of(run, rank);
    if (who != NULL) {
        (void)snprintf(out, 320, "rank %d (host %s, pid %lld)", rank, who->host,
                       (long long)who->pid);
    } else {
        (void)snprintf(out, 320, "rank %d", rank);
    }
    return out;
}

liveness rank_alive(const pawl_run *run, int rank) {
    const process_identity *who = identity_of(run, rank);
    return who != NULL ? run->platform->process_alive(run->platform->context, who)
                       : PROCESS_UNKNOWN;
}

/* ---- waiting -------------------------------------------------------------------------------- */

double ranks_deadline_s(const pawl_run *run) {
    return run->group_deadline_s;
}

double ranks_collect_s(const pawl_run *run) {
    return run->group_deadline_s * 3 / 4;
}

uint64_t ranks_now_ns(const pawl_run *run) {
    return run->platform->monotonic_ns(run->platform->context);
}

double ranks_seconds_since(const pawl_run *run, uint64_t begun_ns) {
    return (double)(ranks_now_ns(run) - begun_ns) / NANOSECONDS;
}

void ranks_sleep(pawl_run *run, ranks_pause *pause, uint64_t deadline_ns) {
    uint64_t now_ns = ranks_now_ns(run);
    if (pause->next_ns == 0) {
        pause->next_ns = FIRST_PAUSE_NS;
    }
    if (run->owner != NULL) {
        owner_tend(run->owner);
    }
    if (now_ns < deadline_ns) {
        uint64_t left_ns = deadline_ns - now_ns;
        run->platform->sleep_ns(run->platform->context,
                                pause->next_ns < left_ns ? pause->next_ns : left_ns);
    }
    pause->next_ns = pause->next_ns < LAST_PAUSE_NS / 2 ? pause->next_ns * 2 : LAST_PAUSE_NS;
}
