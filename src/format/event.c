/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event: one line of events.jsonl, a JSON object. docs/format.md lists its members.
 *
 * Texts are cut so that the longest line stays below FORMAT_MAX_EVENT_WRITTEN whatever they hold.
 * Numbers with a fraction are put together from integers: printf's follow the locale of the
 * process.
 */
#include "format/event.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND_NS       1000000000
#define MICRO           1000000u
#define MESSAGE_BYTES   1536u /* as they stand in the line, escapes counted */
#define WHY_BYTES       320u
#define SHOWN_FALLBACKS 4u
#define LARGEST_DECIMAL 9e9
/* Of a microsecond. Decimals are cut, not rounded: the parts of a time then add up to no more than
 * it in the file, too. A whole number of nanoseconds is not so near to the next microsecond. */
#define CUT 5e-4

static const char *const kind_names[] = {
    [PAWL_EVENT_SAVE_BEGUN] = "save_begun",
    [PAWL_EVENT_SAVE_PROGRESS] = "save_progress",
    [PAWL_EVENT_SAVE_ENDED] = "save_ended",
    [PAWL_EVENT_RESTORED] = "restored",
};

/* ---- writing -------------------------------------------------------------------------------- */

static pawl_status put_key(buffer *out, const char *key, pawl_error *err) {
    const char *comma = out->size > 0 && out->data[out->size - 1] == '{' ? "" : ",";
    return buffer_printf(out, err, "%s\"%s\":", comma, key);
}

static pawl_status put_integer(buffer *out, const char *key, int64_t value, pawl_error *err) {
    TRY(put_key(out, key, err));
    return buffer_printf(out, err, "%lld", (long long)value);
}

static pawl_status put_count(buffer *out, const char *key, uint64_t value, pawl_error *err) {
    TRY(put_key(out, key, err));
    return buffer_printf(out, err, "%llu", (unsigned long long)value);
}

static pawl_status put_decimal(buffer *out, const char *key, double value, pawl_error *err) {
    double bounded = value > 0 ? value : 0; /* also for NaN */
    bounded = bounded < LARGEST_DECIMAL ? bounded : LARGEST_DECIMAL;
    uint64_t micro = (uint64_t)(bounded * MICRO + CUT);
    TRY(put_key(out, key, err));
    return buffer_printf(out, err, "%llu.%06llu", (unsigned long long)(micro / MICRO),
                         (unsigned long long)(micro % MICRO));
}

static pawl_status put_text(buffer *out, const char *key, const char *text, size_t limit,
                            pawl_error *err) {
    size_t n = strlen(text);
    size_t put = 0;
    TRY(put_key(out, key, err));
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
    TRY(put_key(out, key, err));
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
    return put_text(out, "time", text, sizeof(text), err);
}

static pawl_status put_outcome(buffer *out, const pawl_event *event, pawl_error *err) {
    const char *status = pawl_status_name(event->status);
    TRY(put_text(out, "status", status, MESSAGE_BYTES, err));
    return event->message != NULL ? put_text(out, "message", event->message, MESSAGE_BYTES, err)
                                  : PAWL_OK;
}

static pawl_status put_speed(buffer *out, const pawl_event *event, pawl_error *err) {
    double speed = event->seconds > 0 ? (double)event->done_bytes / 1e9 / event->seconds : 0;
    TRY(put_decimal(out, "seconds", event->seconds, err));
    return put_decimal(out, "gb_per_s", speed, err);
}

static pawl_status put_stats(buffer *out, const pawl_save_stats *s, pawl_error *err) {
    TRY(put_count(out, "files", s->files, err));
    TRY(put_text(out, "io", s->io != NULL ? s->io : "", WHY_BYTES, err));
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
    TRY(put_key(out, "fallbacks", err));
    TRY(buffer_append(out, "[", 1, err));
    for (size_t i = 0; i < restore->fallback_count && i < SHOWN_FALLBACKS; i++) {
        TRY(buffer_printf(out, err, "%s{", i > 0 ? "," : ""));
        TRY(put_integer(out, "step", restore->fallbacks[i].step, err));
        TRY(put_text(out, "why", restore->fallbacks[i].why, WHY_BYTES, err));
        TRY(put_end(out, err));
    }
    return buffer_append(out, "]", 1, err);
}

static pawl_status put_body(buffer *out, const pawl_event *event, const event_restore *restore,
                            pawl_error *err) {
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
    return PAWL_OK; /* event_encode has looked */
}

static bool is_kind(int kind) {
    return kind >= PAWL_EVENT_SAVE_BEGUN && kind <= PAWL_EVENT_RESTORED;
}

/* What no reader would take for an event. */
static bool can_be(const pawl_event *event) {
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
    if (!can_be(event)) {
        return error_set(err, PAWL_EINTERNAL, "no event has such numbers: kind %d, step %lld",
                         (int)event->kind, (long long)event->step);
    }
    TRY(buffer_append(out, "{", 1, err));
    TRY(put_text(out, "event", kind_names[event->kind], WHY_BYTES, err));
    TRY(put_integer(out, "step", event->step, err));
    TRY(put_integer(out, "unix_time_ns", event->unix_time_ns, err));
    TRY(put_time(out, event->unix_time_ns, err));
    TRY(put_body(out, event, restore, err));
    return put_end(out, err);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* A member that is not there leaves its default; one of another type is none of ours: false. */

static bool get_integer(const json_t *object, const char *key, int64_t least, int64_t *out) {
    const json_t *value = json_object_get(object, key);
    if (value == NULL) {
        return true;
    }
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least;
}

static bool get_count(const json_t *object, const char *key, uint64_t *out) {
    int64_t value = (int64_t)*out;
    bool good = get_integer(object, key, 0, &value);
    *out = (uint64_t)value;
    return good;
}

static bool get_seconds(const json_t *object, const char *key, double *out) {
    const json_t *value = json_object_get(object, key);
    if (value == NULL) {
        return true;
    }
    *out = json_number_value(value);
    return json_is_number(value) && isfinite(*out) && *out >= 0;
}

static bool get_text(const json_t *object, const char *key, const char **out) {
    const json_t *value = json_object_get(object, key);
    if (value == NULL) {
        return true;
    }
    *out = json_string_value(value);
    return *out != NULL;
}

static bool get_object(const json_t *object, const char *key, const json_t **out) {
    *out = json_object_get(object, key);
    return *out == NULL || json_is_object(*out);
}

static bool get_kind(const json_t *object, pawl_event_kind *out) {
    const char *name = json_string_value(json_object_get(object, "event"));
    for (int kind = PAWL_EVENT_SAVE_BEGUN; name != NULL && kind <= PAWL_EVENT_RESTORED; kind++) {
        if (strcmp(kind_names[kind], name) == 0) {
            *out = (pawl_event_kind)kind;
            return true;
        }
    }
    return false;
}

static bool get_status(const json_t *object, pawl_status *out) {
    const char *name = NULL;
    bool good = get_text(object, "status", &name);
    if (!good || name == NULL) {
        return good;
    }
    for (int status = PAWL_OK; status <= STATUS_LAST; status++) {
        if (strcmp(pawl_status_name((pawl_status)status), name) == 0) {
            *out = (pawl_status)status;
            return true;
        }
    }
    return false;
}

static bool get_stats(const json_t *object, const pawl_event *event, pawl_save_stats *s) {
    const json_t *phases;
    const json_t *stall;
    const json_t *budget;
    uint64_t budget_bytes = 0;
    *s = (pawl_save_stats){
        .step = event->step, .bytes = event->of_bytes, .total_s = event->seconds, .io = ""};
    bool good = get_object(object, "phases", &phases) && get_object(object, "stall", &stall) &&
                get_object(object, "budget", &budget) && get_text(object, "io", &s->io) &&
                get_count(object, "files", &s->files) && get_count(object, "retries", &s->retries);
    good = good && get_seconds(phases, "prepare_s", &s->prepare_s) &&
           get_seconds(phases, "write_s", &s->write_s) &&
           get_seconds(phases, "sync_s", &s->sync_s) &&
           get_seconds(phases, "commit_s", &s->commit_s) &&
           get_seconds(phases, "group_wait_s", &s->group_wait_s) &&
           get_seconds(object, "tidy_s", &s->tidy_s);
    good = good && get_seconds(stall, "busy_wait_s", &s->busy_wait_s) &&
           get_seconds(stall, "fence_copy_s", &s->fence_copy_s) &&
           get_seconds(stall, "fence_wait_s", &s->fence_wait_s) &&
           get_count(stall, "fence_copied_bytes", &s->fence_copied_bytes);
    good = good && get_count(budget, "bytes", &budget_bytes) &&
           get_count(budget, "wanted_bytes", &s->budget_wanted_bytes);
    s->budget_bytes = (size_t)budget_bytes;
    return good;
}

static bool get_event(const json_t *object, event_decoded *out) {
    pawl_event *event = &out->event;
    event->step = INT64_MIN;
    event->unix_time_ns = -1;
    if (!get_kind(object, &event->kind) || !get_integer(object, "step", -1, &event->step) ||
        !get_integer(object, "unix_time_ns", 0, &event->unix_time_ns) || event->step == INT64_MIN ||
        event->unix_time_ns < 0) {
        return false;
    }
    bool good = get_status(object, &event->status) &&
                get_text(object, "message", &event->message) &&
                get_count(object, "done_bytes", &event->done_bytes) &&
                get_count(object, "of_bytes", &event->of_bytes) &&
                get_seconds(object, "seconds", &event->seconds);
    if (good && event->kind == PAWL_EVENT_SAVE_ENDED) {
        event->stats = &out->stats;
        good = get_stats(object, event, &out->stats);
    }
    return good;
}

bool event_decode(const void *line, size_t n, event_decoded *out) {
    *out = (event_decoded){0};
    /* jansson takes a NUL behind the object for the end of the text. */
    bool can_be_text = n <= FORMAT_MAX_EVENT_READ && memchr(line, '\0', n) == NULL;
    json_t *tree = can_be_text ? json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_object(tree) || !get_event(tree, out)) {
        json_decref(tree);
        return false;
    }
    out->line = mem_alloc(n + 1);
    if (out->line == NULL) {
        json_decref(tree);
        return false;
    }
    memcpy(out->line, line, n);
    out->line[n] = '\0';
    out->tree = tree;
    out->event.json = out->line;
    return true;
}

void event_decoded_free(event_decoded *decoded) {
    json_decref(decoded->tree);
    mem_free(decoded->line);
    *decoded = (event_decoded){0};
}
