/* SPDX-License-Identifier: Apache-2.0 */
/* pawl doctor: could a job save here? */
#include "cli.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

static bool is_fine(const pawl_finding *finding) {
    return strcmp(finding->id, "ok") == 0;
}

static const char *severity_name(const pawl_finding *finding) {
    switch (finding->severity) {
    case PAWL_SEVERITY_ERROR:
        return "error";
    case PAWL_SEVERITY_WARNING:
        return "warning";
    default:
        return is_fine(finding) ? "ok" : "note";
    }
}

static style severity_style(const pawl_finding *finding) {
    switch (finding->severity) {
    case PAWL_SEVERITY_ERROR:
        return STYLE_BAD;
    case PAWL_SEVERITY_WARNING:
        return STYLE_WARNING;
    default:
        return is_fine(finding) ? STYLE_GOOD : STYLE_PLAIN;
    }
}

static void put_json(json *j, const pawl_finding *finding) {
    json_begin_object(j, NULL, JSON_INLINE);
    json_put_text(j, "id", finding->id);
    json_put_text(j, "severity", severity_name(finding));
    json_put_text(j, "text", finding->text);
    json_put_text(j, "next", finding->next);
    json_end(j);
}

static void on_finding(void *context, const pawl_finding *finding) {
    output *out = context;
    if (out->as_json) {
        put_json(&out->json, finding);
        return;
    }
    const char *severity = severity_name(finding);
    char *text = text_safe(finding->text, strlen(finding->text), false);
    output_styled(out, severity_style(finding), severity);
    printf("%*s%-3s  %s\n", (int)(sizeof "warning" + 1 - strlen(severity)), "",
           is_fine(finding) ? "" : finding->id, text);
    free(text);
    if (finding->next != NULL) {
        char *next = text_safe(finding->next, strlen(finding->next), false);
        printf("%*snext: %s\n", (int)sizeof "warning" + 6, "", next);
        free(next);
    }
}

int verb_doctor(const arguments *args, output *out) {
    pawl_doctor_options options = {.struct_size = sizeof options, .need_bytes = args->need_bytes};
    pawl_severity worst = PAWL_SEVERITY_NOTE;
    const char *run = args->targets[0].run;
    if (out->as_json) {
        json_put_text(&out->json, "run", run);
        json_begin_array(&out->json, "findings", JSON_LINES);
    }
    if (pawl_doctor(run, &options, on_finding, out, &worst, out->err) != PAWL_OK) {
        return output_fail(out);
    }
    bool able = worst < PAWL_SEVERITY_ERROR;
    if (out->as_json) {
        json_end(&out->json);
        json_put_bool(&out->json, "able_to_save", able);
    }
    return able ? EXIT_DONE : EXIT_FAILED;
}
