/* SPDX-License-Identifier: Apache-2.0 */
/* SavedModels made by hand: what their graphs lead to, and what is said of those that are damaged
 * or made to do harm. Those that TensorFlow makes are in tests/python/tf. */
#include "lib/failing_memory.h"
#include "lib/test.h"

#include "doctor/saved_model.h"
#include "foreign/saved_model/saved_model.h"
#include "format/limits.h"

#include <stdio.h>
#include <string.h>

/* ---- messages by hand ----------------------------------------------------------------------- */

static void put_number(buffer *out, uint64_t field, uint64_t v) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(buffer_varint(out, field << 3, &err), &err);
    assert_ok(buffer_varint(out, v, &err), &err);
}

static void put_bytes(buffer *out, uint64_t field, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(buffer_varint(out, field << 3 | 2u, &err), &err);
    assert_ok(buffer_varint_bytes(out, bytes, n, &err), &err);
}

static void put_text(buffer *out, uint64_t field, const char *text) {
    put_bytes(out, field, text, strlen(text));
}

static void put_message(buffer *out, uint64_t field, buffer *message) {
    put_bytes(out, field, message->size > 0 ? message->data : (const uint8_t *)"", message->size);
    buffer_free(message);
}

static void put_entry(buffer *out, uint64_t field, const char *key, buffer *value) {
    buffer entry = {0};
    put_text(&entry, 1, key);
    put_message(&entry, 2, value);
    put_message(out, field, &entry);
}

static void put_type(buffer *node, const char *attribute, uint64_t type) {
    buffer value = {0};
    put_number(&value, 6, type);
    put_entry(node, 5, attribute, &value);
}

static void put_call(buffer *node, const char *attribute, const char *function) {
    buffer value = {0};
    buffer named = {0};
    put_text(&named, 1, function);
    put_message(&value, 10, &named);
    put_entry(node, 5, attribute, &value);
}

/* `inputs`: separated by spaces. */
static buffer begin_node(const char *name, const char *op, const char *inputs) {
    buffer node = {0};
    char words[256];
    char *rest = words;
    put_text(&node, 1, name);
    put_text(&node, 2, op);
    (void)snprintf(words, sizeof(words), "%s", inputs);
    for (char *one = strtok_r(words, " ", &rest); one != NULL; one = strtok_r(NULL, " ", &rest)) {
        put_text(&node, 3, one);
    }
    return node;
}

/* A function that has one node: `op` called "body", which calls `called` unless that is NULL. */
static void put_function(buffer *library, const char *name, const char *op, const char *called) {
    buffer function = {0};
    buffer signature = {0};
    buffer result = {0};
    put_text(&signature, 1, name);
    put_message(&function, 1, &signature);
    buffer node = begin_node("body", op, "argument");
    if (called != NULL) {
        put_call(&node, "f", called);
    }
    put_message(&function, 3, &node);
    put_text(&result, 1, "out");
    put_text(&result, 2, "body:output:0");
    put_message(&function, 4, &result);
    put_message(library, 1, &function);
}

static buffer tensor_info(const char *name, uint64_t type, int ndim, const int64_t *shape) {
    buffer info = {0};
    buffer dims = {0};
    put_text(&info, 1, name);
    put_number(&info, 2, type);
    for (int i = 0; i < ndim; i++) {
        buffer dim = {0};
        put_number(&dim, 1, (uint64_t)shape[i]);
        put_message(&dims, 2, &dim);
    }
    put_message(&info, 3, &dims);
    return info;
}

/* A signature "s" with an input "x" of shape [?, 3, ?] fed to `fed`, and the output of `from`. */
static void put_signature(buffer *graph, const char *fed, const char *from, bool known) {
    static const int64_t unknown_shape[] = {-1, 3, -1};
    static const int64_t known_shape[] = {2, 3, 4};
    buffer signature = {0};
    buffer input = tensor_info(fed, 1, 3, known ? known_shape : unknown_shape);
    buffer output = tensor_info(from, 1, 0, NULL);
    put_entry(&signature, 1, "x", &input);
    put_entry(&signature, 2, "y", &output);
    put_entry(graph, 5, "s", &signature);
}

/* Of a graph's nodes and library. */
static buffer model_of(buffer *graph_def, buffer *library, const char *fed, const char *from,
                       bool known) {
    buffer model = {0};
    buffer meta = {0};
    buffer info = {0};
    put_number(&model, 1, 1);
    put_text(&info, 4, "serve");
    put_text(&info, 5, "2.21.0");
    put_message(&meta, 1, &info);
    put_message(graph_def, 2, library);
    put_message(&meta, 2, graph_def);
    put_signature(&meta, fed, from, known);
    put_message(&model, 2, &meta);
    return model;
}

/* x -> call of `function` -> y */
static buffer calling(buffer *library, const char *function) {
    buffer graph = {0};
    buffer node = begin_node("x", "Placeholder", "");
    put_message(&graph, 1, &node);
    node = begin_node("call", "StatefulPartitionedCall", "x:0 ^x");
    put_call(&node, "f", function);
    put_message(&graph, 1, &node);
    return model_of(&graph, library, "x:0", "call:0", true);
}

/* ---- what is said --------------------------------------------------------------------------- */

typedef struct heard {
    char text[32768];
    size_t count;
} heard;

static void hear(void *context, const pawl_finding *finding) {
    heard *h = context;
    size_t at = strlen(h->text);
    h->count++;
    (void)snprintf(h->text + at, sizeof(h->text) - at, "%s: %s\n", finding->id, finding->text);
}

static pawl_status judge(const buffer *bytes, heard *h, pawl_error *err) {
    CLEANUP(saved_model_free) saved_model model = {.functions = NULL};
    examination x = {.each = hear, .context = h, .part = "job"};
    *h = (heard){.count = 0};
    TRY(saved_model_decode(bytes->data, bytes->size, &model, err));
    return doctor_judge_model(&x, &model, err);
}

static void assert_findings(buffer *bytes, const char *wanted) {
    static heard h;
    struct pawl_error err = ERROR_INIT;
    assert_ok(judge(bytes, &h, &err), &err);
    assert_string_equal(h.text, wanted);
    buffer_free(bytes);
}

static void assert_refused(buffer *bytes, pawl_status status, const char *words) {
    static heard h;
    struct pawl_error err = ERROR_INIT;
    assert_fails(judge(bytes, &h, &err), status, &err);
    assert_says(err.attempt, words);
    buffer_free(bytes);
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void test_all_is_well(void **state) {
    (void)state;
    buffer library = {0};
    put_function(&library, "f", "Relu", NULL);
    buffer model = calling(&library, "f");
    assert_findings(&model, "ok: the SavedModel, with 1 signature, reaches 2 nodes: all have XLA "
                            "kernels in TF 2.21, and all inputs have static shapes\n");
}

static void test_j07_what_no_signature_leads_to_is_not_judged(void **state) {
    (void)state;
    buffer library = {0};
    put_function(&library, "__inference__traced_save_7", "SaveV2", NULL);
    put_function(&library, "f", "Relu", NULL);
    buffer model = calling(&library, "f");
    assert_findings(&model, "ok: the SavedModel, with 1 signature, reaches 2 nodes: all have XLA "
                            "kernels in TF 2.21, and all inputs have static shapes\n");
}

static void test_j07_functions_are_entered_through_any_attribute(void **state) {
    (void)state;
    buffer library = {0};
    put_function(&library, "f", "While", "cond");
    put_function(&library, "cond", "body_by_op", NULL); /* the op is a function's name */
    put_function(&library, "body_by_op", "PyFunc", NULL);
    buffer model = calling(&library, "f");
    assert_findings(&model,
                    "J07: signature \"s\": op PyFunc (node body in function body_by_op) has "
                    "no XLA kernel in TF 2.21\n");
}

static void test_j07_a_list_of_functions_is_entered(void **state) {
    (void)state;
    buffer library = {0};
    buffer graph = {0};
    buffer value = {0};
    buffer list = {0};
    buffer named = {0};
    put_function(&library, "a", "Relu", NULL);
    put_function(&library, "b", "StringUpper", NULL);
    buffer node = begin_node("case", "Case", "x");
    for (int i = 0; i < 2; i++) {
        put_text(&named, 1, i == 0 ? "a" : "b");
        put_message(&list, 9, &named);
    }
    put_message(&value, 1, &list);
    put_entry(&node, 5, "branches", &value);
    put_message(&graph, 1, &node);
    buffer model = model_of(&graph, &library, "x:0", "case:0", true);
    assert_findings(&model, "J07: signature \"s\": op StringUpper (node body in function b) has no "
                            "XLA kernel in TF 2.21\n");
}

static void test_j07_types_are_those_of_the_table(void **state) {
    (void)state;
    static const struct {
        const char *op, *attribute;
        uint64_t type;
        const char *said;
    } cases[] = {
        {"MatMul", "T", 1, "ok: "},
        {"MatMul", "T", 2, "J07: signature \"s\": op MatMul (node node) computes float64"},
        {"MatMul", "T", 10,
         "J07: signature \"s\": op MatMul (node node) has no XLA kernel in TF 2.21 for T of type "
         "bool\n"},
        {"MatMul", "T", 99,
         "J07: signature \"s\": op MatMul (node node) has no XLA kernel in TF 2.21 for T of type "
         "type 99\n"},
        {"Identity", "T", 7,
         "J07: signature \"s\": op Identity (node node) has no XLA kernel in TF 2.21 for T of type "
         "string\n"},
        {"Identity", "T", 101, "ok: "}, /* of a variable of TensorFlow 1 */
        {"Assert", "T", 7, "ok: "},
        {"MatMul", "other", 7,
         "J07: signature \"s\": op MatMul (node node) has no XLA kernel in TF 2.21 for other of "
         "type string\n"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        static heard h;
        struct pawl_error err = ERROR_INIT;
        buffer graph = {0};
        buffer library = {0};
        buffer node = begin_node("node", cases[i].op, "x");
        put_type(&node, cases[i].attribute, cases[i].type);
        put_message(&graph, 1, &node);
        buffer model = model_of(&graph, &library, "x:0", "node", true);
        assert_ok(judge(&model, &h, &err), &err);
        assert_memory_equal(h.text, cases[i].said, strlen(cases[i].said));
        buffer_free(&model);
    }
}

static void test_j07_what_is_fed_is_not_computed(void **state) {
    (void)state;
    buffer graph = {0};
    buffer library = {0};
    buffer node = begin_node("parse", "ParseExample", "");
    put_message(&graph, 1, &node);
    node = begin_node("x", "Identity", "parse:1");
    put_message(&graph, 1, &node);
    node = begin_node("y", "Relu", "x");
    put_message(&graph, 1, &node);
    buffer model = model_of(&graph, &library, "x:0", "y:0", true);
    assert_findings(&model, "ok: the SavedModel, with 1 signature, reaches 1 node: all have XLA "
                            "kernels in TF 2.21, and all inputs have static shapes\n");
}

static void test_j03_unknown_dimensions(void **state) {
    (void)state;
    buffer graph = {0};
    buffer library = {0};
    buffer node = begin_node("y", "Relu", "x");
    put_message(&graph, 1, &node);
    buffer model = model_of(&graph, &library, "x:0", "y:0", false);
    assert_findings(&model, "J03: signature \"s\": input \"x\": float32 [?, 3, ?]: dimensions 0, 2 "
                            "are unknown\n");
}

/* ---- harm ----------------------------------------------------------------------------------- */

static void test_r14_functions_that_call_each_other_end(void **state) {
    (void)state;
    buffer library = {0};
    put_function(&library, "a", "PartitionedCall", "b");
    put_function(&library, "b", "While", "a");
    put_function(&library, "own", "own", "own");
    buffer model = calling(&library, "a");
    assert_findings(&model, "ok: the SavedModel, with 1 signature, reaches 3 nodes: all have XLA "
                            "kernels in TF 2.21, and all inputs have static shapes\n");
}

static void test_r14_nodes_that_feed_themselves_end(void **state) {
    (void)state;
    buffer graph = {0};
    buffer library = {0};
    buffer node = begin_node("a", "Relu", "a b a:7 ^b nobody");
    put_message(&graph, 1, &node);
    node = begin_node("b", "Relu", "a");
    put_message(&graph, 1, &node);
    buffer model = model_of(&graph, &library, "x:0", "a", true);
    assert_findings(&model, "ok: the SavedModel, with 1 signature, reaches 2 nodes: all have XLA "
                            "kernels in TF 2.21, and all inputs have static shapes\n");
}

/* A chain of functions that is longer than any stack. */
static void test_r14_deep_calls_need_no_stack(void **state) {
    (void)state;
    static heard h;
    struct pawl_error err = ERROR_INIT;
    buffer library = {0};
    for (int i = 0; i < 50000; i++) {
        char name[32];
        char called[32];
        (void)snprintf(name, sizeof(name), "f%d", i);
        (void)snprintf(called, sizeof(called), "f%d", i + 1);
        put_function(&library, name, "PartitionedCall", called);
    }
    put_function(&library, "f50000", "PyFunc", NULL);
    buffer model = calling(&library, "f0");
    assert_ok(judge(&model, &h, &err), &err);
    assert_string_equal(h.text,
                        "J07: signature \"s\": op PyFunc (node body in function f50000) has "
                        "no XLA kernel in TF 2.21\n");
    buffer_free(&model);
}

/* Messages in messages, in every field that is entered. */
static void test_r14_deep_messages_are_not_entered(void **state) {
    (void)state;
    static heard h;
    for (uint64_t field = 1; field <= 10; field++) {
        struct pawl_error err = ERROR_INIT;
        buffer message = {0};
        put_number(&message, 1, 1);
        for (int i = 0; i < 2000; i++) {
            buffer outer = {0};
            put_message(&outer, field, &message);
            message = outer;
        }
        buffer model = {0};
        put_message(&model, 2, &message);
        pawl_status status = judge(&model, &h, &err);
        assert_true(status == PAWL_OK || status == PAWL_EDAMAGED);
        buffer_free(&model);
    }
}

static void test_r14_lengths_beyond_the_end(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    buffer model = {0};
    assert_ok(buffer_append(&model, "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, &err), &err);
    assert_refused(&model, PAWL_EDAMAGED, "a field is longer than what it is in");
    buffer text = {0};
    assert_ok(buffer_append(&text, "not a model", 11, &err), &err);
    assert_refused(&text, PAWL_EDAMAGED, "the SavedModel is wrong at byte");
    buffer nothing = {0};
    assert_refused(&nothing, PAWL_EDAMAGED, "the SavedModel has no graph");
}

static void test_r14_too_many_dimensions(void **state) {
    (void)state;
    static const int64_t shape[FOREIGN_MAX_MODEL_NDIM + 1] = {0};
    buffer model = {0};
    buffer meta = {0};
    buffer signature = {0};
    buffer input = tensor_info("x:0", 1, (int)ARRAY_LENGTH(shape), shape);
    put_entry(&signature, 1, "x", &input);
    put_entry(&meta, 5, "s", &signature);
    put_message(&model, 2, &meta);
    assert_refused(&model, PAWL_ELIMIT, "more than 254 dimensions of an input");
}

/* Each signature leads over all nodes. */
static void test_r14_many_signatures_over_many_nodes(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    buffer model = {0};
    buffer meta = {0};
    buffer graph = {0};
    buffer node = begin_node("n", "Relu", "");
    for (int i = 0; i < 20000; i++) {
        put_text(&node, 3, "n");
    }
    put_message(&graph, 1, &node);
    put_message(&meta, 2, &graph);
    for (int i = 0; i < 1200; i++) {
        char name[32];
        buffer signature = {0};
        buffer output = tensor_info("n:0", 1, 0, NULL);
        (void)snprintf(name, sizeof(name), "s%d", i);
        put_entry(&signature, 2, "y", &output);
        put_entry(&meta, 5, name, &signature);
    }
    assert_ok(buffer_reserve(&model, meta.size + 16, &err), &err);
    put_message(&model, 2, &meta);
    assert_refused(&model, PAWL_ELIMIT, "lead over more than 10000000 links");
}

/* Every op is another one without a kernel. */
static void test_r14_findings_are_bounded(void **state) {
    (void)state;
    static heard h;
    struct pawl_error err = ERROR_INIT;
    buffer graph = {0};
    buffer library = {0};
    buffer last = begin_node("last", "Relu", "");
    for (int i = 0; i < 150; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "Own%d", i);
        buffer node = begin_node(name, name, "");
        put_message(&graph, 1, &node);
        put_text(&last, 3, name);
    }
    put_message(&graph, 1, &last);
    buffer model = model_of(&graph, &library, "x:0", "last", true);
    assert_ok(judge(&model, &h, &err), &err);
    assert_int_equal(h.count, 101);
    assert_non_null(strstr(h.text,
                           "J07: there is more like this, which is not told: 1 signature has "
                           "been looked at\n"));
    buffer_free(&model);
}

/* Wherever it is cut off, it is refused, or what is left of it is understood. */
static void test_r08_cut_anywhere(void **state) {
    (void)state;
    static heard h;
    buffer library = {0};
    put_function(&library, "f", "While", "g");
    put_function(&library, "g", "PyFunc", NULL);
    buffer model = calling(&library, "f");
    for (size_t n = 1; n < model.size; n++) {
        struct pawl_error err = ERROR_INIT;
        const buffer cut = {.data = model.data, .size = n};
        pawl_status status = judge(&cut, &h, &err);
        assert_true(status == PAWL_EDAMAGED);
    }
    buffer_free(&model);
}

static pawl_status judge_it(void *context, pawl_error *err) {
    static heard h;
    return judge(context, &h, err);
}

static void test_memory_that_is_missing_is_told(void **state) {
    (void)state;
    buffer library = {0};
    put_function(&library, "f", "While", "g");
    put_function(&library, "g", "PyFunc", NULL);
    buffer model = calling(&library, "f");
    assert_true(failing_memory_each(judge_it, &model) > 5);
    buffer_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_well),
        cmocka_unit_test(test_j07_what_no_signature_leads_to_is_not_judged),
        cmocka_unit_test(test_j07_functions_are_entered_through_any_attribute),
        cmocka_unit_test(test_j07_a_list_of_functions_is_entered),
        cmocka_unit_test(test_j07_types_are_those_of_the_table),
        cmocka_unit_test(test_j07_what_is_fed_is_not_computed),
        cmocka_unit_test(test_j03_unknown_dimensions),
        cmocka_unit_test(test_r14_functions_that_call_each_other_end),
        cmocka_unit_test(test_r14_nodes_that_feed_themselves_end),
        cmocka_unit_test(test_r14_deep_calls_need_no_stack),
        cmocka_unit_test(test_r14_deep_messages_are_not_entered),
        cmocka_unit_test(test_r14_lengths_beyond_the_end),
        cmocka_unit_test(test_r14_too_many_dimensions),
        cmocka_unit_test(test_r14_many_signatures_over_many_nodes),
        cmocka_unit_test(test_r14_findings_are_bounded),
        cmocka_unit_test(test_r08_cut_anywhere),
        cmocka_unit_test(test_memory_that_is_missing_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
