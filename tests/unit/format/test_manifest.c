/* SPDX-License-Identifier: Apache-2.0 */
/* manifest: golden text, every damage, versions, and what a hostile manifest may not say. */
#include "format/manifest.h"
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "lib/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- golden --------------------------------------------------------------------------------- */

static manifest_file files[] = {
    {.name = "data-7f3a9c21e04b-1-00000-of-00002.safetensors", .bytes = 8192, .rank = 0},
    {.name = "data-7f3a9c21e04b-1-00001-of-00002.safetensors", .bytes = 4096, .rank = 1}};
static manifest_value hyperparameters[] = {{"learning_rate", "0.001"}, {"optimizer", "\"AdamW\""}};
static manifest_value metrics[] = {{"loss", "1.7976931348623157e308"}};

static const manifest sample = {
    .version = FORMAT_VERSION,
    .step = 1000,
    .unix_time_ns = 1700000000123456789,
    .world_size = 2,
    .attempt = "7f3a9c21e04b",
    .framework = "charlm \"1\"",
    .writer = "pawl 0.1.0",
    .entries = 12,
    .files = files,
    .file_count = 2,
    .index_name = "index-7f3a9c21e04b-1",
    .index = {.bytes = 300, .crc32c = 0xabc, .footer_crc32c = 0xffffffff},
    .hyperparameters = hyperparameters,
    .hyperparameter_count = 2,
    .metrics = metrics,
    .metric_count = 1,
    .batch_signature = "{\"x\": [1, 2]}"};

static const char golden[] =
    "{\n"
    "  \"format\": \"pawl checkpoint\",\n"
    "  \"format_version\": 1,\n"
    "  \"step\": 1000,\n"
    "  \"unix_time_ns\": 1700000000123456789,\n"
    "  \"world_size\": 2,\n"
    "  \"attempt\": \"7f3a9c21e04b\",\n"
    "  \"framework\": \"charlm \\\"1\\\"\",\n"
    "  \"writer\": \"pawl 0.1.0\",\n"
    "  \"entries\": 12,\n"
    "  \"files\": [\n"
    "    {\"name\": \"data-7f3a9c21e04b-1-00000-of-00002.safetensors\", \"bytes\": 8192, \"rank\": "
    "0},\n"
    "    {\"name\": \"data-7f3a9c21e04b-1-00001-of-00002.safetensors\", \"bytes\": 4096, \"rank\": "
    "1}\n"
    "  ],\n"
    "  \"index\": {\"name\": \"index-7f3a9c21e04b-1\", \"bytes\": 300, \"crc32c\": \"00000abc\", "
    "\"footer_crc32c\": \"ffffffff\"},\n"
    "  \"hyperparameters\": {\n"
    "    \"learning_rate\": 0.001,\n"
    "    \"optimizer\": \"AdamW\"\n"
    "  },\n"
    "  \"metrics\": {\n"
    "    \"loss\": 1.7976931348623157e308\n"
    "  },\n"
    "  \"batch_signature\": {\"x\": [1, 2]},\n"
    "  \"crc32c\": \"7b653b70\"\n"
    "}\n";

/* The manifest, byte for byte. */
static void test_manifest_is_golden(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    assert_ok(manifest_encode(&sample, &out, &err), &err);
    assert_string_equal((const char *)out.data, golden);
}

/* One with nothing optional in it: lists and objects are empty, texts are null. */
static void test_manifest_of_nothing_is_golden(void **state) {
    (void)state;
    manifest m = {.version = FORMAT_VERSION,
                  .world_size = 1,
                  .attempt = "a",
                  .index_name = "index-7f3a9c21e04b-1"};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    assert_ok(manifest_encode(&m, &out, &err), &err);
    assert_int_equal(strncmp((const char *)out.data,
                             "{\n"
                             "  \"format\": \"pawl checkpoint\",\n"
                             "  \"format_version\": 1,\n"
                             "  \"step\": 0,\n"
                             "  \"unix_time_ns\": 0,\n"
                             "  \"world_size\": 1,\n"
                             "  \"attempt\": \"a\",\n"
                             "  \"framework\": null,\n"
                             "  \"writer\": null,\n"
                             "  \"entries\": 0,\n"
                             "  \"files\": [],\n"
                             "  \"index\": {\"name\": \"index-7f3a9c21e04b-1\", \"bytes\": 0, "
                             "\"crc32c\": \"00000000\", \"footer_crc32c\": \"00000000\"},\n"
                             "  \"hyperparameters\": {},\n"
                             "  \"metrics\": {},\n"
                             "  \"batch_signature\": null,\n"
                             "  \"crc32c\": \"",
                             out.size - 12),
                     0);
    manifest back;
    assert_ok(manifest_decode(out.data, out.size, &back, &err), &err);
    assert_null(back.framework);
    assert_null(back.writer);
    assert_null(back.batch_signature);
    manifest_free(&back);
}

/* ---- both ways ------------------------------------------------------------------------------ */

static void assert_values_equal(const manifest_value *a, const manifest_value *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(a[i].name, b[i].name);
        assert_string_equal(a[i].json, b[i].json);
    }
}

static void assert_manifests_equal(const manifest *a, const manifest *b) {
    assert_int_equal(a->version, b->version);
    assert_true(a->step == b->step && a->unix_time_ns == b->unix_time_ns);
    assert_int_equal(a->world_size, b->world_size);
    assert_string_equal(a->attempt, b->attempt);
    assert_string_equal(a->framework, b->framework);
    assert_string_equal(a->writer, b->writer);
    assert_true(a->entries == b->entries);
    assert_int_equal(a->file_count, b->file_count);
    for (size_t i = 0; i < a->file_count; i++) {
        assert_string_equal(a->files[i].name, b->files[i].name);
        assert_true(a->files[i].bytes == b->files[i].bytes);
        assert_int_equal(a->files[i].rank, b->files[i].rank);
    }
    assert_string_equal(a->index_name, b->index_name);
    assert_memory_equal(&a->index, &b->index, sizeof a->index);
    assert_int_equal(a->hyperparameter_count, b->hyperparameter_count);
    assert_values_equal(a->hyperparameters, b->hyperparameters, a->hyperparameter_count);
    assert_int_equal(a->metric_count, b->metric_count);
    assert_values_equal(a->metrics, b->metrics, a->metric_count);
    assert_string_equal(a->batch_signature, b->batch_signature);
}

/* What was encoded is decoded, the sample and random ones. */
static void test_manifests_round_trip(void **state) {
    (void)state;
    test_random random = {17};
    for (int round = 0; round < 300; round++) {
        manifest m = sample, back;
        char names[20][80];
        manifest_file many[20];
        m.step = (int64_t)(random_next(&random) >> 1);
        m.unix_time_ns = (int64_t)(random_next(&random) >> 1) * (round % 2 == 0 ? 1 : -1);
        m.world_size = (int)random_between(&random, 1, INT32_MAX);
        m.entries = random_next(&random) >> 1;
        m.files = many;
        m.file_count = (size_t)random_below(&random, 20);
        for (uint32_t i = 0; i < m.file_count; i++) {
            name_data(names[i], "0123456789ab-3", -1, i, 20);
            many[i] = (manifest_file){.name = names[i],
                                      .bytes = random_next(&random) >> 1,
                                      .rank = (int)random_below(&random, (uint64_t)m.world_size)};
        }
        m.index = (table_summary){.bytes = random_next(&random) >> 1,
                                  .crc32c = (uint32_t)random_next(&random),
                                  .footer_crc32c = (uint32_t)random_next(&random)};
        m.metric_count = (size_t)round % 2;
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer out = {.data = NULL};
        assert_ok(manifest_encode(&m, &out, &err), &err);
        assert_ok(manifest_decode(out.data, out.size, &back, &err), &err);
        assert_manifests_equal(&m, &back);
        manifest_free(&back);
    }
}

/* Metrics and signatures must be JSON, or no manifest is written. */
static void test_values_that_are_no_json_are_not_written(void **state) {
    (void)state;
    manifest_value bad = {"loss", "NaN"};
    manifest m = sample;
    m.metrics = &bad;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    assert_fails(manifest_encode(&m, &out, &err), PAWL_EUSAGE, &err);
    m = sample;
    m.batch_signature = "{";
    assert_fails(manifest_encode(&m, &out, &err), PAWL_EUSAGE, &err);
}

/* ---- damage and versions -------------------------------------------------------------------- */

/* Text with its checksum put where the golden text has '@'. */
static char *sealed(const char *text) {
    char *copy = strdup(text);
    assert_non_null(copy);
    char *at = strstr(copy, "7b653b70");
    assert_non_null(at);
    char digits[9];
    size_t body = (size_t)(at - copy) - strlen("  \"crc32c\": \"");
    (void)snprintf(digits, sizeof digits, "%08" PRIx32, crc32c(0, copy, body));
    memcpy(at, digits, 8);
    return copy;
}

/* The golden text with one stretch replaced. */
static char *replaced(const char *from, const char *to) {
    const char *at = strstr(golden, from);
    assert_non_null(at);
    size_t n = strlen(golden) + strlen(to) + 1;
    char *text = malloc(n);
    assert_non_null(text);
    (void)snprintf(text, n, "%.*s%s%s", (int)(at - golden), golden, to, at + strlen(from));
    return text;
}

static pawl_status decode_free(const void *text, size_t n, pawl_error *err) {
    manifest m;
    pawl_status status = manifest_decode(text, n, &m, err);
    if (status == PAWL_OK) {
        manifest_free(&m);
    }
    return status;
}

/* Every flipped bit of a manifest is detected, the checksum's and the version's own included. */
static void test_r08_every_flipped_bit_is_detected(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {.data = NULL};
    assert_ok(manifest_encode(&sample, &text, &err), &err);
    for (size_t i = 0; i < text.size * 8; i++) {
        text.data[i / 8] ^= (uint8_t)(1 << i % 8);
        pawl_status status = decode_free(text.data, text.size, &err);
        if (status != PAWL_EDAMAGED) {
            fail_msg("bit %zu: status '%s'", i, pawl_status_name(status));
        }
        text.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}

/* A manifest cut off at any length, or with anything behind it, is detected. */
static void test_r08_every_truncation_is_detected(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {.data = NULL};
    assert_ok(manifest_encode(&sample, &text, &err), &err);
    for (size_t n = 0; n < text.size; n++) {
        assert_fails(decode_free(text.data, n, &err), PAWL_EDAMAGED, &err);
    }
    assert_ok(buffer_append(&text, "\n", 1, &err), &err);
    assert_fails(decode_free(text.data, text.size, &err), PAWL_EDAMAGED, &err);
}

/* A newer version is told as that, naming both, whether or not its checksum is one that we know. */
static void test_r12_newer_version_names_both(void **state) {
    (void)state;
    char *newer = replaced("\"format_version\": 1,", "\"format_version\": 12, \"new\": {},");
    char *known = sealed(newer);
    static const char unknown[] = "{\"format_version\": 12, \"sha256\": \"...\"}";
    const char *const texts[] = {known, newer, unknown};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        pawl_error err = ERROR_INIT;
        assert_fails(decode_free(texts[i], strlen(texts[i]), &err), PAWL_EUNSUPPORTED, &err);
        assert_string_equal(err.attempt, "the checkpoint was written by a newer version of pawl");
        assert_string_equal(err.expected, "format version 1, which this pawl (0.2.0) knows");
        assert_string_equal(err.found, "format version 12");
        assert_says(err.next, "upgrade pawl");
    }
    free(known);
    free(newer);
}

/* A version field that was damaged, into a newer version too, is told as damage, naming both. */
static void test_r12_damaged_version_field_names_both(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer text = {.data = NULL};
    static const char digits[] = "023456789";
    pawl_error err = ERROR_INIT;
    assert_ok(manifest_encode(&sample, &text, &err), &err);
    char *digit =
        strstr((char *)text.data, "\"format_version\": 1") + strlen("\"format_version\": ");
    for (size_t i = 0; digits[i] != '\0'; i++) {
        *digit = digits[i];
        assert_fails(decode_free(text.data, text.size, &err), PAWL_EDAMAGED, &err);
        assert_says(err.attempt, "version field at byte");
        assert_string_equal(err.expected, "format version 1");
        char found[32];
        (void)snprintf(found, sizeof found, "format version %c", digits[i]);
        assert_string_equal(err.found, found);
        assert_true(err.has_range);
        assert_int_equal(err.length, 1);
    }
}

/* A version that there never was, or none, is damage even where the checksum fits. */
static void test_r12_versions_that_never_were_are_refused(void **state) {
    (void)state;
    static const char *const versions[] = {"\"format_version\": 0,", "\"format_version\": -1,",
                                           "\"format_version\": \"1\",", "\"format_version\": 1.0,",
                                           ""};
    for (size_t i = 0; i < ARRAY_LENGTH(versions); i++) {
        char *text = replaced("\"format_version\": 1,", versions[i]);
        char *whole = sealed(text);
        pawl_error err = ERROR_INIT;
        assert_fails(decode_free(whole, strlen(whole), &err), PAWL_EDAMAGED, &err);
        free(whole);
        free(text);
    }
}

/* The damage of a manifest, word for word. */
static void test_damage_in_words(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {.data = NULL};
    assert_ok(manifest_encode(&sample, &text, &err), &err);
    strstr((char *)text.data, "1000")[0] = '2';
    assert_fails(decode_free(text.data, text.size, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "the manifest is damaged: its checksum does not match");
    assert_says(err.expected, ", as its last line but one says");
    assert_true(err.has_range);
    assert_int_equal(err.length, text.size);
}

/* ---- hostile -------------------------------------------------------------------------------- */

/* A manifest whose checksum fits is still not believed: names, sizes, ranks and counts
 * are checked. */
static void test_r14_hostile_manifests_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
        pawl_status status;
    } cases[] = {
        {"\"step\": 1000,", "\"step\": 1000, \"later\": [{}],", PAWL_OK},
        {"\"step\": 1000,", "\"step\": -1,", PAWL_EDAMAGED},
        {"\"step\": 1000,", "\"step\": 1e3,", PAWL_EDAMAGED},
        {"\"step\": 1000,", "\"step\": 9223372036854775808,", PAWL_EDAMAGED},
        {"\"step\": 1000,", "\"step\": 1000, \"step\": 1000,", PAWL_EDAMAGED},
        {"  \"step\": 1000,\n", "", PAWL_EDAMAGED},
        {"\"world_size\": 2,", "\"world_size\": 0,", PAWL_EDAMAGED},
        {"\"world_size\": 2,", "\"world_size\": 2147483648,", PAWL_EDAMAGED},
        {"\"world_size\": 2,", "\"world_size\": 1,", PAWL_EDAMAGED},
        {"\"attempt\": \"7f3a9c21e04b\"", "\"attempt\": null", PAWL_EDAMAGED},
        {"\"attempt\": \"7f3a9c21e04b\"", "\"attempt\": \"\\u0000\"", PAWL_EDAMAGED},
        {"\"entries\": 12", "\"entries\": -12", PAWL_EDAMAGED},
        {"\"entries\": 12", "\"entries\": 9223372036854775808", PAWL_EDAMAGED},
        {"\"bytes\": 8192", "\"bytes\": -8192", PAWL_EDAMAGED},
        {"\"bytes\": 8192", "\"bytes\": 18446744073709551615", PAWL_EDAMAGED},
        {"\"bytes\": 8192", "\"bytes\": 8192, \"bytes\": 1", PAWL_EDAMAGED},
        {"\"rank\": 1", "\"rank\": 2", PAWL_EDAMAGED},
        {"\"rank\": 1", "\"rank\": -1", PAWL_EDAMAGED},
        {", \"rank\": 1", "", PAWL_EDAMAGED},
        {"data-7f3a9c21e04b-1-00001", "data-7f3a9c21e04b-1-00000", PAWL_EDAMAGED},
        {"data-7f3a9c21e04b-1-00001", "../../x", PAWL_EDAMAGED},
        {"data-7f3a9c21e04b-1-00001", "/etc/passwd", PAWL_EDAMAGED},
        {"data-7f3a9c21e04b-1-00001", "sub/data-7f3a9c21e04b-1-00001", PAWL_EDAMAGED},
        {"data-7f3a9c21e04b-1-00001-of-00002.safetensors", "manifest.json", PAWL_EDAMAGED},
        {"data-7f3a9c21e04b-1-00001-of-00002.safetensors", "index-7f3a9c21e04b-1", PAWL_EDAMAGED},
        {"\"index-7f3a9c21e04b-1\"", "\"../index-7f3a9c21e04b-1\"", PAWL_EDAMAGED},
        {"\"index-7f3a9c21e04b-1\"", "\"\"", PAWL_EDAMAGED},
        {"\"00000abc\"", "\"00000ABC\"", PAWL_EDAMAGED},
        {"\"00000abc\"", "\"abc\"", PAWL_EDAMAGED},
        {"\"00000abc\"", "2748", PAWL_EDAMAGED},
        {"\"metrics\": {", "\"metrics\": [", PAWL_EDAMAGED},
        {"\"batch_signature\": {", "\"batch_signature\": {{", PAWL_EDAMAGED},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *text = replaced(cases[i].from, cases[i].to);
        char *whole = sealed(text);
        pawl_error err = ERROR_INIT;
        pawl_status status = decode_free(whole, strlen(whole), &err);
        if (status != cases[i].status) {
            fail_msg("%s -> %s: status '%s': %s", cases[i].from, cases[i].to,
                     pawl_status_name(status), error_text(&err));
        }
        free(whole);
        free(text);
    }
}

/* Beyond the maximum nothing is parsed. */
static void test_r14_too_large_manifest_is_refused(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    AUTOFREE char *text = mem_calloc(FORMAT_MAX_MANIFEST + 1, 1);
    assert_non_null(text);
    assert_fails(decode_free(text, FORMAT_MAX_MANIFEST + 1, &err), PAWL_ELIMIT, &err);
}

static pawl_status encode_decode(void *context, pawl_error *err) {
    (void)context;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    TRY(manifest_encode(&sample, &out, err));
    return decode_free(out.data, out.size, err);
}

/* Whichever allocation fails, writing and reading say so and leak nothing. */
static void test_manifest_survives_every_failing_allocation(void **state) {
    (void)state;
    assert_true(failing_memory_each(encode_decode, NULL) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manifest_is_golden),
        cmocka_unit_test(test_manifest_of_nothing_is_golden),
        cmocka_unit_test(test_manifests_round_trip),
        cmocka_unit_test(test_values_that_are_no_json_are_not_written),
        cmocka_unit_test(test_r08_every_flipped_bit_is_detected),
        cmocka_unit_test(test_r08_every_truncation_is_detected),
        cmocka_unit_test(test_r12_newer_version_names_both),
        cmocka_unit_test(test_r12_damaged_version_field_names_both),
        cmocka_unit_test(test_r12_versions_that_never_were_are_refused),
        cmocka_unit_test(test_damage_in_words),
        cmocka_unit_test(test_r14_hostile_manifests_are_refused),
        cmocka_unit_test(test_r14_too_large_manifest_is_refused),
        cmocka_unit_test(test_manifest_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
