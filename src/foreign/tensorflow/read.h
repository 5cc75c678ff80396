/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow/read: tensor bundles (checkpoint V2): name-based, object-based, and the variables of a
 * SavedModel. The archive's name is that of the index.
 *
 * A key is a name. Of an object-based checkpoint it is what stands before
 * /.ATTRIBUTES/VARIABLE_VALUE; a slot VARIABLE/.OPTIMIZER_SLOT/OPTIMIZER/SLOT is
 * OPTIMIZER/VARIABLE/SLOT, a slot of its variable.
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
