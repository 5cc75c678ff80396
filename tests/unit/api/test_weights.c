/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of other tools through the public calls: opened, read, viewed, verified, restored. */
#include "unit/store/fixtures.h"

#include "lib/directory.h"

#include <pawl/pawl.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS    300
#define COLUMNS 701
#define INDEX   "model.safetensors.index.json"

typedef struct fixture {
    directory dir;
    pawl_error *err;
    pawl_checkpoint *checkpoint;
    float embedding[ROWS][COLUMNS];
    uint16_t bias[COLUMNS];
} fixture;

/* ---- files ---- */

static void put(const fixture *f, const char *name, const char *header, const void *a,
                size_t a_bytes, const void *b, size_t b_bytes) {
    FILE *file = fopen(directory_path(f->dir.path, name), "wb");
    uint64_t length = strlen(header);
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(length >> (8 * i));
    }
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, 8, file), 8);
    assert_int_equal(fwrite(header, 1, length, file), length);
    assert_int_equal(fwrite(a, 1, a_bytes, file), a_bytes);
    assert_int_equal(fwrite(b, 1, b_bytes, file), b_bytes);
    assert_int_equal(fclose(file), 0);
}

static void put_index(const fixture *f, const char *text) {
    FILE *file = fopen(directory_path(f->dir.path, INDEX), "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char embedding_header[] =
    "{\"one\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
    "\"model.embed.weight\":{\"dtype\":\"F32\",\"shape\":[300,701],\"data_offsets\":[1,841201]}}%*"
    "s";

/* Padded so that the embedding begins `phase` bytes behind a multiple of 4. */
static void put_embedding(const fixture *f, const char *name, size_t phase) {
    char header[512];
    int n = snprintf(header, sizeof(header), embedding_header, 0, "");
    size_t now = (8 + (size_t)n + 1) % 4;
    size_t pad = (phase + 4 - now) % 4;
    (void)snprintf(header, sizeof(header), embedding_header, (int)pad, "");
    put(f, name, header, "\7", 1, f->embedding, sizeof(f->embedding));
}

static void put_sharded(const fixture *f, const char *total_size) {
    char index[512];
    put_embedding(f, "model-00001-of-00002.safetensors", 0);
    put(f, "model-00002-of-00002.safetensors",
        "{\"__metadata__\":{\"format\":\"pt\"},\"model.layers.0.bias\":{\"dtype\":\"BF16\","
        "\"shape\":[701],\"data_offsets\":[0,1402]},\"odd\":{\"dtype\":\"C128\",\"shape\":[1],"
        "\"data_offsets\":[1402,1418]}}",
        f->bias, sizeof(f->bias), f->bias, 16);
    snprintf(index, sizeof(index),
             "{\"metadata\":{\"total_size\":%s},\"weight_map\":{"
             "\"model.embed.weight\":\"model-00001-of-00002.safetensors\","
             "\"one\":\"model-00001-of-00002.safetensors\","
             "\"model.layers.0.bias\":\"model-00002-of-00002.safetensors\","
             "\"odd\":\"model-00002-of-00002.safetensors\"}}",
             total_size);
    put_index(f, index);
}

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    directory_make(&f->dir);
    f->err = pawl_error_new();
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < COLUMNS; k++) {
            f->embedding[i][k] = (float)(i * COLUMNS + k);
            f->bias[k] = (uint16_t)(k * 7);
        }
    }
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    pawl_checkpoint_close(f->checkpoint);
    pawl_error_free(f->err);
    directory_remove(&f->dir);
    mem_free(f);
    return 0;
}

static void open_at(fixture *f, const char *path) {
    pawl_checkpoint_close(f->checkpoint);
    f->checkpoint = NULL;
    assert_ok(pawl_checkpoint_open(path, NULL, &f->checkpoint, f->err), f->err);
}

/* ---- reading ---- */

static void assert_embedding(fixture *f) {
    static float whole[ROWS][COLUMNS];
    static const int64_t offset[] = {299, 3};
    static const int64_t extent[] = {1, 5};
    float slice[5];
    memset(whole, 0, sizeof(whole));
    assert_ok(pawl_checkpoint_read(f->checkpoint, "model.embed.weight", NULL, NULL, whole,
                                   sizeof(whole), f->err),
              f->err);
    assert_memory_equal(whole, f->embedding, sizeof(whole));
    assert_ok(pawl_checkpoint_read(f->checkpoint, "model.embed.weight", offset, extent, slice,
                                   sizeof(slice), f->err),
              f->err);
    assert_memory_equal(slice, &f->embedding[299][3], sizeof(slice));
}

/* Through the reader, several threads and views, wherever the elements begin. */
static void test_a_file_aligned_or_not(void **state) {
    fixture *f = *state;
    for (size_t phase = 0; phase < 4; phase++) {
        pawl_view *view = NULL;
        const void *bytes = NULL;
        put_embedding(f, "weights.safetensors", phase);
        open_at(f, directory_path(f->dir.path, "weights.safetensors"));
        assert_embedding(f);
        assert_ok(pawl_view_open(f->checkpoint, "model.embed.weight", 0, &view, f->err), f->err);
        assert_ok(pawl_view_bytes(view, 40000, 400000, &bytes, f->err), f->err);
        assert_memory_equal(bytes, (const uint8_t *)f->embedding + 40000, 400000);
        pawl_view_close(view);
    }
    assert_int_equal(directory_count(f->dir.path), 1); /* nothing was written */
}

static void test_what_is_said_of_a_file(void **state) {
    fixture *f = *state;
    pawl_checkpoint_info info = {.struct_size = sizeof(info)};
    pawl_entry_info entry = {.struct_size = sizeof(entry)};
    put_embedding(f, "weights.safetensors", 1);
    open_at(f, directory_path(f->dir.path, "weights.safetensors"));
    assert_ok(pawl_checkpoint_describe(f->checkpoint, &info, f->err), f->err);
    assert_string_equal(info.format, "safetensors");
    assert_int_equal(info.step, -1);
    assert_int_equal(info.world_size, 0);
    assert_int_equal(info.entries, 2);
    assert_int_equal(info.data_files, 1);
    assert_true(info.unix_time_ns > 0);
    assert_string_equal(info.manifest_json, "{}");
    assert_string_equal(info.framework, "");
    assert_string_equal(strrchr(info.path, '/'), "/weights.safetensors");
    assert_ok(pawl_checkpoint_find(f->checkpoint, "one", &entry, f->err), f->err);
    assert_int_equal(entry.dtype, PAWL_U8);
    assert_string_equal(entry.type, "U8");
    assert_int_equal(entry.role, PAWL_ROLE_MODEL);
    assert_fails(pawl_checkpoint_find(f->checkpoint, "model.embed.weights", &entry, f->err),
                 PAWL_ENOTFOUND, f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_NEXT),
                        "did you mean model.embed.weight?");
}

static void take_text(void *context, const pawl_problem *problem) {
    char *text = context;
    (void)snprintf(text, 1024, "%s: %.900s", problem->file, problem->text);
}

static pawl_status verify(fixture *f, char text[1024], pawl_verify_result *result) {
    const pawl_verify_options options = {
        .struct_size = sizeof(options), .problem = take_text, .context = text};
    text[0] = '\0';
    *result = (pawl_verify_result){.struct_size = sizeof(*result)};
    return pawl_checkpoint_verify(f->checkpoint, &options, result, f->err);
}

static void test_a_link_to_a_file(void **state) {
    fixture *f = *state;
    put_embedding(f, "blob", 0);
    assert_int_equal(symlink("blob", directory_path(f->dir.path, "link.safetensors")), 0);
    open_at(f, directory_path(f->dir.path, "link.safetensors"));
    assert_embedding(f);
}

static void test_a_directory(void **state) {
    fixture *f = *state;
    uint16_t bias[COLUMNS];
    pawl_entry_info entry = {.struct_size = sizeof(entry)};
    put_sharded(f, "842619");
    open_at(f, f->dir.path);
    assert_embedding(f);
    assert_ok(pawl_checkpoint_read(f->checkpoint, "model.layers.0.bias", NULL, NULL, bias,
                                   sizeof(bias), f->err),
              f->err);
    assert_memory_equal(bias, f->bias, sizeof(bias));
    assert_ok(pawl_checkpoint_find(f->checkpoint, "odd", &entry, f->err), f->err);
    assert_string_equal(entry.type, "C128");
    assert_fails(pawl_checkpoint_read(f->checkpoint, "odd", NULL, NULL, bias, 16, f->err),
                 PAWL_EUNSUPPORTED, f->err);
    open_at(f, directory_path(f->dir.path, INDEX));
    assert_embedding(f);
    assert_int_equal(directory_count(f->dir.path), 3);
}

/* Moves a file into `blobs`, under a name that says nothing, and puts a link in its place. */
static void make_blob(const fixture *f, const char *name, const char *blob) {
    char from[256];
    char target[64];
    snprintf(from, sizeof(from), "%s", directory_path(f->dir.path, name));
    snprintf(target, sizeof(target), "blobs/%s", blob);
    assert_int_equal(rename(from, directory_path(f->dir.path, target)), 0);
    assert_int_equal(symlink(target, from), 0);
}

/* As in the cache of huggingface_hub. */
static void test_a_directory_of_links(void **state) {
    fixture *f = *state;
    char text[1024];
    char linked[256];
    pawl_verify_result result;
    put_sharded(f, "842619");
    assert_int_equal(mkdir(directory_path(f->dir.path, "blobs"), 0700), 0);
    make_blob(f, INDEX, "0");
    make_blob(f, "model-00001-of-00002.safetensors", "1");
    make_blob(f, "model-00002-of-00002.safetensors", "2");
    open_at(f, f->dir.path);
    assert_embedding(f);
    assert_ok(verify(f, text, &result), f->err);
    assert_int_equal(result.files, 3);
    open_at(f, directory_path(f->dir.path, INDEX));
    assert_embedding(f);
    open_at(f, directory_path(f->dir.path, "model-00001-of-00002.safetensors"));
    assert_embedding(f);
    /* A link of another name, from elsewhere: the files are beside the index, not beside it. */
    snprintf(linked, sizeof(linked), "%s", directory_path(f->dir.path, "blobs/mine"));
    assert_int_equal(symlink("../" INDEX, linked), 0);
    open_at(f, linked);
    assert_embedding(f);
}

/* ---- refused ---- */

static void test_a_step_of_weights(void **state) {
    fixture *f = *state;
    pawl_checkpoint *c = NULL;
    put_embedding(f, "weights.safetensors", 1);
    static const int64_t seven = 7;
    const pawl_open_options options = {.struct_size = sizeof(options), .step = &seven};
    assert_fails(pawl_checkpoint_open(directory_path(f->dir.path, "weights.safetensors"), &options,
                                      &c, f->err),
                 PAWL_ENOTFOUND, f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                        "this is one checkpoint, without steps");
    assert_fails(pawl_checkpoint_open(f->dir.path, &options, &c, f->err), PAWL_ENOTFOUND, f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                        "this is one checkpoint, without steps");
}

static void test_r14_a_link_that_leads_to_no_file(void **state) {
    static const struct {
        const char *target, *found;
    } cases[] = {
        {"gone", "a symbolic link to gone, which does not exist"},
        {"pipe", "a pipe, a socket or a device"},
        {"folder", "a directory"},
        {"model-00002-of-00002.safetensors", "a symbolic link to model-00002-of-00002.safetensors, "
                                             "which leads in a circle, or too far"},
    };
    fixture *f = *state;
    pawl_checkpoint *c = NULL;
    char shard[256];
    put_sharded(f, "842619");
    assert_int_equal(mkfifo(directory_path(f->dir.path, "pipe"), 0600), 0);
    assert_int_equal(mkdir(directory_path(f->dir.path, "folder"), 0700), 0);
    snprintf(shard, sizeof(shard), "%s",
             directory_path(f->dir.path, "model-00002-of-00002.safetensors"));
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(unlink(shard), 0);
        assert_int_equal(symlink(cases[i].target, shard), 0);
        assert_int_not_equal(pawl_checkpoint_open(f->dir.path, NULL, &c, f->err), PAWL_OK);
        assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_FOUND), cases[i].found);
        assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_PATH), shard);
    }
}

static void test_r09_nothing_to_open(void **state) {
    fixture *f = *state;
    pawl_checkpoint *c = NULL;
    pawl_catalog *catalog = NULL;
    put_embedding(f, "a.safetensors", 0);
    assert_fails(pawl_catalog_open(f->dir.path, NULL, &catalog, f->err), PAWL_ENOTFOUND, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_NEXT), "look at it with pawl show");
    put_embedding(f, "b.safetensors", 0);
    assert_fails(pawl_checkpoint_open(f->dir.path, NULL, &c, f->err), PAWL_ENOTFOUND, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), "several files of weights");
    assert_fails(
        pawl_checkpoint_open(directory_path(f->dir.path, "c.safetensors"), NULL, &c, f->err),
        PAWL_ENOTFOUND, f->err);
}

static void put_empty(const fixture *f, const char *name) {
    FILE *file = fopen(directory_path(f->dir.path, name), "wb");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

/* Ranks that were killed while they restored from a run, or a doctor, left them. */
static void test_files_of_visitors_make_no_run(void **state) {
    fixture *f = *state;
    pawl_catalog *catalog = NULL;
    pawl_checkpoint *c = NULL;
    put_empty(f, "visit-0123456789ab-1-r00001");
    put_empty(f, "visit-0123456789ab-1-answer.tmp");
    put_empty(f, ".pawl-doctor-0123456789ab");
    assert_fails(pawl_catalog_open(f->dir.path, NULL, &catalog, f->err), PAWL_ENOTFOUND, f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_FOUND),
                        "only files that a restore or a doctor left behind");
    put_embedding(f, "weights.safetensors", 0);
    assert_fails(pawl_catalog_open(f->dir.path, NULL, &catalog, f->err), PAWL_ENOTFOUND, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_NEXT), "this is no run");
    open_at(f, f->dir.path);
    assert_embedding(f);
    put_empty(f, "reserve");
    assert_fails(pawl_checkpoint_open(f->dir.path, NULL, &c, f->err), PAWL_ENOTFOUND, f->err);
}

/* ---- verifying ---- */

static void test_verify_says_what_it_could_not_check(void **state) {
    fixture *f = *state;
    char text[1024];
    pawl_verify_result result;
    put_sharded(f, "842619");
    open_at(f, f->dir.path);
    assert_ok(verify(f, text, &result), f->err);
    assert_int_equal(result.entries, 4);
    assert_int_equal(result.files, 3);
    assert_says(result.unverified, "the values, because safetensors files have no checksums");
}

static void test_verify_finds_what_can_be_found(void **state) {
    fixture *f = *state;
    char text[1024];
    pawl_verify_result result;
    put_sharded(f, "842618");
    open_at(f, f->dir.path);
    assert_fails(verify(f, text, &result), PAWL_EDAMAGED, f->err);
    assert_says(text, INDEX ": the index of the weights names another size of all tensors");
}

/* ---- changed while they are open ---- */

/* As if it had been changed later, whatever the clock's resolution. */
static void touch(const fixture *f, const char *name) {
    const struct timespec times[] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, directory_path(f->dir.path, name), times, 0), 0);
}

static void assert_changed(fixture *f, pawl_status status, const char *how, const char *found) {
    assert_fails(status, PAWL_EBUSY, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), how);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_FOUND), found);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_PATH), "/model-00001-of-00002.safetensors");
}

/* Each call that reads the embedding says so. */
static void assert_all_changed(fixture *f, const char *how, const char *found) {
    static float whole[ROWS][COLUMNS];
    static const int64_t at[] = {299, 700};
    static const int64_t one[] = {1, 1};
    char text[1024];
    pawl_verify_result result;
    const char *name = "model.embed.weight";
    pawl_tensor tensor = {.struct_size = sizeof(tensor)};
    assert_changed(
        f, pawl_checkpoint_read(f->checkpoint, name, NULL, NULL, whole, sizeof(whole), f->err), how,
        found);
    assert_changed(f,
                   pawl_checkpoint_read(f->checkpoint, name, at, one, whole, sizeof(float), f->err),
                   how, found);
    assert_changed(f, verify(f, text, &result), how, found);
    assert_string_equal(text, "");
    assert_changed(f, pawl_checkpoint_tensor(f->checkpoint, name, &tensor, f->err), how, found);
}

static void test_r14_a_file_that_was_changed_is_not_read(void **state) {
    static const char shard[] = "model-00001-of-00002.safetensors";
    fixture *f = *state;
    char path[256];
    snprintf(path, sizeof(path), "%s", directory_path(f->dir.path, shard));
    put_sharded(f, "842619");
    open_at(f, f->dir.path);
    touch(f, shard);
    assert_all_changed(f, "was changed while it was open", "another one");
    open_at(f, f->dir.path);
    assert_embedding(f);
    open_at(f, f->dir.path);
    assert_int_equal(truncate(path, 840000), 0);
    assert_all_changed(f, "was changed while it was open", "840000 bytes");
    put_sharded(f, "842619");
    open_at(f, f->dir.path);
    assert_int_equal(unlink(path), 0);
    assert_all_changed(f, "was removed while it was open", "no such file");
}

/* Its file is open, and would not show that its name belongs to another one by now. */
static void test_r14_a_view_of_a_file_that_was_changed(void **state) {
    static const char shard[] = "model-00001-of-00002.safetensors";
    fixture *f = *state;
    pawl_view *view = NULL;
    const void *bytes = NULL;
    const void *later = NULL;
    put_sharded(f, "842619");
    open_at(f, f->dir.path);
    assert_ok(pawl_view_open(f->checkpoint, "model.embed.weight", 0, &view, f->err), f->err);
    assert_ok(pawl_view_bytes(view, 0, 4096, &bytes, f->err), f->err);
    assert_int_equal(truncate(directory_path(f->dir.path, shard), 0), 0);
    assert_memory_equal(bytes, f->embedding, 4096); /* no SIGBUS: it is not mapped */
    assert_changed(f, pawl_view_bytes(view, 400000, 4096, &later, f->err),
                   "was changed while it was open", "0 bytes");
    pawl_view_close(view);
}

/* ---- restoring ---- */

static void add(pawl_state *state, const char *name, pawl_dtype dtype, int ndim,
                const int64_t *shape, void *data, pawl_error *err) {
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = name,
                                .dtype = dtype,
                                .ndim = ndim,
                                .shape = shape,
                                .data = data};
    assert_ok(pawl_state_add_tensor(state, &tensor, err), err);
}

static void test_a_state_is_restored_with_renames(void **state) {
    static const int64_t matrix[] = {ROWS, COLUMNS};
    static const int64_t vector[] = {COLUMNS};
    static const pawl_rename renames[] = {{.from = "model.embed.weight", .to = "embedding"},
                                          {.from = "model.layers.0.bias", .to = "layer/bias"}};
    static float embedding[ROWS][COLUMNS];
    float bias[COLUMNS];
    fixture *f = *state;
    pawl_state *wanted = NULL;
    pawl_report *report = NULL;
    const pawl_restore_options options = {.struct_size = sizeof(options),
                                          .renames = renames,
                                          .rename_size = sizeof renames[0],
                                          .rename_count = ARRAY_LENGTH(renames),
                                          .unexpected = PAWL_POLICY_ALLOW,
                                          .cast = PAWL_POLICY_ALLOW};
    put_sharded(f, "842619");
    open_at(f, f->dir.path);
    assert_ok(pawl_state_new(&wanted, f->err), f->err);
    add(wanted, "embedding", PAWL_F32, 2, matrix, embedding, f->err);
    add(wanted, "layer/bias", PAWL_F32, 1, vector, bias, f->err);
    assert_fails(pawl_checkpoint_restore(f->checkpoint, wanted, NULL, NULL, f->err), PAWL_EMISMATCH,
                 f->err);
    assert_ok(pawl_checkpoint_restore(f->checkpoint, wanted, &options, &report, f->err), f->err);
    assert_memory_equal(embedding, f->embedding, sizeof(embedding));
    for (size_t i = 0; i < COLUMNS; i++) {
        uint32_t bits = (uint32_t)f->bias[i] << 16;
        assert_memory_equal(&bias[i], &bits, sizeof(bits));
    }
    assert_int_equal(pawl_report_step(report), -1);
    assert_says(pawl_report_text(report), "restored 2 entries");
    pawl_report_free(report);
    pawl_state_free(wanted);
}

/* ---- converting ---- */

static pawl_status save(fixture *f, const char *path, pawl_state *state) {
    pawl_run *run = NULL;
    assert_ok(pawl_run_open(path, NULL, &run, f->err), f->err);
    pawl_status status = pawl_save(run, state, 1, NULL, f->err);
    status = status == PAWL_OK ? pawl_wait(run, 0, NULL, f->err) : status;
    pawl_status closed = pawl_run_close(run, 0, NULL);
    return status != PAWL_OK ? status : closed;
}

static void lend(fixture *f, pawl_state *to, const char *name, const char *as) {
    pawl_tensor tensor = {.struct_size = sizeof(tensor)};
    assert_ok(pawl_checkpoint_tensor(f->checkpoint, name, &tensor, f->err), f->err);
    tensor.name = as;
    assert_ok(pawl_state_add_tensor(to, &tensor, f->err), f->err);
}

/* Under other names, while nothing but buffers is in memory; the embedding is not aligned. */
static void test_weights_are_converted_into_a_checkpoint(void **state) {
    fixture *f = *state;
    static float embedding[ROWS][COLUMNS];
    uint16_t bias[COLUMNS];
    uint8_t one = 0;
    char to[256];
    pawl_state *made = NULL;
    snprintf(to, sizeof(to), "%s", directory_path(f->dir.path, "run"));
    put_sharded(f, "842619");
    put_embedding(f, "model-00001-of-00002.safetensors", 3);
    open_at(f, f->dir.path);
    assert_ok(pawl_state_new(&made, f->err), f->err);
    lend(f, made, "model.embed.weight", "embedding");
    lend(f, made, "model.layers.0.bias", "layer/bias");
    lend(f, made, "one", "one");
    assert_ok(save(f, to, made), f->err);
    pawl_state_free(made);
    open_at(f, to);
    assert_ok(pawl_checkpoint_read(f->checkpoint, "embedding", NULL, NULL, embedding,
                                   sizeof(embedding), f->err),
              f->err);
    assert_memory_equal(embedding, f->embedding, sizeof(embedding));
    assert_ok(
        pawl_checkpoint_read(f->checkpoint, "layer/bias", NULL, NULL, bias, sizeof(bias), f->err),
        f->err);
    assert_memory_equal(bias, f->bias, sizeof(bias));
    assert_ok(pawl_checkpoint_read(f->checkpoint, "one", NULL, NULL, &one, 1, f->err), f->err);
    assert_int_equal(one, 7);
    assert_ok(pawl_checkpoint_verify(f->checkpoint, NULL, NULL, f->err), f->err);
}

static void test_elements_of_no_dtype_are_not_converted(void **state) {
    fixture *f = *state;
    pawl_tensor tensor = {.struct_size = sizeof(tensor)};
    put_sharded(f, "842619");
    open_at(f, f->dir.path);
    assert_fails(pawl_checkpoint_tensor(f->checkpoint, "odd", &tensor, f->err), PAWL_EUNSUPPORTED,
                 f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ENTRY), "odd");
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_FOUND), "C128");
}

/* Before the first tensor is handed out all files are opened once more. */
static void test_weights_that_were_changed_are_not_converted(void **state) {
    fixture *f = *state;
    pawl_tensor tensor = {.struct_size = sizeof(tensor)};
    put_sharded(f, "842619");
    open_at(f, f->dir.path);
    put_embedding(f, "model-00001-of-00002.safetensors", 1);
    assert_fails(pawl_checkpoint_tensor(f->checkpoint, "one", &tensor, f->err), PAWL_EBUSY, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), "was changed while it was open");
    open_at(f, f->dir.path);
    assert_ok(pawl_checkpoint_tensor(f->checkpoint, "one", &tensor, f->err), f->err);
}

/* While they are saved. */
static void test_weights_that_are_cut_fail_the_save(void **state) {
    fixture *f = *state;
    char to[256];
    pawl_state *made = NULL;
    snprintf(to, sizeof(to), "%s", directory_path(f->dir.path, "run"));
    put_sharded(f, "842619");
    open_at(f, f->dir.path);
    assert_ok(pawl_state_new(&made, f->err), f->err);
    lend(f, made, "model.embed.weight", "embedding");
    assert_int_equal(
        truncate(directory_path(f->dir.path, "model-00001-of-00002.safetensors"), 840000), 0);
    assert_fails(save(f, to, made), PAWL_EBUSY, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                "saving step 1: copying from the memory \"checkpoint (safetensors, sharded)\": ");
    assert_says(pawl_error_get(f->err, PAWL_ERROR_PATH), "/model-00001-of-00002.safetensors");
    pawl_state_free(made);
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(test_a_file_aligned_or_not),
        IN_DIRECTORY(test_what_is_said_of_a_file),
        IN_DIRECTORY(test_a_link_to_a_file),
        IN_DIRECTORY(test_a_directory),
        IN_DIRECTORY(test_a_directory_of_links),
        IN_DIRECTORY(test_a_step_of_weights),
        IN_DIRECTORY(test_r14_a_link_that_leads_to_no_file),
        IN_DIRECTORY(test_r09_nothing_to_open),
        IN_DIRECTORY(test_files_of_visitors_make_no_run),
        IN_DIRECTORY(test_verify_says_what_it_could_not_check),
        IN_DIRECTORY(test_verify_finds_what_can_be_found),
        IN_DIRECTORY(test_r14_a_file_that_was_changed_is_not_read),
        IN_DIRECTORY(test_r14_a_view_of_a_file_that_was_changed),
        IN_DIRECTORY(test_a_state_is_restored_with_renames),
        IN_DIRECTORY(test_weights_are_converted_into_a_checkpoint),
        IN_DIRECTORY(test_elements_of_no_dtype_are_not_converted),
        IN_DIRECTORY(test_weights_that_were_changed_are_not_converted),
        IN_DIRECTORY(test_weights_that_are_cut_fail_the_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
