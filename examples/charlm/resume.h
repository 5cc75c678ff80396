/* SPDX-License-Identifier: Apache-2.0 */
/* resume: continues a run from its newest checkpoint, or begins it with that of another run. */
#ifndef CHARLM_RESUME_H
#define CHARLM_RESUME_H

#include "trainer.h"

/*
 * Fails when there is a checkpoint but it does not fit this training: nothing is ever half restored
 * or silently started anew. Without a checkpoint, training stays at step 0.
 */
pawl_status resume(struct trainer *trainer, pawl_error *err) PAWL_MUST_CHECK;

#endif
