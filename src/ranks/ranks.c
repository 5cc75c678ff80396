/* SPDX-License-Identifier: Apache-2.0 */
/* Who the ranks of a job are, and waiting for them. */
#include "ranks/meet.h"

#include <stdio.h>
#include <string.h>

#define FIRST_PAUSE_NS UINT64_C(1000000)
#define LAST_PAUSE_NS  UINT64_C(100000000)
#define MOST_APPEAR_S  10.0 /* longer than NFS caches names */
#define LEAST_WAIT_S   1.0

/* ---- beginning and end ---------------------------------------------------------------------- */

/* Twelve digits that depend on the launch's name alone: at first ranks without callbacks have
 * nothing else in common. */
static void launch_key(const char *launch, char key[16]) {
    uint32_t first = crc32c(0, launch, strlen(launch));
    uint32_t second = crc32c(first, launch, strlen(launch));
    (void)snprintf(key, 16, "%08x%04x", first, second & 0xffffu);
}

static pawl_status learn_self(job_ranks *r, pawl_error *err) {
    r->room = r->rank == 0 ? r->world_size : 1;
    r->who = mem_calloc((size_t)r->room, sizeof *r->who);
    r->known = mem_calloc((size_t)r->room, 1);
    r->heard_voted = mem_calloc((size_t)r->room, sizeof *r->heard_voted);
    if (r->who == NULL || r->known == NULL || r->heard_voted == NULL) {
        return error_nomem(err, (size_t)r->room * sizeof *r->who);
    }
    TRY(r->platform->identity(r->platform->context, &r->self, err));
    TRY(r->platform->random_bytes(r->platform->context, r->nonce, sizeof r->nonce, err));
    if (r->rank == 0) {
        r->who[0] = r->self;
        r->known[0] = 1;
    }
    if (r->group->launch != NULL) {
        launch_key(r->group->launch, r->key);
    }
    return PAWL_OK;
}

pawl_status ranks_new(rank_group *group, const platform *os, job_ranks **out, pawl_error *err) {
    job_ranks *r = mem_calloc(1, sizeof *r);
    if (r == NULL) {
        group_free(group);
        return error_nomem(err, sizeof *r);
    }
    r->platform = os;
    r->group = group;
    r->rank = group->rank;
    r->world_size = group->world_size;
    pawl_status status = monitor_init(&r->guard, err);
    if (status != PAWL_OK) {
        group_free(group);
        mem_free(r);
        return status;
    }
    if (r->world_size > 1) {
        status = learn_self(r, err);
    }
    if (status != PAWL_OK) {
        ranks_free(r);
        return status;
    }
    *out = r;
    return PAWL_OK;
}

void ranks_free(job_ranks *r) {
    if (r != NULL) {
        monitor_destroy(&r->guard);
        mem_free(r->who);
        mem_free(r->known);
        mem_free(r->heard_voted);
        group_free(r->group);
        mem_free(r);
    }
}

void ranks_learn(job_ranks *ranks, int rank, const process_identity *who) {
    if (rank < ranks->room && !ranks->known[rank]) {
        ranks->who[rank] = *who;
        ranks->known[rank] = 1;
    }
}

void ranks_joined(job_ranks *ranks) {
    (void)snprintf(ranks->key, sizeof ranks->key, "%s", ranks->attempt);
}

/* ---- one rank's knowledge of the others ----------------------------------------------------- */

/* NULL: not known; always so in a process alone. */
static const process_identity *identity_of(const job_ranks *ranks, int rank) {
    if (ranks->room > 0 && rank == ranks->rank) {
        return &ranks->self;
    }
    return rank < ranks->room && ranks->known[rank] ? &ranks->who[rank] : NULL;
}

const char *rank_text(char out[320], const job_ranks *ranks, int rank) {
    const process_identity *who = identity_of(ranks, rank);
    if (who != NULL) {
        (void)snprintf(out, 320, "rank %d (host %s, pid %lld)", rank, who->host,
                       (long long)who->pid);
    } else {
        (void)snprintf(out, 320, "rank %d", rank);
    }
    return out;
}

const char *rank_host(const job_ranks *ranks, int rank) {
    const process_identity *who = identity_of(ranks, rank);
    return who != NULL ? who->host : "";
}

liveness rank_alive(const job_ranks *ranks, int rank) {
    const process_identity *who = identity_of(ranks, rank);
    return who != NULL ? ranks->platform->process_alive(ranks->platform->context, who)
                       : PROCESS_UNKNOWN;
}

bool rank_has_ended(const job_ranks *ranks, int rank) {
    bool dead = rank_alive(ranks, rank) == PROCESS_DEAD;
    if (dead && ranks->store != NULL) {
        store_catch_up(ranks->store);
    }
    return dead;
}

/* ---- waiting -------------------------------------------------------------------------------- */

double ranks_collect_timeout_s(const job_ranks *ranks) {
    return ranks->timeout_s * 3 / 4;
}

double ranks_appear_timeout_s(const job_ranks *ranks) {
    double quarter_s = ranks->timeout_s / 4;
    return quarter_s < MOST_APPEAR_S ? quarter_s : MOST_APPEAR_S;
}

double ranks_left_s(const job_ranks *ranks, double timeout_s, uint64_t begun_ns) {
    double left_s = timeout_s - platform_since_s(ranks->platform, begun_ns);
    return left_s > LEAST_WAIT_S ? left_s : LEAST_WAIT_S;
}

void ranks_sleep(job_ranks *ranks, ranks_pause *pause, uint64_t deadline_ns) {
    uint64_t now_ns = platform_now_ns(ranks->platform);
    if (pause->next_ns == 0) {
        pause->next_ns = FIRST_PAUSE_NS;
    }
    if (ranks->tend != NULL) {
        ranks->tend(ranks->tend_context);
    }
    if (now_ns < deadline_ns) {
        uint64_t left_ns = deadline_ns - now_ns;
        ranks->platform->sleep_ns(ranks->platform->context,
                                  pause->next_ns < left_ns ? pause->next_ns : left_ns);
    }
    pause->next_ns = pause->next_ns < LAST_PAUSE_NS / 2 ? pause->next_ns * 2 : LAST_PAUSE_NS;
}
