/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of verbs and options. Parsing, --help, the man page and the completion read it. A new
 * verb is added there; a new option there and in arguments.c.
 */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include "cli.h"

/* One bit each, so that a verb names its options as a set. */
typedef uint64_t option_id;

#define OPTION_HELP            ((option_id)1 << 0)
#define OPTION_JSON            ((option_id)1 << 1)
#define OPTION_NO_PROGRESS     ((option_id)1 << 2)
#define OPTION_ALL             ((option_id)1 << 3)
#define OPTION_STRUCTURE       ((option_id)1 << 4)
#define OPTION_EDGE            ((option_id)1 << 5)
#define OPTION_FORCE           ((option_id)1 << 6)
#define OPTION_DRY_RUN         ((option_id)1 << 7)
#define OPTION_WAIT            ((option_id)1 << 8)
#define OPTION_NEED            ((option_id)1 << 9)
#define OPTION_MAN             ((option_id)1 << 10)
#define OPTION_BASH_COMPLETION ((option_id)1 << 11)
#define OPTION_FORCE_REBUILD   ((option_id)1 << 12)
#define OPTION_STATS           ((option_id)1 << 13)
#define OPTION_ONCE            ((option_id)1 << 14)
#define OPTION_INTERVAL        ((option_id)1 << 15)
#define OPTION_RANK            ((option_id)1 << 16)
#define OPTION_RANKS           ((option_id)1 << 17)
#define OPTION_LAUNCH          ((option_id)1 << 18)
#define OPTION_ALONE           ((option_id)1 << 19)
#define OPTION_DEADLINE        ((option_id)1 << 20)
#define OPTION_FULL            ((option_id)1 << 21)
#define OPTION_NAMES           ((option_id)1 << 22)
#define OPTION_TO              ((option_id)1 << 23)
#define OPTION_ONLY            ((option_id)1 << 24)
#define OPTION_RENAME          ((option_id)1 << 25)
#define OPTION_CAST            ((option_id)1 << 26)
#define OPTION_DROP            ((option_id)1 << 27)
#define OPTION_SHARD_SIZE      ((option_id)1 << 28)
#define OPTION_DRY_CONVERT     ((option_id)1 << 29)
#define OPTION_TRANSPOSE       ((option_id)1 << 30)
#define OPTION_MODEL           ((option_id)1 << 31)
#define OPTION_EVERY           ((option_id)1 << 32)
#define OPTION_MTBF            ((option_id)1 << 33)
#define OPTION_BUDGET          ((option_id)1 << 34)
#define OPTION_READ_ONLY       ((option_id)1 << 35)
#define OPTION_NO_PROBE        ((option_id)1 << 36)
#define OPTION_VERIFY          ((option_id)1 << 37)
#define OPTION_IGNORE          ((option_id)1 << 38)

#define OPTION_GROUP (OPTION_RANK | OPTION_RANKS | OPTION_LAUNCH | OPTION_ALONE | OPTION_DEADLINE)
#define OPTION_DOCTOR                                                                              \
    (OPTION_MODEL | OPTION_EVERY | OPTION_MTBF | OPTION_BUDGET | OPTION_READ_ONLY |                \
     OPTION_NO_PROBE | OPTION_VERIFY | OPTION_IGNORE)

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
#define MAX_EXAMPLES 6

typedef struct verb {
    const char *name;
    const char *summary;     /* half a line, no capital, no full stop */
    const char *description; /* paragraphs, separated by '\n' */
    operand operands[MAX_OPERANDS];
    option_id options; /* a set of them */
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
