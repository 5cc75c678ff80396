/* SPDX-License-Identifier: Apache-2.0 */
/* Prints findings of the doctor. */
#include "doctor_show.h"
#include "doctor_words.h"
#include "memory.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

bool doctor_is_fine(const pawl_finding *finding) {
    return strcmp(finding->id, "ok") == 0;
}

static const char *severity_name(const pawl_finding *finding) {
    switch (finding->severity) {
    case PAWL_SEVERITY_ERROR:
        return "error";
    case PAWL_SEVERITY_WARNING:
        return "warning";
    default:
        return doctor_is_fine(finding) ? "ok" : "note";
    }
}

static style severity_style(const pawl_finding *finding) {
    switch (finding->severity) {
    case PAWL_SEVERITY_ERROR:
        return STYLE_BAD;
    case PAWL_SEVERITY_WARNING:
        return STYLE_WARNING;
    default:
        return doctor_is_fine(finding) ? STYLE_GOOD : STYLE_PLAIN;
    }
}

static void put_json(json *j, const pawl_finding *finding) {
    json_begin_object(j, NULL, JSON_INLINE);
    json_put_text(j, "id", finding->id);
    json_put_text(j, "severity", severity_name(finding));
    json_put_text(j, "text", finding->text);
    char *next = doctor_words(finding->next);
    json_put_text(j, "next", next);
    free(next);
    json_put_text(j, "part", finding->part);
    json_put_text(j, "evidence", finding->evidence);
    json_put_text(j, "command", finding->command);
    json_close(j);
}

static void print_line(const output *out, style s, const char *severity, const char *id,
                       const char *words) {
    char *text = text_safe(words, strlen(words), false);
    output_styled(out, s, severity);
    printf("%*s%-3s  %s\n", (int)(sizeof "warning" + 1 - strlen(severity)), "", id, text);
    free(text);
}

static void print_more(const char *label, const char *words) {
    char *text = text_safe(words, strlen(words), false);
    printf("%*s%s %s\n", (int)sizeof "warning" + 6, "", label, text);
    free(text);
}

void doctor_put_note(const output *out, const char *words) {
    print_line(out, STYLE_PLAIN, "note", "", words);
}

/* What the text says already is not said again; nor what is fine proven. */
static bool shows_evidence(const pawl_finding *finding) {
    return finding->evidence != NULL && finding->severity > PAWL_SEVERITY_NOTE &&
           strstr(finding->text, finding->evidence) == NULL;
}

static bool shows_command(const pawl_finding *finding) {
    return finding->command != NULL && finding->severity > PAWL_SEVERITY_NOTE &&
           (finding->next == NULL || strstr(finding->next, finding->command) == NULL);
}

static void put_text(const output *out, const pawl_finding *finding) {
    print_line(out, severity_style(finding), severity_name(finding),
               doctor_is_fine(finding) ? "" : finding->id, finding->text);
    if (shows_evidence(finding)) {
        print_more("seen:", finding->evidence);
    }
    if (finding->next != NULL) {
        char *next = doctor_words(finding->next);
        print_more("next:", next);
        free(next);
    }
    if (shows_command(finding)) {
        print_more("run: ", finding->command);
    }
}

/* Is `id` one of those in a list with commas? */
static bool names_id(const char *list, const char *id) {
    size_t n = strlen(id);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, id, n) == 0 && (at[n] == ',' || at[n] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool is_ignored(const doctor_show *show, const char *id) {
    for (size_t i = 0; i < show->ignored->count; i++) {
        if (names_id(show->ignored->words[i], id)) {
            return true;
        }
    }
    return false;
}

void doctor_put(doctor_show *show, const pawl_finding *finding) {
    bool of_path = finding->part == NULL || strcmp(finding->part, "path") == 0;
    show->unable = show->unable || (of_path && finding->severity == PAWL_SEVERITY_ERROR);
    if (is_ignored(show, finding->id)) {
        return;
    }
    show->worst = finding->severity > show->worst ? finding->severity : show->worst;
    if (show->out->as_json) {
        put_json(&show->out->json, finding);
    } else {
        put_text(show->out, finding);
    }
}
