/* SPDX-License-Identifier: Apache-2.0 */
/* Is the path a SavedModel of TensorFlow? Then reads it. */
#include "doctor/saved_model.h"
#include "foreign/saved_model/saved_model.h"
#include "format/limits.h"
#include "path/path.h"

#include <string.h>

static bool names_a_model(const char *name) {
    return strcmp(name, SAVED_MODEL_FILE) == 0;
}

/* NULL: the path is something else, or nothing. What it is called is followed if it is a link, as
 * those are that tools download models into. */
static store *open_model(const char *path) {
    struct pawl_error ignored = ERROR_INIT;
    AUTOFREE char *file = NULL;
    store *s = NULL;
    store_stat is;
    pawl_status status = path_open_file(path, names_a_model, &s, &file, &ignored);
    bool named = status == PAWL_OK && (file == NULL || names_a_model(file));
    if (named && file == NULL) {
        store_destroy(s);
        s = NULL;
        named = path_open_of_links(path, &s, &ignored) == PAWL_OK;
    }
    if (named && store_stat_path(s, SAVED_MODEL_FILE, &is, &ignored) == PAWL_OK &&
        is.type == STORE_FILE_TYPE) {
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

bool doctor_saved_model(examination *x) {
    struct pawl_error story = ERROR_INIT;
    CLEANUP(store_destroy_pointer)
    store *s = storage_is_local(x->storage) ? open_model(x->path) : NULL;
    if (s == NULL) {
        return false;
    }
    x->part = "job";
    if (read_model(x, s, &story) != PAWL_OK) {
        error_wrap(&story, "reading a SavedModel");
        if (story.status == PAWL_EDAMAGED && story.next[0] == '\0') {
            error_next(&story, "export the model anew: the file was cut off, changed, or is none");
        }
        doctor_tell_error(x, id_of(&story), &story);
    }
    return true;
}
