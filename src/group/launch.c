/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names this start of a job: the same on all its ranks, another one when the job is started again.
 * Made of what the launcher says, so only where that says enough: a name that two starts share is
 * worse than none.
 */
#include "group/launchers.h"

#include <stdio.h>
#include <string.h>

typedef struct name_writer {
    char text[PAWL_MAX_LAUNCH_BYTES + 1]; /* as much as fits */
    size_t n;
    uint32_t sum; /* of all of it */
    bool cut;
} name_writer;

static void put_character(name_writer *w, char c) {
    w->sum = crc32c(w->sum, &c, 1);
    if (w->n < PAWL_MAX_LAUNCH_BYTES) {
        w->text[w->n++] = c;
        w->text[w->n] = '\0';
    } else {
        w->cut = true;
    }
}

/* Printable characters but '%' and ':' as they are, all others as "%C6". */
static void add_variable_value(name_writer *w, const char *value) {
    static const char digits[] = "0123456789ABCDEF";
    for (; *value != '\0'; value++) {
        unsigned char c = (unsigned char)*value;
        if (c > ' ' && c <= '~' && c != '%' && c != ':') {
            put_character(w, *value);
        } else {
            put_character(w, '%');
            put_character(w, digits[c >> 4]);
            put_character(w, digits[c & 15]);
        }
    }
}

/* ":value" of each variable; "-" for one that is not set. */
static void add_variables(name_writer *w, const char *const *environment, const char *name,
                          const char *const *variables) {
    for (; *name != '\0'; name++) {
        put_character(w, (char)(*name == ' ' ? '-' : *name));
    }
    for (; *variables != NULL; variables++) {
        const char *value = environment_get(environment, *variables);
        put_character(w, ':');
        add_variable_value(w, value != NULL ? value : "-");
    }
}

/*
 * A step of Slurm's is the same on all ranks only where one step has launched all of them, or all
 * of torchrun's agents. mpirun's helpers are in a step of their own, on all nodes but the first.
 */
static bool step_is_shared(const char *const *environment, const claim claims[LAUNCHERS],
                           const claim *decided) {
    const claim *slurm = &claims[BY_SLURM];
    if (!slurm->made || (slurm->of_launchers && slurm->explained_by != BY_TORCHRUN)) {
        return false;
    }
    return claims_agree(slurm, decided) || slurm->size == torchrun_agents(environment, decided);
}

/* torchrun's own name is "none" where nobody gave one, and often the scheduler's job number, which
 * stays the same when the job is queued again. */
static bool name_torchrun(name_writer *w, const char *const *environment,
                          const claim claims[LAUNCHERS], const claim *decided) {
    static const char *const job[] = {"SLURM_JOB_ID", "SLURM_RESTART_COUNT", NULL};
    const char *run = environment_get(environment, "TORCHELASTIC_RUN_ID");
    bool shared = step_is_shared(environment, claims, decided);
    if (!shared && (run == NULL || strcmp(run, "none") == 0)) {
        return false;
    }
    add_variables(w, environment, "torchrun", decided->by->start);
    if (shared) {
        put_character(w, ':');
        add_variables(w, environment, "slurm", claims[BY_SLURM].by->start);
    } else if (environment_get(environment, "SLURM_JOB_ID") != NULL) {
        put_character(w, ':');
        add_variables(w, environment, "slurm", job);
    }
    return true;
}

static bool name_start(name_writer *w, const char *const *environment,
                       const claim claims[LAUNCHERS], const claim *c) {
    if (c->id == BY_TORCHRUN) {
        return name_torchrun(w, environment, claims, c);
    }
    bool named = false;
    for (const char *const *variable = c->by->start; *variable != NULL; variable++) {
        named = named || environment_get(environment, *variable) != NULL;
    }
    if (!named) {
        return false;
    }
    add_variables(w, environment, c->name, c->by->start);
    return true;
}

void launch_name(const char *const *environment, const claim claims[LAUNCHERS],
                 const claim *decided, char out[PAWL_MAX_LAUNCH_BYTES + 1]) {
    name_writer w = {.text = ""};
    bool named = name_start(&w, environment, claims, decided);
    for (int i = 0; i < LAUNCHERS && !named; i++) {
        const claim *c = &claims[i];
        named =
            c->made && !c->of_launchers && c != decided && name_start(&w, environment, claims, c);
    }
    if (w.cut) { /* the rest is told apart by the sum */
        snprintf(w.text + PAWL_MAX_LAUNCH_BYTES - 9, 10, ":%08x", w.sum);
    }
    memcpy(out, w.text, sizeof w.text);
}
