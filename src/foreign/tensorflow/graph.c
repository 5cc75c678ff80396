/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes a graph of objects, and finds a way from its root to each. */
#include "foreign/tensorflow/graph.h"
#include "format/limits.h"

#include <stdlib.h>
#include <string.h>

/* ---- decoding ------------------------------------------------------------------------------- */

static cursor message(bundle_text text) {
    return cursor_of(text.bytes, text.n, 0, "graph of objects");
}

static pawl_status too_many(const char *what, pawl_error *err) {
    return error_set(err, PAWL_ELIMIT, "the graph of objects has more than %u %s",
                     FOREIGN_MAX_OBJECTS, what);
}

static pawl_status refuse(const char *what, pawl_error *err) {
    return error_set(err, PAWL_EDAMAGED, "the graph of objects is wrong: %s", what);
}

/* node_id 1, local_name 2 */
static pawl_status decode_child(object_graph *g, bundle_text text, pawl_error *err) {
    cursor c = message(text);
    graph_child child = {.node = 0};
    proto_field f;
    bool more = true;
    if (g->child_count == FOREIGN_MAX_OBJECTS) {
        return too_many("links", err);
    }
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 1 && f.wire == 0) {
            child.node = f.value < GRAPH_NOBODY ? (uint32_t)f.value : GRAPH_NOBODY;
        } else if (f.number == 2 && f.wire == 2) {
            child.name = f.text;
        }
    }
    TRY(vec_reserve(&g->children, &g->child_room, g->child_count + 1, sizeof(child), err));
    g->children[g->child_count++] = child;
    return PAWL_OK;
}

/* name 1, full_name 2, checkpoint_key 3 */
static pawl_status decode_attribute(object_graph *g, uint32_t node, bundle_text text,
                                    pawl_error *err) {
    cursor c = message(text);
    graph_attribute a = {.node = node};
    proto_field f;
    bool more = true;
    if (g->attribute_count == FOREIGN_MAX_OBJECTS) {
        return too_many("values", err);
    }
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.wire == 2) {
            a.name = f.number == 1 ? f.text : a.name;
            a.full_name = f.number == 2 ? f.text : a.full_name;
            a.key = f.number == 3 ? f.text : a.key;
        }
    }
    TRY(vec_reserve(&g->attributes, &g->attribute_room, g->attribute_count + 1, sizeof(a), err));
    g->attributes[g->attribute_count++] = a;
    return PAWL_OK;
}

/* original_variable_node_id 1, slot_name 2, slot_variable_node_id 3 */
static pawl_status decode_slot(object_graph *g, bundle_text text, pawl_error *err) {
    cursor c = message(text);
    graph_slot slot = {.variable = 0};
    proto_field f;
    bool more = true;
    if (g->slot_count == FOREIGN_MAX_OBJECTS) {
        return too_many("slots", err);
    }
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            break;
        }
        uint32_t node = f.value < GRAPH_NOBODY ? (uint32_t)f.value : GRAPH_NOBODY;
        if (f.number == 2 && f.wire == 2) {
            slot.name = f.text;
        } else if (f.wire == 0) {
            slot.variable = f.number == 1 ? node : slot.variable;
            slot.node = f.number == 3 ? node : slot.node;
        }
    }
    TRY(vec_reserve(&g->slots, &g->slot_room, g->slot_count + 1, sizeof(slot), err));
    g->slots[g->slot_count++] = slot;
    return PAWL_OK;
}

/* children 1, attributes 2, slot_variables 3 */
static pawl_status decode_node(object_graph *g, bundle_text text, pawl_error *err) {
    cursor c = message(text);
    graph_node node = {.child = g->child_count,
                       .slot = g->slot_count,
                       .value = GRAPH_NOBODY,
                       .parent = GRAPH_NOBODY,
                       .variable = GRAPH_NOBODY,
                       .optimizer = GRAPH_NOBODY};
    proto_field f;
    bool more = true;
    if (g->node_count == FOREIGN_MAX_OBJECTS) {
        return too_many("objects", err);
    }
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.wire != 2) {
            continue;
        }
        if (f.number == 1) {
            TRY(decode_child(g, f.text, err));
        } else if (f.number == 2) {
            TRY(decode_attribute(g, (uint32_t)g->node_count, f.text, err));
        } else if (f.number == 3) {
            TRY(decode_slot(g, f.text, err));
        }
    }
    node.child_count = g->child_count - node.child;
    node.slot_count = g->slot_count - node.slot;
    TRY(vec_reserve(&g->nodes, &g->node_room, g->node_count + 1, sizeof(node), err));
    g->nodes[g->node_count++] = node;
    return PAWL_OK;
}

static pawl_status decode_nodes(object_graph *g, bundle_text text, pawl_error *err) {
    cursor c = message(text);
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            return g->node_count > 0 ? PAWL_OK : refuse("it has no object", err);
        }
        if (f.number == 1 && f.wire == 2) {
            TRY(decode_node(g, f.text, err));
        }
    }
}

static pawl_status check_numbers(const object_graph *g, pawl_error *err) {
    for (size_t i = 0; i < g->child_count; i++) {
        if (g->children[i].node >= g->node_count) {
            return refuse("it links to an object that it does not have", err);
        }
    }
    for (size_t i = 0; i < g->slot_count; i++) {
        if (g->slots[i].node >= g->node_count || g->slots[i].variable >= g->node_count) {
            return refuse("a slot is of an object that it does not have", err);
        }
    }
    return PAWL_OK;
}

/* ---- attributes by key ---------------------------------------------------------------------- */

static int by_key(const void *left, const void *right) {
    const graph_attribute *a = left;
    const graph_attribute *b = right;
    int order = bundle_text_compare(a->key, b->key);
    return order != 0 ? order : (a->node > b->node) - (a->node < b->node);
}

static void sort_attributes(object_graph *g) {
    size_t kept = 0;
    if (g->attribute_count > 1) {
        qsort(g->attributes, g->attribute_count, sizeof(*g->attributes), by_key);
    }
    for (size_t i = 0; i < g->attribute_count; i++) {
        const graph_attribute *a = &g->attributes[i];
        if (kept == 0 || bundle_text_compare(g->attributes[kept - 1].key, a->key) != 0) {
            g->attributes[kept++] = *a;
        }
    }
    g->attribute_count = kept;
    for (size_t i = 0; i < kept; i++) {
        const graph_attribute *a = &g->attributes[i];
        if (bundle_text_is(a->name, GRAPH_VALUE)) {
            g->nodes[a->node].value = (uint32_t)i;
        }
    }
}

const graph_attribute *graph_find(const object_graph *g, bundle_text key) {
    const graph_attribute wanted = {.key = key};
    size_t low = 0;
    size_t high = g->attribute_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = bundle_text_compare(g->attributes[middle].key, wanted.key);
        if (order == 0) {
            return &g->attributes[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

bool graph_is_ending(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool letter = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
        bool digit = text[i] >= '0' && text[i] <= '9';
        if (!letter && !digit && text[i] != '-' && text[i] != '_') {
            return false;
        }
    }
    return n > 0 && n <= GRAPH_MAX_ENDING;
}

const graph_attribute *graph_find_whole(const object_graph *g, bundle_text key,
                                        bundle_text *ending) {
    for (size_t n = 1; n < key.n && n <= GRAPH_MAX_ENDING; n++) {
        *ending = (bundle_text){key.bytes + key.n - n, n};
        if (!graph_is_ending((const char *)ending->bytes, n)) {
            break;
        }
        const graph_attribute *a = graph_find(g, (bundle_text){key.bytes, key.n - n});
        if (a != NULL && !bundle_text_is(a->name, GRAPH_VALUE)) {
            return a;
        }
    }
    return NULL;
}

/* ---- the way to each object ----------------------------------------------------------------- */

uint32_t graph_child_of(const object_graph *g, uint32_t node, const char *name) {
    const graph_node *n = &g->nodes[node];
    for (size_t i = n->child; i < n->child + n->child_count; i++) {
        if (bundle_text_is(g->children[i].name, name)) {
            return g->children[i].node;
        }
    }
    return GRAPH_NOBODY;
}

/* Lists of what others have under better names: `optimizer/_trainable_variables/0`. */
static bool is_list_of_all(bundle_text name) {
    return bundle_text_is(name, "_variables") || bundle_text_is(name, "_trainable_variables");
}

static bool is_optimizer(const object_graph *g, const graph_node *n) {
    static const char *const names[] = {"_iterations", "iter", "inner_optimizer", "base_optimizer"};
    bool found = n->slot_count > 0;
    for (size_t i = n->child; !found && i < n->child + n->child_count; i++) {
        for (size_t k = 0; !found && k < ARRAY_LENGTH(names); k++) {
            found = bundle_text_is(g->children[i].name, names[k]);
        }
    }
    return found;
}

typedef struct walk {
    uint32_t *reached; /* nodes, in that order */
    size_t from, to;
    struct later { /* links that are followed when nothing else is left */
        uint32_t parent, child;
    } * later;
    size_t later_count;
} walk;

static void reach(object_graph *g, walk *w, uint32_t parent, const graph_child *by) {
    graph_node *n = &g->nodes[by->node];
    if (n->parent != GRAPH_NOBODY) {
        return;
    }
    n->parent = parent;
    n->name = by->name;
    n->below_optimizer = g->nodes[parent].optimizes || g->nodes[parent].below_optimizer;
    w->reached[w->to++] = by->node;
}

static void follow(object_graph *g, walk *w) {
    while (w->from < w->to) {
        uint32_t at = w->reached[w->from++];
        graph_node *n = &g->nodes[at];
        n->optimizes = at != 0 && is_optimizer(g, n);
        for (size_t i = n->child; i < n->child + n->child_count; i++) {
            if (is_list_of_all(g->children[i].name)) {
                w->later[w->later_count++] = (struct later){at, (uint32_t)i};
            } else {
                reach(g, w, at, &g->children[i]);
            }
        }
    }
}

/* Breadth first, as TensorFlow does, so that ways are short and the same each time. */
static pawl_status find_ways(object_graph *g, pawl_error *err) {
    AUTOFREE uint32_t *reached = mem_calloc(g->node_count, sizeof(*reached));
    AUTOFREE struct later *later = mem_calloc(g->child_count + 1, sizeof(*later));
    walk w = {.reached = reached, .later = later};
    const graph_child root = {.node = 0};
    if (reached == NULL || later == NULL) {
        return error_nomem(err, g->node_count * sizeof(*reached));
    }
    reach(g, &w, 0, &root);
    follow(g, &w);
    for (size_t i = 0; i < w.later_count; i++) {
        reach(g, &w, later[i].parent, &g->children[later[i].child]);
        follow(g, &w);
    }
    return PAWL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status decode(object_graph *g, bundle_text text, pawl_error *err) {
    TRY(decode_nodes(g, text, err));
    TRY(check_numbers(g, err));
    sort_attributes(g);
    TRY(find_ways(g, err));
    return graph_find_slots(g, err);
}

pawl_status graph_decode(const uint8_t *bytes, size_t n, object_graph *out, pawl_error *err) {
    *out = (object_graph){.nodes = NULL};
    pawl_status status = decode(out, (bundle_text){bytes, n}, err);
    if (status != PAWL_OK) {
        graph_free(out);
    }
    return status;
}

void graph_free(object_graph *g) {
    mem_free(g->nodes);
    mem_free(g->children);
    mem_free(g->attributes);
    mem_free(g->slots);
    arena_free(&g->memory);
    *g = (object_graph){.nodes = NULL};
}
