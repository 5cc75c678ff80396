/* SPDX-License-Identifier: Apache-2.0 */
/* Examines a path, one question after the other. */
#include "doctor/examination.h"
#include "doctor/saved_model.h"
#include "path/path.h"

#include <stdio.h>
#include <string.h>

void doctor_tell(examination *x, const char *id, pawl_severity severity, const char *next,
                 const char *format, ...) {
    char raw[1536];
    char text[sizeof raw];
    char shown_next[1024];
    va_list arguments;
    va_start(arguments, format);
    text_format(raw, sizeof raw, format, arguments);
    va_end(arguments);
    text_shown(text, sizeof text, raw);
    x->worst = severity > x->worst ? severity : x->worst;
    if (severity == PAWL_SEVERITY_ERROR && x->first_error_id[0] == '\0') {
        (void)snprintf(x->first_error_id, sizeof(x->first_error_id), "%s", id);
        (void)snprintf(x->first_error, sizeof(x->first_error), "%s", text);
    }
    if (x->each != NULL) {
        const pawl_finding finding = {
            .struct_size = sizeof finding,
            .id = id,
            .severity = severity,
            .text = text,
            .next = next != NULL ? text_shown(shown_next, sizeof shown_next, next) : NULL};
        x->each(x->context, &finding);
    }
}

void doctor_tell_error(examination *x, const char *id, const pawl_error *story) {
    char text[1536];
    size_t at = (size_t)snprintf(text, sizeof text, "%.*s", 500, story->attempt);
    const struct {
        const char *word, *part;
    } parts[] = {{"at", story->path},
                 {"expected", story->expected},
                 {"found", story->found},
                 {"the system says", story->system}};
    for (size_t i = 0; i < ARRAY_LENGTH(parts) && at < sizeof text; i++) {
        if (parts[i].part[0] != '\0') {
            at += (size_t)snprintf(text + at, sizeof text - at, "; %s %.*s", parts[i].word, 300,
                                   parts[i].part);
        }
    }
    doctor_tell(x, id, PAWL_SEVERITY_ERROR, story->next[0] != '\0' ? story->next : NULL, "%s",
                text);
}

static void tell_filesystem(void *context, const pawl_finding *finding) {
    doctor_tell(context, finding->id, finding->severity, finding->next, "%s", finding->text);
}

static void examine_all(examination *x) {
    bool whole = false;
    if (x->ranks->world_size == 1 && doctor_saved_model(x)) {
        return; /* a job reads it, and saves elsewhere */
    }
    store *s = doctor_resolve(x, &whole);
    if (s != NULL && doctor_examine_room(x, s, whole)) {
        path_examine_filesystem(s, x->os, tell_filesystem, x);
        doctor_examine_writing(x, s);
    }
    if (s != NULL && whole) {
        doctor_examine_owner(x, s);
    }
    if (x->ranks->world_size > 1) {
        doctor_examine_same_directory(x, s, whole);
    }
    store_destroy(s);
}

pawl_status doctor_examine(const doctor_asked *asked, doctor_each each, void *context,
                           pawl_severity *worst, pawl_error *err) {
    AUTOFREE examination *x = mem_calloc(1, sizeof(*x));
    if (x == NULL) {
        return error_nomem(err, sizeof(*x));
    }
    x->path = asked->path;
    x->storage = asked->storage;
    x->need_bytes = asked->need_bytes;
    x->os = asked->ranks->platform;
    x->each = each;
    x->context = context;
    x->ranks = asked->ranks;
    x->deadline_s = asked->group_deadline_s;
    x->worst = PAWL_SEVERITY_NOTE;
    examine_all(x);
    *worst = x->worst;
    return PAWL_OK;
}
