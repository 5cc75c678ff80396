/* SPDX-License-Identifier: Apache-2.0 */
/* map: the inside of a pawl_state, for state.c and snapshot.c. */
#ifndef STATE_MAP_H
#define STATE_MAP_H

#include "state/state.h"

struct pawl_state {
    void *root; /* of tsearch: the keys are entries */
    size_t count;
};

#endif
