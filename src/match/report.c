/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the differences between a checkpoint and a state as data; report_render.c makes text of
 * them. */
#include "match/report.h"
#include "match/remedy.h"

#include <string.h>

pawl_status report_new(pawl_report **out, pawl_error *err) {
    pawl_report *report = mem_calloc(1, sizeof(*report));
    if (report == NULL) {
        return error_nomem(err, sizeof(*report));
    }
    report->step = -1;
    *out = report;
    return PAWL_OK;
}

void pawl_report_free(pawl_report *report) {
    if (report == NULL) {
        return;
    }
    mem_free(report->items);
    mem_free(report->fallbacks);
    buffer_free(&report->sentence);
    buffer_free(&report->text);
    buffer_free(&report->json);
    arena_free(&report->memory);
    mem_free(report);
}

/* NULL stays NULL. */
static pawl_status keep_report_text(pawl_report *report, const char *text, const char **out,
                                    pawl_error *err) {
    *out = NULL;
    if (text != NULL) {
        *out = arena_strdup(&report->memory, text);
        if (*out == NULL) {
            return error_nomem(err, strlen(text) + 1);
        }
    }
    return PAWL_OK;
}

/* The item's remedies need no copy. */
static pawl_status keep_report_item(pawl_report *report, const pawl_report_item *item,
                                    const char *text, size_t description, pawl_error *err) {
    TRY(vec_reserve(&report->items, &report->capacity, report->count + 1, sizeof(*report->items),
                    err));
    report_item *kept = &report->items[report->count];
    *kept = (report_item){.seen = *item, .description = description};
    kept->seen.struct_size = sizeof(kept->seen);
    char *alone = arena_take(&report->memory, description + 1, err);
    if (alone == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(alone, text, description);
    alone[description] = '\0';
    kept->seen.description = alone;
    TRY(keep_report_text(report, item->name, &kept->seen.name, err));
    TRY(keep_report_text(report, item->other_name, &kept->seen.other_name, err));
    TRY(keep_report_text(report, item->checkpoint, &kept->seen.checkpoint, err));
    TRY(keep_report_text(report, item->state, &kept->seen.state, err));
    TRY(keep_report_text(report, item->saved_as, &kept->seen.saved_as, err));
    TRY(keep_report_text(report, text, &kept->seen.text, err));
    report->count++;
    return PAWL_OK;
}

static pawl_status describe_and_keep(pawl_report *report, const pawl_report_item *item,
                                     const sentence_facts *facts, pawl_error *err) {
    if (item->text != NULL) {
        return keep_report_item(report, item, item->text, strlen(item->text), err);
    }
    pawl_report_item whole = *item;
    size_t description = 0;
    report->sentence.size = 0;
    TRY(remedy_find(&whole, facts, &report->memory, err));
    TRY(sentence_write(&whole, facts, &report->sentence, &description, err));
    return keep_report_item(report, &whole, (const char *)report->sentence.data, description, err);
}

pawl_status report_add_facts(pawl_report *report, const pawl_report_item *item,
                             const sentence_facts *facts, pawl_error *err) {
    if (item->severity < PAWL_SEVERITY_NOTE || item->severity > PAWL_SEVERITY_ERROR ||
        item->difference < PAWL_DIFF_SHAPE || item->difference > PAWL_DIFF_RANKS) {
        return error_set(err, PAWL_EINTERNAL, "a report has no difference %d of severity %d",
                         (int)item->difference, (int)item->severity);
    }
    if (report->kept_of_kind[item->difference] < REPORT_MAX_ITEMS) {
        TRY(describe_and_keep(report, item, facts, err));
        report->kept[item->severity]++;
        report->kept_of_kind[item->difference]++;
    }
    report->found[item->severity]++;
    report->errors_of_kind[item->difference] += item->severity == PAWL_SEVERITY_ERROR;
    return PAWL_OK;
}

pawl_status report_say_again(pawl_report *report, size_t i, pawl_error *err) {
    report_item *item = &report->items[i];
    report->sentence.size = 0;
    TRY(buffer_append(&report->sentence, item->seen.description, item->description, err));
    TRY(sentence_advise(&item->seen, &report->sentence, err));
    return keep_report_text(report, (const char *)report->sentence.data, &item->seen.text, err);
}

void report_drop(pawl_report *report, size_t i) {
    const pawl_report_item *item = &report->items[i].seen;
    report->found[item->severity]--;
    report->kept[item->severity]--;
    report->kept_of_kind[item->difference]--;
    report->count--;
    memmove(&report->items[i], &report->items[i + 1], (report->count - i) * sizeof(*report->items));
}

pawl_status report_add(pawl_report *report, const pawl_report_item *item, pawl_error *err) {
    static const sentence_facts none;
    return report_add_facts(report, item, &none, err);
}

pawl_report_counts *report_counts(pawl_report *report) {
    return &report->counts;
}

void report_set_step(pawl_report *report, int64_t step) {
    report->step = step;
    report->chosen = step >= 0;
}

void report_set_no_step(pawl_report *report) {
    report->step = -1;
    report->chosen = true;
}

void report_set_fits_not_all(pawl_report *report) {
    report->fits_not_all = true;
}

pawl_status report_add_fallback(pawl_report *report, int64_t step, const char *why,
                                pawl_error *err) {
    TRY(vec_reserve(&report->fallbacks, &report->fallback_capacity, report->fallback_count + 1,
                    sizeof(*report->fallbacks), err));
    report_fallback *fallback = &report->fallbacks[report->fallback_count];
    fallback->step = step;
    TRY(keep_report_text(report, why, &fallback->why, err));
    report->fallback_count++;
    report->counts.fallbacks++;
    return PAWL_OK;
}

size_t pawl_report_count(const pawl_report *report) {
    return report != NULL ? report->count : 0;
}

const pawl_report_item *pawl_report_get(const pawl_report *report, size_t i) {
    return i < pawl_report_count(report) ? &report->items[i].seen : NULL;
}

const pawl_report_advice *pawl_report_next(const pawl_report *report) {
    return report != NULL && report->tried ? &report->advice : NULL;
}

int64_t pawl_report_step(const pawl_report *report) {
    return report != NULL ? report->step : -1;
}

pawl_report_counts report_totals(const pawl_report *report) {
    return report->counts;
}

/* "" until report_finish. */
const char *pawl_report_text(const pawl_report *report) {
    return report == NULL || report->text.data == NULL ? "" : (const char *)report->text.data;
}

const char *pawl_report_json(const pawl_report *report) {
    return report == NULL || report->json.data == NULL ? "" : (const char *)report->json.data;
}
