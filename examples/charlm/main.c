/* SPDX-License-Identifier: Apache-2.0 */
/*
 * charlm: trains a character-level language model, and shows how a trainer keeps its progress with
 * libpawl. Start reading with trainer.c; README.md walks through all files.
 */
#include <stdio.h>

#include "trainer.h"

enum { EXIT_FINISHED = 0, EXIT_FAILED = 1, EXIT_TRY_AGAIN = 75 };

/* The one place where a failure of pawl is shown: everything below hands it up. */
static void print_error(pawl_error *err) {
    (void)fflush(stdout);
    fprintf(stderr, "charlm: %s\n",
            err ? pawl_error_text(err) : "failed, without memory to say why");
}

int main(int argc, char **argv) {
    struct options options;
    options_read(&options, argc, argv);
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a killed trainer has printed what it did */
    struct text text = text_read(options.texts, options.text_count);

    pawl_error *err = pawl_error_new();
    struct trainer trainer;
    pawl_status status = trainer_open(&trainer, &options, &text, err);
    if (status == PAWL_OK) {
        status = trainer_run(&trainer, err);
    }
    if (status != PAWL_OK) {
        print_error(err);
    }
    int code = trainer_finished(&trainer) ? EXIT_FINISHED : EXIT_TRY_AGAIN;
    if (trainer_close(&trainer, err) != PAWL_OK && status == PAWL_OK) {
        status = PAWL_EIO;
        print_error(err);
    }
    pawl_error_free(err);
    text_free(&text);
    return status == PAWL_OK ? code : EXIT_FAILED;
}
