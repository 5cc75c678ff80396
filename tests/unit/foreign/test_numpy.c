/* SPDX-License-Identifier: Apache-2.0 */
/* .npy and .npz: what numpy writes, value for value, and what is refused. */
#include "unit/foreign/made_zip.h"

#include "foreign/formats.h"
#include "foreign/numpy/npy_header.h"
#include "lib/failing_memory.h"
#include "lib/in_memory.h"
#include "lib/stored.h"
#include "stores/stores.h"

#include <stdio.h>

/* A .npy of any version: the dictionary, padded to 64, and elements. */
static void make_npy(buffer *out, int version, const char *text, const void *data, size_t n) {
    size_t begin = out->size;
    size_t before = version == 1 ? 10 : 12;
    size_t padding = 63 - (before + strlen(text)) % 64;
    made_bytes(out, "\x93NUMPY", 6);
    made_number(out, (uint64_t)version, 1);
    made_number(out, 0, 1);
    made_number(out, strlen(text) + padding + 1, version == 1 ? 2 : 4);
    made_bytes(out, text, strlen(text));
    for (size_t i = 0; i < padding; i++) {
        made_bytes(out, " ", 1);
    }
    made_bytes(out, "\n", 1);
    assert_int_equal((out->size - begin) % 64, 0);
    made_bytes(out, data, n);
}

static pawl_status open_file(store *s, const char *name, const buffer *file, struct source **out,
                             pawl_error *err) {
    bool zip = strstr(name, ".npz") != NULL;
    *err = ERROR_INIT;
    *out = NULL;
    put_anew(s, name, file->data, file->size);
    return archive_open(s, false, zip ? &format_npz : &format_npy, name, false, out, err);
}

/* All bytes of a tensor in one piece. */
static void assert_entry(struct source *s, const char *name, const char *type, const void *bytes,
                         size_t n) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    record_entry e;
    bool found;
    store_file *file;
    uint8_t read[1024];
    char shape[128], text[160];
    assert_ok(s->ops->find(s, name, &memory, &e, &found, &err), &err);
    assert_true(found && e.piece_count == 1);
    snprintf(text, sizeof(text), "%s %s", record_entry_type(&e),
             shape_text(shape, sizeof(shape), e.ndim, e.shape));
    assert_string_equal(text, type);
    assert_int_equal(e.pieces[0].bytes, n);
    assert_true(n <= sizeof(read));
    assert_ok(s->ops->open(s, e.pieces[0].file, STORE_READ, &file, &err), &err);
    assert_ok(store_read(file, e.pieces[0].offset, read, n, &err), &err);
    assert_memory_equal(read, bytes, n);
    store_close(file);
}

/* ---- headers ---- */

#define ONES_9  ", 1, 1, 1, 1, 1, 1, 1, 1, 1"
#define ONES_29 ONES_9 ONES_9 ONES_9 ", 1, 1"

static void test_types_and_orders(void **state) {
    static const uint8_t in[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    static const struct {
        const char *descr, *type;
        uint8_t out[16];
    } cases[] = {
        {"'|b1'", "BOOL [16]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"'|i1'", "I8 [16]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"'<u2'", "U16 [8]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"'>i2'", "I16 [8]", {2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15}},
        {"'>f2'", "F16 [8]", {2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15}},
        {"'>f4'", "F32 [4]", {4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 16, 15, 14, 13}},
        {"'>u8'", "U64 [2]", {8, 7, 6, 5, 4, 3, 2, 1, 16, 15, 14, 13, 12, 11, 10, 9}},
        {"'<c8'", "C64 [2]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"'>c8'", "C64 [2]", {4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 16, 15, 14, 13}},
        {"'<c16'", "F64 [1, 2]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"'>c16'", "F64 [1, 2]", {8, 7, 6, 5, 4, 3, 2, 1, 16, 15, 14, 13, 12, 11, 10, 9}},
        {"'<f1'", "F8_E5M2 [16]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"'<W4'", "W4 [4]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"'|V2'", "V2 [8]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"'>U2'", ">U2 [2]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"'<M8[ns]'", "M8[ns] [2]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"'|O'", "OBJECT [7]", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"[('a', '<f4'), (('t]', \"b'\"), '|u1', (2, 2))]",
         "STRUCT [2]",
         {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        for (int version = 1; version <= 3; version++) {
            CLEANUP(buffer_free) buffer file = {0};
            struct pawl_error err;
            struct source *s;
            char text[256];
            int n = 0;
            assert_int_equal(sscanf(strrchr(cases[i].type, '['), "[%d]", &n), 1);
            snprintf(text, sizeof(text), "{'descr': %s, 'fortran_order': False, 'shape': (%d,), }",
                     cases[i].descr, n);
            make_npy(&file, version, text, in, sizeof(in));
            assert_ok(open_file(*state, "x.y.npy", &file, &s, &err), &err);
            assert_string_equal(s->format, "npy");
            assert_entry(s, "x.y", cases[i].type, cases[i].out, sizeof(in));
            source_destroy(s);
        }
    }
}

/* Of complex128 two numbers of F64 are in an element. */
static void test_pairs_of_f64(void **state) {
    static const double in[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const double turned[] = {1, 2, 5, 6, 3, 4, 7, 8};
    static const struct {
        const char *order, *shape, *type;
        const double *out;
        size_t n;
    } cases[] = {
        {"False", "()", "F64 [2]", in, 2},
        {"True", "(0, 3)", "F64 [0, 3, 2]", in, 0},
        {"True", "(2, 2)", "F64 [2, 2, 2]", turned, 8},
        {"True", "(2, 2" ONES_29 ")", "F64 [2, 2" ONES_29 ", 2]", turned, 8},
        {"True", "(2, 2" ONES_29 ", 1)", "C128 [2, 2" ONES_29 ", 1]", turned, 8},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buffer_free) buffer file = {0};
        struct pawl_error err;
        struct source *s;
        char text[512];
        snprintf(text, sizeof(text), "{'descr': '<c16', 'fortran_order': %s, 'shape': %s}",
                 cases[i].order, cases[i].shape);
        make_npy(&file, 1, text, in, cases[i].n * sizeof(*in));
        assert_ok(open_file(*state, "a.npy", &file, &s, &err), &err);
        assert_entry(s, "a", cases[i].type, cases[i].out, cases[i].n * sizeof(*in));
        source_destroy(s);
    }
}

static void test_shapes_of_both_orders(void **state) {
    static const uint8_t in[] = {0, 1, 2, 3, 4, 5};
    static const struct {
        const char *shape, *order, *type;
        uint8_t out[6];
        size_t n;
    } cases[] = {
        {"()", "False", "U8 []", {0}, 1},
        {"(0,)", "True", "U8 [0]", {0}, 0},
        {"(0, 5)", "True", "U8 [0, 5]", {0}, 0},
        {"(6,)", "True", "U8 [6]", {0, 1, 2, 3, 4, 5}, 6},
        {"(2, 3)", "False", "U8 [2, 3]", {0, 1, 2, 3, 4, 5}, 6},
        {"(2, 3)", "True", "U8 [2, 3]", {0, 2, 4, 1, 3, 5}, 6},
        {"(2L, 3L,)", "True", "U8 [2, 3]", {0, 2, 4, 1, 3, 5}, 6},
        {"(1, 6)", "True", "U8 [1, 6]", {0, 1, 2, 3, 4, 5}, 6},
        {"(3, 1, 2)", "True", "U8 [3, 1, 2]", {0, 3, 1, 4, 2, 5}, 6},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buffer_free) buffer file = {0};
        struct pawl_error err;
        struct source *s;
        char text[256];
        snprintf(text, sizeof(text), "{\"shape\":%s,'fortran_order':%s,'descr':'|u1'}",
                 cases[i].shape, cases[i].order);
        make_npy(&file, 1, text, in, cases[i].n);
        assert_ok(open_file(*state, "a.npy", &file, &s, &err), &err);
        assert_entry(s, "a", cases[i].type, cases[i].out, cases[i].n);
        source_destroy(s);
    }
}

static void test_r14_hostile_headers(void **state) {
    static const struct {
        const char *text;
        pawl_status status;
        const char *says;
    } cases[] = {
        {"", PAWL_EDAMAGED, "is wrong"},
        {"{", PAWL_EDAMAGED, "is wrong"},
        {"{}", PAWL_EDAMAGED, "is wrong"},
        {"{'descr': '|u1', 'shape': (4,), }", PAWL_EDAMAGED, "is wrong"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,), 'more': 1}", PAWL_EDAMAGED, ""},
        {"{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (4,)}", PAWL_EDAMAGED,
         "is wrong"},
        {"{'descr': '|u1', 'fortran_order': 0, 'shape': (4,)}", PAWL_EDAMAGED, "is wrong"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4)}", PAWL_EDAMAGED, "is wrong"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': [4]}", PAWL_EDAMAGED, "is wrong"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (-4,)}", PAWL_EDAMAGED, "is wrong"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4 4)}", PAWL_EDAMAGED, "is wrong"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775808,)}", PAWL_EDAMAGED,
         "is wrong"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
         PAWL_EDAMAGED, "overflows"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,)}", PAWL_EDAMAGED,
         "overflows"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (5,)}", PAWL_EDAMAGED,
         "fewer bytes than"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", PAWL_EDAMAGED, "bytes behind"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,)} + f()", PAWL_EDAMAGED,
         "is wrong"},
        {"{'descr': '|q1', 'fortran_order': False, 'shape': (4,)}", PAWL_EUNSUPPORTED,
         "a type that is not known"},
        {"{'descr': '|u1, 'fortran_order': False, 'shape': (4,)}", PAWL_EUNSUPPORTED, ""},
        {"{'descr': 'V2\\x1b[', 'fortran_order': False, 'shape': (4,)}", PAWL_EUNSUPPORTED, ""},
        {"{'descr': [(((((((((((((((((((((((((((((((((((((((((((((", PAWL_ELIMIT, "too deep"},
        {"{'descr': [(], 'fortran_order': False, 'shape': (4,)}", PAWL_EDAMAGED, "is wrong"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4)}",
         PAWL_EUNSUPPORTED, "too many dimensions"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buffer_free) buffer file = {0};
        struct pawl_error err;
        struct source *s;
        make_npy(&file, 1, cases[i].text, "1234", 4);
        pawl_status status = open_file(*state, "a.npy", &file, &s, &err);
        if (status != cases[i].status || strstr(err.attempt, cases[i].says) == NULL ||
            !err.has_range || strcmp(err.path, "/mem/a.npy") != 0) {
            fail_msg("%s: status %d, %s, %s", cases[i].text, (int)status, err.attempt, err.path);
        }
    }
}

static void test_r14_hostile_beginnings(void **state) {
    static const char text[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }";
    CLEANUP(buffer_free) buffer file = {0};
    struct pawl_error err;
    struct source *s;
    make_npy(&file, 2, text, "1234", 4);
    for (size_t n = 0; n < file.size; n++) {
        const buffer cut = {.data = file.data, .size = n};
        assert_fails(open_file(*state, "a.npy", &cut, &s, &err), PAWL_EDAMAGED, &err);
    }
    file.data[11] = 1; /* the length: 16 MiB */
    assert_fails(open_file(*state, "a.npy", &file, &s, &err), PAWL_ELIMIT, &err);
    file.data[11] = 0;
    file.data[6] = 4;
    assert_fails(open_file(*state, "a.npy", &file, &s, &err), PAWL_EUNSUPPORTED, &err);
    file.data[6] = 2;
    make_npy(&file, 1, text, "1234", 4);
    assert_fails(open_file(*state, "a.npy", &file, &s, &err), PAWL_EUNSUPPORTED, &err);
    assert_says(err.attempt, "several arrays");
}

/* ---- .npz ---- */

#define MATRIX "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3), }"

static void add_member(made_zip *z, buffer *bytes, const char *name, bool deflated) {
    CLEANUP(buffer_free) buffer plain = *bytes;
    *bytes = (buffer){0};
    made_member m = made_of(name, plain.data, plain.size);
    if (deflated) {
        made_deflate(bytes, plain.data, plain.size, IGZIP_DEFLATE);
        m.data = bytes->data;
        m.size = plain.size;
        m.n = bytes->size;
        m.method = 8;
    }
    made_add(z, m);
    buffer_free(bytes);
    *bytes = (buffer){0};
}

static made_zip make_npz(bool deflated) {
    static const uint8_t in[] = {0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5};
    made_zip z = {.count = 0};
    buffer b = {0};
    make_npy(&b, 1, MATRIX, in, sizeof(in));
    add_member(&z, &b, "m/a.npy", deflated);
    make_npy(&b, 1, "{'descr': '<u4', 'fortran_order': False, 'shape': (2,), }", in, 8);
    add_member(&z, &b, "b.npy", deflated);
    make_npy(&b, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 2), }", in, 0);
    add_member(&z, &b, "none.npy", deflated);
    made_bytes(&b, "hello", 5);
    add_member(&z, &b, "read.me", deflated);
    make_npy(&b, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (), }", in + 3, 1);
    add_member(&z, &b, "no ending", deflated);
    add_member(&z, &b, "folder/", false);
    made_all(&z);
    return z;
}

static void count_problem(void *context, const char *file, const char *entry, pawl_error *story) {
    snprintf(context, 128, "%s %s %s", file, entry, story->attempt);
}

static pawl_status go_on(void *context, uint64_t bytes, pawl_error *err) {
    (void)context;
    (void)bytes;
    (void)err;
    return PAWL_OK;
}

static void test_members_stored_and_deflated(void **state) {
    static const uint8_t turned[] = {0, 0, 2, 0, 4, 0, 1, 0, 3, 0, 5, 0};
    static const uint8_t plain[] = {0, 0, 0, 1, 0, 2, 0, 3};
    for (int deflated = 0; deflated < 2; deflated++) {
        struct pawl_error err;
        struct source *s;
        char problem[128] = "";
        made_zip z = make_npz(deflated == 1);
        assert_ok(open_file(*state, "a.npz", &z.file, &s, &err), &err);
        assert_string_equal(s->format, "npz");
        assert_int_equal(s->entries, 5);
        assert_entry(s, "m/a", "U16 [2, 3]", turned, sizeof(turned));
        assert_entry(s, "b", "U32 [2]", plain, sizeof(plain));
        assert_entry(s, "none", "F64 [0, 2]", "", 0);
        assert_entry(s, "read.me", "U8 [5]", "hello", 5);
        assert_entry(s, "no ending", "U8 []", "\1", 1);
        source_verifier v = {.context = problem, .problem = count_problem, .progress = go_on};
        assert_ok(s->ops->verify(s, &v, &err), &err);
        assert_string_equal(problem, "");
        source_destroy(s);
        buffer_free(&z.file);
    }
}

static void test_what_verify_finds(void **state) {
    struct pawl_error err;
    struct source *s;
    char problem[128] = "";
    made_zip z = make_npz(false);
    z.file.data[z.members[0].at + 30 + strlen("m/a.npy") + 128 + 3] ^= 1;
    assert_ok(open_file(*state, "a.npz", &z.file, &s, &err), &err);
    source_verifier v = {.context = problem, .problem = count_problem, .progress = go_on};
    assert_ok(s->ops->verify(s, &v, &err), &err);
    assert_string_equal(problem, "a.npz m/a a member of the zip file is damaged: its checksum "
                                 "(CRC32) differs");
    source_destroy(s);
    buffer_free(&z.file);
}

static void test_r14_hostile_members(void **state) {
    struct pawl_error err;
    struct source *s;
    buffer b = {0};
    made_zip z = {.count = 0};
    made_bytes(&b, "no array", 8);
    add_member(&z, &b, "a.npy", false);
    made_all(&z);
    assert_fails(open_file(*state, "a.npz", &z.file, &s, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "the file is no .npy");
    assert_string_equal(err.entry, "a.npy");
    assert_string_equal(err.path, "/mem/a.npz");
    buffer_free(&z.file);
    z = (made_zip){.count = 0};
    made_bytes(&b, "1", 1);
    add_member(&z, &b, "a", false);
    make_npy(&b, 1, MATRIX, "123456789012", 12);
    add_member(&z, &b, "a.npy", true);
    made_all(&z);
    assert_fails(open_file(*state, "a.npz", &z.file, &s, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "a name is there twice");
    buffer_free(&z.file);
}

/* Deflated, column-major, and more than is kept: read in parts. */
static void test_a_large_matrix_is_in_parts(void **state) {
    const int64_t rows = 3000, columns = 4000;
    struct pawl_error err = ERROR_INIT;
    struct source *s;
    CLEANUP(arena_free) arena memory = {0};
    buffer b = {0};
    made_zip z = {.count = 0};
    record_entry e;
    bool found;
    store_file *file;
    make_npy(&b, 1, "{'descr': '<i4', 'fortran_order': True, 'shape': (3000, 4000), }", "", 0);
    AUTOFREE int32_t *numbers = mem_alloc((size_t)(rows * columns) * sizeof(*numbers));
    assert_non_null(numbers);
    for (int32_t i = 0; i < rows * columns; i++) {
        numbers[i] = i; /* a large one at once: a sanitizer makes many calls slow */
    }
    made_bytes(&b, numbers, (size_t)(rows * columns) * sizeof(*numbers));
    add_member(&z, &b, "m.npy", true);
    made_all(&z);
    assert_ok(open_file(*state, "a.npz", &z.file, &s, &err), &err);
    assert_ok(s->ops->find(s, "m", &memory, &e, &found, &err), &err);
    assert_true(found && e.piece_count == 3);
    for (size_t i = 0; i < e.piece_count; i++) {
        const record_piece *p = &e.pieces[i];
        int32_t value;
        int64_t row = rows - 1, column = p->box_extent[1] - 1;
        assert_int_equal(p->box_extent[0], rows);
        assert_ok(s->ops->open(s, p->file, STORE_READ, &file, &err), &err);
        uint64_t at = (uint64_t)(row * p->box_extent[1] + column) * 4;
        assert_ok(store_read(file, p->offset + at, &value, 4, &err), &err);
        assert_int_equal(value, (p->box_offset[1] + column) * rows + row);
        store_close(file);
    }
    source_destroy(s);
    buffer_free(&z.file);
}

static pawl_status open_with_failing_memory(void *context, pawl_error *err) {
    struct source *s;
    TRY(archive_open(context, false, &format_npz, "a.npz", false, &s, err));
    source_destroy(s);
    return PAWL_OK;
}

static void test_every_allocation_may_fail(void **state) {
    made_zip z = make_npz(true);
    put_anew(*state, "a.npz", z.file.data, z.file.size);
    buffer_free(&z.file);
    assert_true(failing_memory_each(open_with_failing_memory, *state) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_types_and_orders),           IN_MEMORY(test_pairs_of_f64),
        IN_MEMORY(test_shapes_of_both_orders),      IN_MEMORY(test_r14_hostile_headers),
        IN_MEMORY(test_r14_hostile_beginnings),     IN_MEMORY(test_members_stored_and_deflated),
        IN_MEMORY(test_what_verify_finds),          IN_MEMORY(test_r14_hostile_members),
        IN_MEMORY(test_a_large_matrix_is_in_parts), IN_MEMORY(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
