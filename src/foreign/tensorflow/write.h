/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow/write: a tensor bundle (checkpoint V2). Where one of the entries is the graph of
 * objects of one that was read, and fits them, they have the keys that it says, and
 * tf.train.Checkpoint restores them; else their names are their keys.
 *
 * Values become scalars: of bool, int64 and float64, or strings. Lists of texts in JSON are tensors
 * of strings.
 */
#ifndef FOREIGN_TENSORFLOW_WRITE_H
#define FOREIGN_TENSORFLOW_WRITE_H

#include "foreign/writer.h"
#include "format/limits.h"

/* writer_format.last, refuses, misfit, write */
#define BUNDLE_LAST NAME_OBJECT_GRAPH
const char *bundle_refuses(const writer_item *item);
pawl_status bundle_misfit(const writer_item *last, const writer_item *items, size_t count,
                          bool renamed, const char **why, pawl_error *err) PAWL_MUST_CHECK;
pawl_status bundle_write(const writer_job *job, pawl_error *err) PAWL_MUST_CHECK;

#endif
