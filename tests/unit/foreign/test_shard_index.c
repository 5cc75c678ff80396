/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a Hugging Face directory: what it says, and what is refused with its position. */
#include "lib/test.h"

#include "foreign/huggingface/shard_index.h"
#include "format/limits.h"
#include "lib/failing_memory.h"

#include <stdio.h>
#include <string.h>

#include <math.h>

static const shard_kind files = {.ending = ".safetensors",
                                 .fault = "the file is no .safetensors file"};
static const shard_kind torch = {
    .ending = ".bin", .fault = "the file is no .bin file", .keys = true};

static pawl_status decode(const char *text, shard_index *out, pawl_error *err) {
    *err = ERROR_INIT;
    return shard_index_decode(&files, text, strlen(text), out, err);
}

static void test_places_are_sorted_and_files_are_there_once(void **state) {
    (void)state;
    struct pawl_error err;
    shard_index index;
    assert_ok(decode(" {\"x\": [1, {}], \"weight_map\": {\"b\": \"2.safetensors\", \"a\": "
                     "\"1.safetensors\", \"c\": \"2.safetensors\"}, \"metadata\": "
                     "{\"total_size\": 1234, \"y\": null}} ",
                     &index, &err),
              &err);
    assert_int_equal(index.file_count, 2);
    assert_string_equal(index.files[0], "1.safetensors");
    assert_string_equal(index.files[1], "2.safetensors");
    assert_int_equal(index.place_count, 3);
    assert_string_equal(index.places[0].name, "a");
    assert_string_equal(index.places[0].file, "1.safetensors");
    assert_string_equal(index.places[2].name, "c");
    assert_true(index.has_total_size);
    assert_true(index.total_size == 1234);
    shard_index_free(&index);
}

/* PyTorch's files have dicts, whose keys are escaped where they become names. */
static void test_names_of_keys_are_escaped_and_sorted_then(void **state) {
    (void)state;
    static const char text[] = "{\"weight_map\": {\"a/b\": \"1.bin\", \"a.b\": \"1.bin\", "
                               "\"a0\": \"2.bin\", \"..\": \"2.bin\"}}";
    static const char *const names[] = {"%2E.", "a%2Fb", "a.b", "a0"};
    struct pawl_error err = ERROR_INIT;
    shard_index index;
    assert_ok(shard_index_decode(&torch, text, strlen(text), &index, &err), &err);
    assert_int_equal(index.place_count, ARRAY_LENGTH(names));
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        assert_string_equal(index.places[i].name, names[i]);
    }
    assert_string_equal(index.places[1].file, "1.bin");
    shard_index_free(&index);
    static const char other[] = "{\"weight_map\": {\"a\": \"a.safetensors\"}}";
    assert_fails(shard_index_decode(&torch, other, strlen(other), &index, &err), PAWL_EDAMAGED,
                 &err);
    assert_says(err.attempt, "the file is no .bin file");
}

static void test_total_size_of_any_form(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool has;
        double total_size;
    } cases[] = {
        {"{\"total_size\": 2.5e9}", true, 2.5e9},
        {"{\"total_size\": -1}", true, -1},
        {"{\"total_size\": 1e999}", true, INFINITY},
        {"{\"total_size\": \"big\"}", false, 0},
        {"{}", false, 0},
        {"null", false, 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err;
        shard_index index;
        char text[256];
        snprintf(text, sizeof(text),
                 "{\"metadata\": %s, \"weight_map\": {\"a\": \"a.safetensors\"}}", cases[i].text);
        assert_ok(decode(text, &index, &err), &err);
        assert_int_equal(index.has_total_size, cases[i].has);
        assert_true(index.total_size == cases[i].total_size);
        shard_index_free(&index);
    }
}

static void test_r14_what_is_refused_with_its_position(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
        uint64_t at;
    } cases[] = {
        {"", "", 0},
        {"[]", "", 0},
        {"{}", "it has no weight_map", 0},
        {"{\"weight_map\":{}}", "its weight_map is empty", 0},
        {"{\"weight_map\":{\"a\":1}}", "", 19},
        {"{\"weight_map\":[]}", "", 14},
        {"{\"weight_map\":{\"a\":\"../a.safetensors\"}}", "outside of the directory", 19},
        {"{\"weight_map\":{\"a\":\"/etc/a.safetensors\"}}", "outside of the directory", 19},
        {"{\"weight_map\":{\"a\":\"x/../../a.safetensors\"}}", "outside of the directory", 19},
        {"{\"weight_map\":{\"a\":\"..\"}}", "outside of the directory", 19},
        {"{\"weight_map\":{\"a\":\"sub/a.safetensors\"}}", "not in the directory itself", 19},
        {"{\"weight_map\":{\"a\":\"passwd\"}}", "no .safetensors file", 19},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", "no .safetensors file", 19},
        {"{\"weight_map\":{\"a\":\"\"}}", "no .safetensors file", 19},
        {"{\"weight_map\":{\"a\":\"\\n.safetensors\"}}", "a control character", 19},
        {"{\"weight_map\":{\"a\":\"a\\u0000.safetensors\"}}", "", 27},
        {"{\"weight_map\":{\"a\":\"a.safetensors\",\"a\":\"b.safetensors\"}}",
         "the tensor is there twice", 39},
        {"{\"weight_map\":{\"a\":\"a.safetensors\"},\"weight_map\":{\"a\":\"b.safetensors\"}}",
         "weight_map is there twice", 49},
        {"{\"metadata\":{},\"metadata\":{},\"weight_map\":{\"a\":\"b.safetensors\"}}",
         "metadata is there twice", 26},
        {"{\"weight_map\":{\"a\":\"a.safetensors\"}} x", "", 37},
        {"{\"weight_map\":{\"a\":\"a.safetensors\"}", "", 35},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err;
        shard_index index;
        pawl_status status = decode(cases[i].text, &index, &err);
        if (status != PAWL_EDAMAGED || strstr(err.attempt, cases[i].says) == NULL ||
            !err.has_range || err.offset != cases[i].at) {
            fail_msg("%s: status %d, %s, at %llu", cases[i].text, (int)status, err.attempt,
                     (unsigned long long)err.offset);
        }
    }
}

static void test_r14_what_passes_a_limit_is_refused(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    shard_index index;
    CLEANUP(buffer_free) buffer text = {0};
    assert_ok(buffer_printf(&text, &err, "{\"weight_map\":{\"a\":\"a.safetensors\""), &err);
    for (unsigned i = 0; i < FOREIGN_MAX_SHARDS; i++) {
        assert_ok(buffer_printf(&text, &err, ",\"%u\":\"%u.safetensors\"", i, i), &err);
    }
    assert_ok(buffer_printf(&text, &err, "}}"), &err);
    assert_fails(shard_index_decode(&files, text.data, text.size, &index, &err), PAWL_ELIMIT, &err);
    assert_string_equal(err.attempt, "the index of the weights names too many files");
    text.size = 0;
    assert_ok(buffer_printf(&text, &err, "{\"x\":"), &err);
    for (unsigned i = 0; i < 5000; i++) {
        assert_ok(buffer_append(&text, "[", 1, &err), &err);
    }
    assert_fails(shard_index_decode(&files, text.data, text.size, &index, &err), PAWL_ELIMIT, &err);
    text.size = 0;
    assert_ok(buffer_printf(&text, &err, "{\"weight_map\":{\"%01100d\":\"a.safetensors\"}}", 1),
              &err);
    assert_fails(shard_index_decode(&files, text.data, text.size, &index, &err), PAWL_EDAMAGED,
                 &err);
}

static pawl_status decode_with_failing_memory(void *context, pawl_error *err) {
    shard_index index;
    const char *text = context;
    TRY(shard_index_decode(&files, text, strlen(text), &index, err));
    shard_index_free(&index);
    return PAWL_OK;
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    static char text[] = "{\"metadata\":{\"total_size\":1},\"weight_map\":{\"b\":\"2.safetensors\","
                         "\"a\":\"1.safetensors\"}}";
    assert_true(failing_memory_each(decode_with_failing_memory, text) > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_are_sorted_and_files_are_there_once),
        cmocka_unit_test(test_names_of_keys_are_escaped_and_sorted_then),
        cmocka_unit_test(test_total_size_of_any_form),
        cmocka_unit_test(test_r14_what_is_refused_with_its_position),
        cmocka_unit_test(test_r14_what_passes_a_limit_is_refused),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
