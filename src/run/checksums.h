/* SPDX-License-Identifier: Apache-2.0 */
/* run/checksums: an open checkpoint as the engine's reader sees it. */
#ifndef RUN_CHECKSUMS_H
#define RUN_CHECKSUMS_H

#include "run/checkpoint.h"

/* Its data files, and their block checksums out of the index. */
engine_source checksums_source(pawl_checkpoint *c);

#endif
