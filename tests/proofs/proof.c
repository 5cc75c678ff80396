/* SPDX-License-Identifier: Apache-2.0 */
/* Counting, reporting, and the small state that proofs save. */
#include "proofs/proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void proof_case(proof *p, bool good, const char *format, ...) {
    p->tried++;
    if (good) {
        return;
    }
    p->lost++;
    if (p->lost <= 20) {
        va_list arguments;
        va_start(arguments, format);
        fprintf(stderr, "%s: LOST: ", p->name);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
        va_end(arguments);
    }
}

int proof_end(const proof *p) {
    printf("{\"name\": \"%s\", \"tried\": %llu, \"lost\": %llu", p->name,
           (unsigned long long)p->tried, (unsigned long long)p->lost);
    if (p->note[0] != '\0') {
        printf(", \"note\": \"%s\"", p->note);
    }
    printf("}\n");
    return p->lost == 0 && p->tried > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- the state ------------------------------------------------------------------------------ */

static uint8_t pattern(uint32_t seed, uint32_t salt, size_t i) {
    uint32_t x = seed * 2654435761u + salt * 40503u + (uint32_t)i * 2246822519u;
    x ^= x >> 15;
    x *= 2654435761u;
    return (uint8_t)(x >> 24);
}

static void fill(void *memory, size_t n, uint32_t seed, uint32_t salt) {
    uint8_t *bytes = memory;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = pattern(seed, salt, i);
    }
}

static bool matches(const void *memory, size_t n, uint32_t seed, uint32_t salt) {
    const uint8_t *bytes = memory;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != pattern(seed, salt, i)) {
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
