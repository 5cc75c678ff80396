/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow/read: tensor bundles (checkpoint V2): name-based, object-based, and the variables of a
 * SavedModel. The archive's name is that of the index.
 *
 * A key is a name. In an object-based checkpoint the graph of objects names what it has: by the way
 * from the root to it; a slot that the optimizer alone knows is OPTIMIZER/VARIABLE/SLOT. Of other
 * keys the name is what stands before /.ATTRIBUTES/VARIABLE_VALUE.
 */
#ifndef FOREIGN_TENSORFLOW_READ_H
#define FOREIGN_TENSORFLOW_READ_H

#include "foreign/archive.h"

/* archive_format.read, verify */
pawl_status tensorflow_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status tensorflow_verify(archive *a, source_verifier *v, pawl_error *err) PAWL_MUST_CHECK;

/* From the text of a file `checkpoint`: the path of the newest one, as it stands there; false: it
 * says none. */
bool tensorflow_newest(const char *text, size_t n, char *out, size_t room);

#endif
