/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/posix_space: how much room there is, and on which mount. The mount is found by its id
 * (statx) in /proc/self/mountinfo; where that cannot be had, type, mount point and options stay
 * empty and only what statvfs says is known.
 */
#include "store/posix.h"

#include "store/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FAT_MAX_FILE_BYTES UINT32_MAX
#define MOST_FIELDS        32
#define MOST_LINE_BYTES    8192

/* The parts of a line of mountinfo that matter; they point into the line. */
typedef struct mount_line {
    uint64_t id;
    char *device, *mount_point, *options, *filesystem, *super_options;
} mount_line;

/* Which mount is wanted: the id, where the kernel tells it, else the device. */
typedef struct mount_key {
    bool has_id;
    uint64_t id;
    char device[32];
} mount_key;

static bool is_octal(const char *digits) {
    for (int i = 0; i < 3; i++) {
        if (digits[i] < '0' || digits[i] > '7') {
            return false;
        }
    }
    return true;
}

/* mountinfo writes space, tab, newline and backslash as \040 and the like. */
static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        if (from[0] == '\\' && is_octal(from + 1)) {
            *to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue": the number of
 * fields before the dash varies. */
static bool parse_line(char *line, mount_line *out) {
    char *fields[MOST_FIELDS];
    char *rest = NULL;
    size_t count = 0, dash = 0;
    for (char *field = strtok_r(line, " \n", &rest); field != NULL && count < MOST_FIELDS;
         field = strtok_r(NULL, " \n", &rest)) {
        if (dash == 0 && strcmp(field, "-") == 0) {
            dash = count;
        }
        fields[count++] = field;
    }
    if (dash < 6 || count < dash + 4) {
        return false;
    }
    *out = (mount_line){.id = strtoull(fields[0], NULL, 10),
                        .device = fields[2],
                        .mount_point = fields[4],
                        .options = fields[5],
                        .filesystem = fields[dash + 1],
                        .super_options = fields[dash + 3]};
    unescape(out->mount_point);
    return true;
}

static bool mount_key_of(int fd, mount_key *out) {
    struct statx found;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &found) != 0) {
        return false;
    }
    out->has_id = (found.stx_mask & STATX_MNT_ID) != 0;
    out->id = found.stx_mnt_id;
    (void)snprintf(out->device, sizeof(out->device), "%u:%u", found.stx_dev_major,
                   found.stx_dev_minor);
    return true;
}

static void copy_mount(const mount_line *mount, store_space *out) {
    /* The filesystem's own options repeat "rw" or "ro" first. */
    const char *more = strchr(mount->super_options, ',');
    (void)snprintf(out->filesystem, sizeof(out->filesystem), "%s", mount->filesystem);
    (void)snprintf(out->mount_point, sizeof(out->mount_point), "%s", mount->mount_point);
    (void)snprintf(out->mount_options, sizeof(out->mount_options), "%s%s", mount->options,
                   more != NULL ? more : "");
}

/* What is longer is cut: that costs only the last of the filesystem's own options. */
static bool read_line(FILE *table, char line[MOST_LINE_BYTES]) {
    if (fgets(line, MOST_LINE_BYTES, table) == NULL) {
        return false;
    }
    for (int c = strchr(line, '\n') != NULL ? '\n' : 0; c != '\n' && c != EOF;) {
        c = getc(table);
    }
    return true;
}

static void find_mount(int fd, store_space *out) {
    mount_key key;
    mount_line mount;
    char line[MOST_LINE_BYTES];
    FILE *table = mount_key_of(fd, &key) ? fopen("/proc/self/mountinfo", "re") : NULL;
    if (table == NULL) {
        return;
    }
    /* The last match counts: a later mount hides an earlier one. */
    while (read_line(table, line)) {
        if (parse_line(line, &mount) &&
            (key.has_id ? mount.id == key.id : strcmp(mount.device, key.device) == 0)) {
            copy_mount(&mount, out);
        }
    }
    (void)fclose(table);
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
    out->total_bytes = blocks_to_bytes(room.f_blocks, room.f_frsize);
    out->free_bytes = blocks_to_bytes(room.f_bavail, room.f_frsize);
    /* Filesystems without a fixed table of inodes report none at all. */
    out->free_inodes = room.f_files == 0 ? UINT64_MAX : room.f_favail;
    out->max_file_bytes = largest_file(out->filesystem);
    out->read_only = (room.f_flag & ST_RDONLY) != 0;
    return PAWL_OK;
}
