/* SPDX-License-Identifier: Apache-2.0 */
/* Judges a node of a SavedModel's graph: has XLA a kernel for its op, with these types? */
#include "doctor/judge_node.h"
#include "doctor/xla.h"

typedef struct types_seen {
    const xla_kernel *kernel;
    node_verdict *verdict;
    bool fits;
} types_seen;

static const xla_limit *limit_of(const xla_kernel *kernel, bundle_text attribute) {
    for (size_t i = 0; i < XLA_MAX_ATTRIBUTES && kernel->limits[i].attribute != NULL; i++) {
        if (bundle_text_is(attribute, kernel->limits[i].attribute)) {
            return &kernel->limits[i];
        }
    }
    return NULL;
}

/* A type that the table does not limit is fine, unless it is text. */
static void see_type(void *context, bundle_text attribute, uint32_t type) {
    types_seen *t = context;
    const xla_limit *limit = limit_of(t->kernel, attribute);
    bool fits =
        limit != NULL ? type < 64 && (limit->types >> type & 1) != 0 : type != SAVED_MODEL_STRING;
    t->verdict->doubles = t->verdict->doubles || type == SAVED_MODEL_DOUBLE;
    if (!fits && t->fits) {
        t->verdict->attribute = attribute;
        t->verdict->type = type;
        t->fits = false;
    }
}

static bool is_fed_or_held(const saved_node *node) {
    return node->function == 0 &&
           (bundle_text_is(node->op, "Placeholder") || bundle_text_is(node->op, "VarHandleOp"));
}

pawl_status judge_node(const saved_model *m, const saved_node *node, node_verdict *out,
                       pawl_error *err) {
    *out = (node_verdict){.kind = NODE_FINE};
    if (is_fed_or_held(node) || node->op_is_function) {
        return PAWL_OK; /* in host memory, or a variable; or its nodes are judged one by one */
    }
    const xla_kernel *kernel = xla_kernel_find(node->op.bytes, node->op.n);
    if (kernel == NULL) {
        out->kind = NODE_WITHOUT_KERNEL;
        return PAWL_OK;
    }
    for (const char *op = kernel->op; xla_kernel_is_of(kernel, op); kernel++) {
        types_seen t = {.kernel = kernel, .verdict = out, .fits = true};
        TRY(saved_node_types(m, node, see_type, &t, err));
        if (t.fits) {
            out->kind = NODE_FINE;
            return PAWL_OK;
        }
        out->kind = NODE_OF_OTHER_TYPE;
    }
    return PAWL_OK;
}
