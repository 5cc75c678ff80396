/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_catalog_open, pawl_checkpoint_*, pawl_entries_*; those that cannot fail are in
 * src/checkpoint. */
#include "checkpoint/checkpoint.h"
#include "api/api.h"

/* ---- catalog ---- */

static pawl_status open_catalog(const char *path, const pawl_log *log, pawl_catalog **catalog,
                                pawl_error *err) {
    CLEANUP(store_destroy_pointer) store *s = NULL;
    TRY(need(path, "pawl_catalog_open", "run_path", err));
    TRY(need(catalog, "pawl_catalog_open", "catalog", err));
    *catalog = NULL;
    TRY(open_retrying(path, false, &s, err));
    TRY(catalog_open(s, platform_system(), log, catalog, err));
    if (pawl_catalog_count(*catalog) > 0) {
        return PAWL_OK;
    }
    pawl_status status = catalog_explain_missing(s, *catalog, err);
    pawl_catalog_free(*catalog);
    *catalog = NULL;
    return status;
}

pawl_status pawl_catalog_open(const char *run_path, const pawl_log *log, pawl_catalog **catalog,
                              pawl_error *err) {
    struct pawl_error story;
    return story_end(open_catalog(run_path, log, catalog, story_begin(&story)), &story, err);
}

/* ---- checkpoint ---- */

static pawl_status open_checkpoint(const char *path, int64_t step, const pawl_log *log,
                                   pawl_checkpoint **checkpoint, pawl_error *err) {
    store *s = NULL;
    TRY(need(path, "pawl_checkpoint_open", "run_path", err));
    TRY(need(checkpoint, "pawl_checkpoint_open", "checkpoint", err));
    *checkpoint = NULL;
    TRY(open_retrying(path, false, &s, err));
    return checkpoint_open(s, true, step, platform_system(), log, checkpoint, err);
}

pawl_status pawl_checkpoint_open(const char *run_path, int64_t step, const pawl_log *log,
                                 pawl_checkpoint **checkpoint, pawl_error *err) {
    struct pawl_error story;
    return story_end(open_checkpoint(run_path, step, log, checkpoint, story_begin(&story)), &story,
                     err);
}

static pawl_status find_entry(pawl_checkpoint *checkpoint, const char *name, pawl_entry_info *info,
                              pawl_error *err) {
    static const char call[] = "pawl_checkpoint_find";
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(need(name, call, "name", err));
    TRY(need(info, call, "info", err));
    return checkpoint_find(checkpoint, name, info, err);
}

pawl_status pawl_checkpoint_find(pawl_checkpoint *checkpoint, const char *name,
                                 pawl_entry_info *info, pawl_error *err) {
    struct pawl_error story;
    return story_end(find_entry(checkpoint, name, info, story_begin(&story)), &story, err);
}

static pawl_status read_slice(pawl_checkpoint *checkpoint, const char *name, const int64_t *offset,
                              const int64_t *extent, void *to, size_t to_bytes, pawl_error *err) {
    static const char call[] = "pawl_checkpoint_read";
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(need(name, call, "name", err));
    TRY(need_items(to, to_bytes, call, "to", err));
    return checkpoint_read(checkpoint, name, offset, extent, to, to_bytes, err);
}

pawl_status pawl_checkpoint_read(pawl_checkpoint *checkpoint, const char *name,
                                 const int64_t *offset, const int64_t *extent, void *to,
                                 size_t to_bytes, pawl_error *err) {
    struct pawl_error story;
    return story_end(
        read_slice(checkpoint, name, offset, extent, to, to_bytes, story_begin(&story)), &story,
        err);
}

static pawl_status read_rank(pawl_checkpoint *checkpoint, const char *name, int rank, void *to,
                             size_t capacity, size_t *size, pawl_error *err) {
    static const char call[] = "pawl_checkpoint_read_rank";
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(need(name, call, "name", err));
    TRY(need(size, call, "size", err));
    TRY(need_items(to, capacity, call, "to", err));
    return checkpoint_read_rank(checkpoint, name, rank, to, capacity, size, err);
}

pawl_status pawl_checkpoint_read_rank(pawl_checkpoint *checkpoint, const char *name, int rank,
                                      void *to, size_t capacity, size_t *size, pawl_error *err) {
    struct pawl_error story;
    return story_end(read_rank(checkpoint, name, rank, to, capacity, size, story_begin(&story)),
                     &story, err);
}

static pawl_status restore_checkpoint(pawl_checkpoint *checkpoint, pawl_state *state,
                                      const pawl_restore_options *options, pawl_report **report,
                                      pawl_error *err) {
    static const char call[] = "pawl_checkpoint_restore";
    pawl_restore_options known;
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(need(state, call, "state", err));
    TRY(take_restore_options(&known, options, call, err));
    return checkpoint_restore(checkpoint, state, &known, 0, 1, report, err);
}

pawl_status pawl_checkpoint_restore(pawl_checkpoint *checkpoint, pawl_state *state,
                                    const pawl_restore_options *options, pawl_report **report,
                                    pawl_error *err) {
    struct pawl_error story;
    if (report != NULL) {
        *report = NULL;
    }
    return story_end(restore_checkpoint(checkpoint, state, options, report, story_begin(&story)),
                     &story, err);
}

static pawl_status verify_checkpoint(pawl_checkpoint *checkpoint,
                                     const pawl_verify_options *options, pawl_verify_result *result,
                                     pawl_error *err) {
    static const char call[] = "pawl_checkpoint_verify";
    pawl_verify_options known;
    pawl_verify_result unwanted;
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(take_options(&known, sizeof(known), options, call, "pawl_verify_options", err));
    return checkpoint_verify(checkpoint, &known, result != NULL ? result : &unwanted, err);
}

pawl_status pawl_checkpoint_verify(pawl_checkpoint *checkpoint, const pawl_verify_options *options,
                                   pawl_verify_result *result, pawl_error *err) {
    struct pawl_error story;
    return story_end(verify_checkpoint(checkpoint, options, result, story_begin(&story)), &story,
                     err);
}

/* ---- entries ---- */

static pawl_status open_entries(pawl_checkpoint *checkpoint, const char *prefix,
                                pawl_entries **entries, pawl_error *err) {
    static const char call[] = "pawl_entries_open";
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(need(prefix, call, "prefix", err));
    TRY(need(entries, call, "entries", err));
    *entries = NULL;
    return entries_open(checkpoint, prefix, entries, err);
}

pawl_status pawl_entries_open(pawl_checkpoint *checkpoint, const char *prefix,
                              pawl_entries **entries, pawl_error *err) {
    struct pawl_error story;
    return story_end(open_entries(checkpoint, prefix, entries, story_begin(&story)), &story, err);
}

static pawl_status entries_advance(pawl_entries *entries, pawl_entry_info *info, int *more,
                                   pawl_error *err) {
    static const char call[] = "pawl_entries_next";
    TRY(need(entries, call, "entries", err));
    TRY(need_own(entries_process(entries), call, "walk over entries",
                 "pawl_checkpoint_open and pawl_entries_open", err));
    TRY(need(info, call, "info", err));
    TRY(need(more, call, "more", err));
    return entries_next(entries, info, more, err);
}

pawl_status pawl_entries_next(pawl_entries *entries, pawl_entry_info *info, int *more,
                              pawl_error *err) {
    struct pawl_error story;
    return story_end(entries_advance(entries, info, more, story_begin(&story)), &story, err);
}
