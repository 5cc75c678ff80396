/* SPDX-License-Identifier: Apache-2.0 */
/* Databases of Orbax made by hand: what is read, and what is refused. */
#include "unit/foreign/made_ocdbt.h"

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    store *s;
    assert_ok(store_mem(&s, &err), &err);
    assert_ok(store_make_dir(s, "d", &err), &err);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    store_destroy(*state);
    return 0;
}

#define ZARRAY                                                                                     \
    "{\"zarr_format\":2,\"shape\":[4],\"chunks\":[2],\"dtype\":\"|u1\",\"order\":\"C\","           \
    "\"compressor\":null,\"fill_value\":9,\"filters\":null}"

static const made_key keys[] = {
    {"x/.zarray", ZARRAY, 0, 0}, {"x/0", "ab", 0, 0}, {"x/1", NULL, 1, 2}};

static void put_manifest(store *s, uint8_t height, const char *path, uint64_t offset,
                         uint64_t bytes) {
    CLEANUP(buffer_free) buffer body = {0};
    CLEANUP(buffer_free) buffer block = {0};
    made_manifest(&body, height, path, offset, bytes);
    made_block(&block, OCDBT_MANIFEST, &body);
    put_anew(s, "manifest.ocdbt", block.data, block.size);
}

/* The node is in d/node, values in d/data. */
static void put_node(store *s, const buffer *body) {
    CLEANUP(buffer_free) buffer block = {0};
    made_block(&block, OCDBT_NODE, body);
    put_anew(s, "d/node", block.data, block.size);
    put_manifest(s, body->data[0], "d/node", 0, block.size);
}

static void put_keys(store *s, size_t n, const made_key *of) {
    CLEANUP(buffer_free) buffer body = {0};
    made_node(&body, 0, "d/data", n, of, 0);
    put_node(s, &body);
    put_anew(s, "d/data", "-cd-", 4);
}

static pawl_status open_database(store *s, struct source **out, pawl_error *err) {
    return made_archive(s, &format_orbax, "manifest.ocdbt", out, err);
}

static void test_values_in_nodes_and_files(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    put_keys(s, 3, keys);
    assert_ok(open_database(s, &c, &err), &err);
    assert_int_equal(c->entries, 1);
    assert_entry(c, "x", "U8 [4] 2 parts");
    assert_tensor(c, "x", ((const uint8_t[]){'a', 'b', 'c', 'd'}));
    source_destroy(c);
}

static void test_a_database_of_nothing(void **state) {
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    put_manifest(s, 0, NULL, 0, 0);
    assert_ok(open_database(s, &c, &err), &err);
    assert_int_equal(c->entries, 0);
    source_destroy(c);
}

/* Two levels: keys of a child lack what they have in common. */
static void test_a_tree(void **state) {
    static const made_key left[] = {{".zarray", ZARRAY, 0, 0}, {"0", "ab", 0, 0}};
    static const made_key right[] = {{"1", "ef", 0, 0}};
    store *s = *state;
    struct pawl_error err;
    struct source *c;
    CLEANUP(buffer_free) buffer body = {0};
    CLEANUP(buffer_free) buffer blocks = {0};
    made_node(&body, 0, NULL, 2, left, 0);
    made_block(&blocks, OCDBT_NODE, &body);
    size_t first = blocks.size;
    body.size = 0;
    made_node(&body, 0, NULL, 1, right, 0);
    made_block(&blocks, OCDBT_NODE, &body);
    put_anew(s, "d/leaves", blocks.data, blocks.size);
    body.size = 0;
    made_node(&body, 1, "d/leaves", 2,
              (const made_key[]){{"x/.zarray", NULL, 0, first},
                                 {"x/1", NULL, first, blocks.size - first}},
              2);
    put_node(s, &body);
    assert_ok(open_database(s, &c, &err), &err);
    assert_tensor(c, "x", ((const uint8_t[]){'a', 'b', 'e', 'f'}));
    source_destroy(c);
}

/* ---- what is refused ---- */

static void refused(store *s, pawl_status status, const char *says) {
    struct pawl_error err;
    struct source *c;
    pawl_status is = open_database(s, &c, &err);
    if (is != status || strstr(err.attempt, says) == NULL || err.path[0] == '\0') {
        fail_msg("%d, %s (%s), not %s", (int)is, err.attempt, err.path, says);
    }
}

static void test_bytes_that_are_changed(void **state) {
    store *s = *state;
    struct pawl_error err;
    CLEANUP(buffer_free) buffer file = {0};
    put_keys(s, 3, keys);
    assert_ok(store_read_file(s, "d/node", 4096, &file, &err), &err);
    for (size_t i = 0; i < file.size; i++) {
        file.data[i] ^= 1;
        put_anew(s, "d/node", file.data, file.size);
        refused(s, PAWL_EDAMAGED, "the database is damaged: a block");
        file.data[i] ^= 1;
    }
    for (size_t i = 0; i < file.size; i++) {
        put_anew(s, "d/node", file.data, i);
        refused(s, PAWL_EDAMAGED, "behind the end of a data file");
    }
}

static void test_keys_that_cannot_be(void **state) {
    store *s = *state;
    put_keys(s, 2, (const made_key[]){{"b", "1", 0, 0}, {"a", "2", 0, 0}});
    refused(s, PAWL_EDAMAGED, "a key is not greater than the one before it");
    put_keys(s, 2, (const made_key[]){{"a", "1", 0, 0}, {"a", "2", 0, 0}});
    refused(s, PAWL_EDAMAGED, "a key is not greater than the one before it");
    put_keys(s, 0, keys);
    refused(s, PAWL_EDAMAGED, "a node has no key");
    put_keys(s, 1, (const made_key[]){{"a", NULL, 3, 2}});
    refused(s, PAWL_EDAMAGED, "behind the end of a data file");
    put_keys(s, 1, (const made_key[]){{"a", NULL, UINT64_MAX, 2}});
    refused(s, PAWL_EDAMAGED, "behind the end of a data file");
}

static void test_files_that_are_elsewhere(void **state) {
    static const char *const paths[] = {"../d", "/etc/passwd", "d//x", "", "d/./x", "d/.."};
    store *s = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        put_manifest(s, 0, paths[i], 0, 10);
        refused(s, PAWL_EDAMAGED, "a data file has a name that leads elsewhere");
    }
    put_manifest(s, 0, "d/none", 0, 10);
    refused(s, PAWL_EDAMAGED, "a data file of the database is missing");
}

/* A node that is its own child would have no end. */
static void test_levels_that_do_not_descend(void **state) {
    store *s = *state;
    CLEANUP(buffer_free) buffer body = {0};
    CLEANUP(buffer_free) buffer block = {0};
    put_keys(s, 3, keys);
    made_node(&body, 2, "d/node", 1, (const made_key[]){{"a", NULL, 0, 30}}, 1);
    made_block(&block, OCDBT_NODE, &body);
    body.size = 0;
    made_node(&body, 2, "d/node", 1, (const made_key[]){{"a", NULL, 0, block.size}}, 1);
    put_node(s, &body);
    refused(s, PAWL_EDAMAGED, "of another level");
    put_manifest(s, 0, "d/node", 0, block.size);
    refused(s, PAWL_EDAMAGED, "of another level");
    put_manifest(s, 65, "d/node", 0, block.size);
    refused(s, PAWL_ELIMIT, "too many levels");
}

/* The same node as all children of the one above it, and so on: its files have not so many. */
static void test_r14_a_node_many_times(void **state) {
    enum { CHILDREN = 100, LEVELS = 12 };
    store *s = *state;
    CLEANUP(buffer_free) buffer blocks = {0};
    char names[CHILDREN][8];
    made_key children[CHILDREN];
    size_t begun = 0;
    size_t bytes = 0;
    for (uint8_t level = 0; level <= LEVELS; level++) {
        CLEANUP(buffer_free) buffer body = {0};
        for (int i = 0; i < CHILDREN; i++) {
            snprintf(names[i], sizeof(names[i]), "%03d", i);
            children[i] = (made_key){names[i], level == 0 ? "v" : NULL, begun, bytes};
        }
        made_node(&body, level, "d/node", CHILDREN, children, 3);
        begun = blocks.size;
        made_block(&blocks, OCDBT_NODE, &body);
        bytes = blocks.size - begun;
    }
    put_anew(s, "d/node", blocks.data, blocks.size);
    put_manifest(s, LEVELS, "d/node", begun, bytes);
    refused(s, PAWL_EDAMAGED, "a node more than once");
}

static void test_manifests_that_are_refused(void **state) {
    store *s = *state;
    CLEANUP(buffer_free) buffer body = {0};
    CLEANUP(buffer_free) buffer block = {0};
    made_manifest(&body, 0, NULL, 0, 0);
    made_bytes(&body, "x", 1);
    made_block(&block, OCDBT_MANIFEST, &body);
    put_anew(s, "manifest.ocdbt", block.data, block.size);
    refused(s, PAWL_EDAMAGED, "more behind the end of a block");
    body.size = 0;
    block.size = 0;
    made_manifest(&body, 0, NULL, 0, 0);
    body.data[16] = 1; /* numbered ones */
    body.size = 16 + 5;
    made_block(&block, OCDBT_MANIFEST, &body);
    put_anew(s, "manifest.ocdbt", block.data, block.size);
    refused(s, PAWL_EDAMAGED, "the database has no manifest of a version");
    put_anew(s, "manifest.0000000000000002", block.data, block.size);
    refused(s, PAWL_EDAMAGED, "a manifest of a version has none");
    put_anew(s, "manifest.ocdbt", block.data, 10);
    refused(s, PAWL_EDAMAGED, "shorter than its header");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values_in_nodes_and_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_database_of_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_tree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bytes_that_are_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_that_cannot_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_that_are_elsewhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_levels_that_do_not_descend, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_r14_a_node_many_times, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_manifests_that_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
