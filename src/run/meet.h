/* SPDX-License-Identifier: Apache-2.0 */
/* run/meet: the inside of meetings, for meet.c, meet_card.c, meet_store.c, heard.c, join.c. */
#ifndef RUN_MEET_H
#define RUN_MEET_H

#include "run/ranks.h"

#define MEET_NONCE_BYTES 8u
#define MEET_WHAT_CHARS  32u
#define MEET_MAX_ANSWER  (16u << 20) /* bytes, nonces included */
#define MEET_MAX_STORY   (MEET_BYTES / 2 - 640u)

struct ranks {
    process_identity self;
    process_identity *who; /* of all ranks on rank 0, of rank 0 on the others */
    unsigned char *known;  /* the same */
    int room;              /* members of these two */
    uint8_t nonce[MEET_NONCE_BYTES];
    char key
        [16]; /* of the files of the next meeting: of the launch, from the second on the attempt */
    uint64_t met; /* meetings begun */
    /* Rank 0: the meeting whose files are there still; 0: none. */
    char kept_key[16];
    uint64_t kept;

    /* What pawl_meet brings: heard.c. */
    monitor guard; /* of what follows */
    uint64_t voted, told;
    uint64_t *heard_voted; /* rank 0, by rank */
    uint64_t heard_told;
};

/* Sets run->ranks. */
pawl_status ranks_new(pawl_run *run, pawl_error *err) PAWL_MUST_CHECK;
void ranks_free(struct ranks *ranks); /* NULL is fine */
/* Remembers who a rank is, where it is not known yet. */
void ranks_learn(pawl_run *run, int rank, const process_identity *who);
/* From now on meetings have the attempt as their key. */
void ranks_joined(pawl_run *run);
double ranks_seconds_since(const pawl_run *run, uint64_t begun_ns);
uint64_t ranks_now_ns(const pawl_run *run);

/* ---- cards and verdicts as bytes: meet_card.c ----------------------------------------------- */

/* A card as it travels. */
typedef struct meet_sheet {
    uint64_t number; /* of the meeting */
    char what[MEET_WHAT_CHARS];
    int rank, world_size;
    uint8_t nonce[MEET_NONCE_BYTES];
    process_identity who;
    meet_card card;
} meet_sheet;
/* This rank's card; padded to MEET_BYTES. */
pawl_status meet_sheet_make(pawl_run *run, const meeting *m, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* What it points to lies in `bytes`. */
pawl_status meet_sheet_decode(const uint8_t *bytes, size_t n, meet_sheet *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* What rank 0 tells all. */
typedef struct meet_verdict {
    uint64_t number;
    process_identity who; /* rank 0 */
    pawl_status status;
    const uint8_t *body; /* the answer, or the story of a failure */
    size_t body_bytes;
    const uint8_t *nonces; /* through files: of the cards that it answers, by rank */
    size_t nonce_count;
} meet_verdict;
pawl_status meet_verdict_encode(const meet_verdict *v, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status meet_verdict_decode(const uint8_t *bytes, size_t n, meet_verdict *out, pawl_error *err)
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
    struct pawl_error story;
} meet_table;
/* With rank 0's own card. */
pawl_status meet_table_init(pawl_run *run, const meeting *m, meet_table *t, pawl_error *err)
    PAWL_MUST_CHECK;
void meet_table_free(meet_table *t);
/* Takes a card that was handed in as that of `rank`. PAWL_EDAMAGED: these bytes are no card. */
pawl_status meet_table_take(pawl_run *run, const meeting *m, meet_table *t, int rank,
                            const uint8_t *bytes, size_t n, pawl_error *err) PAWL_MUST_CHECK;
/* The first refusal stays. */
void meet_table_refuse(meet_table *t, pawl_status status, const pawl_error *story);
/* The answer or the failure of all, as bytes for the others. */
pawl_status meet_decide(pawl_run *run, const meeting *m, meet_table *t, double waited_s,
                        buffer *answer, buffer *told, pawl_error *err) PAWL_MUST_CHECK;
/* The others: what rank 0's verdict means. */
pawl_status meet_hear(pawl_run *run, const uint8_t *bytes, size_t n, buffer *answer,
                      pawl_error *err) PAWL_MUST_CHECK;
/* S11 on a rank that heard nothing. `why`: what it has instead. */
pawl_status meet_unanswered(pawl_run *run, const char *what, double waited_s, const char *why,
                            pawl_error *err);

/* ---- through files: meet_store.c ------------------------------------------------------------ */

pawl_status meet_by_store(pawl_run *run, const meeting *m, buffer *answer, pawl_error *err)
    PAWL_MUST_CHECK;
/* Rank 0, before the first meeting: clears the place of it. Failures are logged, here and below. */
void meet_clear(pawl_run *run);
/* Rank 0, the owner, when all ranks have come together in its attempt, so that nobody is left in an
 * earlier one: removes what those left in the run's directory. */
void meet_sweep(pawl_run *run);
/* Rank 0: removes the files of the last meeting, but for its answer, which may still be read. */
void meet_leave(pawl_run *run);

#endif
