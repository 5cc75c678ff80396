/* SPDX-License-Identifier: Apache-2.0 */
/* Counting, reporting, and the small state that proofs save. */
#include "proofs/proof.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHOWN  20 /* of the lost cases */
#define TELL_S 10 /* between two words of how far it is */

static char trying[128]; /* of this process; "": what all of the program does */

void proof_trying(const char *arguments) {
    snprintf(trying, sizeof trying, "%s", arguments);
}

void *proof_shared(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("shared memory");
        abort();
    }
    return memory;
}

proof *proof_new(const char *name) {
    proof *p = proof_shared(sizeof *p);
    p->name = name;
    return p;
}

static void tell(const proof *p) {
    char parts[64] = "";
    if (p->of > 0) {
        snprintf(parts, sizeof parts, "%" PRIu64 " of %" PRIu64 " parts, ", p->done, p->of);
    }
    fprintf(stderr, "%s: %s%" PRIu64 " tried, %" PRIu64 " lost\n", p->name, parts, p->tried,
            p->lost);
}

/* Of many processes one does. */
static void tell_now_and_then(proof *p) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t told_s = p->told_s;
    if (now.tv_sec - told_s >= TELL_S &&
        atomic_compare_exchange_strong(&p->told_s, &told_s, now.tv_sec) && told_s > 0) {
        tell(p);
    }
}

void proof_case(proof *p, bool good, const char *format, ...) {
    p->tried++;
    tell_now_and_then(p);
    if (!good && p->lost++ < SHOWN) {
        char text[16384]; /* two errors whole; at once, as processes write beside each other */
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        if (trying[0] == '\0') {
            fprintf(stderr, "%s: LOST: %s\n", p->name, text);
        } else {
            fprintf(stderr, "%s: LOST: %s\nreplay it with: %s %s\n", p->name, text,
                    program_invocation_short_name, trying);
        }
    }
}

int proof_end(const proof *p) {
    printf("{\"name\": \"%s\", \"tried\": %" PRIu64 ", \"lost\": %" PRIu64, p->name, p->tried,
           p->lost);
    if (p->note[0] != '\0') {
        printf(", \"note\": \"%s\"", p->note);
    }
    printf("}\n");
    return p->lost == 0 && p->tried > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

bool proof_leaves_open(const pawl_error *err) {
    return strstr(err->attempt, "cannot make that durable") != NULL ||
           strstr(err->safe, "may ") != NULL || strstr(err->found, "may still") != NULL ||
           strstr(err->next, "may still be committed") != NULL ||
           strstr(err->next, "may be committed or not") != NULL ||
           strstr(err->next, "whether this step is one") != NULL;
}

/* ---- the state ------------------------------------------------------------------------------ */

/* Eight bytes at a time: proofs make and compare so many states that it counts. */
static uint64_t pattern(uint32_t seed, uint32_t salt, size_t i) {
    uint64_t x = ((uint64_t)seed << 32 | salt) * 0x9e3779b97f4a7c15U + i * 0xd6e8feb86659fd93U;
    x ^= x >> 32;
    return x * 0xd6e8feb86659fd93U;
}

static void fill(void *memory, size_t n, uint32_t seed, uint32_t salt) {
    uint8_t *bytes = memory;
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t wanted = pattern(seed, salt, i);
        memcpy(bytes + i, &wanted, n - i < sizeof wanted ? n - i : sizeof wanted);
    }
}

static bool matches(const void *memory, size_t n, uint32_t seed, uint32_t salt) {
    const uint8_t *bytes = memory;
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t wanted = pattern(seed, salt, i);
        if (memcmp(bytes + i, &wanted, n - i < sizeof wanted ? n - i : sizeof wanted) != 0) {
            return false;
        }
    }
    return true;
}

void proof_must(pawl_status status, pawl_error *err) {
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", error_text(err));
        abort();
    }
}

static void add_tensors(proof_state *ps, pawl_error *err) {
    static const int64_t matrix[] = {16, 40};
    static const int64_t vector[] = {40};
    pawl_tensor kernel = {.struct_size = sizeof kernel,
                          .name = "model/dense/kernel",
                          .dtype = PAWL_F32,
                          .ndim = 2,
                          .shape = matrix,
                          .data = ps->kernel};
    pawl_tensor slot = kernel;
    slot.name = "optimizer/adam/m/dense/kernel";
    slot.data = ps->slot;
    slot.role = PAWL_ROLE_SLOT;
    slot.slot_of = "model/dense/kernel";
    slot.slot = "adam/m";
    pawl_tensor bias = {.struct_size = sizeof bias,
                        .name = "model/dense/bias",
                        .dtype = PAWL_BF16,
                        .ndim = 1,
                        .shape = vector,
                        .data = ps->bias};
    proof_must(state_add_tensor(ps->state, &kernel, err), err);
    proof_must(state_add_tensor(ps->state, &slot, err), err);
    proof_must(state_add_tensor(ps->state, &bias, err), err);
}

void proof_state_make(proof_state *ps, uint32_t seed) {
    struct pawl_error err = ERROR_INIT;
    int64_t step = seed;
    memset(ps, 0, sizeof *ps);
    proof_must(state_new(&ps->state, &err), &err);
    fill(ps->kernel, sizeof ps->kernel, seed, 1);
    fill(ps->slot, sizeof ps->slot, seed, 2);
    fill(ps->bias, sizeof ps->bias, seed, 3);
    fill(ps->random_state, sizeof ps->random_state, seed, 4);
    add_tensors(ps, &err);
    proof_must(state_set_value(ps->state, "step", PAWL_KIND_INT64, PAWL_ROLE_STEP, false, &step,
                               sizeof step, &err),
               &err);
    proof_must(state_set_value(ps->state, "random", PAWL_KIND_BYTES, PAWL_ROLE_RNG, true,
                               ps->random_state, sizeof ps->random_state, &err),
               &err);
}

void proof_state_free(proof_state *ps) {
    state_free(ps->state);
    ps->state = NULL;
}

int64_t proof_state_seed(const proof_state *ps) {
    struct pawl_error err = ERROR_INIT;
    const state_entry *step;
    const state_entry *random;
    int64_t seed;
    if (state_get_value(ps->state, "step", PAWL_KIND_INT64, &step, &err) != PAWL_OK ||
        state_get_value(ps->state, "random", PAWL_KIND_BYTES, &random, &err) != PAWL_OK) {
        return -1;
    }
    memcpy(&seed, step->value, sizeof seed);
    uint32_t s = (uint32_t)seed;
    bool whole = matches(ps->kernel, sizeof ps->kernel, s, 1) &&
                 matches(ps->slot, sizeof ps->slot, s, 2) &&
                 matches(ps->bias, sizeof ps->bias, s, 3) &&
                 random->value_bytes == sizeof ps->random_state &&
                 matches(random->value, random->value_bytes, s, 4);
    return whole ? seed : -1;
}

int64_t proof_seed_of_step(store *s, int64_t step, const platform *os, pawl_error *err) {
    const pawl_log silent = {0};
    const pawl_restore_options options = {.struct_size = sizeof options};
    pawl_checkpoint *checkpoint;
    pawl_status status = checkpoint_open(s, false, step, os, &silent, &checkpoint, err);
    if (status != PAWL_OK) {
        return status == PAWL_ENOTFOUND ? 0 : -1;
    }
    proof_state ps;
    proof_state_make(&ps, 31);
    pawl_report *report = NULL;
    status = checkpoint_restore(checkpoint, ps.state, &options, 0, 1, &report, err);
    int64_t seed = status == PAWL_OK ? proof_state_seed(&ps) : -1;
    pawl_report_free(report);
    pawl_checkpoint_close(checkpoint);
    proof_state_free(&ps);
    return seed;
}

void proof_remove_tree(const char *path) {
    pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", path, (char *)NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
}
