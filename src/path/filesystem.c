/* SPDX-License-Identifier: Apache-2.0 */
/* The filesystem of a directory: do its files last (P07), and what does it lack (P09)? */
#include "path/private.h"

#include "store/mount_table.h"

#include <stdio.h>
#include <string.h>

typedef struct examination {
    const char *path;
    const mount_found *mount;
    path_finding_fn each;
    void *context;
} examination;

/* "<path> is on <filesystem> (mounted at <point>)<what>" */
static void tell_finding(const examination *x, const char *id, pawl_severity severity,
                         const char *what, const char *next) {
    char raw[1536];
    char text[sizeof(raw)];
    char shown_next[640];
    (void)snprintf(raw, sizeof(raw), "%.500s is on %s (mounted at %s)%.600s", x->path,
                   x->mount->filesystem, x->mount->point, what);
    text_shown(text, sizeof(text), raw);
    next = next != NULL ? text_shown(shown_next, sizeof(shown_next), next) : NULL;
    const pawl_finding finding = {
        .struct_size = sizeof(finding), .id = id, .severity = severity, .text = text, .next = next};
    x->each(x->context, &finding);
}

/* A name such as "ext4"; one that ends with a star means all that begin so. */
static bool is_filesystem(const char *pattern, const char *filesystem) {
    size_t n = strcspn(pattern, "*");
    return strncmp(pattern, filesystem, n) == 0 && (pattern[n] == '*' || filesystem[n] == '\0');
}

/* ---- P07 ------------------------------------------------------------------------------------ */

#define EMPTY_DIR "/kubernetes.io~empty-dir/"

/* NULL: nothing says that its files vanish. */
static const char *why_it_vanishes(const mount_found *m) {
    static const char memory[] =
        ", which is memory: all of it is gone when the machine restarts, or the container ends";
    static const char layer[] =
        ", as a container's own files are: all of it is gone when the container is removed";
    const struct {
        const char *filesystem, *why;
    } kinds[] = {{"tmpfs", memory},
                 {"ramfs", memory},
                 {"rootfs", memory},
                 {"devtmpfs", memory},
                 {"overlay", layer},
                 {"aufs", layer},
                 {"fuse.fuse-overlayfs", layer}};
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        if (strcmp(kinds[i].filesystem, m->filesystem) == 0) {
            return kinds[i].why;
        }
    }
    return strstr(m->root, EMPTY_DIR) != NULL
               ? ", a Kubernetes emptyDir: all of it is gone when the pod ends"
               : NULL;
}

static void examine_lasting(const examination *x) {
    static const char otherwise[] =
        "save to a directory on a disk or a network filesystem; in a container, give it a volume";
    const char *why = why_it_vanishes(x->mount);
    char others[512];
    char next[640];
    if (why == NULL) {
        return;
    }
    path_other_mounts(x->mount->id, others);
    (void)snprintf(next, sizeof(next), "save to a mount that lasts: %s", others);
    tell_finding(x, "P07", PAWL_SEVERITY_WARNING, why, others[0] != '\0' ? next : otherwise);
}

bool path_mount_vanishes(const mount_found *mount) {
    return why_it_vanishes(mount) != NULL;
}

/* ---- P09 ------------------------------------------------------------------------------------ */

typedef struct lack {
    const char *filesystem, *option; /* "": any */
    pawl_severity severity;
    const char *what, *next;
} lack;

static const lack lacks[] = {
    {"vfat", "", PAWL_SEVERITY_WARNING,
     ": a file has at most 4.3 GB there, and a power cut may damage a checkpoint that is being "
     "replaced",
     "save to ext4, XFS or the like"},
    {"msdos", "", PAWL_SEVERITY_WARNING,
     ": a file has at most 4.3 GB there, and a power cut may damage a checkpoint that is being "
     "replaced",
     "save to ext4, XFS or the like"},
    {"exfat", "", PAWL_SEVERITY_WARNING,
     ": a power cut may damage a checkpoint that is being replaced",
     "save to ext4, XFS or the like"},
    {"fuse*", "", PAWL_SEVERITY_WARNING,
     ", which a program serves: whether a sync makes anything durable, and a rename is atomic, is "
     "up to it",
     "see what that program promises for fsync and rename"},
    {"nfs*", "soft", PAWL_SEVERITY_WARNING,
     ", mounted soft: when the server does not answer in time, writes fail instead of waiting",
     "mount it hard, which is the default"},
    {"nfs*", "nocto", PAWL_SEVERITY_WARNING,
     ", mounted nocto: processes of other hosts may read what was there before",
     "mount it without nocto"},
    {"nfs*", "", PAWL_SEVERITY_NOTE,
     ": other hosts see new files a little later; and a server that exports it async, which cannot "
     "be seen from here, loses what it acknowledged when it crashes",
     "have the server export it sync"},
    {"cifs", "nostrictsync", PAWL_SEVERITY_WARNING,
     ", mounted nostrictsync: a sync does not reach the server", "mount it with strictsync"},
    {"smb3", "nostrictsync", PAWL_SEVERITY_WARNING,
     ", mounted nostrictsync: a sync does not reach the server", "mount it with strictsync"},
    {"cifs", "", PAWL_SEVERITY_NOTE, ": whether a sync makes anything durable is up to the server",
     NULL},
    {"smb3", "", PAWL_SEVERITY_NOTE, ": whether a sync makes anything durable is up to the server",
     NULL},
    {"9p", "cache=loose", PAWL_SEVERITY_WARNING,
     ", mounted cache=loose: what other hosts write may not be seen", "mount it with cache=none"},
    {"9p", "cache=fscache", PAWL_SEVERITY_WARNING,
     ", mounted cache=fscache: what other hosts write may not be seen", "mount it with cache=none"},
    {"9p", "", PAWL_SEVERITY_NOTE,
     ", which the host serves: whether a sync makes anything durable is up to it", NULL},
    {"overlay", "volatile", PAWL_SEVERITY_WARNING,
     ", mounted volatile: a sync does nothing, and a power cut may take everything",
     "mount it without volatile"},
    {"overlay", "fsync=volatile", PAWL_SEVERITY_WARNING,
     ", mounted volatile: a sync does nothing, and a power cut may take everything",
     "mount it without volatile"},
    {"*", "nobarrier", PAWL_SEVERITY_WARNING,
     ", mounted nobarrier: a power cut may take what a disk's cache had acknowledged",
     "mount it without nobarrier, unless every cache has a battery"},
    {"*", "barrier=0", PAWL_SEVERITY_WARNING,
     ", mounted barrier=0: a power cut may take what a disk's cache had acknowledged",
     "mount it with barrier=1, unless every cache has a battery"},
};

static void examine_kind(const examination *x) {
    for (size_t i = 0; i < ARRAY_LENGTH(lacks); i++) {
        const lack *l = &lacks[i];
        if (is_filesystem(l->filesystem, x->mount->filesystem) &&
            (l->option[0] == '\0' || mount_has_option(x->mount->options, l->option))) {
            tell_finding(x, "P09", l->severity, l->what, l->next);
        }
    }
}

static void examine_abilities(const examination *x, const path_abilities *can) {
    if (!can->direct_io) {
        tell_finding(
            x, "P09", PAWL_SEVERITY_WARNING,
            ", which has no direct I/O: saves go through the page cache, which is slower and "
            "takes memory",
            NULL);
    }
    if (!can->directory_sync) {
        tell_finding(
            x, "P09", PAWL_SEVERITY_WARNING,
            ", which cannot sync directories: after a power cut a checkpoint that was committed "
            "may be missing, whole",
            "save to ext4, XFS or the like");
    }
}

/* ---- */

void path_judge_filesystem(const char *path, const mount_found *mount, const path_abilities *can,
                           path_finding_fn each, void *context) {
    const examination x = {.path = path, .mount = mount, .each = each, .context = context};
    examine_lasting(&x);
    examine_kind(&x);
    examine_abilities(&x, can);
}

/* Not worth a probe: it has neither direct I/O nor anything to sync. */
static bool is_memory(const mount_found *m) {
    return strcmp(m->filesystem, "tmpfs") == 0 || strcmp(m->filesystem, "ramfs") == 0;
}

void path_examine_filesystem(store *s, const platform *os, path_finding_fn each, void *context) {
    mount_found mount;
    path_abilities can = {.direct_io = true, .directory_sync = true};
    if (strcmp(s->traits.kind, "posix") != 0) {
        return;
    }
    if (mount_find_path(s->root, &mount)) {
        if (!is_memory(&mount)) {
            can = path_probe(s->root, os);
        }
        path_judge_filesystem(s->root, &mount, &can, each, context);
    }
}

bool path_has_direct_io(const char *directory, const platform *os) {
    return path_probe(directory, os).direct_io;
}
