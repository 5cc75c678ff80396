/* SPDX-License-Identifier: Apache-2.0 */
/* What is compressed with zstd, all at once. */
#include "foreign/orbax/zstd.h"
#include "format/limits.h"

#include <zstd.h>

#define STEP_BYTES ((size_t)1 << 17)

static void free_context(ZSTD_DCtx **context) {
    (void)ZSTD_freeDCtx(*context);
}

static pawl_status zstd_failed(size_t code, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the bytes that zstd compressed are damaged");
    error_found(err, "%s", ZSTD_getErrorName(code));
    return PAWL_EDAMAGED;
}

static pawl_status too_long(size_t limit, pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "compressed bytes become too many");
    error_expected(err, "at most %zu bytes", limit);
    return PAWL_ELIMIT;
}

pawl_status zstd_unpack(const void *packed, size_t n, size_t limit, buffer *out, pawl_error *err) {
    CLEANUP(free_context) ZSTD_DCtx *context = ZSTD_createDCtx();
    ZSTD_inBuffer in = {.src = packed, .size = n};
    size_t begun = out->size;
    size_t left = 1;
    if (context == NULL) {
        return error_nomem(err, STEP_BYTES);
    }
    (void)ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, FOREIGN_MAX_ZSTD_WINDOW_LOG);
    while (left != 0 || in.pos < in.size) {
        size_t room = limit - (out->size - begun);
        room = room < STEP_BYTES ? room + 1 : STEP_BYTES; /* one more shows that there are more */
        TRY(buffer_reserve(out, room, err));
        ZSTD_outBuffer to = {.dst = out->data + out->size, .size = room};
        size_t was = in.pos;
        left = ZSTD_decompressStream(context, &to, &in);
        if (ZSTD_isError(left)) {
            return zstd_failed(left, err);
        }
        out->size += to.pos;
        if (out->size - begun > limit) {
            out->size = begun;
            return too_long(limit, err);
        }
        if (left != 0 && to.pos == 0 && in.pos == was) {
            error_set(err, PAWL_EDAMAGED, "the bytes that zstd compressed end too early");
            return PAWL_EDAMAGED;
        }
        out->data[out->size] = 0;
    }
    return PAWL_OK;
}
