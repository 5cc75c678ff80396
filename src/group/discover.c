/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which rank of how many this process is, from what all launchers say in its
 * environment. */
#include "group/launchers.h"

#include <stdio.h>
#include <string.h>

static pawl_status disagree(const claim *a, const claim *b, pawl_error *err) {
    char text[160];
    error_set(err, PAWL_EMISMATCH, "%s and %s disagree on which rank this process is", a->name,
              b->name);
    error_expected(err, "%s: %s", a->name, claim_text(text, a));
    error_found(err, "%s: %s", b->name, claim_text(text, b));
    error_next(err, "unset the variables of the one that did not start the ranks, or say rank and "
                    "world size yourself (pawl_group)");
    return PAWL_EMISMATCH;
}

/* The number of ranks where a launcher gives each its rank alone: from WORLD_SIZE. */
static pawl_status complete_size(const char *const *environment, claim *c, pawl_error *err) {
    int64_t size = 0;
    bool there = false;
    char text[160];
    if (c->size > 0) {
        return PAWL_OK;
    }
    TRY(environment_number(environment, "WORLD_SIZE", c->rank + 1, PAWL_MAX_RANKS, &size, &there,
                           err));
    if (!there) {
        error_set(err, PAWL_EUSAGE, "the environment says which rank this is, but not of how many");
        error_found(err, "%s: %s", c->name, claim_text(text, c));
        error_next(err, "set WORLD_SIZE, or say rank and world size yourself (pawl_group)");
        return PAWL_EUSAGE;
    }
    c->size = (int)size;
    c->size_from = "WORLD_SIZE";
    return PAWL_OK;
}

/* The first claim that has rank and size, else the first; NULL: there is none. */
static claim *choose_claim(claim claims[LAUNCHERS]) {
    claim *first = NULL;
    for (int i = 0; i < LAUNCHERS; i++) {
        claim *c = &claims[i];
        if (c->made && !c->of_launchers) {
            if (c->size > 0) {
                return c;
            }
            first = first != NULL ? first : c;
        }
    }
    return first;
}

/* ---- what was decided ---- */

typedef struct explanation {
    char *text;
    size_t size, n;
} explanation;

PRINTF_LIKE(2, 3) static void tell(explanation *s, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (s->n + 1 < s->size) {
        text_format(s->text + s->n, s->size - s->n, format, arguments);
        s->n += strlen(s->text + s->n);
    }
    va_end(arguments);
}

static void tell_local(explanation *s, const claim *c) {
    if (c->local_rank_from != NULL && c->local_size_from != NULL) {
        tell(s, "; on its node %d of %d (%s=%d, %s=%d)", c->local_rank, c->local_size,
             c->local_rank_from, c->local_rank, c->local_size_from, c->local_size);
    } else if (c->local_rank_from != NULL) {
        tell(s, "; on its node %d (%s=%d)", c->local_rank, c->local_rank_from, c->local_rank);
    }
}

static void tell_others(explanation *s, const claim claims[LAUNCHERS], const claim *decided) {
    for (int i = 0; i < LAUNCHERS; i++) {
        const claim *c = &claims[i];
        char text[160];
        if (c->made && c != decided && c->of_launchers) {
            tell(s, "; %s started the launchers that started the ranks, this one as %s", c->name,
                 claim_text(text, c));
        } else if (c->made && c != decided) {
            tell(s, "; %s says the same: %s", c->name, claim_text(text, c));
        }
    }
}

static void tell_slurm_shell(explanation *s, const char *const *environment,
                             const claim claims[LAUNCHERS]) {
    if (!claims[BY_SLURM].made && environment_get(environment, "SLURM_JOB_ID") != NULL) {
        tell(s,
             "; Slurm's variables describe its job only: none of its steps launched this process");
    }
}

static void tell_all(pawl_group_found *found, const char *const *environment,
                     const claim claims[LAUNCHERS], const claim *decided, const claim *local) {
    explanation s = {.text = found->text, .size = sizeof found->text};
    char text[160];
    if (decided == NULL) {
        tell(&s, "one process: the environment does not say that it is a rank of a job");
    } else {
        tell(&s, "%s, as %s says", claim_text(text, decided), decided->name);
        tell_local(&s, local);
        tell_others(&s, claims, decided);
    }
    tell_slurm_shell(&s, environment, claims);
    if (found->launch[0] != '\0') {
        tell(&s, "; this start of the job is %s", found->launch);
    } else if (decided != NULL) {
        tell(&s, "; nothing names this start of the job");
    }
}

/* ---- deciding ---- */

static void fill_group(pawl_group_found *found, const claim *decided, const claim *local) {
    found->rank = decided->rank;
    found->world_size = decided->size;
    found->local_rank = local->local_rank;
    found->local_size = local->local_size;
    found->source = decided->name;
}

pawl_status group_discover(const char *const *environment, pawl_group_found *found,
                           pawl_error *err) {
    claim claims[LAUNCHERS];
    TRY(claims_read(environment, claims, err));
    claim *decided = choose_claim(claims);
    const claim *local = decided;
    *found = (pawl_group_found){
        .struct_size = sizeof *found, .world_size = 1, .local_rank = -1, .source = "none"};
    for (int i = 0; i < LAUNCHERS && decided != NULL; i++) {
        const claim *c = &claims[i];
        if (!c->made || c->of_launchers || c == decided) {
            continue;
        }
        if (!claims_agree(decided, c)) {
            return disagree(decided, c, err);
        }
        if (local->local_rank_from == NULL || local->local_size_from == NULL) {
            local = c->local_rank_from != NULL && c->local_size_from != NULL ? c : local;
        }
    }
    if (decided != NULL) {
        TRY(complete_size(environment, decided, err));
        fill_group(found, decided, local);
        launch_name(environment, claims, decided, found->launch);
    }
    tell_all(found, environment, claims, decided, local);
    return PAWL_OK;
}
