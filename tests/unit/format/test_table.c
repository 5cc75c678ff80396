/* SPDX-License-Identifier: Apache-2.0 */
/* table: golden bytes, a sorted model both ways, every damage, hostile blocks, other writers'
 * tables. */
#include "format/block.h"
#include "format/format.h"
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers -------------------------------------------------------------------------------- */

static void read_file(const char *path, buffer *out) {
    pawl_error err = ERROR_INIT;
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        print_message("skipped: there is no %s\n", path);
        skip();
    }
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, in)) > 0;) {
        assert_ok(buffer_append(out, chunk, n, &err), &err);
    }
    (void)fclose(in);
}

static void free_cursor(table_cursor **c) {
    table_cursor_free(*c);
}

static void free_table(table **t) {
    table_close(*t);
}

static void free_writer(table_writer **w) {
    table_writer_free(*w);
}

/* Opens the table and goes through it from end to end. */
static pawl_status read_all(const buffer *file, size_t *count, pawl_error *err) {
    CLEANUP(free_table) table *t = NULL;
    CLEANUP(free_cursor) table_cursor *c = NULL;
    *count = 0;
    TRY(table_open(byte_source_memory(file), NULL, &t, err));
    TRY(table_cursor_new(t, &c, err));
    TRY(table_seek(c, "", 0, err));
    while (table_valid(c)) {
        ++*count;
        TRY(table_next(c, err));
    }
    return PAWL_OK;
}

typedef struct item {
    char key[24];
    uint8_t value[8];
    size_t value_bytes;
} item;

static pawl_status write_items(const item *items, size_t count, buffer *out, table_summary *summary,
                               pawl_error *err) {
    CLEANUP(free_writer) table_writer *w = NULL;
    TRY(table_writer_new(byte_sink_buffer(out), &w, err));
    for (size_t i = 0; i < count; i++) {
        TRY(table_writer_add(w, items[i].key, strlen(items[i].key), items[i].value,
                             items[i].value_bytes, err));
    }
    return table_writer_finish(w, summary, err);
}

static void assert_item(const table_cursor *c, const item *want) {
    const uint8_t *key, *value;
    size_t key_bytes, value_bytes;
    assert_true(table_valid(c));
    table_item(c, &key, &key_bytes, &value, &value_bytes);
    assert_int_equal(key_bytes, strlen(want->key));
    assert_memory_equal(key, want->key, key_bytes);
    assert_int_equal(value_bytes, want->value_bytes);
    assert_memory_equal(value, want->value, value_bytes);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const item *)a)->key, ((const item *)b)->key);
}

/* Distinct random keys, ascending; short alphabets make long shared prefixes. */
static size_t make_items(test_random *random, item *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t n = 1 + (size_t)random_below(random, sizeof items->key - 2);
        memset(&items[i], 0, sizeof items[i]);
        for (size_t k = 0; k < n; k++) {
            items[i].key[k] = (char)('a' + random_below(random, 3));
        }
        items[i].value_bytes = (size_t)random_below(random, sizeof items->value + 1);
        random_fill(random, items[i].value, items[i].value_bytes);
    }
    qsort(items, count, sizeof *items, by_key);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || strcmp(items[kept - 1].key, items[i].key) != 0) {
            items[kept++] = items[i];
        }
    }
    return kept;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Three keys in one block, byte for byte, as the specification of the format lays them out. */
static void test_table_bytes_are_golden(void **state) {
    (void)state;
    static const uint8_t golden[] = {
        /* data block at 0: "apple" = "1", "ap" + "ricot" = "22", "b" = "" */
        0, 5, 1, 'a', 'p', 'p', 'l', 'e', '1', 2, 5, 2, 'r', 'i', 'c', 'o', 't', '2', '2', 0, 1, 0,
        'b', 0, 0, 0, 0, 1, 0, 0, 0, /* restart at 0; one restart */
        0, 0xe7, 0xd4, 0x8f, 0xa0,   /* not compressed; checksum */
        /* metaindex block at 36: empty */
        0, 0, 0, 0, 1, 0, 0, 0, 0, 0xc0, 0xf2, 0xa1, 0xb0,
        /* index block at 49: "b" = 31 bytes from 0 on */
        0, 1, 2, 'b', 0, 31, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x56, 0xa0, 0xe6, 0x4b,
        /* footer: metaindex 36, 8; index 49, 14; zeros; magic */
        36, 8, 49, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};
    static const item items[] = {{"apple", {'1'}, 1}, {"apricot", {'2', '2'}, 2}, {"b", {0}, 0}};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    table_summary summary;
    assert_ok(write_items(items, 3, &out, &summary, &err), &err);
    assert_int_equal(out.size, sizeof golden);
    assert_memory_equal(out.data, golden, sizeof golden);
    assert_int_equal(summary.bytes, sizeof golden);
    assert_int_equal(summary.crc32c, 0x70b286cf);
    assert_int_equal(summary.footer_crc32c, 0x8e4d290f);
}

/* Keys that do not ascend are a defect of the caller. */
static void test_descending_keys_are_refused(void **state) {
    (void)state;
    static const item items[] = {{"b", {0}, 0}, {"a", {0}, 0}};
    static const item twice[] = {{"b", {0}, 0}, {"b", {0}, 0}};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    table_summary summary;
    assert_fails(write_items(items, 2, &out, &summary, &err), PAWL_EINTERNAL, &err);
    assert_fails(write_items(twice, 2, &out, &summary, &err), PAWL_EINTERNAL, &err);
}

/* A key or a value beyond the maximum is refused when it is written, not when it is read. */
static void test_records_beyond_the_maximum_are_refused(void **state) {
    (void)state;
    static char key[FORMAT_MAX_KEY + 1];
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    CLEANUP(free_writer) table_writer *w = NULL;
    memset(key, 'k', sizeof key);
    assert_ok(table_writer_new(byte_sink_buffer(&out), &w, &err), &err);
    assert_ok(table_writer_add(w, key, FORMAT_MAX_KEY, "", 0, &err), &err);
    key[0] = 'l';
    assert_fails(table_writer_add(w, key, FORMAT_MAX_KEY + 1, "", 0, &err), PAWL_ELIMIT, &err);
    assert_fails(table_writer_add(w, "z", 1, "", FORMAT_MAX_TABLE_BLOCK, &err), PAWL_ELIMIT, &err);
}

static pawl_status failing_write(void *context, const void *data, size_t n, pawl_error *err) {
    (void)context, (void)data, (void)n;
    return error_set(err, PAWL_EIO, "the sink fails");
}

/* A sink that fails makes the table fail. */
static void test_failing_sink_is_reported(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(free_writer) table_writer *w = NULL;
    table_summary summary;
    byte_sink sink = {.write = failing_write};
    assert_ok(table_writer_new(sink, &w, &err), &err);
    assert_ok(table_writer_add(w, "k", 1, "v", 1, &err), &err);
    assert_fails(table_writer_finish(w, &summary, &err), PAWL_EIO, &err);
}

/* ---- both ways ------------------------------------------------------------------------------ */

/* A table without keys is a whole table. */
static void test_empty_table_round_trips(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    table_summary summary;
    size_t count = 1;
    assert_ok(write_items(NULL, 0, &out, &summary, &err), &err);
    assert_ok(read_all(&out, &count, &err), &err);
    assert_int_equal(count, 0);
}

#define MODEL_ITEMS 3000

/* All items come in their order, and nothing after them. */
static void assert_reads(const buffer *file, const table_summary *summary, const item *items,
                         size_t count) {
    pawl_error err = ERROR_INIT;
    CLEANUP(free_table) table *t = NULL;
    CLEANUP(free_cursor) table_cursor *c = NULL;
    assert_int_equal(summary->bytes, file->size);
    assert_int_equal(summary->crc32c, crc32c(0, file->data, file->size));
    assert_ok(table_open(byte_source_memory(file), &summary->footer_crc32c, &t, &err), &err);
    assert_ok(table_cursor_new(t, &c, &err), &err);
    assert_ok(table_seek(c, "", 0, &err), &err);
    for (size_t i = 0; i < count; i++) {
        assert_item(c, &items[i]);
        assert_ok(table_next(c, &err), &err);
    }
    assert_false(table_valid(c));
}

static void free_part(table_part **p) {
    table_part_free(*p);
}

/* Items from `first` on are encoded ahead. */
static pawl_status write_with_part(const item *items, size_t first, size_t count, buffer *out,
                                   table_summary *summary, pawl_error *err) {
    CLEANUP(free_writer) table_writer *w = NULL;
    CLEANUP(free_part) table_part *part = NULL;
    TRY(table_part_new(&part, err));
    for (size_t i = first; i < count; i++) {
        TRY(table_part_add(part, items[i].key, strlen(items[i].key), items[i].value,
                           items[i].value_bytes, err));
    }
    TRY(table_part_finish(part, err));
    TRY(table_writer_new(byte_sink_buffer(out), &w, err));
    for (size_t i = 0; i < first; i++) {
        TRY(table_writer_add(w, items[i].key, strlen(items[i].key), items[i].value,
                             items[i].value_bytes, err));
    }
    TRY(table_writer_add_part(w, part, err));
    return table_writer_finish(w, summary, err);
}

/* A table of which all is encoded ahead is the same, byte for byte; one with a part reads the same.
 */
static void test_parts_encoded_ahead_make_the_same_table(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    test_random random = {.state = 9};
    static item items[MODEL_ITEMS];
    size_t count = make_items(&random, items, MODEL_ITEMS);
    CLEANUP(buffer_free) buffer plain = {.data = NULL};
    table_summary of_plain, summary;
    assert_ok(write_items(items, count, &plain, &of_plain, &err), &err);
    const size_t firsts[] = {0, 1, count / 2, count};
    for (size_t i = 0; i < ARRAY_LENGTH(firsts); i++) {
        CLEANUP(buffer_free) buffer out = {.data = NULL};
        assert_ok(write_with_part(items, firsts[i], count, &out, &summary, &err), &err);
        if (firsts[i] == 0 || firsts[i] == count) {
            assert_int_equal(out.size, plain.size);
            assert_memory_equal(out.data, plain.data, plain.size);
            assert_memory_equal(&summary, &of_plain, sizeof summary);
        }
        assert_reads(&out, &summary, items, count);
    }
}

/* A part must come after what the writer has, and ascend in itself. */
static void test_descending_parts_are_refused(void **state) {
    (void)state;
    static const item items[] = {{"b", {0}, 0}, {"b", {0}, 0}};
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    table_summary summary;
    assert_fails(write_with_part(items, 1, 2, &out, &summary, &err), PAWL_EINTERNAL, &err);
    assert_fails(write_with_part(items, 0, 2, &out, &summary, &err), PAWL_EINTERNAL, &err);
}

/* Reads back a random table in order, and finds what a sorted array finds, for any key. */
static void test_random_tables_agree_with_a_sorted_array(void **state) {
    (void)state;
    static item items[MODEL_ITEMS];
    test_random random = {5};
    for (int round = 0; round < 40; round++) {
        size_t count = make_items(&random, items, (size_t)random_below(&random, MODEL_ITEMS) + 1);
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer out = {.data = NULL};
        CLEANUP(free_table) table *t = NULL;
        CLEANUP(free_cursor) table_cursor *c = NULL;
        table_summary summary;
        assert_ok(write_items(items, count, &out, &summary, &err), &err);
        assert_reads(&out, &summary, items, count);
        assert_ok(table_open(byte_source_memory(&out), &summary.footer_crc32c, &t, &err), &err);
        assert_ok(table_cursor_new(t, &c, &err), &err);
        for (int i = 0; i < 300; i++) {
            item wanted;
            (void)make_items(&random, &wanted, 1);
            size_t at = 0;
            while (at < count && strcmp(items[at].key, wanted.key) < 0) {
                at++;
            }
            assert_ok(table_seek(c, wanted.key, strlen(wanted.key), &err), &err);
            if (at == count) {
                assert_false(table_valid(c));
            } else {
                assert_item(c, &items[at]);
            }
        }
    }
}

/* Counts what is read of a table in memory. */
typedef struct counting_source {
    const buffer *file;
    uint64_t reads, bytes;
} counting_source;

static pawl_status counted_read(void *context, uint64_t offset, void *to, size_t n,
                                pawl_error *err) {
    counting_source *s = context;
    byte_source memory = byte_source_memory(s->file);
    s->reads++;
    s->bytes += n;
    return memory.read_at(memory.context, offset, to, n, err);
}

#define MANY 100000

/* In a table of 100,000 keys each key is found, and finding one reads one block of a few. */
static void test_seek_in_a_large_table_reads_one_block(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    CLEANUP(free_writer) table_writer *w = NULL;
    CLEANUP(free_table) table *t = NULL;
    CLEANUP(free_cursor) table_cursor *c = NULL;
    table_summary summary;
    item one = {.value_bytes = 4};
    assert_ok(table_writer_new(byte_sink_buffer(&out), &w, &err), &err);
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(one.key, sizeof one.key, "layer/%06u/w", i * 2);
        assert_ok(table_writer_add(w, one.key, strlen(one.key), &i, 4, &err), &err);
    }
    assert_ok(table_writer_finish(w, &summary, &err), &err);
    counting_source counting = {.file = &out};
    byte_source source = {.context = &counting, .size = out.size, .read_at = counted_read};
    assert_ok(table_open(source, &summary.footer_crc32c, &t, &err), &err);
    assert_ok(table_cursor_new(t, &c, &err), &err);
    assert_true(counting.bytes < 10000);
    for (uint32_t i = 0; i < MANY; i += 7) {
        memcpy(one.value, &i, 4);
        counting = (counting_source){.file = &out};
        /* One less than a key that is there: the search must stop exactly behind it. */
        (void)snprintf(one.key, sizeof one.key, "layer/%06u/w", i == 0 ? 0 : i * 2 - 1);
        assert_ok(table_seek(c, one.key, strlen(one.key), &err), &err);
        (void)snprintf(one.key, sizeof one.key, "layer/%06u/w", i * 2);
        assert_item(c, &one);
        assert_true(counting.reads <= 2);
        assert_true(counting.bytes < 2 * (FORMAT_TABLE_BLOCK + 100));
    }
}

/* A value much larger than a block is kept whole. */
static void test_large_values_round_trip(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    CLEANUP(free_writer) table_writer *w = NULL;
    CLEANUP(free_table) table *t = NULL;
    CLEANUP(free_cursor) table_cursor *c = NULL;
    table_summary summary;
    size_t n = 5u << 20;
    AUTOFREE uint8_t *value = mem_calloc(n, 1);
    assert_non_null(value);
    test_random random = {3};
    random_fill(&random, value, n);
    assert_ok(table_writer_new(byte_sink_buffer(&out), &w, &err), &err);
    assert_ok(table_writer_add(w, "a", 1, "x", 1, &err), &err);
    assert_ok(table_writer_add(w, "b", 1, value, n, &err), &err);
    assert_ok(table_writer_add(w, "c", 1, "y", 1, &err), &err);
    assert_ok(table_writer_finish(w, &summary, &err), &err);
    assert_ok(table_open(byte_source_memory(&out), NULL, &t, &err), &err);
    assert_ok(table_cursor_new(t, &c, &err), &err);
    assert_ok(table_seek(c, "b", 1, &err), &err);
    const uint8_t *key, *got;
    size_t key_bytes, got_bytes;
    table_item(c, &key, &key_bytes, &got, &got_bytes);
    assert_int_equal(got_bytes, n);
    assert_memory_equal(got, value, n);
    assert_ok(table_next(c, &err), &err);
    table_item(c, &key, &key_bytes, &got, &got_bytes);
    assert_memory_equal(key, "c", 1);
}

/* ---- damage --------------------------------------------------------------------------------- */

static void make_small_table(buffer *out, table_summary *summary) {
    static item items[200];
    test_random random = {9};
    pawl_error err = ERROR_INIT;
    size_t count = make_items(&random, items, ARRAY_LENGTH(items));
    assert_ok(write_items(items, count, out, summary, &err), &err);
}

/* Every flipped bit of a table is found by a read of all of it, and told as damage. */
static void test_r08_every_flipped_bit_is_detected(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    table_summary summary;
    size_t count = 0;
    make_small_table(&file, &summary);
    pawl_error err = ERROR_INIT;
    assert_ok(read_all(&file, &count, &err), &err);
    for (size_t i = 0; i < file.size * 8; i++) {
        file.data[i / 8] ^= (uint8_t)(1 << i % 8);
        pawl_status status = read_all(&file, &count, &err);
        if (status != PAWL_EDAMAGED) {
            fail_msg("bit %zu: status '%s'", i, pawl_status_name(status));
        }
        file.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}

/* A table cut off at any length is found damaged when it is opened or read. */
static void test_r08_every_truncation_is_detected(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    table_summary summary;
    size_t count = 0;
    make_small_table(&file, &summary);
    size_t whole = file.size;
    for (size_t n = 0; n < whole; n++) {
        pawl_error err = ERROR_INIT;
        file.size = n;
        assert_fails(read_all(&file, &count, &err), PAWL_EDAMAGED, &err);
    }
}

/* The footer of another table is told from the one that the manifest promised. */
static void test_r08_footer_of_another_table_is_detected(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    table_summary summary;
    make_small_table(&file, &summary);
    pawl_error err = ERROR_INIT;
    table *t = NULL;
    uint32_t other = summary.footer_crc32c + 1;
    assert_fails(table_open(byte_source_memory(&file), &other, &t, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(err.offset, file.size - TABLE_FOOTER_BYTES);
    assert_int_equal(err.length, TABLE_FOOTER_BYTES);
}

/* The damage of a data block, word for word. */
static void test_damage_of_a_block_in_words(void **state) {
    (void)state;
    static const item items[] = {{"apple", {'1'}, 1}};
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    pawl_error err = ERROR_INIT;
    table_summary summary;
    size_t count = 0;
    assert_ok(write_items(items, 1, &file, &summary, &err), &err);
    file.data[3] ^= 1;
    assert_fails(read_all(&file, &count, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "the data block at byte 0 of the table is wrong at byte 0: "
                                     "the checksum does not match");
    assert_says(err.expected, ", as stored");
    assert_true(err.has_range);
    assert_int_equal(err.offset, 0);
    assert_int_equal(err.length, 17 + BLOCK_TRAILER_BYTES);
}

/* ---- hostile tables: checksums fit, contents do not ----------------------------------------- */

/* Appends a block with its trailer; *at and *n become its handle. */
static void put_block(buffer *file, const void *payload, size_t bytes, uint8_t compression,
                      uint64_t *at, uint64_t *n) {
    pawl_error err = ERROR_INIT;
    *at = file->size;
    *n = bytes;
    assert_ok(buffer_append(file, payload, bytes, &err), &err);
    assert_ok(buffer_append(file, &compression, 1, &err), &err);
    uint32_t crc = crc32c(0, file->data + *at, bytes + 1);
    assert_ok(buffer_u32le(file, crc32c_mask(crc), &err), &err);
}

static void put_footer(buffer *file, const uint64_t handles[4]) {
    pawl_error err = ERROR_INIT;
    size_t begin = file->size;
    for (int i = 0; i < 4; i++) {
        assert_ok(buffer_varint(file, handles[i], &err), &err);
    }
    while (file->size < begin + 40) {
        assert_ok(buffer_append(file, "", 1, &err), &err);
    }
    assert_ok(buffer_u64le(file, TABLE_MAGIC, &err), &err);
}

/* A table of one data block of any content, whose key in the index is "z". */
static void make_hostile(buffer *file, const void *payload, size_t n, uint8_t compression) {
    static const uint8_t empty[8] = {0, 0, 0, 0, 1};
    CLEANUP(buffer_free) buffer index = {.data = NULL};
    CLEANUP(buffer_free) buffer handle = {.data = NULL};
    pawl_error err = ERROR_INIT;
    uint64_t data_at, data_n, handles[4];
    put_block(file, payload, n, compression, &data_at, &data_n);
    put_block(file, empty, sizeof empty, 0, &handles[0], &handles[1]);
    assert_ok(buffer_varint(&handle, data_at, &err), &err);
    assert_ok(buffer_varint(&handle, data_n, &err), &err);
    const uint8_t head[] = {0, 1, (uint8_t)handle.size, 'z'};
    assert_ok(buffer_append(&index, head, sizeof head, &err), &err);
    assert_ok(buffer_append(&index, handle.data, handle.size, &err), &err);
    assert_ok(buffer_append(&index, empty, sizeof empty, &err), &err);
    put_block(file, index.data, index.size, 0, &handles[2], &handles[3]);
    put_footer(file, handles);
}

#define RESTART_0 0, 0, 0, 0, 1, 0, 0, 0

/* A block whose checksum fits but whose content breaks a rule is refused. */
static void test_r14_hostile_blocks_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *what;
        uint8_t payload[40];
        size_t n;
        uint8_t compression;
        pawl_status status;
    } cases[] = {
        {"good", {0, 1, 1, 'k', 'v', RESTART_0}, 13, 0, PAWL_OK},
        {"no room for restarts", {0}, 1, 0, PAWL_EDAMAGED},
        {"no restart", {0, 0, 0, 0, 0, 0, 0, 0}, 8, 0, PAWL_EDAMAGED},
        {"more restarts than bytes", {0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 8, 0, PAWL_EDAMAGED},
        {"2^30 + 1 restarts", {0, 0, 0, 0, 1, 0, 0, 0x40}, 8, 0, PAWL_EDAMAGED},
        {"first restart not at 0", {0, 1, 0, 'k', 1, 0, 0, 0, 1, 0, 0, 0}, 12, 0, PAWL_EDAMAGED},
        {"restart beyond the entries",
         {0, 1, 0, 'k', 0, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0},
         16,
         0,
         PAWL_EDAMAGED},
        {"a restart inside an entry, which no walk begins at",
         {0, 1, 0, 'a', 0, 1, 0, 'b', 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0},
         20,
         0,
         PAWL_EDAMAGED},
        {"a restart at an entry that shares bytes",
         {0, 1, 0, 'a', 1, 1, 0, 'b', 0, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0},
         20,
         0,
         PAWL_EDAMAGED},
        {"restarts descend",
         {0, 1, 0, 'k', 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0},
         16,
         0,
         PAWL_EDAMAGED},
        {"shares with nothing", {1, 1, 0, 'k', RESTART_0}, 12, 0, PAWL_EDAMAGED},
        {"key beyond the block", {0, 9, 0, 'k', RESTART_0}, 12, 0, PAWL_EDAMAGED},
        {"value beyond the block", {0, 1, 9, 'k', RESTART_0}, 12, 0, PAWL_EDAMAGED},
        {"key too long", {0, 0x81, 0x20, 0, 'k', RESTART_0}, 13, 0, PAWL_ELIMIT},
        {"length of 2^32 - 1",
         {0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 'k', RESTART_0},
         16,
         0,
         PAWL_EDAMAGED},
        {"length of 2^32",
         {0, 1, 0x80, 0x80, 0x80, 0x80, 0x10, 'k', RESTART_0},
         16,
         0,
         PAWL_EDAMAGED},
        {"length that does not end", {0, 1, 0xff, RESTART_0}, 11, 0, PAWL_EDAMAGED},
        {"keys descend", {0, 1, 0, 'k', 0, 1, 0, 'a', RESTART_0}, 16, 0, PAWL_EDAMAGED},
        {"a key twice", {0, 1, 0, 'k', 1, 0, 0, RESTART_0}, 15, 0, PAWL_EDAMAGED},
        {"key after the index's", {0, 2, 0, 'z', 'z', RESTART_0}, 13, 0, PAWL_EDAMAGED},
        {"Snappy", {0, 1, 1, 'k', 'v', RESTART_0}, 13, 1, PAWL_EUNSUPPORTED},
        {"unknown compression", {0, 1, 1, 'k', 'v', RESTART_0}, 13, 2, PAWL_EDAMAGED},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer file = {.data = NULL};
        size_t count = 0;
        make_hostile(&file, cases[i].payload, cases[i].n, cases[i].compression);
        pawl_status status = read_all(&file, &count, &err);
        if (status != cases[i].status) {
            fail_msg("%s: status '%s': %s", cases[i].what, pawl_status_name(status),
                     error_text(&err));
        }
    }
}

/* A restart point inside an entry is noticed by the search that jumps to it. */
static void test_r14_restart_inside_an_entry_is_refused_by_seek(void **state) {
    (void)state;
    static const uint8_t payload[] = {0, 1, 0, 'a', 1, 1, 0, 'b', 0, 0,
                                      0, 0, 4, 0,   0, 0, 2, 0,   0, 0};
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    CLEANUP(free_table) table *t = NULL;
    CLEANUP(free_cursor) table_cursor *c = NULL;
    pawl_error err = ERROR_INIT;
    make_hostile(&file, payload, sizeof payload, 0);
    assert_ok(table_open(byte_source_memory(&file), NULL, &t, &err), &err);
    assert_ok(table_cursor_new(t, &c, &err), &err);
    assert_fails(table_seek(c, "x", 1, &err), PAWL_EDAMAGED, &err);
    assert_false(table_valid(c));
}

/* Handles that leave the file, overlap or overflow are refused before anything is read by them. */
static void test_r14_hostile_handles_are_refused(void **state) {
    (void)state;
    static const uint8_t empty[8] = {0, 0, 0, 0, 1};
    static const struct {
        const char *what;
        uint64_t meta_at, meta_n, index_at, index_n;
    } cases[] = {
        {"index beyond the file", 0, 8, 1000, 8},
        {"index at 2^64 - 1", 0, 8, UINT64_MAX, 8},
        {"index of 2^64 - 1 bytes", 0, 8, 13, UINT64_MAX},
        {"index into the footer", 0, 8, 13, 9},
        {"metaindex behind the index", 13, 8, 0, 8},
        {"metaindex beyond the file", 1000, 8, 13, 8},
        {"metaindex into the index", 0, 14, 13, 8},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer file = {.data = NULL};
        uint64_t ignored[2];
        size_t count = 0;
        put_block(&file, empty, sizeof empty, 0, &ignored[0], &ignored[1]);
        put_block(&file, empty, sizeof empty, 0, &ignored[0], &ignored[1]);
        const uint64_t handles[] = {cases[i].meta_at, cases[i].meta_n, cases[i].index_at,
                                    cases[i].index_n};
        put_footer(&file, handles);
        pawl_status status = read_all(&file, &count, &err);
        if (status != PAWL_EDAMAGED) {
            fail_msg("%s: status '%s'", cases[i].what, pawl_status_name(status));
        }
    }
}

/* An index that names its data blocks in any but their order, or outside of them, is refused. */
static void test_r14_hostile_indexes_are_refused(void **state) {
    (void)state;
    static const uint8_t empty[8] = {0, 0, 0, 0, 1};
    static const uint8_t data[] = {0, 1, 1, 'k', 'v', RESTART_0};
    static const struct {
        const char *what;
        uint8_t payload[24];
        size_t n;
    } cases[] = {
        {"the same block twice", {0, 1, 2, 'k', 0, 13, 0, 1, 2, 'l', 0, 13, RESTART_0}, 20},
        {"a block beyond", {0, 1, 2, 'k', 18, 13, RESTART_0}, 14},
        {"a block into the metaindex", {0, 1, 2, 'k', 0, 14, RESTART_0}, 14},
        {"a handle too short", {0, 1, 1, 'k', 0, RESTART_0}, 13},
        {"a handle too long", {0, 1, 3, 'k', 0, 13, 0, RESTART_0}, 15},
        {"keys descend", {0, 1, 2, 'k', 0, 13, 0, 1, 2, 'a', 18, 8, RESTART_0}, 20},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer file = {.data = NULL};
        uint64_t ignored[2], handles[4];
        size_t count = 0;
        put_block(&file, data, sizeof data, 0, &ignored[0], &ignored[1]);
        put_block(&file, empty, sizeof empty, 0, &handles[0], &handles[1]);
        put_block(&file, cases[i].payload, cases[i].n, 0, &handles[2], &handles[3]);
        put_footer(&file, handles);
        pawl_status status = read_all(&file, &count, &err);
        if (status != PAWL_EDAMAGED) {
            fail_msg("%s: status '%s'", cases[i].what, pawl_status_name(status));
        }
    }
}

/* Two blocks, of `k` and of another key, and an index that has these keys of them. */
static void make_two_blocks(buffer *file, uint8_t other, uint8_t first, uint8_t second) {
    static const uint8_t empty[8] = {0, 0, 0, 0, 1};
    const uint8_t data[2][13] = {{0, 1, 1, 'k', 'v', RESTART_0}, {0, 1, 1, other, 'v', RESTART_0}};
    const uint8_t index[] = {0, 1, 2, first, 0, 13, 0, 1, 2, second, 18, 13, RESTART_0};
    uint64_t ignored[2], handles[4];
    put_block(file, data[0], sizeof data[0], 0, &ignored[0], &ignored[1]);
    put_block(file, data[1], sizeof data[1], 0, &ignored[0], &ignored[1]);
    put_block(file, empty, sizeof empty, 0, &handles[0], &handles[1]);
    put_block(file, index, sizeof index, 0, &handles[2], &handles[3]);
    put_footer(file, handles);
}

/* Keys that do not ascend from one block to the next, and keys of the index that do not separate
 * the blocks, are refused by a walk, and by a search that is led astray. */
static void test_r14_blocks_out_of_order_are_refused(void **state) {
    (void)state;
    static const uint8_t keys[][3] = {{'x', 'm', 'z'}, {'x', 'y', 'z'}, {'k', 'm', 'n'}};
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++) {
        CLEANUP(buffer_free) buffer file = {.data = NULL};
        CLEANUP(free_table) table *t = NULL;
        CLEANUP(free_cursor) table_cursor *c = NULL;
        pawl_error err = ERROR_INIT;
        size_t count = 0;
        make_two_blocks(&file, keys[i][0], keys[i][1], keys[i][2]);
        assert_ok(table_open(byte_source_memory(&file), NULL, &t, &err), &err);
        assert_ok(table_cursor_new(t, &c, &err), &err);
        assert_fails(table_seek(c, "l", 1, &err), i > 0 ? PAWL_EDAMAGED : PAWL_OK, &err);
        assert_fails(read_all(&file, &count, &err), i > 0 ? PAWL_EDAMAGED : PAWL_OK, &err);
        assert_int_equal(count, i > 0 ? 1 : 2);
    }
}

/* ---- the rest ------------------------------------------------------------------------------- */

static pawl_status write_and_read(void *context, pawl_error *err) {
    static const item items[] = {{"apple", {'1'}, 1}, {"b", {'2'}, 1}};
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    table_summary summary;
    (void)context;
    TRY(write_items(items, 2, &file, &summary, err));
    size_t count = 0;
    return read_all(&file, &count, err);
}

/* Whichever allocation fails, writing and reading say so and leak nothing. */
static void test_table_survives_every_failing_allocation(void **state) {
    (void)state;
    assert_true(failing_memory_each(write_and_read, NULL) > 5);
}

/* Tables that TensorFlow wrote are read whole; the first key is empty, the header's. */
static void test_tensorflow_tables_are_read(void **state) {
    (void)state;
    static const struct {
        const char *path, *last_key;
        size_t count;
    } cases[] = {
        {SAMPLES_DIR "/tf/object-graph-tf2.2/ckpt.index",
         "optimizer/loss_scale/good_steps/.ATTRIBUTES/VARIABLE_VALUE", 12},
        {SAMPLES_DIR "/tf/savedmodel-tf2.2/variables/variables.index",
         "optimizer/loss_scale/good_steps/.ATTRIBUTES/VARIABLE_VALUE", 14},
        {SAMPLES_DIR "/tf/savedmodel-half-plus-three/variables/variables.index", "c", 4},
        {SAMPLES_DIR "/tf/savedmodel-half-plus-two-mkl/variables/variables.index",
         "conv2d_2/kernel", 10},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer file = {.data = NULL};
        CLEANUP(free_table) table *t = NULL;
        CLEANUP(free_cursor) table_cursor *c = NULL;
        size_t count = 0;
        read_file(cases[i].path, &file);
        assert_ok(read_all(&file, &count, &err), &err);
        assert_int_equal(count, cases[i].count);
        assert_ok(table_open(byte_source_memory(&file), NULL, &t, &err), &err);
        assert_ok(table_cursor_new(t, &c, &err), &err);
        assert_ok(table_seek(c, cases[i].last_key, strlen(cases[i].last_key), &err), &err);
        const uint8_t *key, *value;
        size_t key_bytes, value_bytes;
        assert_true(table_valid(c));
        table_item(c, &key, &key_bytes, &value, &value_bytes);
        assert_int_equal(key_bytes, strlen(cases[i].last_key));
        assert_memory_equal(key, cases[i].last_key, key_bytes);
        assert_ok(table_next(c, &err), &err);
        assert_false(table_valid(c));
    }
}

/* A table that is compressed is told as that, not as damaged. */
static void test_compressed_tensorflow_table_is_unsupported(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    pawl_error err = ERROR_INIT;
    size_t count = 0;
    read_file(SAMPLES_DIR "/tf/mtf-tiny-t5-snappy.index", &file);
    assert_fails(read_all(&file, &count, &err), PAWL_EUNSUPPORTED, &err);
    assert_says(err.attempt, "compressed with Snappy");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_bytes_are_golden),
        cmocka_unit_test(test_descending_keys_are_refused),
        cmocka_unit_test(test_records_beyond_the_maximum_are_refused),
        cmocka_unit_test(test_failing_sink_is_reported),
        cmocka_unit_test(test_empty_table_round_trips),
        cmocka_unit_test(test_parts_encoded_ahead_make_the_same_table),
        cmocka_unit_test(test_descending_parts_are_refused),
        cmocka_unit_test(test_random_tables_agree_with_a_sorted_array),
        cmocka_unit_test(test_seek_in_a_large_table_reads_one_block),
        cmocka_unit_test(test_large_values_round_trip),
        cmocka_unit_test(test_r08_every_flipped_bit_is_detected),
        cmocka_unit_test(test_r08_every_truncation_is_detected),
        cmocka_unit_test(test_r08_footer_of_another_table_is_detected),
        cmocka_unit_test(test_damage_of_a_block_in_words),
        cmocka_unit_test(test_r14_hostile_blocks_are_refused),
        cmocka_unit_test(test_r14_restart_inside_an_entry_is_refused_by_seek),
        cmocka_unit_test(test_r14_blocks_out_of_order_are_refused),
        cmocka_unit_test(test_r14_hostile_handles_are_refused),
        cmocka_unit_test(test_r14_hostile_indexes_are_refused),
        cmocka_unit_test(test_table_survives_every_failing_allocation),
        cmocka_unit_test(test_tensorflow_tables_are_read),
        cmocka_unit_test(test_compressed_tensorflow_table_is_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
