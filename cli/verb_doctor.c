/* SPDX-License-Identifier: Apache-2.0 */
/* pawl doctor: what keeps a job from saving or restoring? */
#include "cli.h"
#include "doctor_guard.h"
#include "doctor_rank.h"
#include "doctor_show.h"
#include "memory.h"
#include "signals.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_ANSWER_S   5.0
#define SECONDS_OF_HOUR 3600.0

/* What the library is asked, and what that points to. */
typedef struct request {
    pawl_doctor_options options;
    pawl_restore_options restore;
    int64_t step, model_step;
    const char *run;
    target model;
} request;

static bool told_by_options(const arguments *args, const doctor_rank *r) {
    return args->alone || (r->found.source != NULL && strcmp(r->found.source, "options") == 0);
}

static void make_request(request *q, const arguments *args, const doctor_rank *r) {
    const target *t = &args->targets[0];
    *q = (request){.run = t->run, .step = t->step};
    q->restore = (pawl_restore_options){.struct_size = sizeof q->restore,
                                        .renames = args->renames.rules,
                                        .rename_count = args->renames.count,
                                        .rename_size = sizeof(pawl_rename)};
    q->options = (pawl_doctor_options){
        .struct_size = sizeof q->options,
        .need_bytes = args->need_bytes,
        .group = &r->group,
        .group_deadline_s = args->deadline_s,
        .parts = args->no_probe || args->read_only ? PAWL_DOCTOR_ALL & ~PAWL_DOCTOR_PROBE
                                                   : PAWL_DOCTOR_ALL,
        .read_only = args->read_only,
        .answer_s = args->deadline_s > 0 && args->deadline_s < MOST_ANSWER_S ? args->deadline_s
                                                                             : MOST_ANSWER_S,
        .verify_s = args->verify ? -1 : 0,
        .every_s = args->every_s,
        .mtbf_s = args->mtbf_hours * SECONDS_OF_HOUR,
        .budget_bytes = args->budget_bytes,
        .ranks = args->ranks > 0 ? args->ranks : 0,
        .environment = told_by_options(args, r) ? NULL : (const char *const *)environ,
        .step = t->has_step && t->step != NEWEST_STEP ? &q->step : NULL,
        .restore = &q->restore};
    if (args->model != NULL) {
        q->model = target_parse(args->model);
        q->model_step = q->model.step;
        q->options.model = q->model.run;
        q->options.model_step = q->model_step != NEWEST_STEP ? &q->model_step : NULL;
    }
}

/* ---- one process, or rank 0 ----------------------------------------------------------------- */

typedef struct told {
    output *out;
    bool job; /* findings are of what a job runs (J..), not of where it saves */
} told;

static void on_finding(void *context, const pawl_finding *finding) {
    doctor_put(context, finding);
}

static void begin_findings(output *out, const char *run, const doctor_rank *r) {
    bool many = r->group.world_size > 1;
    if (!out->as_json) {
        if (many) {
            doctor_put_note(out, r->found.text);
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

static int exit_code_of(pawl_severity worst) {
    return worst > PAWL_SEVERITY_NOTE ? EXIT_DIFFERENT : EXIT_DONE;
}

static int end_findings(const doctor_show *show, pawl_report *report) {
    output *out = show->out;
    if (out->as_json) {
        json_close(&out->json);
        json_put_bool(&out->json, "able_to_save", !show->unable);
        json_put_bool(&out->json, "healthy", exit_code_of(show->worst) == EXIT_DONE);
        if (report != NULL) {
            json_put_raw(&out->json, "report", pawl_report_json(report));
        }
    }
    return exit_code_of(show->worst);
}

/* Other codes would be statements about the path. */
static int fail(output *out) {
    int code = output_fail(out);
    return code == EXIT_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

static void scoped_report(pawl_report **report) {
    pawl_report_free(*report);
}

static int is_caught(void *context) {
    (void)context;
    return signals_caught() ? 1 : 0;
}

static int diagnose_as_rank_0(output *out, request *q, const arguments *args,
                              const doctor_rank *r) {
    SCOPED(scoped_report) pawl_report *report = NULL;
    doctor_show show = {.out = out, .ignored = &args->ignored, .worst = PAWL_SEVERITY_NOTE};
    q->options.report = args->model != NULL ? &report : NULL;
    if (r->group.world_size == 1) { /* one of many ends at once: the others wait for it */
        q->options.stop = is_caught;
        signals_catch();
    }
    begin_findings(out, q->run, r);
    if (pawl_doctor(q->run, &q->options, on_finding, &show, NULL, out->err) != PAWL_OK) {
        return fail(out);
    }
    return end_findings(&show, report);
}

/* ---- the other ranks ------------------------------------------------------------------------ */

/* What a rank other than 0 found: printed only if rank 0 did not receive it. */
typedef struct kept_findings {
    size_t count;
    pawl_finding *list;
} kept_findings;

static char *copy_of(const char *text) {
    return text != NULL ? must_strdup(text) : NULL;
}

static void keep_finding(void *context, const pawl_finding *finding) {
    kept_findings *k = context;
    k->list = must_realloc(k->list, (k->count + 1) * sizeof *k->list);
    k->list[k->count++] = (pawl_finding){.struct_size = sizeof *k->list,
                                         .id = must_strdup(finding->id),
                                         .severity = finding->severity,
                                         .text = must_strdup(finding->text),
                                         .next = copy_of(finding->next),
                                         .evidence = copy_of(finding->evidence),
                                         .command = copy_of(finding->command),
                                         .part = copy_of(finding->part)};
}

static void free_findings(kept_findings *k) {
    for (size_t i = 0; i < k->count; i++) {
        free((char *)k->list[i].id);
        free((char *)k->list[i].text);
        free((char *)k->list[i].next);
        free((char *)k->list[i].evidence);
        free((char *)k->list[i].command);
        free((char *)k->list[i].part);
    }
    free(k->list);
}

/* The library's last finding on such a rank is "ok" if rank 0 received what it found. */
static bool rank_0_heard_it(const kept_findings *k) {
    return k->count > 0 && doctor_is_fine(&k->list[k->count - 1]);
}

static int diagnose_as_another_rank(output *out, request *q, const arguments *args,
                                    const doctor_rank *r) {
    SCOPED(free_findings) kept_findings k = {.list = NULL};
    doctor_show show = {.out = out, .ignored = &args->ignored, .worst = PAWL_SEVERITY_NOTE};
    q->options.model = NULL;
    if (pawl_doctor(q->run, &q->options, keep_finding, &k, NULL, out->err) != PAWL_OK) {
        return fail(out);
    }
    if (rank_0_heard_it(&k)) { /* its exit code is that of all */
        output_withhold(out);
        return EXIT_DONE;
    }
    begin_findings(out, q->run, r);
    for (size_t i = 0; i < k.count; i++) {
        if (k.list[i].severity > PAWL_SEVERITY_NOTE) {
            doctor_put(&show, &k.list[i]);
        }
    }
    return end_findings(&show, NULL);
}

/* ---- */

static int diagnose(const arguments *args, output *out) {
    doctor_rank r;
    request q;
    int code = doctor_rank_find(args, out, &r);
    if (code != EXIT_DONE) {
        return code;
    }
    make_request(&q, args, &r);
    code = r.group.rank == 0 ? diagnose_as_rank_0(out, &q, args, &r)
                             : diagnose_as_another_rank(out, &q, args, &r);
    target_free(&q.model);
    return code;
}

int verb_doctor(const arguments *args, output *out) {
    return doctor_guarded(diagnose, args, out);
}
