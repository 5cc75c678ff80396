/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dcp/write: a directory as torch.distributed.checkpoint saves it, which dcp.load reads on any
 * number of ranks.
 *
 * A name becomes what DCP calls an FQN: each "/" is a "."; what it was is in the planner's data. A
 * tensor is one chunk; a value is an object of Python.
 */
#ifndef FOREIGN_DCP_WRITE_H
#define FOREIGN_DCP_WRITE_H

#include "foreign/writer.h"

/* writer_format.write; it refuses what torch_refuses does */
pawl_status dcp_write(const writer_job *job, pawl_error *err) PAWL_MUST_CHECK;

#endif
