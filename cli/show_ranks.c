/* SPDX-License-Identifier: Apache-2.0 */
/* pawl show, a per-rank entry: each rank's bytes. */
#include "memory.h"
#include "show.h"
#include "signals.h"
#include "text.h"

#include <stdlib.h>

enum { SHOWN_BYTES = 16 };

static const column columns[] = {{.title = "RANK", .right = true},
                                 {.title = "SIZE", .right = true},
                                 {.title = "BYTES", .shorten_turn = 1}};

static void put_rank_json(json *j, int rank, const char *bytes, size_t size) {
    json_begin_object(j, NULL, JSON_INLINE);
    json_put_int(j, "rank", rank);
    json_put_uint(j, "bytes", size);
    json_put_hex(j, "value", bytes, size);
    json_close(j);
}

static void put_rank_row(table *t, int rank, const char *bytes, size_t size) {
    char text[TEXT_SIZE];
    SCOPED(scoped_free) char *hex = entry_hex(bytes, size, SHOWN_BYTES);
    table_cell(t, "%d", rank);
    table_cell(t, "%s", text_bytes(text, size));
    table_cell(t, "%s", hex);
    table_row(t);
}

pawl_status show_ranks(output *out, pawl_checkpoint *checkpoint, const char *name) {
    pawl_checkpoint_info about = {.struct_size = sizeof about};
    pawl_status status = pawl_checkpoint_describe(checkpoint, &about, out->err);
    if (status != PAWL_OK) {
        return status;
    }
    table *t = table_new(out, columns, sizeof columns / sizeof columns[0]);
    if (!out->as_json) {
        putchar('\n');
    } else {
        json_begin_array(&out->json, "ranks", JSON_LINES);
    }
    for (int rank = 0; rank < about.world_size && status == PAWL_OK; rank++) {
        SCOPED(scoped_free) char *bytes = NULL;
        size_t size = 0;
        if (signals_caught()) {
            status = PAWL_ECANCELED;
            break;
        }
        size_t most = out->as_json ? SIZE_MAX : SHOWN_BYTES;
        status = entry_read_rank(checkpoint, name, rank, most, &bytes, &size, out->err);
        if (status == PAWL_OK && out->as_json) {
            put_rank_json(&out->json, rank, bytes, size);
        } else if (status == PAWL_OK) {
            put_rank_row(t, rank, bytes, size);
        }
    }
    table_end(t);
    if (out->as_json && status == PAWL_OK) {
        json_close(&out->json);
    }
    return status;
}
