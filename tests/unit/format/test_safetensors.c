/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors: golden bytes, both ways; what the reference parser refuses, and duplicate keys. */
#include "format/format.h"
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "lib/test.h"

#include <stdio.h>
#include <string.h>

/* A file of a header text and some data, as hostile as the test likes. */
static void make_file(buffer *file, uint64_t length, const char *header, size_t header_bytes,
                      size_t data_bytes) {
    pawl_error err = ERROR_INIT;
    file->size = 0;
    assert_ok(buffer_u64le(file, length, &err), &err);
    assert_ok(buffer_append(file, header, header_bytes, &err), &err);
    for (size_t i = 0; i < data_bytes; i++) {
        assert_ok(buffer_append(file, "\x5a", 1, &err), &err);
    }
}

static pawl_status decode_buffer(const buffer *file, safetensors_header *out, pawl_error *err) {
    byte_source source = byte_source_memory(file);
    return safetensors_decode(&source, out, err);
}

static pawl_status decode_text(const char *header, size_t data_bytes, safetensors_header *out,
                               pawl_error *err) {
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    make_file(&file, strlen(header), header, strlen(header), data_bytes);
    return decode_buffer(&file, out, err);
}

/* ---- encode --------------------------------------------------------------------------------- */

/* The header of two tensors and metadata, byte for byte: compact, in order, padded to 4096. */
static void test_header_bytes_are_golden(void **state) {
    (void)state;
    static const char golden[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"k\\\"\":\"v\\u000a\"},"
        "\"b/w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"a\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[24,25]}}";
    const int64_t shape[] = {2, 3};
    safetensors_tensor tensors[] = {
        {.name = "b/w", .dtype = PAWL_F32, .ndim = 2, .shape = shape},
        {.name = "a", .dtype = PAWL_BOOL, .ndim = 0, .shape = NULL},
    };
    const safetensors_pair metadata[] = {{"format", "pt"}, {"k\"", "v\n"}};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer header = {.data = NULL};
    uint64_t file_bytes = 0;
    assert_ok(safetensors_encode(tensors, 2, metadata, 2, &header, &file_bytes, &err), &err);
    assert_int_equal(header.size, 4096);
    assert_int_equal(file_bytes, 4096 + 25);
    const uint8_t length[8] = {0xf8, 0x0f};
    assert_memory_equal(header.data, length, 8);
    assert_memory_equal(header.data + 8, golden, strlen(golden));
    for (size_t i = 8 + strlen(golden); i < header.size; i++) {
        assert_int_equal(header.data[i], ' ');
    }
    assert_int_equal(tensors[0].offset, 4096);
    assert_int_equal(tensors[0].bytes, 24);
    assert_int_equal(tensors[1].offset, 4096 + 24);
    assert_int_equal(tensors[1].bytes, 1);
}

/* A file without tensors and metadata is a whole file. */
static void test_header_of_nothing(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer header = {.data = NULL};
    uint64_t file_bytes = 0;
    assert_ok(safetensors_encode(NULL, 0, NULL, 0, &header, &file_bytes, &err), &err);
    assert_int_equal(file_bytes, 4096);
    assert_memory_equal(header.data + 8, "{} ", 3);
}

/* The data begins at a multiple of 4096, whatever the header takes, also at the boundary. */
static void test_data_is_aligned_for_every_header_length(void **state) {
    (void)state;
    char name[4200];
    memset(name, 'n', sizeof name);
    for (size_t n = 4000; n < 4150; n++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer header = {.data = NULL};
        uint64_t file_bytes = 0;
        name[n] = '\0';
        safetensors_tensor tensor = {.name = name, .dtype = PAWL_U8};
        assert_ok(safetensors_encode(&tensor, 1, NULL, 0, &header, &file_bytes, &err), &err);
        assert_true(header.size <= 8 + safetensors_tensor_cost(tensor.name, 0) + 4096);
        name[n] = 'n';
        size_t text =
            8 + n + strlen("{\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}");
        assert_int_equal(header.size, (text + 4095) / 4096 * 4096);
        assert_int_equal(tensor.offset, header.size);
    }
}

/* An order that leaves a tensor unaligned is a defect of the caller. */
static void test_unaligned_order_is_refused(void **state) {
    (void)state;
    const int64_t one = 1;
    safetensors_tensor tensors[] = {{.name = "byte", .dtype = PAWL_U8, .ndim = 1, .shape = &one},
                                    {.name = "float", .dtype = PAWL_F32, .ndim = 1, .shape = &one}};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer header = {.data = NULL};
    uint64_t file_bytes = 0;
    assert_fails(safetensors_encode(tensors, 2, NULL, 0, &header, &file_bytes, &err),
                 PAWL_EINTERNAL, &err);
    assert_string_equal(err.entry, "float");
}

/* No header passes the format's maximum. */
static void test_header_beyond_the_formats_maximum_is_refused(void **state) {
    (void)state;
    size_t n = FORMAT_MAX_SAFETENSORS_HEADER;
    AUTOFREE char *value = mem_alloc(n + 1);
    assert_non_null(value);
    memset(value, 'v', n);
    value[n] = '\0';
    safetensors_pair pair = {"k", value};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer header = {.data = NULL};
    uint64_t file_bytes = 0;
    assert_fails(safetensors_encode(NULL, 0, &pair, 1, &header, &file_bytes, &err), PAWL_ELIMIT,
                 &err);
}

/* ---- both ways ------------------------------------------------------------------------------ */

#define MOST_TENSORS 40

typedef struct sample {
    char names[MOST_TENSORS][32];
    int64_t shapes[MOST_TENSORS][4];
    safetensors_tensor tensors[MOST_TENSORS];
    size_t count;
} sample;

static void make_sample(sample *s, test_random *random) {
    s->count = random_below(random, MOST_TENSORS + 1);
    /* Descending alignment: the dtypes are numbered by it. */
    int dtype = PAWL_U64;
    for (size_t i = 0; i < s->count; i++) {
        (void)snprintf(s->names[i], sizeof s->names[i], "t/%02zu\xc3\xa4\"\n", i * 37 % 41);
        int ndim = (int)random_below(random, 4) + (dtype < PAWL_U8);
        for (int d = 0; d < ndim; d++) {
            s->shapes[i][d] = random_between(random, 0, 5);
        }
        if (dtype < PAWL_U8 && dtype > PAWL_BOOL) {
            s->shapes[i][0] *= 4; /* whole bytes */
        }
        s->tensors[i] = (safetensors_tensor){
            .name = s->names[i], .dtype = (pawl_dtype)dtype, .ndim = ndim, .shape = s->shapes[i]};
        dtype -= (int)random_below(random, 3);
        dtype = dtype < PAWL_BOOL ? PAWL_BOOL : dtype;
    }
}

static const safetensors_tensor *find(const safetensors_header *header, const char *name) {
    for (size_t i = 0; i < header->tensor_count; i++) {
        if (strcmp(header->tensors[i].name, name) == 0) {
            return &header->tensors[i];
        }
    }
    fail_msg("%s is gone", name);
    return NULL;
}

/* What was encoded is decoded: every name, dtype, shape, offset and size, for all dtypes. */
static void test_random_headers_round_trip(void **state) {
    (void)state;
    test_random random = {11};
    for (int round = 0; round < 500; round++) {
        static sample s;
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer file = {.data = NULL};
        uint64_t file_bytes = 0;
        safetensors_header header;
        make_sample(&s, &random);
        const safetensors_pair metadata[] = {{"a", "1"}, {"b\t", "\xc3\xa4"}};
        assert_ok(safetensors_encode(s.tensors, s.count, metadata, 2, &file, &file_bytes, &err),
                  &err);
        while (file.size < file_bytes) {
            assert_ok(buffer_append(&file, "", 1, &err), &err);
        }
        assert_ok(decode_buffer(&file, &header, &err), &err);
        assert_int_equal(header.tensor_count, s.count);
        assert_int_equal(header.data_offset % FORMAT_DATA_ALIGNMENT, 0);
        assert_int_equal(header.metadata_count, 2);
        assert_string_equal(header.metadata[1].key, "b\t");
        assert_string_equal(header.metadata[1].value, "\xc3\xa4");
        for (size_t i = 0; i < s.count; i++) {
            const safetensors_tensor *want = &s.tensors[i], *got = find(&header, want->name);
            assert_int_equal(got->dtype, want->dtype);
            assert_true(shape_equal(got->ndim, got->shape, want->ndim, want->shape));
            assert_int_equal(got->offset, want->offset);
            assert_int_equal(got->bytes, want->bytes);
            assert_true(i == 0 || header.tensors[i].offset >= header.tensors[i - 1].offset);
        }
        safetensors_header_free(&header);
    }
}

/* ---- what the reference accepts ------------------------------------------------------------- */

/* White space around, extra keys, empty tensors, rank 0, null metadata: all as the reference has
 * it. */
static void test_headers_that_the_reference_accepts(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes, tensors;
    } cases[] = {
        {"{}", 0, 0},
        {" \n\t{}\r\n  ", 0, 0},
        {"{\"__metadata__\":{}}", 0, 0},
        {"{\"__metadata__\":null}", 0, 0},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, 1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, 1},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, 1},
        {"{\"a\":{\"data_offsets\":[0,1],\"x\":[{\"y\":1.5e3}],\"shape\":[1],\"dtype\":\"U8\"}}", 1,
         1},
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"e\":{\"dtype\":\"U8\",\"shape\":[0,7],\"data_offsets\":[1,1]}}",
         2, 3},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", 3, 1},
        {"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3, 1},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_error err = ERROR_INIT;
        safetensors_header header;
        assert_ok(decode_text(cases[i].header, cases[i].data_bytes, &header, &err), &err);
        assert_int_equal(header.tensor_count, cases[i].tensors);
        safetensors_header_free(&header);
    }
}

/* ---- what must be refused ------------------------------------------------------------------- */

#define ENTRY(shape, offsets) "{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define FOUR                  ENTRY("[4]", "[0,4]")

typedef struct hostile {
    const char *header;
    size_t data_bytes;
    pawl_status status;
    const char *entry; /* the tensor that is named, or NULL */
} hostile;

static const hostile hostile_headers[] = {
    /* JSON */
    {"", 0, PAWL_EDAMAGED, NULL},
    {"[]", 0, PAWL_EDAMAGED, NULL},
    {"{", 0, PAWL_EDAMAGED, NULL},
    {"{}x", 0, PAWL_EDAMAGED, NULL},
    {"{}{}", 0, PAWL_EDAMAGED, NULL},
    {"\xff\xff", 0, PAWL_EDAMAGED, NULL},
    {"{\"a\xff\":" FOUR "}", 4, PAWL_EDAMAGED, NULL},
    {"{\"a\\u0000\":" FOUR "}", 4, PAWL_EDAMAGED, NULL},
    {"{\"a\":" FOUR ",}", 4, PAWL_EDAMAGED, NULL},
    /* wrong types, missing members */
    {"{\"a\":null}", 0, PAWL_EDAMAGED, NULL},
    {"{\"a\":[\"U8\",[4],[0,4]]}", 4, PAWL_EDAMAGED, NULL},
    {"{\"a\":{}}", 0, PAWL_EDAMAGED, "a"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":{\"dtype\":\"U9\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":{\"dtype\":\"u8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("4", "[0,4]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[\"4\"]", "[0,4]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4.0]", "[0,4]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4]", "[0,4.0]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4]", "[0,4e0]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4]", "[-0,4]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4]", "[]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4]", "[4]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4]", "[0,4,4]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4]", "{\"0\":4}") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"__metadata__\":{\"a\":1}}", 0, PAWL_EDAMAGED, NULL},
    {"{\"__metadata__\":{\"a\":null}}", 0, PAWL_EDAMAGED, NULL},
    {"{\"__metadata__\":[]}", 0, PAWL_EDAMAGED, NULL},
    {"{\"__metadata__\":\"a\"}", 0, PAWL_EDAMAGED, NULL},
    /* duplicate keys */
    {"{\"a\":" FOUR ",\"a\":" FOUR "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" FOUR ",\"\\u0061\":" FOUR "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"e\":" ENTRY("[0]", "[0,0]") ",\"e\":" ENTRY("[0]", "[0,0]") "}", 0, PAWL_EDAMAGED, "e"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     PAWL_EDAMAGED, "a"},
    {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, PAWL_EDAMAGED, "k"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, PAWL_EDAMAGED, "__metadata__"},
    /* offsets */
    {"{\"a\":" ENTRY("[4]", "[-4,0]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4]", "[4,0]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4]", "[1,5]") "}", 5, PAWL_EDAMAGED, "a"},
    {"{\"a\":" FOUR ",\"b\":" ENTRY("[4]", "[5,9]") "}", 9, PAWL_EDAMAGED, "b"},
    {"{\"a\":" FOUR ",\"b\":" ENTRY("[4]", "[3,7]") "}", 7, PAWL_EDAMAGED, "b"},
    {"{\"a\":" FOUR ",\"b\":" FOUR "}", 4, PAWL_EDAMAGED, "b"},
    {"{\"a\":" FOUR ",\"e\":" ENTRY("[0]", "[2,2]") "}", 4, PAWL_EDAMAGED, "e"},
    /* sizes */
    {"{\"a\":" ENTRY("[4]", "[0,3]") "}", 3, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4]", "[0,5]") "}", 5, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4,0]", "[0,4]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[-4]", "[0,4]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[9223372036854775808]", "[0,4]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[18446744073709551616]", "[0,4]") "}", 4, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4294967296,4294967296]", "[0,0]") "}", 0, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4294967296,4294967296,0]", "[0,0]") "}", 0, PAWL_EDAMAGED, "a"},
    {"{\"a\":" ENTRY("[4611686018427387904]", "[0,4611686018427387904]") "}", 4, PAWL_EDAMAGED,
     "a"},
    {"{\"a\":" ENTRY("[18446744073709551615]", "[0,18446744073709551615]") "}", 4, PAWL_EDAMAGED,
     "a"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, PAWL_EDAMAGED, "a"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, PAWL_EDAMAGED, "a"},
    {"{\"a\":{\"dtype\":\"F6_E3M2\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, PAWL_EDAMAGED, "a"},
    /* the file's end */
    {"{\"a\":" FOUR "}", 3, PAWL_EDAMAGED, NULL},
    {"{\"a\":" FOUR "}", 5, PAWL_EDAMAGED, NULL},
    {"{}", 1, PAWL_EDAMAGED, NULL},
};

/* A header that the reference parser refuses, or that repeats a key, is refused,
 * naming the tensor. */
static void test_r14_hostile_headers_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(hostile_headers); i++) {
        const hostile *h = &hostile_headers[i];
        pawl_error err = ERROR_INIT;
        safetensors_header header;
        pawl_status status = decode_text(h->header, h->data_bytes, &header, &err);
        if (status != h->status || strcmp(err.entry, h->entry == NULL ? "" : h->entry) != 0) {
            fail_msg("%s: status '%s': %s", h->header, pawl_status_name(status), error_text(&err));
        }
        assert_true(status != PAWL_EDAMAGED || err.has_range);
    }
}

/* Nesting beyond what the reference follows is refused before it costs anything. */
static void test_r14_deep_nesting_is_refused(void **state) {
    (void)state;
    size_t depth = 1000000;
    CLEANUP(buffer_free) buffer header = {.data = NULL};
    pawl_error err = ERROR_INIT;
    assert_ok(buffer_printf(&header, &err, "{\"a\":{\"x\":"), &err);
    for (size_t i = 0; i < depth; i++) {
        assert_ok(buffer_append(&header, "[", 1, &err), &err);
    }
    safetensors_header out;
    assert_fails(decode_text((const char *)header.data, 0, &out, &err), PAWL_ELIMIT, &err);
}

/* More dimensions than a tensor may have are refused without being kept. */
static void test_r14_too_many_dimensions_are_refused(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer header = {.data = NULL};
    pawl_error err = ERROR_INIT;
    assert_ok(buffer_printf(&header, &err, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1"), &err);
    for (int i = 0; i < PAWL_MAX_NDIM; i++) {
        assert_ok(buffer_printf(&header, &err, ",1"), &err);
    }
    assert_ok(buffer_printf(&header, &err, "],\"data_offsets\":[0,1]}}"), &err);
    safetensors_header out;
    assert_fails(decode_text((const char *)header.data, 1, &out, &err), PAWL_ELIMIT, &err);
    assert_string_equal(err.entry, "a");
}

/* The length in front is compared with the maximum and with the file before anything is read. */
static void test_r14_header_lengths_are_bounded(void **state) {
    (void)state;
    static const struct {
        uint64_t length;
        pawl_status status;
    } cases[] = {{UINT64_MAX, PAWL_ELIMIT},
                 {UINT64_MAX - 7, PAWL_ELIMIT},
                 {(uint64_t)1 << 63, PAWL_ELIMIT},
                 {FORMAT_MAX_SAFETENSORS_HEADER + 1, PAWL_ELIMIT},
                 {FORMAT_MAX_SAFETENSORS_HEADER, PAWL_EDAMAGED},
                 {3, PAWL_EDAMAGED},
                 {1, PAWL_EDAMAGED},
                 {0, PAWL_EDAMAGED}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buffer_free) buffer file = {.data = NULL};
        pawl_error err = ERROR_INIT;
        safetensors_header out;
        make_file(&file, cases[i].length, "{}", 2, 0);
        assert_fails(decode_buffer(&file, &out, &err), cases[i].status, &err);
    }
}

/* Every file shorter than the smallest one is refused. */
static void test_r14_files_too_short_for_a_header_are_refused(void **state) {
    (void)state;
    static const uint8_t bytes[8] = {0};
    for (size_t n = 0; n < 8; n++) {
        CLEANUP(buffer_free) buffer file = {.data = NULL};
        pawl_error err = ERROR_INIT;
        safetensors_header out;
        assert_ok(buffer_append(&file, bytes, n, &err), &err);
        assert_fails(decode_buffer(&file, &out, &err), PAWL_EDAMAGED, &err);
    }
}

/* A file cut off at any length, in the header or in the data, is refused. */
static void test_r08_every_truncation_is_refused(void **state) {
    (void)state;
    static const char text[] = "{\"a\":" FOUR ",\"b\":" ENTRY("[2]", "[4,6]") "}";
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    make_file(&file, strlen(text), text, strlen(text), 6);
    pawl_error err = ERROR_INIT;
    safetensors_header out;
    assert_ok(decode_buffer(&file, &out, &err), &err);
    safetensors_header_free(&out);
    for (size_t n = 0; n < 8 + strlen(text) + 6; n++) {
        file.size = n;
        assert_fails(decode_buffer(&file, &out, &err), PAWL_EDAMAGED, &err);
    }
}

/* The refusal of a hole, word for word. */
static void test_refusal_of_a_hole_in_words(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    safetensors_header out;
    assert_fails(decode_text("{\"a/b\":" ENTRY("[4]", "[1,5]") "}", 5, &out, &err), PAWL_EDAMAGED,
                 &err);
    assert_string_equal(err.attempt, "the header of the data file is wrong at byte 15: there is a "
                                     "hole before the tensor");
    assert_string_equal(err.entry, "a/b");
    assert_string_equal(err.expected, "data_offsets that begin at 0");
    assert_string_equal(err.found, "1");
}

/* Of two tensors of one name the second is refused, where the header describes it. */
static void test_r14_the_place_of_a_duplicate(void **state) {
    static const char begin[] = "{\"a\":" ENTRY("[4]", "[0,4]") ",\"a\":";
    (void)state;
    pawl_error err = ERROR_INIT;
    safetensors_header out;
    char text[256];
    (void)snprintf(text, sizeof text, "%s%s}", begin, ENTRY("[4]", "[4,8]"));
    assert_fails(decode_text(text, 8, &out, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "the tensor is there twice");
    assert_int_equal(err.offset, 8 + strlen(begin));
}

/* ---- the rest ------------------------------------------------------------------------------- */

static pawl_status decode_and_free(void *context, pawl_error *err) {
    safetensors_header out;
    TRY(decode_buffer(context, &out, err));
    safetensors_header_free(&out);
    return PAWL_OK;
}

/* Whichever allocation fails, decoding says so and leaks nothing. */
static void test_decode_survives_every_failing_allocation(void **state) {
    (void)state;
    static const char text[] =
        "{\"__metadata__\":{\"k\":\"v\"},\"a\":" FOUR ",\"b\":" ENTRY("[2]", "[4,6]") "}";
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    make_file(&file, strlen(text), text, strlen(text), 6);
    assert_true(failing_memory_each(decode_and_free, &file) > 3);
}

static pawl_status encode_and_free(void *context, pawl_error *err) {
    (void)context;
    const int64_t shape[] = {2, 3};
    safetensors_tensor tensor = {.name = "w", .dtype = PAWL_F32, .ndim = 2, .shape = shape};
    CLEANUP(buffer_free) buffer header = {.data = NULL};
    uint64_t file_bytes = 0;
    return safetensors_encode(&tensor, 1, NULL, 0, &header, &file_bytes, err);
}

/* Whichever allocation fails, encoding says so and leaks nothing. */
static void test_encode_survives_every_failing_allocation(void **state) {
    (void)state;
    assert_true(failing_memory_each(encode_and_free, NULL) > 1);
}

/* A file that another program wrote is read. */
static void test_sample_of_another_writer_is_read(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    pawl_error err = ERROR_INIT;
    FILE *in = fopen(SAMPLES_DIR "/safetensors/multi_layer.safetensors", "rb");
    if (in == NULL) {
        print_message("skipped: there are no samples at " SAMPLES_DIR "\n");
        skip();
    }
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, in)) > 0;) {
        assert_ok(buffer_append(&file, chunk, n, &err), &err);
    }
    (void)fclose(in);
    safetensors_header header;
    assert_ok(decode_buffer(&file, &header, &err), &err);
    assert_true(header.tensor_count > 5);
    assert_int_equal(header.file_bytes, file.size);
    const safetensors_tensor *last = &header.tensors[header.tensor_count - 1];
    assert_int_equal(last->offset + last->bytes, file.size);
    safetensors_header_free(&header);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_bytes_are_golden),
        cmocka_unit_test(test_header_of_nothing),
        cmocka_unit_test(test_data_is_aligned_for_every_header_length),
        cmocka_unit_test(test_unaligned_order_is_refused),
        cmocka_unit_test(test_header_beyond_the_formats_maximum_is_refused),
        cmocka_unit_test(test_random_headers_round_trip),
        cmocka_unit_test(test_headers_that_the_reference_accepts),
        cmocka_unit_test(test_r14_hostile_headers_are_refused),
        cmocka_unit_test(test_r14_deep_nesting_is_refused),
        cmocka_unit_test(test_r14_too_many_dimensions_are_refused),
        cmocka_unit_test(test_r14_header_lengths_are_bounded),
        cmocka_unit_test(test_r14_files_too_short_for_a_header_are_refused),
        cmocka_unit_test(test_r08_every_truncation_is_refused),
        cmocka_unit_test(test_refusal_of_a_hole_in_words),
        cmocka_unit_test(test_r14_the_place_of_a_duplicate),
        cmocka_unit_test(test_decode_survives_every_failing_allocation),
        cmocka_unit_test(test_encode_survives_every_failing_allocation),
        cmocka_unit_test(test_sample_of_another_writer_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
