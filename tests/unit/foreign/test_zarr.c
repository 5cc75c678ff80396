/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of zarr as files, made by hand: what is read, and what is refused. */
#include "unit/foreign/made_archive.h"

#include "lib/in_memory.h"

#define V2(shape, chunks, type, more)                                                              \
    "{\"zarr_format\":2,\"shape\":" shape ",\"chunks\":" chunks ",\"dtype\":\"" type "\"," more "}"
#define C "\"order\":\"C\",\"compressor\":null,\"filters\":null"

#define V3(shape, chunk, type, codecs, more)                                                       \
    "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":" shape ",\"data_type\":\"" type "\","   \
    "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":" chunk "}},"         \
    "\"chunk_key_encoding\":{\"name\":\"default\"},\"codecs\":[" codecs "]" more "}"
#define BYTES "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}"

static pawl_status open_array(store *s, const char *name, const char *text, struct source **out,
                              pawl_error *err) {
    put_anew(s, name, text, strlen(text));
    return made_archive(s, &format_orbax, name, out, err);
}

/* ---- in the file ---- */

static void test_what_lies_in_its_file(void **state) {
    static const uint8_t bytes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    put_file(s, "0.0", bytes, 4);
    put_file(s, "0.1", bytes + 4, 4);
    assert_ok(open_array(s, ".zarray", V2("[2,3]", "[2,2]", "|u1", C), &c, &err), &err);
    const record_entry e = made_find(c, "array");
    assert_int_equal(e.piece_count, 2);
    assert_string_equal(c->ops->file(c, e.pieces[0].file).name, "0.0");
    assert_true(e.pieces[0].file < c->files);  /* as it is */
    assert_true(e.pieces[1].file >= c->files); /* cut */
    assert_tensor(c, "array", ((const uint8_t[]){0, 1, 4, 2, 3, 6}));
    source_destroy(c);
    /* of a chunk that is cut at its last rows only, the beginning is the tensor's */
    assert_ok(open_array(s, ".zarray", V2("[1,4]", "[2,2]", "|u1", C), &c, &err), &err);
    assert_true(made_find(c, "array").pieces[1].file < c->files);
    assert_tensor(c, "array", ((const uint8_t[]){0, 1, 4, 5}));
    source_destroy(c);
}

static void test_orders_of_elements_and_bytes(void **state) {
    static const uint8_t bytes[] = {1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0};
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    put_file(s, "0.0", bytes, 12);
    assert_ok(open_array(s, ".zarray",
                         V2("[2,3]", "[2,3]", ">i2", "\"order\":\"F\",\"compressor\":null"), &c,
                         &err),
              &err);
    assert_tensor(c, "array", ((const int16_t[]){256, 768, 1280, 512, 1024, 1536}));
    source_destroy(c);
    put_anew(s, "0.0", bytes, 16);
    assert_ok(open_array(s, ".zarray", V2("[2,1]", "[2,1]", ">c8", C), &c, &err), &err);
    assert_tensor(c, "array", ((const uint8_t[]){0, 2, 0, 1, 0, 4, 0, 3, 0, 6, 0, 5, 0, 8, 0, 7}));
    source_destroy(c);
}

/* Of complex128 two numbers of F64 are in an element: row-major, column-major and cut, missing. */
static void test_pairs_of_f64(void **state) {
    static const uint8_t big[] = {0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0};
    static const double numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const double filled[] = {1, 2, 0.5, -1.5};
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    put_file(s, "0", big, sizeof(big));
    assert_ok(open_array(s, ".zarray", V2("[1]", "[1]", ">c16", C), &c, &err), &err);
    assert_entry(c, "array", "F64 [1, 2] 1 parts");
    assert_tensor(c, "array", ((const double[]){1, 2}));
    source_destroy(c);
    assert_ok(open_array(s, ".zarray",
                         V2("[2]", "[1]", ">c16",
                            "\"fill_value\":[0.5,-1.5],\"order\":\"C\",\"compressor\":null"),
                         &c, &err),
              &err);
    assert_entry(c, "array", "F64 [2, 2] 2 parts");
    assert_tensor(c, "array", filled);
    source_destroy(c);
    put_file(s, "0.0", numbers, sizeof(numbers));
    assert_ok(open_array(s, ".zarray",
                         V2("[2,1]", "[2,2]", "<c16", "\"order\":\"F\",\"compressor\":null"), &c,
                         &err),
              &err);
    assert_entry(c, "array", "F64 [2, 1, 2] 1 parts");
    assert_tensor(c, "array", ((const double[]){1, 2, 3, 4}));
    source_destroy(c);
    assert_ok(open_array(s, ".zarray",
                         V2("[1,2]", "[2,2]", "<c16", "\"order\":\"F\",\"compressor\":null"), &c,
                         &err),
              &err);
    assert_tensor(c, "array", ((const double[]){1, 2, 5, 6}));
    source_destroy(c);
    assert_ok(open_array(s, ".zarray", V2("[0,3]", "[2,2]", "<c16", C), &c, &err), &err);
    assert_entry(c, "array", "F64 [0, 3, 2] 1 parts");
    source_destroy(c);
}

/* ---- what is not there ---- */

static void test_fill_values(void **state) {
    static const struct {
        const char *type, *fill, *says;
        uint64_t bits;
    } cases[] = {
        {"|b1", "true", "BOOL", 1},
        {"|i1", "-2", "I8", 0xfe},
        {"<u2", "65535", "U16", 0xffff},
        {"<i8", "-9223372036854775808", "I64", 0x8000000000000000},
        {"<u8", "18446744073709551615", "U64", UINT64_MAX},
        {"<f2", "1.5", "F16", 0x3e00},
        {"bfloat16", "-1.0", "BF16", 0xbf80},
        {"<f4", "\"-Infinity\"", "F32", 0xff800000},
        {"<f8", "0.5", "F64", 0x3fe0000000000000},
        {"float8_e4m3fn", "0.5", "F8_E4M3", 0x30},
        {"<f4", "null", "F32", 0},
        {"<f4", "\"0x7fc00001\"", "F32", 0x7fc00001},
        {"<c8", "[1.0,0.0]", "C64", 0x3f800000},
    };
    store *s = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err;
        struct source *c;
        char text[512];
        uint64_t bits[3] = {0};
        snprintf(text, sizeof(text),
                 V2("[3]", "[2]", "%s", "\"fill_value\":%s,\"order\":\"C\",\"compressor\":null"),
                 cases[i].type, cases[i].fill);
        assert_ok(open_array(s, ".zarray", text, &c, &err), &err);
        const record_entry e = made_find(c, "array");
        assert_string_equal(record_entry_type(&e), cases[i].says);
        assert_int_equal(e.piece_count, 1);
        size_t each = (size_t)pawl_dtype_bits(e.dtype) / 8;
        assert_ok(made_read(c, "array", 3, bits, 3 * each, &err), &err);
        for (size_t k = 0; k < 3; k++) {
            uint64_t one = 0;
            memcpy(&one, (const uint8_t *)bits + k * each, each);
            assert_int_equal(one, cases[i].bits);
        }
        source_destroy(c);
    }
}

static void test_a_fill_value_that_is_not_read(void **state) {
    static const char *const fills[] = {"256", "-1", "1.5", "\"x\"", "[]"};
    store *s = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(fills); i++) {
        struct pawl_error err;
        struct source *c;
        char text[512];
        snprintf(text, sizeof(text),
                 V2("[3]", "[2]", "|u1", "\"fill_value\":%s,\"order\":\"C\",\"compressor\":null"),
                 fills[i]);
        assert_fails(open_array(s, ".zarray", text, &c, &err), PAWL_EUNSUPPORTED, &err);
        assert_says(err.attempt, "a fill value that is not read");
    }
}

/* Chunks that are not there are parts only where one that is comes between. */
static void test_few_parts_of_many_chunks(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    put_file(s, "500.3", "\7", 1);
    assert_ok(open_array(s, ".zarray", V2("[1000,1000]", "[1,1]", "|u1", C), &c, &err), &err);
    assert_entry(c, "array", "U8 [1000, 1000] 5 parts");
    source_destroy(c);
}

static void test_arrays_of_nothing(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    assert_ok(open_array(s, ".zarray", V2("[3,0]", "[1,1]", "<f4", C), &c, &err), &err);
    assert_entry(c, "array", "F32 [3, 0] 1 parts");
    source_destroy(c);
    put_file(s, "0", "\5", 1);
    assert_ok(open_array(s, ".zarray", V2("[]", "[]", "|i1", C), &c, &err), &err);
    assert_tensor(c, "array", ((const int8_t[]){5}));
    source_destroy(c);
}

/* ---- several arrays ---- */

static void test_names_of_arrays(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    assert_ok(store_make_dir(s, "g", &err), &err);
    assert_ok(store_make_dir(s, "g/x", &err), &err);
    assert_ok(store_make_dir(s, "g.y", &err), &err);
    put_text(s, ".zgroup", "{\"zarr_format\":2}");
    put_text(s, "g/x/.zarray", V2("[1]", "[1]", "|u1", C));
    put_text(s, "g/x/.zattrs", "{\"unit\":\"m\"}");
    put_text(s, "g.y/.zarray", V2("[2]", "[2]", "|S3", C));
    assert_ok(made_archive(s, &format_orbax, ".zgroup", &c, &err), &err);
    assert_int_equal(c->entries, 3);
    assert_entry(c, "g/x", "U8 [1] 1 parts");
    assert_entry(c, "g/x/.zattrs", "json {\"unit\":\"m\"}");
    assert_entry(c, "g.y", "BYTES [2] 1 parts");
    source_destroy(c);
}

/* ---- shards ---- */

static void put_shard(store *s, const uint64_t index[4], const char *chunks) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer shard = {0};
    assert_ok(buffer_append(&shard, chunks, strlen(chunks), &err), &err);
    for (int i = 0; i < 4; i++) {
        assert_ok(buffer_u64le(&shard, index[i], &err), &err);
    }
    uint32_t sum = crc32c(0, shard.data + shard.size - 32, 32);
    assert_ok(buffer_u32le(&shard, sum, &err), &err);
    put_anew(s, "c/0", shard.data, shard.size);
}

#define SHARDS                                                                                     \
    "{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[2],\"codecs\":[" BYTES     \
    "],\"index_codecs\":[" BYTES ",{\"name\":\"crc32c\"}]}}"

static void test_chunks_in_shards(void **state) {
    static const uint64_t missing[] = {2, 2, UINT64_MAX, UINT64_MAX};
    static const uint64_t behind[] = {0, 2, 40, 2};
    static const uint64_t around[] = {0, 2, UINT64_MAX - 1, 4};
    static const char text[] = V3("[3]", "[4]", "uint8", SHARDS, ",\"fill_value\":9");
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    uint8_t values[3];
    assert_ok(store_make_dir(s, "c", &err), &err);
    put_shard(s, missing, "--ab");
    assert_ok(open_array(s, "zarr.json", text, &c, &err), &err);
    assert_tensor(c, "array", ((const uint8_t[]){'a', 'b', 9}));
    source_destroy(c);
    put_shard(s, behind, "ab");
    assert_ok(open_array(s, "zarr.json", text, &c, &err), &err);
    assert_fails(made_read(c, "array", 64, values, 3, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "the index of a shard names bytes behind its end");
    assert_string_equal(err.path, "/mem/c/0");
    source_destroy(c);
    put_shard(s, around, "ab");
    assert_ok(open_array(s, "zarr.json", text, &c, &err), &err);
    assert_fails(made_read(c, "array", 64, values, 3, &err), PAWL_EDAMAGED, &err);
    source_destroy(c);
    put_anew(s, "c/0", "abcd", 4);
    assert_fails(open_array(s, "zarr.json", text, &c, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "a shard is shorter than its index");
}

/* ---- chunks that are wrong ---- */

static void test_chunks_of_another_length(void **state) {
    static const char *const chunks[] = {"", "abc", "abcde"};
    store *s = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(chunks); i++) {
        struct pawl_error err;
        struct source *c;
        uint8_t values[4];
        put_anew(s, "0", chunks[i], strlen(chunks[i]));
        assert_ok(open_array(s, ".zarray", V2("[4]", "[4]", "|u1", C), &c, &err), &err);
        assert_fails(made_read(c, "array", 64, values, 4, &err), PAWL_EDAMAGED, &err);
        assert_string_equal(err.path, "/mem/0");
        source_destroy(c);
    }
}

static void test_checksums_of_chunks(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    uint8_t chunk[] = {1, 2, 3, 4, 0, 0, 0, 0};
    uint8_t values[4];
    uint32_t sum = crc32c(0, chunk, 4);
    assert_ok(store_make_dir(s, "c", &err), &err);
    memcpy(chunk + 4, &sum, 4);
    put_file(s, "c/0", chunk, 8);
    static const char text[] = V3("[4]", "[4]", "uint8", BYTES ",{\"name\":\"crc32c\"}", "");
    assert_ok(open_array(s, "zarr.json", text, &c, &err), &err);
    assert_ok(made_read(c, "array", 64, values, 4, &err), &err);
    assert_memory_equal(values, chunk, 4);
    source_destroy(c);
    chunk[2] = 0;
    put_anew(s, "c/0", chunk, 8);
    assert_ok(open_array(s, "zarr.json", text, &c, &err), &err);
    assert_fails(made_read(c, "array", 64, values, 4, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "a chunk has another checksum");
    source_destroy(c);
}

/* ---- descriptions that are wrong ---- */

static void test_descriptions_that_are_refused(void **state) {
    static const struct {
        const char *text;
        pawl_status status;
        const char *says;
    } cases[] = {
        {"", PAWL_EDAMAGED, ""},
        {"{", PAWL_EDAMAGED, ""},
        {"[]", PAWL_EDAMAGED, ""},
        {"{\"zarr_format\":2}", PAWL_EDAMAGED, "lacks a member"},
        {"{\"zarr_format\":2,\"zarr_format\":2}", PAWL_EDAMAGED, "members twice"},
        {V2("[2]", "[2,2]", "<f4", C), PAWL_EDAMAGED, "other dimensions"},
        {V2("[2]", "[0]", "<f4", C), PAWL_EDAMAGED, "the chunks of an array are empty"},
        {V2("[-2]", "[2]", "<f4", C), PAWL_EDAMAGED, ""},
        {V2("[9223372036854775807]", "[2]", "<f4", C), PAWL_ELIMIT, "too large"},
        {V2("[4611686018427387904]", "[2]", "<f4", C), PAWL_ELIMIT, "too large"},
        {V2("[4294967296,4294967296]", "[1,1]", "<f4", C), PAWL_ELIMIT, "too large"},
        {V2("[1,1]", "[4294967296,4294967296]", "<f4", C), PAWL_ELIMIT, "too large"},
        {V2("[2]", "[2]", "<f4", "\"order\":\"X\""), PAWL_EDAMAGED, "neither C nor F"},
        {V2("[2]", "[2]", "<f4", "\"order\":\"C\",\"compressor\":{}"), PAWL_EDAMAGED, "no id"},
    };
    store *s = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err;
        struct source *c;
        pawl_status status = open_array(s, ".zarray", cases[i].text, &c, &err);
        if (status != cases[i].status || strstr(err.attempt, cases[i].says) == NULL) {
            fail_msg("%s: %d, %s", cases[i].text, (int)status, err.attempt);
        }
        assert_string_equal(err.path, "/mem/.zarray");
    }
}

#define ONES_7 "1, 1, 1, 1, 1, 1, 1"
#define ONES   ONES_7 ", " ONES_7 ", " ONES_7 ", " ONES_7 ", 1, 1, 1, 1" /* 32 */

static void test_what_is_not_read_is_named(void **state) {
    static const struct {
        const char *name, *text, *says;
    } cases[] = {
        {".zarray", V2("[2]", "[2]", "<f4", "\"order\":\"C\",\"compressor\":{\"id\":\"blosc\"}"),
         "F32, blosc [2] 1 parts"},
        {".zarray", V2("[2]", "[2]", "<f4", "\"order\":\"C\",\"filters\":[{\"id\":\"delta\"}]"),
         "F32, filtered [2] 1 parts"},
        {".zarray", V2("[" ONES "]", "[" ONES "]", "<c16", C),
         "C128 [" ONES_7 ", " ONES_7 ", 1, 1, 1, 1, 1, 1,... 1 parts"},
        {".zarray", V2("[2]", "[2]", "int4", C), "INT4 [2] 1 parts"},
        {".zarray", V2("[2]", "[2]", "<M8[ns]", C), "TIME [2] 1 parts"},
        {"zarr.json", V3("[2]", "[2]", "uint8", BYTES ",{\"name\":\"blosc\"}", ""),
         "U8, blosc [2] 1 parts"},
        {"zarr.json", V3("[2]", "[2]", "uint8", BYTES ",{\"name\":\"pack\"}", ""),
         "U8, encoded [2] 1 parts"},
        {"zarr.json", V3("[2]", "[2]", "r24", BYTES, ""), "OTHER [2] 1 parts"},
    };
    store *s = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err = ERROR_INIT;
        struct source *c;
        (void)!store_unlink(s, ".zarray", &err);
        assert_ok(open_array(s, cases[i].name, cases[i].text, &c, &err), &err);
        assert_entry(c, "array", cases[i].says);
        source_destroy(c);
    }
}

static void test_a_group_of_version_3(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    assert_ok(open_array(s, "zarr.json", "{\"zarr_format\":3,\"node_type\":\"group\"}", &c, &err),
              &err);
    assert_int_equal(c->entries, 0);
    source_destroy(c);
    assert_fails(
        open_array(s, "zarr.json", "{\"zarr_format\":4,\"node_type\":\"group\"}", &c, &err),
        PAWL_EUNSUPPORTED, &err);
    assert_fails(open_array(s, "zarr.json", V3("[2]", "[2]", "uint8", "", ""), &c, &err),
                 PAWL_EDAMAGED, &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_what_lies_in_its_file),
        IN_MEMORY(test_orders_of_elements_and_bytes),
        IN_MEMORY(test_pairs_of_f64),
        IN_MEMORY(test_fill_values),
        IN_MEMORY(test_a_fill_value_that_is_not_read),
        IN_MEMORY(test_few_parts_of_many_chunks),
        IN_MEMORY(test_arrays_of_nothing),
        IN_MEMORY(test_names_of_arrays),
        IN_MEMORY(test_chunks_in_shards),
        IN_MEMORY(test_chunks_of_another_length),
        IN_MEMORY(test_checksums_of_chunks),
        IN_MEMORY(test_descriptions_that_are_refused),
        IN_MEMORY(test_what_is_not_read_is_named),
        IN_MEMORY(test_a_group_of_version_3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
