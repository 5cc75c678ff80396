/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/index.h"

#define INDEX_LARGE_BYTES ((size_t)1 << 20) /* larger ones are written past the page cache */

/* ---- the entries of a layout, as records ---------------------------------------------------- */

struct index_layout {
    const plan_layout *layout;
    size_t next;       /* in layout->by_name */
    size_t next_entry; /* of the snapshot */
    record_entry current;
    record_piece record_pieces[]; /* room for the most pieces an entry has */
};

static const plan_piece *piece_at(const index_layout *il, size_t i) {
    return &il->layout->pieces[il->layout->by_name[i]];
}

static size_t count_pieces_of(const index_layout *il, const state_entry *entry) {
    size_t end = il->next;
    while (end < il->layout->piece_count && piece_at(il, end)->entry == entry) {
        end++;
    }
    return end - il->next;
}

/* Is a tensor recorded of which this rank writes no piece? Among many ranks, yes: otherwise one
 * that every rank leaves to another would vanish unnoticed. One that all ranks hold alike is
 * recorded by rank 0 alone. */
static bool is_listed(const plan_layout *layout, const state_entry *e) {
    bool everywhere = e->replicated && e->replica_count == 0;
    return e->kind == PAWL_KIND_TENSOR && layout->world_size > 1 &&
           (!everywhere || layout->rank == 0);
}

/* The next entry that has a record, and how many pieces; NULL at the end. */
static const state_entry *next_listed(index_layout *il, size_t *count) {
    const state_snapshot *all = il->layout->snapshot;
    while (il->next_entry < all->count) {
        const state_entry *e = all->entries[il->next_entry++];
        *count = count_pieces_of(il, e);
        if (*count > 0 || is_listed(il->layout, e)) {
            return e;
        }
    }
    return NULL;
}

static size_t most_pieces(const plan_layout *layout) {
    size_t most = 1;
    for (size_t i = 0; i < layout->snapshot->count; i++) {
        size_t boxes = layout->snapshot->entries[i]->box_count;
        most = boxes > most ? boxes : most;
    }
    return most;
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
    const state_box *held = piece->part;
    record->box_offset = (int64_t *)(uintptr_t)held->offset;
    record->box_extent = (int64_t *)(uintptr_t)held->extent;
}

static pawl_status layout_next(void *context, const record_entry **out, pawl_error *err) {
    (void)err;
    index_layout *il = context;
    *out = NULL;
    size_t count = 0;
    const state_entry *entry = next_listed(il, &count);
    if (entry == NULL) {
        return PAWL_OK;
    }
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
        fill_piece(il, i, piece_at(il, il->next + i));
    }
    il->next += count;
    *out = &il->current;
    return PAWL_OK;
}

pawl_status index_layout_open(const plan_layout *layout, index_layout **out, pawl_error *err) {
    size_t most = most_pieces(layout);
    index_layout *il = mem_calloc(1, sizeof *il + most * sizeof *il->record_pieces);
    if (il == NULL) {
        return error_nomem(err, sizeof *il + most * sizeof *il->record_pieces);
    }
    il->layout = layout;
    *out = il;
    return PAWL_OK;
}

void index_layout_close(index_layout *il) {
    mem_free(il);
}

entry_source index_layout_source(index_layout *il) {
    il->next = 0;
    il->next_entry = 0;
    return (entry_source){.context = il, .next = layout_next};
}

/* ---- the table ------------------------------------------------------------------------------ */

static pawl_status add_checksums(table_writer *w, uint32_t file, const engine_file *checksums,
                                 pawl_error *err) {
    CLEANUP(buffer_free) buffer value = {0};
    for (size_t block = 0; block < checksums->block_count; block += FORMAT_BLOCKS_PER_RECORD) {
        size_t left = checksums->block_count - block;
        size_t n = left < FORMAT_BLOCKS_PER_RECORD ? left : FORMAT_BLOCKS_PER_RECORD;
        uint8_t key[RECORD_CHECKSUMS_KEY];
        record_checksums_key(key, file, block);
        TRY(record_checksums_encode(checksums->checksums + block, n, &value, err));
        TRY(table_writer_add(w, key, sizeof key, value.data, value.size, err));
    }
    return PAWL_OK;
}

/* Where records go: into a table, or into a part that is encoded ahead. */
typedef struct record_taker {
    table_writer *writer; /* or NULL */
    table_part *part;
} record_taker;

static pawl_status take_record(const record_taker *to, const buffer *key, const buffer *value,
                               pawl_error *err) {
    return to->writer != NULL
               ? table_writer_add(to->writer, key->data, key->size, value->data, value->size, err)
               : table_part_add(to->part, key->data, key->size, value->data, value->size, err);
}

static pawl_status add_entries(const record_taker *to, entry_source entries, uint64_t *count,
                               pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    CLEANUP(buffer_free) buffer value = {0};
    for (*count = 0;; (*count)++) {
        const record_entry *entry;
        TRY(entries.next(entries.context, &entry, err));
        if (entry == NULL) {
            return PAWL_OK;
        }
        TRY(record_entry_key(&key, entry->name, err));
        TRY(record_entry_encode(entry, &value, err));
        TRY(take_record(to, &key, &value, err));
    }
}

pawl_status index_part_make(entry_source entries, index_part *out, pawl_error *err) {
    TRY(table_part_new(&out->part, err));
    TRY(add_entries(&(record_taker){.part = out->part}, entries, &out->count, err));
    return table_part_finish(out->part, err);
}

pawl_status index_write_records(const index_input *input, table_writer *w, uint64_t *entry_count,
                                pawl_error *err) {
    for (size_t file = 0; file < input->file_count; file++) {
        TRY(add_checksums(w, (uint32_t)file, &input->files[file], err));
    }
    if (input->ahead != NULL) {
        *entry_count = input->ahead->count;
        return table_writer_add_part(w, input->ahead->part, err);
    }
    return add_entries(&(record_taker){.writer = w}, input->entries, entry_count, err);
}

static pawl_status write_index(void *context, byte_sink sink, table_summary *summary,
                               uint64_t *entry_count, pawl_error *err) {
    const index_input *input = context;
    CLEANUP(table_writer_free_pointer) table_writer *w = NULL;
    TRY(table_writer_new(sink, &w, err));
    TRY(index_write_records(input, w, entry_count, err));
    return table_writer_finish(w, summary, err);
}

index_writer index_writer_of(const index_input *input) {
    bool large = input->ahead != NULL && table_part_bytes(input->ahead->part) >= INDEX_LARGE_BYTES;
    return (index_writer){
        .context = (void *)(uintptr_t)input, .write = write_index, .large = large};
}
