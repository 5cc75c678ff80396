/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which file of a directory is to be opened, from the names in it. */
#include "foreign/dcp/read.h"
#include "foreign/foreign.h"
#include "foreign/safetensors/safetensors.h"

#include <stdio.h>
#include <string.h>

#define ENDING  ".safetensors"
#define WEIGHTS "model.safetensors"
#define INDEX   "model.safetensors.index.json"

static bool ends_as_weights(const char *name) {
    size_t n = strlen(name);
    return n > sizeof(ENDING) - 1 && strcmp(name + n - (sizeof(ENDING) - 1), ENDING) == 0;
}

/* Does only a run's directory, or a step's, have this name? Then what else is there is not looked
 * at. Of their files some have names that others use, too: DeepSpeed has a `latest` beside weights.
 * A run has an owner's record besides, a step with tensors a data file. */
static bool is_own(const char *name) {
    static const char *const common[] = {NAME_LATEST, NAME_EVENTS, NAME_EVENTS_OLD};
    char tag[FORMAT_TAG_CHARS];
    for (size_t i = 0; i < ARRAY_LENGTH(common); i++) {
        if (strcmp(name, common[i]) == 0) {
            return false;
        }
    }
    (void)name_classify(name, tag);
    return name_makes_run(name) || tag[0] != '\0';
}

/* What there is to open; the first of each. */
typedef struct sight {
    bool own;
    const char *whole;           /* that tells of all other files there are */
    const char *weights, *index; /* of those names */
    const char *file, *other_index;
    size_t files, indexes;
} sight;

static void note_name(sight *s, const char *name) {
    s->own = s->own || is_own(name);
    s->whole = strcmp(name, DCP_METADATA) == 0 ? name : s->whole;
    if (name[0] == '.' || (!ends_as_weights(name) && !safetensors_is_index(name))) {
        return;
    }
    s->weights = strcmp(name, WEIGHTS) == 0 ? name : s->weights;
    s->index = strcmp(name, INDEX) == 0 ? name : s->index;
    if (safetensors_is_index(name)) {
        s->other_index = s->indexes++ == 0 ? name : s->other_index;
    } else {
        s->file = s->files++ == 0 ? name : s->file;
    }
}

static pawl_status which_one(const store *in, const sight *s, pawl_error *err) {
    bool index = s->indexes > 0;
    error_set(err, PAWL_ENOTFOUND,
              index ? "there are several indexes of weights, and nothing says which is meant"
                    : "there are several files of weights, and no index that puts them together");
    error_path(err, "%s", in->root);
    error_expected(err, WEIGHTS ", " INDEX ", or one other index or file of weights");
    error_found(err, "%zu %s, the first is %.200s", index ? s->indexes : s->files,
                index ? "indexes" : "files", index ? s->other_index : s->file);
    error_next(err, "name one of them: %.300s/%.200s", in->root, index ? s->other_index : s->file);
    return PAWL_ENOTFOUND;
}

pawl_status foreign_find(store *s, char name[STORE_MAX_PATH], bool *found, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    sight seen = {.own = false};
    *found = false;
    TRY(store_names(s, "", FORMAT_MAX_NAMES, &memory, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        note_name(&seen, names[i]);
    }
    if (seen.own || (seen.whole == NULL && seen.files + seen.indexes == 0)) {
        return PAWL_OK;
    }
    const char *chosen = seen.whole != NULL     ? seen.whole
                         : seen.weights != NULL ? seen.weights
                                                : seen.index;
    if (chosen == NULL && seen.indexes == 1) {
        chosen = seen.other_index;
    }
    if (chosen == NULL && seen.indexes == 0 && seen.files == 1) {
        chosen = seen.file;
    }
    if (chosen == NULL) {
        return which_one(s, &seen, err);
    }
    snprintf(name, STORE_MAX_PATH, "%s", chosen);
    *found = true;
    return PAWL_OK;
}
