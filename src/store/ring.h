/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/ring: an io_uring that moves the writes of one queue. ring.c, and not there in a library
 * that is built without rings (queue_ring_none.c).
 *
 * One thread writes, reaps and waits; any may wake it.
 */
#ifndef STORE_RING_H
#define STORE_RING_H

#include "store/queue.h"

/* Tries the ring with a real operation. PAWL_EUNSUPPORTED where it does not work: why, and what to
 * do about it. */
pawl_status store_ring_new(const store_queue_options *options, store_ring **out, pawl_error *err)
    PAWL_MUST_CHECK;
void store_ring_free(store_ring *r); /* nothing is under way; NULL is fine */
/* Begins to write the first n bytes of `io` to `fd`, which is a descriptor of its file. */
pawl_status store_ring_write(store_ring *r, store_io *io, int fd, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
/* The next that ended, with what was moved of it: all, a part, or nothing where it failed. NULL:
 * none has. */
store_io *store_ring_reap(store_ring *r);
/* Waits for something to end, or to be woken. False: the deadline passed. */
bool store_ring_wait(store_ring *r, uint64_t deadline_ns);
void store_ring_wake(store_ring *r);
void store_ring_forget(store_ring *r, const store_file *f); /* before its descriptor is closed */

#endif
