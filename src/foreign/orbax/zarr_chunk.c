/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes what chunks are stored as, forwards: decompresses, and compares checksums. */
#include "foreign/orbax/zarr.h"

#include <isa-l/igzip_lib.h>
#include <string.h>
#include <zstd.h>

#define INPUT_BYTES ((size_t)1 << 18)
#define SUM_BYTES   4u

struct zarr_unpacker {
    zarr_codecs codecs;
    zarr_input in;
    uint64_t at, size; /* stored bytes that were taken, of all that are no checksum behind */
    uint64_t done, bytes;
    uint32_t within, behind; /* checksums so far */
    ZSTD_DCtx *zstd;
    struct inflate_state *inflate;
    uint8_t *room; /* of INPUT_BYTES, for what is in a file */
    const uint8_t *next;
    size_t left;
    bool ended;
};

void zarr_unpacker_free(zarr_unpacker *u) {
    if (u != NULL) {
        (void)ZSTD_freeDCtx(u->zstd);
        mem_free(u->inflate);
        mem_free(u->room);
        mem_free(u);
    }
}

static bool make_decoder(zarr_unpacker *u) {
    u->room = mem_alloc(INPUT_BYTES);
    if (u->codecs.packing == ZARR_ZSTD) {
        u->zstd = ZSTD_createDCtx();
        return u->room != NULL && u->zstd != NULL;
    }
    if (u->codecs.packing != ZARR_PLAIN) {
        u->inflate = mem_alloc(sizeof(*u->inflate));
        return u->room != NULL && u->inflate != NULL;
    }
    return u->room != NULL;
}

pawl_status zarr_unpacker_new(const zarr_codecs *codecs, zarr_unpacker **out, pawl_error *err) {
    zarr_unpacker *u = mem_calloc(1, sizeof(*u));
    if (u == NULL) {
        return error_nomem(err, sizeof(*u));
    }
    u->codecs = *codecs;
    if (!make_decoder(u)) {
        zarr_unpacker_free(u);
        return error_nomem(err, INPUT_BYTES);
    }
    *out = u;
    return PAWL_OK;
}

pawl_status zarr_unpack_begin(zarr_unpacker *u, const zarr_input *in, uint64_t bytes,
                              pawl_error *err) {
    uint64_t behind = u->codecs.sum_behind ? SUM_BYTES : 0;
    if (in->size < behind) {
        return error_set(err, PAWL_EDAMAGED, "a chunk is shorter than its checksum");
    }
    u->in = *in;
    u->at = 0;
    u->size = in->size - behind;
    u->done = 0;
    u->bytes = bytes;
    u->within = 0;
    u->behind = 0;
    u->next = u->room;
    u->left = 0;
    u->ended = false;
    if (u->zstd != NULL) {
        (void)ZSTD_DCtx_reset(u->zstd, ZSTD_reset_session_only);
        (void)ZSTD_DCtx_setParameter(u->zstd, ZSTD_d_windowLogMax, FOREIGN_MAX_ZSTD_WINDOW_LOG);
    }
    if (u->inflate != NULL) {
        isal_inflate_init(u->inflate);
        u->inflate->crc_flag = u->codecs.packing == ZARR_GZIP ? ISAL_GZIP : ISAL_ZLIB;
    }
    return PAWL_OK;
}

/* ---- stored bytes ---- */

static pawl_status take(zarr_unpacker *u, uint64_t at, void *to, size_t n, pawl_error *err) {
    if (u->in.bytes == NULL) {
        return store_read(u->in.file, u->in.offset + at, to, n, err);
    }
    memcpy(to, u->in.bytes + at, n);
    return PAWL_OK;
}

/* Some more of them, where there are any and none are left. */
static pawl_status fill_input(zarr_unpacker *u, pawl_error *err) {
    uint64_t more = u->size - u->at;
    if (u->left > 0 || more == 0) {
        return PAWL_OK;
    }
    size_t n = more < INPUT_BYTES ? (size_t)more : INPUT_BYTES;
    TRY(take(u, u->at, u->room, n, err));
    u->next = u->room;
    u->left = n;
    u->at += n;
    if (u->codecs.sum_behind) {
        u->behind = crc32c(u->behind, u->next, n);
    }
    return PAWL_OK;
}

static pawl_status ends_early(pawl_error *err) {
    return error_set(err, PAWL_EDAMAGED, "the bytes of a chunk end too early");
}

static pawl_status is_damaged(const char *found, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the compressed bytes of a chunk are damaged");
    error_found(err, "%s", found);
    return PAWL_EDAMAGED;
}

/* ---- decoders: at most n bytes; *got is 0 only at the end ---- */

static pawl_status step_plain(zarr_unpacker *u, uint8_t *to, size_t n, size_t *got,
                              pawl_error *err) {
    if (u->left == 0 && u->at < u->size && !u->codecs.sum_behind) { /* without a copy */
        uint64_t more = u->size - u->at;
        *got = more < n ? (size_t)more : n;
        TRY(take(u, u->at, to, *got, err));
        u->at += *got;
        return PAWL_OK;
    }
    TRY(fill_input(u, err));
    *got = u->left < n ? u->left : n;
    if (*got > 0) {
        memcpy(to, u->next, *got);
        u->next += *got;
        u->left -= *got;
    }
    return PAWL_OK;
}

static pawl_status step_zstd(zarr_unpacker *u, void *to, size_t n, size_t *got, pawl_error *err) {
    ZSTD_outBuffer out = {.dst = to, .size = n};
    for (;;) {
        TRY(fill_input(u, err));
        if (u->ended && u->left == 0) {
            break;
        }
        ZSTD_inBuffer in = {.src = u->next, .size = u->left};
        size_t code = ZSTD_decompressStream(u->zstd, &out, &in);
        if (ZSTD_isError(code)) {
            return is_damaged(ZSTD_getErrorName(code), err);
        }
        u->next += in.pos;
        u->left -= in.pos;
        u->ended = code == 0;
        if (out.pos > 0) {
            break;
        }
        if (in.pos == 0 && !u->ended) {
            return ends_early(err);
        }
    }
    *got = out.pos;
    return PAWL_OK;
}

static uint32_t at_most_32(size_t n) {
    return n < (1u << 30) ? (uint32_t)n : 1u << 30;
}

static pawl_status step_inflate(zarr_unpacker *u, uint8_t *to, size_t n, size_t *got,
                                pawl_error *err) {
    struct inflate_state *s = u->inflate;
    uint32_t room = at_most_32(n);
    *got = 0;
    while (*got == 0 && s->block_state != ISAL_BLOCK_FINISH) {
        TRY(fill_input(u, err));
        uint32_t had = at_most_32(u->left);
        s->next_in = (uint8_t *)u->next; /* read only */
        s->avail_in = had;
        s->next_out = to;
        s->avail_out = room;
        int code = isal_inflate(s);
        if (code != ISAL_DECOMP_OK) {
            return is_damaged(
                code == ISAL_INCORRECT_CHECKSUM ? "another checksum" : "no compressed bytes", err);
        }
        u->next += had - s->avail_in;
        u->left -= had - s->avail_in;
        *got = room - s->avail_out;
        if (*got == 0 && s->block_state != ISAL_BLOCK_FINISH && u->left == 0 && u->at == u->size) {
            return ends_early(err);
        }
    }
    return PAWL_OK;
}

static pawl_status step(zarr_unpacker *u, uint8_t *to, size_t n, size_t *got, pawl_error *err) {
    switch (u->codecs.packing) {
    case ZARR_PLAIN:
        return step_plain(u, to, n, got, err);
    case ZARR_ZSTD:
        return step_zstd(u, to, n, got, err);
    default:
        return step_inflate(u, to, n, got, err);
    }
}

static pawl_status unpack_all(zarr_unpacker *u, uint8_t *to, size_t n, pawl_error *err) {
    while (n > 0) {
        size_t got = 0;
        TRY(step(u, to, n, &got, err));
        if (got == 0) {
            return ends_early(err);
        }
        to += got;
        n -= got;
    }
    return PAWL_OK;
}

/* ---- the end ---- */

static pawl_status compare_sum(const uint8_t stored[SUM_BYTES], uint32_t is, pawl_error *err) {
    uint32_t said = (uint32_t)stored[0] | (uint32_t)stored[1] << 8 | (uint32_t)stored[2] << 16 |
                    (uint32_t)stored[3] << 24;
    if (said == is) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "a chunk has another checksum");
    error_expected(err, "%08x, as is written behind it", said);
    error_found(err, "%08x", is);
    return PAWL_EDAMAGED;
}

static pawl_status check_end(zarr_unpacker *u, pawl_error *err) {
    uint8_t bytes[SUM_BYTES] = {0};
    size_t got = 0;
    if (u->codecs.sum_within) {
        TRY(unpack_all(u, bytes, SUM_BYTES, err));
        TRY(compare_sum(bytes, u->within, err));
    }
    TRY(step(u, bytes, 1, &got, err));
    if (got > 0 || u->left > 0 || u->at < u->size) {
        error_set(err, PAWL_EDAMAGED, "a chunk has more bytes than its elements have");
        error_expected(err, "%llu bytes", (unsigned long long)u->bytes);
        return PAWL_EDAMAGED;
    }
    if (u->codecs.sum_behind) {
        TRY(take(u, u->size, bytes, SUM_BYTES, err));
        TRY(compare_sum(bytes, u->behind, err));
    }
    return PAWL_OK;
}

pawl_status zarr_unpack(zarr_unpacker *u, void *to, size_t n, pawl_error *err) {
    TRY(unpack_all(u, to, n, err));
    if (u->codecs.sum_within) {
        u->within = crc32c(u->within, to, n);
    }
    u->done += n;
    return u->done == u->bytes && n > 0 ? check_end(u, err) : PAWL_OK;
}
