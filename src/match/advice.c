/* SPDX-License-Identifier: Apache-2.0 */
/* Says what to do about a refused match: what was tried together, what that leaves, and what to do
 * about the rest. */
#include "match/report.h"

#include <inttypes.h>
#include <string.h>

static bool is_error_item(const report_item *item) {
    return item->seen.severity == PAWL_SEVERITY_ERROR;
}

/* What follows the description and its "; "; NULL when nothing does. */
static const char *advice_of(const report_item *item) {
    const char *rest = item->seen.text + item->description;
    return rest[0] == ';' && rest[1] == ' ' ? rest + 2 : NULL;
}

static pawl_status add_advice(buffer *out, const char *advice, pawl_error *err) {
    TRY(buffer_append(out, "; ", out->size > 0 ? 2 : 0, err));
    return buffer_append(out, advice, strlen(advice), err);
}

/* ---- what is left --------------------------------------------------------------------------- */

/* The first error of that kind that is left. Where nothing was tried, all are. */
static const report_item *first_left(const pawl_report *report, pawl_difference difference) {
    for (size_t i = 0; i < report->count; i++) {
        const report_item *item = &report->items[i];
        if (item->seen.difference == difference && is_error_item(item) &&
            (!report->tried || item->seen.remains != 0) && advice_of(item) != NULL) {
            return item;
        }
    }
    return NULL;
}

/* One advice for each kind of difference, in the order in which one would try them. */
static pawl_status say_kinds(const pawl_report *report, buffer *out, pawl_error *err) {
    static const pawl_difference order[] = {
        PAWL_DIFF_OPTIMIZER,  PAWL_DIFF_RENAMED,        PAWL_DIFF_SHAPE, PAWL_DIFF_SLOT,
        PAWL_DIFF_DTYPE,      PAWL_DIFF_KIND,           PAWL_DIFF_RANKS, PAWL_DIFF_MISSING,
        PAWL_DIFF_UNEXPECTED, PAWL_DIFF_HYPERPARAMETER, PAWL_DIFF_BATCH,
    };
    const char *said[ARRAY_LENGTH(order)] = {NULL};
    size_t count = 0;
    bool optimizer = false;
    for (size_t i = 0; i < ARRAY_LENGTH(order); i++) {
        const report_item *item = first_left(report, order[i]);
        bool again = item == NULL || (optimizer && order[i] == PAWL_DIFF_SLOT);
        for (size_t k = 0; k < count && !again; k++) {
            again = strcmp(said[k], advice_of(item)) == 0;
        }
        if (again) {
            continue; /* another optimizer has other slots: one advice for both */
        }
        said[count++] = advice_of(item);
        TRY(add_advice(out, advice_of(item), err));
        optimizer = optimizer || order[i] == PAWL_DIFF_OPTIMIZER;
    }
    return PAWL_OK;
}

static const report_item *first_that_remains(const pawl_report *report) {
    for (size_t i = 0; i < report->count; i++) {
        if (is_error_item(&report->items[i]) && report->items[i].seen.remains != 0) {
            return &report->items[i];
        }
    }
    return NULL;
}

/* Where it is not all: nobody should follow an advice that leaves nearly all as it is, unsaid. */
static pawl_status say_restored(const pawl_report *r, buffer *out, pawl_error *err) {
    bool little = 2 * r->model_stay > r->model;
    if (r->stay == 0) {
        return PAWL_OK;
    }
    TRY(buffer_printf(out, err,
                      " %s%" PRIu64 " of the state's %" PRIu64 " entries, and %" PRIu64 " %s",
                      little ? "only " : "", r->all - r->stay, r->all, r->stay,
                      text_noun(r->stay, "stays as it is", "stay as they are")));
    return !little ? PAWL_OK
                   : buffer_printf(out, err, ", %" PRIu64 " of the model's %" PRIu64 " among them",
                                   r->model_stay, r->model);
}

/* `with`: "this", "these". */
static pawl_status say_what_remains(const pawl_report *report, const char *with, buffer *out,
                                    pawl_error *err) {
    const pawl_report_advice *advice = &report->advice;
    const report_item *first = first_that_remains(report);
    if (advice->remain == 0) {
        TRY(buffer_printf(out, err, "; with %s it restores", with));
        return say_restored(report, out, err);
    }
    if (advice->remain < 0) {
        return PAWL_OK;
    }
    TRY(buffer_printf(out, err, "; then %" PRId64 " difference%s remain%s", advice->remain,
                      advice->remain == 1 ? "" : "s", advice->remain == 1 ? "s" : ""));
    return first == NULL
               ? PAWL_OK
               : buffer_printf(out, err, ", %s of \"%s\"",
                               advice->remain == 1 ? "that" : "first that", first->seen.name);
}

/* ---- what was tried ------------------------------------------------------------------------- */

static bool is_part(const pawl_report_advice *advice, const pawl_remedy *remedy) {
    for (size_t i = 0; i < advice->remedy_count; i++) {
        if (advice->remedies[i] == remedy) {
            return true;
        }
    }
    return false;
}

static bool is_tried_rename(const pawl_report *report, const pawl_report_item *item) {
    return item->severity == PAWL_SEVERITY_NOTE &&
           (!report->tried ||
            (item->remedy_count > 0 && is_part(&report->advice, item->remedies[0])));
}

/* The first rename that is among what was tried, or the first that is not: a question. */
static pawl_status say_renamed(const pawl_report *report, bool tried, bool *cast, buffer *out,
                               pawl_error *err) {
    uint64_t more = 0;
    bool told = false;
    for (size_t i = 0; i < report->count; i++) {
        const pawl_report_item *item = &report->items[i].seen;
        if (item->difference != PAWL_DIFF_RENAMED || is_error_item(&report->items[i]) ||
            is_tried_rename(report, item) != tried) {
            continue;
        }
        more += told;
        if (!told) {
            TRY(add_advice(out, item->text, err));
        }
        told = true;
        *cast = *cast ||
                (item->remedy_count > 0 && item->remedies[item->remedy_count - 1]->from == NULL);
    }
    return more == 0 || !tried
               ? PAWL_OK
               : buffer_printf(out, err,
                               "; and the rules of the %" PRIu64 " more renames of the report",
                               more);
}

/* An error that the advice allows, and that is not gone by a rename alone. */
static bool is_allowed(const report_item *item) {
    return is_error_item(item) && item->seen.remains == 0 && item->seen.remedy_count > 0;
}

/* Where one option is advised, and all that it allows offers the same: that, in its own words, with
 * the options that do as well. NULL: it is not so. */
static const report_item *all_alike(const pawl_report *report) {
    const report_item *first = NULL;
    const pawl_report_advice *advice = &report->advice;
    if (advice->remedy_count != 1 || advice->remedies[0]->from != NULL) {
        return NULL;
    }
    for (size_t i = 0; i < report->count; i++) {
        const report_item *item = &report->items[i];
        if (is_allowed(item)) {
            first = first == NULL ? item : first;
            if (item->seen.remedies != first->seen.remedies) {
                return NULL;
            }
        }
    }
    for (size_t k = 0; first != NULL && k < first->seen.remedy_count; k++) {
        if (first->seen.remedies[k]->remain != advice->remain) {
            return NULL;
        }
    }
    return first;
}

/* What else than an option would do, of the first that has it: "restore with as many ranks". */
static const char *first_change(const pawl_report *report) {
    for (size_t i = 0; i < report->count; i++) {
        if (is_allowed(&report->items[i]) && report->items[i].seen.change != NULL) {
            return report->items[i].seen.change;
        }
    }
    return NULL;
}

static pawl_status say_options(const pawl_report *report, bool cast, buffer *out, pawl_error *err) {
    const char *change = first_change(report);
    const char *comma = out->size > 0 ? "; " : "";
    for (size_t i = 0; i < report->advice.remedy_count; i++) {
        const pawl_remedy *remedy = report->advice.remedies[i];
        if (remedy->from != NULL || (cast && strcmp(remedy->option, "cast") == 0)) {
            continue; /* said with the rules */
        }
        TRY(buffer_append(out, comma, strlen(comma), err));
        if (change != NULL) {
            TRY(buffer_printf(out, err, "%s, or ", change));
            change = NULL;
        }
        TRY(sentence_option(remedy, out, err));
        comma = ", and ";
    }
    return PAWL_OK;
}

static pawl_status say_tried(const pawl_report *report, bool cast, buffer *out, pawl_error *err) {
    const report_item *alike = all_alike(report);
    if (report->advice.remedy_count == 0) {
        return PAWL_OK;
    }
    if (alike != NULL) {
        TRY(add_advice(out, advice_of(alike), err));
        return say_what_remains(report, alike->seen.remedy_count == 1 ? "this" : "one of these",
                                out, err);
    }
    TRY(say_options(report, cast, out, err));
    return say_what_remains(report, report->advice.remedy_count == 1 ? "this" : "these", out, err);
}

/* Is it asked whether entries were renumbered? Then what was tried is for those who say no. */
static bool asks_for_numbers(const pawl_report *report) {
    for (size_t i = 0; i < report->count; i++) {
        const pawl_report_item *item = &report->items[i].seen;
        if (item->difference == PAWL_DIFF_RENAMED && item->severity == PAWL_SEVERITY_WARNING &&
            item->remedy_count > 0) {
            return true;
        }
    }
    return false;
}

pawl_status report_next(const pawl_report *report, buffer *out, pawl_error *err) {
    bool cast = false;
    bool asked = false;
    CLEANUP(buffer_free) buffer tried = {0};
    TRY(say_renamed(report, false, &asked, out, err));
    bool otherwise = out->size > 0 && asks_for_numbers(report);
    TRY(say_renamed(report, true, &cast, out, err));
    TRY(say_tried(report, cast, &tried, err));
    if (tried.size > 0) {
        const char *none = tried.data[0] == ';' ? "" : "; "; /* after rules: what remains */
        TRY(buffer_printf(out, err, "%s%s%s", out->size > 0 ? none : "",
                          otherwise ? "if they were not, " : "", (const char *)tried.data));
    }
    bool more = report->advice.remedy_count > 0 && report->advice.remain > 0;
    size_t before = out->size;
    TRY(say_kinds(report, out, err));
    if (more && out->size > before) {
        out->data[before] = ':'; /* "..., that of "a": build the model ..." */
    }
    return PAWL_OK;
}
