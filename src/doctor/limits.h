/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/limits: which limits of a process are too low for saves. */
#ifndef DOCTOR_LIMITS_H
#define DOCTOR_LIMITS_H

#include "doctor/cgroup.h"

#include <pawl/doctor.h>

/* Of a process, in files, bytes, bytes; UINT64_MAX: none. */
typedef struct process_limits {
    uint64_t open_files, locked_bytes, file_bytes;
    bool may_lock_anything; /* CAP_IPC_LOCK */
} process_limits;

typedef void (*limits_tell)(void *context, const char *id, const char *next, const char *evidence,
                            const char *text);
/* `need_bytes`: of a checkpoint, 0: not known. */
void limits_judge(const process_limits *limits, uint64_t need_bytes, limits_tell tell_each,
                  void *context);
/* The staging memory of all ranks on this machine: what they want of what is left. */
typedef struct staging_wanted {
    uint64_t budget_bytes; /* of one rank */
    uint64_t need_bytes;   /* of the checkpoint; 0: not known */
    int ranks, ranks_here;
} staging_wanted;
uint64_t staging_bytes(const staging_wanted *wanted);
/* True: a finding (S05). */
bool memory_judge(const memory_room *room, const staging_wanted *wanted, limits_tell tell_each,
                  void *context);

#endif
