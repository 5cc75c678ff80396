/* SPDX-License-Identifier: Apache-2.0 */
/* Reads two matrices, one of them turned, tile by tile: so that the memory is bounded, and both are
 * read in long runs of bytes. */
#include "diff/private.h"

#include <string.h>

enum {
    TILE_BYTES = 8 * 1024 * 1024,
    PATCH = 16 /* rows and columns that are turned at once, within a processor's cache */
};

typedef struct tile {
    int64_t rows, columns; /* of B */
} tile;

/* About as many rows as columns, or more of one where there are few of the other. */
static tile tile_of(const int64_t *shape, size_t size) {
    int64_t most = TILE_BYTES / (int64_t)size;
    int64_t side = 1;
    while (side * side * 4 <= most) {
        side *= 2;
    }
    tile t = {.rows = shape[0] < side ? shape[0] : side};
    t.columns = shape[1] < most / t.rows ? shape[1] : most / t.rows;
    t.rows = shape[0] < most / t.columns ? shape[0] : most / t.columns;
    return t;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

void diff_turn(const uint8_t *from, size_t rows, size_t columns, size_t size, uint8_t *to) {
    for (size_t row = 0; row < rows; row += PATCH) {
        for (size_t column = 0; column < columns; column += PATCH) {
            size_t last_row = least(row + PATCH, rows);
            size_t last_column = least(column + PATCH, columns);
            for (size_t i = row; i < last_row; i++) {
                for (size_t j = column; j < last_column; j++) {
                    memcpy(to + (j * rows + i) * size, from + (i * columns + j) * size, size);
                }
            }
        }
    }
}

/* What one tile needs. */
typedef struct tile_room {
    uint8_t *a, *b, *turned;
} tile_room;

static pawl_status read_tile(const comparison *c, const pawl_entry_info *a,
                             const pawl_entry_info *b, const int64_t offset[2],
                             const int64_t extent[2], size_t size, const tile_room *room,
                             pawl_error *err) {
    const int64_t offset_a[2] = {offset[1], offset[0]};
    const int64_t extent_a[2] = {extent[1], extent[0]};
    size_t bytes = (size_t)extent[0] * (size_t)extent[1] * size;
    TRY(checkpoint_read(c->a, a->name, offset_a, extent_a, room->a, bytes, err));
    TRY(checkpoint_read(c->b, b->name, offset, extent, room->b, bytes, err));
    diff_turn(room->a, (size_t)extent_a[0], (size_t)extent_a[1], size, room->turned);
    return diff_go_on(c, err);
}

pawl_status diff_read_turned(const comparison *c, const pawl_entry_info *a,
                             const pawl_entry_info *b, size_t size, diff_part part, void *context,
                             pawl_error *err) {
    if (b->bytes == 0) {
        return PAWL_OK;
    }
    const tile t = tile_of(b->shape, size);
    size_t bytes = (size_t)t.rows * (size_t)t.columns * size;
    AUTOFREE uint8_t *memory = mem_alloc(3 * bytes);
    if (memory == NULL) {
        return error_nomem(err, 3 * bytes);
    }
    const tile_room room = {.a = memory, .b = memory + bytes, .turned = memory + 2 * bytes};
    for (int64_t row = 0; row < b->shape[0]; row += t.rows) {
        for (int64_t column = 0; column < b->shape[1]; column += t.columns) {
            int64_t rows = b->shape[0] - row < t.rows ? b->shape[0] - row : t.rows;
            int64_t columns = b->shape[1] - column < t.columns ? b->shape[1] - column : t.columns;
            const int64_t offset[2] = {row, column};
            const int64_t extent[2] = {rows, columns};
            TRY(read_tile(c, a, b, offset, extent, size, &room, err));
            part(context, room.turned, room.b, (uint64_t)rows * (uint64_t)columns);
        }
    }
    return PAWL_OK;
}
