/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files made by hand: what they have, and what is refused (R14). */
#include "unit/foreign/made.h"

#include "foreign/gguf/types.h"

/* ---- making one ---- */

static struct pawl_error ignored = ERROR_INIT;

static void put_u32(buffer *b, uint32_t v) {
    assert_ok(buffer_u32le(b, v, &ignored), &ignored);
}

static void put_u64(buffer *b, uint64_t v) {
    assert_ok(buffer_u64le(b, v, &ignored), &ignored);
}

static void put_bytes(buffer *b, const void *bytes, size_t n) {
    assert_ok(buffer_append(b, bytes, n, &ignored), &ignored);
}

static void put_string(buffer *b, const char *text) {
    put_u64(b, strlen(text));
    put_bytes(b, text, strlen(text));
}

static void put_head(buffer *b, uint32_t version, uint64_t tensors, uint64_t values) {
    b->size = 0;
    put_bytes(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, tensors);
    put_u64(b, values);
}

static void put_key(buffer *b, const char *key, uint32_t type) {
    put_string(b, key);
    put_u32(b, type);
}

static void put_tensor(buffer *b, const char *name, int ndim, const uint64_t *dims, uint32_t type,
                       uint64_t offset) {
    put_string(b, name);
    put_u32(b, (uint32_t)ndim);
    for (int d = 0; d < ndim; d++) {
        put_u64(b, dims[d]);
    }
    put_u32(b, type);
    put_u64(b, offset);
}

/* Padding, and n bytes 0, 1, 2, ... */
static void put_data(buffer *b, size_t alignment, size_t n) {
    while (b->size % alignment != 0) {
        put_bytes(b, "", 1);
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)i;
        put_bytes(b, &byte, 1);
    }
}

static int set_up(void **state) {
    store *s;
    assert_ok(store_mem(&s, &ignored), &ignored);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    store_destroy(*state);
    return 0;
}

static void find_entry(struct source *w, const char *name, record_entry *out) {
    CLEANUP(arena_free) arena memory = {0};
    bool found;
    assert_ok(w->ops->find(w, name, &memory, out, &found, &ignored), &ignored);
    if (!found) {
        fail_msg("%s is not there", name);
    }
}

static void assert_value(struct source *w, const char *name, pawl_kind kind, const void *bytes,
                         size_t n) {
    record_entry e;
    find_entry(w, name, &e);
    assert_int_equal(e.kind, kind);
    assert_int_equal(e.value_bytes, n);
    assert_memory_equal(e.value, bytes, n);
}

/* ---- what is in them ---- */

static void test_tensors_and_blocks(void **state) {
    CLEANUP(buffer_free) buffer b = {0};
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    char text[128];
    put_head(&b, 3, 3, 0);
    put_tensor(&b, "f", 2, (const uint64_t[]){3, 2}, 0, 0);
    put_tensor(&b, "q", 2, (const uint64_t[]){64, 2}, 2, 32);
    put_tensor(&b, "h", 0, NULL, 30, 128);
    put_data(&b, 32, 130);
    put_anew(s, "m.gguf", b.data, b.size);
    size_t data = b.size - 130;
    assert_ok(open_made(s, "m.gguf", &w, &err), &err);
    assert_string_equal(w->format, "GGUF");
    assert_int_equal(w->entries, 4);
    char expected[128];
    snprintf(expected, sizeof(expected), "F32 [2, 3] file 0 at %zu of 24", data);
    assert_string_equal(made_entry(w, "f", text), expected);
    snprintf(expected, sizeof(expected), "Q4_0 [2, 64] file 0 at %zu of 72", data + 32);
    assert_string_equal(made_entry(w, "q", text), expected);
    snprintf(expected, sizeof(expected), "U8 [2, 36] file 0 at %zu of 72", data + 32);
    assert_string_equal(made_entry(w, "q/blocks", text), expected);
    snprintf(expected, sizeof(expected), "BF16 [] file 0 at %zu of 2", data + 128);
    assert_string_equal(made_entry(w, "h", text), expected);
    source_destroy(w);
}

static void test_metadata_are_values(void **state) {
    CLEANUP(buffer_free) buffer b = {0};
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    char text[128];
    put_head(&b, 2, 0, 10);
    put_key(&b, "a.text", GGUF_STRING);
    put_string(&b, "l\xc3\xa4mp");
    put_key(&b, "u8", GGUF_U8);
    put_bytes(&b, "\xff", 1);
    put_key(&b, "i16", GGUF_I16);
    put_bytes(&b, "\xfe\xff", 2);
    put_key(&b, "f32", GGUF_F32);
    put_bytes(&b, "\0\0\0\xc0", 4);
    put_key(&b, "bool", GGUF_BOOL);
    put_bytes(&b, "\1", 1);
    put_key(&b, "u64", GGUF_U64);
    put_u64(&b, UINT64_MAX);
    put_key(&b, "texts", GGUF_ARRAY);
    put_u32(&b, GGUF_STRING);
    put_u64(&b, 2);
    put_string(&b, "one");
    put_string(&b, "\"two\"");
    put_key(&b, "scores", GGUF_ARRAY);
    put_u32(&b, GGUF_F32);
    put_u64(&b, 3);
    size_t scores = b.size;
    put_bytes(&b, "............", 12);
    put_key(&b, "general.alignment", GGUF_U32);
    put_u32(&b, 64);
    put_key(&b, "a/b%", GGUF_I64);
    put_u64(&b, (uint64_t)-7);
    put_anew(s, "m.gguf", b.data, b.size);
    assert_ok(open_made(s, "m.gguf", &w, &err), &err);
    assert_int_equal(w->entries, 10);
    assert_value(w, "metadata/a.text", PAWL_KIND_STRING, "l\xc3\xa4mp", 5);
    assert_value(w, "metadata/u8", PAWL_KIND_INT64, (const int64_t[]){255}, 8);
    assert_value(w, "metadata/i16", PAWL_KIND_INT64, (const int64_t[]){-2}, 8);
    assert_value(w, "metadata/f32", PAWL_KIND_FLOAT64, (const double[]){-2.0}, 8);
    assert_value(w, "metadata/bool", PAWL_KIND_BOOL, "\1", 1);
    assert_value(w, "metadata/u64", PAWL_KIND_JSON, "18446744073709551615", 20);
    assert_value(w, "metadata/texts", PAWL_KIND_JSON, "[\"one\",\"\\\"two\\\"\"]", 17);
    assert_value(w, "metadata/a/b%", PAWL_KIND_INT64, (const int64_t[]){-7}, 8);
    char expected[128];
    uint32_t phase = (uint32_t)(scores % 4);
    snprintf(expected, sizeof(expected), "F32 [3] file %u at %zu of 12", phase, scores - phase);
    assert_string_equal(made_entry(w, "metadata/scores", text), expected);
    source_destroy(w);
}

static void make_split(store *s, const char *name, const char *tensor) {
    CLEANUP(buffer_free) buffer b = {0};
    put_head(&b, 3, 1, 1);
    put_key(&b, "split.count", GGUF_U16);
    put_bytes(&b, "\2\0", 2);
    put_tensor(&b, tensor, 1, (const uint64_t[]){4}, 24, 0);
    put_data(&b, 32, 4);
    put_anew(s, name, b.data, b.size);
}

static void test_a_model_in_two_files(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    char text[128];
    make_split(s, "m-00001-of-00002.gguf", "a");
    assert_fails(open_made(s, "m-00001-of-00002.gguf", &w, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "was split into is missing");
    assert_string_equal(err.path, "/mem/m-00002-of-00002.gguf");
    make_split(s, "m-00002-of-00002.gguf", "b");
    assert_ok(open_made(s, "m-00002-of-00002.gguf", &w, &err), &err);
    assert_int_equal(w->files, 2);
    assert_int_equal(w->entries, 3);
    assert_says(made_entry(w, "b", text), "I8 [4] file 1 at ");
    source_destroy(w);
}

/* ---- what is refused ---- */

static void test_r14_what_is_refused(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    for (int i = 0; i < 16; i++) {
        static const struct {
            const char *says;
            pawl_status status;
        } expected[] = {
            {"the file has another version", PAWL_EUNSUPPORTED},
            {"the file is big-endian", PAWL_EUNSUPPORTED},
            {"more tensors than the file has room for", PAWL_EDAMAGED},
            {"more values than the file has room for", PAWL_EDAMAGED},
            {"ends within its header", PAWL_EDAMAGED},
            {"a text in the header is too long", PAWL_ELIMIT},
            {"a value has an unknown type", PAWL_EDAMAGED},
            {"more texts than bytes", PAWL_EDAMAGED},
            {"arrays of arrays", PAWL_EUNSUPPORTED},
            {"larger than any file", PAWL_EDAMAGED},
            {"more than 4 dimensions", PAWL_EDAMAGED},
            {"a type that pawl does not know", PAWL_EUNSUPPORTED},
            {"no whole blocks", PAWL_EDAMAGED},
            {"does not begin where the one before it ends", PAWL_EDAMAGED},
            {"behind the end of the file", PAWL_EDAMAGED},
            {"no power of two", PAWL_EDAMAGED},
        };
        CLEANUP(buffer_free) buffer b = {0};
        bool values = (i >= 4 && i <= 9) || i == 15;
        put_head(&b,
                 i == 0   ? 1
                 : i == 1 ? 0x03000000
                          : 3,
                 i == 2 ? UINT64_MAX : i >= 10, i == 3 ? UINT64_MAX : values);
        if (values) {
            put_key(&b, i == 15 ? "general.alignment" : "k",
                    i == 6    ? 13
                    : i == 15 ? GGUF_U32
                    : i <= 5  ? GGUF_STRING
                              : GGUF_ARRAY);
            if (i == 15) {
                put_u32(&b, 48);
            } else if (i == 4 || i == 5) {
                put_u64(&b, i == 4 ? UINT64_MAX : 2000000);
                put_data(&b, 1, i == 4 ? 0 : 2000000);
            } else if (i >= 7) {
                put_u32(&b, i == 7 ? GGUF_STRING : i == 8 ? GGUF_ARRAY : GGUF_F64);
                put_u64(&b, i == 8 ? 1 : UINT64_MAX / 4);
            }
        }
        if (i >= 10) {
            put_tensor(&b, "t", i == 10 ? 5 : 1, (const uint64_t[]){33, 1, 1, 1, 1},
                       i == 11   ? 4
                       : i == 12 ? 2
                                 : 0,
                       i == 13 ? 32 : 0);
            put_data(&b, 32, i == 14 ? 131 : 132);
        }
        put_anew(s, "m.gguf", b.data, b.size);
        pawl_status status = open_made(s, "m.gguf", &w, &err);
        if (status != expected[i].status || strstr(err.attempt, expected[i].says) == NULL) {
            fail_msg("case %d: %s, not %s", i, err.attempt, expected[i].says);
        }
        assert_string_equal(err.path, "/mem/m.gguf");
    }
}

/* A file of every length that is too short is refused. */
static void test_r14_a_file_that_was_cut_off(void **state) {
    CLEANUP(buffer_free) buffer b = {0};
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    put_head(&b, 3, 1, 1);
    put_key(&b, "k", GGUF_STRING);
    put_string(&b, "value");
    put_tensor(&b, "t", 2, (const uint64_t[]){2, 2}, 0, 0);
    put_data(&b, 32, 16);
    for (size_t n = 4; n < b.size; n++) {
        put_anew(s, "m.gguf", b.data, n);
        assert_fails(open_made(s, "m.gguf", &w, &err), PAWL_EDAMAGED, &err);
    }
    put_anew(s, "m.gguf", b.data, b.size);
    assert_ok(open_made(s, "m.gguf", &w, &err), &err);
    source_destroy(w);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tensors_and_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_metadata_are_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_model_in_two_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_r14_what_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_r14_a_file_that_was_cut_off, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
