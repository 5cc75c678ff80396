/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which nodes a signature of a SavedModel reaches: from its outputs against the direction of the
 * graph, and all those of the functions that are called on the way, for XLA compiles a function
 * with what nothing in it needs. Saving, restoring and initializing are in the same graph, but no
 * signature leads there.
 */
#include "foreign/saved_model/private.h"

typedef struct walk {
    const saved_model *m;
    uint8_t *node_seen, *function_seen;
    uint32_t *stack; /* nodes to be visited; each is there once at most */
    size_t depth;
    uint64_t *visits;
} walk;

static pawl_status count_visits(walk *w, uint32_t count, pawl_error *err) {
    *w->visits += count;
    if (*w->visits > FOREIGN_MAX_MODEL_VISITS) {
        return error_set(err, PAWL_ELIMIT,
                         "the signatures of the SavedModel lead over more than %u links",
                         FOREIGN_MAX_MODEL_VISITS);
    }
    return PAWL_OK;
}

static void push(walk *w, uint32_t node) {
    if (w->node_seen[node] == 0) {
        w->node_seen[node] = 1;
        w->stack[w->depth++] = node;
    }
}

static pawl_status push_linked(walk *w, uint32_t link, uint32_t count, pawl_error *err) {
    TRY(count_visits(w, count, err));
    for (uint32_t i = 0; i < count; i++) {
        push(w, w->m->links[link + i]);
    }
    return PAWL_OK;
}

static pawl_status enter_calls(walk *w, const saved_node *node, pawl_error *err) {
    TRY(count_visits(w, node->call_count, err));
    for (uint32_t i = 0; i < node->call_count; i++) {
        uint32_t called = w->m->calls[node->call + i];
        const saved_function *f = &w->m->functions[called];
        if (w->function_seen[called] == 0) {
            w->function_seen[called] = 1;
            TRY(count_visits(w, f->node_count, err));
            for (uint32_t n = 0; n < f->node_count; n++) {
                push(w, f->node + n);
            }
        }
    }
    return PAWL_OK;
}

pawl_status saved_model_walk(const saved_model *m, const saved_signature *signature,
                             saved_model_visit visit, void *context, uint64_t *visits,
                             pawl_error *err) {
    AUTOFREE uint8_t *node_seen = mem_calloc(m->node_count + 1, sizeof(*node_seen));
    AUTOFREE uint8_t *function_seen = mem_calloc(m->function_count + 1, sizeof(*function_seen));
    AUTOFREE uint32_t *stack = mem_calloc(m->node_count + 1, sizeof(*stack));
    if (node_seen == NULL || function_seen == NULL || stack == NULL) {
        return error_nomem(err, (m->node_count + 1) * sizeof(*stack));
    }
    walk w = {.m = m,
              .node_seen = node_seen,
              .function_seen = function_seen,
              .stack = stack,
              .visits = visits};
    *visits +=
        m->node_count / 64; /* what was just cleared, or many signatures would cost nothing */
    for (uint32_t i = 0; i < signature->input_count; i++) {
        uint32_t fed = m->inputs[signature->input + i].node;
        if (fed != NOWHERE) {
            node_seen[fed] = 1;
        }
    }
    TRY(push_linked(&w, signature->root, signature->root_count, err));
    while (w.depth > 0) {
        const saved_node *node = &m->nodes[w.stack[--w.depth]];
        TRY(push_linked(&w, node->link, node->link_count, err));
        if (visit(context, node)) {
            TRY(enter_calls(&w, node, err));
        }
    }
    return PAWL_OK;
}
