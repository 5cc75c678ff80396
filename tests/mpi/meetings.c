/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pawl/mpi.h promises of gather and broadcast, on four real ranks. Which promise is the
 * argument; a rank that sees it broken says so and ends the job. `threads` first: the same with
 * MPI_THREAD_MULTIPLE.
 */
#include <pawl/mpi.h>

#include <stdio.h>
#include <unistd.h>

#define LONG_S  60.0 /* nobody should come to wait so long */
#define SHORT_S 0.2  /* for those who wait in vain */
#define LARGEST 300000

static pawl_mpi ranks;
static pawl_group group;
static unsigned char *mine, *all, *came;

static void must(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "rank %d, line %d: not so: %s\n", group.rank, line, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}
#define MUST(what) must((what) != 0, #what, __LINE__)

/* ---- a meeting whose bytes follow from its number and the rank ---- */

static unsigned char expected_byte(int meeting, int rank, size_t i) {
    return (unsigned char)((size_t)meeting * 31 + (size_t)rank * 7 + i);
}

static void fill(unsigned char *to, int meeting, int rank, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] = expected_byte(meeting, rank, i);
    }
}

static int is_filled(const unsigned char *bytes, int meeting, int rank, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != expected_byte(meeting, rank, i)) {
            return 0;
        }
    }
    return 1;
}

static int gather(int meeting, size_t n, double deadline_s) {
    fill(mine, meeting, group.rank, n);
    memset(came, 7, (size_t)group.world_size);
    return group.gather(group.context, mine, n, group.rank == 0 ? all : NULL, came, deadline_s);
}

/* The answer has rank 100's bytes. */
static int broadcast(int meeting, size_t n, double deadline_s) {
    memset(mine, 0, n);
    if (group.rank == 0) {
        fill(mine, meeting, 100, n);
    }
    return group.broadcast(group.context, mine, n, deadline_s);
}

/* On rank 0: those named came with the bytes of this meeting, the others did not. */
static void check_came(int meeting, size_t n, const char *who) {
    for (int r = 0; group.rank == 0 && r < group.world_size; r++) {
        MUST(came[r] == (who[r] == 'x'));
        MUST(!came[r] || is_filled(all + (size_t)r * n, meeting, r, n));
    }
}

static void whole_meeting(int meeting, size_t n) {
    MUST(gather(meeting, n, LONG_S) == 0);
    check_came(meeting, n, "xxxx");
    MUST(broadcast(meeting, n, LONG_S) == 0);
    MUST(is_filled(mine, meeting, 100, n));
}

/* Rank `from` tells rank `to` to go on, by a message of the program's own. */
static void go_on(int from, int to) {
    int token = 1;
    if (group.rank == from) {
        MPI_Send(&token, 1, MPI_INT, to, 5, MPI_COMM_WORLD);
    } else if (group.rank == to) {
        MPI_Recv(&token, 1, MPI_INT, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* ---- the promises ---- */

static const size_t sizes[] = {0, 1, 100, 5000, LARGEST};
#define SIZES (int)(sizeof sizes / sizeof sizes[0])

/* Bytes of every size reach rank 0 by rank, and all from rank 0. */
static void round_trip(void) {
    for (int meeting = 0; meeting < 100; meeting++) {
        whole_meeting(meeting, sizes[meeting % SIZES]);
    }
}

/* Several answers may follow one gather, and a meeting may have none. */
static void many_answers(void) {
    for (int meeting = 0; meeting < 20; meeting++) {
        MUST(gather(meeting, 100, LONG_S) == 0);
        check_came(meeting, 100, "xxxx");
        for (int answer = 0; answer < meeting % 10; answer++) {
            MUST(broadcast(1000 * meeting + answer, 100, LONG_S) == 0);
            MUST(is_filled(mine, 1000 * meeting + answer, 100, 100));
        }
    }
}

/* The messages do not meet those of the program, whatever tag it waits for. */
static void own_messages(void) {
    int next = (group.rank + 1) % group.world_size;
    for (int meeting = 0; meeting < 50; meeting++) {
        int got = -1;
        MPI_Request receive;
        MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive);
        whole_meeting(meeting, 100);
        MPI_Send(&meeting, 1, MPI_INT, next, meeting, MPI_COMM_WORLD);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        MUST(got == meeting);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* A rank that comes while rank 0 waits is waited for. */
static void late(void) {
    if (group.rank == 2) {
        (void)poll(NULL, 0, 300);
    }
    whole_meeting(1, 100);
}

/* A rank that comes when rank 0 has given up did not come; it gets the answer that it missed, and
 * what it handed in is not taken for its part of the next meeting. */
static void too_late(void) {
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i];
        if (group.rank != 2) {
            MUST(gather(2 * i, n, group.rank == 0 ? SHORT_S : LONG_S) == 0);
            check_came(2 * i, n, "xx-x");
            MUST(broadcast(2 * i, n, LONG_S) == 0);
        }
        go_on(0, 2);
        if (group.rank == 2) {
            MUST(gather(2 * i, n, LONG_S) == 0);
            MUST(broadcast(2 * i, n, LONG_S) == 0);
            MUST(is_filled(mine, 2 * i, 100, n));
        }
        whole_meeting(2 * i + 1, n);
    }
    /* Everything has arrived since. */
    MPI_Barrier(MPI_COMM_WORLD);
    whole_meeting(77, 100);
    MPI_Barrier(MPI_COMM_WORLD);
    whole_meeting(78, 100);
    MUST(group.rank != 0 || ranks.behind == NULL);
}

/* Rank 0 that comes late: the others' wait for its answer ends in time, and its late answer is not
 * taken for that of the next meeting. */
static void late_rank_0(void) {
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i];
        if (group.rank != 0) {
            MUST(gather(2 * i, n, SHORT_S) == 0);
            MUST(broadcast(2 * i, n, SHORT_S) == PAWL_ETIMEOUT);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (group.rank == 0) {
            MUST(gather(2 * i, n, SHORT_S) == 0);
            MUST(broadcast(2 * i, n, SHORT_S) == 0);
        }
        whole_meeting(2 * i + 1, n);
    }
}

/* One rank never comes: rank 0 says so, and the job can end. */
static void never(size_t n) {
    for (int meeting = 0; group.rank != 3 && meeting < 3; meeting++) {
        MUST(gather(meeting, n, group.rank == 0 ? SHORT_S : LONG_S) == 0);
        check_came(meeting, n, "xxx-");
        MUST(broadcast(meeting, n, LONG_S) == 0);
        MUST(is_filled(mine, meeting, 100, n));
    }
}

static void never_small(void) {
    never(100);
}

static void never_large(void) {
    never(LARGEST);
}

/* A group of some of the ranks, numbered otherwise than in MPI_COMM_WORLD. */
static void part_of_world(void) {
    MPI_Comm half;
    pawl_mpi_free(&ranks);
    int world_rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &half);
    MUST(pawl_mpi_group(half, &ranks, &group) == MPI_SUCCESS);
    MPI_Comm_free(&half);
    MUST(group.world_size == 2 && group.rank == (world_rank < 2));
    for (int meeting = 0; meeting < 10; meeting++) {
        MUST(gather(meeting, 100, LONG_S) == 0);
        check_came(meeting, 100, "xx");
        MUST(broadcast(meeting, 100, LONG_S) == 0);
        MUST(is_filled(mine, meeting, 100, 100));
    }
}

/* A rank alone meets itself. */
static void alone(void) {
    pawl_mpi_free(&ranks);
    MUST(pawl_mpi_group(MPI_COMM_SELF, &ranks, &group) == MPI_SUCCESS);
    MUST(group.world_size == 1 && group.rank == 0);
    MUST(gather(0, 100, SHORT_S) == 0);
    check_came(0, 100, "x");
    MUST(broadcast(0, 100, SHORT_S) == 0);
    MUST(is_filled(mine, 0, 100, 100));
}

/* A rank whose gather or broadcast fails, as for lack of memory. */
static void fail_to_gather(void) {
    MUST(group.gather(group.context, mine, (size_t)INT_MAX, all, came, SHORT_S) != 0);
}

static void fail_to_broadcast(void) {
    MUST(group.broadcast(group.context, mine, (size_t)INT_MAX, SHORT_S) != 0);
}

/* A rank that fails misses that meeting, and no other: what it sends next is not taken for what it
 * did not send, nor the next answer for the one that it did not hear. */
static void failing(void) {
    for (int meeting = 0; meeting < 10; meeting += 2) {
        if (group.rank == 2) {
            fail_to_gather();
            fail_to_broadcast();
        } else {
            MUST(gather(meeting, 100, group.rank == 0 ? SHORT_S : LONG_S) == 0);
            check_came(meeting, 100, "xx-x");
            MUST(broadcast(meeting, 100, LONG_S) == 0);
        }
        whole_meeting(meeting + 1, 100);
    }
}

/* Tags come round again after a while: an answer that was not heard then is not taken for one that
 * has the same tag now. */
static void tags_come_round(void) {
    ranks.tags = 16;
    for (int meeting = 0; meeting < 20; meeting += 4) {
        MUST(gather(meeting, 100, LONG_S) == 0);
        check_came(meeting, 100, "xxxx");
        if (group.rank == 2) {
            fail_to_broadcast();
        } else {
            MUST(broadcast(meeting, 100, LONG_S) == 0);
        }
        whole_meeting(meeting + 1, 100);
        whole_meeting(meeting + 2, 100);
        whole_meeting(meeting + 3, 100);
    }
    too_late();
}

/* The launcher's variables say what MPI says. */
static void discovered(void) {
    pawl_group_found found = {.struct_size = sizeof found};
    pawl_error *err = pawl_error_new();
    if (pawl_group_discover((const char *const *)environ, &found, err) != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_error_text(err));
        MUST(!"discovered");
    }
    pawl_error_free(err);
    MUST(found.rank == group.rank && found.world_size == group.world_size);
    MUST(found.local_rank == group.rank && found.local_size == group.world_size);
}

/* What MPI cannot count is refused, not cut. */
static void too_much(void) {
    fail_to_gather();
    fail_to_broadcast();
    whole_meeting(1, 100);
}

static const struct {
    const char *name;
    void (*run)(void);
} promises[] = {
    {"round_trip", round_trip},
    {"many_answers", many_answers},
    {"own_messages", own_messages},
    {"late", late},
    {"too_late", too_late},
    {"late_rank_0", late_rank_0},
    {"never_small", never_small},
    {"never_large", never_large},
    {"part_of_world", part_of_world},
    {"alone", alone},
    {"tags_come_round", tags_come_round},
    {"too_much", too_much},
    {"failing", failing},
    {"discovered", discovered},
};

static void begin(int *argc, char ***argv) {
    int provided = 0;
    if (*argc > 2 && strcmp((*argv)[1], "threads") == 0) {
        MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    } else {
        MPI_Init(argc, argv);
    }
    MUST(pawl_mpi_group(MPI_COMM_WORLD, &ranks, &group) == MPI_SUCCESS);
    MUST(group.struct_size == sizeof group && group.world_size == 4);
    mine = (unsigned char *)malloc(LARGEST);
    all = (unsigned char *)malloc((size_t)group.world_size * LARGEST);
    came = (unsigned char *)malloc((size_t)group.world_size);
    MUST(mine != NULL && all != NULL && came != NULL);
}

static void end(void) {
    pawl_mpi_free(&ranks);
    free(mine);
    free(all);
    free(came);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Finalize();
    if (rank == 0) {
        puts("kept");
    }
}

int main(int argc, char **argv) {
    int found = 0;
    begin(&argc, &argv);
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        if (argc > 1 && strcmp(argv[argc - 1], promises[i].name) == 0) {
            found = 1;
            promises[i].run();
        }
    }
    MUST(found);
    end();
    return 0;
}
