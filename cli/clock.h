/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of the command. */
#ifndef CLI_CLOCK_H
#define CLI_CLOCK_H

#include <stdint.h>

int64_t clock_monotonic_ns(void); /* for durations */
int64_t clock_unix_ns(void);      /* since 1970 */

#endif
