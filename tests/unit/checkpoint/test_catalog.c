/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a run's checkpoints, and what is said where there is none (R09). */
#include "lib/training.h"

#include <errno.h>

static pawl_catalog *list(training *f) {
    struct pawl_error err = ERROR_INIT;
    pawl_catalog *catalog = NULL;
    assert_ok(catalog_open(f->disk, &f->os.table, NULL, &catalog, &err), &err);
    return catalog;
}

/* On an object store there are only directories with something in them. */
static void name_in(const char *directory, char out[256]) {
    snprintf(out, 256, "%s/x", directory);
}

static void make_dir(training *f, const char *path) {
    struct pawl_error err = ERROR_INIT;
    char inside[256];
    assert_ok(store_make_dir(f->disk, path, &err), &err);
    if (f->disk->traits.objects) {
        name_in(path, inside);
        put_anew(f->disk, inside, "x", 1);
    }
}

static void remove_dir(training *f, const char *path) {
    struct pawl_error err = ERROR_INIT;
    char inside[256];
    if (f->disk->traits.objects) {
        name_in(path, inside);
        assert_ok(store_unlink(f->disk, inside, &err), &err);
        return;
    }
    assert_ok(store_remove_dir(f->disk, path, &err), &err);
}

static void put(training *f, const char *path) {
    put_anew(f->disk, path, "x", 1);
}

/* ---- listing ---- */

static void test_steps_ascend_with_what_their_manifests_say(void **state) {
    training *f = *state;
    pawl_catalog *catalog = list(f);
    assert_int_equal(pawl_catalog_count(catalog), 3);
    for (size_t i = 0; i < 3; i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        assert_int_equal(info->step, 100 * (int64_t)(i + 1));
        assert_int_equal(info->status, PAWL_STEP_COMMITTED);
        assert_int_equal(info->entries, 9);
        assert_int_equal(info->files, 3);
        assert_int_equal(info->world_size, 1);
        assert_true(f->late != f->disk || info->unix_time_ns == 1700000000000000000);
        assert_string_equal(info->metrics_json, "{\"loss\": 0.5}");
        assert_null(info->why);
        assert_true(info->bytes > 2 * sizeof(f->kernel));
        assert_false(info->pinned || info->being_read);
    }
    assert_null(pawl_catalog_get(catalog, 3));
    pawl_catalog_free(catalog);
}

static void test_no_data_file_is_opened(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_catalog *catalog = NULL;
    store_fault_set(f->fault, &(store_fault){0});
    assert_ok(catalog_open(f->fault, &f->os.table, NULL, &catalog, &err), &err);
    assert_int_equal(store_fault_count(f->fault, STORE_OP_OPEN), 3 + 1); /* manifests, `latest` */
    pawl_catalog_free(catalog);
}

/* ---- the newest alone ---- */

static int64_t newest(store *s, const training *f) {
    struct pawl_error err = ERROR_INIT;
    int64_t found = 77;
    assert_ok(catalog_newest(s, &f->os.table, &found, &err), &err);
    return found;
}

static void test_for_the_newest_no_older_step_is_looked_at(void **state) {
    training *f = *state;
    make_dir(f, "step-00000400");
    put(f, "step-00000400/data-000000000001-1-00000-of-00001.safetensors");
    store_fault_set(f->fault, &(store_fault){0});
    assert_int_equal(newest(f->fault, f), 300);
    assert_int_equal(store_fault_count(f->fault, STORE_OP_OPEN), 1 + 1); /* manifest, `latest` */
    assert_int_equal(store_fault_count(f->fault, STORE_OP_LIST), 1 + 1); /* the run, 300 */
}

static void test_the_newest_is_whole(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    training_flip(f, "step-00000300/manifest.json", 30);
    assert_int_equal(newest(f->disk, f), 200);
    training_path(f, 200, NAME_KIND_DATA, path);
    assert_ok(store_unlink(f->disk, path, &err), &err);
    assert_int_equal(newest(f->disk, f), 100);
    assert_ok(store_unlink(f->disk, "step-00000100/manifest.json", &err), &err);
    assert_int_equal(newest(f->disk, f), -1);
}

static void test_a_step_that_cannot_be_looked_at_is_not_the_newest(void **state) {
    training *f = *state;
    store_fault_set(f->fault, &(store_fault){.op = STORE_OP_STAT, .nth = 1, .system_errno = EIO});
    assert_int_equal(newest(f->fault, f), 200);
}

static void test_a_step_without_manifest_is_unfinished(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_unlink(f->disk, "step-00000200/manifest.json", &err), &err);
    pawl_catalog *catalog = list(f);
    const pawl_step_info *info = pawl_catalog_get(catalog, 1);
    assert_int_equal(info->status, PAWL_STEP_UNFINISHED);
    assert_string_equal(info->why,
                        "no manifest: a save in progress, or what an interrupted one left");
    pawl_catalog_free(catalog);
}

static void test_r08_a_step_with_a_missing_file_is_damaged(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    training_path(f, 200, NAME_KIND_DATA, path);
    assert_ok(store_unlink(f->disk, path, &err), &err);
    pawl_catalog *catalog = list(f);
    const pawl_step_info *info = pawl_catalog_get(catalog, 1);
    assert_int_equal(info->status, PAWL_STEP_DAMAGED);
    assert_says(info->why, "a data file of the checkpoint is missing: ");
    assert_says(info->why, path);
    assert_says(info->why, "found no such file");
    assert_int_equal(info->entries, 9);
    pawl_catalog_free(catalog);
}

static void test_r08_a_damaged_manifest_is_told(void **state) {
    training *f = *state;
    training_flip(f, "step-00000300/manifest.json", 30);
    pawl_catalog *catalog = list(f);
    const pawl_step_info *info = pawl_catalog_get(catalog, 2);
    assert_int_equal(info->status, PAWL_STEP_DAMAGED);
    assert_says(info->why, "step-00000300/manifest.json");
    assert_string_equal(info->metrics_json, "{}");
    pawl_catalog_free(catalog);
}

static void test_p02_a_step_that_may_not_be_read_is_not_called_damaged(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_catalog *catalog = NULL;
    store_fault_set(
        f->fault,
        &(store_fault){.op = STORE_OP_OPEN, .nth = 1, .system_errno = EACCES, .forever = true});
    assert_ok(catalog_open(f->fault, &f->os.table, NULL, &catalog, &err), &err);
    assert_int_equal(pawl_catalog_count(catalog), 3);
    for (size_t i = 0; i < 3; i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        assert_int_equal(info->status, PAWL_STEP_UNREADABLE);
        assert_says(info->why, "EACCES");
    }
    pawl_catalog_free(catalog);
}

static void test_a_copied_directory_is_damaged(void **state) {
    training *f = *state;
    CLEANUP(buffer_free) buffer text = {0};
    training_take_file(f, "step-00000300/manifest.json", &text);
    make_dir(f, "step-00000400");
    put_anew(f->disk, "step-00000400/manifest.json", text.data, text.size);
    pawl_catalog *catalog = list(f);
    const pawl_step_info *info = pawl_catalog_get(catalog, 3);
    assert_int_equal(info->status, PAWL_STEP_DAMAGED);
    assert_says(info->why, "the manifest is that of another step");
    assert_says(info->why, "expected step 400, as its directory says, found step 300");
    pawl_catalog_free(catalog);
}

static void test_a_pin_is_seen(void **state) {
    training *f = *state;
    put(f, "step-00000100/pinned");
    pawl_catalog *catalog = list(f);
    assert_true(pawl_catalog_get(catalog, 0)->pinned);
    assert_false(pawl_catalog_get(catalog, 1)->pinned);
    pawl_catalog_free(catalog);
}

static void test_a_reader_is_seen(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(training_open(f, 200, &err), &err);
    pawl_catalog *catalog = list(f);
    assert_false(pawl_catalog_get(catalog, 0)->being_read);
    assert_true(pawl_catalog_get(catalog, 1)->being_read);
    pawl_catalog_free(catalog);
}

static void test_other_names_are_no_steps(void **state) {
    training *f = *state;
    make_dir(f, "step-1");
    make_dir(f, "step-000000200");
    make_dir(f, "other");
    put(f, "step-00000999");
    pawl_catalog *catalog = list(f);
    assert_int_equal(pawl_catalog_count(catalog), 4);
    const pawl_step_info *named_like_one = pawl_catalog_get(catalog, 3);
    assert_int_equal(named_like_one->step, 999);
    assert_int_equal(named_like_one->status, PAWL_STEP_UNFINISHED);
    assert_says(named_like_one->why,
                "step-00000999 has the name of a step, but is not a directory");
    pawl_catalog_free(catalog);
}

/* ---- nothing there (R09) ---- */

static pawl_status explain(training *f, pawl_error *err) {
    pawl_catalog *catalog = list(f);
    pawl_status status = catalog_explain_missing(f->disk, catalog, err);
    pawl_catalog_free(catalog);
    return status;
}

static void test_r09_an_empty_directory(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(explain(f, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.attempt, "there is no checkpoint here");
    assert_string_equal(err.path, "/mem");
    assert_string_equal(err.found, "an empty directory");
    assert_string_equal(err.next, "training starts from the beginning: the first save makes the "
                                  "first checkpoint; check the path if there should be one");
}

static void test_r09_a_run_without_checkpoints(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_run(f);
    assert_fails(explain(f, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.found, "a run that has no checkpoint yet");
}

static void test_r09_a_run_of_many_ranks_without_checkpoints(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_run(f);
    for (int rank = 1; rank < 300; rank++) {
        char name[80];
        name_meet(name, "0123456789ab", 2, rank);
        put(f, name);
    }
    put(f, "meet-0123456789ab-2-answer");
    put(f, "outcome-0123456789ab-16");
    assert_fails(explain(f, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.found, "a run that has no checkpoint yet");
}

static void test_r09_only_unfinished_saves(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    make_dir(f, "step-00000100");
    make_dir(f, "step-00000200");
    assert_fails(explain(f, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.attempt, "there is no intact checkpoint in this run");
    assert_string_equal(err.found, "2 unfinished and 0 damaged or unreadable steps: 100, 200");
    assert_string_equal(err.next, "training starts from the beginning; look at what is left with: "
                                  "pawl ls /mem");
}

static void test_r09_the_directory_of_one_step(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    put(f, "manifest.json");
    put(f, "index-0123456789ab-1");
    assert_fails(explain(f, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.attempt, "this is the directory of one step, not of a run");
    assert_string_equal(err.next, "name the run: pawl ls /");
}

static void test_r09_the_parent_of_runs(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    make_dir(f, "first");
    make_dir(f, "first/step-00000100");
    put(f, "model.pt");
    assert_fails(explain(f, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.attempt,
                        "there is no checkpoint here, but there is in a directory below");
    assert_string_equal(err.found, "1 run below it: first");
    assert_string_equal(err.next, "did you mean /mem/first? See it with: pawl ls /mem/first");
}

static void test_r09_other_files(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    put(f, "a.txt");
    put(f, "b.txt");
    put(f, "c.txt");
    put(f, "d.txt");
    assert_fails(explain(f, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.found, "4 other names: a.txt, b.txt, c.txt, ...");
    assert_string_equal(err.next,
                        "check the path; a new run should begin in a directory of its own");
}

#define OPEN  "look at it with pawl show"
#define TORCH "list the files in it with pawl ls"

/* Each tool by the names that it makes. */
static void test_r09_other_tools_checkpoints_are_recognised(void **state) {
    training *f = *state;
    static const struct {
        const char *name;
        bool directory;
        const char *what;
        const char *next;
    } tools[] = {
        {".metadata", false, "a PyTorch distributed checkpoint (DCP)", OPEN},
        {"__0_0.distcp", false,
         "an unfinished PyTorch distributed checkpoint (DCP): its .metadata is missing",
         "take another one, or get .metadata"},
        {"checkpoint-500", true, "checkpoints of the Hugging Face Trainer", TORCH},
        {"checkpoint_0", true, "checkpoints of Hugging Face Accelerate", TORCH},
        {"global_step1000", true, "checkpoints of DeepSpeed", TORCH},
        {"latest_checkpointed_iteration.txt", false, "checkpoints of Megatron-LM", TORCH},
        {"iter_0001000", true, "checkpoints of Megatron-LM", TORCH},
        {"ckpt-1.index", false, "a TensorFlow checkpoint", OPEN},
        {"ckpt-1.data-00000-of-00001", false, "a TensorFlow checkpoint", OPEN},
        {"saved_model.pb", false, "a TensorFlow SavedModel", OPEN},
        {"saved_model.pbtxt", false, "a TensorFlow SavedModel that is text",
         "let TensorFlow write it as saved_model.pb"},
        {"model.safetensors", false, "safetensors weights", OPEN},
        {"commit_success.txt", false, "a checkpoint of Orbax", OPEN},
        {"_METADATA", false, "a checkpoint of Orbax", OPEN},
        {"10.orbax-checkpoint-tmp-12", true, "unfinished checkpoints of Orbax",
         "take a finished step"},
        {"model.pt", false, "a PyTorch file", OPEN},
        {"last.ckpt", false, "a PyTorch Lightning checkpoint", OPEN},
        {"model.keras", false, "a Keras model", OPEN},
        {"weights.h5", false, "an HDF5 file, such as older Keras weights", OPEN},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(tools); i++) {
        struct pawl_error err = ERROR_INIT;
        char text[128];
        if (tools[i].directory) {
            make_dir(f, tools[i].name);
        } else {
            put(f, tools[i].name);
        }
        assert_fails(explain(f, &err), PAWL_ENOTFOUND, &err);
        snprintf(text, sizeof(text), "there is no checkpoint of pawl here, but %s", tools[i].what);
        assert_string_equal(err.attempt, text);
        assert_string_equal(err.found, tools[i].name);
        assert_says(err.next, tools[i].next);
        if (tools[i].directory) {
            remove_dir(f, tools[i].name);
        } else {
            assert_ok(store_unlink(f->disk, tools[i].name, &err), &err);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define STEPS(test) cmocka_unit_test_setup_teardown(test, training_set_up_steps, training_tear_down)
#define EMPTY(test) cmocka_unit_test_setup_teardown(test, training_set_up, training_tear_down)
        STEPS(test_steps_ascend_with_what_their_manifests_say),
        STEPS(test_no_data_file_is_opened),
        STEPS(test_for_the_newest_no_older_step_is_looked_at),
        STEPS(test_the_newest_is_whole),
        STEPS(test_a_step_that_cannot_be_looked_at_is_not_the_newest),
        STEPS(test_a_step_without_manifest_is_unfinished),
        STEPS(test_r08_a_step_with_a_missing_file_is_damaged),
        STEPS(test_r08_a_damaged_manifest_is_told),
        STEPS(test_p02_a_step_that_may_not_be_read_is_not_called_damaged),
        STEPS(test_a_copied_directory_is_damaged),
        STEPS(test_a_pin_is_seen),
        STEPS(test_a_reader_is_seen),
        STEPS(test_other_names_are_no_steps),
        EMPTY(test_r09_an_empty_directory),
        EMPTY(test_r09_a_run_without_checkpoints),
        EMPTY(test_r09_a_run_of_many_ranks_without_checkpoints),
        EMPTY(test_r09_only_unfinished_saves),
        EMPTY(test_r09_the_directory_of_one_step),
        EMPTY(test_r09_the_parent_of_runs),
        EMPTY(test_r09_other_files),
        EMPTY(test_r09_other_tools_checkpoints_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
