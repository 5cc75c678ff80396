/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proof: what the proof programs share. A proof tries many cases and counts those in which
 * something was lost or went undetected. It prints the first few of them, one line of JSON with its
 * counts for the table of `make proofs`, and fails when any case did.
 */
#ifndef PROOFS_PROOF_H
#define PROOFS_PROOF_H

#include "run/run.h"

typedef struct proof {
    const char *name;
    uint64_t tried, lost;
    char note[128]; /* a figure that goes with it; "": none */
} proof;

/* Counts a case; a lost one is shown with its place, the first 20 times. */
void proof_case(proof *p, bool good, const char *format, ...) PRINTF_LIKE(3, 4);
/* Prints {"name": ..., "tried": ..., "lost": ...}, and "note" where there is one; returns the exit
 * status for main. */
int proof_end(const proof *p);

/* The state that proofs save: a variable, its slot, a value, a random state, more bytes than the
 * header of their file has (so a write that is torn in the middle is torn in them), that depend on
 * `seed` only. */
typedef struct proof_state {
    pawl_state *state;
    float kernel[16][40];
    float slot[16][40];
    uint16_t bias[40];
    char random_state[48];
} proof_state;
void proof_state_make(proof_state *ps, uint32_t seed);
void proof_state_free(proof_state *ps);
/* The directory that a proof made, with all that is in it. */
void proof_remove_tree(const char *path);
/* What cannot fail in a proof's own set-up: shows the error and aborts. */
void proof_must(pawl_status status, pawl_error *err);
/* The seed whose bytes these are, after a restore; -1: of no seed, torn or wrong. */
int64_t proof_state_seed(const proof_state *ps);

/* The seed that a step of a run holds; 0: the step is absent; -1: damaged, or the
 * bytes of no seed. */
int64_t proof_seed_of_step(store *s, int64_t step, const platform *os, pawl_error *err);

#endif
