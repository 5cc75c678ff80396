/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of durability alone: the file operations that a save needs (src/commit/commit.c) before
 * it may report success, in order, by plain system calls. The time of a sync depends on how much is
 * in the file, so the data file has as many bytes as the save that it is compared with. Without
 * payload it is a lower bound for a save of any size.
 *
 *   1 make the step's directory; create the data file, write its header and payload, sync it
 *   2 create the index, write it, sync it
 *   3 sync the step's directory and the run's
 *   4 renew the ownership: one write in place, not synced
 *   5 create the temporary manifest, write it, sync it
 *   6 rename it, sync the step's directory
 *
 * Not in the list: `latest`, which nothing depends on.
 */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES   4096
#define INDEX_BYTES    512
#define MANIFEST_BYTES 600
#define COUNTER_BYTES  20

static void write_bytes(int file, const char *bytes, size_t n, bool sync) {
    if (pwrite(file, bytes, n, 0) != (ssize_t)n || (sync && fsync(file) != 0)) {
        fail("the bare syncs: %m");
    }
    close(file);
}

static void new_file(int directory, const char *name, const char *bytes, size_t n) {
    int file = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) {
        fail("the bare syncs: %s: %m", name);
    }
    write_bytes(file, bytes, n, true);
}

static void sync_directory(int directory) {
    if (fsync(directory) != 0) {
        fail("the bare syncs: a directory: %m");
    }
}

static void one_save(int run, int owner, const char *step, const char *bytes, size_t payload) {
    if (mkdirat(run, step, 0777) != 0) {
        fail("the bare syncs: %s: %m", step);
    }
    int directory = openat(run, step, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    new_file(directory, "data", bytes, HEADER_BYTES + payload);
    new_file(directory, "index", bytes, INDEX_BYTES);
    sync_directory(directory);
    sync_directory(run);
    write_bytes(owner, bytes, COUNTER_BYTES, false);
    new_file(directory, "manifest.tmp", bytes, MANIFEST_BYTES);
    if (renameat(directory, "manifest.tmp", directory, "manifest") != 0) {
        fail("the bare syncs: rename: %m");
    }
    sync_directory(directory);
    close(directory);
}

double syncs_of_a_save(const char *directory, int step, size_t payload) {
    char name[32];
    char *bytes = malloc(HEADER_BYTES + payload);
    int run = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int owner = openat(run, "owner", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (run < 0 || owner < 0 || bytes == NULL) {
        fail("%s: %m", directory);
    }
    memset(bytes, ' ', HEADER_BYTES + payload);
    snprintf(name, sizeof name, "step-%08d", step);
    double began = now_s();
    one_save(run, owner, name, bytes, payload);
    double seconds = now_s() - began;
    close(run);
    free(bytes);
    return seconds;
}
