/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dcp/read: directories of torch.distributed.checkpoint, also those of Megatron-LM (torch_dist).
 *
 * A tensor is assembled of its chunks, whoever saved them. A name is the way to a value in the
 * nested state, where the planner kept it, else the FQN. What DCP calls byte items are objects, as
 * in a file of torch.save.
 */
#ifndef FOREIGN_DCP_READ_H
#define FOREIGN_DCP_READ_H

#include "foreign/archive.h"

#define DCP_METADATA ".metadata"

/* archive_format.read, verify */
pawl_status dcp_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status dcp_verify(archive *a, source_verifier *v, pawl_error *err) PAWL_MUST_CHECK;

#endif
