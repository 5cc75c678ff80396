/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a whole data file block by block, and goes on after damage. */
#include "engine/reader.h"

typedef struct verification {
    engine_reader *reader;
    pawl_status (*problem)(void *context, uint64_t offset, uint64_t length, pawl_error *story);
    void (*progress)(void *context, uint64_t bytes);
    void *context;
} verification;

/* Hands the story on; without anybody to hand it to, it is the failure. */
static pawl_status report(const verification *v, uint64_t offset, uint64_t length,
                          pawl_error *story, pawl_error *err) {
    if (v->problem == NULL) {
        *err = *story;
        return story->status;
    }
    pawl_status status = v->problem(v->context, offset, length, story);
    if (status != PAWL_OK) {
        *err = *story;
        err->status = status;
    }
    return status;
}

static pawl_status report_size(const verification *v, uint64_t found_bytes, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    engine_reader_wrong_size(v->reader, found_bytes, &story);
    return report(v, story.offset, story.length, &story, err);
}

/* Storage that cannot be read is a problem of these bytes, and the rest is still worth a look. */
static pawl_status verify_window(const verification *v, uint64_t at, size_t n, pawl_error *err) {
    engine_reader *r = v->reader;
    struct pawl_error story = ERROR_INIT;
    pawl_status status = engine_reader_load(r, at, n, &story);
    if (status == PAWL_ENOMEM) {
        *err = story;
        return status;
    }
    if (status != PAWL_OK) {
        if (!story.has_range) {
            error_range(&story, at, n);
        }
        return report(v, at, n, &story, err);
    }
    damaged_run run = engine_reader_damage(r, 0);
    while (run.count > 0) {
        engine_reader_damaged(r, &run, &story);
        TRY(report(v, story.offset, story.length, &story, err));
        run = engine_reader_damage(r, run.first + run.count);
    }
    return PAWL_OK;
}

/* A truncated file is checked as far as its last whole block. */
static pawl_status verify_blocks(const verification *v, uint64_t found_bytes, pawl_error *err) {
    uint64_t end = v->reader->file_bytes;
    if (found_bytes < end) {
        end = found_bytes - found_bytes % FORMAT_BLOCK_BYTES;
    }
    for (uint64_t at = 0; at < end;) {
        size_t n = end - at < ENGINE_BUFFER_BYTES ? (size_t)(end - at) : ENGINE_BUFFER_BYTES;
        TRY(verify_window(v, at, n, err));
        at += n;
        if (v->progress != NULL) {
            v->progress(v->context, n);
        }
    }
    return PAWL_OK;
}

pawl_status engine_reader_verify(engine_reader *r, uint32_t file,
                                 pawl_status (*problem)(void *context, uint64_t offset,
                                                        uint64_t length, pawl_error *story),
                                 void (*progress)(void *context, uint64_t bytes), void *context,
                                 pawl_error *err) {
    verification v = {.reader = r, .problem = problem, .progress = progress, .context = context};
    struct pawl_error story = ERROR_INIT;
    uint64_t found_bytes = 0;
    pawl_status status = engine_reader_open(r, file, &found_bytes, &story);
    if (status != PAWL_OK) {
        engine_reader_close(r);
        if (status == PAWL_ENOMEM) {
            *err = story;
            return status;
        }
        return report(&v, 0, r->source.file_bytes(r->source.context, file), &story, err);
    }
    if (found_bytes != r->file_bytes) {
        status = report_size(&v, found_bytes, err);
    }
    if (status == PAWL_OK) {
        status = verify_blocks(&v, found_bytes, err);
    }
    engine_reader_close(r); /* what was read may be damaged: nobody reads from this window */
    return status;
}
