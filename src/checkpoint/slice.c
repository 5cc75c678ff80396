/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a tensor, a slice of it, or one rank's value: only the blocks needed, each verified. */
#include "checkpoint/private.h"

#include <string.h>

#define BATCH_ITEMS 256
/* Several threads read what is larger. */
#define LARGE_BYTES ((uint64_t)2 * ENGINE_BUFFER_BYTES)

/* ---- failures ---- */

pawl_status checkpoint_piece_failed(pawl_checkpoint *c, const record_entry *entry,
                                    const record_piece *piece, pawl_error *err) {
    if (err->status == PAWL_EDAMAGED) {
        (void)checkpoint_lost(c, c->source->ops->file(c->source, piece->file).name, err);
    }
    uint64_t begin = err->offset > piece->offset ? err->offset : piece->offset;
    uint64_t piece_end = piece->offset + piece->bytes;
    uint64_t end = err->offset + err->length < piece_end ? err->offset + err->length : piece_end;
    error_entry(err, entry->name);
    if (err->status == PAWL_EDAMAGED && err->has_range && begin < end) {
        char text[256] = "";
        if (entry->kind == PAWL_KIND_TENSOR) {
            box b = box_of(entry->ndim, piece->box_offset, piece->box_extent);
            box_text(text, sizeof(text), &b);
        }
        error_wrap(err, "reading bytes %llu to %llu of the %llu of %s%s",
                   (unsigned long long)(begin - piece->offset),
                   (unsigned long long)(end - piece->offset - 1), (unsigned long long)piece->bytes,
                   entry->name, text);
    } else {
        error_wrap(err, "reading %s", entry->name);
    }
    if (err->status == PAWL_EDAMAGED && err->safe[0] == '\0') {
        checkpoint_say_safe(c, err);
    }
    error_step(err, c->source->step);
    return err->status;
}

/* ---- what is asked for ---- */

static pawl_status wrong_room(const record_entry *entry, const box *wanted, uint64_t bytes,
                              size_t to_bytes, pawl_error *err) {
    char text[256];
    error_set(err, PAWL_EUSAGE, "the memory for a slice has another size than the slice");
    error_entry(err, entry->name);
    error_expected(err, "%llu bytes for %s %s", (unsigned long long)bytes,
                   pawl_dtype_name(entry->dtype), box_text(text, sizeof(text), wanted));
    error_found(err, "%zu bytes", to_bytes);
    return PAWL_EUSAGE;
}

static pawl_status check_wanted(const record_entry *entry, const box *wanted, size_t to_bytes,
                                pawl_error *err) {
    uint64_t bytes;
    pawl_status status = box_check(wanted, entry->ndim, entry->shape, err);
    if (status == PAWL_OK) {
        status = shape_check(entry->dtype, entry->ndim, wanted->extent, NULL, &bytes, err);
    }
    if (status != PAWL_OK) {
        error_entry(err, entry->name);
        return status;
    }
    return bytes == to_bytes ? PAWL_OK : wrong_room(entry, wanted, bytes, to_bytes, err);
}

pawl_status slice_find(pawl_checkpoint *c, const slice_asked *asked, arena *memory,
                       record_entry *entry, box *wanted, pawl_error *err) {
    TRY(checkpoint_tensor_entry(c, asked->name, "have slices", memory, entry, err));
    if ((asked->offset == NULL) != (asked->extent == NULL)) {
        error_set(err, PAWL_EUSAGE, "a slice has an offset and an extent, or neither");
        error_entry(err, entry->name);
        return PAWL_EUSAGE;
    }
    *wanted = asked->offset == NULL ? box_whole(entry->ndim, entry->shape)
                                    : box_of(entry->ndim, asked->offset, asked->extent);
    return check_wanted(entry, wanted, asked->to_bytes, err);
}

/* `whole` is the box of a piece of which something is wanted. */
static pawl_status check_packed(const record_entry *entry, const box *wanted, const box *whole,
                                pawl_error *err) {
    box a = *whole;
    box b = *wanted;
    char text[256];
    if (boxes_as_bytes(entry->dtype, &a, &b)) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUNSUPPORTED, "a packed tensor cannot be cut within a byte");
    error_entry(err, entry->name);
    error_found(err, "a slice %s of %s, whose elements share bytes",
                box_text(text, sizeof(text), wanted), pawl_dtype_name(entry->dtype));
    error_next(err, "read a slice that begins and ends with a byte of each row, or all of it");
    return PAWL_EUNSUPPORTED;
}

/* ---- its parts, and their runs ---- */

/* Each element is in exactly one piece (entry_check). */
pawl_status slice_parts(const record_entry *entry, const box *wanted, slice_part part,
                        void *context, pawl_error *err) {
    for (size_t i = 0; i < entry->piece_count; i++) {
        const record_piece *piece = &entry->pieces[i];
        box shared;
        box whole = box_of(entry->ndim, piece->box_offset, piece->box_extent);
        if (!box_intersect(&whole, wanted, &shared)) {
            continue;
        }
        TRY(check_packed(entry, wanted, &whole, err));
        TRY(part(context, piece, &shared, err));
    }
    return PAWL_OK;
}

static engine_stretch stretch_of_run(const record_piece *piece, uint64_t begin, uint64_t end,
                                     uint64_t tensor_bytes) {
    return (engine_stretch){.file = piece->file,
                            .offset = piece->offset + begin,
                            .bytes = end - begin,
                            .gap = plan_gap(tensor_bytes, end - begin)};
}

pawl_status slice_runs(const record_entry *entry, const record_piece *piece, const box *shared,
                       slice_run run, void *context, pawl_error *err) {
    box whole = box_of(entry->ndim, piece->box_offset, piece->box_extent);
    uint64_t tensor_bytes = shape_bytes(entry->dtype, entry->ndim, entry->shape);
    uint64_t bits = (uint64_t)pawl_dtype_bits(entry->dtype);
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t first;
    uint64_t count;
    box_runs runs = box_runs_of(shared, &whole);
    while (box_runs_next(&runs, &first, &count)) {
        uint64_t run_begin = first * bits / 8;
        uint64_t run_end = (first + count) * bits / 8;
        uint64_t gap = plan_gap(tensor_bytes, run_end - run_begin);
        if (end != 0 && !plan_reads_on(piece->offset + end, piece->offset + run_begin, gap)) {
            TRY(run(context, stretch_of_run(piece, begin, end, tensor_bytes), err));
            end = 0;
        }
        begin = end == 0 ? run_begin : begin;
        end = run_end;
    }
    return end > 0 ? run(context, stretch_of_run(piece, begin, end, tensor_bytes), err) : PAWL_OK;
}

/* ---- reading one ---- */

/* Stretches of one piece, ascending, and the memory that they are read into. */
typedef struct batch {
    pawl_checkpoint *checkpoint;
    const record_entry *entry;
    strided to;
    box source;        /* the piece */
    uint64_t base;     /* where it begins in its file */
    uint8_t *straight; /* if the slice is that piece, in memory as in the file; else NULL */
    engine_stretch items[BATCH_ITEMS];
    size_t count;
    uint64_t bytes;
} batch;

static void place_slice_bytes(const batch *b, uint64_t offset, const uint8_t *bytes, size_t n) {
    strided_place(&b->to, &b->source, offset - b->base, n, bytes);
}

static pawl_status place_from_reader(void *context, uint64_t offset, const uint8_t *bytes, size_t n,
                                     pawl_error *err) {
    (void)err;
    place_slice_bytes(context, offset, bytes, n);
    return PAWL_OK;
}

static void place_from_read_job(void *context, size_t i, uint64_t offset, const uint8_t *bytes,
                                size_t n) {
    (void)i;
    place_slice_bytes(context, offset, bytes, n);
}

static engine_stretch get_stretch(void *context, size_t i) {
    const batch *b = context;
    return b->items[i];
}

static pawl_status read_by_many(batch *b, pawl_error *err) {
    size_t failed;
    const engine_read_job job = {.source =
                                     source_files(b->checkpoint->source, b->checkpoint->platform),
                                 .count = b->count,
                                 .stretch = get_stretch,
                                 .take = place_from_read_job,
                                 .context = b};
    return engine_read_all(&job, &failed, err);
}

/* The reader keeps the blocks read last, in which the next small slice may be. */
static pawl_status read_batch(batch *b, pawl_error *err) {
    if (b->bytes > LARGE_BYTES) {
        TRY(read_by_many(b, err));
    } else {
        for (size_t i = 0; i < b->count; i++) {
            const engine_stretch *s = &b->items[i];
            TRY(engine_reader_read(b->checkpoint->reader, s->file, s->offset, s->bytes,
                                   place_from_reader, b, err));
        }
    }
    b->count = 0;
    b->bytes = 0;
    return PAWL_OK;
}

static pawl_status add_stretch(void *context, engine_stretch stretch, pawl_error *err) {
    batch *b = context;
    if (b->count == BATCH_ITEMS) {
        TRY(read_batch(b, err));
    }
    stretch.to = b->straight != NULL ? b->straight + (stretch.offset - b->base) : NULL;
    b->items[b->count++] = stretch;
    b->bytes += stretch.bytes;
    return PAWL_OK;
}

/* Reads the part in runs of bytes, joined where reading what lies between is cheaper. */
static pawl_status read_part(void *context, const record_piece *piece, const box *shared,
                             pawl_error *err) {
    batch *b = context;
    b->source = box_of(b->entry->ndim, piece->box_offset, piece->box_extent);
    b->base = piece->offset;
    b->straight = box_equal(&b->source, &b->to.box) ? b->to.data : NULL;
    pawl_status status = slice_runs(b->entry, piece, shared, add_stretch, b, err);
    if (status == PAWL_OK) {
        status = read_batch(b, err);
    }
    return status == PAWL_OK ? PAWL_OK
                             : checkpoint_piece_failed(b->checkpoint, b->entry, piece, err);
}

pawl_status checkpoint_read(pawl_checkpoint *c, const char *name, const int64_t *offset,
                            const int64_t *extent, void *to, size_t to_bytes, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    record_entry entry = {0};
    box wanted;
    const slice_asked asked = {
        .name = name, .offset = offset, .extent = extent, .to_bytes = to_bytes};
    TRY(slice_find(c, &asked, &memory, &entry, &wanted, err));
    if (to_bytes == 0) {
        return PAWL_OK;
    }
    batch b;
    b.checkpoint = c;
    b.entry = &entry;
    b.to = (strided){.dtype = entry.dtype, .box = wanted, .data = to};
    b.count = 0;
    b.bytes = 0;
    return slice_parts(&entry, &wanted, read_part, &b, err);
}

/* ---- values of ranks ---- */

typedef struct copying {
    uint8_t *to;
    uint64_t base;
} copying;

static pawl_status copy_out(void *context, uint64_t offset, const uint8_t *bytes, size_t n,
                            pawl_error *err) {
    (void)err;
    const copying *copy = context;
    memcpy(copy->to + (offset - copy->base), bytes, n);
    return PAWL_OK;
}

pawl_status checkpoint_piece_bytes(pawl_checkpoint *c, const record_entry *entry,
                                   const record_piece *piece, uint64_t from, void *to, size_t n,
                                   pawl_error *err) {
    copying copy = {.to = to, .base = piece->offset + from};
    pawl_status status =
        engine_reader_read(c->reader, piece->file, copy.base, n, copy_out, &copy, err);
    return status == PAWL_OK ? PAWL_OK : checkpoint_piece_failed(c, entry, piece, err);
}

const record_piece *record_piece_of_rank(const record_entry *entry, int rank) {
    for (size_t i = 0; i < entry->piece_count; i++) {
        if (entry->pieces[i].rank == rank) {
            return &entry->pieces[i];
        }
    }
    return NULL;
}

static pawl_status no_such_rank(const pawl_checkpoint *c, const record_entry *entry, int rank,
                                pawl_error *err) {
    error_set(err, PAWL_ENOTFOUND, "rank %d has no bytes in this entry", rank);
    error_path(err, "%s", c->source->path);
    error_entry(err, entry->name);
    error_found(err, "bytes of %zu ranks", entry->piece_count);
    return PAWL_ENOTFOUND;
}

pawl_status checkpoint_read_rank(pawl_checkpoint *c, const char *name, int rank, void *to,
                                 size_t capacity, size_t *size, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    record_entry entry = {0};
    TRY(checkpoint_entry(c, name, &memory, &entry, err));
    if (!entry.per_rank) {
        error_set(err, PAWL_EUSAGE, "the entry is not per rank");
        error_entry(err, name);
        error_found(err, "a %s", pawl_kind_name(entry.kind));
        return PAWL_EUSAGE;
    }
    const record_piece *piece = record_piece_of_rank(&entry, rank);
    if (piece == NULL) {
        return no_such_rank(c, &entry, rank, err);
    }
    *size = (size_t)piece->bytes;
    return checkpoint_piece_bytes(c, &entry, piece, 0, to, *size < capacity ? *size : capacity,
                                  err);
}
