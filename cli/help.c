/* SPDX-License-Identifier: Apache-2.0 */
/* What --help prints. */
#include "text.h"
#include "verbs.h"

#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMNS = 79, INDENT = 2, TEXT_INDENT = 6, CODE_INDENT = 6 };

static void print_exit_status(FILE *to, const verb *v) {
    exit_meaning meanings[MAX_EXIT_MEANINGS];
    exit_meanings(v, meanings);
    fputs("\nEXIT STATUS\n", to);
    for (const exit_meaning *m = meanings; m->text != NULL; m++) {
        fprintf(to, "%*d  ", INDENT + 2, m->code);
        text_wrap(to, m->text, CODE_INDENT, HELP_COLUMNS);
    }
}

static void print_option(const option_spec *o) {
    printf("%*s", INDENT, "");
    if (o->letter != 0) {
        printf("-%c, ", o->letter);
    }
    printf("--%s%s%s\n%*s", o->name, o->value != NULL ? " " : "", o->value != NULL ? o->value : "",
           TEXT_INDENT, "");
    text_wrap(stdout, o->help, TEXT_INDENT, HELP_COLUMNS);
}

static void print_examples(const verb *v) {
    fputs("\nEXAMPLES\n", stdout);
    for (size_t i = 0; i < MAX_EXAMPLES && v->examples[i].command != NULL; i++) {
        printf("%*s%s\n%*s", INDENT, "", v->examples[i].command, TEXT_INDENT, "");
        text_wrap(stdout, v->examples[i].text, TEXT_INDENT, HELP_COLUMNS);
    }
}

void print_help(const verb *v) {
    char *synopsis = verb_synopsis(v);
    printf("pawl %s: %s\n\nUSAGE\n%*spawl %s\n\n%*s", v->name, v->summary, INDENT, "", synopsis,
           INDENT, "");
    free(synopsis);
    text_wrap(stdout, v->description, INDENT, HELP_COLUMNS);
    if (v->operands[0].kind != OPERAND_VERB && v->operands[0].kind != OPERAND_RUN) {
        printf("\n%*s", INDENT, "");
        text_wrap(stdout, operand_help, INDENT, HELP_COLUMNS);
    }
    fputs("\nOPTIONS\n", stdout);
    for (const option_spec *o = options; o->name != NULL; o++) {
        if ((v->options & o->id) != 0 && !o->hidden) {
            print_option(o);
        }
    }
    print_examples(v);
    print_exit_status(stdout, v);
}

void print_overview(FILE *to) {
    fprintf(to,
            "pawl: look at, verify, compare and tend the checkpoints of training runs\n\nUSAGE\n"
            "%*spawl VERB [OPTION]... RUN[@STEP] ...\n\nVERBS\n",
            INDENT, "");
    for (const verb *v = verbs; v->name != NULL; v++) {
        fprintf(to, "%*s%-8s  %s\n", INDENT, "", v->name, v->summary);
    }
    fprintf(to, "\n%*s", INDENT, "");
    text_wrap(to, operand_help, INDENT, HELP_COLUMNS);
    fputs("\n  'pawl help VERB' explains a verb and its options; 'pawl --version' tells the "
          "version.\n",
          to);
    print_exit_status(to, NULL);
}
