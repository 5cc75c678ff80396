/* SPDX-License-Identifier: Apache-2.0 */
/* Opcodes of a pickle that make lists, tuples, dicts and sets of what is on the stack. */
#include "foreign/pickle/machine.h"

#include <string.h>

/* Where a tuple of integers would be shared; NULL: it is none, or a long one. */
static pickle_node **shared_tuple(machine *m, pickle_kind kind, pickle_node *const *of, size_t n) {
    size_t hash = n;
    if (kind != PICKLE_TUPLE || n > PAWL_MAX_NDIM) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (of[i]->kind != PICKLE_INT) {
            return NULL;
        }
        hash = hash * 31 + (size_t)of[i]->integer;
    }
    return &m->tuples[hash % MACHINE_SHARED];
}

/* Equal integers are one node, as long as they are shared. */
static bool is_tuple_of(const pickle_node *tuple, pickle_node *const *of, size_t n) {
    return tuple != NULL && tuple->items.count == n &&
           (n == 0 || memcmp(tuple->items.nodes, of, n * sizeof(void *)) == 0);
}

/* A new container of what lies above a place of the stack, in its place. */
static pawl_status push_from(machine *m, pickle_kind kind, size_t from, size_t keep,
                             pawl_error *err) {
    pickle_node *node;
    size_t n = m->depth - from;
    for (size_t i = from; i < m->depth; i++) {
        if (m->stack[i] == NULL) {
            return machine_refuse(m, PAWL_EDAMAGED, "it takes a value that is not there", err);
        }
    }
    if (kind == PICKLE_DICT && n % 2 != 0) {
        return machine_refuse(m, PAWL_EDAMAGED, "a dict has a key without a value", err);
    }
    pickle_node *const *of = n > 0 ? m->stack + from : NULL;
    pickle_node **shared = shared_tuple(m, kind, of, n);
    if (shared != NULL && is_tuple_of(*shared, of, n)) {
        m->depth = keep;
        return machine_push(m, *shared, err);
    }
    TRY(machine_node(m, kind, &node, err));
    TRY(machine_append(m, &node->items, from, n, err));
    if (shared != NULL) {
        *shared = node;
    }
    m->depth = keep;
    return machine_push(m, node, err);
}

static pawl_status push_marked(machine *m, pickle_kind kind, pawl_error *err) {
    size_t mark;
    TRY(machine_mark(m, &mark, err));
    return push_from(m, kind, mark + 1, mark, err);
}

static pawl_status push_last(machine *m, size_t n, pawl_error *err) {
    if (m->depth < n) {
        return machine_refuse(m, PAWL_EDAMAGED, "it takes a value that is not there", err);
    }
    return push_from(m, PICKLE_TUPLE, m->depth - n, m->depth - n, err);
}

/* What is put into a container that is on the stack: of an object what its class would take. */
static pawl_status put_from(machine *m, size_t from, size_t keep, bool pairs, pickle_kind kind,
                            pawl_error *err) {
    if (keep == 0 || m->stack[keep - 1] == NULL) {
        return machine_refuse(m, PAWL_EDAMAGED, "it fills a container that is not there", err);
    }
    pickle_node *into = m->stack[keep - 1];
    size_t n = m->depth - from;
    bool object = into->kind == PICKLE_CALL;
    pickle_filling *filling = NULL;
    if (!object && into->kind != kind) {
        return machine_refuse(m, PAWL_EDAMAGED, "it fills what is no such container", err);
    }
    if (pairs && n % 2 != 0) {
        return machine_refuse(m, PAWL_EDAMAGED, "a dict has a key without a value", err);
    }
    if (object && into->call->with->items.count > 0 && into->call->with->pairs != pairs) {
        return machine_refuse(m, PAWL_EUNSUPPORTED,
                              "it fills an object both as a list and as a dict", err);
    }
    if (object && n > 0) {
        TRY(machine_filling(m, into->call, &filling, err));
        filling->pairs = pairs;
    }
    if (n > 0) {
        TRY(machine_append(m, object ? &filling->items : &into->items, from, n, err));
    }
    m->depth = keep;
    return PAWL_OK;
}

static pawl_status put_marked(machine *m, bool pairs, pickle_kind kind, pawl_error *err) {
    size_t mark;
    TRY(machine_mark(m, &mark, err));
    return put_from(m, mark + 1, mark, pairs, kind, err);
}

static pawl_status put_last(machine *m, size_t n, pickle_kind kind, pawl_error *err) {
    for (size_t i = 1; i <= n; i++) {
        if (m->depth < i || m->stack[m->depth - i] == NULL) {
            return machine_refuse(m, PAWL_EDAMAGED, "it takes a value that is not there", err);
        }
    }
    return put_from(m, m->depth - n, m->depth - n, n == 2, kind, err);
}

static pawl_status push_empty(machine *m, pickle_kind kind, pawl_error *err) {
    return push_from(m, kind, m->depth, m->depth, err);
}

pawl_status machine_container(machine *m, uint8_t opcode, bool *done, pawl_error *err) {
    switch (opcode) {
    case '}':
        return push_empty(m, PICKLE_DICT, err);
    case ']':
        return push_empty(m, PICKLE_LIST, err);
    case ')':
        return push_empty(m, PICKLE_TUPLE, err);
    case 0x8f:
        return push_empty(m, PICKLE_SET, err);
    case 'd':
        return push_marked(m, PICKLE_DICT, err);
    case 'l':
        return push_marked(m, PICKLE_LIST, err);
    case 't':
        return push_marked(m, PICKLE_TUPLE, err);
    case 0x91:
        return push_marked(m, PICKLE_FROZENSET, err);
    case 0x85:
    case 0x86:
    case 0x87:
        return push_last(m, opcode - 0x84u, err);
    case 'a':
        return put_last(m, 1, PICKLE_LIST, err);
    case 's':
        return put_last(m, 2, PICKLE_DICT, err);
    case 'e':
        return put_marked(m, false, PICKLE_LIST, err);
    case 'u':
        return put_marked(m, true, PICKLE_DICT, err);
    case 0x90: /* ADDITEMS */
        return put_marked(m, false, PICKLE_SET, err);
    default:
        *done = false;
        return PAWL_OK;
    }
}
