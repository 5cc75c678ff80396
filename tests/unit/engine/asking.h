/* SPDX-License-Identifier: Apache-2.0 */
/* A caller who is asked whether its call is to end, and says so in the end. */
#ifndef UNIT_ENGINE_ASKING_H
#define UNIT_ENGINE_ASKING_H

#include "base/sync.h"

#include <stdbool.h>

typedef struct asked {
    unsigned times, ends_at;
    thread_id thread; /* that may be asked */
    bool elsewhere;   /* another was */
} asked;

/* For `ask` of an interrupt, with an asked as context. */
static int end_at(void *context) {
    asked *a = context;
    a->elsewhere = a->elsewhere || !thread_is_self(a->thread);
    return ++a->times >= a->ends_at;
}

#endif
