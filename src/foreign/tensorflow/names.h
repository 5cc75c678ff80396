/* SPDX-License-Identifier: Apache-2.0 */
/* tensorflow/names: what the keys of a bundle mean. Private to this folder. */
#ifndef FOREIGN_TENSORFLOW_NAMES_H
#define FOREIGN_TENSORFLOW_NAMES_H

#include "foreign/archive.h"
#include "foreign/tensorflow/bundle.h"
#include "foreign/tensorflow/graph.h"

/* A key as a name, in the archive's memory. */
typedef struct bundle_name {
    const char *name;
    pawl_role role;
    const char *variable; /* a slot's; NULL: it is none */
    const char *slot;
} bundle_name;
/* `graph` has no nodes where there is none, or it does not tell of the key: the key is all. */
pawl_status bundle_name_of(archive *a, const bundle *b, object_graph *graph, bundle_text key,
                           bundle_name *out, pawl_error *err) PAWL_MUST_CHECK;

/* The key under which a slice of a tensor is. */
pawl_status bundle_slice_key(bundle_text key, const bundle_slice *s, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Is it one of those? */
bool bundle_is_slice_key(bundle_text key);

#endif
