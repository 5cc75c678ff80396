/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/cgroup: how much memory is left to this process, by its machine and its control groups. */
#ifndef DOCTOR_CGROUP_H
#define DOCTOR_CGROUP_H

#include "base/base.h"

typedef struct memory_room {
    uint64_t free_bytes;  /* the least of what is left; UINT64_MAX: nothing is known */
    uint64_t limit_bytes; /* of what leaves the least: of a group, or of the machine */
    uint64_t used_bytes;  /* of it, without what the kernel would give back */
    char group[256];      /* the control group that leaves the least; "": the machine does */
    int version;          /* of control groups: 1 or 2; 0: the machine */
} memory_room;

/* `root`: "", or where a test has put such files. */
void memory_room_of(const char *root, memory_room *out);

#endif
