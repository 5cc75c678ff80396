/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group: the ranks of a job: one process alone, or many that the caller's callbacks connect, or
 * many that only know their number; and what an environment says of them.
 *
 * May include base. Threads: the callbacks are called on the caller's thread; a group is otherwise
 * constant once made. Ownership: group_new copies everything but the callbacks' context.
 */
#ifndef GROUP_GROUP_H
#define GROUP_GROUP_H

#include "base/base.h"

#include <pawl/group.h>

typedef struct rank_group {
    int rank, world_size;
    char *launch;   /* NULL: none */
    bool connected; /* it has callbacks */
    pawl_group callbacks;
} rank_group;

/* `given` NULL: one process alone. PAWL_EUSAGE naming an invalid member, and for many ranks with
 * neither callbacks nor launch. */
pawl_status group_new(const pawl_group *given, rank_group **out, pawl_error *err) PAWL_MUST_CHECK;
void group_free(rank_group *g); /* NULL is fine */

/* As the callbacks, for a group that is connected. Some ranks may be missing in `came` afterwards:
 * the caller decides what follows. PAWL_EPEER where rank 0's bytes did not come, and where a
 * callback failed. */
pawl_status group_gather(const rank_group *g, const void *mine, size_t n, void *all,
                         unsigned char *came, double timeout_s, pawl_error *err) PAWL_MUST_CHECK;
pawl_status group_broadcast(const rank_group *g, void *bytes, size_t n, double timeout_s,
                            pawl_error *err) PAWL_MUST_CHECK;

/* "rank 3", "ranks 3, 5 to 8 and 12"; the ranks r with chosen[r]. Cut with "..." when long. */
const char *group_ranks_text(char *out, size_t size, const unsigned char *chosen, int world_size);

/* As pawl_group_discover. */
pawl_status group_discover(const char *const *environment, pawl_group_found *found, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
