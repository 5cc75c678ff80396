/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a SavedModel's graph and functions: what each takes its inputs from, what it calls,
 * and which types it has. */
#include "foreign/saved_model/private.h"

#include <stdlib.h>
#include <string.h>

/* ---- finding -------------------------------------------------------------------------------- */

static int compare_nodes(const void *left, const void *right) {
    const saved_node *a = left;
    const saved_node *b = right;
    int order = bundle_text_compare(a->name, b->name);
    return order != 0 ? order : (a->body.bytes > b->body.bytes) - (a->body.bytes < b->body.bytes);
}

uint32_t saved_model_find_node(const saved_model *m, bundle_text tensor) {
    const saved_function *in = &m->functions[0];
    bundle_text name = tensor;
    if (name.n > 0 && name.bytes[0] == '^') {
        name = (bundle_text){name.bytes + 1, name.n - 1};
    }
    const uint8_t *colon = name.n > 0 ? memchr(name.bytes, ':', name.n) : NULL;
    name.n = colon != NULL ? (size_t)(colon - name.bytes) : name.n;
    uint32_t low = in->node;
    uint32_t high = in->node + in->node_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bundle_text_compare(m->nodes[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found =
        low < in->node + in->node_count && bundle_text_compare(m->nodes[low].name, name) == 0;
    return found ? low : NOWHERE;
}

static uint32_t find_function(const saved_model *m, bundle_text name) {
    size_t low = 1;
    size_t high = m->function_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bundle_text_compare(m->functions[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < m->function_count && bundle_text_compare(m->functions[low].name, name) == 0;
    return found ? (uint32_t)low : NOWHERE;
}

/* ---- nodes of a function -------------------------------------------------------------------- */

/* NodeDef: name 1, op 2. */
static pawl_status add_node(saved_model *m, uint32_t function, bundle_text body, pawl_error *err) {
    cursor c = saved_message(m, body);
    saved_node node = {.body = body, .function = function};
    proto_field f;
    bool more = true;
    if (m->node_count == FOREIGN_MAX_MODEL_NODES) {
        return saved_too_many("nodes", FOREIGN_MAX_MODEL_NODES, err);
    }
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            break;
        }
        node.name = f.number == 1 ? f.text : node.name;
        node.op = f.number == 2 ? f.text : node.op;
    }
    node.op_is_function = find_function(m, node.op) != NOWHERE;
    TRY(vec_reserve(&m->nodes, &m->node_room, m->node_count + 1, sizeof(node), err));
    m->nodes[m->node_count++] = node;
    return PAWL_OK;
}

/* GraphDef: node 1; FunctionDef: node_def 3. */
static pawl_status add_nodes(saved_model *m, uint32_t function, pawl_error *err) {
    saved_function *in = &m->functions[function];
    cursor c = saved_message(m, in->body);
    proto_field f;
    bool more = true;
    in->node = (uint32_t)m->node_count;
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == (function == 0 ? 1u : 3u)) {
            TRY(add_node(m, function, f.text, err));
        }
    }
    in->node_count = (uint32_t)(m->node_count - in->node);
    if (in->node_count > 0) {
        qsort(m->nodes + in->node, in->node_count, sizeof(*m->nodes), compare_nodes);
    }
    return PAWL_OK;
}

/* ---- links and calls ------------------------------------------------------------------------ */

static pawl_status add_number(uint32_t **list, size_t *count, size_t *room, uint32_t number,
                              pawl_error *err) {
    if (number == NOWHERE) {
        return PAWL_OK; /* an argument of the function, or a name that nothing has */
    }
    if (*count == FOREIGN_MAX_MODEL_LINKS) {
        return saved_too_many("links between nodes", FOREIGN_MAX_MODEL_LINKS, err);
    }
    TRY(vec_reserve(list, room, *count + 1, sizeof(number), err));
    (*list)[(*count)++] = number;
    return PAWL_OK;
}

pawl_status saved_model_add_link(saved_model *m, uint32_t node, pawl_error *err) {
    return add_number(&m->links, &m->link_count, &m->link_room, node, err);
}

static pawl_status add_call(saved_model *m, bundle_text function, pawl_error *err) {
    return add_number(&m->calls, &m->call_count, &m->call_room, find_function(m, function), err);
}

/* NameAttrList: name 1. */
static pawl_status call_function(saved_model *m, bundle_text function, pawl_error *err) {
    cursor c = saved_message(m, function);
    bundle_text name = {.n = 0};
    proto_field f;
    bool more = true;
    do {
        TRY(saved_next_bytes(&c, &f, &more, err));
        name = more && f.number == 1 ? f.text : name;
    } while (more);
    return add_call(m, name, err);
}

/* AttrValue: func 10, list 1; ListValue: func 9. */
static pawl_status call_functions(saved_model *m, bundle_text value, pawl_error *err) {
    cursor c = saved_message(m, value);
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number == 10) {
            TRY(call_function(m, f.text, err));
        }
        if (f.number != 1) {
            continue;
        }
        cursor list = saved_message(m, f.text);
        for (;;) {
            TRY(saved_next_bytes(&list, &f, &more, err));
            if (!more) {
                break;
            }
            if (f.number == 9) {
                TRY(call_function(m, f.text, err));
            }
        }
    }
}

/* NodeDef: input 3, attr 5. */
static pawl_status link_node(saved_model *m, saved_node *node, pawl_error *err) {
    cursor c = saved_message(m, node->body);
    proto_field f;
    bool more = true;
    node->link = (uint32_t)m->link_count;
    node->call = (uint32_t)m->call_count;
    if (node->op_is_function) {
        TRY(add_call(m, node->op, err));
    }
    for (;;) {
        bundle_text key;
        bundle_text value;
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 3 && node->function == 0) {
            TRY(saved_model_add_link(m, saved_model_find_node(m, f.text), err));
        } else if (f.number == 5) {
            TRY(saved_map_entry(m, f.text, &key, &value, err));
            TRY(call_functions(m, value, err));
        }
    }
    node->link_count = (uint32_t)(m->link_count - node->link);
    node->call_count = (uint32_t)(m->call_count - node->call);
    return PAWL_OK;
}

pawl_status saved_model_decode_nodes(saved_model *m, pawl_error *err) {
    for (size_t i = 0; i < m->function_count; i++) {
        TRY(add_nodes(m, (uint32_t)i, err));
    }
    for (size_t i = 0; i < m->node_count; i++) {
        TRY(link_node(m, &m->nodes[i], err));
    }
    return PAWL_OK;
}

/* ---- types ---------------------------------------------------------------------------------- */

typedef void (*each_type)(void *context, bundle_text attribute, uint32_t type);

static uint32_t type_of(uint64_t number) {
    uint32_t type = number < UINT32_MAX ? (uint32_t)number : 0;
    return type > SAVED_MODEL_REF ? type - SAVED_MODEL_REF : type;
}

/* ListValue: type 6, one by one or packed. */
static pawl_status list_types(const saved_model *m, bundle_text list, bundle_text attribute,
                              each_type each, void *context, pawl_error *err) {
    cursor c = saved_message(m, list);
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number != 6) {
            continue;
        }
        if (f.wire == 0) {
            each(context, attribute, type_of(f.value));
        }
        cursor packed = saved_message(m, f.wire == 2 ? f.text : (bundle_text){.n = 0});
        while (cursor_left(&packed) > 0) {
            uint64_t type;
            TRY(cursor_varint64(&packed, &type, err));
            each(context, attribute, type_of(type));
        }
    }
}

/* AttrValue: type 6, list 1. */
static pawl_status attribute_types(const saved_model *m, bundle_text value, bundle_text attribute,
                                   each_type each, void *context, pawl_error *err) {
    cursor c = saved_message(m, value);
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number == 6 && f.wire == 0) {
            each(context, attribute, type_of(f.value));
        } else if (f.number == 1 && f.wire == 2) {
            TRY(list_types(m, f.text, attribute, each, context, err));
        }
    }
}

pawl_status saved_node_types(const saved_model *m, const saved_node *node, each_type each,
                             void *context, pawl_error *err) {
    cursor c = saved_message(m, node->body);
    proto_field f;
    bool more = true;
    for (;;) {
        bundle_text attribute;
        bundle_text value;
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number == 5) {
            TRY(saved_map_entry(m, f.text, &attribute, &value, err));
            TRY(attribute_types(m, value, attribute, each, context, err));
        }
    }
}
