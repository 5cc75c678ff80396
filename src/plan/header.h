/* SPDX-License-Identifier: Apache-2.0 */
/* header: the safetensors header of one file of a layout, and an upper bound of its size. */
#ifndef PLAN_HEADER_H
#define PLAN_HEADER_H

#include "plan/plan.h"

/* The most bytes that one piece adds to a header: always, and in addition where some piece of its
 * file is not a whole tensor. */
typedef struct header_cost {
    uint64_t always, sharding;
} header_cost;
header_cost header_piece_cost(const plan_piece *piece);
/* What a header has without any piece, padding included. */
#define HEADER_BASE_BYTES 8192u

bool piece_is_whole(const plan_piece *piece);
/* Encodes file->header, sets the size of the file and the places of its pieces. */
pawl_status header_make(const plan_layout *layout, plan_file *file, pawl_error *err)
    PAWL_MUST_CHECK;
/* Can header_set_step put `to` in the place of `from`? */
bool header_fits_step(int64_t from, int64_t to);
void header_set_step(buffer *header, int64_t step);

#endif
