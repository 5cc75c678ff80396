/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/wrap: a store made of a store. Every operation becomes a store_call, which the wrapper's
 * `around` passes on with store_call_inner as often as it likes: not at all, once, again.
 * Closing, mapping and catching up go to the inner store directly.
 */
#ifndef STORE_WRAP_H
#define STORE_WRAP_H

#include "store/store.h"

typedef enum store_op {
    STORE_OP_OPEN,
    STORE_OP_READ,
    STORE_OP_WRITE,
    STORE_OP_SIZE,
    STORE_OP_RESERVE,
    STORE_OP_SYNC,
    STORE_OP_MAKE_DIR,
    STORE_OP_REMOVE_DIR,
    STORE_OP_RENAME,
    STORE_OP_PUT,
    STORE_OP_UNLINK,
    STORE_OP_SYNC_DIR,
    STORE_OP_LIST,
    STORE_OP_STAT,
    STORE_OP_SPACE,
    STORE_OP_COUNT /* how many there are */
} store_op;

/* The arguments of one operation; those that it does not have are zero. */
typedef struct store_call {
    store_op op;
    store *inner;
    store_file *file; /* the inner store's */
    const char *path, *to;
    store_mode mode;
    uint64_t at; /* reserve: the file's bytes in all */
    const void *from;
    void *into;
    size_t n;
    size_t *moved;        /* read, write: where the count goes */
    store_file **opened;  /* open: where the inner store's file goes */
    uint64_t *file_bytes; /* size */
    store_stat *found;    /* stat */
    store_space *room;    /* space */
    store_ring *ring;     /* write that is only to be begun (store_ops.start), else NULL */
    store_io *io;         /* that write */
    store_each_fn each;   /* list */
    void *context;
    const store_tag *expected; /* put, unlink: the condition */
    store_tag *now;            /* put: where the new version's tag goes */
} store_call;

typedef struct store_wrapper store_wrapper;

/* A wrapper embeds this as its first member. */
struct store_wrapper {
    store base;
    store *inner;
    pawl_status (*around)(store_wrapper *w, store_call *call, pawl_error *err);
    /* NULL: store_wrapper_clear, and mem_free. The inner store is not the wrapper's to destroy,
     * unless its own `destroy` does. */
    void (*destroy)(store_wrapper *w);
};

/* The wrapper gets the traits and the root of the inner store. */
pawl_status store_wrapper_init(store_wrapper *w, store *inner, pawl_error *err) PAWL_MUST_CHECK;
void store_wrapper_clear(store_wrapper *w);
pawl_status store_call_inner(const store_call *call, pawl_error *err) PAWL_MUST_CHECK;

#endif
