/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a committed checkpoint for reading: manifest, files, index, and a reader over the data
 * files. */
#include "run/checkpoint.h"

#include "run/checksums.h"

#include <stdio.h>
#include <string.h>

#define MAX_TRIES 5 /* when the run changes while it is being looked at */

/* ---- the index ---- */

static pawl_status read_counted(void *context, uint64_t offset, void *to, size_t n,
                                pawl_error *err) {
    pawl_checkpoint *c = context;
    reader_mark_touch(c->mark);
    c->reads.reads++;
    c->reads.bytes += n;
    return c->index_file_source.read_at(c->index_file_source.context, offset, to, n, err);
}

pawl_status checkpoint_index_failed(const pawl_checkpoint *c, pawl_status status, pawl_error *err) {
    if (status == PAWL_ENOMEM) {
        return status;
    }
    if (err->path[0] == '\0') {
        error_path(err, "%s/%s", c->path, c->manifest.index_name);
    }
    if (status == PAWL_EDAMAGED) {
        error_wrap(err, "the index of the checkpoint is damaged");
        step_say_safe(c->store, c->step, err);
    }
    error_step(err, c->step);
    return status;
}

static pawl_status open_index(pawl_checkpoint *c, pawl_error *err) {
    char path[STORE_MAX_PATH];
    snprintf(path, sizeof(path), "%s/%s", c->directory, c->manifest.index_name);
    TRY(store_open(c->store, path, STORE_READ, &c->index_file, err));
    TRY(store_source(c->index_file, &c->index_file_source, err));
    byte_source counted = {
        .context = c, .size = c->index_file_source.size, .read_at = read_counted};
    pawl_status status = table_open(counted, &c->manifest.index.footer_crc32c, &c->index, err);
    if (status != PAWL_OK) {
        return checkpoint_index_failed(c, status, err);
    }
    TRY(table_cursor_new(c->index, &c->checksums_at, err));
    return table_cursor_new(c->index, &c->find_at, err);
}

/* ---- the manifest and its files ---- */

static pawl_status check_files(pawl_checkpoint *c, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    step_listing listing;
    TRY(step_list(c->store, c->directory, &memory, &listing, err));
    return step_check_files(c->store, c->directory, &c->manifest, &listing, err);
}

/* A step that is saved again replaces its files: has the manifest changed since it was read? */
static bool manifest_changed(const pawl_checkpoint *c) {
    char path[STORE_MAX_PATH];
    CLEANUP(buffer_free) buffer now = {0};
    struct pawl_error ignored = ERROR_INIT;
    snprintf(path, sizeof(path), "%s/" NAME_MANIFEST, c->directory);
    if (store_read_file(c->store, path, FORMAT_MAX_MANIFEST, &now, &ignored) != PAWL_OK) {
        return false;
    }
    return now.size != c->manifest_text.size ||
           memcmp(now.data, c->manifest_text.data, now.size) != 0;
}

static void forget_manifest(pawl_checkpoint *c) {
    manifest_free(&c->manifest);
    c->manifest = (manifest){0};
}

static pawl_status read_manifest(pawl_checkpoint *c, pawl_error *err) {
    for (int i = 0;; i++) {
        TRY(step_read_manifest(c->store, c->step, &c->manifest_text, &c->manifest, err));
        pawl_status status = check_files(c, err);
        if (status == PAWL_OK || i == MAX_TRIES || !manifest_changed(c)) {
            return status;
        }
        forget_manifest(c);
    }
}

/* ---- opening ---- */

static pawl_status open_reader(pawl_checkpoint *c, pawl_error *err) {
    engine_source source = checksums_source(c);
    return engine_reader_new(&source, &c->reader, err);
}

static pawl_status open_all(pawl_checkpoint *c, bool mark, pawl_error *err) {
    if (mark) {
        TRY(reader_mark_new(c->store, c->directory, c->platform, &c->log, &c->mark, err));
    }
    pawl_status status = read_manifest(c, err);
    if (status == PAWL_EDAMAGED) {
        step_say_safe(c->store, c->step, err);
    }
    if (status != PAWL_OK) {
        return status;
    }
    TRY(open_index(c, err));
    return open_reader(c, err);
}

process_id checkpoint_process(const pawl_checkpoint *c) {
    return c->process;
}

void pawl_checkpoint_close(pawl_checkpoint *c) {
    if (c == NULL || !process_is_self(c->process)) {
        return;
    }
    engine_views_free(c->views);
    engine_reader_free(c->reader);
    table_cursor_free(c->find_at);
    table_cursor_free(c->checksums_at);
    table_close(c->index);
    store_close(c->index_file);
    arena_free(&c->found_memory);
    manifest_free(&c->manifest);
    buffer_free(&c->manifest_text);
    reader_mark_free(c->mark);
    mem_free(c->path);
    if (c->own_store) {
        store_destroy(c->store);
    }
    mem_free(c);
}

static bool is_removed(const pawl_checkpoint *c) {
    bool present;
    struct pawl_error ignored = ERROR_INIT;
    return step_has_manifest(c->store, c->directory, &present, &ignored) == PAWL_OK && !present;
}

static pawl_status make(store *s, int64_t step, const platform *os, const pawl_log *log, bool mark,
                        pawl_checkpoint **out, pawl_error *err) {
    pawl_checkpoint *c = mem_calloc(1, sizeof(*c));
    if (c == NULL) {
        return error_nomem(err, sizeof(*c));
    }
    c->process = process_self();
    c->store = s;
    c->platform = os;
    c->log = log != NULL ? *log : (pawl_log){0};
    c->step = step;
    name_step(c->directory, step);
    size_t path_bytes = strlen(s->root) + sizeof(c->directory) + 1;
    c->path = mem_alloc(path_bytes);
    pawl_status status = c->path != NULL ? PAWL_OK : error_nomem(err, path_bytes);
    if (status == PAWL_OK) {
        snprintf(c->path, path_bytes, "%s/%s", s->root, c->directory);
        status = open_all(c, mark, err);
    }
    if (status == PAWL_EDAMAGED && is_removed(c)) {
        status = PAWL_ENOTFOUND; /* not damaged: removed while it was being opened */
    }
    if (status != PAWL_OK) {
        pawl_checkpoint_close(c);
        return status;
    }
    *out = c;
    return PAWL_OK;
}

/* ---- which step ---- */

static pawl_status no_such_step(store *s, int64_t step, pawl_error *err) {
    char directory[32];
    store_stat stat;
    struct pawl_error ignored = ERROR_INIT;
    name_step(directory, step);
    bool there = store_stat_path(s, directory, &stat, &ignored) == PAWL_OK;
    error_set(err, PAWL_ENOTFOUND, "there is no checkpoint of step %lld", (long long)step);
    error_path(err, "%s/%s", s->root, directory);
    error_found(err, "%s", there ? "an unfinished save: it has no manifest" : "no such directory");
    step_say_safe(s, step, err);
    error_next(err, "see which steps there are with: pawl ls %s", s->root);
    return PAWL_ENOTFOUND;
}

/* The newest step with a manifest; -1: none. */
static pawl_status newest_step(store *s, int64_t *out, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char directory[32];
    int64_t *steps;
    size_t count;
    *out = -1;
    TRY(step_numbers(s, &memory, &steps, &count, err));
    for (size_t i = count; i > 0 && *out < 0; i--) {
        name_step(directory, steps[i - 1]);
        bool present;
        TRY(step_has_manifest(s, directory, &present, err));
        if (present) {
            *out = steps[i - 1];
        }
    }
    return PAWL_OK;
}

static void catalog_free_pointer(pawl_catalog **catalog) {
    pawl_catalog_free(*catalog);
}

static pawl_status nothing_to_open(store *s, const platform *os, pawl_error *err) {
    CLEANUP(catalog_free_pointer) pawl_catalog *catalog = NULL;
    TRY(catalog_open(s, os, NULL, &catalog, err));
    return catalog_explain_nothing(s, catalog, err);
}

/* A newest step that is removed between the look and the opening: look again. */
static pawl_status open_newest(store *s, const platform *os, const pawl_log *log, bool mark,
                               pawl_checkpoint **out, pawl_error *err) {
    for (int i = 0;; i++) {
        int64_t step;
        TRY(newest_step(s, &step, err));
        if (step < 0) {
            return nothing_to_open(s, os, err);
        }
        pawl_status status = make(s, step, os, log, mark, out, err);
        if (status != PAWL_ENOTFOUND || i == MAX_TRIES) {
            return status;
        }
    }
}

static pawl_status open_step(store *s, int64_t step, const platform *os, const pawl_log *log,
                             bool mark, pawl_checkpoint **out, pawl_error *err) {
    char directory[32];
    bool present;
    if (step < 0) {
        return error_set(err, PAWL_EUSAGE, "%lld is no step: steps are 0 or more", (long long)step);
    }
    name_step(directory, step);
    TRY(step_has_manifest(s, directory, &present, err));
    if (!present) {
        return no_such_step(s, step, err);
    }
    pawl_status status = make(s, step, os, log, mark, out, err);
    return status == PAWL_ENOTFOUND ? no_such_step(s, step, err) : status;
}

pawl_status checkpoint_open_by(store *s, int64_t step, const platform *os, const pawl_log *log,
                               bool mark, pawl_checkpoint **out, pawl_error *err) {
    pawl_status status = step == PAWL_NEWEST ? open_newest(s, os, log, mark, out, err)
                                             : open_step(s, step, os, log, mark, out, err);
    if (status != PAWL_OK) {
        error_wrap(err, "opening a checkpoint");
    }
    return status;
}

pawl_status checkpoint_open(store *s, bool own_store, int64_t step, const platform *os,
                            const pawl_log *log, pawl_checkpoint **out, pawl_error *err) {
    pawl_status status = checkpoint_open_by(s, step, os, log, true, out, err);
    if (status == PAWL_OK) {
        (*out)->own_store = own_store;
        return PAWL_OK;
    }
    if (own_store) {
        store_destroy(s);
    }
    return status;
}

/* ---- describing ---- */

void pawl_checkpoint_describe(const pawl_checkpoint *c, pawl_checkpoint_info *info) {
    if (info == NULL) {
        return;
    }
    if (c == NULL) {
        *info = (pawl_checkpoint_info){.step = -1};
        return;
    }
    const manifest *m = &c->manifest;
    *info = (pawl_checkpoint_info){
        .step = c->step,
        .format_version = m->version,
        .unix_time_ns = m->unix_time_ns,
        .world_size = m->world_size,
        .entries = m->entries,
        .data_files = m->file_count,
        .index_bytes = m->index.bytes,
        .attempt = m->attempt,
        .framework = m->framework != NULL ? m->framework : "",
        .path = c->path,
        .manifest_json = (const char *)c->manifest_text.data,
    };
    for (size_t i = 0; i < m->file_count; i++) {
        info->data_bytes += m->files[i].bytes;
    }
}

pawl_read_stats pawl_checkpoint_reads(const pawl_checkpoint *c) {
    return c != NULL ? c->reads : (pawl_read_stats){0};
}
