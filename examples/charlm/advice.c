/* SPDX-License-Identifier: Apache-2.0 */
/* advice: what a report of pawl advises, in the words of this command line. */
#include "advice.h"

#include <string.h>

enum { MAX_ADVICE = 16 };

/* The report names fields of pawl_restore_options; what is an option here is a table of ours. */
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
    return strcmp(a->option, b->option) == 0 && a->policy == b->policy && !a->from && !b->from;
}

static void print_remedy(FILE *to, const char *before, const pawl_remedy *remedy) {
    fprintf(to, "%s%s%s%s", before, remedy->before ? remedy->before : "",
            remedy->before ? " and pass " : "pass ", option_of(remedy));
    if (remedy->from) {
        fprintf(to, " %s=%s", remedy->from, remedy->to);
    } else if (remedy->policy != PAWL_POLICY_DEFAULT) {
        fprintf(to, "=%s", remedy->value);
    }
    fprintf(to, "%s%s\n", remedy->effect ? " to " : "", remedy->effect ? remedy->effect : "");
}

int advice_print(FILE *to, const char *before, const pawl_report *report, pawl_severity severity) {
    const pawl_remedy *printed[MAX_ADVICE];
    int count = 0;
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        for (size_t k = 0; item->severity == severity && k < item->remedy_count; k++) {
            const pawl_remedy *remedy = &item->remedies[k];
            int known = 0;
            for (int p = 0; p < count; p++) {
                known |= is_same(printed[p], remedy);
            }
            if (!known && count < MAX_ADVICE && option_of(remedy)) {
                print_remedy(to, before, remedy);
                printed[count++] = remedy;
            }
        }
    }
    return count;
}
