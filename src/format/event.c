/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event: one line of events.jsonl, a JSON object. docs/format.md lists its members.
 *
 * Texts are cut so that the longest line stays below FORMAT_MAX_EVENT_WRITTEN whatever they hold.
 * Numbers with a fraction are put together from integers: printf's follow the locale of the
 * process.
 */
#include "format/event.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND_NS       1000000000
#define MICRO           1000000u
#define MESSAGE_BYTES   1536u /* as they stand in the line, escapes counted */
#define WHY_BYTES       320u
#define SHOWN_FALLBACKS 4u
#define LARGEST_DECIMAL 9e9
/* In microseconds, added before decimals are cut off. They are not rounded, so that the parts of a
 * time add up to no more than the time in the file, too. No whole number of nanoseconds is so near
 * to the next microsecond. */
#define CUT 5e-4

static const char *const kind_names[] = {
    [PAWL_EVENT_SAVE_BEGUN] = "save_begun",
    [PAWL_EVENT_SAVE_PROGRESS] = "save_progress",
    [PAWL_EVENT_SAVE_ENDED] = "save_ended",
    [PAWL_EVENT_RESTORED] = "restored",
};

/* ---- writing -------------------------------------------------------------------------------- */

static pawl_status put_event_key(buffer *out, const char *key, pawl_error *err) {
    const char *comma = out->size > 0 && out->data[out->size - 1] == '{' ? "" : ",";
    return buffer_printf(out, err, "%s\"%s\":", comma, key);
}

static pawl_status put_integer(buffer *out, const char *key, int64_t value, pawl_error *err) {
    TRY(put_event_key(out, key, err));
    return buffer_printf(out, err, "%lld", (long long)value);
}

static pawl_status put_count(buffer *out, const char *key, uint64_t value, pawl_error *err) {
    TRY(put_event_key(out, key, err));
    return buffer_printf(out, err, "%llu", (unsigned long long)value);
}

static pawl_status put_decimal(buffer *out, const char *key, double value, pawl_error *err) {
    double bounded = value > 0 ? value : 0; /* also for NaN */
    bounded = bounded < LARGEST_DECIMAL ? bounded : LARGEST_DECIMAL;
    uint64_t micro = (uint64_t)(bounded * MICRO + CUT);
    TRY(put_event_key(out, key, err));
    return buffer_printf(out, err, "%llu.%06llu", (unsigned long long)(micro / MICRO),
                         (unsigned long long)(micro % MICRO));
}

static pawl_status put_cut_text(buffer *out, const char *key, const char *text, size_t limit,
                                pawl_error *err) {
    size_t n = strlen(text);
    size_t put = 0;
    TRY(put_event_key(out, key, err));
    TRY(buffer_append(out, "\"", 1, err));
    for (size_t at = 0, taken = 0; at < n; at += taken) {
        char escaped[JSON_CHARACTER_BYTES];
        size_t length = json_character(escaped, text + at, n - at, &taken);
        if (put + length > limit) {
            TRY(buffer_append(out, "...", 3, err));
            break;
        }
        TRY(buffer_append(out, escaped, length, err));
        put += length;
    }
    return buffer_append(out, "\"", 1, err);
}

static pawl_status put_object(buffer *out, const char *key, pawl_error *err) {
    TRY(put_event_key(out, key, err));
    return buffer_append(out, "{", 1, err);
}

static pawl_status put_end(buffer *out, pawl_error *err) {
    return buffer_append(out, "}", 1, err);
}

/* For people who read the file; programs have "unix_time_ns". */
static pawl_status put_time(buffer *out, int64_t unix_time_ns, pawl_error *err) {
    char whole[32];
    char text[40];
    struct tm utc;
    time_t seconds = (time_t)(unix_time_ns / SECOND_NS);
    if (unix_time_ns < 0 || gmtime_r(&seconds, &utc) == NULL ||
        strftime(whole, sizeof(whole), "%Y-%m-%dT%H:%M:%S", &utc) == 0) {
        return PAWL_OK;
    }
    (void)snprintf(text, sizeof(text), "%s.%03dZ", whole, (int)(unix_time_ns % SECOND_NS / MICRO));
    return put_cut_text(out, "time", text, sizeof(text), err);
}

static pawl_status put_outcome(buffer *out, const pawl_event *event, pawl_error *err) {
    const char *status = pawl_status_name(event->status);
    TRY(put_cut_text(out, "status", status, MESSAGE_BYTES, err));
    return event->message != NULL ? put_cut_text(out, "message", event->message, MESSAGE_BYTES, err)
                                  : PAWL_OK;
}

static pawl_status put_speed(buffer *out, const pawl_event *event, pawl_error *err) {
    double speed = event->seconds > 0 ? (double)event->done_bytes / 1e9 / event->seconds : 0;
    TRY(put_decimal(out, "seconds", event->seconds, err));
    return put_decimal(out, "gb_per_s", speed, err);
}

static pawl_status put_stats(buffer *out, const pawl_save_stats *s, pawl_error *err) {
    TRY(put_count(out, "files", s->files, err));
    TRY(put_cut_text(out, "io", s->io != NULL ? s->io : "", WHY_BYTES, err));
    TRY(put_count(out, "retries", s->retries, err));
    TRY(put_object(out, "phases", err));
    TRY(put_decimal(out, "prepare_s", s->prepare_s, err));
    TRY(put_decimal(out, "write_s", s->write_s, err));
    TRY(put_decimal(out, "sync_s", s->sync_s, err));
    TRY(put_decimal(out, "commit_s", s->commit_s, err));
    if (s->group_wait_s > 0) { /* of many ranks */
        TRY(put_decimal(out, "group_wait_s", s->group_wait_s, err));
    }
    TRY(put_end(out, err));
    TRY(put_decimal(out, "tidy_s", s->tidy_s, err));
    TRY(put_object(out, "stall", err));
    TRY(put_decimal(out, "busy_wait_s", s->busy_wait_s, err));
    TRY(put_decimal(out, "fence_copy_s", s->fence_copy_s, err));
    TRY(put_decimal(out, "fence_wait_s", s->fence_wait_s, err));
    TRY(put_count(out, "fence_copied_bytes", s->fence_copied_bytes, err));
    TRY(put_end(out, err));
    TRY(put_object(out, "budget", err));
    TRY(put_count(out, "bytes", s->budget_bytes, err));
    TRY(put_count(out, "wanted_bytes", s->budget_wanted_bytes, err));
    return put_end(out, err);
}

static pawl_status put_restore(buffer *out, const event_restore *restore, pawl_error *err) {
    const pawl_report_counts *counts = &restore->counts;
    TRY(put_object(out, "entries", err));
    TRY(put_count(out, "restored", counts->restored, err));
    TRY(put_count(out, "kept", counts->kept, err));
    TRY(put_count(out, "ignored", counts->ignored, err));
    TRY(put_count(out, "cast", counts->cast, err));
    TRY(put_count(out, "cast_overflows", counts->cast_overflows, err));
    TRY(put_end(out, err));
    TRY(put_count(out, "fallback_count", restore->fallback_count, err));
    TRY(put_event_key(out, "fallbacks", err));
    TRY(buffer_append(out, "[", 1, err));
    for (size_t i = 0; i < restore->fallback_count && i < SHOWN_FALLBACKS; i++) {
        TRY(buffer_printf(out, err, "%s{", i > 0 ? "," : ""));
        TRY(put_integer(out, "step", restore->fallbacks[i].step, err));
        TRY(put_cut_text(out, "why", restore->fallbacks[i].why, WHY_BYTES, err));
        TRY(put_end(out, err));
    }
    return buffer_append(out, "]", 1, err);
}

static pawl_status put_event_body(buffer *out, const pawl_event *event,
                                  const event_restore *restore, pawl_error *err) {
    switch (event->kind) {
    case PAWL_EVENT_SAVE_BEGUN:
        return put_count(out, "of_bytes", event->of_bytes, err);
    case PAWL_EVENT_SAVE_PROGRESS:
        TRY(put_count(out, "done_bytes", event->done_bytes, err));
        TRY(put_count(out, "of_bytes", event->of_bytes, err));
        return put_speed(out, event, err);
    case PAWL_EVENT_SAVE_ENDED:
        TRY(put_outcome(out, event, err));
        TRY(put_count(out, "done_bytes", event->done_bytes, err));
        TRY(put_count(out, "of_bytes", event->of_bytes, err));
        TRY(put_speed(out, event, err));
        return event->stats != NULL ? put_stats(out, event->stats, err) : PAWL_OK;
    case PAWL_EVENT_RESTORED:
        TRY(put_outcome(out, event, err));
        TRY(put_count(out, "done_bytes", event->done_bytes, err));
        TRY(put_speed(out, event, err));
        return restore != NULL ? put_restore(out, restore, err) : PAWL_OK;
    }
    return PAWL_OK; /* event_encode has checked the kind */
}

static bool is_kind(int kind) {
    return kind >= PAWL_EVENT_SAVE_BEGUN && kind <= PAWL_EVENT_RESTORED;
}

/* Would a reader accept it? */
static bool can_be_event(const pawl_event *event) {
    const pawl_save_stats none = {0};
    const pawl_save_stats *s = event->stats != NULL ? event->stats : &none;
    const uint64_t counts[] = {event->done_bytes,    event->of_bytes, s->files,
                               s->retries,           s->budget_bytes, s->budget_wanted_bytes,
                               s->fence_copied_bytes};
    bool fits = is_kind((int)event->kind) && event->step >= -1 && event->unix_time_ns >= 0 &&
                event->status >= PAWL_OK && event->status <= STATUS_LAST;
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
        fits = fits && counts[i] <= INT64_MAX;
    }
    return fits;
}

pawl_status event_encode(const pawl_event *event, const event_restore *restore, buffer *out,
                         pawl_error *err) {
    if (!can_be_event(event)) {
        return error_set(err, PAWL_EINTERNAL, "no event has such numbers: kind %d, step %lld",
                         (int)event->kind, (long long)event->step);
    }
    TRY(buffer_append(out, "{", 1, err));
    TRY(put_cut_text(out, "event", kind_names[event->kind], WHY_BYTES, err));
    TRY(put_integer(out, "step", event->step, err));
    TRY(put_integer(out, "unix_time_ns", event->unix_time_ns, err));
    TRY(put_time(out, event->unix_time_ns, err));
    TRY(put_event_body(out, event, restore, err));
    return put_end(out, err);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Members of a line, as they are written there. */
typedef struct line_parts {
    json_span kind, status, message, io;
    int64_t step, unix_time_ns;
    uint64_t budget_bytes;
} line_parts;

static bool kind_of(json_span name, pawl_event_kind *out) {
    for (int kind = PAWL_EVENT_SAVE_BEGUN; kind <= PAWL_EVENT_RESTORED; kind++) {
        if (json_is(name, kind_names[kind])) {
            *out = (pawl_event_kind)kind;
            return true;
        }
    }
    return false;
}

static bool status_of(json_span name, pawl_status *out) {
    for (int status = PAWL_OK; status <= STATUS_LAST; status++) {
        if (json_is(name, pawl_status_name((pawl_status)status))) {
            *out = (pawl_status)status;
            return true;
        }
    }
    return name.text == NULL; /* not there: PAWL_OK */
}

/* A missing member keeps its default; a line with one of another type is not an event. All numbers
 * with a fraction are seconds. */
static bool are_good(const json_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double *seconds = fields[i].to;
        if (fields[i].found == FIELD_OTHER_TYPE ||
            (fields[i].type == FIELD_NUMBER && fields[i].found == FIELD_FOUND && *seconds < 0)) {
            return false;
        }
    }
    return true;
}

static bool get_event(const char *line, size_t n, event_decoded *out, line_parts *parts) {
    pawl_event *event = &out->event;
    pawl_save_stats *s = &out->stats;
    json_field fields[] = {
        {NULL, "event", &parts->kind, FIELD_STRING, 0},
        {NULL, "step", &parts->step, FIELD_INTEGER, 0},
        {NULL, "unix_time_ns", &parts->unix_time_ns, FIELD_COUNT, 0},
        {NULL, "status", &parts->status, FIELD_STRING, 0},
        {NULL, "message", &parts->message, FIELD_STRING, 0},
        {NULL, "done_bytes", &event->done_bytes, FIELD_COUNT, 0},
        {NULL, "of_bytes", &event->of_bytes, FIELD_COUNT, 0},
        {NULL, "seconds", &event->seconds, FIELD_NUMBER, 0},
        /* Of a save that ended: */
        {NULL, "files", &s->files, FIELD_COUNT, 0},
        {NULL, "io", &parts->io, FIELD_STRING, 0},
        {NULL, "retries", &s->retries, FIELD_COUNT, 0},
        {NULL, "phases", NULL, FIELD_OBJECT, 0},
        {"phases", "prepare_s", &s->prepare_s, FIELD_NUMBER, 0},
        {"phases", "write_s", &s->write_s, FIELD_NUMBER, 0},
        {"phases", "sync_s", &s->sync_s, FIELD_NUMBER, 0},
        {"phases", "commit_s", &s->commit_s, FIELD_NUMBER, 0},
        {"phases", "group_wait_s", &s->group_wait_s, FIELD_NUMBER, 0},
        {NULL, "tidy_s", &s->tidy_s, FIELD_NUMBER, 0},
        {NULL, "stall", NULL, FIELD_OBJECT, 0},
        {"stall", "busy_wait_s", &s->busy_wait_s, FIELD_NUMBER, 0},
        {"stall", "fence_copy_s", &s->fence_copy_s, FIELD_NUMBER, 0},
        {"stall", "fence_wait_s", &s->fence_wait_s, FIELD_NUMBER, 0},
        {"stall", "fence_copied_bytes", &s->fence_copied_bytes, FIELD_COUNT, 0},
        {NULL, "budget", NULL, FIELD_OBJECT, 0},
        {"budget", "bytes", &parts->budget_bytes, FIELD_COUNT, 0},
        {"budget", "wanted_bytes", &s->budget_wanted_bytes, FIELD_COUNT, 0},
    };
    const size_t of_any = 8;
    return json_fields(line, n, fields, ARRAY_LENGTH(fields)) &&
           kind_of(parts->kind, &event->kind) && status_of(parts->status, &event->status) &&
           are_good(fields, event->kind == PAWL_EVENT_SAVE_ENDED ? ARRAY_LENGTH(fields) : of_any);
}

/* Appends the characters of a text of the line at *to, and a NUL. There is room: in the line the
 * text has as many bytes, and quotes. */
static const char *keep_characters(char **to, json_span text) {
    char *kept = *to;
    size_t n = json_decode(text, kept, text.n);
    kept[n] = '\0';
    *to += n + 1;
    return kept;
}

static bool keep_line(const char *line, size_t n, const line_parts *parts, event_decoded *out) {
    char *texts = NULL;
    out->line = mem_alloc(2 * n + 1);
    if (out->line == NULL) {
        return false;
    }
    memcpy(out->line, line, n);
    out->line[n] = '\0';
    out->event.json = out->line;
    texts = out->line + n + 1;
    if (parts->message.text != NULL) {
        out->event.message = keep_characters(&texts, parts->message);
    }
    out->stats.io = parts->io.text != NULL ? keep_characters(&texts, parts->io) : "";
    return true;
}

bool event_decode(const void *line, size_t n, event_decoded *out) {
    line_parts parts = {.step = INT64_MIN, .unix_time_ns = -1};
    pawl_event *event = &out->event;
    pawl_save_stats *s = &out->stats;
    *out = (event_decoded){0};
    if (n > FORMAT_MAX_EVENT_READ || !get_event(line, n, out, &parts) || parts.step < -1 ||
        parts.unix_time_ns < 0 || !keep_line(line, n, &parts, out)) {
        return false;
    }
    event->struct_size = sizeof(*event);
    s->struct_size = sizeof(*s);
    event->step = s->step = parts.step;
    event->unix_time_ns = parts.unix_time_ns;
    event->stats = event->kind == PAWL_EVENT_SAVE_ENDED ? s : NULL;
    s->bytes = event->of_bytes;
    s->total_s = event->seconds;
    s->budget_bytes = (size_t)parts.budget_bytes;
    return true;
}

void event_decoded_free(event_decoded *decoded) {
    mem_free(decoded->line);
    *decoded = (event_decoded){0};
}
