/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filesystem of a test's own: made in a file, and mounted through a loop device, for the test's
 * process and its children alone. What the system lacks for that is told; all else that goes wrong
 * fails the test, with what the programs said.
 */
#ifndef LIB_LOOP_DISK_H
#define LIB_LOOP_DISK_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct loop_disk {
    const char *type;    /* mkfs.TYPE makes it */
    const char *options; /* of mkfs */
    off_t bytes;
    const char *image; /* the file, which is made */
    const char *point; /* the directory, which is there */
} loop_disk;

#define LOOP_DISK_NO_PROGRAM 127 /* what a shell says of one that is not there */

typedef struct loop_disk_told {
    char command[512];
    char said[2048];
} loop_disk_told;

/* The exit code. */
static inline int loop_disk_run(loop_disk_told *t) {
    char line[600];
    char rest[256];
    (void)snprintf(line, sizeof line, "%s 2>&1 </dev/null", t->command);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    t->said[fread(t->said, 1, sizeof t->said - 1, pipe)] = '\0';
    while (fread(rest, 1, sizeof rest, pipe) > 0) {
    }
    int ended = pclose(pipe);
    assert_true(WIFEXITED(ended));
    return WEXITSTATUS(ended);
}

static inline void loop_disk_must(loop_disk_told *t) {
    int code = loop_disk_run(t);
    if (code != 0) {
        fail_msg("%s: exit code %d: %s", t->command, code, t->said);
    }
}

/* To be asked after a mount was tried: the kernel may load what it does not have yet. */
static inline bool loop_disk_kernel_knows(const char *type) {
    char line[128], name[64];
    bool knows = false;
    FILE *f = fopen("/proc/filesystems", "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        knows = knows || (sscanf(line, " %63s", name) == 1 && strcmp(name, type) == 0);
    }
    (void)fclose(f);
    return knows;
}

/* NULL: it is mounted; else what this system lacks. */
static inline const char *loop_disk_mount(const loop_disk *d) {
    static char lacks[128];
    loop_disk_told t;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        assert_int_equal(errno, EPERM);
        return "this needs leave to mount";
    }
    (void)snprintf(t.command, sizeof t.command, "mkfs.%s -V", d->type);
    if (loop_disk_run(&t) == LOOP_DISK_NO_PROGRAM) {
        (void)snprintf(lacks, sizeof lacks, "this needs mkfs.%s", d->type);
        return lacks;
    }
    (void)snprintf(t.command, sizeof t.command, "losetup --find");
    if (loop_disk_run(&t) != 0) {
        return "this needs losetup, and a free loop device";
    }
    int image = open(d->image, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(image >= 0);
    assert_int_equal(ftruncate(image, d->bytes), 0);
    (void)close(image);
    (void)snprintf(t.command, sizeof t.command, "mkfs.%s %s %s", d->type, d->options, d->image);
    loop_disk_must(&t);
    (void)snprintf(t.command, sizeof t.command, "mount -t %s -o loop %s %s", d->type, d->image,
                   d->point);
    int code = loop_disk_run(&t);
    if (code != 0 && !loop_disk_kernel_knows(d->type)) {
        (void)snprintf(lacks, sizeof lacks, "this needs a kernel that knows %s", d->type);
        return lacks;
    }
    if (code != 0) {
        fail_msg("%s: exit code %d: %s", t.command, code, t.said);
    }
    return NULL;
}

#endif
