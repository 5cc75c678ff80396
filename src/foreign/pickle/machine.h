/* SPDX-License-Identifier: Apache-2.0 */
/* pickle/machine: what the files of the machine share; private to this folder. */
#ifndef FOREIGN_PICKLE_MACHINE_H
#define FOREIGN_PICKLE_MACHINE_H

#include "foreign/pickle/pickle.h"

#define MACHINE_SHARED 256u

typedef struct machine {
    cursor in;
    uint64_t at; /* of the opcode that is being read, in the file */
    pickle_knows knows;
    pickle_tree *tree;
    pickle_node **stack; /* NULL is a mark */
    size_t depth, stack_room;
    pickle_node **memo;
    size_t memo_count, memo_room;
    uint64_t opcodes, nodes, names; /* names: bytes of those of classes and functions */
    /* Most pickles have few different numbers and shapes: nodes of the last ones, which never
     * change, by what is in them. */
    pickle_node *integers[MACHINE_SHARED], *tuples[MACHINE_SHARED];
    pickle_node *booleans[2];
    bool ended;
} machine;

/* ---- machine.c ------------------------------------------------------------------------------ */

pawl_status machine_refuse(const machine *m, pawl_status status, const char *what, pawl_error *err);
pawl_status machine_too_many(const machine *m, const char *what, uint64_t most, pawl_error *err);
pawl_status machine_node(machine *m, pickle_kind kind, pickle_node **out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status machine_push(machine *m, pickle_node *node, pawl_error *err) PAWL_MUST_CHECK;
/* The topmost, which is no mark. */
pawl_status machine_pop(machine *m, pickle_node **out, pawl_error *err) PAWL_MUST_CHECK;
/* Where the topmost mark is. */
pawl_status machine_mark(const machine *m, size_t *out, pawl_error *err) PAWL_MUST_CHECK;
/* `n` values of the stack. */
pawl_status machine_append(machine *m, pickle_items *to, size_t from, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status machine_append_nodes(machine *m, pickle_items *to, pickle_node *const *nodes, size_t n,
                                 pawl_error *err) PAWL_MUST_CHECK;

/* ---- scalars.c: opcodes that push what follows them; *done is false for any other ----------- */

pawl_status machine_scalar(machine *m, uint8_t opcode, bool *done, pawl_error *err) PAWL_MUST_CHECK;
/* Up to the end of the line, without it. */
pawl_status machine_line(machine *m, pickle_text *out, pawl_error *err) PAWL_MUST_CHECK;
/* A decimal number of a line. */
pawl_status machine_decimal(machine *m, int64_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status machine_push_text(machine *m, const uint8_t *bytes, size_t n, bool text,
                              pawl_error *err) PAWL_MUST_CHECK;

/* ---- containers.c, objects.c: the same of what is on the stack ------------------------------ */

pawl_status machine_container(machine *m, uint8_t opcode, bool *done, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status machine_object(machine *m, uint8_t opcode, bool *done, pawl_error *err) PAWL_MUST_CHECK;
/* What a call is filled with: most are not, and have none of their own until then. */
pawl_status machine_filling(machine *m, pickle_call *call, pickle_filling **out, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
