/* SPDX-License-Identifier: Apache-2.0 */
/* The manual page, as troff source. */
#include "verbs.h"

#include <pawl/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text with troff's special characters escaped; '\n' begins a new paragraph. */
static void put_troff(const char *text) {
    bool line_start = true;
    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\'')) {
            fputs("\\&", stdout);
        }
        line_start = *text == '\n';
        if (*text == '\n') {
            fputs("\n.PP\n", stdout);
        } else if (*text == '\\') {
            fputs("\\e", stdout);
        } else if (*text == '-') {
            fputs("\\-", stdout);
        } else if (*text == '\'') {
            fputs("\\(aq", stdout);
        } else {
            fputc(*text, stdout);
        }
    }
    fputc('\n', stdout);
}

/* "--dry-run", with dashes that troff does not turn into hyphens. */
static void put_option_name(const char *name) {
    fputs("\\-\\-", stdout);
    for (; *name != '\0'; name++) {
        fputs(*name == '-' ? "\\-" : "", stdout);
        if (*name != '-') {
            fputc(*name, stdout);
        }
    }
}

static void put_option(const option_spec *o) {
    fputs(".TP\n\\fB", stdout);
    if (o->letter != 0) {
        printf("\\-%c\\fR, \\fB", o->letter);
    }
    put_option_name(o->name);
    printf("\\fR%s%s%s\n", o->value != NULL ? " \\fI" : "", o->value != NULL ? o->value : "",
           o->value != NULL ? "\\fR" : "");
    put_troff(o->help);
}

static void put_verb(const verb *v) {
    char *synopsis = verb_synopsis(v);
    fputs(".SS pawl ", stdout);
    put_troff(synopsis);
    free(synopsis);
    put_troff(v->description);
    for (const option_spec *o = options; o->name != NULL; o++) {
        if ((v->options & o->id) != 0 && !o->hidden && o->id != OPTION_HELP) {
            put_option(o);
        }
    }
}

/* What an exit code means for this verb; `text` NULL: what it means for all. */
static void put_meaning(const verb *v, int code, const char *text) {
    if (text != NULL) {
        printf(".TP\n.BR \"pawl %s\" : \" %d\"\n", v->name, code);
        put_troff(text);
    }
}

static void put_exit_status(void) {
    exit_meaning meanings[MAX_EXIT_MEANINGS];
    exit_meanings(NULL, meanings);
    fputs(".SH EXIT STATUS\n", stdout);
    for (const exit_meaning *m = meanings; m->text != NULL; m++) {
        printf(".TP\n.B %d\n", m->code);
        put_troff(m->text);
    }
    for (const verb *v = verbs; v->name != NULL; v++) {
        put_meaning(v, EXIT_FAILED, v->failed);
        put_meaning(v, EXIT_DIFFERENT, v->different);
        put_meaning(v, EXIT_TRY_AGAIN, v->busy);
    }
    fputs(".PP\n", stdout);
    put_troff("pawl doctor and pawl help end with 0, 1 or 2 only.");
}

static void put_examples(void) {
    fputs(".SH EXAMPLES\n", stdout);
    for (const verb *v = verbs; v->name != NULL; v++) {
        for (size_t i = 0; i < MAX_EXAMPLES && v->examples[i].command != NULL; i++) {
            fputs(".TP\n.B ", stdout);
            put_troff(v->examples[i].command);
            put_troff(v->examples[i].text);
        }
    }
}

static void put_environment(void) {
    fputs(".SH ENVIRONMENT\n.TP\n.B NO_COLOR\n", stdout);
    put_troff("When set to anything, no colours on a terminal.");
    fputs(".TP\n.B COLUMNS\n", stdout);
    put_troff("Where standard output is no terminal, or one that does not tell its width: how wide "
              "lines may be. Unless set, lines in pipes and files may have any length.");
    fputs(".TP\n.B TZ\n", stdout);
    put_troff("The time zone in which tables show times; JSON has them in UTC.");
}

void print_man_page(void) {
    printf(".\\\" Written by 'pawl help --man'; change cli/verbs.c instead.\n"
           ".TH PAWL 1 \"\" \"pawl %s\" \"User Commands\"\n.SH NAME\n",
           PAWL_VERSION);
    fputs("pawl \\- look at, verify, compare and tend the checkpoints of training runs\n"
          ".SH SYNOPSIS\n.B pawl\n.I VERB\n[\\fIOPTION\\fR]...\n[\\fIARGUMENT\\fR]...\n.br\n"
          ".B pawl help\n[\\fIVERB\\fR]\n.br\n.B pawl \\-\\-version\n.SH DESCRIPTION\n",
          stdout);
    put_troff("pawl keeps the progress of a training run. This command looks after what it saved: "
              "checkpoints, each in a directory of its run.");
    fputs(".PP\n", stdout);
    put_troff(operand_help);
    fputs(".PP\n", stdout);
    put_troff("Results go to standard output, as tables or, with --json, as one JSON object. "
              "Failures go to standard error, or with --json into the object's member \"error\". "
              "Sizes are in decimal units in tables and exact in JSON. Numbers that JSON lacks are "
              "the strings \"nan\", \"inf\" and \"-inf\".");
    fputs(".SH VERBS\n", stdout);
    for (const verb *v = verbs; v->name != NULL; v++) {
        put_verb(v);
    }
    put_exit_status();
    put_environment();
    put_examples();
}
