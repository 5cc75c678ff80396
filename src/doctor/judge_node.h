/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/judge_node: can XLA compile a node of a SavedModel (J07)? */
#ifndef DOCTOR_JUDGE_NODE_H
#define DOCTOR_JUDGE_NODE_H

#include "foreign/saved_model/saved_model.h"

typedef enum node_kind { NODE_FINE, NODE_WITHOUT_KERNEL, NODE_OF_OTHER_TYPE } node_kind;

typedef struct node_verdict {
    node_kind kind;
    bundle_text attribute; /* of NODE_OF_OTHER_TYPE: which has */
    uint32_t type;         /* this type */
    bool doubles;          /* it computes float64, which accelerators do slowly or not at all */
} node_verdict;

pawl_status judge_node(const saved_model *m, const saved_node *node, node_verdict *out,
                       pawl_error *err) PAWL_MUST_CHECK;

#endif
