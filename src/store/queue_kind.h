/* SPDX-License-Identifier: Apache-2.0 */
/* store/queue_kind: what each kind of queue implements: in line, by threads, by a ring. */
#ifndef STORE_QUEUE_KIND_H
#define STORE_QUEUE_KIND_H

#include "store/queue.h"

/* As the functions of store/queue.h; queue.c does for all kinds what they have in common. */
typedef struct store_queue_kind_ops {
    const char *name;
    void (*submit)(store_queue *q, store_io *io);
    store_io *(*wait)(store_queue *q, uint64_t deadline_ns);
    void (*wake)(store_queue *q);
    void (*forget)(store_queue *q, store_file *f); /* may be NULL */
    void (*destroy)(store_queue *q);
} store_queue_kind_ops;

/* A kind embeds this as its first member. */
struct store_queue {
    const store_queue_kind_ops *ops;
    size_t depth, under_way;
};

static inline void store_queue_init(store_queue *q, const store_queue_kind_ops *ops,
                                    const store_queue_options *options) {
    *q = (store_queue){.ops = ops, .depth = options->depth};
}

pawl_status store_queue_threads(const store_queue_options *options, store_queue **out,
                                pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_EUNSUPPORTED where no ring works here: why, and what to do about it. */
pawl_status store_queue_ring(const store_queue_options *options, store_queue **out, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
