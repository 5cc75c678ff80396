/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record: encodes and decodes the records of entries in the index. The value:
 *
 *   u8 version | u8 kind | u8 role | u8 flags
 *   slots:   varint n | n bytes: the variable | varint n | n bytes: the slot
 *   tensors: u8 dtype | u8 ndim | varint shape[ndim]
 *   flag VALUE: varint n | n bytes
 *   varint piece_count | pieces
 *
 * and a piece:
 *
 *   varint file * 2 + whole | varint rank | varint offset
 *   tensors, unless whole: varint box_offset[ndim] | varint box_extent[ndim]
 *   values: varint bytes
 *
 * The version is 2 where a rank has more than PAWL_MAX_VALUE_BYTES of its own, else 1: readers that
 * know version 1 alone would take such a value for damaged.
 */
#include "format/format.h"
#include "format/record_check.h"
#include "format/record_join.h"

#include <inttypes.h>
#include <string.h>

#define RECORD_VERSION  2u
#define FLAG_PER_RANK   1u
#define FLAG_REPLICATED 2u
#define FLAG_VALUE      4u
#define FLAGS_KNOWN     7u
#define MIN_PIECE_BYTES 3u

const char *record_entry_type(const record_entry *entry) {
    if (entry->kind != PAWL_KIND_TENSOR) {
        return NULL;
    }
    return entry->type != NULL ? entry->type : pawl_dtype_name(entry->dtype);
}

bool record_entry_alike(const record_entry *a, const record_entry *b) {
    bool alike = a->kind == b->kind && a->role == b->role && a->per_rank == b->per_rank &&
                 a->replicated == b->replicated && text_equal(a->slot_of, b->slot_of) &&
                 text_equal(a->slot, b->slot);
    if (!alike || a->kind != PAWL_KIND_TENSOR) {
        return alike;
    }
    return a->dtype == b->dtype && shape_equal(a->ndim, a->shape, b->ndim, b->shape);
}

/* ---- keys ----------------------------------------------------------------------------------- */

pawl_status record_entry_key(buffer *key, const char *name, pawl_error *err) {
    key->size = 0;
    TRY(buffer_append(key, "e", 1, err));
    return buffer_append(key, name, strlen(name), err);
}

/* ---- encode --------------------------------------------------------------------------------- */

static pawl_status put_u8(buffer *out, unsigned v, pawl_error *err) {
    uint8_t byte = (uint8_t)v;
    return buffer_append(out, &byte, 1, err);
}

static pawl_status put_varints(buffer *out, int n, const int64_t *numbers, pawl_error *err) {
    for (int i = 0; i < n; i++) {
        TRY(buffer_varint(out, (uint64_t)numbers[i], err));
    }
    return PAWL_OK;
}

static pawl_status encode_piece(const record_entry *entry, const record_piece *piece, buffer *out,
                                pawl_error *err) {
    bool tensor = entry->kind == PAWL_KIND_TENSOR;
    bool whole = tensor && record_piece_is_whole(entry, piece);
    TRY(buffer_varint(out, (uint64_t)piece->file * 2 + whole, err));
    TRY(buffer_varint(out, (uint64_t)piece->rank, err));
    TRY(buffer_varint(out, piece->offset, err));
    if (!tensor) {
        return buffer_varint(out, piece->bytes, err);
    }
    if (whole) {
        return PAWL_OK;
    }
    TRY(put_varints(out, entry->ndim, piece->box_offset, err));
    return put_varints(out, entry->ndim, piece->box_extent, err);
}

static uint8_t version_of(const record_entry *entry) {
    for (size_t i = 0; entry->per_rank && i < entry->piece_count; i++) {
        if (entry->pieces[i].bytes > (uint64_t)PAWL_MAX_VALUE_BYTES) {
            return RECORD_VERSION;
        }
    }
    return 1;
}

static pawl_status encode_head(const record_entry *entry, buffer *out, pawl_error *err) {
    unsigned flags = (entry->per_rank ? FLAG_PER_RANK : 0) |
                     (entry->replicated ? FLAG_REPLICATED : 0) |
                     (entry->value != NULL ? FLAG_VALUE : 0);
    TRY(put_u8(out, version_of(entry), err));
    TRY(put_u8(out, entry->kind, err));
    TRY(put_u8(out, entry->role, err));
    TRY(put_u8(out, flags, err));
    if (entry->role == PAWL_ROLE_SLOT) {
        TRY(buffer_varint_bytes(out, entry->slot_of, strlen(entry->slot_of), err));
        TRY(buffer_varint_bytes(out, entry->slot, strlen(entry->slot), err));
    }
    if (entry->kind == PAWL_KIND_TENSOR) {
        TRY(put_u8(out, entry->dtype, err));
        TRY(put_u8(out, (unsigned)entry->ndim, err));
        TRY(put_varints(out, entry->ndim, entry->shape, err));
    }
    return entry->value == NULL ? PAWL_OK
                                : buffer_varint_bytes(out, entry->value, entry->value_bytes, err);
}

pawl_status record_entry_encode(const record_entry *entry, buffer *value, pawl_error *err) {
    TRY(record_check(entry, FORMAT_MAX_FILES, PAWL_EINTERNAL, err));
    return record_entry_encode_again(entry, value, err);
}

pawl_status record_entry_encode_again(const record_entry *entry, buffer *value, pawl_error *err) {
    if (entry->piece_count > FORMAT_MAX_PIECES) {
        error_set(err, PAWL_ELIMIT, "an entry has too many pieces");
        error_entry(err, entry->name);
        error_expected(err, "at most %u", FORMAT_MAX_PIECES);
        error_found(err, "%zu", entry->piece_count);
        return PAWL_ELIMIT;
    }
    value->size = 0;
    TRY(encode_head(entry, value, err));
    TRY(buffer_varint(value, entry->piece_count, err));
    for (size_t i = 0; i < entry->piece_count; i++) {
        TRY(encode_piece(entry, &entry->pieces[i], value, err));
    }
    return PAWL_OK;
}

/* ---- decode --------------------------------------------------------------------------------- */

typedef struct decoder {
    cursor c;
    arena *memory;
    record_entry *out;
    int64_t *whole_offset, *whole_extent; /* shared by all pieces that are the whole tensor */
} decoder;

static pawl_status refuse_record(const decoder *d, pawl_status status, pawl_error *err,
                                 const char *what) {
    error_set(err, status, "the record of an entry is wrong at byte %zu: %s", d->c.at, what);
    error_entry(err, d->out->name);
    return status;
}

static pawl_status decode_text(decoder *d, const uint8_t *bytes, size_t n, const char **out,
                               pawl_error *err) {
    if (n > 0 && memchr(bytes, 0, n) != NULL) {
        return refuse_record(d, PAWL_EDAMAGED, err, "a name has a NUL");
    }
    char *text = arena_take(d->memory, n + 1, err);
    if (text == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(text, bytes, n);
    text[n] = '\0';
    *out = text;
    return PAWL_OK;
}

static pawl_status get_record_text(decoder *d, const char **out, pawl_error *err) {
    uint32_t n = 0;
    const uint8_t *bytes;
    TRY(cursor_varint32(&d->c, &n, err));
    TRY(cursor_bytes(&d->c, n, &bytes, err));
    return decode_text(d, bytes, n, out, err);
}

static pawl_status get_varints(decoder *d, int n, int64_t **out, pawl_error *err) {
    int64_t *numbers = arena_take(d->memory, (size_t)n * sizeof *numbers, err);
    if (numbers == NULL) {
        return PAWL_ENOMEM;
    }
    for (int i = 0; i < n; i++) {
        uint64_t number = 0;
        TRY(cursor_varint64(&d->c, &number, err));
        if (number > INT64_MAX) {
            return refuse_record(d, PAWL_EDAMAGED, err, "a number is too large");
        }
        numbers[i] = (int64_t)number;
    }
    *out = numbers;
    return PAWL_OK;
}

static pawl_status decode_record_version(decoder *d, uint8_t *version, pawl_error *err) {
    TRY(cursor_u8(&d->c, version, err));
    if (*version >= 1 && *version <= RECORD_VERSION) {
        return PAWL_OK;
    }
    pawl_status status =
        *version > RECORD_VERSION
            ? refuse_record(d, PAWL_EUNSUPPORTED, err, "written by a newer version")
            : refuse_record(d, PAWL_EDAMAGED, err, "no such version");
    error_expected(err, "version 1 to %u of the record", RECORD_VERSION);
    error_found(err, "version %u", *version);
    error_next(err, "read it with a newer pawl");
    return status;
}

static pawl_status decode_head(decoder *d, uint8_t *version, uint8_t *flags, pawl_error *err) {
    record_entry *out = d->out;
    uint8_t kind = 0, role = 0;
    TRY(decode_record_version(d, version, err));
    TRY(cursor_u8(&d->c, &kind, err));
    TRY(cursor_u8(&d->c, &role, err));
    TRY(cursor_u8(&d->c, flags, err));
    if ((*flags & ~FLAGS_KNOWN) != 0) {
        return refuse_record(d, PAWL_EDAMAGED, err, "unknown flags");
    }
    out->kind = (pawl_kind)kind;
    out->role = (pawl_role)role;
    out->per_rank = (*flags & FLAG_PER_RANK) != 0;
    out->replicated = (*flags & FLAG_REPLICATED) != 0;
    if (out->role == PAWL_ROLE_SLOT) {
        TRY(get_record_text(d, &out->slot_of, err));
        TRY(get_record_text(d, &out->slot, err));
    }
    return PAWL_OK;
}

static pawl_status decode_record_shape(decoder *d, pawl_error *err) {
    record_entry *out = d->out;
    uint8_t dtype = 0, ndim = 0;
    int64_t *shape = NULL;
    TRY(cursor_u8(&d->c, &dtype, err));
    TRY(cursor_u8(&d->c, &ndim, err));
    if (ndim > PAWL_MAX_NDIM) {
        return refuse_record(d, PAWL_ELIMIT, err, "too many dimensions");
    }
    TRY(get_varints(d, ndim, &shape, err));
    out->dtype = (pawl_dtype)dtype;
    out->ndim = ndim;
    out->shape = shape;
    d->whole_extent = shape;
    d->whole_offset = arena_take(d->memory, (size_t)ndim * sizeof *shape, err);
    if (d->whole_offset == NULL) {
        return PAWL_ENOMEM;
    }
    memset(d->whole_offset, 0, (size_t)ndim * sizeof *shape);
    /* Checked before any byte count is taken of it. */
    if (!dtype_valid(out->dtype)) {
        return refuse_record(d, PAWL_EDAMAGED, err, "unknown dtype");
    }
    if (shape_check(out->dtype, ndim, shape, NULL, NULL, err) != PAWL_OK) {
        return refuse_record(d, PAWL_EDAMAGED, err, "the shape is too large");
    }
    return PAWL_OK;
}

static pawl_status decode_value(decoder *d, pawl_error *err) {
    uint32_t n = 0;
    const uint8_t *bytes;
    TRY(cursor_varint32(&d->c, &n, err));
    TRY(cursor_bytes(&d->c, n, &bytes, err));
    uint8_t *copy = arena_take(d->memory, (size_t)n + 1, err);
    if (copy == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(copy, bytes, n);
    copy[n] = 0;
    d->out->value = copy;
    d->out->value_bytes = n;
    return PAWL_OK;
}

/* The bytes of a tensor's piece follow from its box. */
static pawl_status decode_box(decoder *d, bool whole, record_piece *piece, pawl_error *err) {
    const record_entry *out = d->out;
    if (whole) {
        piece->box_offset = d->whole_offset;
        piece->box_extent = d->whole_extent;
    } else {
        TRY(get_varints(d, out->ndim, &piece->box_offset, err));
        TRY(get_varints(d, out->ndim, &piece->box_extent, err));
    }
    if (shape_check(out->dtype, out->ndim, piece->box_extent, NULL, &piece->bytes, err) !=
        PAWL_OK) {
        return refuse_record(d, PAWL_EDAMAGED, err, "a piece is too large");
    }
    return PAWL_OK;
}

static pawl_status decode_piece(decoder *d, record_piece *piece, pawl_error *err) {
    uint64_t file = 0;
    uint32_t rank = 0;
    TRY(cursor_varint64(&d->c, &file, err));
    TRY(cursor_varint32(&d->c, &rank, err));
    TRY(cursor_varint64(&d->c, &piece->offset, err));
    if (file / 2 > UINT32_MAX || rank > INT32_MAX) {
        return refuse_record(d, PAWL_EDAMAGED, err, "the file or rank of a piece is too large");
    }
    piece->file = (uint32_t)(file / 2);
    piece->rank = (int32_t)rank;
    bool whole = file % 2 == 1;
    if (d->out->kind == PAWL_KIND_TENSOR) {
        return decode_box(d, whole, piece, err);
    }
    if (whole) {
        return refuse_record(d, PAWL_EDAMAGED, err, "a value has no box");
    }
    return cursor_varint64(&d->c, &piece->bytes, err);
}

static pawl_status decode_pieces(decoder *d, pawl_error *err) {
    record_entry *out = d->out;
    uint32_t count = 0;
    TRY(cursor_varint32(&d->c, &count, err));
    if (count > FORMAT_MAX_PIECES) {
        return refuse_record(d, PAWL_ELIMIT, err, "too many pieces");
    }
    if (count > cursor_left(&d->c) / MIN_PIECE_BYTES) {
        return refuse_record(d, PAWL_EDAMAGED, err, "more pieces than there are bytes for");
    }
    out->pieces = arena_take(d->memory, count * sizeof *out->pieces, err);
    if (out->pieces == NULL) {
        return PAWL_ENOMEM;
    }
    memset(out->pieces, 0, count * sizeof *out->pieces);
    out->piece_count = count;
    for (uint32_t i = 0; i < count; i++) {
        TRY(decode_piece(d, &out->pieces[i], err));
    }
    return cursor_left(&d->c) == 0 ? PAWL_OK
                                   : refuse_record(d, PAWL_EDAMAGED, err, "bytes are left over");
}

static pawl_status decode_name(decoder *d, const uint8_t *key, size_t key_bytes, pawl_error *err) {
    const char *why = NULL;
    if (key_bytes < 1 || key[0] != 'e') {
        return error_set(err, PAWL_EDAMAGED, "a record of the index is not that of an entry");
    }
    if (!entry_name_valid((const char *)key + 1, key_bytes - 1, &why)) {
        return error_set(err, PAWL_EDAMAGED, "an entry of the index has a bad name: %s", why);
    }
    return decode_text(d, key + 1, key_bytes - 1, &d->out->name, err);
}

pawl_kind record_entry_kind(const uint8_t *value, size_t value_bytes) {
    bool known = value_bytes > 1 && value[0] >= 1 && value[0] <= RECORD_VERSION;
    return known ? (pawl_kind)value[1] : (pawl_kind)0;
}

pawl_status record_entry_decode(const uint8_t *key, size_t key_bytes, const uint8_t *value,
                                size_t value_bytes, uint32_t file_count, arena *memory,
                                record_entry *out, pawl_error *err) {
    decoder d = {
        .c = cursor_of(value, value_bytes, 0, "record of an entry"), .memory = memory, .out = out};
    uint8_t version = 0, flags = 0;
    *out = (record_entry){.name = NULL};
    TRY(decode_name(&d, key, key_bytes, err));
    TRY(decode_head(&d, &version, &flags, err));
    if (out->kind == PAWL_KIND_TENSOR) {
        TRY(decode_record_shape(&d, err));
    }
    if ((flags & FLAG_VALUE) != 0) {
        TRY(decode_value(&d, err));
    }
    out->head_bytes = d.c.at;
    TRY(decode_pieces(&d, err));
    if (out->kind != PAWL_KIND_TENSOR && !out->per_rank && out->value == NULL) {
        return refuse_record(&d, PAWL_EDAMAGED, err,
                             "a value that is not per rank is not in the index");
    }
    if (version != version_of(out)) {
        return refuse_record(&d, PAWL_EDAMAGED, err, "its version is not that of what it holds");
    }
    return record_check(out, file_count, PAWL_EDAMAGED, err);
}

/* Thousands of ranks may hold parts of one tensor, and their records begin alike. */
pawl_status record_entry_decode_like(const record_entry *first, const uint8_t *first_value,
                                     const uint8_t *key, size_t key_bytes, const uint8_t *value,
                                     size_t value_bytes, uint32_t file_count, arena *memory,
                                     record_entry *out, pawl_error *err) {
    size_t head = first->head_bytes;
    if (first->kind != PAWL_KIND_TENSOR || value_bytes < head ||
        memcmp(value, first_value, head) != 0) {
        return record_entry_decode(key, key_bytes, value, value_bytes, file_count, memory, out,
                                   err);
    }
    *out = *first;
    decoder d = {.c = cursor_of(value, value_bytes, 0, "record of an entry"),
                 .memory = memory,
                 .out = out,
                 .whole_extent = (int64_t *)(uintptr_t)first->shape};
    d.c.at = head;
    d.whole_offset = arena_take(d.memory, (size_t)first->ndim * sizeof *d.whole_offset, err);
    if (d.whole_offset == NULL) {
        return PAWL_ENOMEM;
    }
    memset(d.whole_offset, 0, (size_t)first->ndim * sizeof *d.whole_offset);
    TRY(decode_pieces(&d, err));
    return record_check_pieces(out, file_count, PAWL_EDAMAGED, err);
}
