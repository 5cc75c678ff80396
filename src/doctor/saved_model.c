/* SPDX-License-Identifier: Apache-2.0 */
/* Is the path a SavedModel of TensorFlow? Then reads it. */
#include "doctor/saved_model.h"
#include "checkpoint/checkpoint.h"
#include "foreign/saved_model/saved_model.h"
#include "format/limits.h"
#include "path/path.h"

#include <stdio.h>
#include <string.h>

#define INDEX "variables/variables.index"

static bool names_a_model(const char *name) {
    return strcmp(name, SAVED_MODEL_FILE) == 0 || strcmp(name, SAVED_MODEL_TEXT) == 0;
}

static bool has_file(store *s, const char *path) {
    struct pawl_error ignored = ERROR_INIT;
    store_stat is;
    return store_stat_path(s, path, &is, &ignored) == PAWL_OK && is.type == STORE_FILE_TYPE;
}

/* The model's file alone, without what else it needs? Then only what it computes is asked. */
static bool is_file(const char *path) {
    const char *slash = strrchr(path, '/');
    return names_a_model(slash != NULL ? slash + 1 : path);
}

/* NULL: the path is something else, or nothing. What it is called is followed if it is a link, as
 * those are that tools download models into. */
static store *open_model(const char *path) {
    struct pawl_error ignored = ERROR_INIT;
    AUTOFREE char *file = NULL;
    store *s = NULL;
    pawl_status status = path_open_file(path, names_a_model, &s, &file, &ignored);
    bool named = status == PAWL_OK && (file == NULL || names_a_model(file));
    if (named && file == NULL) {
        store_destroy(s);
        s = NULL;
        named = path_open_of_links(path, &s, &ignored) == PAWL_OK;
    }
    if (named && (has_file(s, SAVED_MODEL_FILE) || has_file(s, SAVED_MODEL_TEXT))) {
        return s;
    }
    store_destroy(status == PAWL_OK ? s : NULL);
    return NULL;
}

static bool has_variables(const saved_model *model) {
    static const char *const ops[] = {"VarHandleOp", "VariableV2", "Variable"};
    for (size_t i = 0; i < model->node_count; i++) {
        for (size_t k = 0; k < ARRAY_LENGTH(ops); k++) {
            if (bundle_text_is(model->nodes[i].op, ops[k])) {
                return true;
            }
        }
    }
    return false;
}

static pawl_status read_model(examination *x, store *s, bool *variables, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(saved_model_free) saved_model model = {.functions = NULL};
    TRY(store_read_file(s, SAVED_MODEL_FILE, FOREIGN_MAX_SAVED_MODEL, &bytes, err));
    pawl_status status = saved_model_decode(bytes.data, bytes.size, &model, err);
    if (status == PAWL_OK) {
        *variables = has_variables(&model);
        status = doctor_judge_model(x, &model, err);
    }
    if (status != PAWL_OK) {
        store_error_path(err, s, SAVED_MODEL_FILE);
    }
    return status;
}

static const char *id_of(const pawl_error *story) {
    switch (story->status) {
    case PAWL_EDAMAGED:
        return "R08";
    case PAWL_ELIMIT:
        return "R14";
    case PAWL_EPERMISSION:
        return "P02";
    default:
        return "J07";
    }
}

static void tell_text(examination *x) {
    const tool_checkpoint *text = tool_checkpoint_by_unique_name(SAVED_MODEL_TEXT);
    doctor_tell(x, "J07", PAWL_SEVERITY_WARNING, text != NULL ? text->next : NULL,
                "the SavedModel is text, " SAVED_MODEL_TEXT
                ", which is not read: what of it an accelerator could not run is not known");
}

/* ---- its variables, which are a checkpoint of TensorFlow ------------------------------------ */

/* Keras's export gives each variable a number, twice. */
static void tell_numbers(examination *x) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_entry_info info = {.name = NULL};
    if (checkpoint_find(x->foreign, "_all_variables/0", &info, &ignored) == PAWL_OK) {
        x->part = "restore";
        doctor_evidence(x, "\"_all_variables/0\"");
        doctor_tell(
            x, "R05", PAWL_SEVERITY_WARNING,
            "compare the model before it is exported: save it with model.save(\"m.keras\") or "
            "tf.train.Checkpoint(model=model), and give the doctor that",
            "the SavedModel numbers its variables, as Keras's export does: by their names "
            "none of them can be found in a model");
    }
}

static void tell_missing(examination *x, bool needed) {
    if (needed) {
        doctor_evidence(x, "nodes that are variables; no " INDEX);
        doctor_tell(x, "R08", PAWL_SEVERITY_ERROR,
                    "get the whole directory from where the model was exported",
                    "the SavedModel's variables are missing: loading it fails");
    }
    x->broken = doctor_compares(x); /* it is told */
    if (x->broken && !needed) {
        x->part = "restore";
        doctor_tell(x, "R09", PAWL_SEVERITY_ERROR,
                    "export it with its variables, or compare another checkpoint",
                    "the SavedModel has nothing to be compared with the model: there is no " INDEX);
    }
}

/* The model was read; now what TensorFlow loads with it. Opened, they are what a model is compared
 * with. */
static void examine_variables(examination *x, store *s, bool needed) {
    struct pawl_error story = ERROR_INIT;
    char path[4096];
    char bytes[32];
    pawl_checkpoint_info info;
    if (!has_file(s, INDEX)) {
        tell_missing(x, needed);
        return;
    }
    (void)snprintf(path, sizeof path, "%s/" INDEX, s->root);
    if (x->asked->open(path, NULL, CHECKPOINT_NEWEST, &x->foreign, &story) != PAWL_OK) {
        x->foreign = NULL;
        x->broken = true;
        if (!doctor_tell_unread(x, "what its variables are in", &story)) {
            error_wrap(&story, "reading the SavedModel's variables");
            doctor_tell_error(x, "R08", &story);
        }
        return;
    }
    checkpoint_describe(x->foreign, &info);
    doctor_verdict v = doctor_verify(x, x->foreign, "the SavedModel", PAWL_SEVERITY_ERROR,
                                     doctor_verify_deadline(x));
    if (!v.damaged && !v.unread && !x->stopped) {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL, "its variables, %llu %s of %s, are %s",
                    (unsigned long long)info.entries, text_noun(info.entries, "entry", "entries"),
                    text_bytes(bytes, info.data_bytes),
                    v.finished ? "whole" : "there; no damage in those that were read");
    }
    if (doctor_compares(x)) {
        tell_numbers(x);
    }
}

bool doctor_saved_model(examination *x) {
    struct pawl_error story = ERROR_INIT;
    bool variables = false;
    CLEANUP(store_destroy_pointer)
    store *s = storage_is_local(x->storage) ? open_model(x->path) : NULL;
    if (s == NULL) {
        return false;
    }
    x->part = "job";
    if (!has_file(s, SAVED_MODEL_FILE)) {
        tell_text(x);
    } else if (read_model(x, s, &variables, &story) != PAWL_OK) {
        error_wrap(&story, "reading a SavedModel");
        if (story.status == PAWL_EDAMAGED && story.next[0] == '\0') {
            error_next(&story, "export the model anew: the file was cut off, changed, or is none");
        }
        doctor_tell_error(x, id_of(&story), &story);
    }
    if (doctor_wants(x, PAWL_DOCTOR_CHECKPOINT) || doctor_compares(x)) {
        x->part = "checkpoint";
        examine_variables(x, s, variables && !is_file(x->path));
    }
    return true;
}
