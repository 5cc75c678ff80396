/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which piece of the state goes into which file of a save. The first boxes of all tensors,
 * with the values, fill the first files, the second boxes the next, and so on: a safetensors file
 * has one tensor of a name, and other tools find the box under it. After TURNS boxes it starts
 * again with the first files, under keys that are no names: so the number of files stays bounded.
 * Tensors that are to be copied before the save is under way have the first files for themselves.
 * Within a file dtypes of larger alignment come first, then names ascend:
 * so every tensor is aligned, and the same state always gives the same files.
 */
#include "plan/header.h"
#include "plan/share.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define ALIGNMENTS 4 /* 8, 4, 2 and 1 bytes */
#define TURNS      64
#define SHELVES    (2 * TURNS) /* a file is filled from one: of copied tensors, or of others */
#define GROUPS     ((size_t)SHELVES * ALIGNMENTS)

static bool is_empty_tensor(const state_entry *e) {
    return shape_elements(e->ndim, e->shape) == 0;
}

/* Is there a piece for that box? An empty tensor has one, so that it is in some file; other tensors
 * none for boxes that are empty. */
static bool has_piece(const state_entry *e, size_t i) {
    if (is_empty_tensor(e)) {
        return i == 0;
    }
    return shape_elements(e->ndim, state_entry_box(e, i)->extent) > 0;
}

static uint32_t shelf_of(const state_entry *e, size_t turn) {
    return (uint32_t)(turn % TURNS) + (e->copied ? 0 : TURNS);
}

/* Groups in the order in which they are laid out: 8-byte alignment first. */
static size_t layout_group(const state_entry *e, size_t turn) {
    size_t alignment = dtype_alignment(e->dtype);
    assert(alignment == 8 || alignment == 4 || alignment == 2 || alignment == 1);
    size_t place = ALIGNMENTS - 1 - (size_t)__builtin_ctzll(alignment);
    return (size_t)shelf_of(e, turn) * ALIGNMENTS + place;
}

static const state_entry *entry_at(const plan_layout *layout, size_t k) {
    if (k + STATE_ENTRIES_AHEAD < layout->snapshot->count) {
        state_entry_expect(layout->snapshot->entries[k + STATE_ENTRIES_AHEAD]);
    }
    return layout->snapshot->entries[k];
}

static plan_piece *layout_piece_at(const plan_layout *layout, size_t i) {
    if (i + STATE_ENTRIES_AHEAD < layout->piece_count) {
        state_entry_expect(layout->pieces[i + STATE_ENTRIES_AHEAD].entry);
    }
    return &layout->pieces[i];
}

/* Calls for each piece that this rank writes, in the order of names. `part` is NULL for values;
 * `turn` counts an entry's pieces. */
typedef void (*piece_visitor)(void *context, const state_entry *e, const state_box *part,
                              size_t turn);

/* `shares`: what this rank writes of each box, or NULL where none is shared. */
static void visit_boxes(const state_entry *e, const state_box *const *shares, piece_visitor visit,
                        void *context) {
    size_t turn = 0;
    for (size_t i = 0; i < e->box_count; i++) {
        const state_box *part = shares != NULL ? shares[i] : state_entry_box(e, i);
        if (part != NULL && has_piece(e, i)) {
            visit(context, e, part, turn++);
        }
    }
}

static bool writes_value(const plan_layout *layout, const state_entry *e) {
    return e->per_rank || layout->rank == 0;
}

static void visit_pieces(const plan_layout *layout, const share_parts *shares, piece_visitor visit,
                         void *context) {
    size_t shared = 0;
    for (size_t k = 0; k < layout->snapshot->count; k++) {
        const state_entry *e = entry_at(layout, k);
        if (share_is_shared(e, layout->world_size)) {
            visit_boxes(e, shares->items + shared, visit, context);
            shared += e->box_count;
        } else if (e->kind == PAWL_KIND_TENSOR) {
            visit_boxes(e, NULL, visit, context);
        } else if (writes_value(layout, e)) {
            visit(context, e, NULL, 0);
        }
    }
}

typedef struct grouping {
    plan_layout *layout;
    size_t counts[GROUPS]; /* pieces in each group; then where its next one goes */
    size_t placed, values_placed;
} grouping;

static void count_piece(void *context, const state_entry *e, const state_box *part, size_t turn) {
    grouping *g = context;
    g->counts[layout_group(e, turn)]++;
    g->layout->piece_count++;
    g->layout->value_count += part == NULL;
}

static void place_piece(void *context, const state_entry *e, const state_box *part, size_t turn) {
    grouping *g = context;
    size_t place = g->counts[layout_group(e, turn)]++;
    plan_piece *piece = &g->layout->pieces[place];
    g->layout->by_name[g->placed++] = place;
    if (part == NULL) {
        g->layout->values[g->values_placed++] = place;
    }
    /* Until files are numbered, `file` holds the shelf. */
    *piece = (plan_piece){
        .entry = e, .part = part, .file = shelf_of(e, turn), .further = (uint32_t)(turn / TURNS)};
}

/* Counting sort: stable, so that names stay in order within a group. */
static pawl_status order_pieces(plan_layout *layout, const share_parts *shares, pawl_error *err) {
    grouping g = {.layout = layout};
    visit_pieces(layout, shares, count_piece, &g);
    layout->pieces = mem_calloc(layout->piece_count, sizeof(*layout->pieces));
    layout->by_name = mem_calloc(layout->piece_count, sizeof(*layout->by_name));
    layout->values = mem_calloc(layout->value_count, sizeof(*layout->values));
    if (layout->pieces == NULL || layout->by_name == NULL || layout->values == NULL) {
        return error_nomem(err, layout->piece_count * sizeof(*layout->pieces));
    }
    size_t first = 0;
    for (size_t i = 0; i < GROUPS; i++) {
        size_t count = g.counts[i];
        g.counts[i] = first;
        first += count;
    }
    visit_pieces(layout, shares, place_piece, &g);
    return PAWL_OK;
}

/* ---- cutting into files --------------------------------------------------------------------- */

/* The file that is being filled. */
typedef struct filling {
    plan_layout *layout;
    size_t capacity;
    uint32_t shelf;
    uint64_t always, sharding; /* header bytes so far */
    bool sharded;
    uint64_t data; /* bytes so far, without the header */
    uint64_t limit, data_limit;
} filling;

static pawl_status begin_file(filling *f, size_t first_piece, uint32_t shelf, pawl_error *err) {
    plan_layout *layout = f->layout;
    TRY(vec_reserve(&layout->files, &f->capacity, layout->file_count + 1, sizeof(*layout->files),
                    err));
    layout->files[layout->file_count++] = (plan_file){.first_piece = first_piece};
    f->shelf = shelf;
    layout->copied_files += shelf < TURNS;
    f->always = HEADER_BASE_BYTES;
    f->data = 0;
    f->sharding = 0;
    f->sharded = false;
    return PAWL_OK;
}

/* 0 where they do not matter. */
static uint64_t piece_bytes(const filling *f, const plan_piece *piece) {
    const state_entry *e = piece->entry;
    if (f->data_limit == UINT64_MAX) {
        return 0;
    }
    return shape_bytes(e->dtype, e->ndim,
                       e->kind == PAWL_KIND_TENSOR ? piece->part->extent : e->shape);
}

static bool fits_file(const filling *f, const plan_file *file, const plan_piece *piece,
                      header_cost cost, bool sharded) {
    if (piece->file != f->shelf) {
        return false;
    }
    uint64_t bytes = f->always + cost.always;
    if (f->sharded || sharded) {
        bytes += f->sharding + cost.sharding;
    }
    bool fits = bytes <= f->limit && f->data <= f->data_limit;
    fits = fits && piece_bytes(f, piece) <= f->data_limit - f->data;
    return fits || file->piece_count == 0;
}

static pawl_status cut_files(plan_layout *layout, uint64_t limit, uint64_t data_limit,
                             pawl_error *err) {
    filling f = {.layout = layout, .limit = limit, .data_limit = data_limit};
    TRY(begin_file(&f, 0, layout->piece_count > 0 ? layout->pieces[0].file : TURNS, err));
    for (size_t i = 0; i < layout->piece_count; i++) {
        plan_piece *piece = layout_piece_at(layout, i);
        header_cost cost = header_piece_cost(piece);
        bool sharded = !piece_is_whole(piece);
        if (!fits_file(&f, &layout->files[layout->file_count - 1], piece, cost, sharded)) {
            TRY(begin_file(&f, i, piece->file, err));
        }
        piece->file = (uint32_t)(layout->file_count - 1);
        f.data += piece_bytes(&f, piece);
        f.always += cost.always;
        f.sharding += cost.sharding;
        f.sharded = f.sharded || sharded;
        layout->files[layout->file_count - 1].piece_count++;
    }
    if (layout->file_count > FORMAT_MAX_FILES) {
        error_set(err, PAWL_ELIMIT, "the save would take %zu data files", layout->file_count);
        error_expected(err, "at most %u", FORMAT_MAX_FILES);
        return PAWL_ELIMIT;
    }
    return PAWL_OK;
}

static void name_files(plan_layout *layout, const char *tag) {
    int rank = layout->world_size > 1 ? layout->rank : -1;
    for (size_t i = 0; i < layout->file_count; i++) {
        name_data(layout->files[i].name, tag, rank, (uint32_t)i, (uint32_t)layout->file_count);
    }
}

static pawl_status make_files(plan_layout *layout, const plan_layout_options *options,
                              pawl_error *err) {
    uint64_t limit =
        options->split_header_bytes == 0 ? FORMAT_SPLIT_HEADER : options->split_header_bytes;
    uint64_t header = limit + FORMAT_BLOCK_BYTES; /* at most, padding included */
    uint64_t data_limit = options->split_bytes == 0        ? UINT64_MAX
                          : options->split_bytes <= header ? 0
                                                           : options->split_bytes - header;
    TRY(cut_files(layout, limit, data_limit, err));
    name_files(layout, options->tag);
    for (size_t i = 0; i < layout->file_count; i++) {
        plan_file *file = &layout->files[i];
        TRY(header_make(layout, file, err));
        if (add_overflows(layout->bytes, file->bytes, &layout->bytes)) {
            return error_set(err, PAWL_ELIMIT, "the data files pass 2^64 bytes");
        }
    }
    return PAWL_OK;
}

/* ---- checks --------------------------------------------------------------------------------- */

static uint64_t held_elements(const state_entry *e) {
    uint64_t held = 0;
    for (size_t i = 0; i < e->box_count; i++) {
        held += shape_elements(
            e->ndim,
            state_entry_box(e, i)->extent); /* boxes are disjoint: no more than the tensor has */
    }
    return held;
}

/* Where there is one rank only, its boxes must cover each tensor (S12). */
static pawl_status check_layout_entries(const plan_layout *layout, pawl_error *err) {
    for (size_t k = 0; k < layout->snapshot->count; k++) {
        const state_entry *e = entry_at(layout, k);
        TRY(share_check(e, layout->world_size, err));
        if (e->kind != PAWL_KIND_TENSOR || layout->world_size > 1) {
            continue;
        }
        uint64_t held = held_elements(e);
        uint64_t wanted = shape_elements(e->ndim, e->shape);
        if (held != wanted) {
            error_set(
                err, PAWL_EUSAGE,
                "cannot save the tensor: its boxes do not cover it, and there is no other rank "
                "to hold the rest");
            error_entry(err, e->name);
            error_expected(err, "boxes with %" PRIu64 " elements in all", wanted);
            error_found(err, "%" PRIu64, held);
            error_next(err, "add the tensor with boxes that cover its shape");
            return PAWL_EUSAGE;
        }
    }
    return PAWL_OK;
}

static pawl_status make_layout(plan_layout *layout, const plan_layout_options *options,
                               pawl_error *err) {
    CLEANUP(share_free) share_parts shares = {0};
    TRY(check_layout_entries(layout, err));
    TRY(share_make(layout->snapshot, layout->rank, layout->world_size, &layout->memory, &shares,
                   err));
    TRY(order_pieces(layout, &shares, err));
    return make_files(layout, options, err);
}

pawl_status plan_layout_make(const state_snapshot *snapshot, const plan_layout_options *options,
                             plan_layout **out, pawl_error *err) {
    plan_layout *layout = mem_calloc(1, sizeof(*layout));
    if (layout == NULL) {
        return error_nomem(err, sizeof(*layout));
    }
    layout->snapshot = snapshot;
    layout->step = snapshot->step;
    layout->rank = options->rank;
    layout->world_size = options->world_size;
    pawl_status status = make_layout(layout, options, err);
    if (status != PAWL_OK) {
        plan_layout_free(layout);
        return status;
    }
    *out = layout;
    return PAWL_OK;
}

/* ---- for another save ----------------------------------------------------------------------- */

/* Calls for the piece of each value that this rank writes, and its entry in the snapshot; ends
 * where that returns false. */
static bool each_value(plan_layout *layout, const state_snapshot *snapshot,
                       bool (*visit)(plan_piece *piece, const state_entry *e)) {
    size_t next = 0;
    for (size_t i = 0; i < snapshot->value_count; i++) {
        const state_entry *e = state_snapshot_value(snapshot, i);
        if (writes_value(layout, e) && !visit(&layout->pieces[layout->values[next++]], e)) {
            return false;
        }
    }
    return true;
}

static bool has_as_many_bytes(plan_piece *piece, const state_entry *e) {
    return piece->bytes == e->value_bytes;
}

static bool take_value(plan_piece *piece, const state_entry *e) {
    piece->entry = e;
    return true;
}

bool plan_layout_renew(plan_layout *layout, const state_snapshot *snapshot, const char *tag) {
    if (!state_snapshot_alike(layout->snapshot, snapshot) ||
        !header_fits_step(layout->step, snapshot->step) ||
        !each_value(layout, snapshot, has_as_many_bytes)) {
        return false;
    }
    (void)each_value(layout, snapshot, take_value);
    for (size_t i = 0; i < layout->file_count; i++) {
        header_set_step(&layout->files[i].header, snapshot->step);
    }
    layout->snapshot = snapshot;
    layout->step = snapshot->step;
    name_files(layout, tag);
    return true;
}

void plan_layout_free(plan_layout *layout) {
    if (layout == NULL) {
        return;
    }
    for (size_t i = 0; i < layout->file_count; i++) {
        buffer_free(&layout->files[i].header);
    }
    mem_free(layout->files);
    mem_free(layout->pieces);
    mem_free(layout->by_name);
    mem_free(layout->values);
    arena_free(&layout->memory);
    mem_free(layout);
}
