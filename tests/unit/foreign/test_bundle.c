/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor bundles of TensorFlow: keys of slices, compressed blocks, an index that pawl wrote, whole
 * and damaged (R14), and slices that are put together. */
#include "unit/foreign/made.h"
#include "unit/foreign/made_archive.h"

#include "foreign/tensorflow/names.h"
#include "foreign/tensorflow/read.h"

/* ---- keys of slices: as ordered_code.cc makes them ---- */

static void test_keys_of_slices(void **state) {
    static const struct {
        const char *name;
        int64_t start[2], length[2];
        const char *hex;
    } cases[] = {
        {"w",
         {0, 0},
         {4, -1},
         "007700010102808480"
         "7f"},
        {"emb/table", {1000, 0}, {500, -1}, "00656d622f7461626c6500010102c3e8c1f4807f"},
        {"a",
         {64, 8192},
         {63, 0x424242},
         "0061000101"
         "02c040bfe02000f0424242"},
    };
    CLEANUP(buffer_free) buffer key = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err = ERROR_INIT;
        char hex[128] = "";
        int64_t start[2], length[2];
        bundle_slice s = {.start = start, .length = length, .ndim = 2};
        memcpy(start, cases[i].start, sizeof(start));
        memcpy(length, cases[i].length, sizeof(length));
        const bundle_text name = {(const uint8_t *)cases[i].name, strlen(cases[i].name)};
        assert_ok(bundle_slice_key(name, &s, &key, &err), &err);
        for (size_t k = 0; k < key.size; k++) {
            snprintf(hex + 2 * k, sizeof(hex) - 2 * k, "%02x", key.data[k]);
        }
        assert_string_equal(hex, cases[i].hex);
        assert_true(bundle_is_slice_key((bundle_text){key.data, key.size}));
    }
}

/* ---- Snappy ---- */

static void test_blocks_that_snappy_compressed(void **state) {
    static const uint8_t packed[] = {
        24, 3 << 2, 'a', 'b', 'c', 'd', (8 - 4) << 2 | 1, 4, (12 - 1) << 2 | 2, 4, 0};
    CLEANUP(buffer_free) buffer out = {0};
    struct pawl_error err = ERROR_INIT;
    (void)state;
    assert_ok(snappy_decode(packed, sizeof(packed), 24, &out, &err), &err);
    assert_int_equal(out.size, 24);
    assert_memory_equal(out.data, "abcdabcdabcdabcdabcdabcd", 24);
    for (size_t n = 0; n < sizeof(packed); n++) {
        assert_fails(snappy_decode(packed, n, 24, &out, &err), PAWL_EDAMAGED, &err);
    }
    assert_fails(snappy_decode(packed, sizeof(packed), 23, &out, &err), PAWL_ELIMIT, &err);
    static const uint8_t before[] = {4, 0 << 2 | 1, 9};
    assert_fails(snappy_decode(before, sizeof(before), 24, &out, &err), PAWL_EDAMAGED, &err);
}

static void test_r14_blocks_that_say_more_than_there_can_be(void **state) {
    static const uint8_t packed[] = {0xff, 0xff, 0x03, 0 << 2, 'x'}; /* 65535 bytes */
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {0};
    (void)state;
    assert_fails(snappy_decode(packed, sizeof(packed), 1 << 20, &out, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "more bytes are said to be compressed in it than can be");
    assert_int_equal(out.capacity, 0);
}

/* ---- an index ---- */

typedef struct made_index {
    buffer bytes;
    table_writer *writer;
} made_index;

static pawl_status append(void *context, const void *data, size_t n, pawl_error *err) {
    return buffer_append(context, data, n, err);
}

static void begin_index(made_index *m, bool big) {
    const uint8_t header[] = {0x08, 0x01, 0x10, big, 0x1a, 0x02, 0x08, 0x01};
    struct pawl_error err = ERROR_INIT;
    *m = (made_index){.writer = NULL};
    const byte_sink sink = {.context = &m->bytes, .write = append};
    assert_ok(table_writer_new(sink, &m->writer, &err), &err);
    assert_ok(table_writer_add(m->writer, "", 0, header, sizeof(header), &err), &err);
}

static void add_record(made_index *m, const void *key, size_t key_bytes, const uint8_t *record,
                       size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(table_writer_add(m->writer, key, key_bytes, record, n, &err), &err);
}

static void end_index(made_index *m, store *s) {
    struct pawl_error err = ERROR_INIT;
    table_summary summary;
    assert_ok(table_writer_finish(m->writer, &summary, &err), &err);
    table_writer_free(m->writer);
    put_anew(s, "b.index", m->bytes.data, m->bytes.size);
}

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    store *s;
    assert_ok(store_mem(&s, &err), &err);
    put_anew(s, "b.data-00000-of-00001", "0123456789abcdef", 16);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    store_destroy(*state);
    return 0;
}

/* Two rows of U8, each a slice; and a name of an object. */
static void make_sliced(made_index *m, store *s) {
    static const uint8_t first[] = {0x00, 'w', 0x00, 0x01, 0x01, 0x02, 0x80, 0x81, 0x80, 0x7f};
    static const uint8_t second[] = {0x00, 'w', 0x00, 0x01, 0x01, 0x02, 0x81, 0x81, 0x80, 0x7f};
    static const uint8_t slice_at_8[] = {0x08, 4, 0x12, 8, 0x12, 2, 0x08, 1,
                                         0x12, 2, 0x08, 4, 0x20, 8, 0x28, 4};
    static const uint8_t slice_at_2[] = {0x08, 4, 0x12, 8, 0x12, 2, 0x08, 1,
                                         0x12, 2, 0x08, 4, 0x20, 2, 0x28, 4};
    static const uint8_t whole[] = {0x08, 4, 0x12, 8, 0x12, 2, 0x08, 2, 0x12, 2,
                                    0x08, 4, 0x3a, 6, 0x0a, 2, 0x10, 1, 0x0a, 0,
                                    0x3a, 8, 0x0a, 4, 0x08, 1, 0x10, 1, 0x0a, 0};
    static const uint8_t scalar[] = {0x08, 6, 0x12, 0, 0x20, 15, 0x28, 1};
    static const char kernel[] = "net/k..1/.ATTRIBUTES/VARIABLE_VALUE";
    static const char slot[] = "net/k..1/.OPTIMIZER_SLOT/opt/m/.ATTRIBUTES/VARIABLE_VALUE";
    begin_index(m, false);
    add_record(m, first, sizeof(first), slice_at_8, sizeof(slice_at_8));
    add_record(m, second, sizeof(second), slice_at_2, sizeof(slice_at_2));
    add_record(m, kernel, strlen(kernel), scalar, sizeof(scalar));
    add_record(m, slot, strlen(slot), scalar, sizeof(scalar));
    add_record(m, "w", 1, whole, sizeof(whole));
    end_index(m, s);
}

static void test_slices_and_slots(void **state) {
    made_index m;
    struct source *w;
    struct pawl_error err;
    record_entry e;
    bool found;
    CLEANUP(arena_free) arena memory = {0};
    char text[128];
    make_sliced(&m, *state);
    assert_ok(open_made(*state, "b.index", &w, &err), &err);
    assert_string_equal(w->format, "TensorFlow");
    assert_int_equal(w->entries, 3);
    assert_ok(w->ops->find(w, "w", &memory, &e, &found, &err), &err);
    assert_true(found);
    assert_int_equal(e.piece_count, 2);
    assert_int_equal(e.pieces[0].offset, 8);
    assert_int_equal(e.pieces[1].offset, 2);
    assert_int_equal(e.pieces[1].box_offset[0], 1);
    assert_int_equal(e.pieces[1].box_extent[1], 4);
    assert_string_equal(made_entry(w, "net/k.1", text), "I8 [] file 0 at 15 of 1");
    assert_ok(w->ops->find(w, "opt/net/k.1/m", &memory, &e, &found, &err), &err);
    assert_true(found);
    assert_int_equal(e.role, PAWL_ROLE_SLOT);
    assert_string_equal(e.slot_of, "net/k.1");
    assert_string_equal(e.slot, "m");
    source_destroy(w);
    buffer_free(&m.bytes);
}

/* Of complex128 two numbers of F64 are in an element, also in slices, and in another order. */
static void test_pairs_of_f64(void **state) {
    static const uint8_t first[] = {0x00, 'w', 0x00, 0x01, 0x01, 0x01, 0x80, 0x81};
    static const uint8_t second[] = {0x00, 'w', 0x00, 0x01, 0x01, 0x01, 0x81, 0x81};
    static const uint8_t at_16[] = {0x08, 18, 0x12, 4, 0x12, 2, 0x08, 1, 0x20, 16, 0x28, 16};
    static const uint8_t at_0[] = {0x08, 18, 0x12, 4, 0x12, 2, 0x08, 1, 0x28, 16};
    static const uint8_t whole[] = {0x08, 18, 0x12, 4, 0x12, 2, 0x08, 2, 0x3a, 6, 0x0a, 4,
                                    0x08, 0,  0x10, 1, 0x3a, 6, 0x0a, 4, 0x08, 1, 0x10, 1};
    static const uint8_t scalar[] = {0x08, 18, 0x12, 0, 0x20, 16, 0x28, 16};
    static const double numbers[] = {1, 2, 3, 4};
    static const uint8_t swapped[] = {0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0x40, 0,    0, 0, 0, 0, 0, 0,
                                      0x40, 0x08, 0, 0, 0, 0, 0, 0, 0x40, 0x10, 0, 0, 0, 0, 0, 0};
    for (int big = 0; big < 2; big++) {
        made_index m;
        struct source *w;
        struct pawl_error err;
        put_anew(*state, "b.data-00000-of-00001", big ? swapped : (const void *)numbers, 32);
        begin_index(&m, big);
        add_record(&m, first, sizeof(first), at_16, sizeof(at_16));
        add_record(&m, second, sizeof(second), at_0, sizeof(at_0));
        add_record(&m, "s", 1, scalar, sizeof(scalar));
        add_record(&m, "w", 1, whole, sizeof(whole));
        end_index(&m, *state);
        assert_ok(open_made(*state, "b.index", &w, &err), &err);
        made_compare(w, "s", numbers + 2, 16, __FILE__, __LINE__);
        made_compare(w, "w", ((const double[]){3, 4, 1, 2}), 32, __FILE__, __LINE__);
        const record_entry e = made_find(w, "w");
        assert_int_equal(e.dtype, PAWL_F64);
        assert_int_equal(e.ndim, 2);
        assert_int_equal(e.pieces[1].box_offset[1], 0);
        assert_int_equal(e.pieces[1].box_extent[1], 2);
        source_destroy(w);
        buffer_free(&m.bytes);
    }
}

static void test_r14_an_index_that_is_damaged(void **state) {
    made_index m;
    struct source *w;
    struct pawl_error err;
    make_sliced(&m, *state);
    for (size_t i = 0; i < m.bytes.size; i++) {
        m.bytes.data[i] ^= 0x20;
        put_anew(*state, "b.index", m.bytes.data, m.bytes.size);
        pawl_status status = open_made(*state, "b.index", &w, &err);
        m.bytes.data[i] ^= 0x20;
        if (status == PAWL_OK) { /* of the metaindex, which nobody reads, and padding */
            source_destroy(w);
            assert_true(i + 100 > m.bytes.size);
        }
    }
    for (size_t n = 1; n < m.bytes.size; n++) {
        put_anew(*state, "b.index", m.bytes.data, n);
        assert_int_not_equal(open_made(*state, "b.index", &w, &err), PAWL_OK);
    }
    buffer_free(&m.bytes);
}

static void test_r14_a_file_that_is_missing_or_cut_off(void **state) {
    made_index m;
    struct source *w;
    struct pawl_error err = ERROR_INIT;
    make_sliced(&m, *state);
    put_anew(*state, "b.data-00000-of-00001", "0123456789abcde", 15);
    assert_fails(open_made(*state, "b.index", &w, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "behind the end of its file");
    err = ERROR_INIT;
    assert_ok(store_unlink(*state, "b.data-00000-of-00001", &err), &err);
    assert_fails(open_made(*state, "b.index", &w, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "a file of the checkpoint is missing");
    assert_string_equal(err.path, "/mem/b.data-00000-of-00001");
    buffer_free(&m.bytes);
}

/* A variable `w` of the root under the key k, and the graph that says so, `wrong` or right. */
static void make_graph(made_index *m, store *s, bool wrong) {
    static const uint8_t nodes[] = {0x0a, 7,   0x0a, 5,   0x08, 1,   0x12, 1,    'w', 0x0a, 21,
                                    0x12, 19,  0x0a, 14,  'V',  'A', 'R',  'I',  'A', 'B',  'L',
                                    'E',  '_', 'V',  'A', 'L',  'U', 'E',  0x1a, 1,   'k'};
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer data = {0};
    static const uint8_t record_of_graph[] = {0x08, 7, 0x12, 0, 0x20, 1, 0x28, 5 + 32};
    static const uint8_t record_of_variable[] = {0x08, 6, 0x12, 0, 0x28, 1};
    assert_ok(buffer_append(&data, "x", 1, &err), &err);
    assert_ok(buffer_varint(&data, sizeof(nodes), &err), &err);
    assert_ok(buffer_u32le(&data, 0, &err), &err);
    assert_ok(buffer_append(&data, nodes, sizeof(nodes), &err), &err);
    data.data[6 + 5] = wrong ? 9 : 1; /* the number of the object */
    put_anew(s, "b.data-00000-of-00001", data.data, data.size);
    begin_index(m, false);
    add_record(m, "_CHECKPOINTABLE_OBJECT_GRAPH", 28, record_of_graph, sizeof(record_of_graph));
    add_record(m, "k", 1, record_of_variable, sizeof(record_of_variable));
    end_index(m, s);
}

static void test_names_come_from_the_graph(void **state) {
    made_index m;
    struct source *w;
    struct pawl_error err;
    char text[128];
    make_graph(&m, *state, false);
    assert_ok(open_made(*state, "b.index", &w, &err), &err);
    assert_int_equal(w->entries, 2);
    assert_string_equal(made_entry(w, "w", text), "I8 [] file 0 at 0 of 1");
    assert_string_equal(made_entry(w, "k", text), "");
    source_destroy(w);
    buffer_free(&m.bytes);
}

static void test_r14_a_graph_that_is_wrong(void **state) {
    made_index m;
    struct source *w;
    struct pawl_error err;
    make_graph(&m, *state, true);
    assert_fails(open_made(*state, "b.index", &w, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "the graph of objects is wrong: it links to an object");
    assert_string_equal(err.entry, "_CHECKPOINTABLE_OBJECT_GRAPH");
    buffer_free(&m.bytes);
}

static void test_which_one_is_the_newest(void **state) {
    static const struct {
        const char *text, *path;
    } cases[] = {
        {"model_checkpoint_path: \"ckpt-7\"\nall_model_checkpoint_paths: \"ckpt-6\"\n", "ckpt-7"},
        {"all_model_checkpoint_paths: \"a\"\nmodel_checkpoint_path: \"/there/ckpt-2\"",
         "/there/ckpt-2"},
        {"model_checkpoint_path: \"\"\n", NULL},
        {"model_checkpoint_path: \"ckpt", NULL},
        {"model_checkpoint_path: \"a\\\"b\"\n", NULL},
        {"", NULL},
    };
    char path[32];
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        bool said = tensorflow_newest(cases[i].text, strlen(cases[i].text), path, sizeof(path));
        assert_int_equal(said, cases[i].path != NULL);
        if (said) {
            assert_string_equal(path, cases[i].path);
        }
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_of_slices),
        cmocka_unit_test(test_blocks_that_snappy_compressed),
        cmocka_unit_test(test_r14_blocks_that_say_more_than_there_can_be),
        cmocka_unit_test_setup_teardown(test_slices_and_slots, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pairs_of_f64, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_r14_an_index_that_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_r14_a_file_that_is_missing_or_cut_off, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_names_come_from_the_graph, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_r14_a_graph_that_is_wrong, set_up, tear_down),
        cmocka_unit_test(test_which_one_is_the_newest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
