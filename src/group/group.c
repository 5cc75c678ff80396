/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and keeps what a caller says of the ranks of its job, and calls its callbacks. */
#include "group/group.h"

#include <stdio.h>
#include <string.h>

static pawl_status refuse_group(pawl_status status, const char *member, pawl_error *err) {
    error_set(err, status, "the group of ranks is invalid: %s", member);
    error_next(err, "see pawl_group in pawl/group.h");
    return status;
}

/* The group needs a launch name, or callbacks. */
static pawl_status refuse_nameless(const char *how, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "the group of ranks is invalid: %s", how);
    error_next(err, "set launch to a text that is the same on all ranks and another one at each "
                    "start of the job, such as the scheduler's job number with its restart count; "
                    "or give the callbacks, and no launch");
    return PAWL_EUSAGE;
}

static bool launch_valid(const char *launch) {
    size_t n = strnlen(launch, PAWL_MAX_LAUNCH_BYTES + 1);
    if (n > PAWL_MAX_LAUNCH_BYTES) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (launch[i] <= ' ' || launch[i] > '~') {
            return false;
        }
    }
    return true;
}

static pawl_status check_group(const pawl_group *given, pawl_error *err) {
    char text[128];
    if (given->world_size < 1 || given->world_size > PAWL_MAX_RANKS) {
        snprintf(text, sizeof text, "world_size is %d, not 1 to %d", given->world_size,
                 PAWL_MAX_RANKS);
        return refuse_group(given->world_size > PAWL_MAX_RANKS ? PAWL_ELIMIT : PAWL_EUSAGE, text,
                            err);
    }
    if (given->rank < 0 || given->rank >= given->world_size) {
        snprintf(text, sizeof text, "rank is %d, not 0 to %d", given->rank, given->world_size - 1);
        return refuse_group(PAWL_EUSAGE, text, err);
    }
    if ((given->gather == NULL) != (given->broadcast == NULL)) {
        return refuse_group(PAWL_EUSAGE,
                            "it has only one of the callbacks gather and broadcast; it needs both",
                            err);
    }
    if (given->launch != NULL && given->launch[0] == '\0') {
        return refuse_nameless("launch is empty, so nothing names this start of the job", err);
    }
    if (given->launch != NULL && !launch_valid(given->launch)) {
        snprintf(text, sizeof text,
                 "launch is not 1 to %d printable ASCII characters without spaces",
                 PAWL_MAX_LAUNCH_BYTES);
        size_t n = strnlen(given->launch, PAWL_MAX_LAUNCH_BYTES + 1);
        return refuse_group(n > PAWL_MAX_LAUNCH_BYTES ? PAWL_ELIMIT : PAWL_EUSAGE, text, err);
    }
    if (given->world_size > 1 && given->gather == NULL && given->launch == NULL) {
        return refuse_nameless("many ranks need the callbacks, or launch, to find each other", err);
    }
    return PAWL_OK;
}

pawl_status group_new(const pawl_group *given, rank_group **out, pawl_error *err) {
    const pawl_group alone = {.struct_size = sizeof alone, .world_size = 1};
    const pawl_group *from = given != NULL ? given : &alone;
    TRY(check_group(from, err));
    rank_group *g = mem_calloc(1, sizeof *g);
    if (g == NULL) {
        return error_nomem(err, sizeof *g);
    }
    g->rank = from->rank;
    g->world_size = from->world_size;
    g->connected = from->gather != NULL;
    g->callbacks = *from;
    g->callbacks.launch = NULL;
    if (from->launch != NULL) {
        g->launch = mem_strdup(from->launch);
        if (g->launch == NULL) {
            mem_free(g);
            return error_nomem(err, strlen(from->launch) + 1);
        }
    }
    *out = g;
    return PAWL_OK;
}

void group_free(rank_group *g) {
    if (g != NULL) {
        mem_free(g->launch);
        mem_free(g);
    }
}

static pawl_status callback_failed(const char *which, int code, pawl_error *err) {
    error_set(err, PAWL_EPEER, "the group's callback %s failed", which);
    error_expected(err, "0");
    error_found(err, "%d", code);
    error_next(err, "look for the failure in what the callback uses (MPI, torch.distributed)");
    return PAWL_EPEER;
}

static pawl_status rank_0_silent(double timeout_s, pawl_error *err) {
    char seconds[32];
    error_set(err, PAWL_EPEER, "rank 0 did not answer");
    error_expected(err, "an answer within %s", text_seconds(seconds, timeout_s));
    return PAWL_EPEER;
}

pawl_status group_gather(const rank_group *g, const void *mine, size_t n, void *all,
                         unsigned char *came, double timeout_s, pawl_error *err) {
    int code = g->callbacks.gather(g->callbacks.context, mine, n, all, came, timeout_s);
    return code == 0 ? PAWL_OK : callback_failed("gather", code, err);
}

pawl_status group_broadcast(const rank_group *g, void *bytes, size_t n, double timeout_s,
                            pawl_error *err) {
    int code = g->callbacks.broadcast(g->callbacks.context, bytes, n, timeout_s);
    if (code == PAWL_ETIMEOUT) {
        return rank_0_silent(timeout_s, err);
    }
    return code == 0 ? PAWL_OK : callback_failed("broadcast", code, err);
}

/* The first rank from `r` on that is chosen, or world_size. */
static int next_chosen(const unsigned char *chosen, int r, int world_size) {
    while (r < world_size && !chosen[r]) {
        r++;
    }
    return r;
}

/* The last of the chosen ranks that follow `r` without a gap, if these are three or more with `r`;
 * else `r`. */
static int end_of_run(const unsigned char *chosen, int r, int world_size) {
    int last = r;
    while (last + 1 < world_size && chosen[last + 1]) {
        last++;
    }
    return last > r + 1 ? last : r;
}

const char *group_ranks_text(char *out, size_t size, const unsigned char *chosen, int world_size) {
    int first = next_chosen(chosen, 0, world_size);
    bool one = next_chosen(chosen, first + 1, world_size) >= world_size;
    const char *before = "";
    size_t at = (size_t)snprintf(out, size,
                                 first == world_size ? "no rank"
                                 : one               ? "rank "
                                                     : "ranks ");
    for (int r = first; r < world_size && at < size;) {
        int last = end_of_run(chosen, r, world_size);
        int next = next_chosen(chosen, last + 1, world_size);
        at += last > r ? (size_t)snprintf(out + at, size - at, "%s%d to %d", before, r, last)
                       : (size_t)snprintf(out + at, size - at, "%s%d", before, r);
        before =
            next_chosen(chosen, end_of_run(chosen, next, world_size) + 1, world_size) < world_size
                ? ", "
                : " and ";
        r = next;
    }
    if (at >= size) {
        text_cut(out, size);
    }
    return out;
}
