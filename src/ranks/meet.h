/* SPDX-License-Identifier: Apache-2.0 */
/* ranks/meet: what the files of this folder share. Nobody else includes it. */
#ifndef RANKS_MEET_H
#define RANKS_MEET_H

#include "ranks/ranks.h"

#define MEET_WHAT_CHARS  32u
#define MEET_MAX_REPLY   (16u << 20) /* bytes, nonces included */
#define MEET_MAX_FAILURE (MEET_CARD_BYTES / 2 - 640u)

/* Remembers who a rank is, where it is not known yet. */
void ranks_learn(job_ranks *ranks, int rank, const process_identity *who);

/* What is left of a timeout; at least a second, for what must be on its way already. */
double ranks_left_s(const job_ranks *ranks, double timeout_s, uint64_t begun_ns);

/* ---- what travels: meet_bytes.c ------------------------------------------------------------- */

/* A card as it travels: with who hands it in, and for which meeting. */
typedef struct meet_envelope {
    uint64_t number; /* of the meeting */
    char what[MEET_WHAT_CHARS];
    int rank, world_size;
    uint8_t nonce[RANKS_NONCE_BYTES];
    process_identity who;
    meet_card card;
} meet_envelope;
/* This rank's card; padded to MEET_CARD_BYTES. */
pawl_status meet_envelope_make(job_ranks *ranks, const meeting *m, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* What it points to lies in `bytes`. */
pawl_status meet_envelope_decode(const uint8_t *bytes, size_t n, meet_envelope *out,
                                 pawl_error *err) PAWL_MUST_CHECK;

/* What rank 0 sends to all: the answer, or the failure of all. */
typedef struct meet_reply {
    uint64_t number;
    process_identity who; /* rank 0 */
    pawl_status status;
    const uint8_t *body; /* the answer, or failure_encode's bytes */
    size_t body_bytes;
    const uint8_t *nonces; /* through files: of the cards that it answers, by rank */
    size_t nonce_count;
} meet_reply;
pawl_status meet_reply_encode(const meet_reply *r, buffer *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status meet_reply_decode(const uint8_t *bytes, size_t n, meet_reply *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- what both ways of meeting share: meet.c ------------------------------------------------ */

/* Rank 0: the cards that came. */
typedef struct meet_table {
    meet_card *cards;
    unsigned char *came;
    uint8_t *nonces; /* by rank */
    size_t nonce_count, nonce_room;
    int count; /* of those that came */
    arena memory;
    pawl_status refused; /* a card that cannot be: the failure of all */
    struct pawl_error failed;
} meet_table;
/* With rank 0's own card. */
pawl_status meet_table_init(job_ranks *ranks, const meeting *m, meet_table *t, pawl_error *err)
    PAWL_MUST_CHECK;
void meet_table_free(meet_table *t);
/* Takes a card that was handed in as that of `rank`. PAWL_EDAMAGED: these bytes are no card. */
pawl_status meet_table_take(job_ranks *ranks, const meeting *m, meet_table *t, int rank,
                            const uint8_t *bytes, size_t n, pawl_error *err) PAWL_MUST_CHECK;
/* The first refusal stays. */
void meet_table_refuse(meet_table *t, pawl_status status, const pawl_error *failed);
/* Rank 0 judges the cards: `answer` for itself, `reply` is the answer or the failure of all, as
 * bytes for the others. */
pawl_status meet_decide(job_ranks *ranks, const meeting *m, meet_table *t, double waited_s,
                        buffer *answer, buffer *reply, pawl_error *err) PAWL_MUST_CHECK;
/* The others: takes the answer or the failure out of rank 0's reply. */
pawl_status meet_open_reply(job_ranks *ranks, const uint8_t *bytes, size_t n, buffer *answer,
                            pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_ECANCELED: the caller of this rank does not want to wait any longer. */
pawl_status meet_interrupted(const meeting *m, pawl_error *err);
/* S11 on a rank that got no answer. `why`: what it got instead. */
pawl_status meet_unanswered(job_ranks *ranks, const char *what, double waited_s, const char *why,
                            pawl_error *err);

/* ---- through files: meet_files.c ------------------------------------------------------------ */

pawl_status meet_by_files(job_ranks *ranks, const meeting *m, buffer *answer, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
