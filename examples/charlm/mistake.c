/* SPDX-License-Identifier: Apache-2.0 */
/* mistake: makes each mistake where people make it. */
#include "mistake.h"

#include <math.h>
#include <string.h>

enum mistake mistake_from_name(const char *name) {
    static const char *const NAMES[] = {
        [MISTAKE_BATCH_DTYPE] = "batch-dtype",
        [MISTAKE_DATA_POSITION] = "data-position",
        [MISTAKE_NAN_GRADIENT] = "nan-gradient",
        [MISTAKE_NO_GRADIENT] = "no-gradient",
    };
    for (int i = MISTAKE_NONE + 1; name && i <= MISTAKE_NO_GRADIENT; i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            return (enum mistake)i;
        }
    }
    return MISTAKE_NONE;
}

void mistake_in_batch(enum mistake mistake, int64_t batch, struct batch_entries *entries) {
    if (mistake == MISTAKE_BATCH_DTYPE && batch == 2) {
        entries->array[0].dtype = PAWL_I64;
    }
}

void mistake_in_batcher(enum mistake mistake, struct batcher *batcher) {
    if (mistake == MISTAKE_DATA_POSITION) {
        batcher_seek(batcher, 0, 0, batcher->shuffle_seed);
    }
}

void mistake_in_gradient(enum mistake mistake, struct variable *variable, pawl_array *gradient) {
    if (mistake == MISTAKE_NAN_GRADIENT) {
        variable->gradient[7] = NAN;
    }
    if (mistake == MISTAKE_NO_GRADIENT) {
        gradient->data = NULL;
    }
}
