/* SPDX-License-Identifier: Apache-2.0 */
/* What the save of each step of a catalog cost, as far as the run's events tell. */
#ifndef CLI_COSTS_H
#define CLI_COSTS_H

#include "cli.h"
#include "kept.h"

typedef struct costs costs;

/* NULL, and out->err tells why, when the events cannot be read. */
costs *costs_read(const char *run, const pawl_catalog *catalog, output *out);
void costs_free(costs **c); /* for SCOPED; also of NULL */
/* Of the i-th step of the catalog, or NULL. */
const kept *costs_of(const costs *c, size_t i);

#endif
