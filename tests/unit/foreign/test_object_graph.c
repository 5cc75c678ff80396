/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of objects of a checkpoint of TensorFlow: names, slots and roles that come of it, the
 * keys under which entries are written again, and graphs that are damaged or made to do harm. */
#include "lib/test.h"

#include "foreign/tensorflow/graph.h"
#include "foreign/tensorflow/write.h"
#include "foreign/tensorflow/write_keys.h"
#include "format/limits.h"

#include <stdio.h>
#include <string.h>

/* ---- graphs by hand ---- */

static void put_number(buffer *out, uint8_t field, uint64_t v) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(buffer_varint(out, (uint64_t)field << 3, &err), &err);
    assert_ok(buffer_varint(out, v, &err), &err);
}

static void put_bytes(buffer *out, uint8_t field, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(buffer_varint(out, (uint64_t)field << 3 | 2u, &err), &err);
    assert_ok(buffer_varint_bytes(out, bytes, n, &err), &err);
}

static void put_message(buffer *out, uint8_t field, buffer *message) {
    put_bytes(out, field, message->data, message->size);
    buffer_free(message);
}

static void put_child(buffer *node, uint64_t number, const char *name) {
    buffer child = {0};
    put_number(&child, 1, number);
    put_bytes(&child, 2, name, strlen(name));
    put_message(node, 1, &child);
}

static void put_value(buffer *node, const char *name, const char *full_name, const char *key) {
    buffer value = {0};
    put_bytes(&value, 1, name, strlen(name));
    put_bytes(&value, 2, full_name, strlen(full_name));
    put_bytes(&value, 3, key, strlen(key));
    put_message(node, 2, &value);
}

static void put_slot(buffer *node, uint64_t variable, const char *name, uint64_t number) {
    buffer slot = {0};
    put_number(&slot, 1, variable);
    put_bytes(&slot, 2, name, strlen(name));
    put_number(&slot, 3, number);
    put_message(node, 3, &slot);
}

static void end_node(buffer *graph, buffer *node) {
    put_message(graph, 1, node);
}

/* An object without anything in it but a value. */
static void put_variable(buffer *graph, const char *full_name, const char *key) {
    buffer node = {0};
    put_value(&node, GRAPH_VALUE, full_name, key);
    end_node(graph, &node);
}

static void put_list(buffer *graph, size_t n, const uint64_t *numbers) {
    buffer node = {0};
    char name[16];
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "%zu", i);
        put_child(&node, numbers[i], name);
    }
    end_node(graph, &node);
}

/* What Keras 3 saves of a layer, whose kernel and bias an optimizer has, too; the layer has the
 * model, so that there is a circle. */
static void make_keras3(buffer *graph) {
    buffer node = {0};
    put_child(&node, 1, "model");
    put_child(&node, 2, "optimizer");
    end_node(graph, &node); /* 0 */
    put_child(&node, 3, "a.layer/x");
    end_node(graph, &node); /* 1 */
    put_child(&node, 6, "_variables");
    put_child(&node, 7, "_trainable_variables");
    put_child(&node, 8, "_iterations");
    put_child(&node, 9, "_learning_rate");
    put_child(&node, 10, "_momentums");
    end_node(graph, &node); /* 2 */
    put_child(&node, 4, "_kernel");
    put_child(&node, 1, "model");
    end_node(graph, &node); /* 3 */
    put_variable(graph, "m/kernel", "optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE");
    put_variable(graph, "m/bias", "optimizer/_trainable_variables/1/.ATTRIBUTES/VARIABLE_VALUE");
    put_list(graph, 4, (const uint64_t[]){8, 9, 11, 12}); /* 6 */
    put_list(graph, 2, (const uint64_t[]){4, 5});         /* 7 */
    put_variable(graph, "sgd/iteration", "optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE");
    put_variable(graph, "sgd/rate", "optimizer/_learning_rate/.ATTRIBUTES/VARIABLE_VALUE");
    put_list(graph, 2, (const uint64_t[]){11, 12}); /* 10 */
    put_variable(graph, "sgd/k_momentum", "optimizer/_variables/2/.ATTRIBUTES/VARIABLE_VALUE");
    put_variable(graph, "sgd/b_momentum", "optimizer/_variables/3/.ATTRIBUTES/VARIABLE_VALUE");
}

/* "NAME role", and of a slot "NAME slot SLOT of VARIABLE". */
static void check_key(object_graph *g, const char *key, const char *expected) {
    CLEANUP(buffer_free) buffer name = {0};
    CLEANUP(buffer_free) buffer of = {0};
    struct pawl_error err = ERROR_INIT;
    char text[512];
    bool named = false;
    const graph_attribute *a = graph_find(g, (bundle_text){(const uint8_t *)key, strlen(key)});
    assert_non_null(a);
    assert_ok(graph_name(g, a, &name, &named, &err), &err);
    assert_true(named);
    pawl_role role = graph_role(g, a);
    const graph_node *n = &g->nodes[a->node];
    int length =
        snprintf(text, sizeof(text), "%s %s", (const char *)name.data, pawl_role_name(role));
    if (role == PAWL_ROLE_SLOT) {
        const graph_attribute *variable = &g->attributes[g->nodes[n->variable].value];
        assert_ok(graph_name(g, variable, &of, &named, &err), &err);
        snprintf(text + length, sizeof(text) - (size_t)length, " %.*s of %s", (int)n->slot_name.n,
                 (const char *)n->slot_name.bytes, (const char *)of.data);
    }
    assert_string_equal(text, expected);
}

static void decode(const buffer *bytes, object_graph *g) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(graph_decode(bytes->data, bytes->size, g, &err), &err);
}

/* ---- names, slots, roles ---- */

static void test_what_keras_3_saves(void **state) {
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(graph_free) object_graph g;
    (void)state;
    make_keras3(&bytes);
    decode(&bytes, &g);
    assert_int_equal(g.node_count, 13);
    check_key(&g, "optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE",
              "model/a.layer%2Fx/_kernel model");
    check_key(&g, "optimizer/_trainable_variables/1/.ATTRIBUTES/VARIABLE_VALUE",
              "optimizer/_trainable_variables/1 model");
    check_key(&g, "optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE", "optimizer/_iterations step");
    check_key(&g, "optimizer/_learning_rate/.ATTRIBUTES/VARIABLE_VALUE",
              "optimizer/_learning_rate hyperparameter");
    check_key(&g, "optimizer/_variables/2/.ATTRIBUTES/VARIABLE_VALUE",
              "optimizer/_momentums/0 slot momentums of model/a.layer%2Fx/_kernel");
    check_key(&g, "optimizer/_variables/3/.ATTRIBUTES/VARIABLE_VALUE",
              "optimizer/_momentums/1 slot momentums of optimizer/_trainable_variables/1");
}

/* Adafactor has its variables in no other list. */
static void test_what_adafactor_of_keras_3_saves(void **state) {
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(graph_free) object_graph g;
    buffer node = {0};
    (void)state;
    put_child(&node, 1, "o");
    put_child(&node, 2, "w");
    end_node(&bytes, &node);
    put_child(&node, 3, "_variables");
    put_child(&node, 4, "_trainable_variables");
    put_child(&node, 5, "_iterations");
    end_node(&bytes, &node);
    put_variable(&bytes, "w", "w");
    put_list(&bytes, 4, (const uint64_t[]){5, 6, 7, 8});
    put_list(&bytes, 1, (const uint64_t[]){2});
    put_variable(&bytes, "adafactor/iteration", "i");
    put_variable(&bytes, "adafactor/w", "1");
    put_variable(&bytes, "adafactor/w", "2");
    put_variable(&bytes, "adafactor/w_velocity", "3");
    decode(&bytes, &g);
    check_key(&g, "1", "o/_variables/1 slot r of w");
    check_key(&g, "2", "o/_variables/2 slot c of w");
    check_key(&g, "3", "o/_variables/3 slot v of w");
    check_key(&g, "i", "o/_iterations step");
}

/* Slots in the graph, which nobody else has, and those that full names tell of. */
static void test_what_keras_2_saves(void **state) {
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(graph_free) object_graph g;
    buffer node = {0};
    (void)state;
    put_child(&node, 1, "net");
    put_child(&node, 2, "opt");
    put_child(&node, 6, "new");
    put_child(&node, 9, "save_counter");
    end_node(&bytes, &node);
    put_child(&node, 3, "kernel");
    end_node(&bytes, &node);
    put_child(&node, 4, "iter");
    put_slot(&node, 3, "m", 5);
    put_slot(&node, 3, "m", 3); /* of itself */
    end_node(&bytes, &node);
    put_variable(&bytes, "dense/kernel", "net/kernel");
    put_variable(&bytes, "iter", "iter");
    put_variable(&bytes, "Adam/dense/kernel/m", "m");
    put_child(&node, 7, "_variables");
    put_child(&node, 8, "_iterations");
    end_node(&bytes, &node);
    put_list(&bytes, 2, (const uint64_t[]){8, 10});
    put_variable(&bytes, "iteration", "new/i");
    put_variable(&bytes, "save_counter", "save_counter");
    put_variable(&bytes, "Adam/v/dense/kernel", "new/v");
    decode(&bytes, &g);
    check_key(&g, "m", "opt/net/kernel/m slot m of net/kernel");
    check_key(&g, "net/kernel", "net/kernel model");
    check_key(&g, "iter", "opt/iter step");
    check_key(&g, "new/v", "new/_variables/1 slot v of net/kernel");
    check_key(&g, "save_counter", "save_counter other");
}

/* ---- graphs that are wrong ---- */

static void test_r14_a_graph_that_is_wrong(void **state) {
    static const uint8_t beyond[] = {0x0a, 4, 0x0a, 2, 0x08, 1};
    static const uint8_t slot_beyond[] = {0x0a, 4, 0x1a, 2, 0x18, 1};
    static const uint8_t negative[] = {0x0a, 13,   0x0a, 11,   0x08, 0xff, 0xff, 0xff,
                                       0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    static const struct {
        const uint8_t *bytes;
        size_t n;
        const char *says;
    } cases[] = {
        {beyond, sizeof(beyond), "it links to an object that it does not have"},
        {slot_beyond, sizeof(slot_beyond), "a slot is of an object that it does not have"},
        {negative, sizeof(negative), "it links to an object that it does not have"},
        {beyond, 0, "it has no object"},
        {beyond, 3, "longer than what it is in"},
    };
    object_graph g;
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err = ERROR_INIT;
        assert_fails(graph_decode(cases[i].bytes, cases[i].n, &g, &err), PAWL_EDAMAGED, &err);
        assert_says(err.attempt, cases[i].says);
    }
}

static void test_r14_a_graph_that_is_cut_off(void **state) {
    CLEANUP(buffer_free) buffer bytes = {0};
    (void)state;
    make_keras3(&bytes);
    for (size_t n = 0; n < bytes.size; n++) {
        struct pawl_error err = ERROR_INIT;
        object_graph g;
        if (graph_decode(bytes.data, n, &g, &err) == PAWL_OK) {
            fail_msg("%zu of %zu bytes were taken for a graph", n, bytes.size);
        }
    }
}

/* So far away that the way to it is no name; the key names it then. */
static void test_a_way_that_is_too_long(void **state) {
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(buffer_free) buffer name = {0};
    CLEANUP(graph_free) object_graph g;
    struct pawl_error err = ERROR_INIT;
    bool named = true;
    (void)state;
    for (uint64_t i = 0; i < 3 * PAWL_MAX_NAME_BYTES; i++) {
        buffer node = {0};
        put_child(&node, i + 1, "");
        put_child(&node, 0, "root");
        end_node(&bytes, &node);
    }
    put_variable(&bytes, "v", "key");
    decode(&bytes, &g);
    assert_ok(graph_name(&g, graph_find(&g, (bundle_text){(const uint8_t *)"key", 3}), &name,
                         &named, &err),
              &err);
    assert_false(named);
}

static void test_more_objects_than_there_may_be(void **state) {
    CLEANUP(buffer_free) buffer bytes = {0};
    struct pawl_error err = ERROR_INIT;
    object_graph g;
    (void)state;
    for (uint32_t i = 0; i <= FOREIGN_MAX_OBJECTS; i++) {
        assert_ok(buffer_append(&bytes, "\n\0", 2, &err), &err);
    }
    assert_fails(graph_decode(bytes.data, bytes.size, &g, &err), PAWL_ELIMIT, &err);
    assert_says(err.attempt, "more than 1000000 objects");
    decode(&(buffer){.data = bytes.data, .size = bytes.size - 2}, &g);
    graph_free(&g);
}

/* Each optimizer links to the lists of all: they are looked through once, not 100,000 times. */
static void test_r14_many_optimizers_of_the_same_lists(void **state) {
    static const size_t many = 100000;
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(graph_free) object_graph g;
    uint64_t *numbers = mem_calloc(many, sizeof(*numbers));
    buffer node = {0};
    (void)state;
    assert_non_null(numbers);
    for (size_t i = 0; i < many; i++) {
        numbers[i] = 2;
    }
    put_child(&node, 4 + many, "all");
    end_node(&bytes, &node);
    put_list(&bytes, many, numbers);
    put_variable(&bytes, "v", "v");
    put_list(&bytes, many, numbers);
    for (size_t i = 0; i < many; i++) {
        put_child(&node, 1, "_variables");
        put_child(&node, 1, "_trainable_variables");
        put_child(&node, 3, "_momentums");
        put_child(&node, 2, "_iterations");
        end_node(&bytes, &node);
        numbers[i] = 4 + i;
    }
    put_list(&bytes, many, numbers);
    mem_free(numbers);
    decode(&bytes, &g);
    assert_int_equal(g.node_count, 5 + many);
    assert_true(g.nodes[4].optimizes && g.nodes[3 + many].optimizes);
}

/* ---- keys ---- */

static void make_table(buffer *graph) {
    buffer node = {0};
    put_child(&node, 1, "t");
    put_child(&node, 2, "w");
    end_node(graph, &node);
    put_value(&node, "table", "", "t/.ATTRIBUTES/table");
    end_node(graph, &node);
    put_variable(graph, "w", "w/.ATTRIBUTES/VARIABLE_VALUE");
}

static void test_keys_of_entries(void **state) {
    static const writer_item items[] = {{.name = "_extra"},
                                        {.name = "t/table-keys"},
                                        {.name = "t/table-values"},
                                        {.name = "w"},
                                        {.name = "w2"}};
    static const char *const expected[] = {"_extra", "t/.ATTRIBUTES/table-keys",
                                           "t/.ATTRIBUTES/table-values",
                                           "w/.ATTRIBUTES/VARIABLE_VALUE", "w2"};
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(graph_free) object_graph g;
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error err = ERROR_INIT;
    bundle_text keys[ARRAY_LENGTH(items)];
    graph_fit fit;
    (void)state;
    make_table(&bytes);
    decode(&bytes, &g);
    assert_ok(graph_keys(&g, items, ARRAY_LENGTH(items), &memory, keys, &fit, &err), &err);
    assert_true(fit.missing == 0 && !fit.taken);
    for (size_t i = 0; i < ARRAY_LENGTH(items); i++) {
        assert_true(bundle_text_is(keys[i], expected[i]));
    }
}

/* The rest of the graph stays as it is, bit for bit. */
static void test_a_graph_without_what_is_missing(void **state) {
    static const writer_item items[] = {{.name = "m"}, {.name = "v"}};
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(buffer_free) buffer cut = {0};
    CLEANUP(buffer_free) buffer expected = {0};
    CLEANUP(graph_free) object_graph g;
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error err = ERROR_INIT;
    bundle_text keys[ARRAY_LENGTH(items)];
    graph_fit fit;
    (void)state;
    for (int whole = 1; whole >= 0; whole--) {
        buffer *out = whole ? &bytes : &expected;
        buffer node = {0};
        put_child(&node, 1, "v");
        put_child(&node, 2, "o");
        put_number(&node, 5, 1);
        end_node(out, &node);
        put_variable(out, "v", "v/.ATTRIBUTES/VARIABLE_VALUE");
        put_child(&node, 4, "iter");
        if (whole) {
            put_slot(&node, 1, "m", 3);
        }
        end_node(out, &node);
        if (whole) {
            put_value(&node, GRAPH_VALUE, "m", "v/.OPTIMIZER_SLOT/o/m/.ATTRIBUTES/VARIABLE_VALUE");
        }
        put_number(&node, 9, 77);
        end_node(out, &node);
        put_variable(out, "m", "m/.ATTRIBUTES/VARIABLE_VALUE");
        put_number(out, 8, 3);
    }
    decode(&bytes, &g);
    assert_ok(graph_keys(&g, items, ARRAY_LENGTH(items), &memory, keys, &fit, &err), &err);
    assert_int_equal(fit.missing, 2);
    fit.found[0] = true; /* m, which is o/iter here */
    assert_ok(graph_cut(&g, &fit, (bundle_text){bytes.data, bytes.size}, &cut, &err), &err);
    assert_int_equal(cut.size, expected.size);
    assert_memory_equal(cut.data, expected.data, cut.size);
}

static void test_what_no_graph_fits(void **state) {
    static const writer_item items[] = {
        {.name = "t/table-keys"}, {.name = "w"}, {.name = "w/.ATTRIBUTES/VARIABLE_VALUE"}};
    CLEANUP(buffer_free) buffer bytes = {0};
    struct pawl_error err = ERROR_INIT;
    const char *why = NULL;
    (void)state;
    make_table(&bytes);
    writer_item last = {.name = BUNDLE_LAST, .kind = PAWL_KIND_BYTES, .value = bytes.data};
    last.value_bytes = bytes.size;
    assert_ok(bundle_misfit(&last, items, 2, false, &why, &err), &err);
    assert_null(why);
    assert_ok(bundle_misfit(&last, items, 3, false, &why, &err), &err);
    assert_says(why, "a key of it");
    why = NULL;
    assert_ok(bundle_misfit(&last, items, 1, false, &why, &err), &err);
    assert_null(why);
    assert_ok(bundle_misfit(&last, items, 1, true, &why, &err), &err);
    assert_says(why, "under other names");
    assert_ok(bundle_misfit(&last, items, 0, false, &why, &err), &err);
    assert_says(why, "under other names");
    last.value_bytes--;
    assert_ok(bundle_misfit(&last, items, 2, false, &why, &err), &err);
    assert_says(why, "and is none");
    last.name = "other";
    assert_ok(bundle_misfit(&last, items, 2, false, &why, &err), &err);
    assert_says(why, "another name");
    last = (writer_item){.name = BUNDLE_LAST, .kind = PAWL_KIND_INT64};
    assert_ok(bundle_misfit(&last, items, 2, false, &why, &err), &err);
    assert_says(why, "and is none");
}

/* ---- texts ---- */

static void test_lists_of_texts(void **state) {
    static const struct {
        const char *json;
        int ndim;
        int64_t shape[2];
        const char *lengths, *bytes;
    } cases[] = {
        {"[\"a\", \"b\\\"c\"]", 1, {2}, "\1\3", "ab\"c"},
        {"[[\"a\"],[\"\"]]", 2, {2, 1}, "\1", "a"},
        {"[]", 1, {0}, "", ""},
        {"[[],[]]", 2, {2, 0}, "", ""},
        {"[[\"a\"],[]]", 0, {0}, "\12", "[[\"a\"],[]]"},
        {"[\"a\",[\"b\"]]", 0, {0}, "\13", "[\"a\",[\"b\"]]"},
        {"[[],\"a\"]", 0, {0}, "\10", "[[],\"a\"]"},
        {"[[[]],[]]", 0, {0}, "\11", "[[[]],[]]"},
        {"[\"a\",1]", 0, {0}, "\7", "[\"a\",1]"},
        {"{\"a\":[]}", 0, {0}, "\10", "{\"a\":[]}"},
    };
    texts t = {.ndim = 0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err = ERROR_INIT;
        const writer_item item = {.kind = PAWL_KIND_JSON,
                                  .value = (const uint8_t *)cases[i].json,
                                  .value_bytes = strlen(cases[i].json)};
        assert_ok(texts_of(&item, &t, &err), &err);
        assert_int_equal(t.ndim, cases[i].ndim);
        for (int d = 0; d < t.ndim; d++) {
            assert_int_equal(t.shape[d], cases[i].shape[d]);
        }
        assert_string_equal((const char *)t.lengths.data, cases[i].lengths);
        assert_string_equal((const char *)t.bytes.data, cases[i].bytes);
    }
    texts_free(&t);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_keras_3_saves),
        cmocka_unit_test(test_what_adafactor_of_keras_3_saves),
        cmocka_unit_test(test_what_keras_2_saves),
        cmocka_unit_test(test_r14_a_graph_that_is_wrong),
        cmocka_unit_test(test_r14_a_graph_that_is_cut_off),
        cmocka_unit_test(test_a_way_that_is_too_long),
        cmocka_unit_test(test_more_objects_than_there_may_be),
        cmocka_unit_test(test_r14_many_optimizers_of_the_same_lists),
        cmocka_unit_test(test_keys_of_entries),
        cmocka_unit_test(test_a_graph_without_what_is_missing),
        cmocka_unit_test(test_what_no_graph_fits),
        cmocka_unit_test(test_lists_of_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
