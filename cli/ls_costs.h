/* SPDX-License-Identifier: Apache-2.0 */
/* What saving each step of a catalog cost, as far as the run's events tell. */
#ifndef CLI_LS_COSTS_H
#define CLI_LS_COSTS_H

#include "cli.h"
#include "event_copy.h"

typedef struct ls_costs ls_costs;

/* NULL, with the reason in out->err, when the events cannot be read. */
ls_costs *ls_costs_read(const char *run, const pawl_catalog *catalog, output *out);
void ls_costs_free(ls_costs **c); /* for SCOPED */
/* How the i-th step of the catalog was saved; NULL: no event tells. */
const event_copy *ls_costs_of(const ls_costs *c, size_t i);

#endif
