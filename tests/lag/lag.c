/* SPDX-License-Identifier: Apache-2.0 */
#include "lag/lag.h"

#include "lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEADLINE_MS 20000

struct lag_fs {
    pid_t pid;
    int talk; /* lines go there and come from there */
    char folder[1024];
    char path[1100], behind[1100];
};

const char *lag_missing(void) {
#ifndef LAGFS_COMMAND
    return "there was no libfuse3 when this was built";
#else
    if (geteuid() != 0) {
        return "only root can mount a filesystem of its own";
    }
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return NULL;
    }
    if (errno == EPERM || errno == EACCES) {
        return "this process may not open /dev/fuse";
    }
    assert_true(errno == ENOENT || errno == ENODEV || errno == ENXIO);
    return "the system has no /dev/fuse";
#endif
}

const char *lag_path(const lag_fs *fs) {
    return fs->path;
}

const char *lag_behind(const lag_fs *fs) {
    return fs->behind;
}

/* ---- talking to it --------------------------------------------------------------------------- */

/* One line, without its end. False: it is gone, or silent. */
static bool hear(const lag_fs *fs, char *line, size_t room) {
    size_t n = 0;
    while (n + 1 < room) {
        struct pollfd there = {.fd = fs->talk, .events = POLLIN};
        int ready = poll(&there, 1, DEADLINE_MS);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0 || read(fs->talk, line + n, 1) != 1) {
            return false;
        }
        if (line[n] == '\n') {
            line[n] = '\0';
            return true;
        }
        n++;
    }
    return false;
}

static void tell(const lag_fs *fs, const char *line, char *answer, size_t room) {
    size_t n = strlen(line);
    if (send(fs->talk, line, n, MSG_NOSIGNAL) != (ssize_t)n || !hear(fs, answer, room)) {
        fail_msg("lagfs does not answer to: %s", line);
    }
}

static void tell_ok(const lag_fs *fs, const char *line) {
    char answer[32];
    tell(fs, line, answer, sizeof answer);
    if (strcmp(answer, "ok") != 0) {
        fail_msg("lagfs does not take: %s", line);
    }
}

void lag_rule(lag_fs *fs, const lag_spoil *spoil) {
    char line[512];
    snprintf(line, sizeof line, "rule %s %s %s %d %" PRIu64 " %" PRIu64 " %" PRId64 "\n",
             spoil->operation, spoil->text, spoil->effect, spoil->error,
             spoil->first > 0 ? spoil->first : 1, spoil->count > 0 ? spoil->count : UINT64_MAX,
             spoil->delay_ms);
    tell_ok(fs, line);
}

void lag_clear(lag_fs *fs) {
    tell_ok(fs, "clear\n");
}

void lag_settle(lag_fs *fs) {
    tell_ok(fs, "settle\n");
}

uint64_t lag_hits(lag_fs *fs) {
    char answer[32];
    tell(fs, "hits\n", answer, sizeof answer);
    return strtoull(answer, NULL, 10);
}

/* ---- start and stop -------------------------------------------------------------------------- */

static void make_folder(lag_fs *fs) {
    char here[900];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(fs->folder, sizeof fs->folder, "%s/lag-XXXXXX", here);
    assert_non_null(mkdtemp(fs->folder));
    snprintf(fs->path, sizeof fs->path, "%s/seen", fs->folder);
    snprintf(fs->behind, sizeof fs->behind, "%s/behind", fs->folder);
    assert_int_equal(mkdir(fs->path, 0700), 0);
    assert_int_equal(mkdir(fs->behind, 0700), 0);
}

#ifdef LAGFS_COMMAND
static void launch(lag_fs *fs, const lag_options *options) {
    char negative[32], entry[32], attr[32];
    snprintf(negative, sizeof negative, "%g", options->negative_s);
    snprintf(entry, sizeof entry, "%g", options->entry_s);
    snprintf(attr, sizeof attr, "%g", options->attr_s);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    fs->talk = ends[0];
    fs->pid = fork();
    assert_true(fs->pid >= 0);
    if (fs->pid == 0) {
        dup2(ends[1], STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        execl(LAGFS_COMMAND, LAGFS_COMMAND, fs->behind, fs->path, negative, entry, attr,
              (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
}
#else
static void launch(lag_fs *fs, const lag_options *options) {
    (void)fs, (void)options;
}
#endif

lag_fs *lag_start(const lag_options *options) {
    if (lag_missing() != NULL) {
        print_message("SKIP: %s\n", lag_missing());
        skip();
    }
    lag_fs *fs = calloc(1, sizeof *fs);
    assert_non_null(fs);
    make_folder(fs);
    launch(fs, options != NULL ? options : &(lag_options){0});
    char line[64];
    if (!hear(fs, line, sizeof line) || strcmp(line, "ready") != 0) {
        lag_stop(fs);
        fail_msg("lagfs does not start");
    }
    return fs;
}

/* Its exit status; one that does not end in time is killed. */
static int wait_for_end(pid_t pid) {
    const struct timespec moment = {.tv_nsec = 5 * 1000000};
    int status = 0;
    for (int waited_ms = 0; waited_ms < DEADLINE_MS; waited_ms += 5) {
        if (waitpid(pid, &status, WNOHANG) != 0) {
            return status;
        }
        nanosleep(&moment, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return status;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place) {
    (void)st, (void)kind, (void)place;
    return remove(path);
}

void lag_stop(lag_fs *fs) {
    if (fs == NULL) {
        return;
    }
    close(fs->talk);
    int status = wait_for_end(fs->pid);
    (void)umount2(fs->path, MNT_DETACH); /* there is nothing to unmount, unless it was killed */
    (void)nftw(fs->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    free(fs);
    if (status != 0) {
        fail_msg("lagfs ended with status %#x", (unsigned)status);
    }
}

int lag_tear_down(void **state) {
    lag_stop(*state);
    *state = NULL;
    return 0;
}
