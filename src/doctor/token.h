/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor/token: the small files by which ranks find out whether they see the same directory. Rank 0
 * writes the token, every other rank a card beside it:
 *
 *   .pawl-doctor-<key>             the token: the nonce
 *   .pawl-doctor-<key>-r<rank>     a rank's card: the nonce that it answers, and its sight
 *
 * Whoever wrote a file removes it; rank 0 also removes the cards of the others. A token that a
 * killed process left behind does no harm: it has another nonce.
 */
#ifndef DOCTOR_TOKEN_H
#define DOCTOR_TOKEN_H

#include "doctor/sight.h"

#define TOKEN_NONCE_BYTES 16

typedef struct token {
    char key[16];                      /* 12 hexadecimal digits, in the names of the files */
    char nonce[TOKEN_NONCE_BYTES + 1]; /* hexadecimal digits, drawn by rank 0 */
} token;

pawl_status token_write(store *s, const token *t, pawl_error *err) PAWL_MUST_CHECK;
/* Looks in `place` and in every directory above it, as far as they exist. *out is the one that has
 * a token with this key; its nonce is set. False: there is none. */
bool token_find(const char *place, token *t, store **out);
/* Is it still there? Sets its nonce, which another process may have changed. */
bool token_read(store *s, token *t);
/* On rank 0, at the end: the token and every rank's card. */
void token_remove(store *s, const token *t, int world_size);

pawl_status token_put_card(store *s, const token *t, int rank, const sight *mine, pawl_error *err)
    PAWL_MUST_CHECK;
/* False: there is none that answers this token (yet). */
bool token_take_card(store *s, const token *t, int rank, sight *out);
/* On rank 0: takes the cards of ranks that had not come. Returns how many are still missing. */
int token_take_cards(store *s, const token *t, int world_size, sight *of, unsigned char *came);
void token_remove_card(store *s, const token *t, int rank);

#endif
