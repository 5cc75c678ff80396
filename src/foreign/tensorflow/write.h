/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow/write: a tensor bundle (checkpoint V2), named by its keys, which
 * tf.train.load_checkpoint reads.
 *
 * Values become scalars: of bool, int64 and float64, or strings. Those of JSON are strings, too.
 */
#ifndef FOREIGN_TENSORFLOW_WRITE_H
#define FOREIGN_TENSORFLOW_WRITE_H

#include "foreign/writer.h"

/* writer_format.refuses, write */
const char *bundle_refuses(const writer_item *item);
pawl_status bundle_write(const writer_job *job, pawl_error *err) PAWL_MUST_CHECK;

#endif
