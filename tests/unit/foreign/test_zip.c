/* SPDX-License-Identifier: Apache-2.0 */
/* Zip files: what is in them, real and made by hand, and what is refused with its place. */
#include "unit/foreign/made_zip.h"

#include "foreign/zip/zip.h"
#include "format/limits.h"
#include "lib/failing_memory.h"

#include <stdio.h>

#define SAMPLES TEST_SOURCE_DIR "/unit/foreign/samples/zip/"
#define HELLO   "hello, hello, hello, hello"

static const zip_parts no_parts;

static void read_sample(const char *name, buffer *out) {
    char path[512];
    uint8_t bytes[4096];
    snprintf(path, sizeof(path), SAMPLES "%s", name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    made_bytes(out, bytes, fread(bytes, 1, sizeof(bytes), in));
    fclose(in);
}

static pawl_status open_bytes(const buffer *file, zip_directory *d, pawl_error *err) {
    byte_source source = byte_source_memory(file);
    *err = ERROR_INIT;
    return zip_read(&source, d, err);
}

static void assert_member(const buffer *file, const zip_directory *d, const char *name,
                          const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer found = {0};
    byte_source source = byte_source_memory(file);
    const zip_member *m = zip_find(d, name);
    assert_non_null(m);
    made_bytes(&found, "before", 6);
    assert_ok(zip_read_member(&source, m, n, &found, &err), &err);
    assert_int_equal(found.size, n + 6);
    assert_memory_equal(found.data + 6, bytes, n);
    assert_ok(zip_check_member(&source, m, &no_parts, NULL, NULL, &err), &err);
    if (n > 0) {
        assert_fails(zip_read_member(&source, m, n - 1, &found, &err), PAWL_ELIMIT, &err);
        assert_string_equal(err.entry, name);
    }
}

/* ---- what others wrote ---- */

static void test_a_zip_of_python(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer file = {0};
    struct pawl_error err;
    zip_directory d;
    char hello[6001] = "";
    for (int i = 0; i < 1000; i++) {
        memcpy(hello + (size_t)i * 6, "hello ", 6);
    }
    read_sample("deflated.zip", &file);
    assert_true(zip_looks_like(file.data, file.size));
    assert_ok(open_bytes(&file, &d, &err), &err);
    assert_int_equal(d.count, 3);
    assert_string_equal(d.members[0].name, "a folder/");
    assert_member(&file, &d, "a folder/", "", 0);
    assert_member(&file, &d, "a folder/\303\251.txt", hello, 6000);
    assert_true(d.members[1].deflated);
    assert_member(&file, &d, "stored", "0123456789", 10);
    assert_false(d.members[2].deflated);
    assert_null(zip_find(&d, "a folder"));
    assert_null(zip_find(&d, ""));
    assert_null(zip_find(&d, "z"));
    zip_free(&d);
}

static void test_a_zip_that_was_streamed(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer file = {0};
    struct pawl_error err;
    zip_directory d;
    char xs[500];
    memset(xs, 'x', sizeof(xs));
    read_sample("streamed.zip", &file);
    assert_ok(open_bytes(&file, &d, &err), &err);
    assert_int_equal(d.count, 2);
    assert_member(&file, &d, "one", xs, sizeof(xs));
    assert_member(&file, &d, "two", "yz", 2);
    zip_free(&d);
}

static void test_a_zip_of_torch(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer file = {0};
    struct pawl_error err;
    zip_directory d;
    static const char version[] = "3\n";
    static const uint8_t values[] = {1, 0, 1, 1, 0};
    read_sample("torch.pt", &file);
    assert_ok(open_bytes(&file, &d, &err), &err);
    assert_int_equal(d.count, 7);
    assert_string_equal(d.members[0].name, "bool/data.pkl");
    assert_member(&file, &d, "bool/version", version, 2);
    assert_member(&file, &d, "bool/byteorder", "little", 6);
    const zip_member *m = zip_find(&d, "bool/data/0");
    assert_int_equal(m->bytes, 5);
    assert_int_equal(m->offset % 64, 0);
    assert_memory_equal(file.data + m->offset, values, 5);
    zip_free(&d);
}

static void test_zips_of_numpy(void **state) {
    (void)state;
    static const char *const names[] = {"saved.npz", "compressed.npz"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        CLEANUP(buffer_free) buffer file = {0};
        CLEANUP(buffer_free) buffer array = {0};
        struct pawl_error err;
        zip_directory d;
        read_sample(names[i], &file);
        assert_ok(open_bytes(&file, &d, &err), &err);
        byte_source source = byte_source_memory(&file);
        assert_int_equal(d.count, 1);
        assert_string_equal(d.members[0].name, "a.npy");
        assert_ok(zip_read_member(&source, &d.members[0], 134, &array, &err), &err);
        assert_int_equal(array.size, 134);
        assert_memory_equal(array.data, "\x93NUMPY", 6);
        assert_memory_equal(array.data + 128, "\0\0\1\0\2\0", 6);
        zip_free(&d);
    }
}

/* ---- made by hand ---- */

static made_member packed_of(const char *name, buffer *packed, const char *text) {
    made_deflate(packed, text, strlen(text), IGZIP_DEFLATE);
    made_member m = made_of(name, packed->data, packed->size);
    m.size = strlen(text);
    m.crc32 = crc32_gzip_refl(0, (const uint8_t *)text, strlen(text));
    m.method = 8;
    return m;
}

static void test_members_in_any_form(void **state) {
    (void)state;
    for (unsigned form = 0; form < 16; form++) {
        CLEANUP(buffer_free) buffer packed = {0};
        struct pawl_error err;
        made_zip z = {.count = 0};
        zip_directory d;
        made_member m =
            (form & 1) != 0 ? packed_of("m", &packed, HELLO) : made_of("m", HELLO, strlen(HELLO));
        m.wide = (form & 2) != 0;
        m.behind = (form & 4) != 0;
        m.padding = 50;
        made_bytes(&z.file, "before", 6); /* as of a program that unpacks itself */
        made_add(&z, m);
        made_add(&z, made_of("empty", "", 0));
        made_directory(&z);
        if ((form & 8) != 0) {
            made_end_64(&z);
        }
        made_end(&z, "PK\5\6 is not an end, nor is PK\5\6......................");
        assert_ok(open_bytes(&z.file, &d, &err), &err);
        assert_int_equal(d.count, 2);
        assert_int_equal(d.at, z.directory);
        assert_member(&z.file, &d, "m", HELLO, strlen(HELLO));
        assert_member(&z.file, &d, "empty", "", 0);
        zip_free(&d);
        buffer_free(&z.file);
    }
}

static void test_an_empty_zip(void **state) {
    (void)state;
    struct pawl_error err;
    made_zip z = {.count = 0};
    zip_directory d;
    made_all(&z);
    assert_true(zip_looks_like(z.file.data, z.file.size));
    assert_false(zip_looks_like(z.file.data, 3));
    assert_false(zip_looks_like((const uint8_t *)"PK\1\2", 4));
    assert_ok(open_bytes(&z.file, &d, &err), &err);
    assert_int_equal(d.count, 0);
    assert_null(zip_find(&d, "a"));
    zip_free(&d);
    buffer_free(&z.file);
}

/* ---- what is refused ---- */

static void assert_refused(made_zip *z, pawl_status status, const char *says) {
    struct pawl_error err;
    zip_directory d;
    pawl_status found = open_bytes(&z->file, &d, &err);
    if (found != status || strstr(err.attempt, says) == NULL || !err.has_range) {
        fail_msg("%s: status %d, %s", says, (int)found, err.attempt);
    }
    assert_int_equal(d.count, 0);
    buffer_free(&z->file);
}

static void test_r14_hostile_members(void **state) {
    (void)state;
    static const made_member good = {.name = "m", .data = HELLO, .n = sizeof(HELLO) - 1};
    static const struct {
        made_member change;
        pawl_status status;
        const char *says;
    } cases[] = {
        {{.name = ""}, PAWL_EDAMAGED, "a member without a name"},
        {{.name = "/etc/passwd"}, PAWL_EDAMAGED, "an absolute path"},
        {{.name = "\\a"}, PAWL_EDAMAGED, "an absolute path"},
        {{.name = "C:/a"}, PAWL_EDAMAGED, "an absolute path"},
        {{.name = "C:\\a"}, PAWL_EDAMAGED, "an absolute path"},
        {{.name = "../a"}, PAWL_EDAMAGED, "leads out of it"},
        {{.name = "a/.."}, PAWL_EDAMAGED, "leads out of it"},
        {{.name = "a\\..\\b"}, PAWL_EDAMAGED, "leads out of it"},
        {{.name = "\377"}, PAWL_EUNSUPPORTED, "not UTF-8"},
        {{.name = "m/"}, PAWL_EDAMAGED, "a directory with bytes"},
        {{.local_name = "n"}, PAWL_EDAMAGED, "no local header of the member"},
        {{.local_name = "mm"}, PAWL_EDAMAGED, "no local header of the member"},
        {{.attributes = 0120777}, PAWL_EUNSUPPORTED, "a link"},
        {{.attributes = 0020666}, PAWL_EUNSUPPORTED, "a link"},
        {{.attributes = 0040755}, PAWL_EUNSUPPORTED, "a link"},
        {{.flags = 1}, PAWL_EUNSUPPORTED, "encrypted"},
        {{.flags = 1 << 6}, PAWL_EUNSUPPORTED, "encrypted"},
        {{.flags = 1 << 13}, PAWL_EUNSUPPORTED, "encrypted"},
        {{.flags = 1 << 5}, PAWL_EUNSUPPORTED, "a patch"},
        {{.local_flags = 1}, PAWL_EDAMAGED, "not as its directory says"},
        {{.local_flags = 8}, PAWL_EDAMAGED, "not as its directory says"},
        {{.method = 93}, PAWL_EUNSUPPORTED, "compressed in a way that is not read"},
        {{.method = 9}, PAWL_EUNSUPPORTED, "compressed in a way that is not read"},
        {{.size = 1000}, PAWL_EDAMAGED, "sizes cannot be"},
        {{.size = 40000, .method = 8}, PAWL_EDAMAGED, "sizes cannot be"},
        {{.local_size_off = 1}, PAWL_EDAMAGED, "not as its directory says"},
        {{.local_size_off = 1, .wide = true}, PAWL_EDAMAGED, "not as its directory says"},
        {{.local_size_off = 1, .wide = true}, PAWL_EDAMAGED, "not as its directory says"},
        {{.local_crc_off = 1}, PAWL_EDAMAGED, "not as its directory says"},
        {{.at_off = 1, .padding = 9}, PAWL_EDAMAGED, "no local header of the member"},
        {{.at_off = 500}, PAWL_EDAMAGED, "not before the directory"},
        {{.at_off = 30}, PAWL_EDAMAGED, "not before the directory"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        made_zip z = {.count = 0};
        made_member m = cases[i].change;
        m.name = m.name != NULL ? m.name : good.name;
        m.data = good.data;
        m.n = good.n;
        made_add(&z, m);
        made_all(&z);
        assert_refused(&z, cases[i].status, cases[i].says);
    }
}

static void test_r14_members_that_overlap(void **state) {
    (void)state;
    made_zip z = {.count = 0};
    /* The bytes of the first one have the second one. */
    made_zip inner = {.count = 0};
    made_add(&inner, made_of("inner", HELLO, strlen(HELLO)));
    made_add(&z, made_of("outer", inner.file.data, inner.file.size));
    z.members[z.count++] = inner.members[0];
    z.members[1].at = 30 + strlen("outer");
    made_all(&z);
    assert_refused(&z, PAWL_EDAMAGED, "members that overlap");
    buffer_free(&inner.file);

    z = (made_zip){.count = 0};
    made_add(&z, made_of("m", HELLO, strlen(HELLO)));
    made_add(&z, made_of("m", HELLO, strlen(HELLO)));
    made_all(&z);
    assert_refused(&z, PAWL_EDAMAGED, "a name twice");

    z = (made_zip){.count = 0}; /* one member, in the directory under two names */
    made_add(&z, made_of("m", HELLO, strlen(HELLO)));
    z.members[z.count++] = z.members[0];
    z.members[1].name = "n";
    made_all(&z);
    assert_refused(&z, PAWL_EDAMAGED, "");

    z = (made_zip){.count = 0}; /* the bytes are those of the directory, too */
    made_add(&z, (made_member){.name = "m", .data = HELLO, .n = 4, .padding = 60000});
    made_directory(&z);
    z.file.data[28] = 0xff; /* the extra field: longer by some bytes */
    made_end(&z, "");
    assert_refused(&z, PAWL_EDAMAGED, "overlaps the directory");
}

static void put_number(made_zip *z, size_t from_end, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        z->file.data[z->file.size - from_end + i] = (uint8_t)(v >> 8 * i);
    }
}

static made_zip small_zip(bool wide) {
    made_zip z = {.count = 0};
    made_add(&z, made_of("m", HELLO, strlen(HELLO)));
    made_directory(&z);
    if (wide) {
        made_end_64(&z);
    }
    made_end(&z, "");
    return z;
}

static void test_r14_hostile_ends(void **state) {
    (void)state;
    static const struct {
        size_t from_end;
        uint64_t v;
        size_t n;
        pawl_status status;
        const char *says;
        bool wide;
    } cases[] = {
        {22, 0, 4, PAWL_EDAMAGED, "has no end", false},
        {2, 1, 2, PAWL_EDAMAGED, "has no end", false},
        {18, 1, 2, PAWL_EUNSUPPORTED, "one of several parts", false},
        {16, 1, 2, PAWL_EUNSUPPORTED, "one of several parts", false},
        {14, 2, 2, PAWL_EUNSUPPORTED, "one of several parts", false},
        {14, 0x20002, 4, PAWL_EDAMAGED, "directory that is not before its end", false},
        {14, 0, 4, PAWL_EDAMAGED, "more in its directory than members", false},
        {10, 5, 4, PAWL_EDAMAGED, "directory that is not before its end", false},
        {6, 5, 4, PAWL_EDAMAGED, "directory that is not before its end", false},
        {6, 0xfffffff0, 4, PAWL_EDAMAGED, "directory that is not before its end", false},
        {22 + 20 - 8, 0, 8, PAWL_EDAMAGED, "a zip64 end that is none", true},
        {22 + 20 - 8, UINT64_MAX, 8, PAWL_EDAMAGED, "a place of the zip64 end", true},
        {22 + 20 - 16, 2, 4, PAWL_EDAMAGED, "two ends that differ", true},
        {22 + 20 - 4, 1, 4, PAWL_EUNSUPPORTED, "one of several parts", true},
        {22 + 20 + 56 - 4, 45, 8, PAWL_EDAMAGED, "a zip64 end that is none", true},
        {22 + 20 + 56 - 16, 1, 4, PAWL_EUNSUPPORTED, "one of several parts", true},
        {22 + 20 + 56 - 24, 2, 8, PAWL_EDAMAGED, "two ends that differ", true},
        {22 + 20 + 56 - 48, 7, 8, PAWL_EDAMAGED, "two ends that differ", true},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        made_zip z = small_zip(cases[i].wide);
        put_number(&z, cases[i].from_end, cases[i].v, cases[i].n);
        assert_refused(&z, cases[i].status, cases[i].says);
    }
}

/* As many as are too many, where the numbers of the end say nothing. */
static void test_r14_too_many_members(void **state) {
    (void)state;
    made_zip z = small_zip(true);
    put_number(&z, 14, UINT64_MAX, 4);
    put_number(&z, 22 + 20 + 56 - 24, FOREIGN_MAX_ZIP_MEMBERS + 1, 8);
    put_number(&z, 22 + 20 + 56 - 32, FOREIGN_MAX_ZIP_MEMBERS + 1, 8);
    assert_refused(&z, PAWL_ELIMIT, "too many members");
    z = small_zip(true);
    put_number(&z, 10, UINT64_MAX, 4);
    put_number(&z, 22 + 20 + 56 - 40, (uint64_t)FOREIGN_MAX_ZIP_DIRECTORY + 1, 8);
    assert_refused(&z, PAWL_ELIMIT, "too many members");
}

static void test_every_cut_is_noticed(void **state) {
    (void)state;
    made_zip z = small_zip(true);
    for (size_t n = 0; n < z.file.size; n++) {
        buffer cut = {.data = z.file.data, .size = n};
        struct pawl_error err;
        zip_directory d;
        assert_fails(open_bytes(&cut, &d, &err), PAWL_EDAMAGED, &err);
    }
    made_bytes(&z.file, "x", 1); /* one more is noticed, too */
    assert_refused(&z, PAWL_EDAMAGED, "has no end");
}

/* ---- bytes that are wrong ---- */

static void assert_bad_bytes(made_zip *z, const char *says) {
    struct pawl_error err;
    CLEANUP(buffer_free) buffer out = {0};
    zip_directory d;
    assert_ok(open_bytes(&z->file, &d, &err), &err);
    byte_source source = byte_source_memory(&z->file);
    const zip_member *m = &d.members[0];
    assert_fails(zip_read_member(&source, m, 1u << 20, &out, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, says);
    assert_string_equal(err.entry, "m");
    assert_true(err.has_range && err.offset >= m->offset);
    assert_int_equal(out.size, 0);
    err = ERROR_INIT;
    assert_fails(zip_check_member(&source, m, &no_parts, NULL, NULL, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, says);
    zip_free(&d);
    buffer_free(&z->file);
}

static void test_r14_members_whose_bytes_are_wrong(void **state) {
    (void)state;
    static const struct {
        int size_off, crc_off, cut, more;
        const char *says;
    } cases[] = {
        {0, 1, 0, 0, "its checksum (CRC32) differs"},
        {1, 0, 0, 0, "another size"},
        {-1, 0, 0, 0, "another size"},
        {0, 0, 3, 0, "it ends too early"},
        {0, 0, 0, 1, "more compressed bytes"},
        {0, 0, 0, 9, "more compressed bytes"},
        {0, 0, 0, 100, "more compressed bytes"},
        {-20, 0, 0, 0, "another size"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buffer_free) buffer packed = {0};
        static const uint8_t zeros[100] = {0};
        made_zip z = {.count = 0};
        made_member m = packed_of("m", &packed, HELLO);
        made_bytes(&packed, zeros, (size_t)cases[i].more);
        m.data = packed.data;
        m.n = packed.size - (size_t)cases[i].cut;
        m.crc32 += (uint32_t)cases[i].crc_off;
        m.size = (size_t)((int)m.size + cases[i].size_off);
        made_add(&z, m);
        made_all(&z);
        assert_bad_bytes(&z, cases[i].says);
    }
    made_zip z = small_zip(false);
    z.file.data[31] ^= 1;
    assert_bad_bytes(&z, "its checksum (CRC32) differs");
    z = (made_zip){.count = 0};
    made_member m = made_of("m", "\7\7\7\7", 4); /* a block of a kind that there is not */
    m.method = 8;
    made_add(&z, m);
    made_all(&z);
    assert_bad_bytes(&z, "the compressed bytes are damaged");
}

/* A decoder that reads ahead takes them with it. */
static void test_r14_a_few_more_bytes_than_needed(void **state) {
    (void)state;
    static char text[100000];
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        random = random * 1664525u + 1013904223u;
        text[i] = (char)('a' + (random >> 24) % 11);
    }
    for (size_t more = 0; more < 3; more++) {
        CLEANUP(buffer_free) buffer packed = {0};
        made_zip z = {.count = 0};
        made_member m = packed_of("m", &packed, text);
        made_bytes(&packed, "\0\0", more);
        m.data = packed.data;
        m.n += more;
        made_add(&z, m);
        made_all(&z);
        if (more > 0) {
            assert_bad_bytes(&z, "more compressed bytes");
            continue;
        }
        struct pawl_error err;
        zip_directory d;
        assert_ok(open_bytes(&z.file, &d, &err), &err);
        assert_member(&z.file, &d, "m", text, sizeof(text) - 1);
        zip_free(&d);
        buffer_free(&z.file);
    }
}

/* ---- many ---- */

typedef struct counted {
    const buffer *file;
    size_t reads;
} counted;

static pawl_status read_counted(void *context, uint64_t offset, void *to, size_t n,
                                pawl_error *err) {
    counted *c = context;
    (void)err;
    assert_true(offset + n <= c->file->size);
    memcpy(to, c->file->data + offset, n);
    c->reads++;
    return PAWL_OK;
}

#define MANY 100000

static void test_a_hundred_thousand_members(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer file = {0};
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer directory = {0};
    for (int i = 0; i < MANY; i++) {
        made_zip one = {.file = file};
        char name[32];
        snprintf(name, sizeof(name), "archive/data/%d", i);
        made_add(&one, made_of(name, &i, sizeof(i)));
        made_central(&directory, &one.members[0]);
        file = one.file;
    }
    made_zip z = {.file = file, .count = MANY, .directory = file.size};
    made_bytes(&z.file, directory.data, directory.size);
    z.directory_end = z.file.size;
    made_end_64(&z);
    made_end(&z, "");
    put_number(&z, 14, UINT64_MAX, 4);
    file = z.file;
    counted c = {.file = &file};
    byte_source source = {.context = &c, .size = file.size, .read_at = read_counted};
    double begun = test_now_s();
    zip_directory d;
    assert_ok(zip_read(&source, &d, &err), &err);
    assert_true(test_now_s() - begun < 10); /* a twentieth of a second */
    assert_true(c.reads < 100);
    assert_int_equal(d.count, MANY);
    int last = MANY - 1;
    assert_member(&file, &d, "archive/data/99999", &last, sizeof(last));
    zip_free(&d);
}

static pawl_status read_with_failing_memory(void *context, pawl_error *err) {
    const buffer *file = context;
    byte_source source = byte_source_memory(file);
    CLEANUP(buffer_free) buffer out = {0};
    CLEANUP(zip_free) zip_directory d = {0};
    TRY(zip_read(&source, &d, err));
    TRY(zip_check_member(&source, &d.members[1], &no_parts, NULL, NULL, err));
    return zip_read_member(&source, &d.members[1], 6000, &out, err);
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer file = {0};
    read_sample("deflated.zip", &file);
    assert_true(failing_memory_each(read_with_failing_memory, &file) > 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_zip_of_python),
        cmocka_unit_test(test_a_zip_that_was_streamed),
        cmocka_unit_test(test_a_zip_of_torch),
        cmocka_unit_test(test_zips_of_numpy),
        cmocka_unit_test(test_members_in_any_form),
        cmocka_unit_test(test_an_empty_zip),
        cmocka_unit_test(test_r14_hostile_members),
        cmocka_unit_test(test_r14_members_that_overlap),
        cmocka_unit_test(test_r14_hostile_ends),
        cmocka_unit_test(test_r14_too_many_members),
        cmocka_unit_test(test_every_cut_is_noticed),
        cmocka_unit_test(test_r14_members_whose_bytes_are_wrong),
        cmocka_unit_test(test_r14_a_few_more_bytes_than_needed),
        cmocka_unit_test(test_a_hundred_thousand_members),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
