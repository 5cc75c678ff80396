/* SPDX-License-Identifier: Apache-2.0 */
/* saved_model/private: what the files of this folder share. */
#ifndef FOREIGN_SAVED_MODEL_PRIVATE_H
#define FOREIGN_SAVED_MODEL_PRIVATE_H

#include "foreign/saved_model/saved_model.h"
#include "format/limits.h"

#define NOWHERE SAVED_MODEL_NOWHERE

static inline cursor saved_message(const saved_model *m, bundle_text text) {
    return cursor_of(text.bytes, text.n, text.n > 0 ? (uint64_t)(text.bytes - m->bytes) : 0,
                     "SavedModel");
}

static inline pawl_status saved_too_many(const char *what, unsigned most, pawl_error *err) {
    return error_set(err, PAWL_ELIMIT, "the SavedModel has more than %u %s", most, what);
}

/* The next field that is a message, text or list; *more is false behind the last one. */
pawl_status saved_next_bytes(cursor *c, proto_field *out, bool *more, pawl_error *err)
    PAWL_MUST_CHECK;
/* Key and value of an entry of a map. */
pawl_status saved_map_entry(const saved_model *m, bundle_text entry, bundle_text *key,
                            bundle_text *value, pawl_error *err) PAWL_MUST_CHECK;

/* ---- nodes.c -------------------------------------------------------------------------------- */

/* The nodes of all functions, which are sorted and have their bodies. */
pawl_status saved_model_decode_nodes(saved_model *m, pawl_error *err) PAWL_MUST_CHECK;
/* A node of the graph itself; NOWHERE: there is none. `tensor`: "name", "name:0", "^name". */
uint32_t saved_model_find_node(const saved_model *m, bundle_text tensor);
pawl_status saved_model_add_link(saved_model *m, uint32_t node, pawl_error *err) PAWL_MUST_CHECK;

/* ---- signatures.c --------------------------------------------------------------------------- */

/* Of the graph's message; nodes are there already. */
pawl_status saved_model_decode_signatures(saved_model *m, bundle_text graph, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
