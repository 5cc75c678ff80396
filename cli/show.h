/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of pawl show. Each returns PAWL_OK, or a status after filling out->err. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "cli.h"
#include "entry.h"

/* The entries below `prefix` ("" for all), as a tree or as the JSON array "entries". `*shown` is
 * how many there are; for none, nothing is printed unless `prefix` is "". */
pawl_status show_tree(output *out, pawl_checkpoint *checkpoint, const char *prefix,
                      uint64_t *shown);

/* For the completion: the names that begin with `begin`, up to the next '/', a line each. */
pawl_status show_names(output *out, pawl_checkpoint *checkpoint, const char *begin);

/* `edge` values from the start and the end of each dimension, as numpy prints them. */
pawl_status show_preview(output *out, pawl_checkpoint *checkpoint, const tensor_ref *t,
                         int64_t edge);

/* Minimum, maximum, mean, NaN and infinity counts; as JSON also the first and last `edge`
 * values. */
pawl_status show_statistics(output *out, pawl_checkpoint *checkpoint, const tensor_ref *t,
                            int64_t edge);

/* Each rank's bytes of a per-rank entry. */
pawl_status show_ranks(output *out, pawl_checkpoint *checkpoint, const char *name);

#endif
