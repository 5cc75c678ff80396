/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider of memory that makes trouble (pawl/memory.h). What it hands out as addresses are
 * handles: whoever touches one crashes. Its copies move on only while it is waited for, in random
 * order, piece by piece, and read the tensor at that moment; so one that is let go of too early
 * shows in the bytes. It also checks how it is used: on which threads, one call at a time, within
 * the tensors, no ticket after its end, no buffer lost.
 */
#ifndef LIB_DEVICE_H
#define LIB_DEVICE_H

#include "base/base.h"

#include <pawl/memory.h>

typedef struct device device;

typedef struct device_plan {
    uint64_t seed;
    unsigned pieces;   /* of each ticket: steps until it is complete [0: complete when started] */
    unsigned idle;     /* of 100 waits so many move nothing */
    unsigned together; /* nothing moves before so many tickets are under way at a time */
    uint64_t fail_nth; /* this start, from 1 on, fails [0: none] */
    bool fail_late;    /* not when it is started, but when it is complete */
    uint64_t hang_nth; /* this start never completes, until device_release [0: none] */
    bool hang_inside;  /* its call does not return before that */
    bool pinned;       /* it has memory of its own for buffers */
    bool no_room;      /* which is used up */
    bool in_line;      /* it may be called on the test's thread: there are no others */
    bool read_only;
} device_plan;

device *device_new(const device_plan *plan);
void device_change(device *d, const device_plan *plan);
/* Waits until nothing uses the device any more. Fails the test where it was not used as it must be.
 */
void device_free(device *d);
const pawl_memory *device_memory(device *d);
/* From now on `bytes`, which are the test's, are device memory: the handle. */
void *device_hold(device *d, void *bytes, size_t n);
/* What a handle stands for. */
uint8_t *device_bytes(device *d, const void *handle);
/* What hangs completes. */
void device_release(device *d);
/* Does a copy hang now? */
bool device_hangs(device *d);

typedef struct device_count {
    uint64_t starts, copies, out_bytes, in_bytes;
    uint64_t under_way;      /* tickets now, */
    uint64_t most_under_way; /* and at most */
    uint64_t most_pinned;    /* bytes at a time */
} device_count;
device_count device_counted(device *d);

#endif
