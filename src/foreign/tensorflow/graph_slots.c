/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which variables are slots of which others. Optimizers of TensorFlow and of Keras before 2.11 say
 * it in the graph. Later ones keep them in lists:
 *
 *   Keras 3      _momentums/I belongs to _trainable_variables/I, and so in all lists of that
 *                length; Adafactor has three in _variables for each, and no other list.
 *   tf_keras     _variables/I has the full name OPTIMIZER/SLOT/FULL NAME OF THE VARIABLE.
 */
#include "foreign/tensorflow/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_variable(const object_graph *g, uint32_t node) {
    return g->nodes[node].value != GRAPH_NOBODY;
}

static void set_slot(object_graph *g, uint32_t node, uint32_t variable, bundle_text name) {
    graph_node *n = &g->nodes[node];
    if (n->variable == GRAPH_NOBODY && node != variable && is_variable(g, node) &&
        is_variable(g, variable) && name.n > 0) {
        n->variable = variable;
        n->slot_name = name;
    }
}

/* ---- slots of the graph --------------------------------------------------------------------- */

static void take_slots(object_graph *g, uint32_t optimizer) {
    const graph_node *o = &g->nodes[optimizer];
    for (size_t i = o->slot; i < o->slot + o->slot_count; i++) {
        const graph_slot *s = &g->slots[i];
        graph_node *n = &g->nodes[s->node];
        bool first = n->variable == GRAPH_NOBODY;
        set_slot(g, s->node, s->variable, s->name);
        if (first && n->variable != GRAPH_NOBODY && n->parent == GRAPH_NOBODY) {
            n->optimizer = optimizer;
        }
    }
}

/* ---- lists of Keras 3 ----------------------------------------------------------------------- */

static bool is_list(object_graph *g, uint32_t node) {
    graph_node *n = &g->nodes[node];
    char number[16];
    bool fits = n->child_count > 0;
    for (size_t i = 0; n->list == 0 && fits && i < n->child_count; i++) {
        snprintf(number, sizeof(number), "%zu", i);
        fits = bundle_text_is(g->children[n->child + i].name, number);
    }
    n->list = n->list != 0 ? n->list : fits ? 1 : -1;
    return n->list > 0;
}

/* Once for each list. */
static bool is_new(object_graph *g, uint32_t list) {
    bool fresh = !g->nodes[list].taken;
    g->nodes[list].taken = true;
    return fresh;
}

static uint32_t item(const object_graph *g, uint32_t list, size_t i) {
    return g->children[g->nodes[list].child + i].node;
}

static bundle_text without_underscore(bundle_text name) {
    return name.n > 1 && name.bytes[0] == '_' ? (bundle_text){name.bytes + 1, name.n - 1} : name;
}

/* Returns whether there is one. */
static bool take_lists(object_graph *g, uint32_t optimizer, uint32_t trained) {
    const graph_node *o = &g->nodes[optimizer];
    size_t count = g->nodes[trained].child_count;
    bool any = false;
    for (size_t i = o->child; i < o->child + o->child_count; i++) {
        const graph_child *c = &g->children[i];
        if (c->node == trained || bundle_text_is(c->name, "_variables") ||
            g->nodes[c->node].child_count != count || !is_list(g, c->node)) {
            continue;
        }
        any = true;
        size_t found = is_new(g, c->node) ? count : 0;
        for (size_t k = 0; k < found; k++) {
            set_slot(g, item(g, c->node, k), item(g, trained, k), without_underscore(c->name));
        }
    }
    return any;
}

static bool has_ending(bundle_text text, const char *ending) {
    size_t n = strlen(ending);
    return text.n >= n && memcmp(text.bytes + text.n - n, ending, n) == 0;
}

static bool is_child(const object_graph *g, uint32_t parent, uint32_t node) {
    return g->nodes[node].parent == parent;
}

static void take_adafactor(object_graph *g, uint32_t optimizer, uint32_t trained, uint32_t all) {
    static const char *const names[] = {"r", "c", "v"};
    const size_t each = ARRAY_LENGTH(names);
    size_t count = g->nodes[trained].child_count;
    size_t total = g->nodes[all].child_count;
    size_t own = 0;
    while (own < total && is_child(g, optimizer, item(g, all, own))) {
        own++;
    }
    if (total - own != each * count) {
        return;
    }
    for (size_t i = own; i < total; i++) {
        uint32_t value = g->nodes[item(g, all, i)].value;
        bool last = (i - own) % each == each - 1;
        if (value == GRAPH_NOBODY ||
            (last && !has_ending(g->attributes[value].full_name, "_velocity"))) {
            return;
        }
    }
    for (size_t i = own; i < total; i++) {
        const char *name = names[(i - own) % each];
        set_slot(g, item(g, all, i), item(g, trained, (i - own) / each),
                 (bundle_text){(const uint8_t *)name, strlen(name)});
    }
}

/* ---- full names of tf_keras ----------------------------------------------------------------- */

static int by_full_name(const void *left, const void *right, void *context) {
    const object_graph *g = context;
    return bundle_text_compare(g->attributes[*(const uint32_t *)left].full_name,
                               g->attributes[*(const uint32_t *)right].full_name);
}

/* The only variable of that full name. */
static uint32_t find_full_name(const object_graph *g, const uint32_t *order, bundle_text name) {
    size_t low = 0;
    size_t high = g->attribute_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        bool before = bundle_text_compare(g->attributes[order[middle]].full_name, name) < 0;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    bool found = low < g->attribute_count &&
                 bundle_text_compare(g->attributes[order[low]].full_name, name) == 0;
    bool twice = found && low + 1 < g->attribute_count &&
                 bundle_text_compare(g->attributes[order[low + 1]].full_name, name) == 0;
    return found && !twice ? g->attributes[order[low]].node : GRAPH_NOBODY;
}

static void take_full_names(object_graph *g, const uint32_t *order, uint32_t all) {
    for (size_t i = 0; i < g->nodes[all].child_count; i++) {
        uint32_t node = item(g, all, i);
        uint32_t value = g->nodes[node].value;
        if (value == GRAPH_NOBODY) {
            continue;
        }
        const bundle_text full = g->attributes[value].full_name;
        const uint8_t *first = full.n > 0 ? memchr(full.bytes, '/', full.n) : NULL;
        size_t at = first != NULL ? (size_t)(first - full.bytes) + 1 : full.n;
        const uint8_t *second = at < full.n ? memchr(full.bytes + at, '/', full.n - at) : NULL;
        if (second == NULL) {
            continue;
        }
        size_t end = (size_t)(second - full.bytes);
        uint32_t variable = find_full_name(g, order, (bundle_text){second + 1, full.n - end - 1});
        if (variable != GRAPH_NOBODY) {
            set_slot(g, node, variable, (bundle_text){full.bytes + at, end - at});
        }
    }
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void set_trained(object_graph *g, uint32_t list) {
    size_t count = is_new(g, list) ? g->nodes[list].child_count : 0;
    for (size_t i = 0; i < count; i++) {
        g->nodes[item(g, list, i)].trained = true;
    }
}

static void take_optimizer(object_graph *g, uint32_t optimizer, const uint32_t *order) {
    uint32_t trained = graph_child_of(g, optimizer, "_trainable_variables");
    uint32_t all = graph_child_of(g, optimizer, "_variables");
    take_slots(g, optimizer);
    if (all == GRAPH_NOBODY || !is_list(g, all)) {
        return;
    }
    if (trained == GRAPH_NOBODY) {
        if (is_new(g, all)) {
            take_full_names(g, order, all);
        }
    } else if (is_list(g, trained)) {
        set_trained(g, trained);
        if (!take_lists(g, optimizer, trained) && is_new(g, all)) {
            take_adafactor(g, optimizer, trained, all);
        }
    }
}

pawl_status graph_find_slots(object_graph *g, pawl_error *err) {
    AUTOFREE uint32_t *order = mem_calloc(g->attribute_count + 1, sizeof(*order));
    if (order == NULL) {
        return error_nomem(err, g->attribute_count * sizeof(*order));
    }
    for (size_t i = 0; i < g->attribute_count; i++) {
        order[i] = (uint32_t)i;
    }
    if (g->attribute_count > 1) {
        qsort_r(order, g->attribute_count, sizeof(*order), by_full_name, g);
    }
    for (size_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i].optimizes) {
            take_optimizer(g, (uint32_t)i, order);
        }
    }
    return PAWL_OK;
}
