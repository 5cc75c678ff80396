/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles, opcode by opcode: what they become, and what is refused (R14). Nothing is executed. */
#include "lib/test.h"

#include "foreign/pickle/pickle.h"
#include "format/limits.h"

#include <float.h>
#include <string.h>

typedef struct pickled {
    const char *bytes;
    size_t n;
    const char *says;
} pickled;

#define IS(bytes, says)                                                                            \
    { bytes, sizeof(bytes) - 1, says }

/* ---- what a tree is, as a text -------------------------------------------------------------- */

static void put(buffer *b, const char *text) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(buffer_append(b, text, strlen(text), &err), &err);
}

static void show(buffer *b, const pickle_node *node, int depth);

static void show_items(buffer *b, const char *begin, const pickle_items *items, const char *end,
                       int depth) {
    put(b, begin);
    for (uint32_t i = 0; i < items->count; i++) {
        put(b, i > 0 ? " " : "");
        show(b, items->nodes[i], depth + 1);
    }
    put(b, end);
}

static void show_call(buffer *b, const pickle_call *call, int depth) {
    show(b, call->callee, depth + 1);
    show_items(b, "(", &call->arguments->items, ")", depth);
    if (call->with->items.count > 0) {
        show_items(b, call->with->pairs ? "+{" : "+[", &call->with->items,
                   call->with->pairs ? "}" : "]", depth);
    }
    if (call->with->state != NULL) {
        put(b, "=");
        show(b, call->with->state, depth + 1);
    }
}

static void show(buffer *b, const pickle_node *node, int depth) {
    struct pawl_error err = ERROR_INIT;
    if (depth > 8) {
        put(b, "...");
        return;
    }
    switch (node->kind) {
    case PICKLE_NONE:
        put(b, "None");
        break;
    case PICKLE_BOOL:
        put(b, node->truth ? "True" : "False");
        break;
    case PICKLE_INT:
        assert_ok(buffer_decimal(b, node->integer, &err), &err);
        break;
    case PICKLE_FLOAT:
        assert_ok(buffer_printf(b, &err, "%.17gf", node->number), &err);
        break;
    case PICKLE_TEXT:
        assert_ok(buffer_printf(b, &err, "'%.*s'", (int)node->text.n, node->text.bytes), &err);
        break;
    case PICKLE_BIG:
    case PICKLE_BYTES:
        put(b, node->kind == PICKLE_BIG ? "big" : "b");
        for (size_t i = 0; i < node->text.n; i++) {
            assert_ok(buffer_printf(b, &err, ":%02x", (uint8_t)node->text.bytes[i]), &err);
        }
        break;
    case PICKLE_LIST:
        show_items(b, "[", &node->items, "]", depth);
        break;
    case PICKLE_TUPLE:
        show_items(b, "(", &node->items, ")", depth);
        break;
    case PICKLE_DICT:
        show_items(b, "{", &node->items, "}", depth);
        break;
    case PICKLE_SET:
    case PICKLE_FROZENSET:
        show_items(b, "<", &node->items, ">", depth);
        break;
    case PICKLE_GLOBAL:
        put(b, node->global.module);
        put(b, ".");
        put(b, node->global.name);
        break;
    case PICKLE_CALL:
        show_call(b, node->call, depth);
        break;
    case PICKLE_OUTSIDE:
        put(b, "@");
        show(b, node->id, depth + 1);
        break;
    }
}

static bool knows(const char *module, const char *name) {
    return strcmp(module, "m") == 0 && name[0] == 'f';
}

static bool knows_ordered(const char *module, const char *name) {
    return strcmp(module, "collections") == 0 && strcmp(name, "OrderedDict") == 0;
}

static pawl_status read_of(const void *bytes, size_t n, pickle_knows known, pickle_tree *out,
                           pawl_error *err) {
    *err = ERROR_INIT;
    /* Its end is the end of its memory. */
    AUTOFREE uint8_t *copy = n > 0 ? mem_dup(bytes, n) : mem_alloc(0);
    assert_non_null(copy);
    pawl_status status = pickle_read(copy, n, 1000, known, out, err);
    if (status == PAWL_OK) {
        pickle_free(out);
        status = pickle_read(bytes, n, 1000, known, out, err);
    }
    return status;
}

static void check_one(const pickled *p, pickle_knows known) {
    CLEANUP(buffer_free) buffer b = {0};
    struct pawl_error err;
    pickle_tree tree;
    if (read_of(p->bytes, p->n, known, &tree, &err) != PAWL_OK) {
        fail_msg("%s is refused: %s", p->says, err.attempt);
    }
    show(&b, tree.root, 0);
    assert_string_equal((const char *)b.data, p->says);
    assert_int_equal(tree.bytes, p->n);
    pickle_free(&tree);
    /* Cut off, it is refused at every byte, at one that it has. */
    for (size_t n = 0; n < p->n; n++) {
        assert_fails(read_of(p->bytes, n, known, &tree, &err), PAWL_EDAMAGED, &err);
        assert_true(err.has_range && err.offset >= 1000 && err.offset <= 1000 + n);
    }
}

#define CHECK(table, known)                                                                        \
    for (size_t check_i = 0; check_i < ARRAY_LENGTH(table); check_i++) {                           \
        check_one(&(table)[check_i], known);                                                       \
    }

/* ---- what is understood --------------------------------------------------------------------- */

static void test_numbers_of_every_opcode(void **state) {
    static const pickled all[] = {
        IS("N.", "None"),
        IS("\x80\2\x88.", "True"),
        IS("\x80\5\x89.", "False"),
        IS("I01\n.", "True"),
        IS("I00\n.", "False"),
        IS("I1\n.", "1"),
        IS("I-12\n.", "-12"),
        IS("I9223372036854775807\n.", "9223372036854775807"),
        IS("L-9223372036854775808L\n.", "-9223372036854775808"),
        IS("L12\n.", "12"),
        IS("K\xff.", "255"),
        IS("M\xff\xff.", "65535"),
        IS("J\xff\xff\xff\xff.", "-1"),
        IS("J\xff\xff\xff\x7f.", "2147483647"),
        IS("\x8a\0.", "0"),
        IS("\x8a\1\xff.", "-1"),
        IS("\x8a\2\xff\0.", "255"),
        IS("\x8a\x8\0\0\0\0\0\0\0\x80.", "-9223372036854775808"),
        IS("\x8b\2\0\0\0\0\1.", "256"),
        IS("\x8a\x9\0\0\0\0\0\0\0\0\1.", "big:00:00:00:00:00:00:00:00:01"),
        IS("F0.5\n.", "0.5f"),
        IS("F-1e+20\n.", "-1e+20f"),
        IS("Finf\n.", "inff"),
        IS("F-inf\n.", "-inff"),
        IS("Fnan\n.", "nanf"),
        IS("G?\xf8\0\0\0\0\0\0.", "1.5f"),
    };
    (void)state;
    CHECK(all, knows);
}

static void test_texts_and_bytes(void **state) {
    static const pickled all[] = {
        IS("S'abc'\n.", "'abc'"),
        IS("S\"it's\"\n.", "'it's'"),
        IS("S'\\x41\\n\\t\\\\\\''\n.", "'A\n\t\\''"),
        IS("S'\\xff'\n.", "b:ff"),
        IS("U\3abc.", "'abc'"),
        IS("U\1\x80.", "b:80"),
        IS("T\2\0\0\0ab.", "'ab'"),
        IS("Vl\\u00e4mp\xe4\\U0001f600\\n\n.", "'l\xc3\xa4mp\xc3\xa4\xf0\x9f\x98\x80\\n'"),
        IS("X\2\0\0\0\xc3\xa4.", "'\xc3\xa4'"),
        IS("\x8c\0.", "''"),
        IS("\x8c\1a.", "'a'"),
        IS("\x8d\2\0\0\0\0\0\0\0xy.", "'xy'"),
        IS("C\2\0\xff.", "b:00:ff"),
        IS("B\1\0\0\0a.", "b:61"),
        IS("\x8e\1\0\0\0\0\0\0\0a.", "b:61"),
        IS("\x96\1\0\0\0\0\0\0\0a.", "b:61"),
    };
    (void)state;
    CHECK(all, knows);
}

static void test_lists_dicts_and_sets(void **state) {
    static const pickled all[] = {
        IS("].", "[]"),
        IS(").", "()"),
        IS("}.", "{}"),
        IS("\x8f.", "<>"),
        IS("(lI1\na.", "[1]"),
        IS("(K\1K\2l.", "[1 2]"),
        IS("](K\1K\2e.", "[1 2]"),
        IS("(K\1(K\2tt.", "(1 (2))"),
        IS("K\1\x85.", "(1)"),
        IS("K\1N\x86.", "(1 None)"),
        IS("K\1K\2K\3\x87.", "(1 2 3)"),
        IS("(K\1K\2d.", "{1 2}"),
        IS("}K\1K\2s.", "{1 2}"),
        IS("}(K\1K\2K\1K\3u.", "{1 2 1 3}"),
        IS("\x8f(K\1K\2\x90.", "<1 2>"),
        IS("(K\1K\2\x91.", "<1 2>"),
    };
    (void)state;
    CHECK(all, knows);
}

static void test_the_memo_and_the_stack(void **state) {
    static const pickled all[] = {
        IS("K\7p0\n0(g0\ng0\nt.", "(7 7)"),
        IS("K\7q\0h\0\x86.", "(7 7)"),
        IS("K\7r\0\0\0\0j\0\0\0\0\x86.", "(7 7)"),
        IS("\x80\4K\7\x94K\x8\x94h\0\x87.", "(7 8 7)"),
        IS("K\7q\1q\0h\1\x86.", "(7 7)"), /* Python 2 begins with 1 */
        IS("K\0012\x86.", "(1 1)"),
        IS("K\1K\0020.", "1"),
        IS("K\1(K\2K\0031.", "1"),
        IS("\x80\4\x95\2\0\0\0\0\0\0\0N.", "None"),
    };
    (void)state;
    CHECK(all, knows);
}

static void test_calls_and_objects(void **state) {
    static const pickled all[] = {
        IS("cm\nC\n.", "m.C"),
        IS("\x8c\1m\x8c\1C\x93.", "m.C"),
        IS("cm\nf\nK\1\x85R.", "m.f(1)"),
        IS("(K\1im\nf\n.", "m.f(1)"),
        IS("(cm\nf\nK\1o.", "m.f(1)"),
        IS("cos\nC\n)\x81.", "os.C()"), /* of a class: nothing runs */
        IS("cm\nC\n)}\x92.", "m.C()"),
        IS("cm\nC\n)\x81}K\1K\2sb.", "m.C()={1 2}"),
        IS("cm\nC\n)\x81(K\1K\2u.", "m.C()+{1 2}"),
        IS("cm\nC\n)\x81(K\1K\2e.", "m.C()+[1 2]"),
        IS("cm\nC\n)\x81K\1a.", "m.C()+[1]"),
        IS("cm\nC\n)\x81K\1K\2s.", "m.C()+{1 2}"),
        IS("Pkey\n.", "@'key'"),
        IS("(X\1\0\0\0sK\1tQ.", "@('s' 1)"),
    };
    (void)state;
    CHECK(all, knows);
}

static void test_an_ordered_dict_of_python_2(void **state) {
    static const pickled all[] = {
        IS("ccollections\nOrderedDict\n((l(lS'a'\naI1\naatR.",
           "collections.OrderedDict([['a' 1]])+{'a' 1}"),
    };
    (void)state;
    CHECK(all, knows_ordered);
}

static void test_asking_nodes(void **state) {
    static const char bytes[] = "}(X\1\0\0\0aK\1X\1\0\0\0bcm\nC\n)\x81}X\1\0\0\0cNsbK\5Nu.";
    struct pawl_error err;
    pickle_tree tree;
    (void)state;
    assert_ok(read_of(bytes, sizeof(bytes) - 1, knows, &tree, &err), &err);
    assert_int_equal(pickle_get(tree.root, "a")->integer, 1);
    assert_null(pickle_get(tree.root, "c"));
    const pickle_node *object = pickle_get(tree.root, "b");
    assert_true(pickle_is_call(object, "m", "C") && !pickle_is_call(object, "m", "D"));
    assert_true(pickle_is_global(object->call->callee, "m", "C"));
    assert_int_equal(pickle_get(object->call->with->state, "c")->kind, PICKLE_NONE);
    assert_int_equal(object->at, 22); /* where it is made */
    assert_true(pickle_says(tree.root->items.nodes[0], "a"));
    assert_false(pickle_says(tree.root->items.nodes[0], "ab"));
    assert_false(pickle_says(tree.root, "a"));
    pickle_free(&tree);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void test_r14_a_call_of_what_is_not_known(void **state) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
    } all[] = {
        IS("cos\nsystem\n(S'echo pwned'\ntR.", "byte 1027: calls os.system; nothing was executed"),
        IS("\x80\4\x8c\5posix\x8c\6system\x93\x8c\2id\x85R.",
           "byte 1023: calls posix.system; nothing was executed"),
        IS("(S'id'\nios\nsystem\n.", "byte 1007: calls os.system; nothing was executed"),
        IS("(cos\nsystem\nS'id'\no.", "byte 1018: calls os.system; nothing was executed"),
        IS("cm\ng\n)R.", "byte 1006: calls m.g; nothing was executed"),
        /* what a call gave is called; an attribute; a text that is no class */
        IS("cm\nf\n)R)R.", "it calls what is no function of a module; nothing was executed"),
        IS("X\1\0\0\0a)R.", "it calls what is no function of a module; nothing was executed"),
        IS("cm\nf\nNR.", "it calls what is no function of a module; nothing was executed"),
        IS("X\1\0\0\0a)\x81.", "it calls what is no function of a module; nothing was executed"),
    };
    struct pawl_error err;
    pickle_tree tree;
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        assert_fails(read_of(all[i].bytes, all[i].n, knows, &tree, &err), PAWL_EUNSUPPORTED, &err);
        assert_says(err.attempt, all[i].says);
        assert_true(err.has_range);
    }
    assert_fails(read_of(all[0].bytes, all[0].n, knows, &tree, &err), PAWL_EUNSUPPORTED, &err);
    assert_says(err.next, "do not load this file with anything that executes pickles");
}

static void test_r14_what_is_no_pickle(void **state) {
    static const pickled all[] = {
        IS("", "ends"),
        IS(".", "takes a value that is not there"),
        IS("(.", "takes a value that is not there"),
        IS("NN.", "ends with values left over"),
        IS("\xffN.", "there is no opcode 0xff"),
        IS("a", "takes a value that is not there"),
        IS("Na", "a container that is not there"),
        IS("NNa", "what is no such container"),
        IS("]NNs", "what is no such container"),
        IS("}(Nu", "a key without a value"),
        IS("(Nd", "a key without a value"),
        IS("(N\x85\x86", "takes a value that is not there"),
        IS("e", "goes back to a mark that is not there"),
        IS("Nt", "goes back to a mark that is not there"),
        IS("1", "goes back to a mark that is not there"),
        IS("0", "takes a value that is not there"),
        IS("(2", "takes a value that is not there"),
        IS("h\0", "takes a value that it has not kept"),
        IS("g-1\n", "is negative"),
        IS("q\0", "keeps a value that is not there"),
        IS("(q\0", "keeps a value that is not there"),
        IS("Nr\xff\xff\xff\x7f", "keeps a value under a number that is too large"),
        IS("NNb", "gives a state to what is no object"),
        IS("(o", "takes a value that is not there"),
        IS("NN\x93", "is no text"),
        IS("c\xff\nC\n", "is no text"),
        IS("cm\nC\n)N\x92", "keyword arguments are no dict"),
        IS("I\n", "fit 64 bits, or is none"),
        IS("I9223372036854775808\n", "fit 64 bits, or is none"),
        IS("I1x\n", "fit 64 bits, or is none"),
        IS("F1.2.3\n", "a line is no number"),
        IS("F\n", "a line is no number"),
        IS("Sabc\n", "a text has no quotes"),
        IS("S'\n", "a text has no quotes"),
        IS("S'\\q'\n", "an escape that is none"),
        IS("S'\\'\n", "an escape that is none"),
        IS("S'\\x4'\n", "an escape that is none"),
        IS("V\\u12\n", "an escape that is none"),
        IS("V\\Uffffffff\n", "an escape that is none"),
        IS("X\xff\xff\xff\xff"
           "a",
           "go beyond the end"),
        IS("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
           "a",
           "go beyond the end"),
        IS("\x8b\xff\xff\xff\xff", "an integer is too long"),
        IS("\x80\6N.", "a newer protocol than 5"),
        IS("\x82\1.", "the registry of extensions"),
        IS("\x97.", "buffers from elsewhere"),
        IS("cm\nC\n)\x81K\1aK\1K\2s", "both as a list and as a dict"),
    };
    struct pawl_error err;
    pickle_tree tree;
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        pawl_status status = read_of(all[i].bytes, all[i].n, knows, &tree, &err);
        assert_true(status == PAWL_EDAMAGED || status == PAWL_EUNSUPPORTED ||
                    status == PAWL_ELIMIT);
        if (strstr(err.attempt, all[i].says) == NULL) {
            fail_msg("case %zu: %s, not %s", i, err.attempt, all[i].says);
        }
        assert_true(err.has_range);
        assert_null(tree.root);
    }
}

/* ---- bounds --------------------------------------------------------------------------------- */

static void repeat(buffer *b, const char *bytes, size_t n, size_t times) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(buffer_reserve(b, n * times, &err), &err);
    for (size_t i = 0; i < times; i++) {
        assert_ok(buffer_append(b, bytes, n, &err), &err);
    }
}

static void refuse_limit(const buffer *b, const char *says) {
    struct pawl_error err = ERROR_INIT;
    pickle_tree tree;
    assert_fails(pickle_read(b->data, b->size, 0, knows, &tree, &err), PAWL_ELIMIT, &err);
    assert_says(err.expected, says);
    assert_true(err.has_range);
    assert_null(tree.root);
}

static void test_r14_what_is_too_large_is_refused(void **state) {
    CLEANUP(buffer_free) buffer b = {0};
    (void)state;
    repeat(&b, "(", 1, FOREIGN_MAX_PICKLE_STACK + 1);
    refuse_limit(&b, "at most 1000000 values on its stack");
    b.size = 0; /* values that are dropped at once */
    repeat(&b, "N0", 2, FOREIGN_MAX_PICKLE_NODES + 1);
    refuse_limit(&b, "at most 6000000 values");
    b.size = 0; /* a value that is kept again and again */
    repeat(&b, "N", 1, 1);
    repeat(&b, "\x94", 1, FOREIGN_MAX_PICKLE_NODES + 1);
    refuse_limit(&b, "at most 6000000 values in its memo");
    b.size = 0; /* one long name, which many classes have */
    repeat(&b, "X\0\0\x10\0", 5, 1);
    repeat(&b, "a", 1, 1 << 20);
    repeat(&b, "q\0", 2, 1);
    repeat(&b,
           "h\0h\0\x93"
           "0",
           6, 100);
    refuse_limit(&b, "at most 16777216 bytes of names");
    b.size = 0;
    repeat(&b, "N", 1, FOREIGN_MAX_PICKLE + 1);
    refuse_limit(&b, "at most 134217728 bytes");
    b.size = 0; /* steps that do nothing */
    repeat(&b, "(1", 2, FOREIGN_MAX_PICKLE_OPCODES / 2 + 1);
    refuse_limit(&b, "at most 100000000 opcodes");
}

/* A small list, taken into others again and again, has small ones behind it. */
static void test_r14_laughs_are_small_trees(void **state) {
    CLEANUP(buffer_free) buffer b = {0};
    struct pawl_error err;
    pickle_tree tree;
    (void)state;
    repeat(&b, "]", 1, 1);
    for (unsigned i = 0; i < 200; i++) {
        const char next[] = {'q', (char)i, '0', ']', '(', 'h', (char)i, 'h', (char)i, 'e'};
        repeat(&b, next, sizeof(next), 1);
    }
    repeat(&b, ".", 1, 1);
    assert_ok(read_of(b.data, b.size, knows, &tree, &err), &err);
    assert_int_equal(tree.root->items.count, 2);
    assert_true(tree.root->items.nodes[0] == tree.root->items.nodes[1]);
    pickle_free(&tree);
}

static void test_r14_a_list_in_itself(void **state) {
    static const char bytes[] = "]q\0h\0a.";
    struct pawl_error err;
    pickle_tree tree;
    (void)state;
    assert_ok(read_of(bytes, sizeof(bytes) - 1, knows, &tree, &err), &err);
    assert_true(tree.root->items.nodes[0] == tree.root);
    pickle_free(&tree);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_every_opcode),
        cmocka_unit_test(test_texts_and_bytes),
        cmocka_unit_test(test_lists_dicts_and_sets),
        cmocka_unit_test(test_the_memo_and_the_stack),
        cmocka_unit_test(test_calls_and_objects),
        cmocka_unit_test(test_an_ordered_dict_of_python_2),
        cmocka_unit_test(test_asking_nodes),
        cmocka_unit_test(test_r14_a_call_of_what_is_not_known),
        cmocka_unit_test(test_r14_what_is_no_pickle),
        cmocka_unit_test(test_r14_what_is_too_large_is_refused),
        cmocka_unit_test(test_r14_laughs_are_small_trees),
        cmocka_unit_test(test_r14_a_list_in_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
