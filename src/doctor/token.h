/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor/token: the small files by which ranks find out whether they see the same directory. Rank 0
 * writes the token, every other rank a card beside it:
 *
 *   .pawl-doctor-<key>             the token: the nonce
 *   .pawl-doctor-<key>-r<rank>     a rank's card: the nonce that it answers, and its sight
 *
 * Whoever wrote a file removes it; rank 0 also removes the cards that it read. A token that was
 * left behind by a process that was killed does no harm: its nonce is not the one that is waited
 * for.
 */
#ifndef DOCTOR_TOKEN_H
#define DOCTOR_TOKEN_H

#include "doctor/sight.h"

#define TOKEN_NONCE_BYTES 16

typedef struct token {
    char key[16];                      /* 12 hexadecimal digits: of the launch, or drawn */
    char nonce[TOKEN_NONCE_BYTES + 1]; /* hexadecimal: of this time */
} token;

/* `launch` NULL: a key is drawn. */
pawl_status token_draw(const char *launch, const platform *os, token *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status token_write(store *s, const token *t, pawl_error *err) PAWL_MUST_CHECK;
/* Looks in `place` and in every directory above it, as far as they exist. *out is the one that has
 * a token with this key; its nonce is set. False: there is none. */
bool token_find(const char *place, token *t, store **out);
/* Is it still there? Sets its nonce, which another process may have changed. */
bool token_read(store *s, token *t);
/* Of rank 0, when all is said: the token and every rank's card. */
void token_remove(store *s, const token *t, int world_size);

pawl_status token_put_card(store *s, const token *t, int rank, const sight *mine, pawl_error *err)
    PAWL_MUST_CHECK;
/* False: there is none that answers this token (yet). */
bool token_take_card(store *s, const token *t, int rank, sight *out);
void token_remove_card(store *s, const token *t, int rank);

#endif
