/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the header of one data file. Its metadata: the place for the sum of the file, "format" as
 * every writer sets it, "pawl" from which an index can be rebuilt, and, where a piece is only a
 * part of its tensor, the two keys by which PyTorch's distributed checkpoints find the part's
 * place.
 */
#include "plan/header.h"

#include <assert.h>
#include <string.h>

/* Punctuation, keys and both offsets of a tensor in the header. */
#define TENSOR_FIXED_BYTES ((uint64_t)120)
/* Keys, punctuation and small numbers of one entry in "pawl", with every quote escaped. */
#define PAWL_FIXED_BYTES ((uint64_t)320)
/* The same in "DCP_SHARDING_INFO". */
#define SHARDING_FIXED_BYTES ((uint64_t)64)
/* The longest number, and a separator. */
#define NUMBER_BYTES   ((uint64_t)21)
#define METADATA_PAIRS 5

/* A name within JSON text that is itself a JSON string. Names have no control characters. */
static uint64_t escaped_twice_bytes(const char *name) {
    if (name == NULL) {
        return 0;
    }
    size_t n = strlen(name);
    uint64_t escaped = 0;
    for (size_t i = 0; i < n; i++) {
        escaped += (name[i] == '"') | (name[i] == '\\');
    }
    return n + 3 * escaped;
}

/* Does the safetensors header alone describe it? Then "pawl" leaves it out. */
static bool is_plain(const plan_piece *piece) {
    const state_entry *e = piece->entry;
    return e->kind == PAWL_KIND_TENSOR && e->role == PAWL_ROLE_MODEL && !e->replicated &&
           piece_is_whole(piece);
}

header_cost header_piece_cost(const plan_piece *piece) {
    const state_entry *e = piece->entry;
    uint64_t name =
        escaped_twice_bytes(e->name) + (piece->further > 0 ? (uint64_t)RECORD_FURTHER_BYTES : 0);
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
    const state_entry *e = piece->entry;
    if (e->kind != PAWL_KIND_TENSOR) {
        return true;
    }
    const state_box *held = piece->part;
    for (int i = 0; i < e->ndim; i++) {
        if (held->offset[i] != 0 || held->extent[i] != e->shape[i]) {
            return false;
        }
    }
    return true;
}

/* What is needed while one header is made. */
typedef struct making {
    const plan_layout *layout;
    plan_piece *pieces;
    size_t count;
    safetensors_tensor *tensors;
    bool sharded;
    buffer pawl, sharding;
    const char **keys;
    arena memory; /* of keys that are no names */
} making;

static void making_free(making *m) {
    mem_free(m->tensors);
    buffer_free(&m->pawl);
    buffer_free(&m->sharding);
    mem_free(m->keys);
    arena_free(&m->memory);
}

/* A piece as a record of the index: its entry, with this piece alone. */
typedef struct description {
    record_entry entry;
    record_piece piece;
} description;

static void describe_box(const plan_piece *piece, description *out) {
    const state_entry *e = piece->entry;
    if (e->kind == PAWL_KIND_TENSOR) {
        const state_box *held = piece->part;
        out->piece.box_offset = (int64_t *)(uintptr_t)held->offset;
        out->piece.box_extent = (int64_t *)(uintptr_t)held->extent;
    }
}

static void describe_piece(const plan_piece *piece, const char *key, description *out) {
    const state_entry *e = piece->entry;
    out->piece = (record_piece){.file = piece->file};
    describe_box(piece, out);
    out->entry = (record_entry){.name = key,
                                .kind = e->kind,
                                .role = e->role,
                                .slot_of = e->slot_of,
                                .slot = e->slot,
                                .per_rank = e->per_rank,
                                .replicated = e->replicated,
                                .dtype = e->dtype,
                                .ndim = e->ndim,
                                .shape = e->shape,
                                .pieces = &out->piece,
                                .piece_count = 1};
}

/* Shape of the piece's tensor in the file; for values the shape of their bytes. */
static safetensors_tensor tensor_of(const plan_piece *piece, const char *key) {
    const state_entry *e = piece->entry;
    bool tensor = e->kind == PAWL_KIND_TENSOR;
    return (safetensors_tensor){.name = key,
                                .dtype = e->dtype,
                                .ndim = e->ndim,
                                .shape = tensor ? piece->part->extent : e->shape};
}

static pawl_status make_keys(making *m, pawl_error *err) {
    for (size_t i = 0; i < m->count; i++) {
        const plan_piece *piece = &m->pieces[i];
        TRY(record_further_key(piece->entry->name, piece->further, &m->memory, &m->keys[i], err));
    }
    return PAWL_OK;
}

/* What readers of RECORD_METADATA_PLAIN would take for damaged. */
static bool is_for_newer_readers(const plan_piece *piece) {
    return piece->further > 0 ||
           (piece->entry->per_rank && piece->entry->value_bytes > (uint64_t)PAWL_MAX_VALUE_BYTES);
}

static int metadata_version(const making *m) {
    for (size_t i = 0; i < m->count; i++) {
        if (is_for_newer_readers(&m->pieces[i])) {
            return RECORD_METADATA_FURTHER;
        }
    }
    return RECORD_METADATA_PLAIN;
}

static pawl_status encode_pieces(making *m, pawl_error *err) {
    const plan_layout *layout = m->layout;
    description d;
    TRY(record_metadata_begin(metadata_version(m), layout->step, layout->rank, layout->world_size,
                              &m->pawl, err));
    for (size_t i = 0; i < m->count; i++) {
        const plan_piece *piece = &m->pieces[i];
        if (i + STATE_ENTRIES_AHEAD < m->count) {
            state_entry_expect(m->pieces[i + STATE_ENTRIES_AHEAD].entry);
        }
        m->tensors[i] = tensor_of(piece, m->keys[i]);
        if (!is_plain(piece)) {
            describe_piece(piece, m->keys[i], &d);
            TRY(record_metadata_add(&d.entry, &d.piece, &m->pawl, err));
            m->sharded = m->sharded || !piece_is_whole(piece);
        }
    }
    return record_metadata_end(&m->pawl, err);
}

static pawl_status encode_sharding(making *m, pawl_error *err) {
    description d;
    TRY(record_sharding_info_begin(&m->sharding, err));
    for (size_t i = 0; i < m->count; i++) {
        describe_piece(&m->pieces[i], m->keys[i], &d);
        TRY(record_sharding_info_add(&d.entry, &d.piece, &m->sharding, err));
    }
    return record_sharding_info_end(&m->sharding, err);
}

static pawl_status encode_header(making *m, plan_file *file, pawl_error *err) {
    TRY(make_keys(m, err));
    TRY(encode_pieces(m, err));
    safetensors_pair pairs[METADATA_PAIRS] = {{DATA_SUM_KEY, DATA_SUM_UNFINISHED},
                                              {"format", "pt"},
                                              {RECORD_METADATA_KEY, (const char *)m->pawl.data}};
    size_t pair_count = 3;
    if (m->sharded) {
        TRY(encode_sharding(m, err));
        pairs[pair_count++] =
            (safetensors_pair){"DCP_SHARDING_INFO", (const char *)m->sharding.data};
        pairs[pair_count++] = (safetensors_pair){"DCP_VERSION", "1.0"};
    }
    TRY(safetensors_encode(m->tensors, m->count, pairs, pair_count, &file->header, &file->bytes,
                           err));
    assert(memcmp(file->header.data + DATA_SUM_AT, DATA_SUM_UNFINISHED, DATA_SUM_DIGITS) == 0);
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
    m.tensors = mem_calloc(m.count, sizeof(*m.tensors));
    m.keys = mem_calloc(m.count, sizeof(*m.keys));
    if (m.tensors == NULL || m.keys == NULL) {
        return error_nomem(err, m.count * sizeof(*m.tensors));
    }
    pawl_status status = encode_header(&m, file, err);
    if (status != PAWL_OK) {
        error_wrap(err, "cannot make the header of %s", file->name);
    }
    return status;
}

/* ---- another step --------------------------------------------------------------------------- */

static size_t step_digits(char digits[DECIMAL_DIGITS], int64_t step) {
    return text_decimal(digits, (uint64_t)step);
}

bool header_fits_step(int64_t from, int64_t to) {
    char digits[DECIMAL_DIGITS];
    return step_digits(digits, from) == step_digits(digits, to);
}

/* Its first "step" is that of RECORD_METADATA_KEY, which comes before every name. */
void header_set_step(buffer *header, int64_t step) {
    static const char key[] = "\\\"step\\\":";
    char digits[DECIMAL_DIGITS];
    char *text = (char *)header->data + DATA_SUM_AT;
    char *place = strstr(text, key);
    assert(place != NULL);
    place += sizeof(key) - 1;
    size_t n = step_digits(digits, step);
    assert(strspn(place, "0123456789") == n);
    memcpy(place, digits, n);
}
