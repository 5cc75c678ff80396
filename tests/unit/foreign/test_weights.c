/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files and Hugging Face directories as sources: what they have, which file of a
 * directory is opened, and what is refused (R14). */
#include "unit/foreign/made.h"

#include "lib/failing_memory.h"
#include "lib/in_memory.h"

#define INDEX "model.safetensors.index.json"

/* ---- one file ---- */

static void test_the_tensors_of_a_file(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    char text[128];
    make_file(s, "a.safetensors",
              " {\"z\":{\"shape\":[2,2],\"dtype\":\"F32\",\"data_offsets\":[0,16],\"more\":[1]}, "
              "\"__metadata__\":{\"format\":\"pt\"},\"b.weight\":{\"dtype\":\"U8\",\"shape\":[],"
              "\"data_offsets\":[16,17]},\"none\":{\"dtype\":\"F64\",\"shape\":[0,3],"
              "\"data_offsets\":[16,16]}}      ",
              -1, 17);
    assert_ok(open_made(s, "a.safetensors", &w, &err), &err);
    assert_string_equal(w->format, "safetensors");
    assert_int_equal(w->entries, 3);
    assert_int_equal(w->files, 1);
    assert_int_equal(w->step, -1);
    assert_int_equal(w->world_size, 0);
    assert_string_equal(w->path, "/mem");
    assert_says(made_entry(w, "z", text), "F32 [2, 2] file ");
    assert_says(made_entry(w, "b.weight", text), "U8 [] file 0 at ");
    assert_says(made_entry(w, "none", text), "of 0");
    assert_string_equal(made_entry(w, "y", text), "");
    source_destroy(w);
}

/* The data begins at an odd byte: tensors that need it are in files that begin later. */
static void test_unaligned_tensors_are_in_a_shifted_file(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    store_file *file;
    char text[128];
    float read = 0;
    make_file(s, "a.safetensors",
              "{\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
              "\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}",
              -1, 5);
    assert_ok(open_made(s, "a.safetensors", &w, &err), &err);
    uint64_t data = w->ops->file(w, 0).bytes - 5;
    uint32_t phase = (uint32_t)((data + 1) % 4);
    snprintf(text, sizeof(text), "F32 [1] file %u at %llu of 4", phase,
             (unsigned long long)(data + 1 - phase));
    char found[128];
    assert_string_equal(made_entry(w, "f", found), text);
    assert_true(phase != 0);
    assert_int_equal(w->ops->file(w, phase).bytes, data + 5 - phase);
    assert_ok(w->ops->open(w, phase, STORE_READ, &file, &err), &err);
    uint64_t size;
    assert_ok(store_size(file, &size, &err), &err);
    assert_int_equal(size, data + 5 - phase);
    assert_ok(store_read(file, data + 1 - phase, &read, sizeof(read), &err), &err);
    static const uint8_t expected[] = {1, 2, 3, 4};
    assert_memory_equal(&read, expected, sizeof(expected));
    assert_fails(store_read(file, data + 2 - phase, &read, sizeof(read), &err), PAWL_EDAMAGED,
                 &err);
    store_close(file);
    source_destroy(w);
}

/* What was read while it was changed is not handed on. */
static void test_r14_a_file_that_is_changed_while_it_is_read(void **state) {
    static const char header[] = "{\"u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    store_file *file;
    uint8_t bytes[4];
    make_file(s, "a.safetensors", header, -1, 4);
    assert_ok(open_made(s, "a.safetensors", &w, &err), &err);
    assert_ok(w->ops->open(w, 0, STORE_READ, &file, &err), &err);
    assert_ok(store_read(file, 0, bytes, sizeof(bytes), &err), &err);
    make_file(s, "a.safetensors", header, -1, 5);
    assert_fails(store_read(file, 0, bytes, sizeof(bytes), &err), PAWL_EBUSY, &err);
    assert_string_equal(err.attempt, "a file of the checkpoint was changed while it was open");
    assert_string_equal(err.path, "/mem/a.safetensors");
    store_close(file);
    source_destroy(w);
}

static void test_a_type_that_is_no_dtype(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    char text[128];
    make_file(s, "a.safetensors",
              "{\"c\":{\"dtype\":\"C128\",\"shape\":[2],\"data_offsets\":[0,32]}}", -1, 32);
    assert_ok(open_made(s, "a.safetensors", &w, &err), &err);
    assert_says(made_entry(w, "c", text), "C128 [2] file 0 at ");
    source_destroy(w);
    make_file(s, "a.safetensors",
              "{\"c\":{\"dtype\":\"\\u001b[2J\",\"shape\":[2],\"data_offsets\":[0,32]}}", -1, 32);
    assert_fails(open_made(s, "a.safetensors", &w, &err), PAWL_EDAMAGED, &err);
    make_file(s, "a.safetensors",
              "{\"c\":{\"dtype\":\"A_TYPE_WITH_A_NAME_THAT_IS_TOO_LONG\",\"shape\":[2],"
              "\"data_offsets\":[0,32]}}",
              -1, 32);
    assert_fails(open_made(s, "a.safetensors", &w, &err), PAWL_EDAMAGED, &err);
}

#define TENSOR(offsets) "{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" offsets "}"

static void test_r14_hostile_headers(void **state) {
    static const struct {
        const char *header;
        int64_t length;
        pawl_status status;
        const char *says;
        uint64_t at;
    } cases[] = {
        {"{}", 11, PAWL_EDAMAGED, "passes the end of the data file", 0},
        {"{}", INT64_MAX, PAWL_ELIMIT, "the header length at byte 0 is too large", 0},
        {"{\"a\":" TENSOR("[0,4]") ",\"b\":" TENSOR("[2,6]") "}", -1, PAWL_EDAMAGED,
         "tensors overlap", 0},
        {"{\"a\":" TENSOR("[4,0]") "}", -1, PAWL_EDAMAGED, "end before they begin", 0},
        {"{\"a\":" TENSOR("[4,8]") "}", -1, PAWL_EDAMAGED, "a hole before the tensor", 0},
        {"{\"a\":" TENSOR("[0,5]") "}", -1, PAWL_EDAMAGED, "do not fit data_offsets", 0},
        {"{\"a\":" TENSOR("[0,4]") ",\"a\":" TENSOR("[4,8]") "}", -1, PAWL_EDAMAGED,
         "the tensor is there twice", 8},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", -1,
         PAWL_EDAMAGED, "the shape overflows", 0},
        {"{\"a\":" TENSOR("[0,4]") "}", -1, PAWL_EDAMAGED, "longer than its tensors", 0},
        {"{\"..\":" TENSOR("[0,4]") ",\"b\":" TENSOR("[4,8]") "}", -1, PAWL_EUNSUPPORTED,
         "a name that no entry of pawl can have: it has a component", UINT64_MAX},
        {"{\"a//b\":" TENSOR("[0,4]") ",\"b\":" TENSOR("[4,8]") "}", -1, PAWL_EUNSUPPORTED,
         "it has an empty component", UINT64_MAX},
    };
    store *s = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err;
        struct source *w;
        make_file(s, "a.safetensors", cases[i].header, cases[i].length, 8);
        pawl_status status = open_made(s, "a.safetensors", &w, &err);
        bool placed = cases[i].at == UINT64_MAX || err.has_range;
        if (status != cases[i].status || strstr(err.attempt, cases[i].says) == NULL || !placed ||
            strcmp(err.path, "/mem/a.safetensors") != 0) {
            fail_msg("%s: status %d, %s, %s", cases[i].header, (int)status, err.attempt, err.path);
        }
    }
}

static void test_a_data_file_that_pawl_never_finished(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    make_file(s, "a.safetensors",
              "{\"__metadata__\":{\"pawl_sum\":\"--------\"},\"a\":" TENSOR("[0,4]") "}", -1, 4);
    assert_fails(open_made(s, "a.safetensors", &w, &err), PAWL_EDAMAGED, &err);
}

/* ---- a directory ---- */

static void make_sharded(store *s, const char *index) {
    make_file(s, "1.safetensors", "{\"a\":" TENSOR("[0,4]") ",\"c\":" TENSOR("[4,8]") "}", -1, 8);
    make_file(s, "2.safetensors", "{\"b\":" TENSOR("[0,4]") "}", -1, 4);
    put_anew(s, INDEX, index, strlen(index));
}

#define MAP(map) "{\"metadata\":{\"total_size\":12},\"weight_map\":{" map "}}"
#define A        "\"a\":\"1.safetensors\""
#define B        "\"b\":\"2.safetensors\""
#define C        "\"c\":\"1.safetensors\""

static size_t names_of(struct source *w, const char *prefix, const char *from, char *names,
                       size_t size) {
    struct pawl_error err = ERROR_INIT;
    source_walk *walk;
    const record_entry *entry;
    size_t count = 0;
    names[0] = '\0';
    assert_ok(w->ops->walk(w, prefix, from, &walk, &err), &err);
    for (;;) {
        assert_ok(w->ops->next(walk, &entry, &err), &err);
        if (entry == NULL) {
            break;
        }
        size_t at = strlen(names);
        snprintf(names + at, size - at, "%s%u ", entry->name, entry->pieces[0].file % w->files);
        count++;
    }
    w->ops->end(walk);
    return count;
}

static void test_a_sharded_directory(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    char names[128];
    make_sharded(s, MAP(C "," A "," B));
    assert_ok(open_made(s, INDEX, &w, &err), &err);
    assert_string_equal(w->format, "safetensors, sharded");
    assert_int_equal(w->files, 2);
    assert_int_equal(w->entries, 3);
    assert_int_equal(names_of(w, "", "", names, sizeof(names)), 3);
    assert_string_equal(names, "a0 b1 c0 ");
    assert_int_equal(names_of(w, "", "b", names, sizeof(names)), 2);
    assert_int_equal(names_of(w, "b", "b", names, sizeof(names)), 1);
    source_destroy(w);
}

static void test_r14_an_index_and_files_that_disagree(void **state) {
    static const struct {
        const char *index, *says, *path;
    } cases[] = {
        {MAP(A "," B), "a tensor that the index of the weights does not name", "1.safetensors"},
        {MAP(A "," B "," C ",\"d\":\"2.safetensors\""), "the tensor is not in that file", INDEX},
        {MAP(A "," C ",\"b\":\"1.safetensors\""), "the tensor is not in that file", INDEX},
        {MAP(A "," B ",\"c\":\"2.safetensors\""), "the tensor is not in that file", INDEX},
        {MAP(A "," B "," C ",\"d\":\"3.safetensors\""), "is missing", "3.safetensors"},
        {MAP(A "," B "," C ",\"d\":\"../3.safetensors\""), "outside of the directory", INDEX},
        {MAP(A "," B "," C ",\"d\":\"4.safetensors\""), "no regular file", "4.safetensors"},
        {"{", "", INDEX},
    };
    store *s = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(s, "4.safetensors", &err), &err);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct source *w;
        char path[64];
        make_sharded(s, cases[i].index);
        pawl_status status = open_made(s, INDEX, &w, &err);
        snprintf(path, sizeof(path), "/mem/%s", cases[i].path);
        if (status == PAWL_OK || strstr(err.attempt, cases[i].says) == NULL ||
            strcmp(err.path, path) != 0) {
            fail_msg("%s: status %d, %s, %s", cases[i].index, (int)status, err.attempt, err.path);
        }
    }
}

static void test_a_tensor_in_two_files(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *w;
    make_sharded(s, MAP(A "," B "," C));
    make_file(s, "2.safetensors", "{\"a\":" TENSOR("[0,4]") ",\"b\":" TENSOR("[4,8]") "}", -1, 8);
    assert_fails(open_made(s, INDEX, &w, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "a name is there twice");
    assert_string_equal(err.entry, "a");
    assert_string_equal(err.found, "it is in 1.safetensors and in 2.safetensors");
}

/* ---- which file of a directory ---- */

static void assert_found(store *s, const char *expected) {
    struct pawl_error err = ERROR_INIT;
    char name[STORE_MAX_PATH] = "";
    bool found;
    assert_ok(foreign_find(s, name, &found, &err), &err);
    assert_int_equal(found, expected != NULL);
    if (found) {
        assert_string_equal(name, expected);
    }
}

static void test_which_file_is_opened(void **state) {
    store *s = *state;
    struct pawl_error err = ERROR_INIT;
    char name[STORE_MAX_PATH];
    bool found;
    assert_found(s, NULL);
    put_text(s, "config.json", "{}");
    put_text(s, ".hidden.safetensors", "");
    assert_found(s, NULL);
    put_text(s, "adapter.safetensors", "");
    assert_found(s, "adapter.safetensors");
    put_text(s, "other.safetensors", "");
    assert_fails(foreign_find(s, name, &found, &err), PAWL_ENOTFOUND, &err);
    assert_says(err.attempt, "several files of weights");
    assert_says(err.next, "name one of them: /mem/adapter.safetensors");
    put_text(s, "diffusion.safetensors.index.json", "");
    assert_found(s, "diffusion.safetensors.index.json");
    put_text(s, "fp16.safetensors.index.json", "");
    assert_fails(foreign_find(s, name, &found, &err), PAWL_ENOTFOUND, &err);
    put_text(s, INDEX, "");
    assert_found(s, INDEX);
    put_text(s, "model.safetensors", "");
    assert_found(s, "model.safetensors");
}

static void test_r09_a_run_or_a_step_is_not_foreign(void **state) {
    static const char *const own[] = {"owner-00000001", "reserve", "meet-0123456789ab-1-r00001",
                                      "index-0123456789ab-1",
                                      "data-0123456789ab-1-00000-of-00001.safetensors"};
    store *s = *state;
    struct pawl_error err = ERROR_INIT;
    put_text(s, "model.safetensors", "");
    for (size_t i = 0; i < ARRAY_LENGTH(own); i++) {
        put_text(s, own[i], "");
        assert_found(s, NULL);
        assert_ok(store_unlink(s, own[i], &err), &err);
        assert_found(s, "model.safetensors");
    }
    assert_ok(store_make_dir(s, "step-00000001", &err), &err);
    assert_found(s, NULL);
}

/* DeepSpeed leaves `latest`; a manifest.json is in many packages. */
static void test_names_that_others_use_make_no_run(void **state) {
    static const char *const common[] = {"latest",    "events.jsonl", "manifest.json", "pinned",
                                         "owner.txt", "meet-me.txt",  "index-of-files"};
    store *s = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(common); i++) {
        put_text(s, common[i], "");
        assert_found(s, NULL);
    }
    put_text(s, "model.safetensors", "");
    assert_found(s, "model.safetensors");
}

static void test_names_that_are_opened(void **state) {
    (void)state;
    assert_true(foreign_opens("a.safetensors"));
    assert_true(foreign_opens(INDEX));
    assert_false(foreign_opens(".safetensors"));
    assert_false(foreign_opens("a.safetensors.tmp"));
    assert_false(foreign_opens("a.index.json"));
    assert_false(foreign_opens(""));
}

static pawl_status open_with_failing_memory(void *context, pawl_error *err) {
    struct source *w;
    TRY(foreign_open(context, false, INDEX, true, &w, err));
    source_walk *walk;
    pawl_status status = w->ops->walk(w, "", "", &walk, err);
    if (status == PAWL_OK) {
        w->ops->end(walk);
        store_file *file = NULL;
        status = w->ops->open(w, w->files + 1, STORE_READ, &file, err);
        store_close(file);
    }
    source_destroy(w);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    make_sharded(*state, MAP(A "," B "," C));
    assert_true(failing_memory_each(open_with_failing_memory, *state) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_the_tensors_of_a_file),
        IN_MEMORY(test_unaligned_tensors_are_in_a_shifted_file),
        IN_MEMORY(test_r14_a_file_that_is_changed_while_it_is_read),
        IN_MEMORY(test_a_type_that_is_no_dtype),
        IN_MEMORY(test_r14_hostile_headers),
        IN_MEMORY(test_a_data_file_that_pawl_never_finished),
        IN_MEMORY(test_a_sharded_directory),
        IN_MEMORY(test_r14_an_index_and_files_that_disagree),
        IN_MEMORY(test_a_tensor_in_two_files),
        IN_MEMORY(test_which_file_is_opened),
        IN_MEMORY(test_r09_a_run_or_a_step_is_not_foreign),
        IN_MEMORY(test_names_that_others_use_make_no_run),
        IN_MEMORY(test_names_that_are_opened),
        IN_MEMORY(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
