/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves the weights of a small charlm as another program might have done: in bfloat16, below "net/"
 * instead of "model/", without the last bias, and with a tensor that charlm does not know.
 *
 * Usage: other_checkpoint RUN
 */
#include <pawl/pawl.h>
#include <stdio.h>
#include <stdlib.h>

enum { HIDDEN = 8, CONTEXT = 4, EMBEDDING = 64, CHARACTERS = 256 };

static void must(pawl_status status, pawl_error *err) {
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_error_text(err));
        exit(1);
    }
}

int main(int argc, char **argv) {
    static uint16_t ones[CHARACTERS * EMBEDDING]; /* the memory of every tensor */
    static const struct {
        const char *name;
        int ndim;
        int64_t shape[2];
    } TENSORS[] = {
        {"net/embedding/table", 2, {CHARACTERS, EMBEDDING}},
        {"net/dense1/kernel", 2, {CONTEXT * EMBEDDING, HIDDEN}},
        {"net/dense1/bias", 1, {HIDDEN}},
        {"net/dense2/kernel", 2, {HIDDEN, HIDDEN}},
        {"net/dense2/bias", 1, {HIDDEN}},
        {"net/output/kernel", 2, {HIDDEN, CHARACTERS}},
        {"net/output/scale", 1, {CHARACTERS}},
    };
    pawl_error *err = pawl_error_new();
    pawl_run *run = NULL;
    pawl_state *state = NULL;
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) {
        ones[i] = 0x3f80; /* 1.0 in bfloat16 */
    }
    must(pawl_run_open(argc == 2 ? argv[1] : "", NULL, &run, err), err);
    must(pawl_state_new(&state, err), err);
    for (size_t i = 0; i < sizeof TENSORS / sizeof *TENSORS; i++) {
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = TENSORS[i].name,
                                    .dtype = PAWL_BF16,
                                    .ndim = TENSORS[i].ndim,
                                    .shape = TENSORS[i].shape,
                                    .data = ones};
        must(pawl_state_add_tensor(state, &tensor, err), err);
    }
    must(pawl_save(run, state, 7, NULL, err), err);
    must(pawl_wait(run, 0, NULL, err), err);
    must(pawl_run_close(run, 0, err), err);
    pawl_state_free(state);
    pawl_error_free(err);
    return 0;
}
