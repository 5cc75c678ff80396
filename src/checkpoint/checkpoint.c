/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a committed checkpoint of a run, or what another source has; describes and closes it. */
#include "checkpoint/native.h"
#include "checkpoint/private.h"
#include "checkpoint/step_scan.h"

#include <stdio.h>
#include <string.h>

/* ---- what its source says ---- */

pawl_status checkpoint_entry_failed(const pawl_checkpoint *c, pawl_status status, pawl_error *err) {
    return c->source->ops->entry_failed(c->source, status, err);
}

pawl_status checkpoint_held(pawl_checkpoint *c, pawl_error *err) {
    const source_ops *ops = c->source->ops;
    return ops->held != NULL ? ops->held(c->source, err) : PAWL_OK;
}

bool checkpoint_lost(const pawl_checkpoint *c, const char *file, pawl_error *err) {
    const source_ops *ops = c->source->ops;
    return ops->lost != NULL && ops->lost(c->source, file, err);
}

void checkpoint_say_safe(const pawl_checkpoint *c, pawl_error *err) {
    const source_ops *ops = c->source->ops;
    if (ops->say_safe != NULL) {
        ops->say_safe(c->source, err);
    }
}

void checkpoint_file_path(const pawl_checkpoint *c, uint32_t file, pawl_error *err) {
    char path[STORE_MAX_PATH];
    source_file_path(c->source, file, path);
    store_error_path(err, c->source->store, path);
}

/* ---- its files ---- */

static const char *get_file_name(void *context, uint32_t file) {
    struct source *s = context;
    return s->ops->file(s, file).name;
}

static uint64_t get_file_bytes(void *context, uint32_t file) {
    struct source *s = context;
    return s->ops->file(s, file).bytes;
}

static pawl_status open_file(void *context, uint32_t file, store_mode mode, store_file **out,
                             pawl_error *err) {
    struct source *s = context;
    return s->ops->open(s, file, mode, out, err);
}

static pawl_status get_checksums(void *context, uint32_t file, uint64_t first, size_t n,
                                 uint32_t *out, pawl_error *err) {
    struct source *s = context;
    return s->ops->checksums(s, file, first, n, out, err);
}

engine_source source_files(struct source *s, const platform *os) {
    return (engine_source){.store = s->store,
                           .directory = s->directory,
                           .file_count = s->all_files,
                           .context = s,
                           .file_name = get_file_name,
                           .file_bytes = get_file_bytes,
                           .open = open_file,
                           .checksums = s->ops->checksums != NULL ? get_checksums : NULL,
                           .reads = &s->reads.reads,
                           .bytes = &s->reads.bytes,
                           .platform = os};
}

/* ---- opening and closing ---- */

process_id checkpoint_process(const pawl_checkpoint *c) {
    return c->process;
}

void pawl_checkpoint_close(pawl_checkpoint *c) {
    if (c == NULL || !process_is_self(c->process)) {
        return;
    }
    checkpoint_memory_free(c->memory);
    engine_views_free(c->views);
    engine_reader_free(c->reader);
    arena_free(&c->found_memory);
    source_destroy(c->source);
    mem_free(c);
}

pawl_status checkpoint_open_source(struct source *s, const platform *os, const pawl_log *log,
                                   pawl_checkpoint **out, pawl_error *err) {
    pawl_checkpoint *c = mem_calloc(1, sizeof(*c));
    if (c == NULL) {
        source_destroy(s);
        return error_nomem(err, sizeof(*c));
    }
    c->process = process_self();
    c->source = s;
    c->platform = os;
    c->log = log != NULL ? *log : (pawl_log){0};
    const engine_source files = source_files(s, os);
    pawl_status status = engine_reader_new(&files, &c->reader, err);
    if (status != PAWL_OK) {
        pawl_checkpoint_close(c);
        return status;
    }
    *out = c;
    return PAWL_OK;
}

static pawl_status checkpoint_new(store *s, int64_t step, const platform *os, const pawl_log *log,
                                  bool mark, pawl_checkpoint **out, pawl_error *err) {
    struct source *native;
    TRY(native_open(s, step, os, log, mark, &native, err));
    return checkpoint_open_source(native, os, log, out, err);
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
    pawl_status status = step == CHECKPOINT_NEWEST
                             ? open_newest(s, os, log, mark, out, err)
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
        (*out)->source->own_store = own_store;
        native_keep_mark((*out)->source);
        return PAWL_OK;
    }
    if (own_store) {
        store_destroy(s);
    }
    return status;
}

pawl_status checkpoint_open_again(pawl_checkpoint *c, pawl_checkpoint **out, pawl_error *err) {
    struct source *again;
    TRY(c->source->ops->open_again(c->source, &again, err));
    return checkpoint_open_source(again, c->platform, &c->log, out, err);
}

/* ---- describing ---- */

store *checkpoint_store(const pawl_checkpoint *c) {
    return c->source->store;
}

int64_t checkpoint_step(const pawl_checkpoint *c) {
    return c->source->step;
}

const pawl_log *checkpoint_log(const pawl_checkpoint *c) {
    return &c->log;
}

const char *checkpoint_label(const pawl_checkpoint *c) {
    return c->source->label;
}

const char *checkpoint_unverified(const pawl_checkpoint *c) {
    return c->source->unverified;
}

struct source *checkpoint_source(pawl_checkpoint *c) {
    return c->source;
}

pawl_status checkpoint_identity(pawl_checkpoint *c, char out[CHECKPOINT_IDENTITY_CHARS],
                                pawl_error *err) {
    pawl_checkpoint_info info;
    uint32_t sum;
    checkpoint_describe(c, &info);
    if (info.step >= 0) {
        sum = crc32c(0, info.manifest_json, strlen(info.manifest_json));
        (void)snprintf(out, CHECKPOINT_IDENTITY_CHARS, "step %lld (attempt %s, manifest %08x)",
                       (long long)info.step, info.attempt, sum);
        return PAWL_OK;
    }
    TRY(c->source->ops->identity(c->source, &sum, err));
    (void)snprintf(out, CHECKPOINT_IDENTITY_CHARS, "%.30s (%llu entries, %llu bytes, sum %08x)",
                   info.format, (unsigned long long)info.entries,
                   (unsigned long long)info.data_bytes, sum);
    return PAWL_OK;
}

void checkpoint_describe(const pawl_checkpoint *c, pawl_checkpoint_info *info) {
    struct source *s = c->source;
    *info = (pawl_checkpoint_info){
        .step = s->step < 0 ? -1 : s->step,
        .world_size = s->world_size,
        .entries = s->entries,
        .data_files = s->files,
        .attempt = "",
        .framework = "",
        .path = s->path,
        .manifest_json = "{}",
        .metrics_json = "{}",
        .format = s->format,
    };
    for (uint32_t i = 0; i < s->files; i++) {
        info->data_bytes += s->ops->file(s, i).bytes;
    }
    if (s->ops->describe != NULL) {
        s->ops->describe(s, info);
    }
}

pawl_read_stats checkpoint_reads(const pawl_checkpoint *c) {
    return c->source->reads;
}
