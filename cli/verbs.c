/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the table of verbs. */
#include "memory.h"
#include "options.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VERBS = 16 };

const verb *verb_find(const char *name) {
    for (const verb *v = verbs; v->name != NULL; v++) {
        if (strcmp(v->name, name) == 0) {
            return v;
        }
    }
    return NULL;
}

const char *verb_nearest(const char *name) {
    const char *names[MAX_VERBS] = {NULL};
    for (size_t i = 0; i + 1 < MAX_VERBS && verbs[i].name != NULL; i++) {
        names[i] = verbs[i].name;
    }
    return text_nearest(name, names);
}

char *verb_synopsis(const verb *v) {
    char *text = must_printf("%s [OPTION]...", v->name);
    for (size_t i = 0; i < MAX_OPERANDS && v->operands[i].kind != OPERAND_END; i++) {
        const operand *o = &v->operands[i];
        char *longer =
            must_printf("%s %s%s%s", text, o->optional ? "[" : "", o->name, o->optional ? "]" : "");
        free(text);
        text = longer;
    }
    return text;
}

static bool opens_checkpoints(const verb *v) {
    return v->operands[0].kind != OPERAND_VERB && v->run != verb_doctor;
}

void exit_meanings(const verb *v, exit_meaning out[MAX_EXIT_MEANINGS]) {
    const verb usual = {.failed = "It failed, or the result could not be written.",
                        .different = v == NULL ? "Damage or a difference was found."
                                               : "What was read is damaged.",
                        .busy = "Someone else is using it, or the storage did not answer in time; "
                                "try again later."};
    const verb *of = v != NULL ? v : &usual;
    size_t n = 0;
    out[n++] = (exit_meaning){EXIT_DONE, "Done, and nothing is wrong."};
    out[n++] = (exit_meaning){EXIT_FAILED, of->failed != NULL ? of->failed : usual.failed};
    out[n++] = (exit_meaning){EXIT_USAGE, "The command line is wrong."};
    if (v == NULL || opens_checkpoints(v)) {
        out[n++] =
            (exit_meaning){EXIT_DIFFERENT, of->different != NULL ? of->different : usual.different};
        out[n++] = (exit_meaning){EXIT_NOT_FOUND, "There is no such run, step or entry."};
        out[n++] = (exit_meaning){EXIT_TRY_AGAIN, of->busy != NULL ? of->busy : usual.busy};
    }
    out[n] = (exit_meaning){0, NULL};
}

int exit_as_told(const verb *v, int code) {
    exit_meaning meanings[MAX_EXIT_MEANINGS];
    exit_meanings(v, meanings);
    for (const exit_meaning *m = meanings; m->text != NULL; m++) {
        if (m->code == code) {
            return code;
        }
    }
    return EXIT_FAILED;
}
