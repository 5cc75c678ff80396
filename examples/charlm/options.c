/* SPDX-License-Identifier: Apache-2.0 */
/* options: one table that yields both the reading and the help. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"
#include "mistake.h"

enum kind { TEXT, WORD, RENAME, WHOLE, NUMBER, FLAG };

struct option_row {
    const char *name;
    enum kind kind;
    size_t offset;    /* of its field in struct options */
    int64_t least;    /* of a whole number; the largest is MAX_WHOLE */
    const char *word; /* what stands for the value in the help; for WORD the words to choose from */
    const char *help;
};

#define FIELD(name) offsetof(struct options, name)

enum { MAX_WHOLE = 1000000000, HELP_COLUMN = 30 };

static const struct option_row ROWS[] = {
    {"run", TEXT, FIELD(run), 0, "DIR", "directory of the checkpoints [charlm-run]"},
    {"steps", WHOLE, FIELD(steps), 0, "N", "train up to this step [2000]"},
    {"save-every", WHOLE, FIELD(save_every), 0, "N",
     "steps between saves; 0: only at the end [100]"},
    {"keep", WHOLE, FIELD(keep), 0, "N", "checkpoints to keep; 0: all [3]"},
    {"grace", NUMBER, FIELD(grace_s), 0, "SECONDS", "for the final save after a signal [30]"},
    {"context", WHOLE, FIELD(context), 1, "N", "characters that the model sees [32]"},
    {"hidden", WHOLE, FIELD(hidden), 1, "N", "units of each hidden layer [1024]"},
    {"batch", WHOLE, FIELD(batch), 1, "N", "samples per step [64]"},
    {"keep-remainder", FLAG, FIELD(keep_remainder), 0, "", "train on the smaller last batch, too"},
    {"optimizer", WORD, FIELD(optimizer), 0, "adamw|sgd", "[adamw]"},
    {"learning-rate", NUMBER, FIELD(learning_rate), 0, "X", "[the optimizer's own]"},
    {"seed", WHOLE, FIELD(seed), 0, "N", "seed of everything random [1]"},
    {"from", TEXT, FIELD(from), 0, "DIR",
     "a run without a checkpoint begins with that of this run"},
    {"model-only", FLAG, FIELD(model_only), 0, "", "restore the weights; the rest begins anew"},
    {"missing", WORD, FIELD(missing), 0, "error|allow",
     "a variable that the checkpoint lacks [error]"},
    {"unexpected", WORD, FIELD(unexpected), 0, "error|allow", "one that only it has [error]"},
    {"cast", WORD, FIELD(cast), 0, "error|allow", "one of another floating-point type [error]"},
    {"hyperparameter", WORD, FIELD(hyperparameter), 0, "error|checkpoint|caller",
     "whose learning rate counts when they differ [checkpoint]"},
    {"per-rank", WORD, FIELD(per_rank), 0, "error|allow|caller",
     "random numbers of other ranks; caller: draw anew [error]"},
    {"rename", RENAME, FIELD(renames), 0, "FROM=TO",
     "what the checkpoint calls FROM is called TO here; may be repeated"},
    {"mistake", WORD, FIELD(mistake), 0, MISTAKE_NAMES, "made on purpose, to see what is said"},
    {"report-every", WHOLE, FIELD(report_every), 1, "N", "steps between lines of output [20]"},
    {"digests", FLAG, FIELD(digests), 0, "", "print a digest of what is saved and restored"},
    {"events", TEXT, FIELD(events), 0, "FILE",
     "append a line per event, for programs; rank 3 to FILE.3"},
};

static void print_help(void) {
    puts("usage: charlm [OPTION]... [TEXT]...\n"
         "Trains a character-level language model on text files (by default on the licences that\n"
         "every Debian machine carries) and resumes from the newest checkpoint of its run.\n");
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        int width = printf("  --%s%s%s", ROWS[i].name, *ROWS[i].word ? " " : "", ROWS[i].word);
        if (width >= HELP_COLUMN) {
            width = printf("\n") - 1;
        }
        printf("%*s%s\n", HELP_COLUMN - width, "", ROWS[i].help);
    }
    puts("\nexit codes: 0 trained to the end, 1 failure, 2 wrong command line, 75 stopped by a "
         "signal\n"
         "with its progress saved: run it again to go on");
    exit(0);
}

static int64_t read_whole(const struct option_row *row, const char *word) {
    char *end = NULL;
    errno = 0;
    long long number = strtoll(word, &end, 10);
    if (errno != 0 || end == word || *end != '\0' || number < row->least || number > MAX_WHOLE) {
        die(2, "--%s %s: a whole number from %lld to %d is needed", row->name, word,
            (long long)row->least, MAX_WHOLE);
    }
    return number;
}

/* Is `word` one of "this|that"? */
static int is_one_of(const char *word, const char *words) {
    size_t length = strlen(word);
    for (const char *each = words; each; each = strchr(each, '|')) {
        each += *each == '|';
        if (strcspn(each, "|") == length && strncmp(each, word, length) == 0) {
            return 1;
        }
    }
    return 0;
}

static const char *read_word(const struct option_row *row, const char *word) {
    if (!is_one_of(word, row->word)) {
        die(2, "--%s %s: one of %s is needed", row->name, word, row->word);
    }
    return word;
}

static void read_rename(const struct option_row *row, struct option_renames *to, char *word) {
    size_t length = strcspn(word, "=");
    if (length == 0 || word[length] == '\0' || word[length + 1] == '\0') {
        die(2, "--%s %s: %s is needed", row->name, word, row->word);
    }
    if (to->count == MAX_RENAMES) {
        die(2, "--%s %s: there are %d of them already", row->name, word, MAX_RENAMES);
    }
    word[length] = '\0';
    to->rules[to->count++] = (pawl_rename){word, word + length + 1};
}

static double read_number(const struct option_row *row, const char *word) {
    char *end = NULL;
    double number = strtod(word, &end);
    if (end == word || *end != '\0' || !isfinite(number) || number <= 0.0) {
        die(2, "--%s %s: a number above 0 is needed", row->name, word);
    }
    return number;
}

static void set_field(struct options *options, const struct option_row *row, char *word) {
    void *field = (char *)options + row->offset;
    switch (row->kind) {
    case TEXT:
        *(const char **)field = word;
        break;
    case WORD:
        *(const char **)field = read_word(row, word);
        break;
    case RENAME:
        read_rename(row, field, word);
        break;
    case WHOLE:
        *(int64_t *)field = read_whole(row, word);
        break;
    case NUMBER:
        *(double *)field = read_number(row, word);
        break;
    case FLAG:
        *(int *)field = 1;
        break;
    }
}

/* The row of "--name" or "--name=value". */
static const struct option_row *find_row(const char *argument) {
    size_t length = strcspn(argument + 2, "=");
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        if (strlen(ROWS[i].name) == length && memcmp(ROWS[i].name, argument + 2, length) == 0) {
            return &ROWS[i];
        }
    }
    die(2, "there is no option %s; charlm --help lists them", argument);
}

/* Reads the option at argv[i]; returns where the next one stands. */
static int read_option(struct options *options, int argc, char **argv, int i) {
    const struct option_row *row = find_row(argv[i]);
    char *equals = strchr(argv[i], '=');
    if (row->kind == FLAG) {
        if (equals) {
            die(2, "--%s takes no value", row->name);
        }
        set_field(options, row, NULL);
        return i + 1;
    }
    if (!equals && i + 1 == argc) {
        die(2, "--%s needs a value: %s", row->name, row->word);
    }
    set_field(options, row, equals ? equals + 1 : argv[i + 1]);
    return equals ? i + 1 : i + 2;
}

void options_read(struct options *options, int argc, char **argv) {
    *options = (struct options){.run = "charlm-run",
                                .steps = 2000,
                                .save_every = 100,
                                .keep = 3,
                                .report_every = 20,
                                .context = 32,
                                .hidden = 1024,
                                .batch = 64,
                                .seed = 1,
                                .optimizer = "adamw",
                                .missing = "error",
                                .unexpected = "error",
                                .cast = "error",
                                .hyperparameter = "checkpoint",
                                .per_rank = "error",
                                .grace_s = 30.0};
    int i = 1;
    while (i < argc && strncmp(argv[i], "--", 2) == 0) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help();
        }
        i = read_option(options, argc, argv, i);
    }
    options->texts = argv + i;
    options->text_count = (size_t)(argc - i);
}
