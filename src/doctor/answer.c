/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the filesystem answer (S08)? A server that is gone, or a program behind FUSE that hangs,
 * lets a call wait for ever. So a thread of its own makes the first calls: it looks the path up,
 * opens its directory, makes a small file there and syncs it. Where it does not come back in time
 * it is left behind with all that it uses.
 */
#include "doctor/examination.h"
#include "format/format.h"
#include "path/path.h"
#include "store/mount_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

typedef struct asking {
    monitor guard;
    int users;         /* under `guard`: the last one frees it */
    bool answered;     /* under `guard` */
    const char *doing; /* under `guard` */
    char path[4096];
    char name[80]; /* of the small file; "": none is made */
} asking;

/* ---- the thread ----------------------------------------------------------------------------- */

static void is_doing(asking *a, const char *what) {
    monitor_enter(&a->guard);
    a->doing = what;
    monitor_leave(&a->guard);
}

/* The part of the path that exists. False: none, or it cannot be told. */
static bool find_existing(asking *a) {
    struct stat found;
    is_doing(a, "looking the path up");
    while (stat(a->path, &found) != 0) {
        char *slash = strrchr(a->path, '/');
        if (errno != ENOENT || slash == NULL) {
            return false;
        }
        slash[slash == a->path] = '\0';
    }
    return S_ISDIR(found.st_mode);
}

static void make_file(asking *a, int directory) {
    is_doing(a, "making a file there");
    int fd = openat(directory, a->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return; /* why is found out later */
    }
    is_doing(a, "writing to a file there");
    ssize_t put = write(fd, "\n", 1);
    is_doing(a, "syncing a file there");
    int synced = fsync(fd);
    (void)put; /* whether it works is found out later, too */
    (void)synced;
    close(fd);
    is_doing(a, "removing a file there");
    (void)unlinkat(directory, a->name, 0);
}

static void ask_filesystem(asking *a) {
    struct statvfs room;
    if (!find_existing(a)) {
        return;
    }
    is_doing(a, "opening its directory");
    int directory = open(a->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        return;
    }
    is_doing(a, "asking how much room there is");
    int known = fstatvfs(directory, &room);
    (void)known;
    if (a->name[0] != '\0') {
        make_file(a, directory);
    }
    close(directory);
}

static void leave(asking *a, bool answered) {
    monitor_enter(&a->guard);
    a->answered = a->answered || answered;
    bool last = --a->users == 0;
    monitor_announce(&a->guard);
    monitor_leave(&a->guard);
    if (last) {
        monitor_destroy(&a->guard);
        mem_free(a);
    }
}

static void ask(void *argument) {
    ask_filesystem(argument);
    leave(argument, true);
}

/* ---- the caller ----------------------------------------------------------------------------- */

typedef struct nearest_mount {
    const char *path;
    size_t length;
    char point[256], filesystem[32], source[256];
} nearest_mount;

/* By the names alone: nothing there is touched. */
static void take_nearest(void *context, const mount_line *mount) {
    nearest_mount *n = context;
    size_t length = strlen(mount->point);
    bool below = strncmp(n->path, mount->point, length) == 0 &&
                 (length == 1 || n->path[length] == '/' || n->path[length] == '\0');
    if (below && length >= n->length) {
        n->length = length;
        (void)snprintf(n->point, sizeof n->point, "%s", mount->point);
        (void)snprintf(n->filesystem, sizeof n->filesystem, "%s", mount->filesystem);
        (void)snprintf(n->source, sizeof n->source, "%s", mount->source);
    }
}

static void tell_silence(examination *x, const char *path, const char *doing, double waited_s) {
    char waited[32];
    char word[1024];
    nearest_mount on = {.path = path};
    mounts_each(take_nearest, &on);
    doctor_evidence(x, "%s of type %s mounted at %s; still %s", on.source, on.filesystem, on.point,
                    doing);
    doctor_command(x, "umount -l %s", doctor_word(word, on.point));
    doctor_tell(x, "S08", PAWL_SEVERITY_ERROR,
                strncmp(on.filesystem, "fuse", 4) == 0
                    ? "see whether the program that serves it is at work; else end it, unmount and "
                      "mount it again"
                    : "see whether its server can be reached; else unmount it and mount it again",
                "%s does not answer: %s (%s, mounted at %s) took more than %s over %s", path,
                on.source[0] != '\0' ? on.source : "the filesystem", on.filesystem, on.point,
                text_seconds(waited, waited_s), doing);
}

/* *out has two users: this one, and the thread. */
static bool begin_asking(examination *x, bool writing, asking **out) {
    struct pawl_error ignored = ERROR_INIT;
    char digits[17];
    char here[2048] = "";
    const char *path = strncmp(x->path, "file://", 7) == 0 ? x->path + 7 : x->path;
    asking *a = mem_calloc(1, sizeof *a);
    if (a == NULL || monitor_init(&a->guard, &ignored) != PAWL_OK) {
        mem_free(a);
        return false;
    }
    a->users = 1;
    if (path[0] != '/' && getcwd(here, sizeof here - 1) != NULL) {
        (void)snprintf(here + strlen(here), 2, "/");
    }
    (void)snprintf(a->path, sizeof a->path, "%s%s", here, path);
    if (writing && x->asked->more->read_only == 0 && doctor_wants(x, PAWL_DOCTOR_PATH) &&
        platform_random_hex(x->os, digits, 8, &ignored) == PAWL_OK) {
        name_doctor(a->name, digits, -1);
    }
    *out = a;
    return true;
}

/* Until it has answered. Returns what it was doing when the time was over; NULL: it answered. */
static const char *wait_for_answer(asking *a, uint64_t deadline_ns) {
    monitor_enter(&a->guard);
    bool in_time = true;
    while (!a->answered && in_time) {
        in_time = monitor_wait_until(&a->guard, deadline_ns);
    }
    const char *doing = a->answered ? NULL : a->doing;
    monitor_leave(&a->guard);
    return doing;
}

bool doctor_examine_answer(examination *x, bool writing) {
    struct pawl_error ignored = ERROR_INIT;
    platform_thread *thread = NULL;
    asking *a = NULL;
    if (!storage_is_local(x->storage) || !x->os->concurrent || strlen(x->path) >= 2000 ||
        !begin_asking(x, writing, &a)) {
        return true;
    }
    AUTOFREE char *path = mem_strdup(a->path);
    a->doing = "looking the path up";
    a->users++;
    if (x->os->thread_start(x->os->context, ask, a, &thread, &ignored) != PAWL_OK) {
        a->users--;
        leave(a, false);
        return true;
    }
    double answer_s = x->asked->more->answer_s;
    const char *doing = wait_for_answer(a, platform_deadline_ns(x->os, answer_s));
    if (doing == NULL) {
        x->os->thread_join(x->os->context, thread);
    } else {
        x->os->thread_abandon(x->os->context, thread);
        tell_silence(x, path != NULL ? path : x->path, doing, answer_s);
    }
    leave(a, false);
    return doing == NULL;
}
