/* SPDX-License-Identifier: Apache-2.0 */
/* Views: a piece of a tensor as read-only memory, verified where it is looked at. */
#include "checkpoint/private.h"

struct pawl_view {
    pawl_checkpoint *checkpoint;
    arena memory; /* of the entry */
    record_entry entry;
    const record_piece *piece;
    engine_view *bytes;
};

process_id view_process(const pawl_view *v) {
    return v->checkpoint->process;
}

void pawl_view_close(pawl_view *v) {
    if (v != NULL && process_is_self(view_process(v))) {
        engine_view_close(v->bytes);
        arena_free(&v->memory);
        mem_free(v);
    }
}

/* ---- which piece ---- */

static pawl_status no_such_piece(const pawl_view *v, uint64_t piece, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "the tensor has no piece of this number");
    error_path(err, "%s", v->checkpoint->source->path);
    error_entry(err, v->entry.name);
    error_expected(err, "a piece from 0 to %zu", v->entry.piece_count - 1);
    error_found(err, "piece %llu", (unsigned long long)piece);
    return PAWL_EUSAGE;
}

static pawl_status find_piece(pawl_view *v, const char *name, uint64_t piece, pawl_error *err) {
    TRY(checkpoint_tensor_entry(v->checkpoint, name, "can be viewed", &v->memory, &v->entry, err));
    if (piece >= v->entry.piece_count) {
        return no_such_piece(v, piece, err);
    }
    v->piece = &v->entry.pieces[piece];
    return PAWL_OK;
}

/* ---- opening ---- */

static pawl_status need_views(pawl_checkpoint *c, pawl_error *err) {
    if (c->views != NULL) {
        return PAWL_OK;
    }
    const engine_source files = source_files(c->source, c->platform);
    return engine_views_new(&files, &c->views, err);
}

static pawl_status open_piece(pawl_view *v, pawl_error *err) {
    const record_piece *piece = v->piece;
    TRY(need_views(v->checkpoint, err));
    pawl_status status = engine_view_open(v->checkpoint->views, piece->file, piece->offset,
                                          piece->bytes, &v->bytes, err);
    return status == PAWL_OK ? PAWL_OK
                             : checkpoint_piece_failed(v->checkpoint, &v->entry, piece, err);
}

pawl_status checkpoint_view_open(pawl_checkpoint *c, const char *name, uint64_t piece,
                                 pawl_view **out, pawl_error *err) {
    pawl_view *v = mem_calloc(1, sizeof(*v));
    if (v == NULL) {
        return error_nomem(err, sizeof(*v));
    }
    v->checkpoint = c;
    pawl_status status = find_piece(v, name, piece, err);
    if (status == PAWL_OK) {
        status = open_piece(v, err);
    }
    if (status != PAWL_OK) {
        pawl_view_close(v);
        return status;
    }
    *out = v;
    return PAWL_OK;
}

/* ---- looking ---- */

pawl_view_info checkpoint_view_describe(const pawl_view *v) {
    return (pawl_view_info){.dtype = v->entry.dtype,
                            .ndim = v->entry.ndim,
                            .shape = v->entry.shape,
                            .offset = v->piece->box_offset,
                            .extent = v->piece->box_extent,
                            .bytes = v->piece->bytes};
}

static pawl_status not_within(const pawl_view *v, uint64_t offset, uint64_t n, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "the bytes wanted are not within the view");
    error_entry(err, v->entry.name);
    error_expected(err, "a range within its %llu bytes", (unsigned long long)v->piece->bytes);
    error_found(err, "%llu bytes from %llu on", (unsigned long long)n, (unsigned long long)offset);
    return PAWL_EUSAGE;
}

pawl_status checkpoint_view_bytes(pawl_view *v, uint64_t offset, uint64_t n, const void **bytes,
                                  pawl_error *err) {
    uint64_t end;
    if (add_overflows(offset, n, &end) || end > v->piece->bytes) {
        return not_within(v, offset, n, err);
    }
    TRY(checkpoint_held(v->checkpoint, err));
    pawl_status status = engine_view_bytes(v->bytes, offset, n, bytes, err);
    return status == PAWL_OK ? PAWL_OK
                             : checkpoint_piece_failed(v->checkpoint, &v->entry, v->piece, err);
}
