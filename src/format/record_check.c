/* SPDX-License-Identifier: Apache-2.0 */
/* record_check: checks the description of an entry, read or to be written. */
#include "format/record_check.h"
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

typedef struct check {
    const record_entry *entry;
    uint32_t file_count;
    pawl_status blame;
    pawl_error *err;
} check;

static pawl_status refuse_entry(const check *k, const char *what) {
    error_set(k->err, k->blame, "the description of an entry is wrong: %s", what);
    if (k->entry->name != NULL && utf8_valid(k->entry->name, strlen(k->entry->name))) {
        error_entry(k->err, k->entry->name);
    }
    return k->blame;
}

/* Adds this layer's words to a refusal by a lower one, which has set expected and found. */
static pawl_status refuse_inner(const check *k, const char *what) {
    error_wrap(k->err, "the description of an entry is wrong: %s", what);
    error_entry(k->err, k->entry->name);
    k->err->status = k->blame;
    return k->blame;
}

bool record_piece_is_whole(const record_entry *entry, const record_piece *piece) {
    for (int d = 0; d < entry->ndim; d++) {
        if (piece->box_offset[d] != 0 || piece->box_extent[d] != entry->shape[d]) {
            return false;
        }
    }
    return true;
}

pawl_dtype record_value_dtype(pawl_kind kind, bool *scalar) {
    *scalar = kind == PAWL_KIND_BOOL || kind == PAWL_KIND_INT64 || kind == PAWL_KIND_FLOAT64;
    return dtype_of_value(kind);
}

/* ---- the entry ------------------------------------------------------------------------------ */

static pawl_status check_identity(const check *k) {
    const record_entry *entry = k->entry;
    const char *why = NULL;
    if (!entry_name_valid(entry->name, strlen(entry->name), &why)) {
        return refuse_entry(k, why);
    }
    if (strcmp(entry->name, SAFETENSORS_METADATA_KEY) == 0) {
        return refuse_entry(k, "its name is reserved in data files");
    }
    if (entry->kind < PAWL_KIND_TENSOR || entry->kind > PAWL_KIND_JSON) {
        return refuse_entry(k, "unknown kind");
    }
    if ((int)entry->role < PAWL_ROLE_MODEL || entry->role > PAWL_ROLE_OTHER) {
        return refuse_entry(k, "unknown role");
    }
    bool is_slot = entry->role == PAWL_ROLE_SLOT;
    if ((entry->slot_of != NULL) != is_slot || (entry->slot != NULL) != is_slot) {
        return refuse_entry(k,
                            "an optimizer's slot, and nothing else, names its variable and itself");
    }
    if (is_slot && !entry_name_valid(entry->slot_of, strlen(entry->slot_of), &why)) {
        return refuse_entry(k, why);
    }
    if (is_slot && !entry_name_valid(entry->slot, strlen(entry->slot), &why)) {
        return refuse_entry(k, why);
    }
    if (is_slot && (entry->kind != PAWL_KIND_TENSOR || strcmp(entry->slot_of, entry->name) == 0)) {
        return refuse_entry(k, "an optimizer's slot is a tensor beside its variable");
    }
    return PAWL_OK;
}

static pawl_status check_tensor_entry(const check *k) {
    const record_entry *entry = k->entry;
    bool other_type = (int)entry->dtype == 0 && entry->type != NULL;
    if (!dtype_valid(entry->dtype) && !other_type) {
        return refuse_entry(k, "unknown dtype");
    }
    if (entry->per_rank || entry->value != NULL) {
        return refuse_entry(k, "a tensor is not per rank and has no value");
    }
    pawl_dtype counted = other_type ? PAWL_U8 : entry->dtype;
    if (shape_check(counted, entry->ndim, entry->shape, NULL, NULL, k->err) != PAWL_OK) {
        return refuse_inner(k, "its shape");
    }
    return PAWL_OK;
}

/* Bytes of one value of that kind. */
static bool size_fits(const record_entry *entry, uint64_t bytes) {
    bool scalar;
    pawl_dtype dtype = record_value_dtype(entry->kind, &scalar);
    uint64_t most = entry->per_rank ? PAWL_MAX_RANK_BYTES : PAWL_MAX_VALUE_BYTES;
    return scalar ? bytes == (uint64_t)pawl_dtype_bits(dtype) / 8 : bytes <= most;
}

static pawl_status check_value_bytes(const check *k) {
    const record_entry *entry = k->entry;
    const char *text = (const char *)entry->value;
    size_t n = entry->value_bytes;
    if (!size_fits(entry, n)) {
        return refuse_entry(k, "the value has a size that does not fit its kind");
    }
    if (entry->kind == PAWL_KIND_BOOL && entry->value[0] > 1) {
        return refuse_entry(k, "the value is neither true nor false");
    }
    if (entry->kind == PAWL_KIND_STRING && (!utf8_valid(text, n) || memchr(text, 0, n) != NULL)) {
        return refuse_entry(k, "the value is not UTF-8 without NUL");
    }
    if (entry->kind == PAWL_KIND_JSON && json_check(text, n, "value", k->err) != PAWL_OK) {
        return refuse_inner(k, "the value");
    }
    return PAWL_OK;
}

static pawl_status check_value_entry(const check *k) {
    const record_entry *entry = k->entry;
    if (entry->value != NULL) {
        if (entry->per_rank) {
            return refuse_entry(k, "what is per rank has no common value");
        }
        TRY(check_value_bytes(k));
    }
    if (entry->per_rank && entry->kind != PAWL_KIND_BYTES) {
        return refuse_entry(k, "only bytes are per rank");
    }
    if (entry->piece_count != 1 && (!entry->per_rank || entry->piece_count == 0)) {
        return refuse_entry(k, "a value has one piece, or one per rank");
    }
    return PAWL_OK;
}

/* ---- its pieces ----------------------------------------------------------------------------- */

static pawl_status check_piece_box(const check *k, const record_piece *piece) {
    const record_entry *entry = k->entry;
    uint64_t bytes = 0;
    if (!box_inside(entry->ndim, piece->box_offset, piece->box_extent, entry->shape)) {
        box b = box_of(entry->ndim, piece->box_offset, piece->box_extent);
        if (box_check(&b, entry->ndim, entry->shape, k->err) != PAWL_OK) {
            return refuse_inner(k, "a piece lies outside the tensor");
        }
    }
    if (entry->type != NULL) {
        return PAWL_OK; /* how many bytes an element has is not known */
    }
    if (shape_check(entry->dtype, entry->ndim, piece->box_extent, NULL, &bytes, k->err) !=
        PAWL_OK) {
        return refuse_inner(k, "a piece");
    }
    return bytes == piece->bytes ? PAWL_OK
                                 : refuse_entry(k, "a piece has bytes that do not fit its box");
}

static pawl_status check_piece(const check *k, size_t i) {
    const record_entry *entry = k->entry;
    const record_piece *piece = &entry->pieces[i];
    uint64_t end = 0;
    if (piece->file >= k->file_count) {
        return refuse_entry(k, "a piece is in a file that does not exist");
    }
    if (piece->rank < 0 || (entry->per_rank && i > 0 && piece->rank <= piece[-1].rank)) {
        return refuse_entry(k, "the ranks of its pieces are negative or do not ascend");
    }
    if (add_overflows(piece->offset, piece->bytes, &end) || end > INT64_MAX) {
        return refuse_entry(k, "a piece ends beyond the largest offset");
    }
    if (entry->kind == PAWL_KIND_TENSOR) {
        return check_piece_box(k, piece);
    }
    if (!size_fits(entry, piece->bytes) ||
        (entry->value != NULL && piece->bytes != entry->value_bytes)) {
        return refuse_entry(k, "a piece has a size that does not fit the value");
    }
    return PAWL_OK;
}

static pawl_status check_pieces(const check *k) {
    for (size_t i = 0; i < k->entry->piece_count; i++) {
        TRY(check_piece(k, i));
    }
    return PAWL_OK;
}

pawl_status record_check_pieces(const record_entry *entry, uint32_t file_count, pawl_status blame,
                                pawl_error *err) {
    check k = {.entry = entry, .file_count = file_count, .blame = blame, .err = err};
    return check_pieces(&k);
}

pawl_status record_check(const record_entry *entry, uint32_t file_count, pawl_status blame,
                         pawl_error *err) {
    check k = {.entry = entry, .file_count = file_count, .blame = blame, .err = err};
    TRY(check_identity(&k));
    if (entry->kind == PAWL_KIND_TENSOR) {
        TRY(check_tensor_entry(&k));
    } else {
        TRY(check_value_entry(&k));
    }
    return check_pieces(&k);
}
