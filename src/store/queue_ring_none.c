/* SPDX-License-Identifier: Apache-2.0 */
/* store/queue_ring_none: in the place of queue_ring.c where the library is built without rings. */
#include "store/queue_kind.h"
#include "store/ring.h"

pawl_status store_queue_ring(const store_queue_options *options, store_queue **out,
                             pawl_error *err) {
    (void)options;
    (void)out;
    error_set(err, PAWL_EUNSUPPORTED, "cannot use io_uring");
    error_found(err, "a pawl that was built without liburing");
    error_next(err, "use threads (PAWL_IO_AUTO does), or build pawl where liburing is installed");
    return PAWL_EUNSUPPORTED;
}

pawl_status store_ring_write(store_ring *r, store_io *io, int fd, size_t n, pawl_error *err) {
    (void)r;
    (void)io;
    (void)fd;
    (void)n;
    return error_set(err, PAWL_EUNSUPPORTED, "this pawl was built without rings");
}
