/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/mpi_messages.h: what pawl/mpi.h is made of; nothing here is for programs.
 *
 * A parcel is the messages that one rank sends or receives in one gather or broadcast, and the
 * memory that MPI reads or writes for them. It is freed when all of them have arrived. If this rank
 * gives up waiting before, it is kept in pawl_mpi.behind.
 */
#ifndef PAWL_MPI_MESSAGES_H
#define PAWL_MPI_MESSAGES_H

#include <limits.h>
#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_MPI_SETTLE_S 10.0

struct pawl_mpi {
    MPI_Comm comm; /* a duplicate */
    int rank, world_size;
    int tags;                       /* how many tags there are for meetings */
    unsigned long long meeting;     /* number of the current meeting, from 1 */
    unsigned long long answers;     /* broadcasts in this meeting */
    unsigned char *came;            /* rank 0: which ranks came to the meeting */
    struct pawl_mpi_parcel *behind; /* parcels left to MPI */
};
typedef struct pawl_mpi pawl_mpi;

typedef struct pawl_mpi_parcel {
    struct pawl_mpi_parcel *next;
    int count;
    int receives; /* 1: all are received, 0: all are sent */
    MPI_Request *requests;
    MPI_Status *statuses;
    int *some;               /* for MPI_Testsome */
    int *ranks;              /* the other side of each message */
    unsigned char *messages; /* of message_bytes each */
    size_t message_bytes;
} pawl_mpi_parcel;

/* Stands before the caller's bytes. Tags are reused after a while; these numbers are not. */
typedef struct pawl_mpi_head {
    unsigned long long meeting, answer;
} pawl_mpi_head;

static inline void pawl_mpi_parcel_free(pawl_mpi_parcel *p) {
    if (p != NULL) {
        free(p->requests);
        free(p->statuses);
        free(p->some);
        free(p->ranks);
        free(p->messages);
        free(p);
    }
}

/* NULL: out of memory, or too large for MPI. */
static inline pawl_mpi_parcel *pawl_mpi_parcel_new(int count, size_t n, int receives) {
    size_t message_bytes = sizeof(pawl_mpi_head) + n;
    size_t places = count > 0 ? (size_t)count : 1;
    if (n > (size_t)INT_MAX - sizeof(pawl_mpi_head) || message_bytes > SIZE_MAX / places) {
        return NULL;
    }
    pawl_mpi_parcel *p = (pawl_mpi_parcel *)calloc(1, sizeof *p);
    if (p == NULL) {
        return NULL;
    }
    p->receives = receives;
    p->message_bytes = message_bytes;
    p->requests = (MPI_Request *)malloc(places * sizeof(MPI_Request));
    p->statuses = (MPI_Status *)malloc(places * sizeof *p->statuses);
    p->some = (int *)malloc(places * sizeof *p->some);
    p->ranks = (int *)malloc(places * sizeof *p->ranks);
    p->messages = (unsigned char *)malloc(places * message_bytes);
    if (p->requests == NULL || p->statuses == NULL || p->some == NULL || p->ranks == NULL ||
        p->messages == NULL) {
        pawl_mpi_parcel_free(p);
        return NULL;
    }
    return p;
}

static inline unsigned char *pawl_mpi_message(const pawl_mpi_parcel *p, int i) {
    return p->messages + (size_t)i * p->message_bytes;
}

/* Frees what was left behind and has been delivered since. */
static inline void pawl_mpi_reap(pawl_mpi *m) {
    pawl_mpi_parcel **at = &m->behind;
    while (*at != NULL) {
        pawl_mpi_parcel *p = *at;
        int done = 0;
        int code = MPI_Testall(p->count, p->requests, &done, p->statuses);
        if (code == MPI_SUCCESS && done) {
            *at = p->next;
            pawl_mpi_parcel_free(p);
        } else {
            at = &p->next;
        }
    }
}

/* Frees the parcel, or leaves it to MPI where some of its messages are still on their way. */
static inline void pawl_mpi_part(pawl_mpi *m, pawl_mpi_parcel *p) {
    p->next = m->behind;
    m->behind = p;
    pawl_mpi_reap(m);
}

/* Leaves the processor to others: first only for a moment, since most waits are short. */
static inline void pawl_mpi_pause(int *rounds) {
    if (++*rounds < 100) {
        (void)sched_yield();
    } else {
        (void)poll(NULL, 0, 1);
    }
}

/* Each meeting has eight tags: one for its gather, seven for broadcasts. */
static inline int pawl_mpi_tag(const pawl_mpi *m, int is_answer) {
    unsigned long long base = m->meeting % (unsigned long long)(m->tags / 8) * 8;
    return (int)(is_answer ? base + 1 + m->answers % 7 : base);
}

/* Starts sending message `i` to `rank`, or receiving it. */
static inline int pawl_mpi_start(pawl_mpi *m, pawl_mpi_parcel *p, int i, int rank, int is_answer) {
    unsigned char *message = pawl_mpi_message(p, i);
    int n = (int)p->message_bytes;
    int tag = pawl_mpi_tag(m, is_answer);
    p->ranks[i] = rank;
    p->requests[i] = MPI_REQUEST_NULL;
    return p->receives ? MPI_Irecv(message, n, MPI_BYTE, rank, tag, m->comm, &p->requests[i])
                       : MPI_Isend(message, n, MPI_BYTE, rank, tag, m->comm, &p->requests[i]);
}

/* Starts the next message of the parcel, which must have room for it. */
static inline int pawl_mpi_expect(pawl_mpi *m, pawl_mpi_parcel *p, int rank, int is_answer) {
    int code = pawl_mpi_start(m, p, p->count, rank, is_answer);
    p->count += code == MPI_SUCCESS;
    return code;
}

static inline int pawl_mpi_send(pawl_mpi *m, pawl_mpi_parcel *p, int rank, int is_answer,
                                const void *bytes) {
    pawl_mpi_head head = {m->meeting, is_answer ? m->answers : 0};
    unsigned char *message = pawl_mpi_message(p, p->count);
    memcpy(message, &head, sizeof head);
    if (p->message_bytes > sizeof head) {
        memcpy(message + sizeof head, bytes, p->message_bytes - sizeof head);
    }
    return pawl_mpi_expect(m, p, rank, is_answer);
}

/* Does message `i` belong to this meeting, and is it complete? */
static inline int pawl_mpi_fits(const pawl_mpi *m, const pawl_mpi_parcel *p, int i, int is_answer,
                                const MPI_Status *status) {
    pawl_mpi_head head;
    int n = 0;
    memcpy(&head, pawl_mpi_message(p, i), sizeof head);
    return MPI_Get_count(status, MPI_BYTE, &n) == MPI_SUCCESS && (size_t)n == p->message_bytes &&
           head.meeting == m->meeting && head.answer == (is_answer ? m->answers : 0);
}

/* Waits until the first `count` messages were sent, at most until `end`. */
static inline int pawl_mpi_sent(pawl_mpi_parcel *p, int count, double end, int *done) {
    int rounds = 0;
    for (;;) {
        int code = MPI_Testall(count, p->requests, done, p->statuses);
        if (code != MPI_SUCCESS || *done || MPI_Wtime() >= end) {
            return code;
        }
        pawl_mpi_pause(&rounds);
    }
}

/* Copies message `i`, which has arrived: to its rank's place, or the only one of an answer. If
 * it is of an older meeting, waits for the next one instead. */
static inline int pawl_mpi_take(pawl_mpi *m, pawl_mpi_parcel *p, int i, const MPI_Status *status,
                                int is_answer, unsigned char *to, unsigned char *came) {
    size_t n = p->message_bytes - sizeof(pawl_mpi_head);
    if (!pawl_mpi_fits(m, p, i, is_answer, status)) {
        return pawl_mpi_start(m, p, i, p->ranks[i], is_answer);
    }
    size_t place = is_answer ? 0 : (size_t)p->ranks[i];
    if (n > 0) {
        memcpy(to + place * n, pawl_mpi_message(p, i) + sizeof(pawl_mpi_head), n);
    }
    came[place] = 1;
    return MPI_SUCCESS;
}

/* Receives the parcel's messages until all came, at most until `end`. */
static inline int pawl_mpi_receive(pawl_mpi *m, pawl_mpi_parcel *p, int is_answer, double end,
                                   unsigned char *to, unsigned char *came) {
    int rounds = 0;
    int left = p->count;
    while (left > 0) {
        int late = MPI_Wtime() >= end;
        int some = 0;
        int code = MPI_Testsome(p->count, p->requests, &some, p->some, p->statuses);
        for (int k = 0; code == MPI_SUCCESS && k < some; k++) {
            code = pawl_mpi_take(m, p, p->some[k], &p->statuses[k], is_answer, to, came);
            left -= p->requests[p->some[k]] == MPI_REQUEST_NULL;
        }
        if (code != MPI_SUCCESS || (some == 0 && late)) {
            return code;
        }
        if (some == 0) {
            pawl_mpi_pause(&rounds);
        }
    }
    return MPI_SUCCESS;
}

/* Receives a message that nobody asked for. */
static inline void pawl_mpi_drain(pawl_mpi *m) {
    MPI_Status status;
    int found = 0;
    int n = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, m->comm, &found, &status) != MPI_SUCCESS ||
        !found || MPI_Get_count(&status, MPI_BYTE, &n) != MPI_SUCCESS) {
        return;
    }
    pawl_mpi_parcel *p = pawl_mpi_parcel_new(1, (size_t)n, 1);
    if (p == NULL) {
        return;
    }
    p->requests[0] = MPI_REQUEST_NULL;
    p->count = 1;
    (void)MPI_Irecv(p->messages, n, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, m->comm,
                    &p->requests[0]);
    pawl_mpi_part(m, p);
}

static inline int pawl_mpi_sends(const pawl_mpi *m) {
    const pawl_mpi_parcel *p = m->behind;
    while (p != NULL && p->receives) {
        p = p->next;
    }
    return p != NULL;
}

/* Each rank receives what others sent to it until all ranks' messages have arrived: a rank enters
 * the barrier when its own have, so the barrier ends when all have. */
static inline void pawl_mpi_settle(pawl_mpi *m) {
    double end = MPI_Wtime() + PAWL_MPI_SETTLE_S;
    MPI_Request barrier = MPI_REQUEST_NULL;
    MPI_Status status;
    int entered = 0;
    int done = 0;
    int rounds = 0;
    while (!done && MPI_Wtime() < end) {
        pawl_mpi_drain(m);
        pawl_mpi_reap(m);
        if (!entered && !pawl_mpi_sends(m)) {
            entered = 1;
            if (MPI_Ibarrier(m->comm, &barrier) != MPI_SUCCESS) {
                return;
            }
        }
        if (entered && MPI_Test(&barrier, &done, &status) != MPI_SUCCESS) {
            return;
        }
        if (!done) {
            pawl_mpi_pause(&rounds);
        }
    }
}

#ifdef __cplusplus
}
#endif

#endif
