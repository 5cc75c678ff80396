/* SPDX-License-Identifier: Apache-2.0 */
/* record_metadata: what a data file says of itself is golden, comes back, and is not believed
 * blindly. */
#include "format/format.h"
#include "lib/failing_memory.h"
#include "lib/test.h"

#include <stdio.h>
#include <string.h>

/* A file with one of each: a plain tensor, a piece of a slot, values, a per-rank blob. */
enum { PLAIN, SLOT, FLAG, BLOB, LOADER, COUNT };

typedef struct sample {
    record_entry entries[COUNT];
    record_piece pieces[COUNT][2];
    uint32_t piece_of_entry[COUNT];
    buffer metadata, header, sharding;
    uint64_t file_bytes;
} sample;

static int64_t zero2[] = {0, 0}, whole2[] = {4, 2}, half_at[] = {2, 0}, half[] = {2, 2};

static void sample_free(sample *s) {
    buffer_free(&s->metadata);
    buffer_free(&s->header);
    buffer_free(&s->sharding);
}

static void describe(sample *s) {
    memset(s, 0, sizeof *s);
    s->pieces[PLAIN][0] = (record_piece){.bytes = 32, .box_offset = zero2, .box_extent = whole2};
    s->pieces[SLOT][0] = (record_piece){.bytes = 16, .box_offset = zero2, .box_extent = half};
    s->pieces[SLOT][1] = (record_piece){.bytes = 16, .box_offset = half_at, .box_extent = half};
    s->piece_of_entry[SLOT] = 1;
    s->pieces[FLAG][0].bytes = 1;
    s->pieces[BLOB][0].bytes = 3;
    s->pieces[LOADER][0].bytes = 2;
    s->entries[PLAIN] = (record_entry){.name = "w",
                                       .kind = PAWL_KIND_TENSOR,
                                       .dtype = PAWL_F32,
                                       .ndim = 2,
                                       .shape = whole2,
                                       .piece_count = 1};
    s->entries[SLOT] = (record_entry){.name = "o/w",
                                      .kind = PAWL_KIND_TENSOR,
                                      .role = PAWL_ROLE_SLOT,
                                      .slot_of = "w",
                                      .slot = "m\"",
                                      .replicated = true,
                                      .dtype = PAWL_F32,
                                      .ndim = 2,
                                      .shape = whole2,
                                      .piece_count = 2};
    s->entries[FLAG] = (record_entry){.name = "flag",
                                      .kind = PAWL_KIND_BOOL,
                                      .role = PAWL_ROLE_HYPERPARAMETER,
                                      .value = (const uint8_t *)"\1",
                                      .value_bytes = 1,
                                      .piece_count = 1};
    s->entries[BLOB] = (record_entry){.name = "rng",
                                      .kind = PAWL_KIND_BYTES,
                                      .role = PAWL_ROLE_RNG,
                                      .per_rank = true,
                                      .piece_count = 1};
    s->entries[LOADER] = (record_entry){
        .name = "loader", .kind = PAWL_KIND_JSON, .role = PAWL_ROLE_OTHER, .piece_count = 1};
    for (int i = 0; i < COUNT; i++) {
        s->entries[i].pieces = s->pieces[i];
    }
}

static const char golden[] =
    "{\"version\":1,\"step\":1000,\"rank\":3,\"world_size\":8,\"entries\":{"
    "\"o/w\":{\"role\":\"slot\",\"slot_of\":\"w\",\"slot\":\"m\\\"\",\"replicated\":true,"
    "\"shape\":[4,2],\"offset\":[2,0]},"
    "\"flag\":{\"kind\":\"bool\",\"role\":\"hyperparameter\"},"
    "\"rng\":{\"kind\":\"bytes\",\"role\":\"rng\",\"per_rank\":true},"
    "\"loader\":{\"kind\":\"json\",\"role\":\"other\"}}}";

/* The header of a file of these entries whose description of itself is `metadata`. */
static void write_header(sample *s, const char *metadata) {
    static const int64_t three = 3, two = 2;
    safetensors_tensor tensors[COUNT] = {
        {.name = "w", .dtype = PAWL_F32, .ndim = 2, .shape = whole2},
        {.name = "o/w", .dtype = PAWL_F32, .ndim = 2, .shape = half},
        {.name = "rng", .dtype = PAWL_U8, .ndim = 1, .shape = &three},
        {.name = "loader", .dtype = PAWL_U8, .ndim = 1, .shape = &two},
        {.name = "flag", .dtype = PAWL_BOOL, .ndim = 0}};
    safetensors_pair pair = {RECORD_METADATA_KEY, metadata};
    pawl_error err = ERROR_INIT;
    assert_ok(safetensors_encode(tensors, COUNT, &pair, metadata != NULL, &s->header,
                                 &s->file_bytes, &err),
              &err);
    while (s->header.size < s->file_bytes) {
        assert_ok(buffer_append(&s->header, "", 1, &err), &err);
    }
}

typedef struct decoded {
    record_entry *entries;
    size_t count;
    int64_t step;
    int rank, world_size;
    arena memory;
} decoded;

static void decoded_free(decoded *d) {
    arena_free(&d->memory);
}

static pawl_status decode(const sample *s, decoded *out, pawl_error *err) {
    safetensors_header header;
    byte_source source = byte_source_memory(&s->header);
    *out = (decoded){.count = 0};
    TRY(safetensors_decode(&source, &header, err));
    pawl_status status =
        record_metadata_decode(&header, 5, &out->memory, &out->entries, &out->count, &out->step,
                               &out->rank, &out->world_size, err);
    safetensors_header_free(&header);
    return status;
}

/* Only what the header does not say by itself is written, compactly. */
static void test_metadata_is_golden(void **state) {
    (void)state;
    CLEANUP(sample_free) sample s;
    pawl_error err = ERROR_INIT;
    describe(&s);
    assert_ok(record_metadata_begin(RECORD_METADATA_PLAIN, 1000, 3, 8, &s.metadata, &err), &err);
    for (int i = 0; i < COUNT; i++) {
        assert_ok(record_metadata_add(&s.entries[i], &s.pieces[i][s.piece_of_entry[i]], &s.metadata,
                                      &err),
                  &err);
    }
    assert_ok(record_metadata_end(&s.metadata, &err), &err);
    assert_string_equal((const char *)s.metadata.data, golden);
}

/* The form that PyTorch's distributed checkpoints read: an offset for every key. */
static void test_sharding_info_is_golden(void **state) {
    (void)state;
    CLEANUP(sample_free) sample s;
    pawl_error err = ERROR_INIT;
    describe(&s);
    assert_ok(record_sharding_info_begin(&s.sharding, &err), &err);
    for (int i = 0; i < COUNT; i++) {
        assert_ok(record_sharding_info_add(&s.entries[i], &s.pieces[i][s.piece_of_entry[i]],
                                           &s.sharding, &err),
                  &err);
    }
    assert_ok(record_sharding_info_end(&s.sharding, &err), &err);
    assert_string_equal((const char *)s.sharding.data,
                        "{\"w\":{\"saved_offsets\":[0,0]},\"o/w\":{\"saved_offsets\":[2,0]},"
                        "\"flag\":{\"saved_offsets\":[]},\"rng\":{\"saved_offsets\":[0]},"
                        "\"loader\":{\"saved_offsets\":[0]}}");
}

/* A file's entries come back from its header alone, ascending by name, values without
 * their bytes. */
static void test_entries_come_back_from_the_header(void **state) {
    (void)state;
    CLEANUP(sample_free) sample s;
    CLEANUP(decoded_free) decoded d;
    pawl_error err = ERROR_INIT;
    describe(&s);
    write_header(&s, golden);
    assert_ok(decode(&s, &d, &err), &err);
    assert_int_equal(d.step, 1000);
    assert_int_equal(d.rank, 3);
    assert_int_equal(d.world_size, 8);
    assert_int_equal(d.count, COUNT);
    static const int order[COUNT] = {FLAG, LOADER, SLOT, BLOB, PLAIN};
    for (int i = 0; i < COUNT; i++) {
        const record_entry *want = &s.entries[order[i]], *got = &d.entries[i];
        const record_piece *piece = &s.pieces[order[i]][s.piece_of_entry[order[i]]];
        assert_string_equal(got->name, want->name);
        assert_int_equal(got->kind, want->kind);
        assert_int_equal(got->role, want->role);
        assert_int_equal(got->per_rank, want->per_rank);
        assert_int_equal(got->replicated, want->replicated);
        assert_int_equal(got->dtype, want->dtype);
        assert_true(shape_equal(got->ndim, got->shape, want->ndim, want->shape));
        assert_null(got->value);
        assert_int_equal(got->piece_count, 1);
        assert_int_equal(got->pieces->file, 5);
        assert_int_equal(got->pieces->rank, 3);
        assert_int_equal(got->pieces->bytes, piece->bytes);
        assert_true(got->pieces->offset >= 4096);
        if (want->kind == PAWL_KIND_TENSOR) {
            assert_true(shape_equal(2, got->pieces->box_offset, 2, piece->box_offset));
            assert_true(shape_equal(2, got->pieces->box_extent, 2, piece->box_extent));
        } else {
            assert_null(got->pieces->box_offset);
        }
    }
    assert_string_equal(d.entries[2].slot_of, "w");
    assert_string_equal(d.entries[2].slot, "m\"");
}

/* Keys that are no names, as version 2 has them, and what is then the name. */
static const struct {
    int version;
    const char *key, *name; /* NULL: refused */
} further_keys[] = {
    {2, "w", "w"},      {2, "w//1", "w"},     {2, "a/w//4294967295", "a/w"},
    {1, "w//1", NULL},  {2, "w//0", NULL},    {2, "w//01", NULL},
    {2, "w//", NULL},   {2, "w//1x", NULL},   {2, "w//4294967296", NULL},
    {2, "//1", NULL},   {2, "w//1//2", NULL}, {2, "w///1", NULL},
    {2, "w//-1", NULL}, {2, "w/1", "w/1"},    {2, "w//18446744073709551617", NULL},
};

static void test_keys_of_further_pieces_are_those_of_their_entry(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(further_keys); i++) {
        CLEANUP(decoded_free) decoded d = {.count = 0};
        CLEANUP(sample_free) sample s = {0};
        pawl_error err = ERROR_INIT;
        char metadata[256];
        int64_t extent[] = {1, 2};
        const safetensors_tensor tensor = {
            .name = further_keys[i].key, .dtype = PAWL_F32, .ndim = 2, .shape = extent};
        snprintf(metadata, sizeof metadata,
                 "{\"version\":%d,\"step\":1,\"rank\":0,\"world_size\":1,\"entries\":{\"%s\":{"
                 "\"shape\":[3,2],\"offset\":[1,0]}}}",
                 further_keys[i].version, further_keys[i].key);
        const safetensors_pair pair = {RECORD_METADATA_KEY, metadata};
        safetensors_tensor copy = tensor;
        assert_ok(safetensors_encode(&copy, 1, &pair, 1, &s.header, &s.file_bytes, &err), &err);
        while (s.header.size < s.file_bytes) {
            assert_ok(buffer_append(&s.header, "", 1, &err), &err);
        }
        pawl_status status = decode(&s, &d, &err);
        assert_int_equal(status, further_keys[i].name != NULL ? PAWL_OK : PAWL_EDAMAGED);
        if (status == PAWL_OK) {
            assert_string_equal(d.entries[0].name, further_keys[i].name);
        }
    }
}

/* What a file says of itself is checked as everything that is read. */
static void test_r14_hostile_metadata_is_refused(void **state) {
    (void)state;
#define TOP(entries)                                                                               \
    "{\"version\":1,\"step\":1,\"rank\":0,\"world_size\":1,\"entries\":{" entries "}}"
    static const struct {
        const char *metadata;
        pawl_status status;
    } cases[] = {
        {TOP("\"flag\":{\"kind\":\"bool\"}"), PAWL_OK},
        {TOP("\"w\":{\"unknown\":[{}]}"), PAWL_OK},
        {NULL, PAWL_EDAMAGED},
        {"", PAWL_EDAMAGED},
        {"[]", PAWL_EDAMAGED},
        {"{}", PAWL_EDAMAGED},
        {"{\"version\":0}", PAWL_EDAMAGED},
        {"{\"version\":1,\"entries\":{}}", PAWL_EDAMAGED},
        {"{\"version\":3,\"entries\":5}", PAWL_EUNSUPPORTED},
        {"{\"version\":1,\"step\":-1,\"rank\":0,\"world_size\":1}", PAWL_EDAMAGED},
        {"{\"version\":1,\"step\":1,\"rank\":1,\"world_size\":1}", PAWL_EDAMAGED},
        {"{\"version\":1,\"step\":1,\"rank\":-1,\"world_size\":1}", PAWL_EDAMAGED},
        {"{\"version\":1,\"step\":1,\"rank\":0,\"world_size\":4294967297}", PAWL_EDAMAGED},
        {TOP("") "x", PAWL_EDAMAGED},
        {TOP("\"none\":{}"), PAWL_EDAMAGED},
        {TOP("\"w\":{},\"w\":{}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"kind\":\"bool\"}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"kind\":\"bytes\"}"), PAWL_EDAMAGED},
        {TOP("\"flag\":{\"kind\":\"int64\"}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"kind\":\"what\"}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"role\":\"what\"}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"role\":\"slot\"}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"role\":\"slot\",\"slot_of\":\"../x\",\"slot\":\"m\"}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"slot_of\":\"w\",\"slot\":\"m\"}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"per_rank\":true}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"per_rank\":1}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"shape\":[8,2]}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"offset\":[0,0]}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"shape\":[8],\"offset\":[0]}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"shape\":[8,2,1],\"offset\":[0,0,0]}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"shape\":[8,2],\"offset\":[5,0]}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"shape\":[8,2],\"offset\":[-1,0]}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"shape\":[3,2],\"offset\":[0,0]}"), PAWL_EDAMAGED},
        {TOP("\"w\":{\"shape\":[9223372036854775807,9223372036854775807],\"offset\":[0,0]}"),
         PAWL_EDAMAGED},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(sample_free) sample s;
        CLEANUP(decoded_free) decoded d = {.count = 0};
        pawl_error err = ERROR_INIT;
        describe(&s);
        write_header(&s, cases[i].metadata);
        pawl_status status = decode(&s, &d, &err);
        if (status != cases[i].status) {
            fail_msg("%s: status '%s': %s", cases[i].metadata, pawl_status_name(status),
                     error_text(&err));
        }
    }
}

/* A file of a newer version names both versions. */
static void test_r12_newer_metadata_in_words(void **state) {
    (void)state;
    CLEANUP(sample_free) sample s;
    CLEANUP(decoded_free) decoded d = {.count = 0};
    pawl_error err = ERROR_INIT;
    describe(&s);
    write_header(&s, "{\"version\":9}");
    assert_fails(decode(&s, &d, &err), PAWL_EUNSUPPORTED, &err);
    assert_string_equal(err.expected, "version 1 to 2 of its description");
    assert_string_equal(err.found, "version 9");
}

static pawl_status decode_once(void *context, pawl_error *err) {
    CLEANUP(decoded_free) decoded d;
    return decode(context, &d, err);
}

/* Whichever allocation fails, decoding says so and leaks nothing. */
static void test_metadata_survives_every_failing_allocation(void **state) {
    (void)state;
    CLEANUP(sample_free) sample s;
    describe(&s);
    write_header(&s, golden);
    assert_true(failing_memory_each(decode_once, &s) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata_is_golden),
        cmocka_unit_test(test_sharding_info_is_golden),
        cmocka_unit_test(test_entries_come_back_from_the_header),
        cmocka_unit_test(test_keys_of_further_pieces_are_those_of_their_entry),
        cmocka_unit_test(test_r14_hostile_metadata_is_refused),
        cmocka_unit_test(test_r12_newer_metadata_in_words),
        cmocka_unit_test(test_metadata_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
