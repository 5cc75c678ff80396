/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of pawl show. Each returns PAWL_OK, or a status after filling out->err. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "cli.h"
#include "entry.h"

/* The entries below `prefix` ("" for all), as a tree or as the members of "entries". `*shown` is
 * how many there were; with none, nothing is printed. */
pawl_status show_tree(output *out, pawl_checkpoint *checkpoint, const char *prefix,
                      uint64_t *shown);

/* The names that begin so, up to the next '/', a line each; bounded. */
pawl_status show_names(output *out, pawl_checkpoint *checkpoint, const char *begin);

/* A tensor's values at the ends of each dimension, as numpy would print them. */
pawl_status show_preview(output *out, pawl_checkpoint *checkpoint, const tensor_ref *t,
                         int64_t edge);

/* Its minimum, maximum, mean, NaN and infinity counts; as JSON its first and last values too. */
pawl_status show_statistics(output *out, pawl_checkpoint *checkpoint, const tensor_ref *t,
                            int64_t edge);

/* The bytes that each rank has of an entry that is per rank. */
pawl_status show_ranks(output *out, pawl_checkpoint *checkpoint, const char *name);

#endif
