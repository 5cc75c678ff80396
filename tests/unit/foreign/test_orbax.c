/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that Orbax and TensorStore wrote (samples/orbax/make.py), whole and with parts of
 * them missing. */
#include "unit/foreign/made_archive.h"

#include "foreign/orbax/keys.h"
#include "lib/failing_memory.h"

static store *open_sample(const char *name) {
    struct pawl_error err = ERROR_INIT;
    char path[512];
    store *s;
    snprintf(path, sizeof(path), "%s/unit/foreign/samples/orbax/%s", TEST_SOURCE_DIR, name);
    assert_ok(store_posix(path, &s, &err), &err);
    return s;
}

/* Copies all files of a sample that `skip` is no beginning of. */
static void copy_folder(store *from, store *to, const char *folder, const char *skip) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    assert_ok(store_names(from, folder, 1000, &memory, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        CLEANUP(buffer_free) buffer bytes = {0};
        char path[512];
        store_stat is;
        snprintf(path, sizeof(path), "%s%s%s", folder, folder[0] != '\0' ? "/" : "", names[i]);
        assert_ok(store_stat_path(from, path, &is, &err), &err);
        if (skip != NULL && strncmp(path, skip, strlen(skip)) == 0) {
            continue;
        }
        if (is.type == STORE_DIR_TYPE) {
            assert_ok(store_make_dir(to, path, &err), &err);
            copy_folder(from, to, path, skip);
        } else {
            assert_ok(store_read_file(from, path, 1 << 20, &bytes, &err), &err);
            put_file(to, path, bytes.data != NULL ? bytes.data : (const uint8_t *)"", bytes.size);
        }
    }
}

static store *copy_sample(const char *name, const char *skip) {
    struct pawl_error err = ERROR_INIT;
    store *from = open_sample(name);
    store *to;
    assert_ok(store_mem(&to, &err), &err);
    copy_folder(from, to, "", skip);
    store_destroy(from);
    return to;
}

/* The one data file of the second process. */
#define PROCESS_1_FILE "2d91d305fba8c6a68391aff9e0eb7301"

static const int32_t eight[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* ---- a step with several items ---- */

static void test_a_step_with_items(void **state) {
    store *s = open_sample("composite");
    struct pawl_error err;
    struct source *c;
    (void)state;
    assert_ok(made_archive(s, &format_orbax, "_CHECKPOINT_METADATA", &c, &err), &err);
    assert_string_equal(c->format, "Orbax");
    assert_int_equal(c->entries, 7);
    assert_entry(c, "metadata", "json {\"metadata\": \"json_data\"}");
    assert_entry(c, "state/a", "I32 [8] 1 parts");
    assert_entry(c, "state/b/c", "I32 [3] 1 parts");
    assert_true(made_has(c, "_CHECKPOINT_METADATA"));
    assert_true(made_has(c, "state/_METADATA"));
    assert_true(made_has(c, "state/_sharding"));
    assert_true(made_has(c, "state/array_metadatas/process_0"));
    assert_tensor(c, "state/a", eight);
    source_destroy(c);
    store_destroy(s);
}

/* The database of the step names files of the process's. */
static void test_a_merged_database(void **state) {
    store *s = open_sample("merged");
    struct pawl_error err;
    struct source *c;
    uint32_t hashes[500];
    (void)state;
    for (uint32_t i = 0; i < ARRAY_LENGTH(hashes); i++) {
        hashes[i] = i * 2654435761u;
    }
    assert_ok(made_archive(s, &format_orbax, "_METADATA", &c, &err), &err);
    assert_tensor(c, "w", hashes);
    assert_says(c->ops->file(c, made_find(c, "w").pieces[0].file).name, "ocdbt.process_0/d/");
    source_destroy(c);
    store_destroy(s);
}

/* What two processes saved, each half of both arrays, and only one of them what describes them. */
static void test_processes_that_were_not_merged(void **state) {
    static const int32_t few[] = {0, 1, 2, 3};
    static const int32_t seven[] = {7};
    store *s = open_sample("processes");
    struct pawl_error err;
    struct source *c;
    uint32_t hashes[1000];
    (void)state;
    for (uint32_t i = 0; i < ARRAY_LENGTH(hashes); i++) {
        hashes[i] = i * 2654435761u;
    }
    assert_ok(made_archive(s, &format_orbax, "_METADATA", &c, &err), &err);
    assert_int_equal(c->entries, 5);
    assert_tensor(c, "w", hashes);
    assert_tensor(c, "few", few);
    assert_tensor(c, "n", seven);
    assert_entry(c, "files that are not read",
                 "json {\"manifest.ocdbt\":\"never written: what each process saved was put "
                 "together\"}");
    source_destroy(c);
    store_destroy(s);
}

static void test_two_processes_that_saved_the_same_chunk(void **state) {
    store *s = copy_sample("processes", NULL);
    store *from = open_sample("processes/ocdbt.process_1");
    CLEANUP(buffer_free) buffer bytes = {0};
    struct pawl_error err = ERROR_INIT;
    struct source *c;
    (void)state;
    assert_ok(store_make_dir(s, "ocdbt.process_2", &err), &err);
    assert_ok(store_make_dir(s, "ocdbt.process_2/d", &err), &err);
    assert_ok(store_read_file(from, "manifest.ocdbt", 4096, &bytes, &err), &err);
    put_file(s, "ocdbt.process_2/manifest.ocdbt", bytes.data, bytes.size);
    bytes.size = 0;
    assert_ok(store_read_file(from, "d/" PROCESS_1_FILE, 4096, &bytes, &err), &err);
    put_file(s, "ocdbt.process_2/d/" PROCESS_1_FILE, bytes.data, bytes.size);
    assert_fails(made_archive(s, &format_orbax, "_METADATA", &c, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "two processes saved the same part of an array");
    assert_string_equal(err.entry, "w/1");
    store_destroy(from);
    store_destroy(s);
}

/* The same few bytes twice are the same; others are not. */
static void test_keys_of_several_databases(void **state) {
    static const char *const keys[] = {"b", "d", "a", "b", "c"};
    struct pawl_error err = ERROR_INIT;
    (void)state;
    for (int other = 0; other < 2; other++) {
        key_map map = {0};
        for (size_t i = 0; i < ARRAY_LENGTH(keys); i++) {
            const key_value value = {.bytes = 2};
            map.begun = i < 2 ? 0 : 2;
            assert_ok(
                key_map_add(&map, keys[i], 1, &value, other == 1 && i == 3 ? "yy" : "xx", &err),
                &err);
        }
        if (other == 1) {
            assert_fails(key_map_join(&map, &err), PAWL_EDAMAGED, &err);
            assert_string_equal(err.entry, "b");
        } else {
            assert_ok(key_map_join(&map, &err), &err);
            assert_int_equal(map.count, 4);
            for (size_t i = 0; i < 4; i++) {
                assert_int_equal(key_text(&map, &map.items[i])[0], "abcd"[i]);
            }
        }
        key_map_free(&map);
    }
}

/* Without it names are those that arrays are stored by. */
static void test_no_metadata(void **state) {
    store *s = copy_sample("composite", "state/_METADATA");
    struct pawl_error err;
    struct source *c;
    (void)state;
    assert_ok(made_archive(s, &format_orbax, "_CHECKPOINT_METADATA", &c, &err), &err);
    assert_entry(c, "state/a", "I32 [8] 1 parts");
    assert_entry(c, "state/b.c", "I32 [3] 1 parts");
    assert_tensor(c, "state/a", eight);
    source_destroy(c);
    store_destroy(s);
}

static void test_parts_that_are_missing(void **state) {
    static const struct {
        const char *sample, *skip, *says, *path;
    } cases[] = {
        {"processes", "_METADATA", "never finished: what its processes saved was not put together",
         "/mem"},
        {"processes", "ocdbt.process_0", "the checkpoint lacks an array that its _METADATA names",
         "/mem"},
        {"processes", "ocdbt.process_1", "never finished: a part of an array is missing", "/mem"},
        {"processes", "ocdbt.process_1/manifest.ocdbt",
         "never finished: a process did not save its part", "/mem/ocdbt.process_1"},
        {"processes", "ocdbt.process_1/d", "a data file of the database is missing",
         "/mem/ocdbt.process_1/d/"},
        {"files", "%/c", "the checkpoint lacks a part of an array", "/mem"},
        {"composite", "state/d/", "a data file of the database is missing", "/mem/state/d/"},
        {"merged", "ocdbt.process_0", "a data file of the database is missing",
         "/mem/ocdbt.process_0/d/"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        store *s = copy_sample(cases[i].sample, cases[i].skip);
        struct pawl_error err;
        struct source *c;
        assert_fails(made_archive(s, &format_orbax, "_CHECKPOINT_METADATA", &c, &err),
                     PAWL_EDAMAGED, &err);
        assert_says(err.attempt, cases[i].says);
        assert_says(err.path, cases[i].path);
        store_destroy(s);
    }
}

/* Neither is needed. */
static void test_parts_that_are_not_needed(void **state) {
    static const char *const skips[] = {"_CHECKPOINT_METADATA", "state/_sharding",
                                        "state/array_metadatas", "metadata"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(skips); i++) {
        store *s = copy_sample("composite", skips[i]);
        struct pawl_error err;
        struct source *c;
        assert_ok(made_archive(s, &format_orbax, "orbax.checkpoint", &c, &err), &err);
        assert_int_equal(c->entries, 6);
        assert_tensor(c, "state/a", eight);
        source_destroy(c);
        store_destroy(s);
    }
}

static void test_no_manifest_and_no_process(void **state) {
    store *s = copy_sample("composite", "state/manifest.ocdbt");
    struct pawl_error err = ERROR_INIT;
    struct source *c;
    CLEANUP(buffer_free) buffer text = {0};
    (void)state;
    assert_ok(store_read_file(s, "state/_METADATA", 4096, &text, &err), &err);
    store_destroy(s);
    assert_ok(store_mem(&s, &err), &err);
    put_file(s, "_METADATA", text.data, text.size);
    assert_fails(made_archive(s, &format_orbax, "_METADATA", &c, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "the database of the arrays is missing");
    store_destroy(s);
}

/* What a process saved is read by itself: arrays of which others have parts are not. */
static void test_a_process_alone(void **state) {
    store *s = open_sample("composite/state/ocdbt.process_0");
    struct pawl_error err;
    struct source *c;
    (void)state;
    assert_ok(made_archive(s, &format_orbax, "manifest.ocdbt", &c, &err), &err);
    assert_int_equal(c->entries, 2);
    assert_tensor(c, "a", eight);
    source_destroy(c);
    store_destroy(s);
}

/* The second of two, which did not save what describes the arrays. */
static void test_a_process_alone_that_describes_nothing(void **state) {
    store *s = open_sample("processes/ocdbt.process_1");
    struct pawl_error err;
    struct source *c;
    (void)state;
    assert_fails(made_archive(s, &format_orbax, "manifest.ocdbt", &c, &err), PAWL_EUNSUPPORTED,
                 &err);
    assert_says(err.attempt, "not described by itself");
    assert_says(err.found, "2 chunks, the first is few/1");
    store_destroy(s);
    s = open_sample("processes/ocdbt.process_0");
    assert_ok(made_archive(s, &format_orbax, "manifest.ocdbt", &c, &err), &err);
    assert_entry(c, "w", "U32, in part [1000] 1 parts");
    source_destroy(c);
    store_destroy(s);
}

/* ---- a step that is being saved ---- */

static void test_a_name_that_is_temporary(void **state) {
    store *s = copy_sample("composite", NULL);
    struct pawl_error err;
    struct source *c;
    char *root = s->root;
    (void)state;
    assert_ok(store_make_dir(s, "other.orbax-checkpoint-tmp", &err), &err);
    put_text(s, "other.orbax-checkpoint-tmp/_METADATA", "{");
    assert_ok(made_archive(s, &format_orbax, "_CHECKPOINT_METADATA", &c, &err), &err);
    assert_entry(c, "files that are not read",
                 "json {\"other.orbax-checkpoint-tmp\":\"never finished\"}");
    source_destroy(c);
    s->root = (char *)"/runs/7.orbax-checkpoint-tmp";
    assert_fails(made_archive(s, &format_orbax, "_CHECKPOINT_METADATA", &c, &err), PAWL_EDAMAGED,
                 &err);
    assert_says(err.attempt, "never finished");
    s->root = root;
    store_destroy(s);
}

/* ---- arrays ---- */

#define ELEMENTS 90

static void test_arrays_of_a_database(void **state) {
    store *s = open_sample("arrays");
    struct pawl_error err;
    struct source *c;
    float numbers[ELEMENTS], filled[ELEMENTS];
    int16_t integers[ELEMENTS];
    (void)state;
    for (int i = 0; i < ELEMENTS; i++) {
        numbers[i] = (float)i;
        integers[i] = (int16_t)i;
        filled[i] = 2.5f;
    }
    for (int i = 2 * 18 + 3 * 3; i < 2 * 18 + 4 * 3; i++) {
        filled[i] = (float)i;
    }
    assert_ok(made_archive(s, &format_orbax, "manifest.ocdbt", &c, &err), &err);
    assert_int_equal(c->entries, 7);
    assert_entry(c, "zstd", "F32 [5, 6, 3] 6 parts");
    assert_entry(c, "blosc", "F32, blosc [5, 6, 3] 1 parts");
    assert_entry(c, "zlib", "I16 [5, 6, 3] 1 parts");
    assert_tensor(c, "zstd", numbers);
    assert_tensor(c, "fortran", numbers);
    assert_tensor(c, "zlib", integers);
    assert_tensor(c, "filled", filled);
    assert_tensor(c, "shards", numbers);
    assert_tensor(c, "transposed", numbers);
    source_destroy(c);
    store_destroy(s);
}

/* In the database of one process a chunk that is missing may be in another's. */
static void test_arrays_that_a_process_has_a_part_of(void **state) {
    store *s = copy_sample("arrays", NULL);
    struct pawl_error err;
    struct source *c;
    char *root = s->root;
    (void)state;
    s->root = (char *)"/7/ocdbt.process_1";
    assert_ok(made_archive(s, &format_orbax, "manifest.ocdbt", &c, &err), &err);
    assert_entry(c, "filled", "F32, in part [5, 6, 3] 1 parts");
    assert_entry(c, "zstd", "F32 [5, 6, 3] 6 parts");
    source_destroy(c);
    s->root = root;
    store_destroy(s);
}

static void test_arrays_that_are_files(void **state) {
    static const int16_t six[] = {0, 1, 2, 3, 4, 5};
    static const int32_t seven[] = {7};
    store *s = open_sample("files");
    struct pawl_error err;
    struct source *c;
    (void)state;
    assert_ok(made_archive(s, &format_orbax, "_METADATA", &c, &err), &err);
    assert_int_equal(c->entries, 7);
    assert_tensor(c, "%25", six);
    assert_tensor(c, "x.y/0", seven);
    assert_entry(c, "x.y/1", "json {}");
    assert_entry(c, "x.y/2", "string text");
    assert_entry(c, "x.y/3", "json null");
    source_destroy(c);
    store_destroy(s);
}

static void test_an_array_that_only_the_tree_has(void **state) {
    store *s = copy_sample("files", "x.y.0");
    struct pawl_error err;
    struct source *c;
    (void)state;
    assert_fails(made_archive(s, &format_orbax, "_METADATA", &c, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "the checkpoint lacks an array that its _METADATA names");
    assert_string_equal(err.entry, "x.y/0");
    store_destroy(s);
    s = copy_sample("files", "_strings");
    assert_fails(made_archive(s, &format_orbax, "_METADATA", &c, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "the checkpoint lacks a string that its _METADATA names");
    store_destroy(s);
}

/* A tree may have leaves that were left out, and kinds of them that later versions add. */
static void test_leaves_of_which_nothing_is_stored(void **state) {
    static const char text[] =
        "{\"tree_metadata\":{"
        "\"('a',)\":{\"key_metadata\":[{\"key\":\"a\",\"key_type\":2}],\"value_metadata\":"
        "{\"value_type\":\"placeholder\",\"skip_deserialize\":false}},"
        "\"('b', 0)\":{\"key_metadata\":[{\"key\":\"b\"},{\"key\":0}],\"value_metadata\":"
        "{\"value_type\":\"None\",\"skip_deserialize\":true}},"
        "\"('/',)\":{\"key_metadata\":[{\"key\":\"x/.\"}],\"value_metadata\":"
        "{\"value_type\":\"jax.Array\",\"skip_deserialize\":true}}},\"use_ocdbt\":true}";
    store *s;
    struct pawl_error err = ERROR_INIT;
    struct source *c;
    (void)state;
    assert_ok(store_mem(&s, &err), &err);
    put_text(s, "_METADATA", text);
    assert_ok(made_archive(s, &format_orbax, "_METADATA", &c, &err), &err);
    assert_int_equal(c->entries, 4);
    assert_entry(c, "a", "json \"placeholder\"");
    assert_entry(c, "b/0", "json null");
    assert_entry(c, "x%2F%2E", "json \"jax.Array\"");
    source_destroy(c);
    store_destroy(s);
}

/* ---- verifying ---- */

typedef struct problems {
    int count;
    char entry[64], attempt[128];
} problems;

static void note_problem(void *context, const char *file, const char *entry, pawl_error *story) {
    problems *p = context;
    (void)file;
    p->count++;
    snprintf(p->entry, sizeof(p->entry), "%s", entry != NULL ? entry : "");
    snprintf(p->attempt, sizeof(p->attempt), "%s", story->attempt);
}

static pawl_status no_progress(void *context, uint64_t bytes, pawl_error *err) {
    (void)context;
    (void)bytes;
    (void)err;
    return PAWL_OK;
}

static void test_a_chunk_that_is_damaged(void **state) {
    store *s = copy_sample("files", NULL);
    struct pawl_error err = ERROR_INIT;
    struct source *c;
    CLEANUP(buffer_free) buffer chunk = {0};
    problems found = {0};
    source_verifier v = {.context = &found, .problem = note_problem, .progress = no_progress};
    int16_t values[6];
    (void)state;
    assert_ok(made_archive(s, &format_orbax, "_METADATA", &c, &err), &err);
    assert_ok(c->ops->verify(c, &v, &err), &err);
    assert_int_equal(found.count, 0);
    source_destroy(c);
    assert_ok(store_read_file(s, "%/c/0/0", 4096, &chunk, &err), &err);
    chunk.data[6] ^= 0xff;
    put_anew(s, "%/c/0/0", chunk.data, chunk.size);
    assert_ok(made_archive(s, &format_orbax, "_METADATA", &c, &err), &err);
    assert_ok(c->ops->verify(c, &v, &err), &err);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.entry, "%25");
    assert_fails(made_read(c, "%25", 64, values, sizeof(values), &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.path, "/mem/%/c/0/0");
    source_destroy(c);
    store_destroy(s);
}

/* Its tree says that all are stored: then none has the fill value. */
static void test_a_shard_that_lacks_a_chunk(void **state) {
    store *s = copy_sample("files", NULL);
    struct pawl_error err = ERROR_INIT;
    struct source *c;
    uint8_t shard[20];
    problems found = {0};
    source_verifier v = {.context = &found, .problem = note_problem, .progress = no_progress};
    int16_t values[6];
    uint32_t sum;
    (void)state;
    memset(shard, 0xff, 16);
    sum = crc32c(0, shard, 16);
    memcpy(shard + 16, &sum, 4);
    put_anew(s, "%/c/0/0", shard, sizeof(shard));
    assert_ok(made_archive(s, &format_orbax, "_METADATA", &c, &err), &err);
    assert_ok(c->ops->verify(c, &v, &err), &err);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.attempt, "a shard lacks a chunk");
    assert_fails(made_read(c, "%25", 64, values, sizeof(values), &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.path, "/mem/%/c/0/0");
    source_destroy(c);
    store_destroy(s);
}

/* ---- memory that runs out ---- */

static pawl_status open_and_read(void *context, pawl_error *err) {
    struct source *c;
    store_file *file = NULL;
    uint8_t bytes[4];
    *err = ERROR_INIT;
    TRY(archive_open(context, false, &format_orbax, "manifest.ocdbt", true, &c, err));
    const record_entry e = made_find(c, "shards");
    pawl_status status = c->ops->open(c, e.pieces[0].file, STORE_READ, &file, err);
    if (status == PAWL_OK) {
        status = store_read(file, e.pieces[0].offset, bytes, sizeof(bytes), err);
    }
    store_close(file);
    source_destroy(c);
    return status;
}

static pawl_status open_processes(void *context, pawl_error *err) {
    struct source *c;
    *err = ERROR_INIT;
    TRY(archive_open(context, false, &format_orbax, "_METADATA", true, &c, err));
    source_destroy(c);
    return PAWL_OK;
}

static void test_memory_runs_out(void **state) {
    store *s = copy_sample("arrays", NULL);
    (void)state;
    assert_true(failing_memory_each(open_and_read, s) > 20);
    store_destroy(s);
    s = copy_sample("processes", NULL);
    assert_true(failing_memory_each(open_processes, s) > 20);
    store_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_with_items),
        cmocka_unit_test(test_a_merged_database),
        cmocka_unit_test(test_processes_that_were_not_merged),
        cmocka_unit_test(test_two_processes_that_saved_the_same_chunk),
        cmocka_unit_test(test_keys_of_several_databases),
        cmocka_unit_test(test_no_metadata),
        cmocka_unit_test(test_parts_that_are_missing),
        cmocka_unit_test(test_parts_that_are_not_needed),
        cmocka_unit_test(test_no_manifest_and_no_process),
        cmocka_unit_test(test_a_process_alone),
        cmocka_unit_test(test_a_process_alone_that_describes_nothing),
        cmocka_unit_test(test_a_name_that_is_temporary),
        cmocka_unit_test(test_arrays_of_a_database),
        cmocka_unit_test(test_arrays_that_a_process_has_a_part_of),
        cmocka_unit_test(test_arrays_that_are_files),
        cmocka_unit_test(test_an_array_that_only_the_tree_has),
        cmocka_unit_test(test_leaves_of_which_nothing_is_stored),
        cmocka_unit_test(test_a_chunk_that_is_damaged),
        cmocka_unit_test(test_a_shard_that_lacks_a_chunk),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
