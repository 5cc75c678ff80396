/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/delivery: verified bytes of a restore, on their way into the memory of providers
 * (pawl/memory.h). They are staged in a few buffers, and copied from there by a mover, several
 * buffers at a time.
 */
#ifndef ENGINE_DELIVERY_H
#define ENGINE_DELIVERY_H

#include "base/base.h"
#include "plan/plan.h"

#include <stdatomic.h>

typedef struct delivery delivery;

/* `timeout_s`: a provider that completes nothing for so long hangs. */
pawl_status delivery_new(const platform *os, double timeout_s, delivery **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Takes bytes of a read, as plan_read_place. Any of several threads; waits for a buffer where all
 * are on their way. After a failure it does nothing. Returns the overflows of a cast. */
uint64_t delivery_put(delivery *d, const plan_read *read, uint64_t offset, const uint8_t *bytes,
                      size_t n);
/* Becomes true when a copy has failed: there is no use in reading more. */
const atomic_bool *delivery_failed(const delivery *d);
/* Waits until everything that was put is there, and frees the delivery; one that hangs is left to
 * its mover, with its buffers, and PAWL_EIO says so. Then *snapshot, which has the entries of all
 * reads, is left to it, too, and becomes NULL. */
pawl_status delivery_end(delivery *d, state_snapshot **snapshot, pawl_error *err) PAWL_MUST_CHECK;

#endif
