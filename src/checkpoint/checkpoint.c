/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a committed checkpoint: its mark, manifest, index, and a reader of its data files. */
#include "checkpoint/private.h"

#include "checkpoint/step_scan.h"
#include "format/presence_record.h"
#include "store/evidence.h"

#include <stdio.h>
#include <string.h>

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

static pawl_status open_index_file(pawl_checkpoint *c, pawl_error *err) {
    char path[STORE_MAX_PATH];
    snprintf(path, sizeof(path), "%s/%s", c->directory, c->manifest.index_name);
    pawl_status status = store_open_for_certain(c->store, path, STORE_READ, &c->index_file, err);
    if (status != PAWL_ENOTFOUND) {
        return status;
    }
    error_set(err, PAWL_EDAMAGED, "the index of the checkpoint is missing");
    error_path(err, "%s/%s", c->path, c->manifest.index_name);
    error_found(err, "no such file");
    return PAWL_EDAMAGED;
}

static pawl_status open_index(pawl_checkpoint *c, pawl_error *err) {
    TRY(open_index_file(c, err));
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

static pawl_status check_sizes(pawl_checkpoint *c, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    step_listing listing;
    TRY(step_list(c->store, c->directory, &memory, &listing, err));
    return step_check_files(c->store, c->directory, &c->manifest, &listing, err);
}

/* ---- opening ---- */

static pawl_status open_reader(pawl_checkpoint *c, pawl_error *err) {
    engine_source source = checksums_source(c);
    return engine_reader_new(&source, &c->reader, err);
}

/* The mark is made before the manifest is read; whoever removes the step removes the manifest
 * before looking for marks. So either they see the mark and leave the files, or no manifest is
 * found here. */
static pawl_status open_parts(pawl_checkpoint *c, bool mark, pawl_error *err) {
    if (mark) {
        TRY(reader_mark_new(c->store, c->directory, c->platform, &c->log, &c->mark, err));
    }
    TRY(step_read_manifest(c->store, c->step, &c->manifest_text, &c->manifest, err));
    TRY(manifest_metrics_json(&c->manifest, &c->metrics, err));
    TRY(check_sizes(c, err));
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
    buffer_free(&c->metrics);
    mem_free(c->path);
    if (reader_mark_free(c->mark) && c->own_store) {
        store_destroy(c->store);
    }
    mem_free(c);
}

/* Makes a failure PAWL_ENOTFOUND, for another try, where the step was removed or saved again
 * meanwhile: then it says nothing about what is there now. */
static pawl_status not_found_if_changed(const pawl_checkpoint *c, pawl_status status,
                                        pawl_error *err) {
    if (status == PAWL_OK || status == PAWL_ENOTFOUND || status == PAWL_ENOMEM ||
        status == PAWL_EINTERNAL) {
        return status;
    }
    step_manifest now = step_manifest_now(c->store, c->directory, &c->manifest_text);
    if (now == STEP_MANIFEST_GONE || now == STEP_MANIFEST_OTHER) {
        return PAWL_ENOTFOUND;
    }
    if (status == PAWL_EDAMAGED) {
        step_say_safe(c->store, c->step, err);
    }
    return status;
}

/* PAWL_ENOTFOUND: the step is not committed, or changed while it was opened. */
static pawl_status checkpoint_new(store *s, int64_t step, const platform *os, const pawl_log *log,
                                  bool mark, pawl_checkpoint **out, pawl_error *err) {
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
        status = not_found_if_changed(c, open_parts(c, mark, err), err);
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
    if (there && stat.type != STORE_DIR_TYPE) {
        error_found(err, "%s of that name, which pawl leaves alone",
                    step_not_directory_text(stat.type));
    } else {
        error_found(err, "%s",
                    there ? "an unfinished save: it has no manifest" : "no such directory");
    }
    step_say_safe(s, step, err);
    error_next(err, "see which steps there are with: pawl ls %s", s->root);
    return PAWL_ENOTFOUND;
}

/* A step that is removed between listing and opening: list again. */
static pawl_status open_newest(store *s, const platform *os, const pawl_log *log, bool mark,
                               pawl_checkpoint **out, pawl_error *err) {
    CLEANUP(step_scan_free) step_scan scan = step_scan_of(s, os);
    for (;;) {
        int64_t step;
        TRY(step_scan_list(&scan, err));
        TRY(step_scan_newest(&scan, &step, err));
        if (step < 0 && step_scan_confirms_empty(&scan)) {
            TRY(checkpoint_explain_missing(s, os, err)); /* PAWL_OK: there is one by now */
        }
        if (step >= 0) {
            pawl_status status = checkpoint_new(s, step, os, log, mark, out, err);
            if (status != PAWL_ENOTFOUND) {
                return status;
            }
            step_scan_saw_one(&scan);
        }
        TRY(step_scan_retry(&scan, err));
    }
}

static pawl_status open_given_step(store *s, int64_t step, const platform *os, const pawl_log *log,
                                   bool mark, pawl_checkpoint **out, pawl_error *err) {
    CLEANUP(step_scan_free) step_scan scan = step_scan_of(s, os);
    char directory[32];
    if (step < 0) {
        return error_set(err, PAWL_EUSAGE, "%lld is no step: steps are 0 or more", (long long)step);
    }
    name_step(directory, step);
    for (;;) {
        bool present;
        TRY(step_has_manifest(s, directory, &present, err));
        if (!present) {
            return no_such_step(s, step, err);
        }
        pawl_status status = checkpoint_new(s, step, os, log, mark, out, err);
        if (status != PAWL_ENOTFOUND) {
            return status;
        }
        TRY(step_scan_retry(&scan, err));
    }
}

pawl_status checkpoint_open_for_call(store *s, int64_t step, const platform *os,
                                     const pawl_log *log, bool mark, pawl_checkpoint **out,
                                     pawl_error *err) {
    pawl_status status = step == PAWL_NEWEST ? open_newest(s, os, log, mark, out, err)
                                             : open_given_step(s, step, os, log, mark, out, err);
    if (status != PAWL_OK) {
        error_wrap(err, "opening a checkpoint");
    }
    return status;
}

pawl_status checkpoint_open(store *s, bool own_store, int64_t step, const platform *os,
                            const pawl_log *log, pawl_checkpoint **out, pawl_error *err) {
    pawl_status status = checkpoint_open_for_call(s, step, os, log, true, out, err);
    if (status == PAWL_OK) {
        (*out)->own_store = own_store;
        reader_mark_keep((*out)->mark);
        return PAWL_OK;
    }
    if (own_store) {
        store_destroy(s);
    }
    return status;
}

/* ---- removed or saved again while it is open ---- */

static void say_what_to_open(const pawl_checkpoint *c, bool replaced, pawl_error *err) {
    CLEANUP(step_scan_free) step_scan scan = step_scan_of(c->store, c->platform);
    struct pawl_error ignored = ERROR_INIT;
    int64_t newest = -1;
    if (replaced) {
        error_safe(err, "step %lld is committed, as it was saved again", (long long)c->step);
    } else if (step_scan_list(&scan, &ignored) == PAWL_OK &&
               step_scan_newest(&scan, &newest, &ignored) == PAWL_OK && newest >= 0) {
        error_safe(err, "step %lld is committed, the newest now", (long long)newest);
    }
    error_next(err, "open %s again; pawl ls %s shows what is there",
               replaced ? "the step" : "the newest step", c->store->root);
}

static void say_lost(const pawl_checkpoint *c, bool replaced, pawl_error *err) {
    error_set(err, PAWL_EBUSY, "step %lld was %s while it was open", (long long)c->step,
              replaced ? "saved again" : "removed");
    error_expected(err, "a reader's mark that keeps the files of the step");
    say_what_to_open(c, replaced, err);
    error_step(err, c->step);
}

pawl_status checkpoint_held(pawl_checkpoint *c, pawl_error *err) {
    reader_mark_touch(c->mark);
    unsigned losses = reader_mark_losses(c->mark);
    if (losses == c->losses && !c->lost) {
        return PAWL_OK;
    }
    step_manifest now = step_manifest_now(c->store, c->directory, &c->manifest_text);
    c->losses = now == STEP_MANIFEST_SAME ? losses : c->losses;
    c->lost = c->lost || now == STEP_MANIFEST_GONE || now == STEP_MANIFEST_OTHER;
    if (!c->lost) {
        return PAWL_OK;
    }
    say_lost(c, now == STEP_MANIFEST_OTHER, err);
    error_path(err, "%s", c->path);
    error_found(err,
                "no mark for a while: this process stood still for longer than %.0f s, or "
                "could not write there",
                READER_STILL_S);
    return PAWL_EBUSY;
}

bool checkpoint_lost(const pawl_checkpoint *c, const char *file, pawl_error *err) {
    char path[STORE_MAX_PATH];
    store_stat stat;
    struct pawl_error ignored = ERROR_INIT;
    snprintf(path, sizeof(path), "%s/%s", c->directory, file);
    if (store_stat_path(c->store, path, &stat, &ignored) != PAWL_ENOTFOUND) {
        return false;
    }
    step_manifest now = step_manifest_now(c->store, c->directory, &c->manifest_text);
    if (now != STEP_MANIFEST_GONE && now != STEP_MANIFEST_OTHER) {
        return false;
    }
    say_lost(c, now == STEP_MANIFEST_OTHER, err);
    error_path(err, "%s/%s", c->path, file);
    error_found(err, "%s, and the file is gone",
                c->mark != NULL ? "a mark that was taken for a stale one"
                                : "no mark, because none could be made in the directory");
    return true;
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
        .metrics_json = (const char *)c->metrics.data,
    };
    for (size_t i = 0; i < m->file_count; i++) {
        info->data_bytes += m->files[i].bytes;
    }
}

pawl_read_stats pawl_checkpoint_reads(const pawl_checkpoint *c) {
    return c != NULL ? c->reads : (pawl_read_stats){0};
}
