/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks what the record of an entry alone cannot show: its pieces lie within their files, are
 * aligned, and hold each element exactly once.
 *
 * Every entry that comes out of a source passes through here, and every entry of an index that is
 * rebuilt. So what verifies can be restored, and no other code checks pieces.
 */
#include "checkpoint/private.h"
#include "format/record_check.h"

/* The files that pieces lie in: those of a manifest, or of a source. */
typedef struct pieces_files {
    const manifest *manifest; /* NULL: the source's */
    struct source *source;
} pieces_files;

static source_file file_of(const pieces_files *files, uint32_t number) {
    if (files->manifest == NULL) {
        return files->source->ops->file(files->source, number);
    }
    const manifest_file *file = &files->manifest->files[number];
    return (source_file){.name = file->name, .bytes = file->bytes};
}

static pawl_status check_inside(source_file file, const record_entry *entry,
                                const record_piece *piece, pawl_error *err) {
    uint64_t end;
    if (!add_overflows(piece->offset, piece->bytes, &end) && end <= file.bytes) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "a piece of an entry lies behind the end of its file");
    error_entry(err, entry->name);
    error_expected(err, "a range within the %llu bytes of %s", (unsigned long long)file.bytes,
                   file.name);
    error_found(err, "%llu bytes from %llu on", (unsigned long long)piece->bytes,
                (unsigned long long)piece->offset);
    return PAWL_EDAMAGED;
}

/* The reader cuts at block boundaries: aligned pieces are never cut within an element. */
static pawl_status check_aligned(source_file file, const record_entry *entry,
                                 const record_piece *piece, pawl_error *err) {
    if (entry->kind != PAWL_KIND_TENSOR || piece->offset % dtype_alignment(entry->dtype) == 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "a piece of a tensor is not aligned to its elements");
    error_entry(err, entry->name);
    error_expected(err, "an offset that is a multiple of %zu", dtype_alignment(entry->dtype));
    error_found(err, "offset %llu in %s", (unsigned long long)piece->offset, file.name);
    return PAWL_EDAMAGED;
}

static pawl_status check_tensor(const record_entry *entry, pawl_error *err) {
    plan_fault fault;
    char text[256];
    TRY(plan_cover_entry(entry, &fault, err));
    if (!fault.hole && !fault.overlap) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED,
              fault.hole ? "the pieces of a tensor do not make up the whole of it"
                         : "pieces of a tensor overlap");
    error_entry(err, entry->name);
    error_expected(err, "every element in one piece");
    error_found(err, "%s in %s", box_text(text, sizeof(text), &fault.where),
                fault.hole ? "none" : "two");
    return PAWL_EDAMAGED;
}

/* The record is valid, so the ranks of its pieces ascend. */
static pawl_status check_ranks(int world_size, const record_entry *entry, pawl_error *err) {
    size_t count = entry->piece_count;
    if (!entry->per_rank ||
        (count == (size_t)world_size && entry->pieces[count - 1].rank == world_size - 1)) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "an entry per rank has no value of some rank");
    error_entry(err, entry->name);
    error_expected(err, "a value of each of the ranks 0 to %d", world_size - 1);
    error_found(err, "%zu, the last of rank %d", count, (int)entry->pieces[count - 1].rank);
    return PAWL_EDAMAGED;
}

pawl_status entry_check_slot(const record_entry *entry, bool has_variable, pawl_error *err) {
    if (entry->role != PAWL_ROLE_SLOT || has_variable) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "the variable of an optimizer's slot is not in the checkpoint");
    error_entry(err, entry->name);
    error_expected(err, "the tensor %s", entry->slot_of);
    return PAWL_EDAMAGED;
}

static pawl_status check_entry(const pieces_files *files, int world_size, const record_entry *entry,
                               pawl_error *err) {
    for (size_t i = 0; i < entry->piece_count; i++) {
        const record_piece *piece = &entry->pieces[i];
        source_file file = file_of(files, piece->file);
        TRY(check_inside(file, entry, piece, err));
        TRY(check_aligned(file, entry, piece, err));
    }
    return entry->kind == PAWL_KIND_TENSOR ? check_tensor(entry, err)
                                           : check_ranks(world_size, entry, err);
}

pawl_status entry_check(const manifest *m, const record_entry *entry, pawl_error *err) {
    return check_entry(&(pieces_files){.manifest = m}, m->world_size, entry, err);
}

pawl_status entry_check_of(struct source *s, const record_entry *entry, pawl_error *err) {
    if (!s->checked) {
        TRY(record_check(entry, s->all_files, PAWL_EDAMAGED, err));
    }
    return check_entry(&(pieces_files){.source = s}, s->world_size, entry, err);
}
