/* SPDX-License-Identifier: Apache-2.0 */
/* Is the path a SavedModel of TensorFlow? Then reads it, and opens its variables. */
#include "doctor/saved_model.h"
#include "checkpoint/checkpoint.h"
#include "foreign/saved_model/saved_model.h"
#include "format/limits.h"
#include "path/path.h"

#include <stdio.h>
#include <string.h>

static bool names_a_model(const char *name) {
    return strcmp(name, SAVED_MODEL_FILE) == 0 || strcmp(name, SAVED_MODEL_TEXT) == 0;
}

static bool has_file(store *s, const char *name) {
    struct pawl_error ignored = ERROR_INIT;
    store_stat is;
    return store_stat_path(s, name, &is, &ignored) == PAWL_OK && is.type == STORE_FILE_TYPE;
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

static pawl_status read_model(examination *x, store *s, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(saved_model_free) saved_model model = {.functions = NULL};
    TRY(store_read_file(s, SAVED_MODEL_FILE, FOREIGN_MAX_SAVED_MODEL, &bytes, err));
    pawl_status status = saved_model_decode(bytes.data, bytes.size, &model, err);
    if (status == PAWL_OK) {
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

bool doctor_saved_model(examination *x) {
    struct pawl_error story = ERROR_INIT;
    CLEANUP(store_destroy_pointer)
    store *s = storage_is_local(x->storage) ? open_model(x->path) : NULL;
    if (s == NULL) {
        return false;
    }
    x->part = "job";
    if (!has_file(s, SAVED_MODEL_FILE)) {
        tell_text(x);
    } else if (read_model(x, s, &story) != PAWL_OK) {
        error_wrap(&story, "reading a SavedModel");
        if (story.status == PAWL_EDAMAGED && story.next[0] == '\0') {
            error_next(&story, "export the model anew: the file was cut off, changed, or is none");
        }
        doctor_tell_error(x, id_of(&story), &story);
    }
    return true;
}

/* ---- its variables, which are a checkpoint of TensorFlow ------------------------------------ */

/* The directory that the path is, or in which the saved_model.pb is that it names. */
static const char *directory_of(const examination *x, char out[4096]) {
    const char *slash = strrchr(x->path, '/');
    const char *name = slash != NULL ? slash + 1 : x->path;
    if (!names_a_model(name)) {
        return x->path;
    }
    (void)snprintf(out, 4096, "%.*s", slash != NULL ? (int)(name - x->path) : 1,
                   slash != NULL ? x->path : ".");
    return out;
}

/* Keras's export gives each variable a number, twice. */
static void tell_numbers(examination *x) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_entry_info info = {.name = NULL};
    if (checkpoint_find(x->foreign, "_all_variables/0", &info, &ignored) == PAWL_OK) {
        doctor_evidence(x, "\"_all_variables/0\"");
        doctor_tell(
            x, "R05", PAWL_SEVERITY_WARNING,
            "compare the model before it is exported: save it with model.save(\"m.keras\") or "
            "tf.train.Checkpoint(model=model), and give the doctor that",
            "the SavedModel numbers its variables, as Keras's export does: by their names "
            "none of them can be found in a model");
    }
}

void doctor_examine_variables(examination *x) {
    struct pawl_error story = ERROR_INIT;
    char directory[4096];
    const char *path = directory_of(x, directory);
    if (x->asked->open(path, x->storage, CHECKPOINT_NEWEST, &x->foreign, &story) != PAWL_OK) {
        x->broken = true; /* it is told */
        x->foreign = NULL;
        x->part = "restore";
        if (story.status == PAWL_ENOTFOUND) {
            doctor_tell(x, "R09", PAWL_SEVERITY_ERROR,
                        "export it with its variables, or compare another checkpoint",
                        "the SavedModel has nothing to be compared with the model: there is no "
                        "variables/variables.index");
        } else {
            error_wrap(&story, "comparing the variables of the SavedModel with the model");
            doctor_tell_error(x, "R08", &story);
        }
        return;
    }
    x->part = "checkpoint";
    doctor_examine_foreign(x);
    x->part = "restore";
    tell_numbers(x);
}
