/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a refused match an error: how many differences, the first few, and what to do. */
#include "match/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_DIFFERENCES 3
#define SHOWN_BYTES       260 /* of each, so that all fit err->attempt */

static bool is_kept_error(const report_item *item) {
    return item->seen.severity == PAWL_SEVERITY_ERROR;
}

/* Text that grows in an array, and is cut at its end. */
typedef struct line {
    char *text;
    size_t size, length;
} line;

/* At most `most` bytes of the text. */
static void line_add(line *l, const char *text, size_t n, size_t most) {
    char part[PAWL_MAX_NAME_BYTES];
    bool fits = n <= most && n < sizeof(part);
    size_t size = most < sizeof(part) ? most + 1 : sizeof(part);
    size_t taken = fits ? n : size - 1;
    memcpy(part, text, taken);
    part[taken] = '\0';
    if (!fits) {
        text_cut(part, size);
    }
    int written = snprintf(l->text + l->length, l->size - l->length, "%s", part);
    l->length += (size_t)written;
    if (l->length >= l->size) {
        text_cut(l->text, l->size);
        l->length = l->size - 1;
    }
}

static void add_description(line *l, const report_item *item, int *shown) {
    line_add(l, *shown == 0 ? ": " : "; ", 2, 2);
    line_add(l, item->seen.text, item->description, SHOWN_BYTES);
    ++*shown;
}

/* A changed optimizer first: it is why its slots differ. */
static void add_differences(line *l, const pawl_report *report) {
    int shown = 0;
    for (int first = 1; first >= 0; first--) {
        for (size_t i = 0; i < report->count && shown < SHOWN_DIFFERENCES; i++) {
            const report_item *item = &report->items[i];
            bool optimizer = item->seen.difference == PAWL_DIFF_OPTIMIZER;
            if (is_kept_error(item) && optimizer == (first == 1)) {
                add_description(l, item, &shown);
            }
        }
    }
    uint64_t more = report->found[PAWL_SEVERITY_ERROR] - (uint64_t)shown;
    if (more > 0) {
        char text[48];
        int n = snprintf(text, sizeof(text), "; and %" PRIu64 " more", more);
        line_add(l, text, (size_t)n, sizeof(text));
    }
}

pawl_status match_error(const pawl_report *report, pawl_error *err) {
    char differences[sizeof(err->attempt)] = "";
    line found = {.text = differences, .size = sizeof(differences)};
    CLEANUP(buffer_free) buffer next = {0};
    uint64_t count = report->found[PAWL_SEVERITY_ERROR];
    add_differences(&found, report);
    if (report_next(report, &next, err) != PAWL_OK) {
        return err->status;
    }
    if (report->step >= 0) {
        error_set(err, PAWL_EMISMATCH,
                  "checkpoint step %" PRId64 " and the state differ in %" PRIu64 " place%s%s",
                  report->step, count, count == 1 ? "" : "s", differences);
        error_step(err, report->step);
    } else {
        error_set(err, PAWL_EMISMATCH,
                  "the checkpoint and the state differ in %" PRIu64 " place%s%s", count,
                  count == 1 ? "" : "s", differences);
    }
    error_safe(err, "nothing was restored: the state is as it was");
    error_next(err, "%s", next.size > 0 ? (const char *)next.data : "");
    return PAWL_EMISMATCH;
}
