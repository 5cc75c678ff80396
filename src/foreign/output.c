/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is written from its beginning to its end, in large pieces. */
#include "foreign/writer.h"

#include <string.h>

#define OUTPUT_BYTES 4194304u /* a multiple of STORE_DIRECT_ALIGNMENT */

pawl_status output_open(output *o, store *s, const char *path, pawl_error *err) {
    *o = (output){.memory = mem_pages(OUTPUT_BYTES)};
    if (o->memory == NULL) {
        return error_nomem(err, OUTPUT_BYTES);
    }
    return store_open(s, path, STORE_CREATE_BULK, &o->file, err);
}

static pawl_status flush(output *o, pawl_error *err) {
    TRY(store_write(o->file, o->at - o->used, o->memory, o->used, err));
    o->used = 0;
    return PAWL_OK;
}

pawl_status output_write(output *o, const void *bytes, size_t n, pawl_error *err) {
    for (const uint8_t *from = bytes; n > 0;) {
        size_t room = OUTPUT_BYTES - o->used;
        size_t part = n < room ? n : room;
        memcpy(o->memory + o->used, from, part);
        o->used += part;
        o->at += part;
        from += part;
        n -= part;
        if (o->used == OUTPUT_BYTES) {
            TRY(flush(o, err));
        }
    }
    return PAWL_OK;
}

pawl_status output_align(output *o, uint32_t alignment, pawl_error *err) {
    static const uint8_t zeros[STORE_DIRECT_ALIGNMENT];
    uint64_t over = o->at % alignment;
    for (uint64_t left = over > 0 ? alignment - over : 0; left > 0;) {
        size_t part = left < sizeof(zeros) ? (size_t)left : sizeof(zeros);
        TRY(output_write(o, zeros, part, err));
        left -= part;
    }
    return PAWL_OK;
}

pawl_status output_take(void *to, const uint8_t *bytes, size_t n, pawl_error *err) {
    return output_write(to, bytes, n, err);
}

pawl_status output_end(output *o, pawl_error *err) {
    if (o->used > 0) {
        TRY(flush(o, err));
    }
    TRY(store_sync(o->file, err));
    output_close(o);
    return PAWL_OK;
}

void output_close(output *o) {
    store_close(o->file);
    mem_free(o->memory);
    o->file = NULL;
    o->memory = NULL;
}
