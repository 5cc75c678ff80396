/* SPDX-License-Identifier: Apache-2.0 */
/* Names and roles of the values of objects. */
#include "foreign/archive.h"
#include "foreign/tensorflow/graph.h"

#include <string.h>

/* A component has a character at least, and "/". */
#define MOST_COMPONENTS (PAWL_MAX_NAME_BYTES / 2 + 1)

/* ---- names ---------------------------------------------------------------------------------- */

static pawl_status put_component(const char *text, buffer *out, pawl_error *err) {
    TRY(buffer_append(out, "/", out->size > 0 ? 1 : 0, err));
    return buffer_append(out, text, strlen(text), err);
}

static pawl_status put_text(bundle_text text, buffer *out, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    const char *escaped;
    TRY(escape_key(&memory, (const char *)text.bytes, text.n, &escaped, err));
    return put_component(escaped, out, err);
}

static pawl_status put_way(object_graph *g, uint32_t node, buffer *out, bool *named,
                           pawl_error *err) {
    uint32_t way[MOST_COMPONENTS];
    size_t n = 0;
    *named = g->nodes[node].parent != GRAPH_NOBODY;
    for (; *named && node != 0; node = g->nodes[node].parent) {
        if (n == ARRAY_LENGTH(way)) {
            *named = false;
            return PAWL_OK;
        }
        way[n++] = node;
    }
    while (*named && n > 0) {
        graph_node *at = &g->nodes[way[--n]];
        if (at->name.n > PAWL_MAX_NAME_BYTES) {
            *named = false;
            return PAWL_OK;
        }
        if (at->escaped == NULL) {
            TRY(escape_key(&g->memory, (const char *)at->name.bytes, at->name.n, &at->escaped,
                           err));
        }
        TRY(put_component(at->escaped, out, err));
        *named = out->size <= PAWL_MAX_NAME_BYTES;
    }
    return PAWL_OK;
}

/* OPTIMIZER/VARIABLE/SLOT where the optimizer alone knows of it. */
static pawl_status put_node(object_graph *g, uint32_t node, buffer *out, bool *named,
                            pawl_error *err) {
    const graph_node *n = &g->nodes[node];
    if (n->optimizer == GRAPH_NOBODY) {
        return put_way(g, node, out, named, err);
    }
    TRY(put_way(g, n->optimizer, out, named, err));
    if (*named) {
        TRY(put_way(g, n->variable, out, named, err));
    }
    *named = *named && n->slot_name.n <= PAWL_MAX_NAME_BYTES;
    return *named ? put_text(n->slot_name, out, err) : PAWL_OK;
}

pawl_status graph_name(object_graph *g, const graph_attribute *attribute, buffer *out, bool *named,
                       pawl_error *err) {
    out->size = 0;
    TRY(buffer_append(out, "", 0, err));
    TRY(put_node(g, attribute->node, out, named, err));
    if (!bundle_text_is(attribute->name, GRAPH_VALUE)) {
        *named = *named && attribute->name.n <= PAWL_MAX_NAME_BYTES;
        TRY(*named ? put_text(attribute->name, out, err) : PAWL_OK);
    } else if (*named && out->size == 0) {
        TRY(buffer_append(out, "value", strlen("value"), err));
    }
    *named = *named && out->size <= PAWL_MAX_NAME_BYTES;
    return PAWL_OK;
}

/* ---- roles ---------------------------------------------------------------------------------- */

static bool is_random_state(const graph_node *n, const graph_attribute *a) {
    static const char ending[] = "seed_generator_state";
    size_t length = strlen(ending);
    return bundle_text_is(n->name, "_state_var") ||
           (a->full_name.n >= length &&
            memcmp(a->full_name.bytes + a->full_name.n - length, ending, length) == 0);
}

/* Of what an optimizer has itself. */
static pawl_role role_of_number(bundle_text name) {
    if (bundle_text_is(name, "iter") || bundle_text_is(name, "_iterations")) {
        return PAWL_ROLE_STEP;
    }
    /* of a LossScaleOptimizer */
    return bundle_text_is(name, "step_counter") || bundle_text_is(name, "dynamic_scale")
               ? PAWL_ROLE_OTHER
               : PAWL_ROLE_HYPERPARAMETER;
}

pawl_role graph_role(const object_graph *g, const graph_attribute *attribute) {
    const graph_node *n = &g->nodes[attribute->node];
    if (bundle_text_is(attribute->name, "ITERATOR")) {
        return PAWL_ROLE_DATA_POSITION;
    }
    if (!bundle_text_is(attribute->name, GRAPH_VALUE)) {
        return PAWL_ROLE_OTHER;
    }
    if (n->variable != GRAPH_NOBODY) {
        return PAWL_ROLE_SLOT;
    }
    if (is_random_state(n, attribute)) {
        return PAWL_ROLE_RNG;
    }
    if (n->below_optimizer && !n->trained) {
        return g->nodes[n->parent].optimizes ? role_of_number(n->name) : PAWL_ROLE_OTHER;
    }
    return n->parent == 0 && bundle_text_is(n->name, "save_counter") ? PAWL_ROLE_OTHER
                                                                     : PAWL_ROLE_MODEL;
}
