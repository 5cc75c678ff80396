/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_catalog_open, pawl_checkpoint_*, pawl_entries_*; those that cannot fail are in
 * src/checkpoint, and what restores and verifies is in api/restore.c. */
#include "checkpoint/checkpoint.h"
#include "api/api.h"

/* ---- catalog ---- */

static pawl_status open_catalog(const char *path, const pawl_open_options *options,
                                pawl_catalog **catalog, pawl_error *err) {
    static const char call[] = "pawl_catalog_open";
    CLEANUP(store_destroy_pointer) store *s = NULL;
    opening how;
    TRY(need(path, call, "run_path", err));
    TRY(need(catalog, call, "catalog", err));
    *catalog = NULL;
    TRY(take_opening(&how, options, false, call, err));
    TRY(open_retrying(how.storage, path, false, &s, err));
    TRY(catalog_open(s, platform_system(), how.log, catalog, err));
    if (pawl_catalog_count(*catalog) > 0) {
        return PAWL_OK;
    }
    pawl_status status = catalog_explain_missing(s, *catalog, err);
    pawl_catalog_free(*catalog);
    *catalog = NULL;
    return status;
}

pawl_status pawl_catalog_open(const char *run_path, const pawl_open_options *options,
                              pawl_catalog **catalog, pawl_error *err) {
    struct pawl_error story;
    return story_end(open_catalog(run_path, options, catalog, story_begin(&story)), &story, err);
}

/* ---- checkpoint ---- */

static pawl_status open_checkpoint(const char *path, const pawl_open_options *options,
                                   pawl_checkpoint **checkpoint, pawl_error *err) {
    static const char call[] = "pawl_checkpoint_open";
    opening how;
    TRY(need(path, call, "run_path", err));
    TRY(need(checkpoint, call, "checkpoint", err));
    *checkpoint = NULL;
    TRY(take_opening(&how, options, true, call, err));
    return open_checkpoint_at(path, &how, checkpoint, err);
}

pawl_status pawl_checkpoint_open(const char *run_path, const pawl_open_options *options,
                                 pawl_checkpoint **checkpoint, pawl_error *err) {
    struct pawl_error story;
    return story_end(open_checkpoint(run_path, options, checkpoint, story_begin(&story)), &story,
                     err);
}

static pawl_status describe_checkpoint(const pawl_checkpoint *checkpoint,
                                       pawl_checkpoint_info *info, pawl_error *err) {
    static const char call[] = "pawl_checkpoint_describe";
    pawl_checkpoint_info known;
    TRY(need(checkpoint, call, "checkpoint", err));
    TRY(need_output(info, call, "info", "pawl_checkpoint_info", err));
    checkpoint_describe(checkpoint, &known);
    give_output(info, &known, sizeof(known));
    return PAWL_OK;
}

pawl_status pawl_checkpoint_describe(const pawl_checkpoint *checkpoint, pawl_checkpoint_info *info,
                                     pawl_error *err) {
    struct pawl_error story;
    return story_end(describe_checkpoint(checkpoint, info, story_begin(&story)), &story, err);
}

static pawl_status count_reads(const pawl_checkpoint *checkpoint, pawl_read_stats *stats,
                               pawl_error *err) {
    static const char call[] = "pawl_checkpoint_reads";
    TRY(need(checkpoint, call, "checkpoint", err));
    TRY(need_output(stats, call, "stats", "pawl_read_stats", err));
    pawl_read_stats known = checkpoint_reads(checkpoint);
    give_output(stats, &known, sizeof(known));
    return PAWL_OK;
}

pawl_status pawl_checkpoint_reads(const pawl_checkpoint *checkpoint, pawl_read_stats *stats,
                                  pawl_error *err) {
    struct pawl_error story;
    return story_end(count_reads(checkpoint, stats, story_begin(&story)), &story, err);
}

static pawl_status find_entry(pawl_checkpoint *checkpoint, const char *name, pawl_entry_info *info,
                              pawl_error *err) {
    static const char call[] = "pawl_checkpoint_find";
    pawl_entry_info known;
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(need(name, call, "name", err));
    TRY(need_output(info, call, "info", "pawl_entry_info", err));
    TRY(checkpoint_find(checkpoint, name, &known, err));
    give_output(info, &known, sizeof(known));
    return PAWL_OK;
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

static pawl_status lend_tensor(pawl_checkpoint *checkpoint, const char *name, pawl_tensor *tensor,
                               pawl_error *err) {
    static const char call[] = "pawl_checkpoint_tensor";
    pawl_tensor found = {.struct_size = sizeof(found)};
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(need(name, call, "name", err));
    TRY(need_output(tensor, call, "tensor", "pawl_tensor", err));
    if (tensor->struct_size < offsetof(pawl_tensor, memory) + sizeof(const pawl_memory *)) {
        return error_set(err, PAWL_EUSAGE, "%s: pawl_tensor has no member `memory`", call);
    }
    TRY(checkpoint_tensor(checkpoint, name, &found, err));
    give_output(tensor, &found, sizeof(found));
    return PAWL_OK;
}

pawl_status pawl_checkpoint_tensor(pawl_checkpoint *checkpoint, const char *name,
                                   pawl_tensor *tensor, pawl_error *err) {
    struct pawl_error story;
    return story_end(lend_tensor(checkpoint, name, tensor, story_begin(&story)), &story, err);
}

static pawl_status refuse_slices(const char *call, size_t count, size_t size, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "%s: slice_size or count is wrong", call);
    error_expected(err, "slice_size %zu, which is sizeof(pawl_slice)", sizeof(pawl_slice));
    error_found(err, "%zu slices of %zu bytes", count, size);
    return PAWL_EUSAGE;
}

static bool slices_can_be_reached(const slice_array *slices) {
    uint64_t bytes;
    return slices->first != NULL && slices->size >= sizeof(pawl_slice) &&
           struct_size_valid(slices->size) &&
           !multiply_overflows(slices->count, slices->size, &bytes) &&
           bytes <= (uint64_t)PTRDIFF_MAX;
}

/* What a newer pawl_slice has more must be zero, as in take_options. */
static pawl_status check_slice(const pawl_slice *s, size_t size, const char *call,
                               pawl_error *err) {
    if (struct_has_more(s, size, sizeof(*s))) {
        return newer_struct(call, "pawl_slice", sizeof(*s), size, err);
    }
    TRY(need(s->name, call, "name", err));
    return need_items(s->to, s->to_bytes, call, "to", err);
}

static pawl_status check_slices(const slice_array *slices, const char *call, pawl_error *err) {
    for (size_t i = 0; i < slices->count; i++) {
        pawl_slice *s = slice_array_at(slices, i);
        pawl_status status = check_slice(s, slices->size, call, err);
        if (status != PAWL_OK) {
            s->status = status;
            error_wrap(err, "slices[%zu]", i);
            return status;
        }
    }
    return PAWL_OK;
}

static pawl_status read_slices(pawl_checkpoint *checkpoint, pawl_slice *slices, size_t slice_size,
                               size_t count, pawl_error *err) {
    static const char call[] = "pawl_checkpoint_read_many";
    const slice_array all = {.first = slices, .size = slice_size, .count = count};
    bool reached = slices_can_be_reached(&all);
    if (reached) {
        slice_array_cancel(&all);
    }
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(need_items(slices, count, call, "slices", err));
    if (count == 0) {
        return PAWL_OK;
    }
    if (!reached) {
        return refuse_slices(call, count, slice_size, err);
    }
    TRY(check_slices(&all, call, err));
    return checkpoint_read_many(checkpoint, &all, err);
}

pawl_status pawl_checkpoint_read_many(pawl_checkpoint *checkpoint, pawl_slice *slices,
                                      size_t slice_size, size_t count, pawl_error *err) {
    struct pawl_error story;
    return story_end(read_slices(checkpoint, slices, slice_size, count, story_begin(&story)),
                     &story, err);
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
    TRY(need_output(info, call, "info", "pawl_entry_info", err));
    TRY(need(more, call, "more", err));
    pawl_entry_info known;
    TRY(entries_next(entries, &known, more, err));
    if (*more != 0) {
        give_output(info, &known, sizeof(known));
    }
    return PAWL_OK;
}

pawl_status pawl_entries_next(pawl_entries *entries, pawl_entry_info *info, int *more,
                              pawl_error *err) {
    struct pawl_error story;
    return story_end(entries_advance(entries, info, more, story_begin(&story)), &story, err);
}
