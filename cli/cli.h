/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli: what the files of the pawl command share. One file per verb (verb_*.c, with helpers that
 * begin with the verb's name); its operands and options are in the table of verbs.c, which parsing,
 * --help, the man page and the completion all read.
 *
 * The command uses only include/pawl/, and one thread. Text from a checkpoint is printed only after
 * text_safe has escaped what a terminal would act on. Memory does not grow with the size of a
 * checkpoint.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "output.h"

#include <stdbool.h>
#include <stdint.h>

/* Before a variable: `release` is called with its address at the end of its block. */
#define SCOPED(release) __attribute__((cleanup(release)))

/* Exit codes; scripts rely on them. */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_DIFFERENT = 3, /* damage or a difference was found */
    EXIT_NOT_FOUND = 4,
    EXIT_TRY_AGAIN = 75 /* in use, or too slow; EX_TEMPFAIL of sysexits.h */
};

#define NEWEST_STEP ((int64_t)-1)

/* RUN[@STEP], or a file of weights, as given on the command line. */
typedef struct target {
    char *run;
    bool has_step;
    int64_t step;        /* NEWEST_STEP for @newest, @latest and when none was given */
    const char *no_step; /* text after '@' that looks like a mistyped step; NULL: none */
} target;

#define MAX_TARGETS 2

/* What an option that may be given several times was given. */
typedef struct word_list {
    const char **words;
    size_t count;
} word_list;
typedef struct rename_list {
    pawl_rename *rules;
    size_t count;
} rename_list;

typedef struct arguments {
    const struct verb *verb;
    target targets[MAX_TARGETS];
    size_t target_count;
    const char *entry; /* NULL when none was given */
    const char *topic; /* of `pawl help`; NULL when none was given */
    bool json, no_progress, help, all, structure, force, dry_run, man, bash_completion, stats, once;
    bool full, names;
    int64_t edge;        /* values shown at each end of a dimension */
    uint64_t need_bytes; /* 0: not given */
    double wait_s;       /* negative: not given */
    double interval_s;
    bool alone;
    int64_t rank, ranks;     /* -1: not given */
    const char *launch;      /* NULL: not given */
    double deadline_s;       /* 0: not given */
    const char *destination; /* of convert, as it was given; also the second target */
    const char *to;          /* NULL: not given */
    word_list only;
    rename_list renames;
    word_list transpose;
    pawl_dtype cast; /* 0: not given */
    bool drop;
    uint64_t shard_bytes; /* 0: not given */
    /* Of doctor. */
    const char *model; /* NULL: not given */
    bool read_only, no_probe, verify;
    uint64_t budget_bytes;      /* 0: not given */
    double every_s, mtbf_hours; /* 0: not given */
    word_list ignored;          /* ids, or lists of them */
} arguments;

/* Splits at the last '@' if a number, "newest" or "latest" follows it. What only begins like a
 * number ("5x", "-1", more than INT64_MAX) becomes `no_step`. The path of a file is not split. */
target target_parse(const char *text);
void target_free(target *t);
/* Opens that step of a run, or its newest; a failure is in out->err. */
pawl_status target_open(const char *run, int64_t step, output *out, pawl_checkpoint **checkpoint);

/* Verbs: each returns an exit code, after printing the reason when it is not EXIT_DONE. */
int verb_ls(const arguments *args, output *out);
int verb_top(const arguments *args, output *out);
int verb_show(const arguments *args, output *out);
int verb_verify(const arguments *args, output *out);
int verb_diff(const arguments *args, output *out);
int verb_convert(const arguments *args, output *out);
int verb_rm(const arguments *args, output *out);
int verb_gc(const arguments *args, output *out);
int verb_rebuild(const arguments *args, output *out);
int verb_doctor(const arguments *args, output *out);
int verb_help(const arguments *args, output *out);

/* For SCOPED. The variables may be NULL. */
void scoped_free(void *pointer_to_pointer);
void scoped_catalog(pawl_catalog **catalog);
void scoped_survey(pawl_survey **survey);
void scoped_checkpoint(pawl_checkpoint **checkpoint);
void scoped_entries(pawl_entries **entries);
void scoped_events(pawl_events **events);

#endif
