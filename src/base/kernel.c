/* SPDX-License-Identifier: Apache-2.0 */
/* Files of /proc and /sys. */
#include "base/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

bool kernel_file_read(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t got;
    do {
        got = read(fd, out, size - 1);
    } while (got < 0 && errno == EINTR);
    int failed = errno;
    close(fd);
    out[got > 0 ? got : 0] = '\0';
    errno = failed;
    return got > 0;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Of a text that begins with a number; UINT64_MAX for "max", and for what is too large. */
static uint64_t number_of(const char *text) {
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    return end != text ? number : UINT64_MAX;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t machine_memory(const char *root) {
    static const char key[] = "MemTotal:";
    char path[PATH_BYTES];
    char text[512];
    (void)snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    if (!kernel_file_read(path, text, sizeof(text))) {
        return UINT64_MAX;
    }
    const char *place = strstr(text, key);
    uint64_t kib = place != NULL ? number_of(place + sizeof(key) - 1) : UINT64_MAX;
    return kib <= UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
}

/* The least limit of a group and of those that it is in. */
static uint64_t group_limit(const char *root, const char *mount, char *group, const char *file) {
    uint64_t limit = UINT64_MAX;
    char *last;
    do {
        char path[PATH_BYTES];
        char text[64];
        int n = snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s%s/%s", root, mount, group, file);
        if (n > 0 && (size_t)n < sizeof(path) && kernel_file_read(path, text, sizeof(text))) {
            limit = smaller(limit, number_of(text));
        }
        last = strrchr(group, '/');
        if (last != NULL) {
            *last = '\0';
        }
    } while (last != NULL);
    return limit;
}

/* Lines "number:controllers:group": of version 2 without controllers, of version 1 the one that has
 * "memory". */
static uint64_t groups_limit(const char *root) {
    char path[PATH_BYTES];
    char text[8192];
    char *rest = text;
    uint64_t limit = UINT64_MAX;
    (void)snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    if (!kernel_file_read(path, text, sizeof(text))) {
        return UINT64_MAX;
    }
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        (void)strsep(&line, ":");
        const char *controllers = strsep(&line, ":");
        if (line == NULL) {
            continue;
        }
        if (controllers[0] == '\0') {
            limit = smaller(limit, group_limit(root, "", line, "memory.max"));
        } else if (strstr(controllers, "memory") != NULL) {
            limit = smaller(limit, group_limit(root, "/memory", line, "memory.limit_in_bytes"));
        }
    }
    return limit;
}

uint64_t kernel_memory_limit(const char *root) {
    return smaller(machine_memory(root), groups_limit(root));
}
