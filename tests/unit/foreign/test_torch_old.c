/* SPDX-License-Identifier: Apache-2.0 */
/* Files of torch.save from before there were zips: streams of pickles, and tars. */
#include "unit/foreign/made_torch.h"

#include "lib/in_memory.h"

/* ---- streams -------------------------------------------------------------------------------- */

#define MAGIC "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."

/* Two storages of 12 floats, "0" and "1"; of the second the numbers are negative. */
static void make_stream(buffer *b, const char *version, const char *machine, const char *object,
                        const char *keys, int64_t count) {
    b->size = 0;
    made_bytes(b, MAGIC, sizeof(MAGIC) - 1);
    made_bytes(b, version, strlen(version));
    made_bytes(b, machine, strlen(machine));
    made_bytes(b, object, strlen(object));
    made_bytes(b, keys, strlen(keys));
    for (unsigned k = 0; k < 2; k++) {
        made_number(b, (uint64_t)count, 8);
        for (size_t i = 0; i < 12; i++) {
            float v = k == 0 ? torch_floats[i] : -torch_floats[i];
            made_bytes(b, &v, sizeof(v));
        }
    }
}

#define VERSION "I1001\n."
#define LITTLE  "(dS'little_endian'\nI01\ns."
#define BIG     "(dS'little_endian'\nI00\ns."
#define KEYS    "(lS'0'\naS'1'\na."
#define OTHER   STORAGE("FloatStorage", "1", "12")
#define OBJECT                                                                                     \
    "(dS'a'\n" VECTOR "sS't'\n" TENSOR(OTHER, "0", "I4\nI3\n", "I1\nI4\n") "sS'lr'\nF0.5\ns."
/* Four elements of a storage, from its third on. */
#define VIEW(first, n)                                                                             \
    "(S'storage'\nctorch\nFloatStorage\nS'1'\nS'cpu'\nI12\n(S'v'\nI" first "\nI" n "\nttQ"

static pawl_status open_stream(store *s, const buffer *b, struct source **out, pawl_error *err) {
    put_anew(s, "m.pt", b->data, b->size);
    return made_archive(s, &format_torch_stream, "m.pt", out, err);
}

static void test_a_stream_of_pickles(void **state) {
    static const float transposed[] = {-0.0f, -4, -8, -1, -5, -9, -2, -6, -10, -3, -7, -11};
    CLEANUP(buffer_free) buffer b = {0};
    struct pawl_error err;
    struct source *w;
    make_stream(&b, VERSION, LITTLE, OBJECT, KEYS, 12);
    assert_ok(open_stream(*state, &b, &w, &err), &err);
    assert_int_equal(w->entries, 3);
    assert_tensor(w, "a", torch_floats);
    made_compare(w, "t", transposed, sizeof(transposed), __FILE__, __LINE__);
    assert_entry(w, "lr", "float64 0.5");
    source_destroy(w);
    /* It is known by what is in it. */
    assert_ok(foreign_open(*state, false, "m.pt", false, &w, &err), &err);
    assert_string_equal(w->format, "PyTorch, legacy");
    source_destroy(w);
}

static void test_a_stream_of_a_big_endian_machine(void **state) {
    CLEANUP(buffer_free) buffer b = {0};
    struct pawl_error err;
    struct source *w;
    uint32_t expected[12];
    memcpy(expected, torch_floats, sizeof(expected));
    for (size_t i = 0; i < 12; i++) {
        expected[i] = __builtin_bswap32(expected[i]);
    }
    make_stream(&b, VERSION, BIG, OBJECT, KEYS, 12);
    assert_ok(open_stream(*state, &b, &w, &err), &err);
    assert_tensor(w, "a", expected);
    source_destroy(w);
}

static void test_a_storage_that_is_a_part_of_another(void **state) {
    static const float expected[] = {-3, -4};
    CLEANUP(buffer_free) buffer b = {0};
    struct pawl_error err;
    struct source *w;
    make_stream(&b, VERSION, LITTLE,
                "(dS'v'\n" TENSOR(VIEW("2", "4"), "1", "I2\n", "I1\n") "sS'a'\n" VECTOR "s.", KEYS,
                12);
    assert_ok(open_stream(*state, &b, &w, &err), &err);
    assert_tensor(w, "v", expected);
    source_destroy(w);
}

static void test_r14_streams_that_are_refused(void **state) {
#define OF(object) VERSION, LITTLE, object, KEYS
    static const struct {
        const char *version, *machine, *object, *keys;
        int64_t count;
        pawl_status status;
        const char *says;
    } all[] = {
        {"I1002\n.", LITTLE, OBJECT, KEYS, 12, PAWL_EUNSUPPORTED, "another version"},
        {"N.", LITTLE, OBJECT, KEYS, 12, PAWL_EDAMAGED, "a number is missing"},
        {VERSION, LITTLE, OBJECT, "I5\n.", 12, PAWL_EDAMAGED, "it has no list of storages"},
        {VERSION, LITTLE, OBJECT, "(lS'0'\na.", 12, PAWL_EDAMAGED, "not in the file"},
        {VERSION, LITTLE, OBJECT, "(lS'0'\naS'9'\na.", 12, PAWL_EDAMAGED,
         "a storage that no tensor is in"},
        {OF(OBJECT), -1, PAWL_EDAMAGED, "a storage has a size that cannot be"},
        {OF(OBJECT), INT64_MAX, PAWL_EDAMAGED, "a storage has a size that cannot be"},
        {OF(OBJECT), INT64_MAX / 4, PAWL_EDAMAGED, "the file ends before all tensors are there"},
        {OF("(dS'a'\n" VECTOR "sS'v'\n" TENSOR(VIEW("10", "4"), "1", "I2\n", "I1\n") "s."), 12,
         PAWL_EDAMAGED, "a part of another that has less"},
        {OF("(dS'a'\n" VECTOR "sS'v'\n" TENSOR(VIEW("-1", "4"), "1", "I2\n", "I1\n") "s."), 12,
         PAWL_EDAMAGED, "a part of another that has less"},
        {OF("(dS'a'\n" VECTOR "sS'v'\n" TENSOR(VIEW("2", "2"), "1", "I2\n", "I1\n") "s."), 12,
         PAWL_EDAMAGED, "elements outside of its storage"},
        {OF("cos\nsystem\n(S'id'\ntR."), 12, PAWL_EUNSUPPORTED,
         "calls os.system; nothing was executed"},
        {VERSION, "cos\nsystem\n(S'id'\ntR.", OBJECT, KEYS, 12, PAWL_EUNSUPPORTED,
         "calls os.system; nothing was executed"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        CLEANUP(buffer_free) buffer b = {0};
        struct pawl_error err;
        struct source *w;
        make_stream(&b, all[i].version, all[i].machine, all[i].object, all[i].keys, all[i].count);
        pawl_status status = open_stream(*state, &b, &w, &err);
        if (status != all[i].status || strstr(err.attempt, all[i].says) == NULL) {
            fail_msg("case %zu: status %d, %s; not: %s", i, (int)status, err.attempt, all[i].says);
        }
        assert_string_equal(err.path, "/mem/m.pt");
    }
}

static void test_r08_a_stream_that_was_cut_off(void **state) {
    CLEANUP(buffer_free) buffer b = {0};
    struct pawl_error err;
    struct source *w;
    make_stream(&b, VERSION, LITTLE, OBJECT, KEYS, 12);
    for (size_t n = 0; n < b.size; n++) {
        put_anew(*state, "m.pt", b.data, n);
        assert_fails(made_archive(*state, &format_torch_stream, "m.pt", &w, &err), PAWL_EDAMAGED,
                     &err);
        assert_string_equal(err.path, "/mem/m.pt");
    }
}

static void test_old_streams_of_others(void **state) {
    struct pawl_error err;
    struct source *w;
    float values[10];
    made_put_sample(*state, SAMPLES_DIR "/torch-legacy/legacy_with_offsets.pt", "m.pt");
    assert_ok(made_archive(*state, &format_torch_stream, "m.pt", &w, &err), &err);
    assert_int_equal(w->entries, 3);
    assert_entry(w, "tensor1", "F32 [10] 1 parts");
    assert_ok(made_read(w, "tensor3", 64, values, 20, &err), &err);
    assert_true(values[0] == 3.0f && values[1] == 3.1f && values[2] == 3.2f);
    source_destroy(w);
    made_put_sample(*state, SAMPLES_DIR "/torch-legacy/simple_legacy.pt", "m.pt");
    assert_ok(made_archive(*state, &format_torch_stream, "m.pt", &w, &err), &err);
    assert_int_equal(w->entries, 3);
    assert_entry(w, "weight", "F32 [2, 3] 1 parts");
    assert_ok(made_read(w, "weight", 64, values, 24, &err), &err);
    assert_true(values[0] == -1.8129550218582153f && values[2] == -1.259395956993103f);
    source_destroy(w);
}

/* ---- tars ----------------------------------------------------------------------------------- */

static void put_member(buffer *b, const char *name, const void *data, size_t n) {
    char head[512] = "";
    snprintf(head, 100, "%s", name);
    snprintf(head + 124, 12, "%011zo", n);
    head[156] = '0';
    memcpy(head + 257, "ustar", 6);
    made_bytes(b, head, sizeof(head));
    made_bytes(b, data, n);
    made_number(b, 0, (512 - n % 512) % 512);
}

static void put_shape(buffer *b, const int64_t *sizes, const int64_t *strides, uint32_t ndim,
                      int64_t offset) {
    made_number(b, ndim, 4);
    made_number(b, 0, 4);
    for (uint32_t d = 0; d < ndim; d++) {
        made_number(b, (uint64_t)sizes[d], 8);
    }
    for (uint32_t d = 0; d < ndim; d++) {
        made_number(b, (uint64_t)strides[d], 8);
    }
    made_number(b, (uint64_t)offset, 8);
}

typedef struct old_tar {
    const char *storage, *views, *tensor, *object; /* pickles */
    uint64_t count;                                /* of storages */
    int64_t elements, rows, offset;
    uint32_t ndim;
} old_tar;

static const old_tar whole = {.storage = "(I4\nS'cpu'\nctorch\nFloatStorage\nt.",
                              .tensor = "(I10\nI4\nctorch\nFloatTensor\nt.",
                              .object =
                                  "(dS'w'\nP10\nsS'again'\nP10\nsS'lr'\nF0.5\nsS'l'\n(lP10\nas.",
                              .count = 1,
                              .elements = 12,
                              .rows = 4,
                              .ndim = 2};

static void make_tar(buffer *b, const old_tar *t) {
    CLEANUP(buffer_free) buffer storages = {0};
    CLEANUP(buffer_free) buffer tensors = {0};
    char count[32];
    snprintf(count, sizeof(count), "I%llu\n.", (unsigned long long)t->count);
    made_bytes(&storages, count, strlen(count));
    made_bytes(&storages, t->storage, strlen(t->storage));
    made_number(&storages, (uint64_t)t->elements, 8);
    made_bytes(&storages, torch_floats, sizeof(torch_floats));
    if (t->views != NULL) {
        made_bytes(&storages, t->views, strlen(t->views));
    }
    made_bytes(&tensors, "I1\n.", 4);
    made_bytes(&tensors, t->tensor, strlen(t->tensor));
    put_shape(&tensors, (const int64_t[8]){t->rows, 3}, (const int64_t[8]){1, 4}, t->ndim,
              t->offset);
    b->size = 0;
    put_member(b, "./sys_info", "N.", 2);
    put_member(b, "storages", storages.data, storages.size);
    put_member(b, "tensors", tensors.data, tensors.size);
    put_member(b, "pickle", t->object, strlen(t->object));
    made_number(b, 0, 1024);
}

static pawl_status open_tar(store *s, const buffer *b, struct source **out, pawl_error *err) {
    put_anew(s, "m.pt", b->data, b->size);
    return made_archive(s, &format_torch_tar, "m.pt", out, err);
}

static void test_a_tar(void **state) {
    static const float transposed[] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
    CLEANUP(buffer_free) buffer b = {0};
    struct pawl_error err;
    struct source *w;
    make_tar(&b, &whole);
    assert_ok(open_tar(*state, &b, &w, &err), &err);
    assert_int_equal(w->entries, 5);
    assert_entry(w, "__sequences__", "json {\"list\":[\"l\"]}");
    assert_tensor(w, "w", transposed);
    assert_tensor(w, "again", transposed);
    assert_tensor(w, "l/0", transposed);
    assert_entry(w, "lr", "float64 0.5");
    source_destroy(w);
    assert_ok(foreign_open(*state, false, "m.pt", false, &w, &err), &err);
    assert_string_equal(w->format, "PyTorch, legacy tar");
    source_destroy(w);
}

static void test_a_storage_of_a_tar_that_is_a_part_of_another(void **state) {
    static const float expected[] = {6, 10, 7, 11};
    CLEANUP(buffer_free) buffer b = {0};
    struct pawl_error err;
    struct source *w;
    old_tar t = whole;
    t.tensor = "(I10\nI5\nctorch\nFloatTensor\nt.";
    t.views = "(l(I5\nI4\nI2\nI10\nta.";
    t.object = "(dS'w'\nP10\ns.";
    t.rows = 2;
    t.offset = 4;
    make_tar(&b, &t);
    for (size_t k = 0; k + 8 < b.size; k++) { /* 2 columns */
        if (memcmp(b.data + k, "FloatTensor\nt.\2", 15) == 0) {
            b.data[k + 14 + 16] = 2;
        }
    }
    assert_ok(open_tar(*state, &b, &w, &err), &err);
    assert_tensor(w, "w", expected);
    source_destroy(w);
    static const char *const bad[] = {"I5\n.",
                                      "(l(I5\nI4\nI2\nI11\nta.",
                                      "(l(I5\nI6\nI2\nI1\nta.",
                                      "(l(I5\nI4\nI-2\nI1\nta.",
                                      "(lI5\na.",
                                      "(l(I5\nI4\nI4611686018427387904\nI1\nta."};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        t.views = bad[i];
        make_tar(&b, &t);
        assert_fails(open_tar(*state, &b, &w, &err), PAWL_EDAMAGED, &err);
        assert_says(err.attempt, i == 0 ? "no list of parts" : "a part of another that has less");
    }
}

static void test_r14_tars_that_are_refused(void **state) {
    static const char *const says[] = {
        "a storage has no key, or an unknown class",
        "a storage has no key, or an unknown class",
        "a tensor has no key, or an unknown class",
        "a tensor has too many dimensions",
        "outside of what it is made of",
        "a tensor has a size that cannot be",
        "a storage has a size that cannot be",
        "the file ends before all tensors are there",
        "the pickle",
        "a tensor has",
        "calls os.system; nothing was executed",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(says); i++) {
        CLEANUP(buffer_free) buffer b = {0};
        struct pawl_error err;
        struct source *w;
        old_tar t = whole;
        t.storage = i == 0 ? "N." : i == 1 ? "(I4\nS'cpu'\nctorch\nOddStorage\nt." : t.storage;
        t.tensor = i == 2   ? "(I10\nI4\nctorch\nOddTensor\nt."
                   : i == 9 ? "(I10\nI5\nctorch\nFloatTensor\nt."
                            : t.tensor;
        t.rows = i == 4 ? 5 : i == 5 ? -1 : t.rows;
        t.elements = i == 6 ? INT64_MIN : i == 7 ? 100000 : t.elements;
        t.count = i == 8 ? INT64_MAX : t.count;
        t.object = i == 10 ? "cos\nsystem\n(S'id'\ntR." : t.object;
        make_tar(&b, &t);
        for (size_t k = 0; i == 3 && k + 8 < b.size; k++) {
            if (memcmp(b.data + k, "FloatTensor\nt.\2", 15) == 0) {
                b.data[k + 14] = PAWL_MAX_NDIM + 1;
            }
        }
        pawl_status status = open_tar(*state, &b, &w, &err);
        if (status != (i == 10 ? PAWL_EUNSUPPORTED : PAWL_EDAMAGED) ||
            strstr(err.attempt, says[i]) == NULL) {
            fail_msg("case %zu: status %d, %s; not: %s", i, (int)status, err.attempt, says[i]);
        }
        assert_string_equal(err.path, "/mem/m.pt");
    }
}

static void test_r08_a_tar_that_was_cut_off(void **state) {
    CLEANUP(buffer_free) buffer b = {0};
    struct pawl_error err;
    struct source *w;
    make_tar(&b, &whole);
    size_t end = b.size - 1024 - 512 + strlen(whole.object); /* what is behind is padding */
    for (size_t n = 0; n < end; n++) {
        put_anew(*state, "m.pt", b.data, n);
        assert_fails(made_archive(*state, &format_torch_tar, "m.pt", &w, &err), PAWL_EDAMAGED,
                     &err);
    }
    put_anew(*state, "m.pt", b.data, end);
    assert_ok(made_archive(*state, &format_torch_tar, "m.pt", &w, &err), &err);
    source_destroy(w);
}

static void test_a_tar_of_others(void **state) {
    struct pawl_error err;
    struct source *w;
    made_put_sample(*state, SAMPLES_DIR "/torch-legacy/tar_float32.tar", "m.pt");
    assert_ok(made_archive(*state, &format_torch_tar, "m.pt", &w, &err), &err);
    assert_int_equal(w->entries, 1);
    assert_tensor(w, "tensor", ((const float[]){1.0f, 2.5f, -3.7f, 0.0f}));
    source_destroy(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_a_stream_of_pickles),
        IN_MEMORY(test_a_stream_of_a_big_endian_machine),
        IN_MEMORY(test_a_storage_that_is_a_part_of_another),
        IN_MEMORY(test_r14_streams_that_are_refused),
        IN_MEMORY(test_r08_a_stream_that_was_cut_off),
        IN_MEMORY(test_old_streams_of_others),
        IN_MEMORY(test_a_tar),
        IN_MEMORY(test_a_storage_of_a_tar_that_is_a_part_of_another),
        IN_MEMORY(test_r14_tars_that_are_refused),
        IN_MEMORY(test_r08_a_tar_that_was_cut_off),
        IN_MEMORY(test_a_tar_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
