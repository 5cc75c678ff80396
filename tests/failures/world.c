/* SPDX-License-Identifier: Apache-2.0 */
/* A scratch directory, and child processes whose mounts, limits and user are their own. */
#include "failures.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void scratch_make(char path[64]) {
    (void)snprintf(path, 64, "/tmp/pawl-failures-XXXXXX");
    assert_non_null(mkdtemp(path));
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(chdir(path), 0);
}

static int remove_one(const char *path, const struct stat *found, int type, struct FTW *walk) {
    (void)found;
    (void)type;
    (void)walk;
    return remove(path);
}

/* Other tests judge what was damaged here: tests/hostile. */
static void keep_copy(const char *path) {
    const char *to = getenv("PAWL_KEEP_SCRATCH");
    char command[512];
    if (to != NULL) {
        (void)snprintf(command, sizeof(command), "cp -a '%s' '%s'", path, to);
        assert_int_equal(system(command), 0);
    }
}

void scratch_remove(const char *path) {
    assert_int_equal(chdir("/tmp"), 0);
    keep_copy(path);
    assert_int_equal(strncmp(path, "/tmp/pawl-failures-", 19), 0);
    assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT), 0);
}

void file_write(const char *path, const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

char *file_read(const char *path, size_t *n) {
    struct stat found;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &found), 0);
    char *bytes = calloc(1, (size_t)found.st_size + 1);
    assert_non_null(bytes);
    *n = fread(bytes, 1, (size_t)found.st_size, file);
    assert_int_equal(*n, found.st_size);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

bool file_exists(const char *path) {
    struct stat found;
    return lstat(path, &found) == 0;
}

void step_file(char path[512], const char *run, int64_t step, const char *prefix) {
    char directory[256];
    (void)snprintf(directory, sizeof(directory), "%s/step-%08lld", run, (long long)step);
    DIR *listing = opendir(directory);
    assert_non_null(listing);
    path[0] = '\0';
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            (void)snprintf(path, 512, "%s/%.200s", directory, entry->d_name);
        }
    }
    assert_int_equal(closedir(listing), 0);
    assert_true(path[0] != '\0');
}

/* ---- child processes ------------------------------------------------------------------------ */

static int ready_pipe = -1;

/* cmocka's assertions jump back into the list of tests; here they must end the process. */
static void run_body(void (*body)(void *context), void *context) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setenv("CMOCKA_TEST_ABORT", "1", 1);
    body(context);
    (void)fflush(NULL);
    _exit(0);
}

void in_child(void (*body)(void *context), void *context) {
    const child c = child_start(body, context);
    int ended = child_wait(&c);
    if (ended == CHILD_SKIPPED) {
        skip();
    }
    assert_int_equal(ended, 0);
}

child child_start(void (*body)(void *context), void *context) {
    int ends[2];
    child c;
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        (void)close(ends[0]);
        ready_pipe = ends[1];
        run_body(body, context);
    }
    (void)close(ends[1]);
    c.ready = ends[0];
    return c;
}

void child_ready(void) {
    assert_int_equal(write(ready_pipe, "r", 1), 1);
}

void child_wait_ready(const child *c) {
    char letter;
    assert_int_equal(read(c->ready, &letter, 1), 1);
}

int child_wait(const child *c) {
    int ended = 0;
    assert_int_equal(waitpid(c->pid, &ended, 0), c->pid);
    (void)close(c->ready);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -WTERMSIG(ended);
}

int child_kill(const child *c) {
    assert_int_equal(kill(c->pid, SIGKILL), 0);
    return child_wait(c);
}

bool mount_tmpfs(const char *path, const char *options) {
    bool mounted = unshare(CLONE_NEWNS) == 0 &&
                   mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                   mount("tmpfs", path, "tmpfs", MS_NODEV, options) == 0;
    if (!mounted) {
        assert_int_equal(errno, EPERM); /* anything else is a failure, not a reason to skip */
    }
    return mounted;
}

void child_skip(const char *reason) {
    print_message("SKIP: %s\n", reason);
    (void)fflush(NULL);
    _exit(CHILD_SKIPPED);
}

void become_nobody(void) {
    assert_int_equal(setgroups(0, NULL), 0);
    assert_int_equal(setgid(65534), 0);
    assert_int_equal(setuid(65534), 0);
}
