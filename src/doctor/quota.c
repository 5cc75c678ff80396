/* SPDX-License-Identifier: Apache-2.0 */
/* What the quotas of this user and group leave (P03, S06): statvfs does not know them. */
#include "doctor/quota.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define QUOTA_BLOCK_BYTES 1024u /* of limits, on every filesystem: quotactl(2) */

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

/* Of two limits the hard one counts; a soft one that is exceeded becomes hard after some days. */
static uint64_t left_of(uint64_t hard, uint64_t soft, uint64_t used) {
    uint64_t limit = hard > 0 ? hard : soft;
    if (limit == 0) {
        return UINT64_MAX;
    }
    return limit > used ? limit - used : 0;
}

static uint64_t bytes_of(uint64_t blocks) {
    uint64_t bytes = 0;
    return multiply_overflows(blocks, QUOTA_BLOCK_BYTES, &bytes) ? UINT64_MAX : bytes;
}

void quota_take(doctor_quota *out, const struct dqblk *q, const char *whose, unsigned id) {
    uint64_t hard = bytes_of(q->dqb_bhardlimit);
    uint64_t soft = bytes_of(q->dqb_bsoftlimit);
    uint64_t bytes = left_of(hard, soft, q->dqb_curspace);
    uint64_t inodes = left_of(q->dqb_ihardlimit, q->dqb_isoftlimit, q->dqb_curinodes);
    if (bytes == UINT64_MAX && inodes == UINT64_MAX) {
        return;
    }
    if (!out->limited || bytes < out->free_bytes || inodes < out->free_inodes) {
        (void)snprintf(out->name, sizeof out->name, "%s %u", whose, id);
        out->limit_bytes = hard > 0 ? hard : soft;
    }
    out->free_bytes = bytes < out->free_bytes ? bytes : out->free_bytes;
    out->free_inodes = inodes < out->free_inodes ? inodes : out->free_inodes;
    out->limited = true;
}

/* A kernel or filesystem without quotas says so: there is no limit then. */
static bool ask_quota(int fd, int kind, unsigned id, struct dqblk *out) {
    const unsigned command = ((unsigned)Q_GETQUOTA << SUBCMDSHIFT) | (unsigned)kind;
    *out = (struct dqblk){0};
    return syscall(SYS_quotactl_fd, fd, command, id, out) == 0;
}

void quota_of(const char *directory, doctor_quota *out) {
    struct dqblk q;
    *out = QUOTA_NONE;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (geteuid() != 0 && ask_quota(fd, USRQUOTA, geteuid(), &q)) {
        quota_take(out, &q, "user", geteuid());
    }
    if (geteuid() != 0 && ask_quota(fd, GRPQUOTA, getegid(), &q)) {
        quota_take(out, &q, "group", getegid());
    }
    close(fd);
}
