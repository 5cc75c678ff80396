/* SPDX-License-Identifier: Apache-2.0 */
/* Examines a path, one question after the other. */
#include "doctor/examination.h"
#include "doctor/saved_model.h"
#include "path/path.h"

#include <stdio.h>
#include <string.h>

bool doctor_wants(const examination *x, pawl_doctor_part part) {
    return (x->asked->more->parts & (int64_t)part) != 0;
}

bool doctor_is_stopped(examination *x) {
    int (*stop)(void *context) = x->asked->more->stop;
    x->stopped = x->stopped || (stop != NULL && stop(x->context) != 0);
    return x->stopped;
}

/* ---- telling -------------------------------------------------------------------------------- */

void doctor_evidence(examination *x, const char *format, ...) {
    char raw[sizeof x->evidence];
    va_list arguments;
    va_start(arguments, format);
    text_format(raw, sizeof raw, format, arguments);
    va_end(arguments);
    text_shown(x->evidence, sizeof x->evidence, raw);
}

void doctor_command(examination *x, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text_format(x->command, sizeof x->command, format, arguments);
    va_end(arguments);
}

const char *doctor_word(char out[1024], const char *path) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+:@%,=";
    size_t n = 0;
    if (path[0] != '\0' && path[0] != '-' && path[strspn(path, plain)] == '\0') {
        (void)snprintf(out, 1024, "%s", path);
        return out;
    }
    out[n++] = '\'';
    for (const char *c = path; *c != '\0' && n + 8 < 1024; c++) {
        if (*c == '\'') {
            memcpy(out + n, "'\\''", 4);
            n += 4;
        } else {
            out[n++] = *c;
        }
    }
    out[n++] = '\'';
    out[n] = '\0';
    return out;
}

/* For rank 0, which tells of it: the first error, else the first thing that the machine lacks. */
static void note_first_error(examination *x, const char *id, pawl_severity severity,
                             const char *text) {
    bool environment = strcmp(x->part, "environment") == 0;
    if (severity < PAWL_SEVERITY_ERROR && (severity < PAWL_SEVERITY_WARNING || !environment)) {
        return;
    }
    if (x->first_error_id[0] == '\0' || (severity == PAWL_SEVERITY_ERROR && !x->has_error)) {
        x->has_error = severity == PAWL_SEVERITY_ERROR;
        (void)snprintf(x->first_error_id, sizeof(x->first_error_id), "%s", id);
        (void)snprintf(x->first_error, sizeof(x->first_error), "%s", text);
    }
}

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
    note_first_error(x, id, severity, text);
    if (x->each != NULL) {
        const pawl_finding finding = {
            .struct_size = sizeof finding,
            .id = id,
            .severity = severity,
            .text = text,
            .next = next != NULL ? text_shown(shown_next, sizeof shown_next, next) : NULL,
            .evidence = x->evidence[0] != '\0' ? x->evidence : NULL,
            .command = x->command[0] != '\0' ? x->command : NULL,
            .part = x->part};
        x->each(x->context, &finding);
    }
    x->evidence[0] = '\0';
    x->command[0] = '\0';
}

/* Appends "; at ...; expected ..." for the parts that there are. */
static void join_parts(char *text, size_t size, const pawl_error *story, bool with_path) {
    const struct {
        const char *word, *part;
    } parts[] = {{"at", with_path ? story->path : ""},
                 {"expected", story->expected},
                 {"found", story->found},
                 {"the system says", story->system}};
    size_t at = strlen(text);
    for (size_t i = 0; i < ARRAY_LENGTH(parts) && at + 1 < size; i++) {
        if (parts[i].part[0] != '\0') {
            at += (size_t)snprintf(text + at, size - at, "%s%s %.*s", at > 0 ? "; " : "",
                                   parts[i].word, 300, parts[i].part);
        }
    }
}

/* Where the failure itself advises nothing. NULL: nothing. */
static const char *next_of(const char *id) {
    static const struct {
        const char *id, *next;
    } steps[] = {{"P08", "give another path"},
                 {"E01", "raise the limit: ulimit -n 4096"},
                 {"S05", "look again where more memory is left"}};
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        if (strcmp(steps[i].id, id) == 0) {
            return steps[i].next;
        }
    }
    return NULL;
}

void doctor_tell_error_as(examination *x, const char *id, pawl_severity severity,
                          const pawl_error *story) {
    char text[1536];
    char seen[sizeof x->evidence] = "";
    (void)snprintf(text, sizeof text, "%.*s", 500, story->attempt);
    join_parts(text, sizeof text, story, true);
    join_parts(seen, sizeof seen, story, false);
    if (seen[0] != '\0') {
        doctor_evidence(x, "%s", seen);
    }
    doctor_tell(x, id, severity, story->next[0] != '\0' ? story->next : next_of(id), "%s", text);
}

void doctor_tell_error(examination *x, const char *id, const pawl_error *story) {
    doctor_tell_error_as(x, id, PAWL_SEVERITY_ERROR, story);
}

static void tell_filesystem(void *context, const pawl_finding *finding) {
    doctor_tell(context, finding->id, finding->severity, finding->next, "%s", finding->text);
}

/* ---- examining ------------------------------------------------------------------------------ */

static bool leads(const examination *x) {
    return x->ranks->rank == 0;
}

/* The path as a save sees it. */
static void examine_path(examination *x, store *s, bool whole) {
    if (s != NULL && doctor_examine_room(x, s, whole)) {
        path_examine_filesystem(s, x->os, tell_filesystem, x);
        if (x->asked->more->read_only == 0) {
            doctor_examine_writing(x, s);
        }
    }
    if (s != NULL && whole) {
        doctor_examine_owner(x, s);
    }
    if (x->ranks->world_size > 1) {
        doctor_examine_same_directory(x, s, whole);
    }
}

static void examine_speed(examination *x, store *s, bool whole) {
    bool local = storage_is_local(x->storage);
    if (whole) {
        doctor_look_at_saves(x, s);
    }
    if (doctor_wants(x, PAWL_DOCTOR_PROBE) && local && !x->unwritable &&
        x->worst < PAWL_SEVERITY_ERROR && x->asked->more->read_only == 0) {
        doctor_examine_speed(x, s);
    }
    if (doctor_wants(x, PAWL_DOCTOR_PROBE)) {
        doctor_examine_interval(x);
    }
}

static void examine_directory(examination *x) {
    bool whole = false;
    store *s = doctor_resolve(x, &whole);
    if (doctor_wants(x, PAWL_DOCTOR_PATH) || x->ranks->world_size > 1) {
        examine_path(x, s, whole);
    }
    if (s != NULL && leads(x)) {
        examine_speed(x, s, whole);
    }
    if (s != NULL && leads(x) && whole && doctor_wants(x, PAWL_DOCTOR_CHECKPOINT)) {
        x->part = "checkpoint";
        doctor_examine_run(x, s);
    }
    store_destroy(s);
}

/* False: the filesystem does not answer. */
static bool answers(examination *x, bool writing) {
    x->part = "path";
    x->silent = !doctor_examine_answer(x, writing);
    if (x->silent && x->ranks->world_size > 1) {
        doctor_examine_same_directory(x, NULL, false);
    }
    return !x->silent;
}

/* One process may be asking about what is only to be read: nothing is written there. */
static void examine_there(examination *x) {
    bool alone = x->ranks->world_size == 1;
    if (!answers(x, !alone)) {
        return;
    }
    if (alone && doctor_saved_model(x)) {
        return; /* a job reads it, and saves elsewhere */
    }
    if (alone && doctor_wants(x, PAWL_DOCTOR_CHECKPOINT)) {
        doctor_find_foreign(x);
    }
    if (x->foreign != NULL) {
        x->part = "checkpoint";
        doctor_examine_foreign(x);
    } else if (!x->broken && (!alone || answers(x, true))) {
        examine_directory(x);
    }
}

bool doctor_compares(const examination *x) {
    return x->asked->more->model != NULL || x->asked->more->state != NULL;
}

/* The last finding of a rank other than 0 is of the path, so that comes last there. */
static pawl_status examine_all(examination *x, pawl_error *err) {
    pawl_status status = PAWL_OK;
    if (!leads(x) && doctor_wants(x, PAWL_DOCTOR_ENVIRONMENT)) {
        doctor_examine_environment(x);
    }
    examine_there(x);
    if (doctor_is_stopped(x)) {
        pawl_checkpoint_close(x->foreign);
        return error_set(err, PAWL_ECANCELED, "the doctor was stopped");
    }
    if (leads(x) && !x->silent && !x->broken && doctor_compares(x)) {
        x->part = "restore";
        status = doctor_examine_model(x, err);
    }
    if (leads(x) && doctor_wants(x, PAWL_DOCTOR_ENVIRONMENT) && status == PAWL_OK) {
        doctor_examine_environment(x);
    }
    pawl_checkpoint_close(x->foreign);
    return status;
}

pawl_status doctor_examine(const doctor_asked *asked, doctor_each each, void *context,
                           pawl_severity *worst, pawl_error *err) {
    AUTOFREE examination *x = mem_calloc(1, sizeof(*x));
    if (x == NULL) {
        return error_nomem(err, sizeof(*x));
    }
    x->asked = asked;
    x->path = asked->path;
    x->storage = asked->storage;
    x->need_bytes = asked->need_bytes;
    x->os = asked->ranks->platform;
    x->each = each;
    x->context = context;
    x->ranks = asked->ranks;
    x->deadline_s = asked->group_deadline_s;
    x->worst = PAWL_SEVERITY_NOTE;
    x->newest = -1;
    x->part = "path";
    pawl_status status =
        asked->more->model != NULL && leads(x) ? doctor_make_model(x, err) : PAWL_OK;
    if (status == PAWL_OK) {
        status = examine_all(x, err);
    }
    if (x->model != NULL) {
        state_free(x->model);
    }
    TRY(status);
    *worst = x->worst;
    return PAWL_OK;
}
