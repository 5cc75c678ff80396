/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of a job as processes, on "hosts": processes with names and mounts of their own. */
#include "failures.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- callbacks over sockets ----------------------------------------------------------------- */

static bool receive(int from, void *to, size_t n, double deadline_s) {
    time_t whole = (time_t)deadline_s;
    const struct timeval most = {
        .tv_sec = whole, .tv_usec = 1 + (suseconds_t)((deadline_s - (double)whole) * 999999)};
    (void)setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    return recv(from, to, n, MSG_WAITALL) == (ssize_t)n;
}

static int gather(void *context, const void *mine, size_t n, void *all, unsigned char *came,
                  double deadline_s) {
    const rank_of_test *t = context;
    if (t->rank > 0) {
        return send(t->wires[t->rank][1], mine, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : 1;
    }
    memcpy(all, mine, n);
    came[0] = 1;
    for (int r = 1; r < JOB_RANKS; r++) {
        came[r] = receive(t->wires[r][0], (char *)all + (size_t)r * n, n, deadline_s);
    }
    return 0;
}

static int broadcast(void *context, void *bytes, size_t n, double deadline_s) {
    const rank_of_test *t = context;
    if (t->rank > 0) {
        return receive(t->wires[t->rank][1], bytes, n, deadline_s) ? 0 : 1;
    }
    for (int r = 1; r < JOB_RANKS; r++) {
        (void)send(t->wires[r][0], bytes, n, MSG_NOSIGNAL);
    }
    return 0;
}

/* ---- processes ------------------------------------------------------------------------------ */

void rank_says(const rank_of_test *t, const char *text) {
    size_t n = strlen(text);
    assert_int_equal(write(t->out, text, n), n);
}

void be_a_rank(void *context) {
    rank_of_test *t = context;
    const pawl_group group = {.struct_size = sizeof(group),
                              .rank = t->rank,
                              .world_size = JOB_RANKS,
                              .launch = t->connected ? NULL : "test.1",
                              .context = context,
                              .gather = t->connected ? gather : NULL,
                              .broadcast = t->connected ? broadcast : NULL};
    if (t->become != NULL) {
        t->become(t->rank);
    }
    int ended = t->body(t, &group);
    (void)close(t->out);
    _exit(ended);
}

static void read_all(int from, char *to, size_t size) {
    size_t at = 0;
    for (ssize_t n = 1; n > 0 && at + 1 < size; at += (size_t)(n > 0 ? n : 0)) {
        n = read(from, to + at, size - 1 - at);
    }
    to[at] = '\0';
    (void)close(from);
}

void ranks_run(rank_of_test like, int absent, ranks_result *result) {
    rank_of_test ranks[JOB_RANKS];
    child children[JOB_RANKS];
    int wires[JOB_RANKS][2];
    int results[JOB_RANKS][2];
    bool skipped = false;
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, wires[r]), 0);
    }
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_int_equal(pipe(results[r]), 0);
        ranks[r] = like;
        ranks[r].rank = r;
        ranks[r].wires = (const int(*)[2])wires;
        ranks[r].out = results[r][1];
        if (r != absent) {
            children[r] = child_start(be_a_rank, &ranks[r]);
        }
        (void)close(results[r][1]);
    }
    for (int r = 0; r < JOB_RANKS; r++) {
        read_all(results[r][0], result->said[r], sizeof(result->said[r]));
        result->ended[r] = r != absent ? child_wait(&children[r]) : 0;
        skipped = skipped || result->ended[r] == CHILD_SKIPPED;
    }
    for (int r = 0; r < JOB_RANKS; r++) {
        (void)close(wires[r][0]);
        (void)close(wires[r][1]);
    }
    for (int r = 0; skipped && r < JOB_RANKS; r++) { /* what one rank lacks all of them lack */
        assert_int_equal(result->ended[r], r != absent ? CHILD_SKIPPED : 0);
    }
    if (skipped) { /* each gave its reason */
        skip();
    }
}

/* ---- hosts ---------------------------------------------------------------------------------- */

void name_host(int rank) {
    const char *names[JOB_RANKS] = {"a", "a", "b"};
    if (unshare(CLONE_NEWUTS | CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        sethostname(names[rank], 1) != 0) {
        assert_int_equal(errno, EPERM); /* anything else is a failure, not a reason to skip */
        child_skip("this needs leave to name a host");
    }
}

void own_disk_on_b(int rank) {
    name_host(rank);
    if (rank == 2) {
        assert_true(mount_tmpfs("disk", "size=64k"));
    }
}

void work_elsewhere_on_b(int rank) {
    name_host(rank);
    if (rank == 2) {
        assert_int_equal(chdir("elsewhere"), 0);
    }
}

void nobody_on_b(int rank) {
    name_host(rank);
    if (rank == 2) {
        become_nobody();
    }
}
