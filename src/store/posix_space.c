/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/posix_space: how much room there is, and on which mount. Where the mount cannot be found,
 * only what statvfs says is known.
 */
#include "store/posix.h"

#include "store/implement.h"
#include "store/mount_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#define FAT_MAX_FILE_BYTES UINT32_MAX

static void find_mount(int fd, store_space *out) {
    mount_found found;
    if (mount_find(fd, &found)) {
        (void)snprintf(out->filesystem, sizeof(out->filesystem), "%s", found.filesystem);
        (void)snprintf(out->mount_point, sizeof(out->mount_point), "%s", found.point);
        (void)snprintf(out->mount_options, sizeof(out->mount_options), "%s", found.options);
    }
}

static uint64_t blocks_to_bytes(uint64_t blocks, uint64_t block_bytes) {
    uint64_t bytes;
    return multiply_overflows(blocks, block_bytes, &bytes) ? UINT64_MAX : bytes;
}

static uint64_t largest_file(const char *filesystem) {
    struct rlimit limit;
    uint64_t most = UINT64_MAX;
    if (strcmp(filesystem, "vfat") == 0 || strcmp(filesystem, "msdos") == 0) {
        most = FAT_MAX_FILE_BYTES;
    }
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < most) {
        most = limit.rlim_cur;
    }
    return most;
}

pawl_status store_posix_space(store *s, store_space *out, pawl_error *err) {
    const posix_store *p = (const posix_store *)s;
    struct statvfs room;
    int failed;
    do {
        failed = fstatvfs(p->root, &room);
    } while (failed != 0 && errno == EINTR);
    if (failed != 0) {
        return store_failure(s, "", errno, err, "cannot find out how much room there is");
    }
    memset(out, 0, sizeof(*out));
    find_mount(p->root, out);
    if (out->mount_point[0] == '\0') { /* in a chroot, the mount may not be listed */
        (void)snprintf(out->filesystem, sizeof(out->filesystem), "unknown");
        (void)snprintf(out->mount_point, sizeof(out->mount_point), "%s", s->root);
    }
    /* Filesystems that count no blocks, as ramfs, say that there are none. */
    bool counts = room.f_blocks > 0;
    out->total_bytes = counts ? blocks_to_bytes(room.f_blocks, room.f_frsize) : UINT64_MAX;
    out->free_bytes = counts ? blocks_to_bytes(room.f_bavail, room.f_frsize) : UINT64_MAX;
    /* Filesystems without a fixed table of inodes report none at all. */
    out->free_inodes = room.f_files == 0 ? UINT64_MAX : room.f_favail;
    out->max_file_bytes = largest_file(out->filesystem);
    out->read_only = (room.f_flag & ST_RDONLY) != 0;
    return PAWL_OK;
}
