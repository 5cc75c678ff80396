/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callbacks of a group whose ranks are threads of one process: what MPI would do, with
 * deadlines by the real clock. A rank that does not come is missing, as it would be there.
 */
#ifndef LIB_LOCAL_GROUP_H
#define LIB_LOCAL_GROUP_H

#include <pawl/group.h>

typedef struct local_group local_group;

local_group *local_group_new(int world_size);
void local_group_free(local_group *g);
/* As rank `rank` hands it to pawl. */
pawl_group local_group_of(local_group *g, int rank);
/* From now on the callbacks of this rank do nothing and return `code`. */
void local_group_break(local_group *g, int rank, int code);

/* Calls body(context, rank) in a thread per rank, and waits until all have returned. */
void local_group_run(int world_size, void (*body)(void *context, int rank), void *context);

#endif
