/* SPDX-License-Identifier: Apache-2.0 */
/* pawl doctor: could a job save here? */
#include "cli.h"
#include "doctor_rank.h"
#include "memory.h"
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

static void put_finding_json(json *j, const pawl_finding *finding) {
    json_begin_object(j, NULL, JSON_INLINE);
    json_put_text(j, "id", finding->id);
    json_put_text(j, "severity", severity_name(finding));
    json_put_text(j, "text", finding->text);
    json_put_text(j, "next", finding->next);
    json_close(j);
}

static void print_finding(const output *out, style s, const char *severity, const char *id,
                          const char *words) {
    char *text = text_safe(words, strlen(words), false);
    output_styled(out, s, severity);
    printf("%*s%-3s  %s\n", (int)(sizeof "warning" + 1 - strlen(severity)), "", id, text);
    free(text);
}

static void put_finding(output *out, const pawl_finding *finding) {
    if (out->as_json) {
        put_finding_json(&out->json, finding);
        return;
    }
    print_finding(out, severity_style(finding), severity_name(finding),
                  is_fine(finding) ? "" : finding->id, finding->text);
    if (finding->next != NULL) {
        char *next = text_safe(finding->next, strlen(finding->next), false);
        printf("%*snext: %s\n", (int)sizeof "warning" + 6, "", next);
        free(next);
    }
}

/* ---- one process, or rank 0 ----------------------------------------------------------------- */

typedef struct told {
    output *out;
    bool job; /* findings are of what a job runs (J..), not of where it saves */
} told;

static void on_finding(void *context, const pawl_finding *finding) {
    told *t = context;
    t->job = t->job || finding->id[0] == 'J';
    put_finding(t->out, finding);
}

static void begin_findings(output *out, const char *run, const doctor_rank *r) {
    bool many = r->group.world_size > 1;
    if (!out->as_json) {
        if (many) {
            print_finding(out, STYLE_PLAIN, "note", "", r->found.text);
        }
        return;
    }
    json_put_text(&out->json, "run", run);
    if (many) {
        json_begin_object(&out->json, "ranks", JSON_INLINE);
        json_put_int(&out->json, "rank", r->group.rank);
        json_put_int(&out->json, "world_size", r->group.world_size);
        json_put_text(&out->json, "source", r->found.source);
        json_put_text(&out->json, "text", r->found.text);
        json_close(&out->json);
    }
    json_begin_array(&out->json, "findings", JSON_LINES);
}

static int end_findings(output *out, pawl_severity worst) {
    bool able = worst < PAWL_SEVERITY_ERROR;
    if (out->as_json) {
        json_close(&out->json);
        json_put_bool(&out->json, "able_to_save", able);
    }
    return able ? EXIT_DONE : EXIT_FAILED;
}

static int diagnose_as_rank_0(output *out, const char *run, const pawl_doctor_options *options,
                              const doctor_rank *r) {
    told t = {.out = out};
    pawl_severity worst = PAWL_SEVERITY_NOTE;
    begin_findings(out, run, r);
    if (pawl_doctor(run, options, on_finding, &t, &worst, out->err) != PAWL_OK) {
        return output_fail(out);
    }
    int code = end_findings(out, worst);
    return t.job && worst == PAWL_SEVERITY_WARNING ? EXIT_DIFFERENT : code;
}

/* ---- the other ranks ------------------------------------------------------------------------ */

/* What a rank other than 0 found: printed only if rank 0 did not receive it. */
typedef struct kept_findings {
    size_t count;
    pawl_finding *list;
} kept_findings;

static void keep_finding(void *context, const pawl_finding *finding) {
    kept_findings *k = context;
    k->list = must_realloc(k->list, (k->count + 1) * sizeof *k->list);
    k->list[k->count++] =
        (pawl_finding){.struct_size = sizeof *k->list,
                       .id = must_strdup(finding->id),
                       .severity = finding->severity,
                       .text = must_strdup(finding->text),
                       .next = finding->next != NULL ? must_strdup(finding->next) : NULL};
}

static void free_findings(kept_findings *k) {
    for (size_t i = 0; i < k->count; i++) {
        free((char *)k->list[i].id);
        free((char *)k->list[i].text);
        free((char *)k->list[i].next);
    }
    free(k->list);
}

/* The library's last finding on such a rank is "ok" if rank 0 received what it found. */
static bool rank_0_heard_it(const kept_findings *k) {
    return k->count > 0 && is_fine(&k->list[k->count - 1]);
}

static int diagnose_as_another_rank(output *out, const char *run,
                                    const pawl_doctor_options *options, const doctor_rank *r) {
    SCOPED(free_findings) kept_findings k = {.list = NULL};
    pawl_severity worst = PAWL_SEVERITY_NOTE;
    if (pawl_doctor(run, options, keep_finding, &k, &worst, out->err) != PAWL_OK) {
        return output_fail(out);
    }
    if (rank_0_heard_it(&k)) {
        output_withhold(out);
        return worst < PAWL_SEVERITY_ERROR ? EXIT_DONE : EXIT_FAILED;
    }
    begin_findings(out, run, r);
    for (size_t i = 0; i < k.count; i++) {
        if (k.list[i].severity > PAWL_SEVERITY_NOTE) {
            put_finding(out, &k.list[i]);
        }
    }
    return end_findings(out, worst);
}

int verb_doctor(const arguments *args, output *out) {
    doctor_rank r;
    const char *run = args->targets[0].run;
    int code = doctor_rank_find(args, out, &r);
    const pawl_doctor_options options = {.struct_size = sizeof options,
                                         .need_bytes = args->need_bytes,
                                         .group = &r.group,
                                         .group_deadline_s = args->deadline_s};
    if (code != EXIT_DONE) {
        return code;
    }
    return r.group.rank == 0 ? diagnose_as_rank_0(out, run, &options, &r)
                             : diagnose_as_another_rank(out, run, &options, &r);
}
