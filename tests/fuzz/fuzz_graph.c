/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a graph of objects of TensorFlow: what is understood has keys in order, each in it,
 * names that an entry can have, and slots of variables. */
#include "fuzz.h"

#include "foreign/tensorflow/graph.h"
#include "foreign/tensorflow/write_keys.h"

static void check_attribute(object_graph *g, const graph_attribute *a) {
    CLEANUP(buffer_free) buffer name = {0};
    pawl_error err = ERROR_INIT;
    bool named = false;
    FUZZ_CHECK(a->node < g->node_count && graph_find(g, a->key) == a);
    FUZZ_CHECK(graph_name(g, a, &name, &named, &err) == PAWL_OK);
    FUZZ_CHECK(!named || (name.size > 0 && name.size <= PAWL_MAX_NAME_BYTES));
    if (graph_role(g, a) == PAWL_ROLE_SLOT) {
        const graph_node *n = &g->nodes[a->node];
        FUZZ_CHECK(n->variable < g->node_count && n->variable != a->node && n->slot_name.n > 0);
        FUZZ_CHECK(g->nodes[n->variable].value < g->attribute_count);
    }
}

/* What is left of a graph is a graph, with as many objects, of the values that were found. */
static void check_cut(const object_graph *g, const graph_fit *fit, bundle_text bytes) {
    CLEANUP(buffer_free) buffer out = {0};
    CLEANUP(graph_free) object_graph left = {.nodes = NULL};
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(graph_cut(g, fit, bytes, &out, &err) == PAWL_OK && out.size <= bytes.n + 16);
    FUZZ_CHECK(graph_decode(out.data, out.size, &left, &err) == PAWL_OK);
    FUZZ_CHECK(left.node_count == g->node_count && left.child_count == g->child_count);
    FUZZ_CHECK(left.attribute_count == g->attribute_count - fit->missing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer bytes = fuzz_copy(data, size);
    CLEANUP(graph_free) object_graph g = {.nodes = NULL};
    CLEANUP(arena_free) arena memory = {0};
    static const writer_item items[] = {{.name = "model/table-keys"}, {.name = "step"}};
    bundle_text keys[ARRAY_LENGTH(items)];
    graph_fit fit;
    pawl_error err = ERROR_INIT;
    pawl_status status = graph_decode(bytes.data, bytes.size, &g, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        return 0;
    }
    fuzz_accepted++;
    for (size_t i = 0; i < g.attribute_count; i++) {
        check_attribute(&g, &g.attributes[i]);
    }
    FUZZ_CHECK(graph_keys(&g, items, ARRAY_LENGTH(items), &memory, keys, &fit, &err) == PAWL_OK);
    check_cut(&g, &fit, (bundle_text){bytes.data, bytes.size});
    FUZZ_CHECK(keys[0].n > 0 && keys[1].n > 0);
    return 0;
}
