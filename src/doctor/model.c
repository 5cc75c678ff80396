/* SPDX-License-Identifier: Apache-2.0 */
/* What restoring a checkpoint into a model would report (R01 to R07, R10, J06). */
#include "doctor/examination.h"
#include "doctor/template.h"
#include "match/match.h"
#include "path/path.h"

#include <stdio.h>
#include <string.h>

#define MOST_ITEMS 12u /* of each kind of difference */

/* ---- the model ------------------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *ending) {
    size_t n = strlen(text);
    size_t m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

static bool is_json(const char *name) {
    return ends_with(name, ".json");
}

static pawl_status read_json(examination *x, const char *path, pawl_state *to, pawl_error *err) {
    CLEANUP(store_destroy_pointer) store *s = NULL;
    CLEANUP(buffer_free) buffer text = {0};
    AUTOFREE char *file = NULL;
    (void)x;
    TRY(path_open_file(path, is_json, &s, &file, err));
    TRY(store_read_file(s, file != NULL ? file : "", TEMPLATE_MAX_BYTES, &text, err));
    return template_decode(text.data, text.size, to, err);
}

static pawl_status read_checkpoint(examination *x, const char *path, pawl_state *to,
                                   pawl_error *err) {
    pawl_checkpoint *c = NULL;
    uint64_t left_out = 0;
    const int64_t *step = x->asked->more->model_step;
    TRY(x->asked->open(path, NULL, step != NULL ? *step : CHECKPOINT_NEWEST, &c, err));
    pawl_status status = template_of_checkpoint(c, to, &left_out, err);
    pawl_checkpoint_close(c);
    if (status == PAWL_OK && left_out > 0) {
        x->part = "restore";
        doctor_tell(x, "R02", PAWL_SEVERITY_WARNING, NULL,
                    "%llu %s left out, of types that cannot be restored: in %s",
                    (unsigned long long)left_out, text_noun(left_out, "tensor is", "tensors are"),
                    path);
    }
    return status;
}

/* Indexes of weights end so, too. */
static bool is_description(const char *path) {
    return is_json(path) && !ends_with(path, ".safetensors.index.json") &&
           !ends_with(path, ".weights.json");
}

static pawl_status make_state(examination *x, const char *path, pawl_state *to, pawl_error *err) {
    pawl_status status =
        is_description(path) ? read_json(x, path, to, err) : read_checkpoint(x, path, to, err);
    if (status != PAWL_OK) {
        error_wrap(err, "reading the model %.300s", path);
    }
    return status;
}

/* ---- the report ----------------------------------------------------------------------------- */

static const char *id_of(pawl_difference difference) {
    static const char *const ids[] = {
        [PAWL_DIFF_SHAPE] = "R01",   [PAWL_DIFF_DTYPE] = "R02",
        [PAWL_DIFF_MISSING] = "R03", [PAWL_DIFF_UNEXPECTED] = "R04",
        [PAWL_DIFF_RENAMED] = "R05", [PAWL_DIFF_OPTIMIZER] = "R06",
        [PAWL_DIFF_SLOT] = "R06",    [PAWL_DIFF_HYPERPARAMETER] = "R07",
        [PAWL_DIFF_KIND] = "R02",    [PAWL_DIFF_BATCH] = "J06",
        [PAWL_DIFF_RANKS] = "R10"};
    return (size_t)difference < ARRAY_LENGTH(ids) && ids[difference] != NULL ? ids[difference]
                                                                             : "R13";
}

/* A sentence is the description, and what to do behind a semicolon. */
static const char *advice_of(const pawl_report_item *item) {
    size_t n = strlen(item->description);
    bool more = strncmp(item->text, item->description, n) == 0 && item->text[n] == ';';
    return more ? item->text + n + 1 + strspn(item->text + n + 1, " ") : NULL;
}

static void tell_item(examination *x, const pawl_report_item *item) {
    if (item->checkpoint != NULL || item->state != NULL) {
        doctor_evidence(x, "the checkpoint has %s, the model %s",
                        item->checkpoint != NULL ? item->checkpoint : "nothing",
                        item->state != NULL ? item->state : "nothing");
    }
    doctor_tell(x, id_of(item->difference), item->severity, advice_of(item), "%s",
                item->description);
}

static void tell_report(examination *x, const pawl_report *report, const char *label,
                        pawl_status status) {
    size_t told[PAWL_DIFF_RANKS + 1] = {0};
    size_t left = 0;
    pawl_report_counts counts = report_totals(report);
    char bytes[32];
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        if (told[item->difference]++ < MOST_ITEMS) {
            tell_item(x, item);
        } else {
            left++;
        }
    }
    if (left > 0) {
        doctor_tell(x, "R13", status == PAWL_OK ? PAWL_SEVERITY_WARNING : PAWL_SEVERITY_ERROR,
                    "the report lists all of them", "%zu more %s", left,
                    text_noun(left, "difference", "differences"));
    }
    if (status == PAWL_OK) {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL,
                    "%s fits the model: restoring it reads %llu %s, %s; %llu %s", label,
                    (unsigned long long)counts.restored,
                    text_noun(counts.restored, "entry", "entries"), text_bytes(bytes, counts.bytes),
                    (unsigned long long)counts.kept,
                    text_noun(counts.kept, "stays as it is", "stay as they are"));
    }
}

/* ---- */

/* A step of the run: `s` is the caller's to destroy, after the checkpoint. */
static pawl_status open_compared(examination *x, store **s, pawl_checkpoint **out,
                                 pawl_error *err) {
    static const pawl_log silent = {0};
    bool mark = x->asked->more->read_only == 0;
    int64_t step = x->newest >= 0 ? x->newest : CHECKPOINT_NEWEST;
    if (x->asked->more->step != NULL) {
        step = *x->asked->more->step;
    }
    TRY(storage_open_path(x->storage, x->path, false, s, err));
    return checkpoint_open_for_call(*s, step, x->os, &silent, mark, out, err);
}

static int ranks_of_job(const examination *x) {
    int64_t ranks = x->asked->more->ranks;
    return ranks > 0 ? (int)ranks : x->ranks->world_size;
}

/* The match has left it out; a restore by names does not. */
static void tell_graph(examination *x, pawl_checkpoint *c, const pawl_state *state) {
    struct pawl_error ignored = ERROR_INIT; /* mostly: there is none */
    pawl_entry_info info = {.struct_size = sizeof(info)};
    if (state_find(state, NAME_OBJECT_GRAPH) == NULL &&
        checkpoint_find(c, NAME_OBJECT_GRAPH, &info, &ignored) == PAWL_OK) {
        doctor_tell(x, "R04", PAWL_SEVERITY_NOTE,
                    "pawl.keras and pawl.tf leave it out; to restore by names, set "
                    "options.unexpected = PAWL_POLICY_ALLOW",
                    "the checkpoint has %s, TensorFlow's graph of its objects, which no model has",
                    NAME_OBJECT_GRAPH);
    }
}

static pawl_status match_state(examination *x, pawl_checkpoint *c, pawl_state *state,
                               pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_report *report = NULL;
    pawl_status status =
        checkpoint_match(c, state, x->asked->restore, 0, ranks_of_job(x), &report, &story);
    if (report != NULL) {
        tell_report(x, report, checkpoint_label(c), status);
        tell_graph(x, c, state);
    } else {
        *err = story;
        return status;
    }
    if (x->asked->report != NULL) {
        *x->asked->report = report;
    } else {
        pawl_report_free(report);
    }
    return PAWL_OK;
}

pawl_status doctor_make_model(examination *x, pawl_error *err) {
    TRY(state_new(&x->model, err));
    return make_state(x, x->asked->more->model, x->model, err);
}

pawl_status doctor_examine_model(examination *x, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    CLEANUP(store_destroy_pointer) store *s = NULL;
    pawl_checkpoint *c = x->foreign;
    pawl_state *state = x->model != NULL ? x->model : x->asked->more->state;
    if (c == NULL && open_compared(x, &s, &c, &story) != PAWL_OK) {
        doctor_tell_error(x, story.status == PAWL_EDAMAGED ? "R08" : "R09", &story);
        return PAWL_OK;
    }
    pawl_status status = match_state(x, c, state, err);
    if (c != x->foreign) {
        pawl_checkpoint_close(c);
    }
    return status;
}
