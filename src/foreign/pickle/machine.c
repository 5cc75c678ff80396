/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that reads a pickle: its stack, its memo and its bounds (pickletools of Python). */
#include "foreign/pickle/machine.h"
#include "format/limits.h"

#include <stdio.h>
#include <string.h>

pawl_status machine_refuse(const machine *m, pawl_status status, const char *what,
                           pawl_error *err) {
    error_set(err, status, "the pickle cannot be read at byte %llu: %s", (unsigned long long)m->at,
              what);
    error_range(err, m->at, 1);
    return status;
}

pawl_status machine_too_many(const machine *m, const char *what, uint64_t most, pawl_error *err) {
    (void)machine_refuse(m, PAWL_ELIMIT, "it is too large", err);
    error_expected(err, "at most %llu %s", (unsigned long long)most, what);
    return PAWL_ELIMIT;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

pawl_status machine_node(machine *m, pickle_kind kind, pickle_node **out, pawl_error *err) {
    if (m->nodes++ == FOREIGN_MAX_PICKLE_NODES) {
        return machine_too_many(m, "values", FOREIGN_MAX_PICKLE_NODES, err);
    }
    pickle_node *node = arena_take(&m->tree->memory, sizeof(*node), err);
    if (node == NULL) {
        return PAWL_ENOMEM;
    }
    *node = (pickle_node){.kind = kind, .at = (uint32_t)(m->at - m->in.base)};
    *out = node;
    return PAWL_OK;
}

pawl_status machine_append(machine *m, pickle_items *to, size_t from, size_t n, pawl_error *err) {
    return n == 0 ? PAWL_OK : machine_append_nodes(m, to, m->stack + from, n, err);
}

pawl_status machine_append_nodes(machine *m, pickle_items *to, pickle_node *const *nodes, size_t n,
                                 pawl_error *err) {
    size_t need = to->count + n;
    if (n == 0) {
        return PAWL_OK;
    }
    if (need > FOREIGN_MAX_PICKLE_NODES) {
        return machine_too_many(m, "values in one container", FOREIGN_MAX_PICKLE_NODES, err);
    }
    if (need > to->room) {
        size_t room = to->room == 0 ? n : 2 * (size_t)to->room;
        room = room < need ? need : room;
        m->nodes += room; /* what is left behind is not freed: it counts */
        if (m->nodes > 4 * (uint64_t)FOREIGN_MAX_PICKLE_NODES) {
            return machine_too_many(m, "values", FOREIGN_MAX_PICKLE_NODES, err);
        }
        pickle_node **more = arena_take(&m->tree->memory, room * sizeof(void *), err);
        if (more == NULL) {
            return PAWL_ENOMEM;
        }
        if (to->count > 0) {
            memcpy(more, to->nodes, to->count * sizeof(void *));
        }
        to->nodes = more;
        to->room = (uint32_t)room;
    }
    memcpy(to->nodes + to->count, nodes, n * sizeof(void *));
    to->count += (uint32_t)n;
    return PAWL_OK;
}

/* ---- the stack ------------------------------------------------------------------------------ */

pawl_status machine_push(machine *m, pickle_node *node, pawl_error *err) {
    if (m->depth == FOREIGN_MAX_PICKLE_STACK) {
        return machine_too_many(m, "values on its stack", FOREIGN_MAX_PICKLE_STACK, err);
    }
    TRY(vec_reserve(&m->stack, &m->stack_room, m->depth + 1, sizeof(void *), err));
    m->stack[m->depth++] = node;
    return PAWL_OK;
}

pawl_status machine_pop(machine *m, pickle_node **out, pawl_error *err) {
    if (m->depth == 0 || m->stack[m->depth - 1] == NULL) {
        return machine_refuse(m, PAWL_EDAMAGED, "it takes a value that is not there", err);
    }
    *out = m->stack[--m->depth];
    return PAWL_OK;
}

pawl_status machine_mark(const machine *m, size_t *out, pawl_error *err) {
    for (size_t i = m->depth; i > 0; i--) {
        if (m->stack[i - 1] == NULL) {
            *out = i - 1;
            return PAWL_OK;
        }
    }
    return machine_refuse(m, PAWL_EDAMAGED, "it goes back to a mark that is not there", err);
}

/* ---- the memo ------------------------------------------------------------------------------- */

/* Writers number what they keep in turn, so that no memo is larger than the pickle. */
static pawl_status put(machine *m, uint64_t number, pawl_error *err) {
    if (m->depth == 0 || m->stack[m->depth - 1] == NULL) {
        return machine_refuse(m, PAWL_EDAMAGED, "it keeps a value that is not there", err);
    }
    if (number > m->opcodes) {
        return machine_refuse(m, PAWL_EDAMAGED, "it keeps a value under a number that is too large",
                              err);
    }
    if (number >= FOREIGN_MAX_PICKLE_NODES) {
        return machine_too_many(m, "values in its memo", FOREIGN_MAX_PICKLE_NODES, err);
    }
    TRY(vec_reserve(&m->memo, &m->memo_room, (size_t)number + 1, sizeof(void *), err));
    while (m->memo_count <= number) {
        m->memo[m->memo_count++] = NULL;
    }
    m->memo[number] = m->stack[m->depth - 1];
    return PAWL_OK;
}

static pawl_status get(machine *m, uint64_t number, pawl_error *err) {
    if (number >= m->memo_count || m->memo[number] == NULL) {
        return machine_refuse(m, PAWL_EDAMAGED, "it takes a value that it has not kept", err);
    }
    return machine_push(m, m->memo[number], err);
}

static pawl_status run_memo(machine *m, uint8_t opcode, bool *done, pawl_error *err) {
    uint8_t byte = 0;
    uint32_t word = 0;
    int64_t decimal = 0;
    switch (opcode) {
    case 'p':
    case 'g':
        TRY(machine_decimal(m, &decimal, err));
        if (decimal < 0) {
            return machine_refuse(m, PAWL_EDAMAGED, "a number of the memo is negative", err);
        }
        return opcode == 'p' ? put(m, (uint64_t)decimal, err) : get(m, (uint64_t)decimal, err);
    case 'q':
    case 'h':
        TRY(cursor_u8(&m->in, &byte, err));
        return opcode == 'q' ? put(m, byte, err) : get(m, byte, err);
    case 'r':
    case 'j':
        TRY(cursor_u32le(&m->in, &word, err));
        return opcode == 'r' ? put(m, word, err) : get(m, word, err);
    case 0x94: /* MEMOIZE */
        return put(m, m->memo_count, err);
    default:
        *done = false;
        return PAWL_OK;
    }
}

/* ---- the rest ------------------------------------------------------------------------------- */

static pawl_status end_pickle(machine *m, pawl_error *err) {
    m->ended = true;
    TRY(machine_pop(m, &m->tree->root, err));
    return m->depth == 0 ? PAWL_OK
                         : machine_refuse(m, PAWL_EDAMAGED, "it ends with values left over", err);
}

static pawl_status run_stack(machine *m, uint8_t opcode, bool *done, pawl_error *err) {
    uint8_t protocol = 0;
    uint64_t frame = 0;
    switch (opcode) {
    case 0x80: /* PROTO */
        TRY(cursor_u8(&m->in, &protocol, err));
        return protocol <= 5
                   ? PAWL_OK
                   : machine_refuse(m, PAWL_EUNSUPPORTED, "it is of a newer protocol than 5", err);
    case 0x95: /* FRAME: a hint for readers of streams */
        return cursor_u64le(&m->in, &frame, err);
    case '(':
        return machine_push(m, NULL, err);
    case '0': /* POP: a value, or a mark */
        if (m->depth == 0) {
            return machine_refuse(m, PAWL_EDAMAGED, "it takes a value that is not there", err);
        }
        m->depth--;
        return PAWL_OK;
    case '1': /* POP_MARK */
        return machine_mark(m, &m->depth, err);
    case '2': /* DUP */
        if (m->depth == 0 || m->stack[m->depth - 1] == NULL) {
            return machine_refuse(m, PAWL_EDAMAGED, "it takes a value that is not there", err);
        }
        return machine_push(m, m->stack[m->depth - 1], err);
    case '.':
        return end_pickle(m, err);
    default:
        *done = false;
        return PAWL_OK;
    }
}

typedef pawl_status (*run_fn)(machine *m, uint8_t opcode, bool *done, pawl_error *err);

static pawl_status run_opcode(machine *m, pawl_error *err) {
    static const run_fn all[] = {run_memo, machine_scalar, machine_container, machine_object,
                                 run_stack};
    char what[64];
    uint8_t opcode = 0;
    m->at = m->in.base + m->in.at;
    TRY(cursor_u8(&m->in, &opcode, err));
    if (m->opcodes++ == FOREIGN_MAX_PICKLE_OPCODES) {
        return machine_too_many(m, "opcodes", FOREIGN_MAX_PICKLE_OPCODES, err);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        bool done = true;
        TRY(all[i](m, opcode, &done, err));
        if (done) {
            return PAWL_OK;
        }
    }
    snprintf(what, sizeof(what), "there is no opcode 0x%02x", opcode);
    return machine_refuse(m, PAWL_EDAMAGED, what, err);
}

pawl_status pickle_read(const uint8_t *bytes, size_t n, uint64_t base, pickle_knows knows,
                        pickle_tree *out, pawl_error *err) {
    machine m = {.in = cursor_of(bytes, n, base, "pickle"), .knows = knows, .tree = out};
    pawl_status status = PAWL_OK;
    *out = (pickle_tree){.root = NULL};
    if (n > FOREIGN_MAX_PICKLE) {
        status = machine_too_many(&m, "bytes", FOREIGN_MAX_PICKLE, err);
    }
    while (status == PAWL_OK && !m.ended) {
        status = run_opcode(&m, err);
    }
    out->bytes = m.in.at;
    mem_free(m.stack);
    mem_free(m.memo);
    if (status != PAWL_OK) {
        pickle_free(out);
    }
    return status;
}

void pickle_free(pickle_tree *tree) {
    arena_free(&tree->memory);
    tree->root = NULL;
}

/* ---- asking nodes --------------------------------------------------------------------------- */

bool pickle_is_global(const pickle_node *node, const char *module, const char *name) {
    return node != NULL && node->kind == PICKLE_GLOBAL &&
           strcmp(node->global.module, module) == 0 && strcmp(node->global.name, name) == 0;
}

bool pickle_is_call(const pickle_node *node, const char *module, const char *name) {
    return node != NULL && node->kind == PICKLE_CALL &&
           pickle_is_global(node->call->callee, module, name);
}

bool pickle_says(const pickle_node *node, const char *text) {
    return node != NULL && node->kind == PICKLE_TEXT && node->text.n == strlen(text) &&
           memcmp(node->text.bytes, text, node->text.n) == 0;
}

pickle_node *pickle_get(const pickle_node *node, const char *key) {
    const pickle_items *items = node->kind == PICKLE_DICT   ? &node->items
                                : node->kind == PICKLE_CALL ? &node->call->with->items
                                                            : NULL;
    if (items == NULL || items->count / 2 > FOREIGN_MAX_PICKLE_ATTRIBUTES) {
        return NULL;
    }
    for (size_t i = 0; i + 1 < items->count; i += 2) {
        if (pickle_says(items->nodes[i], key)) {
            return items->nodes[i + 1];
        }
    }
    return NULL;
}
