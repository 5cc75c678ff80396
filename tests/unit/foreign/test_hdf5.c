/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5 files that h5py wrote (samples/hdf5/make.py), and the same, damaged. */
#include "unit/foreign/made_archive.h"

#include "lib/failing_memory.h"
#include "lib/in_memory.h"

#include "foreign/foreign.h"
#include "foreign/hdf5/chunk_unpack.h"

static struct source *open_sample(store *s, const char *name) {
    struct pawl_error err;
    struct source *w;
    char path[64];
    snprintf(path, sizeof(path), "hdf5/%s", name);
    made_put_sample(s, path, name);
    assert_ok(made_archive(s, &format_hdf5, name, &w, &err), &err);
    return w;
}

/* ---- what is read --------------------------------------------------------------------------- */

static void check_numbers(struct source *w) {
    static const float f32[] = {0, 1, 2, 3, 4, 5}, scalar[] = {2.5f}, c64[] = {1, 2, 3, -4};
    static const double f64[] = {0, 1, 2, 3}, c128[] = {1, 2};
    static const int8_t i8[] = {-1, 2};
    static const uint8_t truth[] = {1, 0, 1};
    static const int64_t x[] = {0, 1, 2};
    assert_entry(w, "f32", "F32 [2, 3] 1 parts");
    assert_tensor(w, "f32", f32);
    assert_tensor(w, "f64_big", f64);
    assert_tensor(w, "i8", i8);
    assert_entry(w, "bool", "BOOL [3] 1 parts");
    assert_tensor(w, "bool", truth);
    assert_entry(w, "c64", "C64 [2] 1 parts");
    assert_tensor(w, "c64", c64);
    assert_entry(w, "c128", "F64 [1, 2] 1 parts");
    assert_tensor(w, "c128", c128);
    assert_entry(w, "scalar", "F32 [] 1 parts");
    assert_tensor(w, "scalar", scalar);
    assert_entry(w, "empty", "F32 [0, 3] 1 parts");
    assert_entry(w, "text", "string plain");
    assert_entry(w, "never", "json null");
    assert_tensor(w, "g/deep/x", x);
    assert_int_equal(w->entries, 11);
}

static void test_numbers_of_all_types(void **state) {
    static const char *const names[] = {"numbers.h5", "numbers_new.h5", "sizes84.h5", "sizes48.h5"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        struct source *w = open_sample(*state, names[i]);
        check_numbers(w);
        source_destroy(w);
    }
}

static void test_attributes_are_values_or_tensors(void **state) {
    static const int16_t array[] = {1, 2, 3};
    struct source *w = open_sample(*state, "attributes.h5");
    assert_entry(w, "@model_config", "string {\"a\": 1}");
    assert_entry(w, "g@names", "json [\"one\",\"two\"]");
    assert_entry(w, "g@fixed", "json [\"ab\",\"c\"]");
    assert_entry(w, "g@i", "int64 -5");
    assert_entry(w, "g@u", "json 18446744073709551615");
    assert_entry(w, "g@f", "float64 0.5");
    assert_entry(w, "g@b", "bool 1");
    assert_entry(w, "g@array", "I16 [3] 1 parts");
    assert_tensor(w, "g@array", array);
    assert_entry(w, "g@none", "json null");
    assert_entry(w, "g@pair", "json {\"unread\":\"COMPOUND8\"}");
    source_destroy(w);
}

static void check_chunks(struct source *w) {
    int32_t a[35], sevenths[35];
    float holes[36];
    static const int32_t unwritten[] = {-2, -2, -2};
    for (int i = 0; i < 35; i++) {
        a[i] = i;
        sevenths[i] = i / 7;
    }
    for (int i = 0; i < 36; i++) {
        holes[i] = i == 4 * 4 + 1 ? 7 : 1.5f;
    }
    assert_entry(w, "plain", "I32 [7, 5] 3 parts");
    assert_tensor(w, "plain", a);
    assert_entry(w, "cut", "I32 [7, 5] 9 parts");
    assert_tensor(w, "cut", a);
    assert_tensor(w, "all", a);
    assert_tensor(w, "lzf", sevenths);
    assert_tensor(w, "big", a);
    assert_entry(w, "holes", "F32 [9, 4] 4 parts"); /* a chunk, and boxes around it */
    assert_tensor(w, "holes", holes);
    assert_tensor(w, "unwritten", unwritten);
    assert_tensor(w, "grows", a);
    assert_entry(w, "scaled", "unread I32 [7, 5] 1 parts");
    char text[256];
    assert_says(made_says(w, "scaled@%unread", text), "filter 6 (scale-offset)");
}

static void test_chunks_whatever_was_done_to_them(void **state) {
    static const char *const names[] = {"chunks.h5", "chunks_new.h5"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        struct source *w = open_sample(*state, names[i]);
        check_chunks(w);
        source_destroy(w);
    }
}

/* Extensible arrays of chunks, whatever the dimension that has no end; an attribute too large for
 * the heap of attributes. */
static void test_datasets_that_may_grow(void **state) {
    int32_t a[35], shrunk[12], large[1200];
    uint8_t bytes[300];
    struct source *w = open_sample(*state, "growing_new.h5");
    for (int i = 0; i < 1200; i++) {
        large[i] = i;
    }
    for (int i = 0; i < 300; i++) {
        bytes[i] = (uint8_t)i;
    }
    memcpy(a, large, sizeof(a));
    for (int i = 0; i < 12; i++) {
        shrunk[i] = i / 4 * 5 + i % 4;
    }
    assert_entry(w, "rows", "I32 [7, 5] 7 parts");
    assert_tensor(w, "rows", a);
    assert_tensor(w, "columns", a);
    assert_tensor(w, "long", bytes);
    assert_entry(w, "shrunk", "I32 [3, 4] 4 parts");
    assert_tensor(w, "shrunk", shrunk);
    assert_tensor(w, "@large", large);
    source_destroy(w);
}

/* No link is followed twice, or out of the file; each is a value. */
static void test_links_are_not_followed(void **state) {
    static const char *const names[] = {"links.h5", "links_new.h5"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        struct source *w = open_sample(*state, names[i]);
        bool first = made_find(w, "a").kind == PAWL_KIND_TENSOR; /* of two links to one dataset */
        assert_entry(w, first ? "a" : "b", "U8 [2] 1 parts");
        assert_entry(w, first ? "b" : "a",
                     first ? "json {\"hard_link\":\"a\"}" : "json {\"hard_link\":\"b\"}");
        assert_entry(w, "soft", "json {\"soft_link\":\"/a\"}");
        assert_entry(w, "outside", "json {\"external_link\":\"other.h5:/x\"}");
        assert_entry(w, "loop", "json {\"hard_link\":\"\"}");
        assert_entry(w, "at%40sign", "U8 [2] 1 parts");
        assert_entry(w, "at%40sign@x@y", "int64 1");
        source_destroy(w);
    }
}

static void test_many_links_and_attributes(void **state) {
    static const char *const names[] = {"many.h5", "many_new.h5"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        struct source *w = open_sample(*state, names[i]);
        assert_int_equal(w->entries, 52);
        for (unsigned k = 0; k < 40; k++) {
            char name[16];
            uint8_t value[] = {(uint8_t)k};
            snprintf(name, sizeof(name), "w%02u", k);
            assert_tensor(w, name, value);
        }
        assert_entry(w, "@a11", "int64 11");
        source_destroy(w);
    }
}

static void test_a_file_behind_a_block_of_the_user(void **state) {
    static const double x[] = {1, 2};
    struct pawl_error err = ERROR_INIT;
    struct source *w = open_sample(*state, "userblock.h5");
    assert_tensor(w, "x", x);
    source_destroy(w);
    assert_ok(foreign_open(*state, false, "userblock.h5", false, &w, &err), &err);
    assert_tensor(w, "x", x);
    source_destroy(w);
}

/* ---- what is refused ------------------------------------------------------------------------ */

/* The nth place of some bytes in a file. */
static uint8_t *find_bytes(const buffer *file, const char *bytes, size_t n, unsigned nth) {
    for (size_t i = 0; i + n <= file->size; i++) {
        if (memcmp(file->data + i, bytes, n) == 0 && nth-- == 0) {
            return file->data + i;
        }
    }
    fail_msg("there is no %s", bytes);
    return NULL;
}

static void assert_refused(store *s, const buffer *file, pawl_status status, const char *says) {
    struct pawl_error err;
    struct source *w;
    put_anew(s, "x.h5", file->data, file->size);
    assert_fails(made_archive(s, &format_hdf5, "x.h5", &w, &err), status, &err);
    assert_says(err.attempt, says);
    assert_string_equal(err.path, "/mem/x.h5");
}

/* Some byte of a sample is another: `offset` bytes behind the nth place of a signature. */
typedef struct damage {
    const char *sample, *signature;
    unsigned nth;
    size_t offset;
    uint8_t byte;
    pawl_status status;
    const char *says;
} damage;

static void test_damaged_files(void **state) {
    static const damage cases[] = {
        {"numbers.h5", "\x89HDF", 0, 1, 'h', PAWL_EDAMAGED, "does not begin as HDF5 files do"},
        {"numbers.h5", "\x89HDF", 0, 8, 9, PAWL_EUNSUPPORTED, "a version of the superblock"},
        {"numbers.h5", "\x89HDF", 0, 13, 3, PAWL_EUNSUPPORTED, "the size of addresses"},
        {"numbers.h5", "\x89HDF", 0, 0x2b, 1, PAWL_EDAMAGED, "it is shorter than it says"},
        {"numbers.h5", "\x89HDF", 0, 0x43, 1, PAWL_EDAMAGED, "object header is not in the file"},
        {"numbers.h5", "TREE", 0, 0, 'X', PAWL_EDAMAGED, "does not begin as one"},
        {"numbers.h5", "TREE", 0, 4, 1, PAWL_EDAMAGED, "a node of the B-tree of a group"},
        {"numbers.h5", "TREE", 0, 5, 1, PAWL_EDAMAGED, "does not begin as one"},
        {"numbers.h5", "TREE", 0, 5, 99, PAWL_EDAMAGED, "a node of the B-tree of a group"},
        {"numbers.h5", "TREE", 0, 7, 255, PAWL_EDAMAGED, "is not in the file"},
        {"numbers.h5", "HEAP", 0, 14, 255, PAWL_EDAMAGED, "is not in the file"},
        {"numbers.h5", "SNOD", 0, 8, 255, PAWL_EDAMAGED, "not in the local heap"},
        {"chunks.h5", "TREE", 1, 24, 1, PAWL_EDAMAGED,
         "a chunk that is stored as it is has another size"},
        {"attributes.h5", "GCOL", 0, 4, 2, PAWL_EUNSUPPORTED, "a version of the global heap"},
        {"attributes.h5", "GCOL", 0, 16, 77, PAWL_EDAMAGED, "object of the global heap is not"},
        {"numbers_new.h5", "\x89HDF", 0, 13, 9, PAWL_EDAMAGED, "checksum of the superblock"},
        {"numbers_new.h5", "OHDR", 0, 9, 77, PAWL_EDAMAGED, "checksum of the object header"},
        {"many_new.h5", "FRHP", 0, 20, 7, PAWL_EDAMAGED, "checksum of the fractal heap"},
        {"many_new.h5", "BTHD", 0, 6, 7, PAWL_EDAMAGED, "checksum of the B-tree"},
        {"many_new.h5", "BTLF", 0, 8, 7, PAWL_EDAMAGED, "checksum of the B-tree"},
        {"many_new.h5", "FHDB", 0, 90, 99, PAWL_EDAMAGED, "checksum does not match"},
        {"chunks_new.h5", "FAHD", 0, 8, 7, PAWL_EDAMAGED, "checksum of the fixed array"},
        {"growing_new.h5", "EAHD", 0, 8, 7, PAWL_EDAMAGED, "checksum of the extensible array"},
        {"growing_new.h5", "EAIB", 0, 15, 7, PAWL_EDAMAGED, "checksum of the block of an ext"},
        {"growing_new.h5", "EADB", 0, 15, 7, PAWL_EDAMAGED, "checksum of the block of an ext"},
        {"growing_new.h5", "EASB", 0, 15, 7, PAWL_EDAMAGED, "checksum of the block of an ext"},
        {"chunks_new.h5", "FADB", 0, 15, 7, PAWL_EDAMAGED, "checksum of the block of a fixed"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buffer_free) buffer file = {0};
        const damage *d = &cases[i];
        char path[64];
        print_message("%s, %s + %zu\n", d->sample, d->signature, d->offset);
        snprintf(path, sizeof(path), "hdf5/%s", d->sample);
        made_sample(path, &file);
        find_bytes(&file, d->signature, 4, d->nth)[d->offset] = d->byte;
        assert_refused(*state, &file, d->status, d->says);
    }
}

/* A B-tree whose node is its own child: levels must descend. */
static void test_a_tree_that_comes_back(void **state) {
    CLEANUP(buffer_free) buffer file = {0};
    made_sample("hdf5/numbers.h5", &file);
    uint8_t *tree = find_bytes(&file, "TREE", 4, 0);
    uint64_t address = (uint64_t)(tree - file.data);
    tree[5] = 3;
    memcpy(tree + 32, &address, sizeof(address));
    assert_refused(*state, &file, PAWL_EDAMAGED, "a node of the B-tree of a group");
}

static void test_an_object_header_that_continues_in_itself(void **state) {
    static const uint8_t continuation[] = {0x10, 0, 16, 0, 0, 0, 0, 0};
    CLEANUP(buffer_free) buffer file = {0};
    made_sample("hdf5/numbers.h5", &file);
    uint64_t root;
    uint64_t bytes = 24;
    memcpy(&root, file.data + 0x40, sizeof(root));
    uint64_t first = root + 16;
    memcpy(file.data + first, continuation, sizeof(continuation));
    memcpy(file.data + first + 8, &first, sizeof(first));
    memcpy(file.data + first + 16, &bytes, sizeof(bytes));
    assert_refused(*state, &file, PAWL_ELIMIT, "bytes in one object header");
}

static void test_every_length_of_a_file(void **state) {
    static const char *const names[] = {"hdf5/chunks.h5", "hdf5/many_new.h5"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        CLEANUP(buffer_free) buffer file = {0};
        made_sample(names[i], &file);
        for (size_t n = 0; n + 1 < file.size; n += 97) {
            struct pawl_error err;
            struct source *w;
            put_anew(*state, "x.h5", file.data, n);
            assert_fails(made_archive(*state, &format_hdf5, "x.h5", &w, &err), PAWL_EDAMAGED, &err);
        }
    }
}

/* ---- chunks that are damaged ---------------------------------------------------------------- */

/* Where the first chunk of the nth dataset of chunks is, in the order in which they were made: by
 * the first key of its B-tree. */
static uint64_t find_chunk(const buffer *file, unsigned nth, uint32_t *stored) {
    uint64_t at = 0;
    for (unsigned i = 0;; i++) {
        const uint8_t *tree = find_bytes(file, "TREE", 4, i);
        if (tree[4] == 1 && nth-- == 0) {
            memcpy(stored, tree + 24, sizeof(*stored));
            memcpy(&at, tree + 24 + 8 + 24, sizeof(at));
            return at;
        }
    }
}

typedef struct heard {
    unsigned problems;
    char entry[64];
} heard;

static void hear(void *context, const char *file, const char *entry, pawl_error *story) {
    heard *h = context;
    assert_string_equal(file, "x.h5");
    assert_string_equal(story->path, "/mem/x.h5");
    h->problems++;
    snprintf(h->entry, sizeof(h->entry), "%s", entry);
}

static pawl_status go_on(void *context, uint64_t bytes, pawl_error *err) {
    (void)context;
    (void)bytes;
    (void)err;
    return PAWL_OK;
}

static void check_damaged_chunk(store *s, const char *name, unsigned nth, size_t from_end,
                                const char *says) {
    CLEANUP(buffer_free) buffer file = {0};
    struct pawl_error err;
    struct source *w;
    int32_t read[35];
    uint32_t stored;
    made_sample("hdf5/chunks.h5", &file);
    uint64_t at = find_chunk(&file, nth, &stored);
    file.data[at + stored - from_end] ^= 0x55;
    put_anew(s, "x.h5", file.data, file.size);
    assert_ok(made_archive(s, &format_hdf5, "x.h5", &w, &err), &err);
    assert_fails(made_read(w, name, 64, read, sizeof(read), &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, says);
    assert_string_equal(err.path, "/mem/x.h5");
    heard h = {.problems = 0};
    source_verifier v = {.context = &h, .problem = hear, .progress = go_on};
    assert_ok(w->ops->verify(w, &v, &err), &err);
    assert_int_equal(h.problems, 1);
    assert_string_equal(h.entry, name);
    assert_fails(made_read(w, name, 64, read, sizeof(read), &err), PAWL_EDAMAGED, &err);
    char place[64];
    snprintf(place, sizeof(place), "the chunk at byte %llu", (unsigned long long)at);
    assert_says(err.attempt, place);
    source_destroy(w);
}

static void test_damaged_chunks(void **state) {
    check_damaged_chunk(*state, "all", 2, 1, "its checksum does not match");
    check_damaged_chunk(*state, "all", 2, 6, "compressed bytes are damaged"); /* of zlib */
    check_damaged_chunk(*state, "big", 4, 1, "compressed bytes are damaged");
}

static void test_lzf_and_what_is_none(void **state) {
    static const uint8_t good[] = {2, 'a', 'b', 'c', 0x20, 2, 0xe0, 1, 2};
    static const struct {
        uint8_t bytes[4];
        size_t n;
    } bad[] = {
        {{3, 'a', 'b', 'c'}, 4},                 /* fewer bytes than it says */
        {{0x20, 0}, 2},                          /* from before the first */
        {{0, 'a', 0x20}, 3},                     /* no distance */
        {{0, 'a', 0xe0}, 3},                     /* no length */
        {{0, 'a', 0xe0, 255}, 4}, {{0, 'a'}, 2}, /* too few */
    };
    uint8_t out[16];
    (void)state;
    assert_true(chunk_unpack_lzf(good, sizeof(good), out, 3 + 3 + 10));
    assert_memory_equal(out, "abcabcabcabcabca", 16);
    assert_false(chunk_unpack_lzf(good, sizeof(good), out, 15));
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        assert_false(chunk_unpack_lzf(bad[i].bytes, bad[i].n, out, 8));
    }
}

/* "123456789" and its beginnings, computed by others. */
static void test_checksums_are_those_of_hdf5(void **state) {
    static const char text[] = "Four score and seven years ago";
    (void)state;
    assert_int_equal(hdf5_lookup3((const uint8_t *)text, 30), 0x17770551);
    assert_int_equal(hdf5_lookup3((const uint8_t *)"", 0), 0xdeadbeef);
    hdf5_fletcher sum = {.one = 0};
    hdf5_fletcher_add(&sum, (const uint8_t *)"abcd", 1);
    hdf5_fletcher_add(&sum, (const uint8_t *)"bcd", 3);
    hdf5_fletcher whole = {.one = 0};
    hdf5_fletcher_add(&whole, (const uint8_t *)"abcd", 4);
    uint32_t one = 0x6162 + 0x6364;
    uint32_t two = 0x6162 + one;
    two = (two & 0xffff) + (two >> 16);
    assert_int_equal(hdf5_fletcher_end(&whole), two << 16 | one);
    assert_int_equal(hdf5_fletcher_end(&sum), two << 16 | one);
}

/* ---- memory --------------------------------------------------------------------------------- */

static pawl_status open_and_read(void *context, pawl_error *err) {
    struct source *w;
    int32_t read[35];
    TRY(archive_open(context, false, &format_hdf5, "chunks.h5", true, &w, err));
    pawl_status status = made_read(w, "all", 64, read, sizeof(read), err);
    source_destroy(w);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    made_put_sample(*state, "hdf5/chunks.h5", "chunks.h5");
    assert_true(failing_memory_each(open_and_read, *state) > 50);
}

static pawl_status open_many(void *context, pawl_error *err) {
    struct source *w;
    TRY(archive_open(context, false, &format_hdf5, "many_new.h5", true, &w, err));
    source_destroy(w);
    return PAWL_OK;
}

static void test_every_allocation_of_dense_storage_may_fail(void **state) {
    made_put_sample(*state, "hdf5/many_new.h5", "many_new.h5");
    assert_true(failing_memory_each(open_many, *state) > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_numbers_of_all_types),
        IN_MEMORY(test_attributes_are_values_or_tensors),
        IN_MEMORY(test_chunks_whatever_was_done_to_them),
        IN_MEMORY(test_datasets_that_may_grow),
        IN_MEMORY(test_links_are_not_followed),
        IN_MEMORY(test_many_links_and_attributes),
        IN_MEMORY(test_a_file_behind_a_block_of_the_user),
        IN_MEMORY(test_damaged_files),
        IN_MEMORY(test_a_tree_that_comes_back),
        IN_MEMORY(test_an_object_header_that_continues_in_itself),
        IN_MEMORY(test_every_length_of_a_file),
        IN_MEMORY(test_damaged_chunks),
        IN_MEMORY(test_lzf_and_what_is_none),
        IN_MEMORY(test_checksums_are_those_of_hdf5),
        IN_MEMORY(test_every_allocation_may_fail),
        IN_MEMORY(test_every_allocation_of_dense_storage_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
