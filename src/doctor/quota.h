/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/quota: what the quotas of this user and group leave, which statvfs does not know. */
#ifndef DOCTOR_QUOTA_H
#define DOCTOR_QUOTA_H

#include "base/base.h"

#include <sys/quota.h>

typedef struct doctor_quota {
    bool limited;                     /* the rest */
    char name[32];                    /* whose: "user 1000" */
    uint64_t free_bytes, free_inodes; /* UINT64_MAX: no limit */
    uint64_t limit_bytes;
} doctor_quota;

#define QUOTA_NONE ((doctor_quota){.free_bytes = UINT64_MAX, .free_inodes = UINT64_MAX})

/* Adds what the kernel says of a user or group: the tightest counts. */
void quota_take(doctor_quota *out, const struct dqblk *q, const char *whose, unsigned id);
/* The tightest quota of this user and group on the filesystem of a directory. Root has none: it may
 * exceed its own. */
void quota_of(const char *directory, doctor_quota *out);

#endif
