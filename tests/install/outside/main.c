/* SPDX-License-Identifier: Apache-2.0 */
/* A program of someone else's: saves four numbers and reads them back. */
#include <pawl/pawl.h>

#include <stdio.h>
#include <string.h>

/* The library has functions of these names inside; an outside program may have its own. */
int buffer_append(void);
int buffer_append(void) {
    return 4;
}

static int failed(pawl_error *err) {
    fprintf(stderr, "%s\n", pawl_error_text(err));
    return 1;
}

int main(int argc, char **argv) {
    float weights[4] = {1, 2, 3, 4}, read_back[4] = {0};
    int64_t shape[1] = {buffer_append()};
    pawl_tensor w = {.struct_size = sizeof w,
                     .name = "w",
                     .dtype = PAWL_F32,
                     .ndim = 1,
                     .shape = shape,
                     .data = weights};
    pawl_error *err = pawl_error_new();
    pawl_run *run = NULL;
    pawl_state *state = NULL;
    pawl_checkpoint *checkpoint = NULL;
    const char *path = argc > 1 ? argv[1] : "run";

    if (pawl_run_open(path, NULL, &run, err) || pawl_state_new(&state, err) ||
        pawl_state_add_tensor(state, &w, err) || pawl_save(run, state, 1, NULL, err) ||
        pawl_wait(run, 0, NULL, err) || pawl_run_close(run, 0, err) ||
        pawl_checkpoint_open(path, NULL, &checkpoint, err) ||
        pawl_checkpoint_read(checkpoint, "w", NULL, NULL, read_back, sizeof read_back, err)) {
        return failed(err);
    }
    pawl_checkpoint_close(checkpoint);
    pawl_state_free(state);
    pawl_error_free(err);
    printf("pawl %s\n", pawl_version());
    return memcmp(weights, read_back, sizeof weights) != 0;
}
