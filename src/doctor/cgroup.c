/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of its memory a machine, and each of the control groups around this process, has left.
 * Cached files count as free: the kernel drops them before it refuses memory.
 */
#include "doctor/cgroup.h"

#include "base/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

/* Where a version of control groups keeps its files, and what they are called. */
typedef struct kind {
    int version;
    const char *mount, *limit, *used, *cached;
} kind;

static const kind kinds[] = {
    {1, "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
    {2, "", "memory.max", "memory.current", "inactive_file "},
};

static bool number_of(const char *text, uint64_t *out) {
    char *end;
    *out = strtoull(text, &end, 10);
    return end != text;
}

/* The number behind a key at the beginning of a line. */
static uint64_t number_behind(const char *text, const char *key) {
    uint64_t number = 0;
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, strlen(key)) == 0) {
            return number_of(line + strlen(key), &number) ? number : 0;
        }
        line = strchr(line, '\n');
        line += line != NULL;
    }
    return 0;
}

static bool read_in(const char *root, const kind *k, const char *group, const char *file,
                    char *text, size_t size) {
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/%s", root, k->mount, group, file);
    return n > 0 && (size_t)n < sizeof path && kernel_file_read(path, text, size);
}

static void look_at_group(const char *root, const kind *k, const char *group, memory_room *out) {
    char text[8192];
    uint64_t limit = 0;
    uint64_t used = 0;
    if (!read_in(root, k, group, k->limit, text, sizeof text) || !number_of(text, &limit) ||
        !read_in(root, k, group, k->used, text, sizeof text) || !number_of(text, &used)) {
        return; /* "max", or no such group here */
    }
    if (read_in(root, k, group, "memory.stat", text, sizeof text)) {
        uint64_t cached = number_behind(text, k->cached);
        used -= cached < used ? cached : used;
    }
    uint64_t left = limit > used ? limit - used : 0;
    if (left < out->free_bytes) {
        *out = (memory_room){
            .free_bytes = left, .limit_bytes = limit, .used_bytes = used, .version = k->version};
        (void)snprintf(out->group, sizeof out->group, "%.255s", group[0] != '\0' ? group : "/");
    }
}

/* A group, and those that it is in, as far as the root, which is "". */
static void look_at_groups(const char *root, const kind *k, char *group, memory_room *out) {
    char *last = strrchr(group, '/');
    while (last != NULL) {
        if (last[1] != '\0') {
            look_at_group(root, k, group, out);
        }
        *last = '\0';
        last = strrchr(group, '/');
    }
    look_at_group(root, k, "", out);
}

/* Lines "number:controllers:group": of version 2 without controllers. */
static void look_at_all_groups(const char *root, memory_room *out) {
    char path[PATH_BYTES];
    char text[8192];
    char *rest = text;
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!kernel_file_read(path, text, sizeof text)) {
        return;
    }
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        (void)strsep(&line, ":");
        const char *controllers = strsep(&line, ":");
        if (line == NULL || controllers == NULL) {
            continue;
        }
        if (controllers[0] == '\0') {
            look_at_groups(root, &kinds[1], line, out);
        } else if (strcmp(controllers, "memory") == 0 || strstr(controllers, "memory,") != NULL ||
                   strstr(controllers, ",memory") != NULL) {
            look_at_groups(root, &kinds[0], line, out);
        }
    }
}

void memory_room_of(const char *root, memory_room *out) {
    char path[PATH_BYTES];
    char text[4096];
    *out = (memory_room){.free_bytes = UINT64_MAX};
    (void)snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (kernel_file_read(path, text, sizeof text)) {
        uint64_t total = number_behind(text, "MemTotal:");
        uint64_t available = number_behind(text, "MemAvailable:");
        if (total > 0 && total <= UINT64_MAX / 1024 && available <= total) {
            out->limit_bytes = total * 1024;
            out->free_bytes = available * 1024;
            out->used_bytes = (total - available) * 1024;
        }
    }
    look_at_all_groups(root, out);
}
