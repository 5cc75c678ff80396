/* SPDX-License-Identifier: Apache-2.0 */
/* The files that are being written, a few at a time, and the queue that writes their bytes. */
#include "engine/save.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- the queue ---- */

store_queue *engine_queue(engine *e) {
    return e->small ? e->line_queue : e->queue;
}

static store_queue_options queue_options(const engine *e) {
    return (store_queue_options){.platform = e->options.platform,
                                 .tuning = &e->options.tuning,
                                 .io = e->options.io,
                                 .depth = e->write_limit + ENGINE_OPEN_FILES,
                                 .memory = e->slab,
                                 .memory_bytes = e->stream_limit * e->buffer_bytes,
                                 .region_bytes = e->buffer_bytes};
}

static pawl_status open_line_queue(engine *e, pawl_error *err) {
    platform alone = *e->options.platform;
    alone.concurrent = false; /* what is submitted is written at once */
    store_queue_options options = queue_options(e);
    options.platform = &alone;
    options.memory = NULL;
    options.memory_bytes = 0;
    return e->line_queue == NULL ? store_queue_new(&options, &e->line_queue, err) : PAWL_OK;
}

static pawl_status open_queue(engine *e, pawl_error *err) {
    store_queue *made = NULL;
    store_queue_options options = queue_options(e);
    if (e->queue != NULL) {
        return PAWL_OK;
    }
    TRY(store_queue_new(&options, &made, err));
    monitor_enter(&e->monitor);
    e->queue = made;
    monitor_leave(&e->monitor);
    return PAWL_OK;
}

pawl_status engine_queue_open(engine *e, pawl_error *err) {
    TRY(e->small ? open_line_queue(e, err) : open_queue(e, err));
    monitor_enter(&e->monitor);
    e->stats.io = store_queue_kind(engine_queue(e));
    monitor_leave(&e->monitor);
    return PAWL_OK;
}

/* ---- files ---- */

engine_output *engine_output_of(engine *e, size_t file) {
    return &e->outputs[file % ENGINE_OPEN_FILES];
}

bool engine_output_free(const engine *e, size_t file) {
    const engine_output *o = &e->outputs[file % ENGINE_OPEN_FILES];
    return o->file == NULL || o->index == file;
}

static void begin_opening(engine *e, const char *name) {
    monitor_enter(&e->monitor);
    snprintf(e->file_name, sizeof(e->file_name), "%s", name);
    engine_set_doing(e, ENGINE_OPENING);
    monitor_leave(&e->monitor);
}

/* Tries again when the directory is gone: rank 0 removes empty ones, which failed saves leave, and
 * may do so just before this rank creates its first file. */
static pawl_status create_file(engine *e, const char *path, store_file **out, pawl_error *err) {
    bool buffered = e->options.io == PAWL_IO_BUFFERED;
    store_mode mode = buffered ? STORE_CREATE_STREAM : STORE_CREATE_BULK;
    pawl_status status = store_open(e->job.store, path, mode, out, err);
    if (status != PAWL_ENOTFOUND) {
        return status;
    }
    struct pawl_error ignored = ERROR_INIT;
    pawl_status made = store_make_dir(e->job.store, e->job.directory, &ignored);
    return made == PAWL_OK || made == PAWL_EBUSY ? store_open(e->job.store, path, mode, out, err)
                                                 : status;
}

/* Reserves room for the whole file, so that a full disk is noticed before the first byte. */
static pawl_status create_output(engine *e, const plan_file *file, store_file **out,
                                 pawl_error *err) {
    char path[STORE_MAX_PATH];
    int n = snprintf(path, sizeof(path), "%s/%s", e->job.directory, file->name);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return error_set(err, PAWL_ELIMIT, "the path %s/%s is too long", e->job.directory,
                         file->name);
    }
    CLEANUP(store_close_pointer) store_file *f = NULL;
    TRY(create_file(e, path, &f, err));
    pawl_status status = store_reserve(f, file->bytes, err);
    if (status == PAWL_OK) {
        *out = f;
        f = NULL;
    } else if (status == PAWL_ENOSPACE) {
        char bytes[32];
        error_expected(err, "%s free", text_bytes(bytes, file->bytes));
    }
    return status;
}

pawl_status engine_output_open(engine *e, size_t file, pawl_error *err) {
    engine_output *o = engine_output_of(e, file);
    const plan_file *plan = &e->job.layout->files[file];
    assert(engine_output_free(e, file));
    if (o->file != NULL) {
        return PAWL_OK;
    }
    begin_opening(e, plan->name);
    pawl_status status = create_output(e, plan, &o->file, err);
    engine_now_doing(e, ENGINE_WRITING);
    o->index = file;
    return status;
}

void engine_output_sync(engine *e, size_t file) {
    engine_output *o = engine_output_of(e, file);
    o->sync.kind = STORE_IO_SYNC;
    o->sync.file = o->file;
    o->sync.context = o;
    monitor_enter(&e->monitor);
    engine_mark_progress(e);
    e->under_way++;
    monitor_leave(&e->monitor);
    store_queue_submit(engine_queue(e), &o->sync);
}

void engine_output_close(engine *e, engine_output *o) {
    if (o->file != NULL) {
        store_queue_forget(engine_queue(e), o->file);
        store_close(o->file);
        o->file = NULL;
    }
}

void engine_outputs_close(engine *e) {
    for (size_t i = 0; i < ENGINE_OPEN_FILES; i++) {
        engine_output_close(e, &e->outputs[i]);
    }
}
