/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of an entry: a byte with the length of its name, the name, then any bytes. What is
 * understood is written again and must be understood as the same.
 */
#include "fuzz.h"

#include "format/record_join.h"

#define FILES 1000u

static void check_same(const record_entry *a, const record_entry *b) {
    FUZZ_CHECK(strcmp(a->name, b->name) == 0);
    FUZZ_CHECK(a->kind == b->kind && a->role == b->role);
    FUZZ_CHECK(a->per_rank == b->per_rank && a->replicated == b->replicated);
    FUZZ_CHECK(text_equal(a->slot_of, b->slot_of) && text_equal(a->slot, b->slot));
    FUZZ_CHECK(a->dtype == b->dtype && shape_equal(a->ndim, a->shape, b->ndim, b->shape));
    FUZZ_CHECK((a->value == NULL) == (b->value == NULL) && a->value_bytes == b->value_bytes);
    FUZZ_CHECK(a->value_bytes == 0 || memcmp(a->value, b->value, a->value_bytes) == 0);
    FUZZ_CHECK(a->piece_count == b->piece_count);
    for (size_t i = 0; i < a->piece_count; i++) {
        const record_piece *p = &a->pieces[i], *q = &b->pieces[i];
        FUZZ_CHECK(p->file == q->file && p->file < FILES && p->rank == q->rank);
        FUZZ_CHECK(p->offset == q->offset && p->bytes == q->bytes);
        if (a->kind == PAWL_KIND_TENSOR) {
            FUZZ_CHECK(shape_equal(a->ndim, p->box_offset, a->ndim, q->box_offset));
            FUZZ_CHECK(shape_equal(a->ndim, p->box_extent, a->ndim, q->box_extent));
        }
    }
}

static void encode_again(const record_entry *entry, const buffer *key) {
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    CLEANUP(buffer_free) buffer value = {.data = NULL};
    pawl_error err = ERROR_INIT;
    record_entry again;
    FUZZ_CHECK(record_entry_encode(entry, &value, &err) == PAWL_OK);
    FUZZ_CHECK(record_entry_decode(key->data, key->size, value.data, value.size, FILES, &memory,
                                   &again, &err) == PAWL_OK);
    check_same(entry, &again);
}

/* A second rank that says the very same: decoded by the short cut, and joined, it is the same. */
static void decode_like(const record_entry *entry, const buffer *key, const buffer *value) {
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    CLEANUP(buffer_free) buffer again = {.data = NULL}, checked = {.data = NULL};
    pawl_error err = ERROR_INIT;
    record_entry like;
    FUZZ_CHECK(record_entry_decode_like(entry, value->data, key->data, key->size, value->data,
                                        value->size, FILES, &memory, &like, &err) == PAWL_OK);
    check_same(entry, &like);
    FUZZ_CHECK(record_entry_encode_again(&like, &again, &err) == PAWL_OK);
    FUZZ_CHECK(record_entry_encode(entry, &checked, &err) == PAWL_OK);
    FUZZ_CHECK(again.size == checked.size);
    FUZZ_CHECK(memcmp(again.data, checked.data, checked.size) == 0);
}

/* Any whole number of checksums is a record of them. */
static void check_checksums(const buffer *bytes) {
    CLEANUP(buffer_free) buffer again = {.data = NULL};
    pawl_error err = ERROR_INIT;
    uint32_t checksums[16];
    size_t count = bytes->size / sizeof(uint32_t);
    count = count < ARRAY_LENGTH(checksums) ? count : ARRAY_LENGTH(checksums);
    size_t n = count * sizeof(uint32_t);
    FUZZ_CHECK(record_checksums_decode(bytes->data, n, checksums, &err) == PAWL_OK);
    FUZZ_CHECK(record_checksums_encode(checksums, count, &again, &err) == PAWL_OK);
    FUZZ_CHECK(again.size == n && (n == 0 || memcmp(again.data, bytes->data, n) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) {
        return 0;
    }
    size_t name_bytes = data[0] < size - 1 ? data[0] : size - 1;
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    CLEANUP(buffer_free) buffer key = {.data = NULL};
    CLEANUP(buffer_free) buffer value = fuzz_copy(data + 1 + name_bytes, size - 1 - name_bytes);
    pawl_error err = ERROR_INIT;
    record_entry entry;
    check_checksums(&value);
    fuzz_append(&key, "e", 1);
    fuzz_append(&key, data + 1, name_bytes);
    pawl_status status = record_entry_decode(key.data, key.size, value.data, value.size, FILES,
                                             &memory, &entry, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        return 0;
    }
    fuzz_accepted++;
    encode_again(&entry, &key);
    decode_like(&entry, &key, &value);
    return 0;
}
