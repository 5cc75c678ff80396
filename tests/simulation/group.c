/* SPDX-License-Identifier: Apache-2.0 */
/* The callbacks of a group whose ranks are fibers: who waits sleeps, and looks again. */
#include "simulation/job.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_NS (NS_PER_S / 200)

/* One gather or broadcast: all ranks come to it by their own count of calls. */
typedef struct rendezvous {
    uint64_t number;
    bool broadcast;
    size_t bytes;
    uint8_t *all;
    unsigned char *came;
    int count;
    bool given; /* broadcast: rank 0 was here */
    struct rendezvous *next;
} rendezvous;

static rendezvous *meet(job *j, bool broadcast, uint64_t number, size_t n) {
    for (rendezvous *r = j->meetings; r != NULL; r = r->next) {
        if (r->number == number && r->broadcast == broadcast) {
            return r->bytes == n ? r : NULL;
        }
    }
    rendezvous *r = calloc(1, sizeof *r);
    size_t ranks = (size_t)j->plan.world_size;
    if (r == NULL) {
        abort();
    }
    *r = (rendezvous){.number = number, .broadcast = broadcast, .bytes = n, .next = j->meetings};
    r->all = calloc(broadcast ? 1 : ranks, n);
    r->came = calloc(ranks, 1);
    if (r->all == NULL || r->came == NULL) {
        abort();
    }
    j->meetings = r;
    return r;
}

static uint64_t end_of(double deadline_s) {
    return fibers_now() + (uint64_t)((deadline_s > 0 ? deadline_s : 0) * (double)NS_PER_S);
}

static int gather(void *context, const void *mine, size_t n, void *all, unsigned char *came,
                  double deadline_s) {
    rank_process *r = context;
    uint64_t until_ns = end_of(deadline_s);
    rendezvous *here = meet(r->job, false, r->gathers++, n);
    if (here == NULL) {
        return 1;
    }
    size_t rank = (size_t)r->machine.rank;
    memcpy(here->all + rank * n, mine, n);
    here->came[rank] = 1;
    here->count++;
    fiber_sleep(random_below(&r->machine.random, 100000));
    if (rank != 0) {
        return 0;
    }
    while (here->count < r->job->plan.world_size && fibers_now() < until_ns) {
        fiber_sleep(LOOK_NS);
    }
    memcpy(all, here->all, n * (size_t)r->job->plan.world_size);
    memcpy(came, here->came, (size_t)r->job->plan.world_size);
    return 0;
}

static int broadcast(void *context, void *bytes, size_t n, double deadline_s) {
    rank_process *r = context;
    uint64_t until_ns = end_of(deadline_s);
    rendezvous *here = meet(r->job, true, r->broadcasts++, n);
    if (here == NULL) {
        return 1;
    }
    if (r->machine.rank == 0) {
        memcpy(here->all, bytes, n);
        here->given = true;
        return 0;
    }
    while (!here->given) {
        if (fibers_now() >= until_ns) {
            return 2;
        }
        fiber_sleep(LOOK_NS);
    }
    memcpy(bytes, here->all, n);
    return 0;
}

struct pawl_group job_group(rank_process *r) {
    struct pawl_group group = {.struct_size = sizeof group,
                               .rank = r->machine.rank,
                               .world_size = r->job->plan.world_size,
                               .launch = r->job->launch};
    if (r->job->plan.callbacks) {
        group.context = r;
        group.gather = gather;
        group.broadcast = broadcast;
    }
    return group;
}
