/* SPDX-License-Identifier: Apache-2.0 */
/* .keras files, one of Keras' own tests, one made with Keras 3.15; and sharded weights. */
#include "unit/foreign/made_archive.h"
#include "unit/foreign/made_zip.h"

#include "lib/failing_memory.h"
#include "lib/in_memory.h"

#include "foreign/keras/shards.h"

#define INDEX "model.weights.json"

/* ---- .keras --------------------------------------------------------------------------------- */

static void test_a_keras_file(void **state) {
    struct pawl_error err;
    struct source *w;
    float kernel[16], bias[2];
    made_put_sample(*state, SAMPLES_DIR "/keras/a.keras", "m.keras");
    assert_ok(made_archive(*state, &format_keras, "m.keras", &w, &err), &err);
    assert_string_equal(w->format, "Keras");
    assert_entry(w, "layers/dense/vars/0", "F32 [4, 4] 1 parts");
    assert_entry(w, "layers/dense_3/vars/1", "F32 [2] 1 parts");
    assert_entry(w, "layers/dense_2/vars@name", "string d_2");
    assert_entry(w, "vars@name", "string nested_dense_model");
    assert_int_equal(made_find(w, "config.json").kind, PAWL_KIND_JSON);
    assert_int_equal(made_find(w, "metadata.json").kind, PAWL_KIND_JSON);
    assert_ok(made_read(w, "layers/dense/vars/0", 64, kernel, sizeof(kernel), &err), &err);
    assert_ok(made_read(w, "layers/dense_3/vars/1", 64, bias, sizeof(bias), &err), &err);
    assert_float_equal(kernel[0], 0.1, 1e-7);
    assert_float_equal(bias[1], 0, 0);
    source_destroy(w);
}

/* Keras keeps it as bytes, and says in an attribute what they are. */
static void test_bfloat16_is_what_keras_says_it_is(void **state) {
    struct pawl_error err;
    struct source *w;
    uint16_t kernel[24];
    made_put_sample(*state, "keras/bfloat16.keras", "m.keras");
    assert_ok(made_archive(*state, &format_keras, "m.keras", &w, &err), &err);
    assert_entry(w, "layers/dense/vars/0", "BF16 [8, 3] 1 parts");
    assert_entry(w, "layers/dense/vars/0@dtype", "string bfloat16");
    assert_ok(made_read(w, "layers/dense/vars/0", 64, kernel, sizeof(kernel), &err), &err);
    assert_int_equal(kernel[0], 0x3f13);
    source_destroy(w);
}

/* A zip with these members. */
static void put_zip(store *s, made_zip *z) {
    made_all(z);
    put_anew(s, "m.keras", z->file.data, z->file.size);
    buffer_free(&z->file);
}

static void test_members_that_are_no_weights(void **state) {
    CLEANUP(buffer_free) buffer weights = {0};
    struct pawl_error err;
    struct source *w;
    made_zip z = {.count = 0};
    made_sample("hdf5/numbers.h5", &weights);
    made_add(&z, made_of("config.json", "{\"a\":[1]}", 9));
    made_add(&z, made_of("metadata.json", "no json", 7));
    made_add(&z, made_of("assets/words.txt", "a\nb", 3));
    made_add(&z, made_of("assets/", "", 0));
    made_add(&z, made_of("model.weights.h5", weights.data, weights.size));
    put_zip(*state, &z);
    assert_ok(made_archive(*state, &format_keras, "m.keras", &w, &err), &err);
    assert_entry(w, "config.json", "json {\"a\":[1]}");
    assert_entry(w, "metadata.json", "bytes no json");
    assert_entry(w, "assets/words.txt", "bytes a\nb");
    assert_entry(w, "f32", "F32 [2, 3] 1 parts");
    assert_int_equal(w->entries, 11 + 3);
    source_destroy(w);
}

/* As by a tool that packs a directory again: tensors are read from what is unpacked. */
static void test_members_that_are_compressed(void **state) {
    static const float f32[] = {0, 1, 2, 3, 4, 5};
    static const double f64[] = {0, 1, 2, 3};
    CLEANUP(buffer_free) buffer weights = {0}, packed = {0};
    struct pawl_error err;
    struct source *w;
    made_zip z = {.count = 0};
    made_sample("hdf5/numbers.h5", &weights);
    made_deflate(&packed, weights.data, weights.size, IGZIP_DEFLATE);
    made_member m = made_of("model.weights.h5", packed.data, packed.size);
    m.size = weights.size;
    m.method = 8;
    m.crc32 = crc32_gzip_refl(0, weights.data, weights.size);
    made_add(&z, m);
    put_zip(*state, &z);
    assert_ok(made_archive(*state, &format_keras, "m.keras", &w, &err), &err);
    assert_tensor(w, "f32", f32);
    assert_tensor(w, "f64_big", f64);
    source_destroy(w);
}

static void assert_refused(store *s, made_zip *z, pawl_status status, const char *says) {
    struct pawl_error err;
    struct source *w;
    put_zip(s, z);
    assert_fails(made_archive(s, &format_keras, "m.keras", &w, &err), status, &err);
    assert_says(err.attempt, says);
    assert_string_equal(err.path, "/mem/m.keras");
}

static void test_weights_that_are_refused(void **state) {
    CLEANUP(buffer_free) buffer weights = {0};
    made_zip none = {.count = 0}, pickles = {.count = 0}, cut = {.count = 0};
    made_sample("hdf5/numbers.h5", &weights);
    made_add(&none, made_of("config.json", "{}", 2));
    assert_refused(*state, &none, PAWL_EDAMAGED, "the .keras file has no weights");
    made_add(&pickles, made_of("model.weights.npz", "PK", 2));
    assert_refused(*state, &pickles, PAWL_EUNSUPPORTED, "NumPy objects in pickles");
    made_add(&cut, made_of("model.weights.h5", weights.data, weights.size - 1));
    assert_refused(*state, &cut, PAWL_EDAMAGED,
                   "model.weights.h5: the HDF5 file is wrong: it is shorter than it says");
}

typedef struct heard {
    unsigned problems;
    char entry[64];
} heard;

static void hear(void *context, const char *file, const char *entry, pawl_error *story) {
    heard *h = context;
    (void)entry;
    assert_string_equal(file, "m.keras");
    h->problems++;
    snprintf(h->entry, sizeof(h->entry), "%s", story->entry);
}

static pawl_status go_on(void *context, uint64_t bytes, pawl_error *err) {
    (void)context;
    (void)bytes;
    (void)err;
    return PAWL_OK;
}

/* HDF5 has no checksum of this tensor, but the zip has one of all. */
static void test_verify_compares_the_checksums_of_the_zip(void **state) {
    struct pawl_error err;
    CLEANUP(buffer_free) buffer file = {0};
    made_sample(SAMPLES_DIR "/keras/a.keras", &file);
    for (unsigned i = 0; i < 2; i++) {
        struct source *w;
        heard h = {.problems = 0};
        source_verifier v = {.context = &h, .problem = hear, .progress = go_on};
        put_anew(*state, "m.keras", file.data, file.size);
        assert_ok(made_archive(*state, &format_keras, "m.keras", &w, &err), &err);
        uint64_t at = made_find(w, "layers/dense/vars/0").pieces[0].offset;
        assert_ok(w->ops->verify(w, &v, &err), &err);
        assert_int_equal(h.problems, i);
        assert_string_equal(h.entry, i > 0 ? "model.weights.h5" : "");
        file.data[at] ^= 1;
        source_destroy(w);
    }
}

/* ---- sharded -------------------------------------------------------------------------------- */

static void put_shards(store *s, const char *index) {
    made_put_sample(s, "hdf5/numbers.h5", "model_00000.weights.h5");
    made_put_sample(s, "hdf5/userblock.h5", "model_00001.weights.h5");
    put_anew(s, INDEX, index, strlen(index));
}

#define MAP(map) "{\"metadata\":{\"total_size\":12.0},\"weight_map\":{" map "}}"
#define G        "\"/g/deep\":\"model_00000.weights.h5\""
#define BOTH     "\"/g\":[\"model_00001.weights.h5\",\"model_00000.weights.h5\"]"

static void test_sharded_weights(void **state) {
    static const double x[] = {1, 2};
    struct pawl_error err;
    struct source *w;
    put_shards(*state, MAP(G "," BOTH));
    assert_ok(made_archive(*state, &format_keras_sharded, INDEX, &w, &err), &err);
    assert_string_equal(w->format, "Keras, sharded");
    assert_int_equal(w->files, 2);
    assert_int_equal(w->entries, 11 + 1 + 1);
    assert_tensor(w, "x", x);
    assert_entry(w, "weights.json@metadata", "json {\"total_size\":12.0}");
    source_destroy(w);
}

static void test_an_index_that_is_refused(void **state) {
    static const struct {
        const char *index, *says, *path;
    } cases[] = {
        {"{", "", INDEX},
        {"{}", "it names no file", INDEX},
        {MAP("\"/g\":\"../a.weights.h5\""), "no .weights.h5 file of the directory", INDEX},
        {MAP("\"/g\":\"model_00000.h5\""), "no .weights.h5 file of the directory", INDEX},
        {MAP("\"/g\":[\"/etc/a.weights.h5\"]"), "no .weights.h5 file of the directory", INDEX},
        {MAP(G ","
               "\"/h\":\"b.weights.h5\""),
         "is missing", "b.weights.h5"},
        {MAP(G ","
               "\"/h/vars\":\"model_00000.weights.h5\""),
         "have nothing of a path", INDEX},
        {MAP(G ","
               "\"/f\":\"model_00000.weights.h5\""),
         "have nothing of a path", INDEX},
        {MAP(G) " x", "", INDEX},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err;
        struct source *w;
        char path[64];
        put_shards(*state, cases[i].index);
        snprintf(path, sizeof(path), "/mem/%s", cases[i].path);
        pawl_status status = made_archive(*state, &format_keras_sharded, INDEX, &w, &err);
        if (status != PAWL_EDAMAGED || strstr(err.attempt, cases[i].says) == NULL ||
            strcmp(err.path, path) != 0) {
            fail_msg("%s: status %d, %s, %s", cases[i].index, (int)status, err.attempt, err.path);
        }
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

static pawl_status open_keras(void *context, pawl_error *err) {
    struct source *w;
    TRY(archive_open(context, false, &format_keras, "m.keras", true, &w, err));
    source_destroy(w);
    return PAWL_OK;
}

static pawl_status open_shards(void *context, pawl_error *err) {
    struct source *w;
    TRY(archive_open(context, false, &format_keras_sharded, INDEX, true, &w, err));
    source_destroy(w);
    return PAWL_OK;
}

static void test_every_allocation_may_fail(void **state) {
    made_put_sample(*state, SAMPLES_DIR "/keras/a.keras", "m.keras");
    assert_true(failing_memory_each(open_keras, *state) > 50);
    put_shards(*state, MAP(G "," BOTH));
    assert_true(failing_memory_each(open_shards, *state) > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_a_keras_file),
        IN_MEMORY(test_bfloat16_is_what_keras_says_it_is),
        IN_MEMORY(test_members_that_are_no_weights),
        IN_MEMORY(test_members_that_are_compressed),
        IN_MEMORY(test_weights_that_are_refused),
        IN_MEMORY(test_verify_compares_the_checksums_of_the_zip),
        IN_MEMORY(test_sharded_weights),
        IN_MEMORY(test_an_index_that_is_refused),
        IN_MEMORY(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
