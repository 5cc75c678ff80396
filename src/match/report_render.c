/* SPDX-License-Identifier: Apache-2.0 */
/* Renders a report: lines for people, one JSON object for programs. */
#include "match/report.h"

#include <inttypes.h>
#include <string.h>

/* ---- for people ----------------------------------------------------------------------------- */

static pawl_status write_restored(const pawl_report *report, buffer *out, pawl_error *err) {
    const pawl_report_counts *c = &report->counts;
    char bytes[32];
    if (report->step >= 0) {
        TRY(buffer_printf(out, err, "step %" PRId64 ": ", report->step));
    }
    TRY(buffer_printf(out, err, "restored %" PRIu64 " %s (%s), kept %" PRIu64 ", left out %" PRIu64,
                      c->restored, c->restored == 1 ? "entry" : "entries",
                      text_bytes(bytes, c->bytes), c->kept, c->ignored));
    if (c->cast > 0) {
        TRY(buffer_printf(out, err, ", converted %" PRIu64, c->cast));
    }
    if (c->cast_overflows > 0) {
        TRY(buffer_printf(
            out, err, ", of which %" PRIu64 " %s too large for the new dtype and became infinite",
            c->cast_overflows, c->cast_overflows == 1 ? "value was" : "values were"));
    }
    return buffer_printf(out, err, "\n");
}

static pawl_status write_number_of(buffer *out, uint64_t n, const char *what, const char *comma,
                                   pawl_error *err) {
    if (n == 0) {
        return PAWL_OK;
    }
    return buffer_printf(out, err, "%s%" PRIu64 " %s%s", comma, n, what, n == 1 ? "" : "s");
}

/* "3 errors, 1 warning". */
static pawl_status write_numbers(buffer *out, const uint64_t *numbers, pawl_error *err) {
    const char *comma = "";
    for (int i = PAWL_SEVERITY_ERROR; i >= PAWL_SEVERITY_NOTE; i--) {
        TRY(write_number_of(out, numbers[i], severity_name((pawl_severity)i), comma, err));
        comma = numbers[i] > 0 ? ", " : comma;
    }
    return PAWL_OK;
}

static pawl_status write_first_line(const pawl_report *report, buffer *out, pawl_error *err) {
    bool fits = report->found[PAWL_SEVERITY_ERROR] == 0;
    if (fits && !report->chosen) {
        return buffer_printf(out, err, "no checkpoint was restored\n");
    }
    if (fits && !report->fits_not_all) {
        return write_restored(report, out, err);
    }
    if (report->step >= 0) {
        TRY(buffer_printf(out, err, "step %" PRId64 ": ", report->step));
    }
    TRY(buffer_printf(out, err, "nothing was restored: "));
    if (fits) {
        TRY(buffer_printf(out, err, "the state of another rank does not fit"));
    } else {
        TRY(write_numbers(out, report->found, err));
    }
    return buffer_printf(out, err, "\n");
}

static pawl_status write_items(const pawl_report *report, pawl_severity severity, buffer *out,
                               pawl_error *err) {
    for (size_t i = 0; i < report->count; i++) {
        const pawl_report_item *item = &report->items[i].seen;
        if (item->severity == severity) {
            TRY(buffer_printf(out, err, "%s: ", severity_name(severity)));
            TRY(buffer_append(out, item->text, strlen(item->text), err));
            TRY(buffer_append(out, "\n", 1, err));
        }
    }
    return PAWL_OK;
}

/* *any: are there items that were only counted? */
static void count_unlisted(const pawl_report *report, uint64_t *unlisted, bool *any) {
    *any = false;
    for (int i = 0; i < REPORT_SEVERITIES; i++) {
        unlisted[i] = report->found[i] - report->kept[i];
        *any = *any || unlisted[i] > 0;
    }
}

static pawl_status write_report_text(const pawl_report *report, buffer *out, pawl_error *err) {
    TRY(write_first_line(report, out, err));
    for (size_t i = 0; i < report->fallback_count; i++) {
        const report_fallback *fallback = &report->fallbacks[i];
        TRY(buffer_printf(out, err, "passed over step %" PRId64 ": ", fallback->step));
        TRY(buffer_append(out, fallback->why, strlen(fallback->why), err));
        TRY(buffer_append(out, "\n", 1, err));
    }
    for (int i = PAWL_SEVERITY_ERROR; i >= PAWL_SEVERITY_NOTE; i--) {
        TRY(write_items(report, (pawl_severity)i, out, err));
    }
    uint64_t unlisted[REPORT_SEVERITIES];
    bool any = false;
    count_unlisted(report, unlisted, &any);
    if (any) {
        TRY(buffer_printf(out, err, "and more that are counted, but not listed: "));
        TRY(write_numbers(out, unlisted, err));
        TRY(buffer_append(out, "\n", 1, err));
    }
    /* A text for people ends without a newline, as error texts do. */
    out->data[--out->size] = '\0';
    return PAWL_OK;
}

/* ---- for programs --------------------------------------------------------------------------- */

static pawl_status write_member(buffer *out, const char *key, const char *text, pawl_error *err) {
    TRY(buffer_printf(out, err, ",\"%s\":", key));
    if (text == NULL) {
        return buffer_append(out, "null", 4, err);
    }
    return buffer_json_shown(out, text, strlen(text), err);
}

static pawl_status write_json_remedy(const pawl_remedy *remedy, buffer *out, pawl_error *err) {
    TRY(buffer_printf(out, err, "{\"option\":\"%s\"", remedy->option));
    TRY(write_member(out, "value", remedy->value, err));
    TRY(write_member(out, "from", remedy->from, err));
    TRY(write_member(out, "to", remedy->to, err));
    TRY(write_member(out, "before", remedy->before, err));
    TRY(write_member(out, "effect", remedy->effect, err));
    return buffer_printf(out, err, ",\"remain\":%" PRId64 "}", remedy->remain);
}

static pawl_status write_json_remedies(const pawl_remedy *const *remedies, size_t count,
                                       buffer *out, pawl_error *err) {
    TRY(buffer_printf(out, err, "\"remedies\":["));
    for (size_t i = 0; i < count; i++) {
        TRY(buffer_append(out, ",", i > 0, err));
        TRY(write_json_remedy(remedies[i], out, err));
    }
    return buffer_append(out, "]", 1, err);
}

static pawl_status write_json_advice(const pawl_report_item *item, buffer *out, pawl_error *err) {
    TRY(write_member(out, "description", item->description, err));
    TRY(write_member(out, "change", item->change, err));
    TRY(buffer_append(out, ",", 1, err));
    TRY(write_json_remedies(item->remedies, item->remedy_count, out, err));
    TRY(write_member(out, "saved_as", item->saved_as, err));
    return buffer_printf(out, err, ",\"remains\":%s", item->remains != 0 ? "true" : "false");
}

static pawl_status write_json_item(const pawl_report_item *item, buffer *out, pawl_error *err) {
    TRY(buffer_printf(out, err, "{\"difference\":\"%s\",\"severity\":\"%s\"",
                      difference_name(item->difference), severity_name(item->severity)));
    TRY(write_member(out, "name", item->name, err));
    TRY(write_member(out, "other_name", item->other_name, err));
    TRY(write_member(out, "checkpoint", item->checkpoint, err));
    TRY(write_member(out, "state", item->state, err));
    TRY(buffer_printf(out, err, ",\"dimension\":%d,\"count\":%" PRIu64, item->dimension,
                      item->count));
    TRY(write_member(out, "text", item->text, err));
    TRY(write_json_advice(item, out, err));
    return buffer_append(out, "}", 1, err);
}

static pawl_status write_json_numbers(buffer *out, const char *key, const uint64_t *numbers,
                                      pawl_error *err) {
    return buffer_printf(
        out, err, ",\"%s\":{\"errors\":%" PRIu64 ",\"warnings\":%" PRIu64 ",\"notes\":%" PRIu64 "}",
        key, numbers[PAWL_SEVERITY_ERROR], numbers[PAWL_SEVERITY_WARNING],
        numbers[PAWL_SEVERITY_NOTE]);
}

static pawl_status write_json_totals(const pawl_report *report, buffer *out, pawl_error *err) {
    const pawl_report_counts *c = &report->counts;
    uint64_t unlisted[REPORT_SEVERITIES];
    bool any = false;
    count_unlisted(report, unlisted, &any);
    TRY(buffer_printf(out, err,
                      "{\"step\":%" PRId64 ",\"totals\":{\"restored\":%" PRIu64 ",\"kept\":%" PRIu64
                      ",\"ignored\":%" PRIu64 ",\"cast\":%" PRIu64 ",\"cast_overflows\":%" PRIu64
                      ",\"bytes\":%" PRIu64 ",\"fallbacks\":%" PRIu64 "}",
                      report->step, c->restored, c->kept, c->ignored, c->cast, c->cast_overflows,
                      c->bytes, c->fallbacks));
    TRY(write_json_numbers(out, "found", report->found, err));
    return write_json_numbers(out, "unlisted", unlisted, err);
}

/* What is to be asked for together; null where nothing was tried. */
static pawl_status write_json_next(const pawl_report *report, buffer *out, pawl_error *err) {
    if (!report->tried) {
        return buffer_append(out, "null", 4, err);
    }
    TRY(buffer_append(out, "{", 1, err));
    TRY(write_json_remedies(report->advice.remedies, report->advice.remedy_count, out, err));
    return buffer_printf(out, err, ",\"remain\":%" PRId64 "}", report->advice.remain);
}

static pawl_status write_report_json(const pawl_report *report, buffer *out, pawl_error *err) {
    TRY(write_json_totals(report, out, err));
    TRY(buffer_printf(out, err, ",\"passed_over\":["));
    for (size_t i = 0; i < report->fallback_count; i++) {
        const report_fallback *fallback = &report->fallbacks[i];
        TRY(buffer_printf(out, err, "%s{\"step\":%" PRId64, i > 0 ? "," : "", fallback->step));
        TRY(write_member(out, "why", fallback->why, err));
        TRY(buffer_append(out, "}", 1, err));
    }
    TRY(buffer_printf(out, err, "],\"next\":"));
    TRY(write_json_next(report, out, err));
    TRY(buffer_printf(out, err, ",\"items\":["));
    for (size_t i = 0; i < report->count; i++) {
        TRY(buffer_append(out, ",", i > 0, err));
        TRY(write_json_item(&report->items[i].seen, out, err));
    }
    return buffer_append(out, "]}", 2, err);
}

pawl_status report_finish(pawl_report *report, pawl_error *err) {
    report->text.size = 0;
    report->json.size = 0;
    TRY(write_report_text(report, &report->text, err));
    return write_report_json(report, &report->json, err);
}
