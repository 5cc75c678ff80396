/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proof: what the proof programs share. A proof tries many cases and counts those in which
 * something was lost or went undetected. It prints the first few of them, one line of JSON with its
 * counts for the table of `make proofs`, and fails when any case did.
 */
#ifndef PROOFS_PROOF_H
#define PROOFS_PROOF_H

#include "checkpoint/checkpoint.h"
#include "run/run.h"

#include <stdatomic.h>

/* In memory that all processes of a proof share: each counts here. */
typedef struct proof {
    const char *name;
    _Atomic uint64_t tried, lost;
    _Atomic uint64_t done, of; /* parts, to tell how far it is; `of` 0: nobody knows */
    _Atomic int64_t told_s;    /* when that was told last */
    char note[128];            /* a figure that goes with it; "": none */
} proof;

/* Memory that is zero, and that processes which are started from now on share. Lasts as long as
 * they. */
void *proof_shared(size_t bytes);
/* `name` is borrowed. */
proof *proof_new(const char *name);
/* Counts a case; a lost one is shown with its place and the command that tries it again, the first
 * 20 times. Says now and then how far the proof is. */
void proof_case(proof *p, bool good, const char *format, ...) PRINTF_LIKE(3, 4);
/* From now on this process tries what the program does with these arguments; "": all of it. */
void proof_trying(const char *arguments);
/* Prints {"name": ..., "tried": ..., "lost": ...}, and "note" where there is one; returns the exit
 * status for main. */
int proof_end(const proof *p);

/* Does a save's failure say that it may have been committed all the same? */
bool proof_leaves_open(const pawl_error *err);

/* ---- many processes: parts.c ----------------------------------------------------------------- */

/* A proof asks for the same buffers of some MiB, again and again. What malloc would give back to
 * the system each time, the kernel would have to clear each time: more than half of all work. For
 * programs that do not try parts. */
void proof_keep_memory(void);

/* [--full] [--part N] */
typedef struct proof_options {
    bool full;
    bool alone; /* one part only, in this process: to look at it in a debugger */
    uint64_t part;
} proof_options;
/* Says what is wrong with the arguments, and ends the program. */
proof_options proof_parse(int argc, char **argv);

/* A proof in parts, which several processes try at a time: as many as JOBS of the environment says,
 * or one per core. A process that crashes, or takes more than an hour for a part, is a case that is
 * lost: the message names the part, and another process goes on. After 20 lost cases no part is
 * begun any more. */
typedef struct proof_parts {
    proof *counts;
    uint64_t count; /* parts 0 to count - 1 */
    bool open;      /* there may be fewer of them */
    bool apart;     /* each in a process of its own, which need not free what it allocates */
    /* Tries one. False: there is no such part, nor any after it. */
    bool (*attempt)(void *context, uint64_t part);
    void *context;
    /* Writes the options with which the program tries this part alone; NULL: --part N. */
    void (*replay)(const void *context, uint64_t part, char *text, size_t capacity);
} proof_parts;
void proof_try_parts(const proof_options *options, const proof_parts *parts);

/* ---- what is saved --------------------------------------------------------------------------- */

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
