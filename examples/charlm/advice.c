/* SPDX-License-Identifier: Apache-2.0 */
/* advice: what a report of pawl advises, in the words of this command line. */
#include "advice.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_ADVICE = 16 }; /* options with their values; rename rules are not counted */

/* The report names fields of pawl_restore_options; this table has the command-line option for
 * each. */
static const struct {
    const char *field, *option;
} OPTIONS[] = {{"missing", "--missing"},   {"unexpected", "--unexpected"},
               {"cast", "--cast"},         {"hyperparameter", "--hyperparameter"},
               {"per_rank", "--per-rank"}, {"model_only", "--model-only"},
               {"renames", "--rename"}};

static const char *option_of(const pawl_remedy *remedy) {
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        if (strcmp(remedy->option, OPTIONS[i].field) == 0) {
            return OPTIONS[i].option;
        }
    }
    return NULL;
}

static int is_same(const pawl_remedy *a, const pawl_remedy *b) {
    return strcmp(a->option, b->option) == 0 && a->policy == b->policy;
}

static void print_option(FILE *to, const pawl_remedy *remedy) {
    fprintf(to, "%s", option_of(remedy));
    if (remedy->from) {
        fprintf(to, " %s=%s", remedy->from, remedy->to);
    } else if (remedy->policy != PAWL_POLICY_DEFAULT) {
        fprintf(to, "=%s", remedy->value);
    }
}

static void print_remedy(FILE *to, const char *before, const pawl_remedy *remedy) {
    fprintf(to, "%s%s%s", before, remedy->before ? remedy->before : "",
            remedy->before ? " and pass " : "pass ");
    print_option(to, remedy);
    fprintf(to, "%s%s\n", remedy->effect ? " to " : "", remedy->effect ? remedy->effect : "");
}

/* All rename rules are printed: each is different, and a difference needs all of its rules. */
static int print_item(FILE *to, const char *before, const pawl_report_item *item,
                      const pawl_remedy **printed, int *known) {
    int lines = 0;
    for (size_t k = 0; k < item->remedy_count; k++) {
        const pawl_remedy *remedy = item->remedies[k];
        int skip = !option_of(remedy) || (!remedy->from && *known == MAX_ADVICE);
        for (int p = 0; !remedy->from && p < *known; p++) {
            skip |= is_same(printed[p], remedy);
        }
        if (!skip) {
            print_remedy(to, before, remedy);
            lines++;
        }
        if (!skip && !remedy->from) {
            printed[(*known)++] = remedy;
        }
    }
    return lines;
}

int advice_print(FILE *to, const char *before, const pawl_report *report, pawl_severity severity) {
    const pawl_remedy *printed[MAX_ADVICE];
    int known = 0;
    int count = 0;
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        if (item->severity != severity) {
            continue;
        }
        if (item->difference == PAWL_DIFF_RENAMED && severity == PAWL_SEVERITY_WARNING) {
            /* the condition under which the rules are right */
            fprintf(to, "%s%s%s\n", before, item->change, item->remedy_count > 0 ? ":" : "");
        }
        count += print_item(to, before, item, printed, &known);
    }
    return count;
}

void advice_print_together(FILE *to, const char *before, const pawl_report *report) {
    const pawl_report_advice *next = pawl_report_next(report);
    if (!next || next->remedy_count == 0 || next->remain < 0) {
        return; /* nothing was tried, or other ranks have states that nobody asked */
    }
    for (size_t i = 0; i < next->remedy_count; i++) {
        if (!option_of(next->remedies[i])) {
            return;
        }
    }
    fprintf(to, "%swith ", before);
    for (size_t i = 0; i < next->remedy_count; i++) {
        fprintf(to, "%s", i == 0 ? "" : i + 1 < next->remedy_count ? ", " : " and ");
        print_option(to, next->remedies[i]);
    }
    if (next->remain == 0) {
        fprintf(to, " it resumes\n");
    } else {
        fprintf(to, " %" PRId64 " difference%s\n", next->remain,
                next->remain == 1 ? " remains" : "s remain");
    }
}
