/* SPDX-License-Identifier: Apache-2.0 */
/* store/mount_table: finds the mount of a file in /proc/self/mountinfo, by its id (statx), else by
 * its device. */
#include "store/mount_table.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_FIELDS 32

/* The byte that three octal digits stand for; 0, which no name holds: they are no such digits. */
static int octal_byte(const char *digits) {
    int value = 0;
    for (int i = 0; i < 3; i++) {
        if (digits[i] < '0' || digits[i] > '7') {
            return 0;
        }
        value = value * 8 + (digits[i] - '0');
    }
    return value <= UCHAR_MAX ? value : 0;
}

/* mountinfo writes space, tab, newline and backslash as \040 and the like. */
static void unescape_octal(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        int escaped = from[0] == '\\' ? octal_byte(from + 1) : 0;
        if (escaped != 0) {
            *to++ = (char)escaped;
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue": the number of
 * fields before the dash varies. */
bool mount_line_parse(char *line, mount_line *out) {
    char *fields[MOST_FIELDS];
    char *rest = NULL;
    size_t count = 0;
    size_t dash = 0;
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
                        .root = fields[3],
                        .point = fields[4],
                        .options = fields[5],
                        .filesystem = fields[dash + 1],
                        .source = fields[dash + 2],
                        .super_options = fields[dash + 3]};
    unescape_octal(out->root);
    unescape_octal(out->point);
    unescape_octal(out->source);
    return true;
}

static bool read_line(FILE *table, char line[MOUNT_LINE_BYTES]) {
    if (fgets(line, MOUNT_LINE_BYTES, table) == NULL) {
        return false;
    }
    for (int c = strchr(line, '\n') != NULL ? '\n' : 0; c != '\n' && c != EOF;) {
        c = getc(table);
    }
    return true;
}

void mounts_each(void (*each)(void *context, const mount_line *mount), void *context) {
    char line[MOUNT_LINE_BYTES];
    mount_line mount;
    FILE *table = fopen("/proc/self/mountinfo", "re");
    if (table == NULL) {
        return;
    }
    while (read_line(table, line)) {
        if (mount_line_parse(line, &mount)) {
            each(context, &mount);
        }
    }
    (void)fclose(table);
}

/* ---- the mount of an open file -------------------------------------------------------------- */

typedef struct search {
    bool has_id, found;
    uint64_t id;
    char device[32];
    mount_found *out;
} search;

/* The filesystem's own options begin with "rw" or "ro", as the mount's do: left out. */
static void copy_mount(mount_found *out, const mount_line *mount) {
    const char *more = strchr(mount->super_options, ',');
    out->id = mount->id;
    (void)snprintf(out->root, sizeof(out->root), "%s", mount->root);
    (void)snprintf(out->point, sizeof(out->point), "%s", mount->point);
    (void)snprintf(out->options, sizeof(out->options), "%s%s", mount->options,
                   more != NULL ? more : "");
    (void)snprintf(out->filesystem, sizeof(out->filesystem), "%s", mount->filesystem);
    (void)snprintf(out->source, sizeof(out->source), "%s", mount->source);
}

/* The last match counts: a later mount hides an earlier one. */
static void match_mount(void *context, const mount_line *mount) {
    search *s = context;
    if (s->has_id ? mount->id == s->id : strcmp(mount->device, s->device) == 0) {
        copy_mount(s->out, mount);
        s->found = true;
    }
}

bool mount_find_path(const char *path, mount_found *out) {
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool found = fd >= 0 && mount_find(fd, out);
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

bool mount_find(int fd, mount_found *out) {
    search s = {.out = out};
    struct statx found;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &found) != 0) {
        return false;
    }
    s.has_id = (found.stx_mask & STATX_MNT_ID) != 0;
    s.id = found.stx_mnt_id;
    (void)snprintf(s.device, sizeof(s.device), "%u:%u", found.stx_dev_major, found.stx_dev_minor);
    mounts_each(match_mount, &s);
    return s.found;
}

bool mount_has_option(const char *options, const char *name) {
    size_t n = strlen(name);
    for (const char *at = options; *at != '\0'; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0')) {
            return true;
        }
    }
    return false;
}

bool mount_is_shared(const char *filesystem) {
    static const char *const names[] = {"nfs",  "nfs4",  "lustre", "gpfs",  "beegfs",
                                        "ceph", "cifs",  "smb3",   "panfs", "pvfs2",
                                        "gfs2", "ocfs2", "afs",    "wekafs"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (strcmp(names[i], filesystem) == 0) {
            return true;
        }
    }
    return false;
}
