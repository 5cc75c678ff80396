/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records that only a vote has: a byte that says which, then any bytes. What is understood is
 * written again and must be understood as the same.
 */
#include "format/vote.h"
#include "fuzz.h"

static void check_heads(const vote *a, const vote *b) {
    FUZZ_CHECK(a->step == b->step && a->rank == b->rank && a->world_size == b->world_size);
    FUZZ_CHECK(a->rank >= 0 && a->rank < a->world_size && a->world_size <= PAWL_MAX_RANKS);
    FUZZ_CHECK(strcmp(a->tag, b->tag) == 0 && strcmp(a->host, b->host) == 0 && a->pid == b->pid);
    FUZZ_CHECK(a->skipped == b->skipped && (a->failed == NULL) == (b->failed == NULL));
    FUZZ_CHECK(a->failed_bytes == b->failed_bytes);
    FUZZ_CHECK(a->failed == NULL || memcmp(a->failed, b->failed, a->failed_bytes) == 0);
    FUZZ_CHECK(a->file_count == b->file_count && a->values_crc32c == b->values_crc32c);
    FUZZ_CHECK(a->structure_crc32c == b->structure_crc32c);
    FUZZ_CHECK(a->structure_bytes == b->structure_bytes);
    FUZZ_CHECK(a->copies_count == b->copies_count);
    for (size_t i = 0; i < a->copies_count; i++) {
        const vote_copies *x = &a->copies[i];
        const vote_copies *y = &b->copies[i];
        FUZZ_CHECK(x->replica_count == y->replica_count && x->bytes == y->bytes);
        FUZZ_CHECK(x->held_crc32c == y->held_crc32c && x->sums_crc32c == y->sums_crc32c);
        FUZZ_CHECK(i == 0 || a->copies[i - 1].replica_count < x->replica_count);
    }
    for (size_t i = 0; i < a->file_count; i++) {
        char tag[FORMAT_TAG_CHARS];
        FUZZ_CHECK(name_classify(a->files[i].name, tag) == NAME_KIND_DATA);
        FUZZ_CHECK(strcmp(tag, a->tag) == 0 && strcmp(a->files[i].name, b->files[i].name) == 0);
        FUZZ_CHECK(a->files[i].bytes == b->files[i].bytes);
    }
}

static pawl_status try_head(const buffer *in, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    CLEANUP(buffer_free) buffer again = {.data = NULL};
    vote head, back;
    TRY(vote_head_decode(in->data, in->size, &memory, &head, err));
    FUZZ_CHECK(vote_head_encode(&head, &again, err) == PAWL_OK);
    FUZZ_CHECK(vote_head_decode(again.data, again.size, &memory, &back, err) == PAWL_OK);
    check_heads(&head, &back);
    return PAWL_OK;
}

/* The bytes as a value that a rank has. */
static void try_value_of(const buffer *in, pawl_kind kind, pawl_error *err) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    const vote_value value = vote_value_of(kind, in->data, in->size);
    vote_value back;
    if (vote_value_encode(&value, &out, err) != PAWL_OK) {
        FUZZ_CHECK(kind != PAWL_KIND_BYTES && kind != PAWL_KIND_STRING && kind != PAWL_KIND_JSON);
        return;
    }
    FUZZ_CHECK(vote_value_decode(out.data, out.size, &back, err) == PAWL_OK);
    FUZZ_CHECK(back.bytes == in->size && back.crc32c == crc32c(0, in->data, in->size));
    FUZZ_CHECK(memcmp(back.shown, in->data, back.shown_bytes) == 0);
}

static pawl_status try_value(const buffer *in, pawl_error *err) {
    CLEANUP(buffer_free) buffer again = {.data = NULL};
    vote_value value, back;
    char text[160];
    for (int kind = PAWL_KIND_BOOL; kind <= PAWL_KIND_JSON; kind++) {
        try_value_of(in, (pawl_kind)kind, err);
    }
    TRY(vote_value_decode(in->data, in->size, &value, err));
    vote_value_text(text, &value);
    FUZZ_CHECK(strlen(text) < sizeof text);
    FUZZ_CHECK(vote_value_encode(&value, &again, err) == PAWL_OK);
    FUZZ_CHECK(vote_value_decode(again.data, again.size, &back, err) == PAWL_OK);
    FUZZ_CHECK(value.kind == back.kind && value.crc32c == back.crc32c);
    FUZZ_CHECK(value.bytes == back.bytes && value.shown_bytes == back.shown_bytes);
    FUZZ_CHECK(memcmp(value.shown, back.shown, value.shown_bytes) == 0);
    return PAWL_OK;
}

static pawl_status try_replicas(const buffer *in, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    CLEANUP(buffer_free) buffer again = {.data = NULL};
    vote_replica *replicas, *back;
    size_t count, back_count;
    int ndim, back_ndim;
    TRY(vote_replicas_decode(in->data, in->size, &memory, &replicas, &count, &ndim, err));
    FUZZ_CHECK(vote_replicas_encode(replicas, count, ndim, &again, err) == PAWL_OK);
    FUZZ_CHECK(vote_replicas_decode(again.data, again.size, &memory, &back, &back_count, &back_ndim,
                                    err) == PAWL_OK);
    FUZZ_CHECK(count == back_count && ndim == back_ndim);
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(shape_equal(ndim, replicas[i].offset, ndim, back[i].offset));
        FUZZ_CHECK(shape_equal(ndim, replicas[i].extent, ndim, back[i].extent));
        FUZZ_CHECK(replicas[i].crc32c == back[i].crc32c);
    }
    return PAWL_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) {
        return 0;
    }
    CLEANUP(buffer_free) buffer in = fuzz_copy(data + 1, size - 1);
    pawl_error err = ERROR_INIT;
    pawl_status (*const kinds[])(const buffer *in, pawl_error *err) = {try_head, try_value,
                                                                       try_replicas};
    pawl_status status = kinds[data[0] % 3](&in, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
    }
    fuzz_accepted += status == PAWL_OK;
    return 0;
}
