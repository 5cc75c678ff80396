/* SPDX-License-Identifier: Apache-2.0 */
/*
 * charlm: trains a character-level language model, and shows how a trainer keeps its progress with
 * libpawl. Start reading with trainer.c; README.md walks through all files.
 */
#include <stdio.h>

#include "trainer.h"

enum { EXIT_FINISHED = 0, EXIT_FAILED = 1, EXIT_TRY_AGAIN = 75 };

int main(int argc, char **argv) {
    struct ranks ranks;
    ranks_open(&ranks);
    struct options options;
    options_read(&options, argc, argv);
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a killed trainer has printed what it did */
    struct text text = text_read(options.texts, options.text_count);

    pawl_error *err = pawl_error_new();
    struct trainer trainer;
    pawl_status status = trainer_open(&trainer, &options, &ranks, &text, err);
    if (status == PAWL_OK) {
        status = trainer_run(&trainer, err);
    }
    if (status != PAWL_OK && !trainer.is_logged) {
        trainer_print_error(&ranks, err);
    }
    int code = trainer_finished(&trainer) ? EXIT_FINISHED : EXIT_TRY_AGAIN;
    if (trainer_close(&trainer, err) != PAWL_OK && status == PAWL_OK) {
        status = PAWL_EIO;
        trainer_print_error(&ranks, err);
    }
    pawl_error_free(err);
    text_free(&text);
    if (status != PAWL_OK) {
        return EXIT_FAILED;
    }
    ranks_close(&ranks);
    return code;
}
