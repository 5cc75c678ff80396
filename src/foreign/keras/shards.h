/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/keras/shards: the `.weights.json` of sharded weights. Private to this folder. */
#ifndef FOREIGN_KERAS_SHARDS_H
#define FOREIGN_KERAS_SHARDS_H

#include "base/base.h"

typedef struct keras_place {
    const char *path; /* "layers/dense/vars": without the / that it begins with */
    uint64_t at;      /* in the text */
} keras_place;

typedef struct keras_shards {
    const char **files; /* ascending, each once */
    size_t file_count;
    keras_place *places; /* in order of the text */
    size_t place_count;
    const char *metadata; /* JSON; NULL: none */
    arena memory;
    size_t file_room, place_room;
} keras_shards;

pawl_status keras_shards_decode(const void *text, size_t n, keras_shards *out, pawl_error *err)
    PAWL_MUST_CHECK;
void keras_shards_free(keras_shards *shards);

#endif
