/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/ring: an io_uring that does the writes of one queue. A library that is built without
 * liburing has queue_ring_none.c instead of ring.c.
 *
 * One thread alone writes, reaps and waits; any may wake it.
 */
#ifndef STORE_RING_H
#define STORE_RING_H

#include "store/queue.h"

/* Tries the ring with a real operation. PAWL_EUNSUPPORTED where it does not work: why, and what to
 * do about it. */
pawl_status store_ring_new(const store_queue_options *options, store_ring **out, pawl_error *err)
    PAWL_MUST_CHECK;
void store_ring_free(store_ring *r); /* when nothing is in flight; NULL is fine */
/* Begins to write the first n bytes of `io` to `fd`, which is a descriptor of its file. */
pawl_status store_ring_write(store_ring *r, store_io *io, int fd, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
/* The next write that ended; NULL: none has. io->moved is how many of its bytes are written: 0
 * where it failed. */
store_io *store_ring_reap(store_ring *r);
/* Waits for something to end, or to be woken. False: the deadline passed. */
bool store_ring_wait(store_ring *r, uint64_t deadline_ns);
void store_ring_wake(store_ring *r);
void store_ring_forget(store_ring *r, const store_file *f); /* before its descriptor is closed */

#endif
