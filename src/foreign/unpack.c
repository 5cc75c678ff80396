/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders, one for each way of compressing: those of the deflate family are ISA-L's. */
#include "foreign/unpack.h"

#include <isa-l/igzip_lib.h>
#include <string.h>

typedef struct decoder {
    size_t state_bytes; /* 0: there is none */
    uint32_t flag;      /* for `begin` */
    uint32_t most;      /* bytes that one compressed byte can become */
    void (*begin)(void *state, uint32_t flag);
    pawl_status (*step)(void *state, unpack_step *step, pawl_error *err);
} decoder;

/* ---- deflate, zlib, gzip ---- */

/* A match has at most 258 bytes, and takes 2 bits. */
#define INFLATE_MOST 1032u

static void begin_inflate(void *state, uint32_t flag) {
    struct inflate_state *s = state;
    isal_inflate_init(s);
    s->crc_flag = flag;
}

static const char *inflate_says(int code) {
    switch (code) {
    case ISAL_INVALID_BLOCK:
        return "a block that there cannot be";
    case ISAL_INVALID_SYMBOL:
        return "a symbol that there cannot be";
    case ISAL_INVALID_LOOKBACK:
        return "a repetition of bytes before the first one";
    case ISAL_INVALID_WRAPPER:
        return "a header that is none";
    case ISAL_UNSUPPORTED_METHOD:
        return "a header of another method";
    case ISAL_INCORRECT_CHECKSUM:
        return "another checksum";
    case ISAL_NEED_DICT:
        return "a dictionary that is needed, and is not there";
    default:
        return "no compressed bytes";
    }
}

static uint32_t at_most_32(size_t n) {
    return n < (1u << 30) ? (uint32_t)n : 1u << 30;
}

static pawl_status step_inflate(void *state, unpack_step *step, pawl_error *err) {
    struct inflate_state *s = state;
    uint32_t in = at_most_32(step->in_bytes);
    uint32_t room = at_most_32(step->room);
    if (s->block_state == ISAL_BLOCK_FINISH) {
        step->ended = true;
        return PAWL_OK;
    }
    s->next_in = (uint8_t *)step->in; /* read only */
    s->avail_in = in;
    s->next_out = step->out;
    s->avail_out = room;
    int code = isal_inflate(s);
    if (code != ISAL_DECOMP_OK) {
        error_set(err, PAWL_EDAMAGED, "the compressed bytes are damaged");
        error_found(err, "%s", inflate_says(code));
        return PAWL_EDAMAGED;
    }
    step->in += in - s->avail_in;
    step->in_bytes -= in - s->avail_in;
    step->out += room - s->avail_out;
    step->room -= room - s->avail_out;
    step->ended = s->block_state == ISAL_BLOCK_FINISH;
    step->over = step->ended ? (unsigned)s->read_in_length / 8 : 0; /* it does not give them back */
    return PAWL_OK;
}

/* Where one ends, another one may follow (RFC 1952, 2.2). Nothing is taken over: its trailer is
 * longer than what is read ahead. */
static pawl_status step_gzip(void *state, unpack_step *step, pawl_error *err) {
    struct inflate_state *s = state;
    if (s->block_state == ISAL_BLOCK_FINISH && step->in_bytes > 0) {
        begin_inflate(state, ISAL_GZIP);
    }
    return step_inflate(state, step, err);
}

/* ---- all of them ---- */

#define INFLATE(kind, function)                                                                    \
    {                                                                                              \
        .state_bytes = sizeof(struct inflate_state), .flag = (kind), .most = INFLATE_MOST,         \
        .begin = begin_inflate, .step = (function)                                                 \
    }

static const decoder decoders[] = {
    [STREAM_DEFLATE] = INFLATE(ISAL_DEFLATE, step_inflate),
    [STREAM_ZLIB] = INFLATE(ISAL_ZLIB, step_inflate),
    [STREAM_GZIP] = INFLATE(ISAL_GZIP, step_gzip),
    [STREAM_ZSTD] = {.state_bytes = 0},
};

struct unpacker {
    const decoder *of;
    _Alignas(max_align_t) uint8_t state[];
};

static pawl_status find_decoder(stream_packing packing, const decoder **out, pawl_error *err) {
    if ((size_t)packing < ARRAY_LENGTH(decoders) && decoders[packing].state_bytes > 0) {
        *out = &decoders[packing];
        return PAWL_OK;
    }
    error_set(err, PAWL_EUNSUPPORTED, "bytes are compressed in a way that is not read");
    error_expected(err, "deflate, zlib or gzip");
    return PAWL_EUNSUPPORTED;
}

pawl_status unpacker_new(stream_packing packing, unpacker **out, pawl_error *err) {
    const decoder *of;
    TRY(find_decoder(packing, &of, err));
    unpacker *u = mem_alloc(sizeof(*u) + of->state_bytes);
    if (u == NULL) {
        return error_nomem(err, sizeof(*u) + of->state_bytes);
    }
    u->of = of;
    unpacker_begin(u);
    *out = u;
    return PAWL_OK;
}

void unpacker_begin(unpacker *u) {
    u->of->begin(u->state, u->of->flag);
}

void unpacker_free(unpacker *u) {
    mem_free(u);
}

void unpacker_free_pointer(unpacker **u) {
    unpacker_free(*u);
}

pawl_status unpacker_step(unpacker *u, unpack_step *step, pawl_error *err) {
    return u->of->step(u->state, step, err);
}

pawl_status unpack_fits(stream_packing packing, uint64_t packed_bytes, uint64_t bytes, bool *fits,
                        pawl_error *err) {
    const decoder *of;
    uint64_t most;
    TRY(find_decoder(packing, &of, err));
    *fits = multiply_overflows(packed_bytes, of->most, &most) || bytes <= most;
    return PAWL_OK;
}
