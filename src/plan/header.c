/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of one data file. Its metadata: "format" as every writer sets it, "pawl" from which an
 * index can be rebuilt, and, where a piece is only a part of its tensor, the two keys by which
 * PyTorch's distributed checkpoints find the part's place.
 */
#include "plan/header.h"

#include <string.h>

/* Punctuation, keys and both offsets of a tensor in the header. */
#define TENSOR_FIXED_BYTES ((uint64_t)120)
/* Keys, punctuation and small numbers of one entry in "pawl", with every quote escaped. */
#define PAWL_FIXED_BYTES ((uint64_t)320)
/* The same in "DCP_SHARDING_INFO". */
#define SHARDING_FIXED_BYTES ((uint64_t)64)
/* The longest number, and a separator. */
#define NUMBER_BYTES   ((uint64_t)21)
#define METADATA_PAIRS 4

/* A name within JSON text that is itself a JSON string. Names have no control characters. */
static uint64_t escaped_twice_bytes(const char *name) {
    if (name == NULL) {
        return 0;
    }
    uint64_t bytes = 0;
    for (const char *c = name; *c != '\0'; c++) {
        bytes += *c == '"' || *c == '\\' ? 4 : 1;
    }
    return bytes;
}

/* Does the header alone say what it is? Then "pawl" is silent about it. */
static bool is_plain(const plan_piece *piece) {
    const state_entry *e = piece->entry;
    return e->kind == PAWL_KIND_TENSOR && e->role == PAWL_ROLE_MODEL && !e->replicated &&
           piece_is_whole(piece);
}

header_cost header_piece_cost(const plan_piece *piece) {
    const state_entry *e = piece->entry;
    uint64_t name = escaped_twice_bytes(e->name);
    uint64_t numbers = (uint64_t)e->ndim * NUMBER_BYTES;
    header_cost cost = {
        .always = TENSOR_FIXED_BYTES + name + numbers,
        .sharding = SHARDING_FIXED_BYTES + name + numbers,
    };
    if (!is_plain(piece)) {
        cost.always += PAWL_FIXED_BYTES + name + escaped_twice_bytes(e->slot_of) +
                       escaped_twice_bytes(e->slot) + 2 * numbers;
    }
    return cost;
}

bool piece_is_whole(const plan_piece *piece) {
    if (piece->entry->kind != PAWL_KIND_TENSOR) {
        return true;
    }
    view v = state_entry_view(piece->entry, piece->box);
    box whole = box_whole(piece->entry->ndim, piece->entry->shape);
    return box_equal(&v.box, &whole);
}

/* What is needed while one header is made. */
typedef struct making {
    const plan_layout *layout;
    plan_piece *pieces;
    size_t count;
    safetensors_tensor *tensors;
    record_entry *entries;
    record_piece *records;
    uint32_t *piece_of_entry; /* all 0: each entry is shown with the one piece that is here */
    bool sharded;
    buffer pawl, sharding;
    arena memory;
} making;

static void making_free(making *m) {
    arena_free(&m->memory);
    buffer_free(&m->pawl);
    buffer_free(&m->sharding);
}

static void *take(making *m, size_t count, size_t item_bytes, pawl_error *err) {
    size_t bytes = count * item_bytes; /* of things that there are in memory already: no overflow */
    void *memory = arena_alloc(&m->memory, bytes);
    if (memory == NULL) {
        (void)error_nomem(err, bytes);
        return NULL;
    }
    memset(memory, 0, bytes);
    return memory;
}

static pawl_status making_new(making *m, pawl_error *err) {
    m->tensors = take(m, m->count, sizeof(*m->tensors), err);
    m->entries = take(m, m->count, sizeof(*m->entries), err);
    m->records = take(m, m->count, sizeof(*m->records), err);
    m->piece_of_entry = take(m, m->count, sizeof(*m->piece_of_entry), err);
    bool all =
        m->tensors != NULL && m->entries != NULL && m->records != NULL && m->piece_of_entry != NULL;
    return all ? PAWL_OK : PAWL_ENOMEM;
}

/* Box and shape of the piece's tensor in the file; for values the shape of their bytes. */
static pawl_status describe_box(making *m, size_t i, pawl_error *err) {
    const plan_piece *piece = &m->pieces[i];
    const state_entry *e = piece->entry;
    if (e->kind != PAWL_KIND_TENSOR) {
        m->tensors[i].shape = e->shape;
        m->records[i].bytes = e->value_bytes;
        return PAWL_OK;
    }
    view v = state_entry_view(e, piece->box);
    size_t n = (size_t)e->ndim;
    int64_t *numbers = take(m, 2 * n, sizeof(*numbers), err);
    if (numbers == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(numbers, v.box.offset, n * sizeof(*numbers));
    memcpy(numbers + n, v.box.extent, n * sizeof(*numbers));
    m->records[i].box_offset = numbers;
    m->records[i].box_extent = numbers + n;
    m->records[i].bytes = shape_bytes(e->dtype, e->ndim, v.box.extent);
    m->tensors[i].shape = numbers + n;
    m->sharded = m->sharded || !piece_is_whole(piece);
    return PAWL_OK;
}

static pawl_status describe_piece(making *m, size_t i, pawl_error *err) {
    const state_entry *e = m->pieces[i].entry;
    m->tensors[i].name = e->name;
    m->tensors[i].dtype = e->dtype;
    m->tensors[i].ndim = e->ndim;
    m->records[i].file = m->pieces[i].file;
    m->records[i].rank = (int32_t)m->layout->rank;
    bool tensor = e->kind == PAWL_KIND_TENSOR;
    bool shown = !tensor && !e->per_rank;
    m->entries[i] = (record_entry){.name = e->name,
                                   .kind = e->kind,
                                   .role = e->role,
                                   .slot_of = e->slot_of,
                                   .slot = e->slot,
                                   .per_rank = e->per_rank,
                                   .replicated = e->replicated,
                                   .dtype = e->dtype,
                                   .ndim = e->ndim,
                                   .shape = e->shape,
                                   .value = shown ? e->value : NULL,
                                   .value_bytes = shown ? e->value_bytes : 0,
                                   .pieces = &m->records[i],
                                   .piece_count = 1};
    return describe_box(m, i, err);
}

static pawl_status encode(making *m, plan_file *file, pawl_error *err) {
    const plan_layout *layout = m->layout;
    for (size_t i = 0; i < m->count; i++) {
        TRY(describe_piece(m, i, err));
    }
    TRY(record_metadata_encode(m->entries, m->piece_of_entry, m->count, layout->step, layout->rank,
                               layout->world_size, &m->pawl, err));
    safetensors_pair pairs[METADATA_PAIRS] = {{"format", "pt"},
                                              {RECORD_METADATA_KEY, (const char *)m->pawl.data}};
    size_t pair_count = 2;
    if (m->sharded) {
        TRY(record_sharding_info_encode(m->entries, m->piece_of_entry, m->count, &m->sharding,
                                        err));
        pairs[pair_count++] =
            (safetensors_pair){"DCP_SHARDING_INFO", (const char *)m->sharding.data};
        pairs[pair_count++] = (safetensors_pair){"DCP_VERSION", "1.0"};
    }
    TRY(safetensors_encode(m->tensors, m->count, pairs, pair_count, &file->header, &file->bytes,
                           err));
    for (size_t i = 0; i < m->count; i++) {
        m->pieces[i].offset = m->tensors[i].offset;
        m->pieces[i].bytes = m->tensors[i].bytes;
    }
    return PAWL_OK;
}

pawl_status header_make(const plan_layout *layout, plan_file *file, pawl_error *err) {
    CLEANUP(making_free)
    making m = {
        .layout = layout, .pieces = layout->pieces + file->first_piece, .count = file->piece_count};
    TRY(making_new(&m, err));
    pawl_status status = encode(&m, file, err);
    if (status != PAWL_OK) {
        error_wrap(err, "cannot make the header of %s", file->name);
    }
    return status;
}
