/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the index of a checkpoint: block checksums of its data files, then its entries. */
#include "run/private.h"

#include <stdlib.h>
#include <string.h>

/* ---- the entries of a layout, as records ---------------------------------------------------- */

typedef struct sorted_piece {
    const plan_piece *piece;
} sorted_piece;

struct index_layout {
    const plan_layout *layout;
    sorted_piece *pieces; /* ascending by entry name, then file */
    size_t next;
    record_entry current;
    record_piece *record_pieces; /* room for the most pieces an entry has */
    int64_t *bounds;             /* their offsets and extents */
    size_t most_pieces;
};

static int compare_pieces(const void *a, const void *b) {
    const plan_piece *left = ((const sorted_piece *)a)->piece;
    const plan_piece *right = ((const sorted_piece *)b)->piece;
    if (left->entry != right->entry) {
        return strcmp(left->entry->name, right->entry->name);
    }
    return (left->file > right->file) - (left->file < right->file);
}

static size_t count_same_entry(const index_layout *il, size_t from) {
    size_t end = from;
    while (end < il->layout->piece_count &&
           il->pieces[end].piece->entry == il->pieces[from].piece->entry) {
        end++;
    }
    return end - from;
}

static pawl_status make_room(index_layout *il, pawl_error *err) {
    for (size_t i = 0; i < il->layout->piece_count; i += count_same_entry(il, i)) {
        size_t count = count_same_entry(il, i);
        il->most_pieces = count > il->most_pieces ? count : il->most_pieces;
    }
    il->record_pieces = mem_calloc(il->most_pieces, sizeof *il->record_pieces);
    il->bounds = mem_calloc(il->most_pieces, (size_t)2 * PAWL_MAX_NDIM * sizeof *il->bounds);
    if (il->record_pieces == NULL || il->bounds == NULL) {
        return error_nomem(err, il->most_pieces * (size_t)2 * PAWL_MAX_NDIM * sizeof *il->bounds);
    }
    return PAWL_OK;
}

pawl_status index_layout_open(const plan_layout *layout, index_layout **out, pawl_error *err) {
    index_layout *il = mem_calloc(1, sizeof *il);
    if (il == NULL) {
        return error_nomem(err, sizeof *il);
    }
    il->layout = layout;
    il->pieces = mem_calloc(layout->piece_count, sizeof *il->pieces);
    if (il->pieces == NULL) {
        index_layout_close(il);
        return error_nomem(err, layout->piece_count * sizeof *il->pieces);
    }
    for (size_t i = 0; i < layout->piece_count; i++) {
        il->pieces[i].piece = &layout->pieces[i];
    }
    qsort(il->pieces, layout->piece_count, sizeof *il->pieces, compare_pieces);
    pawl_status status = make_room(il, err);
    if (status != PAWL_OK) {
        index_layout_close(il);
        return status;
    }
    *out = il;
    return PAWL_OK;
}

void index_layout_close(index_layout *il) {
    if (il == NULL) {
        return;
    }
    mem_free(il->pieces);
    mem_free(il->record_pieces);
    mem_free(il->bounds);
    mem_free(il);
}

static void fill_piece(index_layout *il, size_t i, const plan_piece *piece) {
    const state_entry *entry = piece->entry;
    record_piece *record = &il->record_pieces[i];
    *record = (record_piece){.file = piece->file,
                             .rank = il->layout->rank,
                             .offset = piece->offset,
                             .bytes = piece->bytes};
    if (entry->kind != PAWL_KIND_TENSOR) {
        return;
    }
    view v = state_entry_view(entry, piece->box);
    record->box_offset = il->bounds + i * 2 * PAWL_MAX_NDIM;
    record->box_extent = record->box_offset + PAWL_MAX_NDIM;
    memcpy(record->box_offset, v.box.offset, (size_t)entry->ndim * sizeof(int64_t));
    memcpy(record->box_extent, v.box.extent, (size_t)entry->ndim * sizeof(int64_t));
}

static pawl_status layout_next(void *context, const record_entry **out, pawl_error *err) {
    (void)err;
    index_layout *il = context;
    *out = NULL;
    if (il->next == il->layout->piece_count) {
        return PAWL_OK;
    }
    size_t count = count_same_entry(il, il->next);
    const state_entry *entry = il->pieces[il->next].piece->entry;
    bool has_value = entry->kind != PAWL_KIND_TENSOR && !entry->per_rank;
    il->current = (record_entry){.name = entry->name,
                                 .kind = entry->kind,
                                 .role = entry->role,
                                 .slot_of = entry->slot_of,
                                 .slot = entry->slot,
                                 .per_rank = entry->per_rank,
                                 .replicated = entry->replicated,
                                 .dtype = entry->dtype,
                                 .ndim = entry->ndim,
                                 .shape = entry->shape,
                                 .value = has_value ? entry->value : NULL,
                                 .value_bytes = has_value ? entry->value_bytes : 0,
                                 .pieces = il->record_pieces,
                                 .piece_count = count};
    for (size_t i = 0; i < count; i++) {
        fill_piece(il, i, il->pieces[il->next + i].piece);
    }
    il->next += count;
    *out = &il->current;
    return PAWL_OK;
}

entry_source index_layout_source(index_layout *il) {
    il->next = 0;
    return (entry_source){.context = il, .next = layout_next};
}

/* ---- the table ------------------------------------------------------------------------------ */

static pawl_status add_checksums(table_writer *w, uint32_t file, const engine_file *checksums,
                                 pawl_error *err) {
    CLEANUP(buffer_free) buffer value = {0};
    for (size_t block = 0; block < checksums->block_count; block += FORMAT_BLOCKS_PER_RECORD) {
        size_t left = checksums->block_count - block;
        size_t n = left < FORMAT_BLOCKS_PER_RECORD ? left : FORMAT_BLOCKS_PER_RECORD;
        value.size = 0;
        for (size_t i = 0; i < n; i++) {
            TRY(buffer_u32le(&value, checksums->checksums[block + i], err));
        }
        uint8_t key[9];
        record_checksum_key(key, file, block);
        TRY(table_writer_add(w, key, sizeof key, value.data, value.size, err));
    }
    return PAWL_OK;
}

static pawl_status add_entries(table_writer *w, entry_source entries, uint64_t *count,
                               pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    CLEANUP(buffer_free) buffer value = {0};
    for (;;) {
        const record_entry *entry;
        TRY(entries.next(entries.context, &entry, err));
        if (entry == NULL) {
            return PAWL_OK;
        }
        key.size = 0;
        value.size = 0;
        TRY(record_entry_key(&key, entry->name, err));
        TRY(record_entry_encode(entry, &value, err));
        TRY(table_writer_add(w, key.data, key.size, value.data, value.size, err));
        (*count)++;
    }
}

static void table_writer_free_pointer(table_writer **w) {
    table_writer_free(*w);
}

pawl_status index_write(const index_input *input, byte_sink sink, table_summary *summary,
                        uint64_t *entry_count, pawl_error *err) {
    CLEANUP(table_writer_free_pointer) table_writer *w = NULL;
    TRY(table_writer_new(sink, &w, err));
    for (size_t file = 0; file < input->file_count; file++) {
        TRY(add_checksums(w, (uint32_t)file, &input->files[file], err));
    }
    *entry_count = 0;
    TRY(add_entries(w, input->entries, entry_count, err));
    return table_writer_finish(w, summary, err);
}
