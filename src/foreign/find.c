/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which file of a directory is to be opened, from the names in it. */
#include "foreign/dcp/read.h"
#include "foreign/foreign.h"
#include "foreign/orbax/orbax.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/tensorflow/read.h"
#include "foreign/torch/read.h"

#include <stdio.h>
#include <string.h>

#define ENDING       ".safetensors"
#define KERAS_INDEX  ".weights.json"
#define BUNDLE_INDEX ".index"
#define BUNDLE_STATE "checkpoint"
#define STATE_BYTES  1048576u
#define WEIGHTS      "model.safetensors"
#define INDEX        "model.safetensors.index.json"
#define TORCH        "pytorch_model.bin"
#define TORCH_INDEX  "pytorch_model.bin.index.json"

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name);
    size_t of = strlen(ending);
    return n > of && strcmp(name + n - of, ending) == 0;
}

/* One that, alone in a directory, is what the directory means. */
static bool is_other(const char *name) {
    return foreign_opens(name) && (!ends_with(name, ".bin") || strcmp(name, TORCH) == 0);
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
    const char *orbax;           /* that is in directories of Orbax alone */
    const char *weights, *index; /* of those names */
    const char *file, *other_index;
    size_t files, indexes;
    const char *other; /* of another format, by its name */
    size_t others;
    const char *torch, *torch_index; /* among the others; an index of that name, or the first */
    size_t torch_indexes;
    const char *bundle; /* an index of TensorFlow */
    size_t bundles;
    bool model, state; /* saved_model.pb, or as text; checkpoint */
} sight;

static void note_torch(sight *s, const char *name) {
    s->torch = strcmp(name, TORCH) == 0 ? name : s->torch;
    if (torch_is_index(name)) {
        bool first = s->torch_indexes++ == 0;
        s->torch_index = first || strcmp(name, TORCH_INDEX) == 0 ? name : s->torch_index;
    }
}

static void note_name(sight *s, const char *name) {
    s->own = s->own || is_own(name);
    s->whole = strcmp(name, DCP_METADATA) == 0 || ends_with(name, KERAS_INDEX) ? name : s->whole;
    if (orbax_is_named(name)) {
        s->orbax = name;
        return;
    }
    if (name[0] == '.') {
        return;
    }
    if (!ends_with(name, ENDING) && !safetensors_is_index(name)) {
        bool bundle = ends_with(name, BUNDLE_INDEX);
        s->bundle = bundle && s->bundles == 0 ? name : s->bundle;
        s->bundles += bundle;
        s->model = s->model || strcmp(name, "saved_model.pb") == 0 ||
                   strcmp(name, "saved_model.pbtxt") == 0;
        s->state = s->state || strcmp(name, BUNDLE_STATE) == 0;
        bool opens = is_other(name);
        s->other = opens && s->others == 0 ? name : s->other;
        s->others += opens;
        note_torch(s, name);
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
    error_next(err, "name one of them: %.200s/%.150s, or see them all with: pawl ls %.200s",
               in->root, s->other, in->root);
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
    error_next(err, "name one of them: %.200s/%.150s, or see them all with: pawl ls %.200s",
               in->root, index ? s->other_index : s->file, in->root);
    return PAWL_ENOTFOUND;
}

/* An index says what is to be opened, whatever else a trainer has left beside it. */
static const char *choose_torch(const sight *s) {
    bool named = s->torch_indexes > 0 && strcmp(s->torch_index, TORCH_INDEX) == 0;
    if (s->torch_indexes > 0 && s->torch != NULL) {
        return s->torch;
    }
    return named || s->torch_indexes == 1 ? s->torch_index : NULL;
}

/* NULL: nothing, or nothing says which one. */
static const char *choose(const sight *s) {
    const char *whole = s->whole != NULL ? s->whole : s->orbax;
    const char *named = whole != NULL ? whole : s->weights != NULL ? s->weights : s->index;
    if (named != NULL) {
        return named;
    }
    if (s->indexes > 0) {
        return s->indexes == 1 ? s->other_index : NULL;
    }
    if (s->files > 0) {
        return s->files == 1 ? s->file : NULL;
    }
    const char *torch = choose_torch(s);
    return torch != NULL ? torch : s->others == 1 ? s->other : NULL;
}

static pawl_status which_bundle(const store *in, const sight *s, pawl_error *err) {
    error_set(err, PAWL_ENOTFOUND,
              "there are several checkpoints of TensorFlow, and nothing says which is meant");
    error_path(err, "%s", in->root);
    error_expected(err, "one checkpoint, or a file " BUNDLE_STATE " that names one that is there");
    error_found(err, "%zu checkpoints, the index of the first is %.200s", s->bundles, s->bundle);
    error_next(err, "name one of them: %.200s/%.*s, or see them all with: pawl ls %.200s", in->root,
               (int)(strlen(s->bundle) - strlen(BUNDLE_INDEX)), s->bundle, in->root);
    return PAWL_ENOTFOUND;
}

/* The one index, or that of the newest checkpoint by the state file. A path in it may be of another
 * machine: its last component counts. */
static pawl_status find_bundle(store *s, const sight *seen, char name[STORE_MAX_PATH], bool *found,
                               pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    char path[STORE_MAX_PATH - 16];
    store_stat stat;
    struct pawl_error ignored = ERROR_INIT;
    *found = true;
    if (seen->model && seen->bundles == 0) {
        snprintf(name, STORE_MAX_PATH, "variables/variables" BUNDLE_INDEX);
        *found = store_stat_path(s, name, &stat, &ignored) == PAWL_OK;
        return PAWL_OK;
    }
    if (seen->state) {
        TRY(store_read_file(s, BUNDLE_STATE, STATE_BYTES, &text, err));
    }
    if (text.size > 0 &&
        tensorflow_newest((const char *)text.data, text.size, path, sizeof(path))) {
        const char *slash = strrchr(path, '/');
        snprintf(name, STORE_MAX_PATH, "%s" BUNDLE_INDEX, slash != NULL ? slash + 1 : path);
        if (store_stat_path(s, name, &stat, &ignored) == PAWL_OK) {
            return PAWL_OK;
        }
    }
    if (seen->bundles != 1) {
        return which_bundle(s, seen, err);
    }
    snprintf(name, STORE_MAX_PATH, "%s", seen->bundle);
    return PAWL_OK;
}

/* Older steps of Orbax have nothing but their items. */
static pawl_status find_item(store *s, char name[STORE_MAX_PATH], bool *found) {
    static const char *const items[] = {"default", "state", "items", "params"};
    static const char *const files[] = {"_METADATA", "manifest.ocdbt", "_CHECKPOINT_METADATA"};
    store_stat stat;
    struct pawl_error ignored = ERROR_INIT;
    for (size_t i = 0; i < ARRAY_LENGTH(items); i++) {
        for (size_t j = 0; j < ARRAY_LENGTH(files); j++) {
            snprintf(name, STORE_MAX_PATH, "%s/%s", items[i], files[j]);
            if (store_stat_path(s, name, &stat, &ignored) == PAWL_OK) {
                *found = true;
                return PAWL_OK;
            }
        }
    }
    return PAWL_OK;
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
    if (chosen == NULL && (seen.bundles > 0 || seen.model)) {
        return find_bundle(s, &seen, name, found, err);
    }
    if (chosen == NULL) {
        return seen.others > 1 ? which_other(s, &seen, err) : find_item(s, name, found);
    }
    snprintf(name, STORE_MAX_PATH, "%s", chosen);
    *found = true;
    return PAWL_OK;
}
