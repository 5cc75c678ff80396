/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/preemption.h: noticing that this process is about to be ended, from a signal. A trainer
 * looks once per step, and then makes its last save: pawl_save_final of pawl/run.h.
 */
#ifndef PAWL_PREEMPTION_H
#define PAWL_PREEMPTION_H

#include <pawl/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Installs handlers for `count` signals (typically SIGTERM, SIGUSR1, SIGUSR2) that set a flag and
 * then call the handler that was there before; one that was installed later stays, and has to call
 * them. Not by two threads at once. In a forked child, unless it makes this call itself, a signal
 * does what it would have done before. */
PAWL_API pawl_status pawl_preemption_watch(const int *signals, size_t count, pawl_error *err)
    PAWL_MUST_CHECK;
/* The signal that was caught, or 0. Look at it once per training step. */
PAWL_API int pawl_preempted(void);
/* Puts the earlier handlers back and clears the flag. */
PAWL_API void pawl_preemption_unwatch(void);

#ifdef __cplusplus
}
#endif

#endif
