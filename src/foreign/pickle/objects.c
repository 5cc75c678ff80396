/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opcodes of a pickle that name, call and make things. None of that is done: what would have been
 * called becomes a node. A function that the reader does not know is refused.
 */
#include "foreign/pickle/machine.h"
#include "format/limits.h"

#include <stdio.h>
#include <string.h>

static const char *copy_text(machine *m, pickle_text text) {
    char *copy = arena_alloc(&m->tree->memory, text.n + 1);
    if (copy != NULL) {
        memcpy(copy, text.bytes, text.n);
        copy[text.n] = '\0';
    }
    return copy;
}

static pawl_status push_global(machine *m, pickle_text module, pickle_text name, pawl_error *err) {
    pickle_node *node;
    bool plain = utf8_valid(module.bytes, module.n) && utf8_valid(name.bytes, name.n) &&
                 memchr(module.bytes, 0, module.n) == NULL && memchr(name.bytes, 0, name.n) == NULL;
    if (!plain) {
        return machine_refuse(m, PAWL_EDAMAGED, "the name of a class or function is no text", err);
    }
    m->names += module.n + name.n; /* each may be one text of the memo */
    if (m->names > FOREIGN_MAX_PICKLE_NAMES) {
        return machine_too_many(m, "bytes of names of classes and functions",
                                FOREIGN_MAX_PICKLE_NAMES, err);
    }
    TRY(machine_node(m, PICKLE_GLOBAL, &node, err));
    node->global.module = copy_text(m, module);
    node->global.name = copy_text(m, name);
    if (node->global.module == NULL || node->global.name == NULL) {
        return error_nomem(err, module.n + name.n);
    }
    return machine_push(m, node, err);
}

static pawl_status push_named(machine *m, pawl_error *err) {
    pickle_text module, name;
    TRY(machine_line(m, &module, err));
    TRY(machine_line(m, &name, err));
    return push_global(m, module, name, err);
}

static pawl_status push_stack_global(machine *m, pawl_error *err) {
    pickle_node *name, *module;
    TRY(machine_pop(m, &name, err));
    TRY(machine_pop(m, &module, err));
    if (name->kind != PICKLE_TEXT || module->kind != PICKLE_TEXT) {
        return machine_refuse(m, PAWL_EDAMAGED, "the name of a class or function is no text", err);
    }
    return push_global(m, module->text, name->text, err);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static pawl_status refuse_call(const machine *m, const pickle_node *callee, pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "byte %llu: calls %.100s.%.100s; nothing was executed",
              (unsigned long long)m->at, callee->global.module, callee->global.name);
    error_range(err, m->at, 1);
    error_expected(err, "only calls that make tensors, numbers and containers");
    error_next(err, "do not load this file with anything that executes pickles, unless you trust "
                    "who made it");
    return PAWL_EUNSUPPORTED;
}

static const pickle_filling nothing = {.state = NULL};

pawl_status machine_filling(machine *m, pickle_call *call, pickle_filling **out, pawl_error *err) {
    if (call->with == &nothing) {
        pickle_filling *own = arena_take(&m->tree->memory, sizeof(*own), err);
        if (own == NULL) {
            return PAWL_ENOMEM;
        }
        m->nodes++;
        *own = nothing;
        call->with = own;
    }
    *out = (pickle_filling *)call->with; /* its own */
    return PAWL_OK;
}

/* Python 2 makes an OrderedDict of a list of pairs, each a list: they become its items. */
static pawl_status take_pairs(machine *m, pickle_call *made, pawl_error *err) {
    const pickle_items *arguments = &made->arguments->items;
    if (!pickle_is_global(made->callee, "collections", "OrderedDict") || arguments->count != 1 ||
        arguments->nodes[0]->kind != PICKLE_LIST) {
        return PAWL_OK;
    }
    const pickle_items *pairs = &arguments->nodes[0]->items;
    pickle_filling *filling;
    TRY(machine_filling(m, made, &filling, err));
    filling->pairs = true;
    for (uint32_t i = 0; i < pairs->count; i++) {
        const pickle_node *pair = pairs->nodes[i];
        if ((pair->kind != PICKLE_LIST && pair->kind != PICKLE_TUPLE) || pair->items.count != 2) {
            return machine_refuse(m, PAWL_EDAMAGED, "a dict has a key without a value", err);
        }
        TRY(machine_append_nodes(m, &filling->items, pair->items.nodes, 2, err));
    }
    return PAWL_OK;
}

static pawl_status push_call(machine *m, pickle_node *callee, pickle_node *arguments,
                             pawl_error *err) {
    pickle_node *node;
    TRY(machine_node(m, PICKLE_CALL, &node, err));
    node->call = arena_take(&m->tree->memory, sizeof(*node->call), err);
    if (node->call == NULL) {
        return PAWL_ENOMEM;
    }
    m->nodes++;
    *node->call = (pickle_call){.callee = callee, .arguments = arguments, .with = &nothing};
    TRY(take_pairs(m, node->call, err));
    return machine_push(m, node, err);
}

/* A function may do anything; to make an object of a class is inert here. */
static pawl_status call(machine *m, pickle_node *callee, pickle_node *arguments, bool function,
                        pawl_error *err) {
    if (callee->kind != PICKLE_GLOBAL || arguments->kind != PICKLE_TUPLE) {
        return machine_refuse(m, PAWL_EUNSUPPORTED,
                              "it calls what is no function of a module; nothing was executed",
                              err);
    }
    if (function && !m->knows(callee->global.module, callee->global.name)) {
        return refuse_call(m, callee, err);
    }
    return push_call(m, callee, arguments, err);
}

static pawl_status call_two(machine *m, bool function, pawl_error *err) {
    pickle_node *callee, *arguments;
    TRY(machine_pop(m, &arguments, err));
    TRY(machine_pop(m, &callee, err));
    return call(m, callee, arguments, function, err);
}

/* NEWOBJ_EX: class, arguments, keyword arguments. */
static pawl_status make_with_keywords(machine *m, pawl_error *err) {
    pickle_node *keywords;
    TRY(machine_pop(m, &keywords, err));
    if (keywords->kind != PICKLE_DICT) {
        return machine_refuse(m, PAWL_EDAMAGED, "keyword arguments are no dict", err);
    }
    TRY(call_two(m, false, err));
    pickle_filling *filling;
    TRY(machine_filling(m, m->stack[m->depth - 1]->call, &filling, err));
    filling->keywords = keywords;
    return PAWL_OK;
}

/* INST: a class by its name, and what is above the mark. OBJ: the class is the first of that. */
static pawl_status make_marked(machine *m, bool named, pawl_error *err) {
    pickle_node *arguments;
    size_t mark;
    bool done = true;
    if (named) {
        TRY(push_named(m, err));
        pickle_node *callee = m->stack[--m->depth];
        TRY(machine_mark(m, &mark, err));
        TRY(machine_container(m, 't', &done, err));
        TRY(machine_pop(m, &arguments, err));
        return call(m, callee, arguments, true, err);
    }
    TRY(machine_mark(m, &mark, err));
    if (mark + 1 == m->depth) {
        return machine_refuse(m, PAWL_EDAMAGED, "it takes a value that is not there", err);
    }
    pickle_node *callee = m->stack[mark + 1];
    memmove(&m->stack[mark + 1], &m->stack[mark + 2], (m->depth - mark - 2) * sizeof(void *));
    m->depth--;
    TRY(machine_container(m, 't', &done, err));
    TRY(machine_pop(m, &arguments, err));
    return call(m, callee, arguments, true, err);
}

static pawl_status give_state(machine *m, pawl_error *err) {
    pickle_node *state;
    TRY(machine_pop(m, &state, err));
    if (m->depth == 0 || m->stack[m->depth - 1] == NULL ||
        m->stack[m->depth - 1]->kind != PICKLE_CALL) {
        return machine_refuse(m, PAWL_EDAMAGED, "it gives a state to what is no object", err);
    }
    pickle_filling *filling;
    TRY(machine_filling(m, m->stack[m->depth - 1]->call, &filling, err));
    filling->state = state;
    return PAWL_OK;
}

static pawl_status push_outside(machine *m, bool line, pawl_error *err) {
    pickle_node *node, *id;
    if (line) {
        pickle_text text;
        TRY(machine_line(m, &text, err));
        TRY(machine_push_text(m, (const uint8_t *)text.bytes, text.n, true, err));
    }
    TRY(machine_pop(m, &id, err));
    TRY(machine_node(m, PICKLE_OUTSIDE, &node, err));
    node->id = id;
    TRY(machine_append_nodes(m, &m->tree->outside, &node, 1, err));
    return machine_push(m, node, err);
}

pawl_status machine_object(machine *m, uint8_t opcode, bool *done, pawl_error *err) {
    switch (opcode) {
    case 'c':
        return push_named(m, err);
    case 0x93:
        return push_stack_global(m, err);
    case 'R':
        return call_two(m, true, err);
    case 0x81:
        return call_two(m, false, err);
    case 0x92:
        return make_with_keywords(m, err);
    case 'i':
        return make_marked(m, true, err);
    case 'o':
        return make_marked(m, false, err);
    case 'b':
        return give_state(m, err);
    case 'P':
    case 'Q':
        return push_outside(m, opcode == 'P', err);
    case 0x82:
    case 0x83:
    case 0x84:
        return machine_refuse(m, PAWL_EUNSUPPORTED, "it uses the registry of extensions", err);
    case 0x97:
    case 0x98:
        return machine_refuse(m, PAWL_EUNSUPPORTED, "it needs buffers from elsewhere", err);
    default:
        *done = false;
        return PAWL_OK;
    }
}
