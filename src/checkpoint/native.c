/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a committed step as a source: its mark, its manifest and its index; and tells when the step
 * was removed or saved again meanwhile. */
#include "checkpoint/native.h"

#include "checkpoint/step_directory.h"
#include "checkpoint/step_scan.h"
#include "format/presence_record.h"
#include "store/evidence.h"

#include <stdio.h>
#include <string.h>

static native_source *native_of(struct source *s) {
    return (native_source *)s;
}

/* ---- the index ---- */

static pawl_status read_counted(void *context, uint64_t offset, void *to, size_t n,
                                pawl_error *err) {
    native_source *c = context;
    reader_mark_touch(c->mark);
    c->base.reads.reads++;
    c->base.reads.bytes += n;
    return c->index_file_source.read_at(c->index_file_source.context, offset, to, n, err);
}

pawl_status native_index_failed(struct source *s, pawl_status status, pawl_error *err) {
    if (status == PAWL_ENOMEM) {
        return status;
    }
    if (err->path[0] == '\0') {
        error_path(err, "%s/%s", s->path, s->index_name);
    }
    if (status == PAWL_EDAMAGED) {
        error_wrap(err, "the index of the checkpoint is damaged");
        step_say_safe(s->store, s->step, err);
    }
    error_step(err, s->step);
    return status;
}

static pawl_status open_index_file(native_source *c, pawl_error *err) {
    char path[STORE_MAX_PATH];
    snprintf(path, sizeof(path), "%s/%s", c->directory, c->manifest.index_name);
    pawl_status status =
        store_open_for_certain(c->base.store, path, STORE_READ, &c->index_file, err);
    if (status != PAWL_ENOTFOUND) {
        return status;
    }
    error_set(err, PAWL_EDAMAGED, "the index of the checkpoint is missing");
    error_path(err, "%s/%s", c->base.path, c->manifest.index_name);
    error_found(err, "no such file");
    return PAWL_EDAMAGED;
}

static pawl_status open_index(native_source *c, pawl_error *err) {
    TRY(open_index_file(c, err));
    TRY(store_source(c->index_file, &c->index_file_source, err));
    byte_source counted = {
        .context = c, .size = c->index_file_source.size, .read_at = read_counted};
    pawl_status status = table_open(counted, &c->manifest.index.footer_crc32c, &c->index, err);
    if (status != PAWL_OK) {
        return native_index_failed(&c->base, status, err);
    }
    TRY(table_cursor_new(c->index, &c->checksums_at, err));
    return table_cursor_new(c->index, &c->find_at, err);
}

/* ---- the data files ---- */

static pawl_status check_sizes(native_source *c, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    step_listing listing;
    TRY(step_list(c->base.store, c->directory, &memory, &listing, err));
    return step_check_files(c->base.store, c->directory, &c->manifest, &listing, err);
}

static source_file native_file(struct source *s, uint32_t number) {
    const manifest_file *file = &native_of(s)->manifest.files[number];
    return (source_file){.name = file->name, .bytes = file->bytes};
}

static pawl_status native_open_file(struct source *s, uint32_t number, store_mode mode,
                                    store_file **out, pawl_error *err) {
    char path[STORE_MAX_PATH];
    source_file_path(s, number, path);
    return store_open_for_certain(s->store, path, mode, out, err);
}

/* ---- removed or saved again while it is open ---- */

static void say_what_to_open(const native_source *c, bool replaced, pawl_error *err) {
    CLEANUP(step_scan_free) step_scan scan = step_scan_of(c->base.store, c->platform);
    struct pawl_error ignored = ERROR_INIT;
    int64_t newest = -1;
    if (replaced) {
        error_safe(err, "step %lld is committed, as it was saved again", (long long)c->base.step);
    } else if (step_scan_list(&scan, &ignored) == PAWL_OK &&
               step_scan_newest(&scan, &newest, &ignored) == PAWL_OK && newest >= 0) {
        error_safe(err, "step %lld is committed, the newest now", (long long)newest);
    }
    error_next(err, "open %s again; pawl ls %s shows what is there",
               replaced ? "the step" : "the newest step", c->base.store->root);
}

static void say_lost(const native_source *c, bool replaced, pawl_error *err) {
    error_set(err, PAWL_EBUSY, "step %lld was %s while it was open", (long long)c->base.step,
              replaced ? "saved again" : "removed");
    error_expected(err, "a reader's mark that keeps the files of the step");
    say_what_to_open(c, replaced, err);
    error_step(err, c->base.step);
}

/* PAWL_EBUSY when the mark was lost for a while (the process stood still) and the step was removed
 * or saved again meanwhile. */
static pawl_status native_held(struct source *s, pawl_error *err) {
    native_source *c = native_of(s);
    reader_mark_touch(c->mark);
    unsigned losses = reader_mark_losses(c->mark);
    if (losses == c->losses && !c->lost) {
        return PAWL_OK;
    }
    step_manifest now = step_manifest_now(s->store, c->directory, &c->manifest_text);
    c->losses = now == STEP_MANIFEST_SAME ? losses : c->losses;
    c->lost = c->lost || now == STEP_MANIFEST_GONE || now == STEP_MANIFEST_OTHER;
    if (!c->lost) {
        return PAWL_OK;
    }
    say_lost(c, now == STEP_MANIFEST_OTHER, err);
    error_path(err, "%s", s->path);
    error_found(err,
                "no mark for a while: this process stood still for longer than %.0f s, or "
                "could not write there",
                READER_STILL_S);
    return PAWL_EBUSY;
}

/* That takes a mark that could not be made, or was taken for stale. */
static bool native_lost(struct source *s, const char *file, pawl_error *err) {
    native_source *c = native_of(s);
    char path[STORE_MAX_PATH];
    store_stat stat;
    struct pawl_error ignored = ERROR_INIT;
    snprintf(path, sizeof(path), "%s/%s", c->directory, file);
    if (store_stat_path(s->store, path, &stat, &ignored) != PAWL_ENOTFOUND) {
        return false;
    }
    step_manifest now = step_manifest_now(s->store, c->directory, &c->manifest_text);
    if (now != STEP_MANIFEST_GONE && now != STEP_MANIFEST_OTHER) {
        return false;
    }
    say_lost(c, now == STEP_MANIFEST_OTHER, err);
    error_path(err, "%s/%s", s->path, file);
    error_found(err, "%s, and the file is gone",
                c->mark != NULL ? "a mark that was taken for a stale one"
                                : "no mark, because none could be made in the directory");
    return true;
}

static bool same_manifest(const native_source *a, const native_source *b) {
    return a->manifest_text.size == b->manifest_text.size &&
           memcmp(a->manifest_text.data, b->manifest_text.data, a->manifest_text.size) == 0;
}

/* Without a mark of its own. The storage may not show it at once. */
static pawl_status open_unmarked(const native_source *c, struct source **out, pawl_error *err) {
    store *s = c->base.store;
    CLEANUP(step_scan_free) step_scan scan = step_scan_of(s, c->platform);
    for (;;) {
        pawl_status status = native_open(s, c->base.step, c->platform, &c->log, false, out, err);
        if (status != PAWL_ENOTFOUND ||
            step_manifest_now(s, c->directory, &c->manifest_text) != STEP_MANIFEST_SAME) {
            return status;
        }
        TRY(step_scan_retry(&scan, err));
    }
}

static pawl_status native_open_again(struct source *s, struct source **out, pawl_error *err) {
    const native_source *c = native_of(s);
    struct source *again = NULL;
    TRY(native_held(s, err));
    pawl_status status = open_unmarked(c, &again, err);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        return status;
    }
    if (status == PAWL_OK && same_manifest(native_of(again), c)) {
        *out = again;
        return PAWL_OK;
    }
    source_destroy(again);
    say_lost(c, step_manifest_now(s->store, c->directory, &c->manifest_text) == STEP_MANIFEST_OTHER,
             err);
    error_path(err, "%s", s->path);
    return PAWL_EBUSY;
}

static void native_say_safe(struct source *s, pawl_error *err) {
    step_say_safe(s->store, s->step, err);
}

/* ---- describing ---- */

static void native_describe(struct source *s, pawl_checkpoint_info *info) {
    const native_source *c = native_of(s);
    const manifest *m = &c->manifest;
    info->format_version = m->version;
    info->unix_time_ns = m->unix_time_ns;
    info->index_bytes = m->index.bytes;
    info->attempt = m->attempt;
    info->framework = m->framework != NULL ? m->framework : "";
    info->manifest_json = (const char *)c->manifest_text.data;
    info->metrics_json = (const char *)c->metrics.data;
}

/* ---- the end ---- */

static void native_destroy(struct source *s) {
    native_source *c = native_of(s);
    table_cursor_free(c->find_at);
    table_cursor_free(c->checksums_at);
    table_close(c->index);
    store_close(c->index_file);
    manifest_free(&c->manifest);
    buffer_free(&c->manifest_text);
    buffer_free(&c->metrics);
    arena_free(&s->memory);
    if (reader_mark_free(c->mark) && s->own_store) {
        store_destroy(s->store);
    }
    mem_free(c);
}

/* ---- opening ---- */

static const source_ops native_ops = {
    .walk = native_walk,
    .next = native_next,
    .end = native_end,
    .find = native_find,
    .file = native_file,
    .open = native_open_file,
    .checksums = native_checksums,
    .open_again = native_open_again,
    .held = native_held,
    .lost = native_lost,
    .say_safe = native_say_safe,
    .entry_failed = native_index_failed,
    .verify = native_verify,
    .describe = native_describe,
    .destroy = native_destroy,
};

static void take_manifest(native_source *c) {
    const manifest *m = &c->manifest;
    c->base.index_name = m->index_name;
    c->base.world_size = m->world_size;
    c->base.entries = m->entries;
    c->base.described_bytes = c->manifest_text.size + m->index.bytes;
    c->base.described_files = 2; /* index and manifest */
    c->base.files = (uint32_t)m->file_count;
    c->base.all_files = (uint32_t)m->file_count;
}

/* The mark is made before the manifest is read; whoever removes the step removes the manifest
 * before looking for marks. So either they see the mark and leave the files, or no manifest is
 * found here. */
static pawl_status open_parts(native_source *c, bool mark, pawl_error *err) {
    store *s = c->base.store;
    if (mark) {
        TRY(reader_mark_new(s, c->directory, c->platform, &c->log, &c->mark, err));
    }
    TRY(step_read_manifest(s, c->base.step, &c->manifest_text, &c->manifest, err));
    TRY(manifest_metrics_json(&c->manifest, &c->metrics, err));
    take_manifest(c);
    TRY(check_sizes(c, err));
    return open_index(c, err);
}

/* Makes a failure PAWL_ENOTFOUND, for another try, where the step was removed or saved again
 * meanwhile: then it says nothing about what is there now. */
static pawl_status not_found_if_changed(const native_source *c, pawl_status status,
                                        pawl_error *err) {
    if (status == PAWL_OK || status == PAWL_ENOTFOUND || status == PAWL_ENOMEM ||
        status == PAWL_EINTERNAL) {
        return status;
    }
    step_manifest now = step_manifest_now(c->base.store, c->directory, &c->manifest_text);
    if (now == STEP_MANIFEST_GONE || now == STEP_MANIFEST_OTHER) {
        return PAWL_ENOTFOUND;
    }
    if (status == PAWL_EDAMAGED) {
        step_say_safe(c->base.store, c->base.step, err);
    }
    return status;
}

static pawl_status name_texts(native_source *c, pawl_error *err) {
    struct source *s = &c->base;
    name_step(c->directory, s->step);
    s->directory = c->directory;
    s->path = arena_printf(&s->memory, "%s/%s", s->store->root, c->directory);
    s->label = arena_printf(&s->memory, "step %lld", (long long)s->step);
    return s->path != NULL && s->label != NULL ? PAWL_OK : error_nomem(err, STORE_MAX_PATH);
}

pawl_status native_open(store *s, int64_t step, const platform *os, const pawl_log *log, bool mark,
                        struct source **out, pawl_error *err) {
    native_source *c = mem_calloc(1, sizeof(*c));
    if (c == NULL) {
        return error_nomem(err, sizeof(*c));
    }
    c->base = (struct source){
        .ops = &native_ops, .format = "pawl", .store = s, .step = step, .checked = true};
    c->platform = os;
    c->log = log != NULL ? *log : (pawl_log){0};
    pawl_status status = name_texts(c, err);
    if (status == PAWL_OK) {
        status = not_found_if_changed(c, open_parts(c, mark, err), err);
    }
    if (status != PAWL_OK) {
        native_destroy(&c->base);
        return status;
    }
    *out = &c->base;
    return PAWL_OK;
}

void native_keep_mark(struct source *s) {
    reader_mark_keep(native_of(s)->mark);
}
