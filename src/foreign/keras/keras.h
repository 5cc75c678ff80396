/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/keras: what Keras 3 saves. A `.keras` file is a zip with metadata.json, config.json and
 * model.weights.h5, and with what its layers keep in assets/. Weights that are sharded are several
 * HDF5 files and a `.weights.json` that says which has what. A `.weights.h5`, and the `.h5` of
 * earlier versions, are HDF5 files like any other.
 *
 * Nothing is built from a configuration: it is a value. Private to src/foreign.
 */
#ifndef FOREIGN_KERAS_H
#define FOREIGN_KERAS_H

#include "foreign/archive.h"

/* archive_format.read, .compare and .verify */
pawl_status keras_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status keras_verify(archive *a, source_verifier *v, pawl_error *err) PAWL_MUST_CHECK;
pawl_status keras_read_sharded(archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status keras_compare_sharded(const archive *a, pawl_error *err) PAWL_MUST_CHECK;

#endif
