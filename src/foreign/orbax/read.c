/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in the directories of a checkpoint. A directory of arrays is an item: a step has several,
 * or is one. First all items are found, and their keys, since an archive gets its files first; then
 * their arrays and values are added.
 */
#include "base/json.h"
#include "foreign/orbax/arrays.h"
#include "foreign/orbax/directory.h"
#include "foreign/orbax/ocdbt.h"
#include "foreign/orbax/orbax.h"
#include "foreign/orbax/values.h"

#include <stdio.h>
#include <string.h>

#define TEMPORARY ".orbax-checkpoint-tmp"
#define PROCESS   "ocdbt.process_"

typedef struct orbax_item {
    const char *directory; /* "" is the archive's */
    const char *prefix;    /* of names */
    key_map keys;
    orbax_tree tree;
    bool strings, in_part, unmerged;
} orbax_item;

typedef struct reading {
    archive *a;
    orbax_item *items;
    size_t count, room;
    orbax_values values;
    uint64_t parts;
} reading;

/* ---- what a directory is ---- */

bool orbax_is_named(const char *path) {
    static const char *const names[] = {
        "_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt", ".zarray", ".zgroup", "zarr.json",
        "orbax.checkpoint",
    };
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return strncmp(name, PROCESS, strlen(PROCESS)) == 0;
}

typedef struct sight {
    bool manifest, tree, zarr, strings;
    size_t processes;
    const char *process; /* the first */
    const listed_name *names;
    size_t count;
} sight;

static bool begins_with(const char *name, const char *beginning) {
    return strncmp(name, beginning, strlen(beginning)) == 0;
}

static void look(const listed_name *names, size_t count, sight *out) {
    *out = (sight){.names = names, .count = count};
    for (size_t i = 0; i < count; i++) {
        const char *name = names[i].name;
        if (names[i].folder) {
            if (begins_with(name, PROCESS)) {
                out->process = out->processes++ == 0 ? name : out->process;
            }
            continue;
        }
        out->manifest = out->manifest || strcmp(name, "manifest.ocdbt") == 0;
        out->tree = out->tree || strcmp(name, "_METADATA") == 0;
        out->strings = out->strings || strcmp(name, "_strings.json") == 0;
        out->zarr = out->zarr || strcmp(name, ".zarray") == 0 || strcmp(name, ".zgroup") == 0 ||
                    strcmp(name, "zarr.json") == 0;
    }
}

/* What belongs to the arrays of an item, or says only that the checkpoint is there. */
static bool is_part_of_item(const listed_name *name, const sight *s) {
    static const char *const folders[] = {"d", "ocdbt_data", "ocdbt_meta"};
    if (!name->folder) {
        return strcmp(name->name, "commit_success.txt") == 0 ||
               strcmp(name->name, "orbax.checkpoint") == 0 || directory_describes(name->name) ||
               (s->manifest && begins_with(name->name, "manifest.")) ||
               (s->strings && strcmp(name->name, "_strings.json") == 0);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(folders); i++) {
        if (s->manifest && strcmp(name->name, folders[i]) == 0) {
            return true;
        }
    }
    return (s->manifest && begins_with(name->name, PROCESS)) ||
           (!s->manifest && (s->tree || s->zarr));
}

static pawl_status not_merged(const reading *r, const char *directory, const sight *s,
                              pawl_error *err) {
    error_set(err, PAWL_EDAMAGED,
              "the checkpoint was never finished: what its processes saved was not put together");
    store_error_path(err, r->a->base.store, directory);
    error_expected(err, "manifest.ocdbt");
    error_found(err, "only what %zu process%s saved, in %.200s%s", s->processes,
                s->processes == 1 ? "" : "es", s->process, s->processes == 1 ? "" : ", ...");
    error_next(err, "take another step; what one process saved can be read by itself: open %.200s",
               s->process);
    return PAWL_EDAMAGED;
}

static pawl_status no_manifest(const reading *r, const char *directory, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the database of the arrays is missing");
    store_error_path(err, r->a->base.store, directory);
    error_expected(err, "manifest.ocdbt, as _METADATA says");
    error_next(err, "get all files of the checkpoint from where it came from");
    return PAWL_EDAMAGED;
}

/* ---- finding items ---- */

static bool is_of_a_process(const reading *r, const char *directory) {
    const char *path = directory[0] != '\0' ? directory : r->a->base.store->root;
    const char *slash = strrchr(path, '/');
    return begins_with(slash != NULL ? slash + 1 : path, PROCESS);
}

static pawl_status saved_nothing(const reading *r, const char *path, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED,
              "the checkpoint was never finished: a process did not save its part");
    store_error_path(err, r->a->base.store, path);
    error_expected(err, "manifest.ocdbt, which a process writes behind its arrays");
    error_next(err, "take another step");
    return PAWL_EDAMAGED;
}

/* What Orbax puts together last, and did not. */
static pawl_status read_processes(reading *r, const char *directory, const sight *s, key_map *keys,
                                  pawl_error *err) {
    const char *slash = directory[0] != '\0' ? "/" : "";
    for (size_t i = 0; i < s->count; i++) {
        if (!s->names[i].folder || !begins_with(s->names[i].name, PROCESS)) {
            continue;
        }
        const char *path =
            arena_printf(&r->a->base.memory, "%s%s%s", directory, slash, s->names[i].name);
        if (path == NULL) {
            return error_nomem(err, STORE_MAX_PATH);
        }
        pawl_status status = ocdbt_read(r->a, path, keys, err);
        if (status != PAWL_OK) {
            return status == PAWL_ENOTFOUND ? saved_nothing(r, path, err) : status;
        }
    }
    pawl_status status = key_map_join(keys, err);
    if (status != PAWL_OK) {
        store_error_path(err, r->a->base.store, directory);
        return status;
    }
    const char *manifest = arena_printf(&r->a->base.memory, "%s%smanifest.ocdbt", directory, slash);
    return manifest != NULL
               ? values_add_unread(&r->values, manifest,
                                   "never written: what each process saved was put together", err)
               : error_nomem(err, STORE_MAX_PATH);
}

static bool has_arrays(const orbax_tree *tree) {
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->leaves[i].kind == ORBAX_ARRAY) {
            return true;
        }
    }
    return false;
}

static pawl_status read_tree(reading *r, orbax_item *item, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    const char *slash = item->directory[0] != '\0' ? "/" : "";
    const char *path = arena_printf(&r->a->base.memory, "%s%s_METADATA", item->directory, slash);
    if (path == NULL) {
        return error_nomem(err, STORE_MAX_PATH);
    }
    TRY(archive_read_description(r->a, path, FOREIGN_MAX_INDEX, &text, err));
    pawl_status status = orbax_tree_read(r->a, text.data, text.size, &item->tree, err);
    if (status != PAWL_OK) {
        if (status != PAWL_ENOMEM) {
            store_error_path(err, r->a->base.store, path);
        }
        return status;
    }
    return values_add_text(&r->values, item->prefix, "_METADATA", path, &text, err);
}

static pawl_status add_item(reading *r, const char *directory, const char *prefix, const sight *s,
                            pawl_error *err) {
    TRY(vec_reserve(&r->items, &r->room, r->count + 1, sizeof(*r->items), err));
    orbax_item *added = &r->items[r->count++];
    *added = (orbax_item){.directory = directory,
                          .prefix = prefix,
                          .strings = s->strings,
                          .in_part = is_of_a_process(r, directory)};
    if (s->tree) {
        TRY(read_tree(r, added, err));
    }
    if (s->manifest) {
        return ocdbt_read(r->a, directory, &added->keys, err);
    }
    if (s->processes > 0) {
        added->unmerged = true;
        return read_processes(r, directory, s, &added->keys, err);
    }
    if (added->tree.ocdbt && has_arrays(&added->tree)) {
        return no_manifest(r, directory, err);
    }
    return directory_read(r->a, directory, &added->keys, err);
}

static pawl_status read_directory(reading *r, const char *directory, const char *prefix, int depth,
                                  pawl_error *err);

static pawl_status read_name(reading *r, const char *directory, const char *prefix,
                             const listed_name *name, int depth, pawl_error *err) {
    arena *memory = &r->a->base.memory;
    const char *slash = directory[0] != '\0' ? "/" : "";
    const char *path = arena_printf(memory, "%s%s%s", directory, slash, name->name);
    const char *escaped;
    if (path == NULL) {
        return error_nomem(err, STORE_MAX_PATH);
    }
    if (strlen(path) >= STORE_MAX_PATH) {
        return error_set(err, PAWL_ELIMIT, "a path in the checkpoint is too long");
    }
    if (strstr(name->name, TEMPORARY) != NULL) {
        return values_add_unread(&r->values, path, "never finished", err);
    }
    if (!name->folder) {
        return strcmp(name->name, "_METADATA") == 0
                   ? PAWL_OK
                   : values_find_file(&r->values, prefix, path, name->name, err);
    }
    TRY(archive_escape_name(r->a, name->name, strlen(name->name), &escaped, err));
    const char *inner = arena_printf(memory, "%s%s/", prefix, escaped);
    if (inner == NULL) {
        return error_nomem(err, STORE_MAX_PATH);
    }
    return read_directory(r, path, inner, depth + 1, err);
}

/* Recursive; FOREIGN_MAX_ORBAX_DEPTH bounds it. */
static pawl_status read_directory(reading *r, const char *directory, const char *prefix, int depth,
                                  pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    listed_name *names;
    size_t count;
    sight s;
    if (depth > FOREIGN_MAX_ORBAX_DEPTH) {
        error_set(err, PAWL_ELIMIT, "directories of the checkpoint are nested too deep");
        store_error_path(err, r->a->base.store, directory);
        error_expected(err, "at most %d levels", FOREIGN_MAX_ORBAX_DEPTH);
        return PAWL_ELIMIT;
    }
    TRY(directory_list(r->a, directory, &memory, &names, &count, err));
    look(names, count, &s);
    if (s.processes > 0 && !s.manifest && !s.tree) {
        return not_merged(r, directory, &s, err);
    }
    if (s.manifest || s.tree || s.zarr) {
        TRY(add_item(r, directory, prefix, &s, err));
    }
    for (size_t i = 0; i < count; i++) {
        bool described = names[i].folder && strcmp(names[i].name, "array_metadatas") == 0;
        if (described || !is_part_of_item(&names[i], &s)) {
            TRY(read_name(r, directory, prefix, &names[i], depth, err));
        }
    }
    return PAWL_OK;
}

/* ---- adding them ---- */

static pawl_status add_empty(reading *r, const orbax_item *item, const orbax_leaf *leaf,
                             pawl_error *err) {
    const char *name = arena_printf(&r->a->base.memory, "%s%s", item->prefix,
                                    leaf->name[0] != '\0' ? leaf->name : "tree");
    return name != NULL ? archive_add_value(r->a, name, 0, PAWL_KIND_JSON, leaf->value,
                                            strlen(leaf->value), err)
                        : error_nomem(err, STORE_MAX_PATH);
}

static pawl_status not_there(reading *r, const orbax_item *item, const orbax_leaf *leaf,
                             pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the checkpoint lacks %s that its _METADATA names",
              leaf->kind == ORBAX_STRING ? "a string" : "an array");
    store_error_path(err, r->a->base.store, item->directory);
    error_entry(err, leaf->name);
    error_expected(err, "%s of the name %.200s",
                   leaf->kind == ORBAX_STRING ? "a string in _strings.json" : "an array",
                   leaf->stored);
    return PAWL_EDAMAGED;
}

static pawl_status add_leaves(reading *r, const orbax_item *item, pawl_error *err) {
    for (size_t i = 0; i < item->tree.count; i++) {
        const orbax_leaf *leaf = &item->tree.leaves[i];
        if (leaf->found) {
            continue;
        }
        if (leaf->kind != ORBAX_OTHER) {
            return not_there(r, item, leaf, err);
        }
        TRY(add_empty(r, item, leaf, err));
    }
    return PAWL_OK;
}

static pawl_status add_item_entries(reading *r, orbax_item *item, pawl_error *err) {
    const arrays_of from = {.place = item->directory,
                            .prefix = item->prefix,
                            .keys = &item->keys,
                            .tree = &item->tree,
                            .in_part = item->in_part,
                            .unmerged = item->unmerged,
                            .parts = &r->parts};
    TRY(arrays_add(r->a, &from, err));
    if (item->strings) {
        TRY(values_add_strings(&r->values, item->directory, item->prefix, &item->tree, err));
    }
    return add_leaves(r, item, err);
}

static pawl_status read_all(reading *r, pawl_error *err) {
    uint32_t file;
    archive *a = r->a;
    const char *root = strrchr(a->base.store->root, '/');
    if (strstr(root != NULL ? root : a->base.store->root, TEMPORARY) != NULL) {
        error_set(err, PAWL_EDAMAGED,
                  "the checkpoint was never finished: it has still the name "
                  "of one that is being saved");
        store_error_path(err, a->base.store, a->name);
        error_next(err, "take another step; if all of it is there, give the directory its name");
        return PAWL_EDAMAGED;
    }
    TRY(read_directory(r, "", "", 0, err));
    if (a->base.files == 0) {
        TRY(archive_add_file(a, a->name, &file, err));
    }
    for (size_t i = 0; i < r->count; i++) {
        TRY(add_item_entries(r, &r->items[i], err));
    }
    return values_add_all(&r->values, err);
}

pawl_status orbax_read(archive *a, pawl_error *err) {
    reading r = {.a = a, .values = {.a = a}};
    pawl_status status = read_all(&r, err);
    for (size_t i = 0; i < r.count; i++) {
        key_map_free(&r.items[i].keys);
        orbax_tree_free(&r.items[i].tree);
    }
    mem_free(r.items);
    values_free(&r.values);
    return status;
}
