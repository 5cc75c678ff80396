/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/interrupt: the caller of a call that takes long is asked now and then whether to end it
 * (`interrupted` of the options). On the caller's thread alone, and without locks that others wait
 * for: it may run an interpreter.
 */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include <pawl/error.h>

#include <stdbool.h>
#include <stdint.h>

#define INTERRUPT_PERIOD_NS UINT64_C(100000000) /* the longest that it is not asked */

struct platform;

/* Of one call. */
typedef struct interrupt {
    int (*ask)(void *context); /* NULL: it is never interrupted */
    void *context;
    bool said;   /* it has said so, and is not asked again */
    bool asking; /* its function is being called */
} interrupt;

/* All: `i` may be NULL. */
bool interrupt_asks(const interrupt *i); /* is there anybody to ask? */
bool interrupt_said(interrupt *i);       /* asks: is the call to end? */
/* Sleeps, but not on once the call is to end: true. */
bool interrupt_sleep(interrupt *i, const struct platform *os, uint64_t ns);
/* PAWL_ECANCELED: "interrupted by the caller". */
pawl_status interrupt_error(pawl_error *err);

#endif
