/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face directories with files of torch.save: their tensors, checksums of all files, which
 * file of such a directory is opened. What is refused: tests/hostile_files. */
#include "unit/foreign/made_torch.h"

#include "lib/failing_memory.h"
#include "lib/in_memory.h"

#define INDEX        "pytorch_model.bin.index.json"
#define MAP(members) "{\"metadata\":{\"total_size\":1},\"weight_map\":{" members "}}"

static void put_index(store *s, const char *text) {
    put_anew(s, INDEX, text, strlen(text));
}

static void put_torch(store *s, const char *name, const char *pickle, unsigned method) {
    CLEANUP(buffer_free) buffer file = {0};
    made_torch_zip(&file, pickle, "little", method);
    put_anew(s, name, file.data, file.size);
}

/* The second file is packed; two tensors share a storage in it, and one has a key with a "/". */
static void put_sharded(store *s) {
    put_torch(s, "1.bin", "(dS'w.x'\n" VECTOR "sS'step'\nI3\ns.", 0);
    put_torch(s, "2.bin",
              "(dS'a/b'\n" TENSOR(FLOATS, "2", "I2\nI2\n", "I1\nI4\n") "sS'c'\n" VECTOR "s.", 8);
    put_index(s, MAP("\"c\":\"2.bin\",\"a/b\":\"2.bin\",\"w.x\":\"1.bin\""));
}

static void test_the_tensors_of_all_files(void **state) {
    static const float view[] = {2, 6, 3, 7};
    struct pawl_error err = ERROR_INIT;
    struct source *w;
    put_sharded(*state);
    assert_ok(foreign_open(*state, false, INDEX, true, &w, &err), &err);
    assert_string_equal(w->format, "PyTorch, sharded");
    assert_null(w->unverified);
    assert_int_equal(w->files, 2);
    assert_int_equal(w->entries, 4);
    assert_entry(w, "a%2Fb", "F32 [2, 2] 1 parts");
    assert_entry(w, "w.x", "F32 [12] 1 parts");
    assert_entry(w, "step", "int64 3"); /* a value, which an index does not name */
    assert_tensor(w, "a%2Fb", view);
    assert_tensor(w, "c", torch_floats);
    assert_tensor(w, "w.x", torch_floats);
    source_destroy(w);
}

typedef struct heard {
    int problems;
    char file[64], entry[64];
} heard;

static void hear(void *context, const char *file, const char *entry, pawl_error *err) {
    heard *h = context;
    (void)err;
    h->problems++;
    snprintf(h->file, sizeof(h->file), "%s", file);
    snprintf(h->entry, sizeof(h->entry), "%s", entry != NULL ? entry : "");
}

static pawl_status go_on(void *context, uint64_t bytes, pawl_error *err) {
    (void)context;
    (void)bytes;
    (void)err;
    return PAWL_OK;
}

static heard verify(store *s) {
    struct pawl_error err = ERROR_INIT;
    struct source *w;
    heard h = {.problems = 0};
    source_verifier v = {.context = &h, .problem = hear, .progress = go_on};
    assert_ok(foreign_open(s, false, INDEX, true, &w, &err), &err);
    assert_ok(w->ops->verify(w, &v, &err), &err);
    source_destroy(w);
    return h;
}

static void test_r08_verify_names_the_file_and_the_tensor(void **state) {
    static const char *const entries[] = {"b", "c"};
    store *s = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(entries); i++) {
        CLEANUP(buffer_free) buffer damaged = {0};
        char name[16];
        put_torch(s, "1.bin", "(dS'b'\n" VECTOR "s.", 0);
        put_torch(s, "2.bin", "(dS'c'\n" VECTOR "s.", 0);
        put_index(s, MAP("\"b\":\"1.bin\",\"c\":\"2.bin\""));
        assert_int_equal(verify(s).problems, 0);
        made_torch_zip(&damaged, i == 0 ? "(dS'b'\n" VECTOR "s." : "(dS'c'\n" VECTOR "s.", "little",
                       0);
        uint8_t *at = memmem(damaged.data, damaged.size, torch_floats, sizeof(torch_floats));
        assert_non_null(at);
        at[5] ^= 1;
        snprintf(name, sizeof(name), "%zu.bin", i + 1);
        put_anew(s, name, damaged.data, damaged.size);
        const heard h = verify(s);
        assert_int_equal(h.problems, 1);
        assert_string_equal(h.file, name);
        assert_string_equal(h.entry, entries[i]);
    }
}

static pawl_status open_all(void *context, pawl_error *err) {
    struct source *w;
    heard h = {.problems = 0};
    source_verifier v = {.context = &h, .problem = hear, .progress = go_on};
    TRY(foreign_open(context, false, INDEX, true, &w, err));
    pawl_status status = w->ops->verify(w, &v, err);
    source_destroy(w);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    put_sharded(*state);
    assert_true(failing_memory_each(open_all, *state) > 60);
}

/* ---- which file of a directory -------------------------------------------------------------- */

static void assert_found(store *s, const char *expected) {
    struct pawl_error err = ERROR_INIT;
    char name[STORE_MAX_PATH] = "";
    bool found;
    assert_ok(foreign_find(s, name, &found, &err), &err);
    assert_true(found);
    assert_string_equal(name, expected);
}

/* As transformers looks for them: safetensors first, and one file before several. */
static void test_which_file_is_opened(void **state) {
    store *s = *state;
    struct pawl_error err = ERROR_INIT;
    char name[STORE_MAX_PATH];
    bool found;
    put_text(s, "pytorch_model-00001-of-00002.bin", "");
    put_text(s, "optimizer.pt", ""); /* and what else a trainer leaves */
    put_text(s, "scheduler.pt", "");
    put_text(s, "training_args.bin", "");
    put_text(s, "model.fp16.bin.index.json", "");
    assert_found(s, "model.fp16.bin.index.json");
    put_text(s, "model.bin.index.json", "");
    assert_fails(foreign_find(s, name, &found, &err), PAWL_ENOTFOUND, &err);
    put_text(s, INDEX, "");
    assert_found(s, INDEX);
    put_text(s, "pytorch_model.bin", "");
    assert_found(s, "pytorch_model.bin");
    put_text(s, "model.safetensors.index.json", "");
    assert_found(s, "model.safetensors.index.json");
    assert_true(foreign_opens(INDEX));
    assert_false(foreign_opens(".bin.index.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_the_tensors_of_all_files),
        IN_MEMORY(test_r08_verify_names_the_file_and_the_tensor),
        IN_MEMORY(test_every_allocation_may_fail),
        IN_MEMORY(test_which_file_is_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
