/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/mpi.h: the ranks of an MPI program as a pawl_group.
 *
 * libpawl itself does not use MPI. A program that is compiled with an MPI's compiler, such as
 * mpicc, includes this header, and so compiles these functions for whichever MPI it uses, in C or
 * C++. pawl/pawl.h does not include it.
 *
 *     MPI_Init(&argc, &argv);
 *     pawl_mpi ranks;
 *     pawl_group group;
 *     if (pawl_mpi_group(MPI_COMM_WORLD, &ranks, &group) != MPI_SUCCESS) ...
 *
 *     pawl_run_options options = {.struct_size = sizeof options, .group = &group};
 *     pawl_run *run;
 *     pawl_run_open("runs/a", &options, &run, err);      all ranks together
 *     pawl_restore(run, state, NULL, NULL, err);         all ranks together
 *     ... pawl_save, pawl_fence, pawl_wait: each rank by itself ...
 *     pawl_run_close(run, 0, err);
 *
 *     pawl_mpi_free(&ranks);
 *     MPI_Finalize();
 *
 * Threads. MPI is called in pawl_mpi_group and pawl_mpi_free, and inside the collective calls of
 * pawl (pawl_run_open, pawl_restore, pawl_checkpoint_restore, pawl_meet, pawl_doctor), on the
 * thread that made the call. Threads of pawl's own never call MPI. Any thread level will do: with
 * MPI_THREAD_SINGLE and _FUNNELED make these calls on the main thread, with _SERIALIZED not while
 * another thread is inside MPI.
 *
 * Messages. They go from one rank to another on a communicator of their own, apart from the
 * program's. Rank 0 tests which ones have arrived, so that it can say who is missing; MPI's own
 * collective calls could only wait. Waiting ranks test about every millisecond, and leave the
 * processor to others in between.
 *
 * Timeouts. A rank that gives up leaves its messages to MPI, with the memory that MPI may still
 * read or write; a later call frees it once the other side has caught up. Each meeting has its own
 * tag: what comes late is never taken for a part of a later meeting. A rank that comes late still
 * finds the answer that it missed.
 *
 * Ownership. `ranks` must stay where it is until the runs that use it are closed: the group points
 * to it. pawl_mpi_free is called before MPI_Finalize.
 */
#ifndef PAWL_MPI_H
#define PAWL_MPI_H

#include <pawl/group.h>
#include <pawl/mpi_messages.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over `comm`, of which a duplicate is made. Fills `ranks` and all of `group`. Returns
 * MPI_SUCCESS, or an MPI error code; then there is nothing to free. */
static inline int pawl_mpi_group(MPI_Comm comm, pawl_mpi *ranks, pawl_group *group);

/* Collective: after the runs were closed, before MPI_Finalize. Receives messages that nobody asked
 * for, so that MPI_Finalize does not wait for them. If a rank does not call it the others give up
 * after PAWL_MPI_SETTLE_S seconds, and leave behind memory that MPI may still use. */
static inline void pawl_mpi_free(pawl_mpi *ranks);

/* ---- implementation: nothing from here on is for programs ----------------------------------- */

/* Rank 0's side of a gather. */
static inline int pawl_mpi_collect(pawl_mpi *m, const void *mine, size_t n, unsigned char *all,
                                   double end) {
    pawl_mpi_parcel *p = pawl_mpi_parcel_new(m->world_size - 1, n, 1);
    int code = p != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    memset(m->came, 0, (size_t)m->world_size);
    m->came[0] = 1;
    if (code == MPI_SUCCESS && n > 0) {
        memcpy(all, mine, n);
    }
    for (int r = 1; code == MPI_SUCCESS && r < m->world_size; r++) {
        code = pawl_mpi_expect(m, p, r, 0);
    }
    if (code == MPI_SUCCESS && p->count > 0) {
        code = pawl_mpi_receive(m, p, 0, end, all, m->came);
    }
    if (p != NULL) {
        pawl_mpi_part(m, p);
    }
    return code;
}

/* The other ranks' side. If rank 0 is late the message stays on its way; the answer tells whether
 * rank 0 received it. */
static inline int pawl_mpi_hand_in(pawl_mpi *m, const void *mine, size_t n, double end) {
    pawl_mpi_parcel *p = pawl_mpi_parcel_new(1, n, 0);
    int done = 0;
    if (p == NULL) {
        return MPI_ERR_NO_MEM;
    }
    int code = pawl_mpi_send(m, p, 0, 0, mine);
    if (code == MPI_SUCCESS) {
        code = pawl_mpi_sent(p, 1, end, &done);
    }
    pawl_mpi_part(m, p);
    return code;
}

/* pawl_group.gather */
static inline int pawl_mpi_gather(void *context, const void *mine, size_t n, void *all,
                                  unsigned char *came, double deadline_s) {
    pawl_mpi *m = (pawl_mpi *)context;
    double end = MPI_Wtime() + deadline_s;
    m->meeting++;
    m->answers = 0;
    pawl_mpi_reap(m);
    if (m->rank != 0) {
        return pawl_mpi_hand_in(m, mine, n, end);
    }
    int code = pawl_mpi_collect(m, mine, n, (unsigned char *)all, end);
    memcpy(came, m->came, (size_t)m->world_size);
    return code;
}

/* Rank 0's side of a broadcast. It waits until the ranks that came to the meeting have the answer,
 * since MPI may need calls of rank 0 to deliver it; for the others the answer is left to MPI. */
static inline int pawl_mpi_answer(pawl_mpi *m, const void *bytes, size_t n, double end) {
    pawl_mpi_parcel *p = pawl_mpi_parcel_new(m->world_size - 1, n, 0);
    int code = p != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    int present = 0;
    int done = 0;
    for (int wanted = 1; wanted >= 0; wanted--) {
        for (int r = 1; code == MPI_SUCCESS && r < m->world_size; r++) {
            if (m->came[r] == wanted) {
                code = pawl_mpi_send(m, p, r, 1, bytes);
                present += wanted;
            }
        }
    }
    if (code == MPI_SUCCESS) {
        code = pawl_mpi_sent(p, present, end, &done);
    }
    if (p != NULL) {
        pawl_mpi_part(m, p);
    }
    return code;
}

/* The other ranks' side. */
static inline int pawl_mpi_hear(pawl_mpi *m, void *bytes, size_t n, double end) {
    unsigned char came = 0;
    pawl_mpi_parcel *p = pawl_mpi_parcel_new(1, n, 1);
    if (p == NULL) {
        return MPI_ERR_NO_MEM;
    }
    int code = pawl_mpi_expect(m, p, 0, 1);
    if (code == MPI_SUCCESS) {
        code = pawl_mpi_receive(m, p, 1, end, (unsigned char *)bytes, &came);
    }
    pawl_mpi_part(m, p);
    return code == MPI_SUCCESS && !came ? PAWL_ETIMEOUT : code;
}

/* pawl_group.broadcast */
static inline int pawl_mpi_broadcast(void *context, void *bytes, size_t n, double deadline_s) {
    pawl_mpi *m = (pawl_mpi *)context;
    double end = MPI_Wtime() + deadline_s;
    m->answers++;
    pawl_mpi_reap(m);
    return m->rank == 0 ? pawl_mpi_answer(m, bytes, n, end) : pawl_mpi_hear(m, bytes, n, end);
}

/* How many tags the communicator has: at least 32768, by the standard. */
static inline int pawl_mpi_count_tags(MPI_Comm comm, int *tags) {
    void *value = NULL;
    int known = 0;
    int code = MPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &known);
    *tags = code == MPI_SUCCESS && known ? *(const int *)value : 32767;
    return code;
}

static inline int pawl_mpi_begin(pawl_mpi *m) {
    int code = MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_rank(m->comm, &m->rank);
    }
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_size(m->comm, &m->world_size);
    }
    if (code == MPI_SUCCESS) {
        code = pawl_mpi_count_tags(m->comm, &m->tags);
    }
    if (code == MPI_SUCCESS) {
        m->came = (unsigned char *)calloc((size_t)m->world_size, 1);
        code = m->came != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    return code;
}

static inline int pawl_mpi_group(MPI_Comm comm, pawl_mpi *ranks, pawl_group *group) {
    memset(ranks, 0, sizeof *ranks);
    memset(group, 0, sizeof *group);
    ranks->comm = MPI_COMM_NULL;
    int code = MPI_Comm_dup(comm, &ranks->comm);
    if (code == MPI_SUCCESS) {
        code = pawl_mpi_begin(ranks);
    }
    if (code != MPI_SUCCESS) {
        pawl_mpi_free(ranks);
        return code;
    }
    group->struct_size = sizeof *group;
    group->rank = ranks->rank;
    group->world_size = ranks->world_size;
    group->context = ranks;
    group->gather = pawl_mpi_gather;
    group->broadcast = pawl_mpi_broadcast;
    return MPI_SUCCESS;
}

/* Cancels receives, which MPI can do without the other side; whatever else is not done at once is
 * left to MPI for good. */
static inline void pawl_mpi_give_up(pawl_mpi_parcel *p) {
    for (int i = 0; i < p->count; i++) {
        if (p->receives && p->requests[i] != MPI_REQUEST_NULL) {
            (void)MPI_Cancel(&p->requests[i]);
        }
    }
    int done = 0;
    (void)pawl_mpi_sent(p, p->count, MPI_Wtime() + 0.1, &done);
    for (int i = 0; i < p->count; i++) {
        if (p->requests[i] != MPI_REQUEST_NULL) {
            (void)MPI_Request_free(&p->requests[i]);
        }
    }
    if (done) {
        pawl_mpi_parcel_free(p);
    }
}

static inline void pawl_mpi_free(pawl_mpi *ranks) {
    if (ranks->came != NULL) { /* pawl_mpi_group succeeded, so all ranks are here */
        pawl_mpi_settle(ranks);
    }
    while (ranks->behind != NULL) {
        pawl_mpi_parcel *p = ranks->behind;
        ranks->behind = p->next;
        pawl_mpi_give_up(p);
    }
    if (ranks->comm != MPI_COMM_NULL) {
        (void)MPI_Comm_free(&ranks->comm);
    }
    free(ranks->came);
    ranks->came = NULL;
}

#ifdef __cplusplus
}
#endif

#endif
