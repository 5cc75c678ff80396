/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/private.h"

#include "store/evidence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANIFEST_TRIES 3 /* any one answer of the storage may be lost */

/* ---- listings ---- */

static pawl_status stat_listed(store *s, const char *directory, const store_listed *listed,
                               store_stat *out, pawl_error *err) {
    char path[STORE_MAX_PATH];
    if (listed->known) {
        *out = (store_stat){.type = STORE_FILE_TYPE,
                            .size = listed->size,
                            .modified_unix_ns = listed->modified_unix_ns};
        return PAWL_OK;
    }
    snprintf(path, sizeof(path), "%s/%s", directory, listed->name);
    return store_stat_path(s, path, out, err);
}

pawl_status step_list(store *s, const char *directory, arena *memory, step_listing *out,
                      pawl_error *err) {
    store_listed *items;
    size_t count = 0;
    *out = (step_listing){0};
    TRY(store_listing(s, directory, FORMAT_MAX_NAMES, memory, &items, &count, err));
    out->names = arena_take(memory, count * sizeof(*out->names), err);
    out->stats = arena_take(memory, count * sizeof(*out->stats), err);
    if (out->names == NULL || out->stats == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        pawl_status status = stat_listed(s, directory, &items[i], &out->stats[out->count], err);
        if (status == PAWL_ENOTFOUND) {
            continue; /* such as the mark of a reader that has just finished */
        }
        if (status != PAWL_OK) {
            return status;
        }
        out->names[out->count++] = items[i].name;
    }
    return PAWL_OK;
}

static int compare_steps(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

pawl_status step_numbers(store *s, arena *memory, int64_t **steps, size_t *count, pawl_error *err) {
    char **names;
    size_t name_count;
    *count = 0;
    TRY(store_names(s, "", FORMAT_MAX_NAMES, memory, &names, &name_count, err));
    *steps = arena_take(memory, name_count * sizeof(**steps), err);
    if (*steps == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < name_count; i++) {
        *count += name_step_parse(names[i], &(*steps)[*count]);
    }
    qsort(*steps, *count, sizeof(**steps), compare_steps);
    return PAWL_OK;
}

const char *step_not_directory_text(store_type type) {
    return type == STORE_FILE_TYPE ? "a file" : "a link, pipe or device";
}

pawl_status step_check_directory(store *s, const char *directory, pawl_error *err) {
    store_stat stat;
    struct pawl_error story = ERROR_INIT;
    pawl_status status = store_stat_path(s, directory, &stat, &story);
    if (status == PAWL_ENOTFOUND || (status == PAWL_OK && stat.type == STORE_DIR_TYPE)) {
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        *err = story;
        return status;
    }
    error_set(err, PAWL_EDAMAGED, "%s has the name of a step, but is not a directory", directory);
    error_path(err, "%s/%s", s->root, directory);
    error_expected(err, "a directory");
    error_found(err, "%s", step_not_directory_text(stat.type));
    error_safe(err, "it is left as it is; other steps are not affected");
    error_next(err, "move it out of the run");
    return PAWL_EDAMAGED;
}

pawl_status step_check_mount(store *s, const char *path, pawl_error *err) {
    store_stat stat;
    struct pawl_error story = ERROR_INIT;
    pawl_status status = store_stat_path(s, path, &stat, &story);
    if (status == PAWL_ENOTFOUND || (status == PAWL_OK && !stat.mounted)) {
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        *err = story;
        return status;
    }
    error_set(err, PAWL_EBUSY,
              "something is mounted on %s, and pawl removes nothing behind a mount", path);
    error_path(err, "%s/%s", s->root, path);
    error_expected(err, "files and directories of the run's own mount");
    error_found(err, "the root of another mount");
    error_safe(err, "nothing there was removed");
    error_next(err, "unmount it, then try again: umount %s/%s", s->root, path);
    return PAWL_EBUSY;
}

pawl_status step_check_mounts(store *s, const char *directory, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char path[STORE_MAX_PATH];
    char **names;
    size_t count;
    TRY(step_check_mount(s, directory, err));
    pawl_status status = store_names(s, directory, FORMAT_MAX_NAMES, &memory, &names, &count, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK; /* there is nothing to remove */
    }
    for (size_t i = 0; i < count && status == PAWL_OK; i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        status = step_check_mount(s, path, err);
    }
    return status;
}

/* The path could not be walked because a file or link has the step's name. */
static bool is_no_directory(const pawl_error *story) {
    return story->system_errno == ENOTDIR || story->system_errno == ELOOP;
}

/* What is so small may be the placeholder of an object store. */
static pawl_status has_small_manifest(store *s, const char *path, bool *present, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    pawl_status status = store_read_file(s, path, FORMAT_MAX_PLACEHOLDER, &text, err);
    *present = status != PAWL_ENOTFOUND && !manifest_is_placeholder(text.data, text.size);
    return *present && status != PAWL_ELIMIT ? status : PAWL_OK;
}

pawl_status step_has_manifest(store *s, const char *directory, bool *present, pawl_error *err) {
    char path[STORE_MAX_PATH];
    store_stat stat;
    struct pawl_error story = ERROR_INIT;
    snprintf(path, sizeof(path), "%s/" NAME_MANIFEST, directory);
    pawl_status status = store_stat_path(s, path, &stat, &story);
    *present = status == PAWL_OK && stat.type != STORE_DIR_TYPE;
    if (*present && s->traits.objects && stat.size < FORMAT_MAX_PLACEHOLDER) {
        status = has_small_manifest(s, path, present, &story);
    }
    if (status == PAWL_OK || status == PAWL_ENOTFOUND || is_no_directory(&story)) {
        return PAWL_OK; /* *err is left alone: it may hold why a newer step was passed over */
    }
    *err = story;
    return status;
}

static pawl_status cannot_tell_committed(store *s, const char *directory, pawl_error *err) {
    error_set(err, PAWL_EIO, "it cannot be told whether this step is committed");
    error_path(err, "%s/%s/" NAME_MANIFEST, s->root, directory);
    error_expected(err, "a manifest, or the proof that there is none");
    error_found(err, "neither in %d tries: the storage shows names late, or fails", MANIFEST_TRIES);
    error_next(err, "try again in a minute");
    return PAWL_EIO;
}

/* *sure: *present is certain. Trying to prove that a name is absent also refreshes what the client
 * of the storage remembers of it, so it is looked for afterwards. */
static pawl_status prove_or_find_manifest(store *s, const char *directory, bool *present,
                                          bool *sure, pawl_error *err) {
    char path[STORE_MAX_PATH];
    struct pawl_error ignored = ERROR_INIT;
    bool absent = false;
    snprintf(path, sizeof(path), "%s/" NAME_MANIFEST, directory);
    pawl_status looked = store_look_anew(s, directory, &ignored);
    if (looked == PAWL_OK && !s->traits.objects &&
        store_prove_absent(s, path, &absent, &ignored) != PAWL_OK) {
        absent = false;
    }
    *sure = absent || looked == PAWL_ENOTFOUND;
    *present = false;
    if (!*sure) {
        TRY(step_has_manifest(s, directory, present, err));
        *sure = *present || s->traits.objects;
    }
    return PAWL_OK;
}

pawl_status step_prove_manifest(store *s, const char *directory, bool *present, pawl_error *err) {
    TRY(step_has_manifest(s, directory, present, err));
    bool sure = *present || s->traits.coherent;
    for (int i = 0; i < MANIFEST_TRIES && !sure; i++) {
        TRY(prove_or_find_manifest(s, directory, present, &sure, err));
    }
    return sure ? PAWL_OK : cannot_tell_committed(s, directory, err);
}

/* ---- the manifest ---- */

static pawl_status wrong_step(store *s, const char *path, int64_t step, const manifest *m,
                              pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the manifest is that of another step");
    error_path(err, "%s/%s", s->root, path);
    error_expected(err, "step %lld, as its directory says", (long long)step);
    error_found(err, "step %lld", (long long)m->step);
    error_next(err, "someone has renamed or copied the directory: give it back its name");
    return PAWL_EDAMAGED;
}

/* PAWL_ENOTFOUND for a directory of that name, too: proving that there is no manifest makes one
 * (store/evidence.h), and may have left it. */
pawl_status step_manifest_text(store *s, const char *directory, buffer *text, store_tag *version,
                               pawl_error *err) {
    char path[STORE_MAX_PATH];
    snprintf(path, sizeof(path), "%s/" NAME_MANIFEST, directory);
    text->size = 0;
    pawl_status status = store_read_version(s, path, FORMAT_MAX_MANIFEST, text, version, err);
    if (status == PAWL_OK && manifest_is_placeholder(text->data, text->size)) {
        return error_set(err, PAWL_ENOTFOUND, "the manifest is not published yet");
    }
    if (status == PAWL_OK) {
        text->size = manifest_bytes(text->data, text->size);
        return PAWL_OK;
    }
    return err->system_errno != EISDIR
               ? status
               : error_set(err, PAWL_ENOTFOUND, "a directory has the name of the manifest");
}

step_manifest step_manifest_now(store *s, const char *directory, const buffer *was) {
    CLEANUP(buffer_free) buffer now = {0};
    struct pawl_error ignored = ERROR_INIT;
    store_tag version;
    pawl_status status = step_manifest_text(s, directory, &now, &version, &ignored);
    if (status == PAWL_ENOTFOUND) {
        return STEP_MANIFEST_GONE;
    }
    if (status != PAWL_OK) {
        return STEP_MANIFEST_UNREADABLE;
    }
    bool same =
        now.size == was->size && (now.size == 0 || memcmp(now.data, was->data, now.size) == 0);
    return same ? STEP_MANIFEST_SAME : STEP_MANIFEST_OTHER;
}

pawl_status step_read_manifest(store *s, int64_t step, buffer *text, manifest *out,
                               pawl_error *err) {
    char directory[32];
    char path[STORE_MAX_PATH];
    name_step(directory, step);
    snprintf(path, sizeof(path), "%s/" NAME_MANIFEST, directory);
    store_tag version;
    pawl_status status = step_manifest_text(s, directory, text, &version, err);
    if (status == PAWL_OK) {
        status = manifest_decode(text->data, text->size, out, err);
    }
    if (status == PAWL_ELIMIT) { /* no manifest that pawl wrote passes a maximum */
        err->status = status = PAWL_EDAMAGED;
    }
    if (status == PAWL_OK && out->step != step) {
        status = wrong_step(s, path, step, out, err);
        manifest_free(out);
        *out = (manifest){0};
    }
    if (status != PAWL_OK) {
        error_path(err, "%s/%s", s->root, path);
        error_step(err, step);
    }
    return status;
}

/* ---- its files ---- */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const store_stat *find_file(const step_listing *listing, const char *name) {
    const char **found =
        bsearch(&name, listing->names, listing->count, sizeof(*listing->names), compare_names);
    return found != NULL ? &listing->stats[found - listing->names] : NULL;
}

static const char *file_complaint(const store_stat *stat, uint64_t bytes) {
    if (stat == NULL) {
        return "is missing";
    }
    if (stat->type != STORE_FILE_TYPE) {
        return "is not a regular file";
    }
    if (stat->size == bytes) {
        return NULL;
    }
    if (stat->size == 0) {
        return "is empty";
    }
    return stat->size < bytes ? "is truncated" : "is longer than what was written";
}

static bool opens_with_size(store *s, const char *path, uint64_t bytes) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_close_pointer) store_file *file = NULL;
    uint64_t size;
    return store_open(s, path, STORE_READ, &file, &ignored) == PAWL_OK &&
           store_size(file, &size, &ignored) == PAWL_OK && size == bytes;
}

/* Where listings and sizes may be out of date: can it be opened, with its size? If not, trying to
 * prove that the name is absent refreshes it (store/evidence.h), then once more. */
static bool is_there(store *s, const char *directory, const char *name, uint64_t bytes) {
    char path[STORE_MAX_PATH];
    struct pawl_error ignored = ERROR_INIT;
    bool absent;
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return opens_with_size(s, path, bytes) ||
           (store_prove_absent(s, path, &absent, &ignored) == PAWL_OK && !absent &&
            opens_with_size(s, path, bytes));
}

static pawl_status check_file(store *s, const char *directory, const step_listing *listing,
                              const char *kind, const char *name, uint64_t bytes, pawl_error *err) {
    const store_stat *stat = find_file(listing, name);
    const char *complaint = file_complaint(stat, bytes);
    if (complaint == NULL || (!s->traits.coherent && is_there(s, directory, name, bytes))) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "%s of the checkpoint %s", kind, complaint);
    error_path(err, "%s/%s/%s", s->root, directory, name);
    error_expected(err, "a file of %llu bytes", (unsigned long long)bytes);
    if (stat == NULL) {
        error_found(err, "no such file");
    } else if (stat->type != STORE_FILE_TYPE) {
        error_found(err, "%s", stat->type == STORE_DIR_TYPE ? "a directory" : "a link or device");
    } else {
        error_found(err, "%llu bytes", (unsigned long long)stat->size);
    }
    return PAWL_EDAMAGED;
}

pawl_status step_check_files(store *s, const char *directory, const manifest *m,
                             const step_listing *listing, pawl_error *err) {
    TRY(check_file(s, directory, listing, "the index", m->index_name, m->index.bytes, err));
    for (size_t i = 0; i < m->file_count; i++) {
        TRY(check_file(s, directory, listing, "a data file", m->files[i].name, m->files[i].bytes,
                       err));
    }
    return PAWL_OK;
}

/* ---- what is safe ---- */

/* The newest committed step below `step`, or else the oldest above it; -1: none. False when the
 * storage fails. */
static bool other_committed(store *s, int64_t step, int64_t *out) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error ignored = ERROR_INIT;
    char directory[32];
    int64_t *steps;
    size_t count;
    *out = -1;
    if (step_numbers(s, &memory, &steps, &count, &ignored) != PAWL_OK) {
        return false;
    }
    size_t below = 0;
    while (below < count && steps[below] < step) {
        below++;
    }
    for (size_t looked = 0; looked < count && *out < 0; looked++) {
        size_t i = looked < below ? below - 1 - looked : looked;
        bool present = false;
        name_step(directory, steps[i]);
        if (steps[i] != step && step_has_manifest(s, directory, &present, &ignored) != PAWL_OK) {
            return false;
        }
        *out = present ? steps[i] : -1;
    }
    return true;
}

void step_say_safe(store *s, int64_t step, pawl_error *err) {
    int64_t other;
    error_step(err, step);
    if (!other_committed(s, step, &other)) {
        error_next(err, "see which other steps there are with: pawl ls %s", s->root);
        return;
    }
    if (other < 0) {
        error_safe(err, "no other step of the run is committed");
        error_next(err,
                   "if only the index is damaged, pawl rebuild %s@%lld makes a new one "
                   "from the data files",
                   s->root, (long long)step);
        return;
    }
    error_safe(err, "step %lld is committed; check it with: pawl verify %s@%lld", (long long)other,
               s->root, (long long)other);
    error_next(err, "restore step %lld instead, once it verifies", (long long)other);
}
