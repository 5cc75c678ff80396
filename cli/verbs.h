/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of verbs and options. Parsing, --help, the man page and the completion read it. A new
 * verb is added there; a new option there and in arguments.c.
 */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include "cli.h"

/* One bit each, so that a verb names its options as a set. */
typedef enum option_id {
    OPTION_HELP = 1 << 0,
    OPTION_JSON = 1 << 1,
    OPTION_NO_PROGRESS = 1 << 2,
    OPTION_ALL = 1 << 3,
    OPTION_STRUCTURE = 1 << 4,
    OPTION_EDGE = 1 << 5,
    OPTION_FORCE = 1 << 6,
    OPTION_DRY_RUN = 1 << 7,
    OPTION_WAIT = 1 << 8,
    OPTION_NEED = 1 << 9,
    OPTION_MAN = 1 << 10,
    OPTION_BASH_COMPLETION = 1 << 11,
    OPTION_FORCE_REBUILD = 1 << 12,
    OPTION_STATS = 1 << 13,
    OPTION_ONCE = 1 << 14,
    OPTION_INTERVAL = 1 << 15,
    OPTION_RANK = 1 << 16,
    OPTION_RANKS = 1 << 17,
    OPTION_LAUNCH = 1 << 18,
    OPTION_ALONE = 1 << 19,
    OPTION_DEADLINE = 1 << 20,
    OPTION_FULL = 1 << 21,
    OPTION_NAMES = 1 << 22,
    OPTION_TO = 1 << 23,
    OPTION_ONLY = 1 << 24,
    OPTION_RENAME = 1 << 25,
    OPTION_CAST = 1 << 26,
    OPTION_DROP = 1 << 27,
    OPTION_SHARD_SIZE = 1 << 28,
    OPTION_DRY_CONVERT = 1 << 29,
    OPTION_TRANSPOSE = 1 << 30,
    OPTION_GROUP = OPTION_RANK | OPTION_RANKS | OPTION_LAUNCH | OPTION_ALONE | OPTION_DEADLINE
} option_id;

typedef struct option_spec {
    const char *name;  /* without the dashes */
    const char *value; /* name of its value, or NULL */
    const char *help;
    option_id id;
    char letter; /* 0: none */
    bool hidden;
} option_spec;

typedef enum operand_kind {
    OPERAND_END = 0,
    OPERAND_RUN,         /* a run, without a step */
    OPERAND_RUN_STEP,    /* a step may follow */
    OPERAND_RUN_AT_STEP, /* a step by its number must follow */
    OPERAND_NEW,         /* a path that is to be made, or a run, which a step may follow */
    OPERAND_ENTRY,
    OPERAND_VERB
} operand_kind;

typedef struct operand {
    operand_kind kind;
    const char *name;
    bool optional;
} operand;

typedef struct example {
    const char *command, *text;
} example;

#define MAX_OPERANDS 3
#define MAX_EXAMPLES 5

typedef struct verb {
    const char *name;
    const char *summary;     /* half a line, no capital, no full stop */
    const char *description; /* paragraphs, separated by '\n' */
    operand operands[MAX_OPERANDS];
    unsigned options; /* bits of option_id */
    example examples[MAX_EXAMPLES];
    const char *failed;    /* what EXIT_FAILED means here; NULL: the usual */
    const char *different; /* what EXIT_DIFFERENT means here; NULL: the usual */
    const char *busy;      /* what EXIT_TRY_AGAIN means here; NULL: the usual */
    int (*run)(const arguments *args, output *out);
} verb;

/* Both end with an element whose name is NULL. */
extern const verb verbs[];
extern const option_spec options[];

const verb *verb_find(const char *name);
/* Says that there is no such verb, and which one was probably meant; returns the exit code. */
int verb_refuse_unknown(const char *name, output *out);
/* "show [OPTION]... RUN[@STEP] [ENTRY]"; allocated. */
char *verb_synopsis(const verb *v);

/* An exit code that a verb can return, and what it means. */
typedef struct exit_meaning {
    int code;
    const char *text;
} exit_meaning;
#define MAX_EXIT_MEANINGS 7
/* Ascending by code; ends with a NULL text. `v` NULL: of the whole command. */
void exit_meanings(const verb *v, exit_meaning out[MAX_EXIT_MEANINGS]);
/* `code`, or EXIT_FAILED if the verb's manual does not list it. */
int verb_exit_code(const verb *v, int code);

/* What RUN and STEP mean, in paragraphs. */
extern const char operand_help[];

/* Parses what follows the verb's name, which is argv[0]. False after printing what is wrong. `args`
 * points into argv. Call arguments_free in either case. */
bool arguments_parse(const verb *v, int argc, char **argv, arguments *args);
void arguments_free(arguments *args);

/* The printed forms of the table. */
void print_overview(FILE *to);
void print_help(const verb *v);
void print_man_page(void);
void print_bash_completion(void);

#endif
