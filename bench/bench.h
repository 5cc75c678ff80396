/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the bench's engine is made of: a load (tensors as a trainer has them) and the bare files
 * and syncs of a save. Failures end the program: bench.py says which command failed.
 */
#ifndef PAWL_BENCH_H
#define PAWL_BENCH_H

#include <pawl/pawl.h>

#include <stdbool.h>

/* Ends the program with {"error": ...} on standard output. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
double now_s(void);

/* One tensor within the load's memory. */
typedef struct place {
    size_t at, bytes;
} place;

/* A list of tensors and their memory: one mapping, each tensor at a multiple of 64 bytes. */
typedef struct load {
    pawl_state *state;
    unsigned char *memory;
    size_t memory_bytes;
    place *places;
    size_t count;
    uint64_t bytes; /* of all tensors */
    uint64_t seed;
} load;

/*
 * Reads a list, one tensor a line: NAME DTYPE ROLE [DIMENSION...]. ROLE is "-" for a variable,
 * "+" for anything else, VARIABLE=SLOT for an optimizer's slot. Fills the memory with random bits.
 */
void load_open(load *l, const char *list, uint64_t seed, pawl_error *err);
void load_close(load *l);
void load_scramble(load *l);
/* Does every tensor have the bytes that load_open gave it? */
bool load_same(const load *l);
/* Seconds to copy each tensor to other memory that is there already: the median of three. */
double load_memcpy(const load *l);

/* Seconds for the file operations and syncs that one save of `payload` bytes needs, in `directory`,
 * as step `step`. */
double syncs_of_a_save(const char *directory, int step, size_t payload);

#endif
