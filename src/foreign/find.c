/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which file of a directory is to be opened, from the names in it. */
#include "foreign/dcp/read.h"
#include "foreign/foreign.h"
#include "foreign/safetensors/safetensors.h"

#include <stdio.h>
#include <string.h>

#define ENDING      ".safetensors"
#define KERAS_INDEX ".weights.json"
#define WEIGHTS     "model.safetensors"
#define INDEX       "model.safetensors.index.json"

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name);
    size_t of = strlen(ending);
    return n > of && strcmp(name + n - of, ending) == 0;
}

/* One that, alone in a directory, is what the directory means. */
static bool is_other(const char *name) {
    return foreign_opens(name) &&
           (!ends_with(name, ".bin") || strcmp(name, "pytorch_model.bin") == 0);
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
    const char *other; /* of another format, by its name */
    size_t others;
} sight;

static void note_name(sight *s, const char *name) {
    s->own = s->own || is_own(name);
    s->whole = strcmp(name, DCP_METADATA) == 0 || ends_with(name, KERAS_INDEX) ? name : s->whole;
    if (name[0] == '.') {
        return;
    }
    if (!ends_with(name, ENDING) && !safetensors_is_index(name)) {
        bool opens = is_other(name);
        s->other = opens && s->others == 0 ? name : s->other;
        s->others += opens;
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

static pawl_status which_other(const store *in, const sight *s, pawl_error *err) {
    error_set(err, PAWL_ENOTFOUND,
              "there are several checkpoints of other tools, and nothing says which is meant");
    error_path(err, "%s", in->root);
    error_expected(err, "one file");
    error_found(err, "%zu files, the first is %.200s", s->others, s->other);
    error_next(err, "name one of them: %.300s/%.200s", in->root, s->other);
    return PAWL_ENOTFOUND;
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

/* NULL: nothing, or nothing says which one. */
static const char *choose(const sight *s) {
    const char *named = s->whole != NULL ? s->whole : s->weights != NULL ? s->weights : s->index;
    if (named != NULL) {
        return named;
    }
    if (s->indexes > 0) {
        return s->indexes == 1 ? s->other_index : NULL;
    }
    if (s->files > 0) {
        return s->files == 1 ? s->file : NULL;
    }
    return s->others == 1 ? s->other : NULL;
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
    if (seen.own) {
        return PAWL_OK;
    }
    const char *chosen = choose(&seen);
    if (chosen == NULL && seen.files + seen.indexes > 0) {
        return which_one(s, &seen, err);
    }
    if (chosen == NULL) {
        return seen.others > 1 ? which_other(s, &seen, err) : PAWL_OK;
    }
    snprintf(name, STORE_MAX_PATH, "%s", chosen);
    *found = true;
    return PAWL_OK;
}
