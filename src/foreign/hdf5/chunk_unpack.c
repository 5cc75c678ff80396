/* SPDX-License-Identifier: Apache-2.0 */
/* Undoes what the filters of a dataset did to a chunk, but for shuffling. */
#include "foreign/hdf5/chunk_unpack.h"

#define STEP_BYTES ((size_t)65536)
#define SUM_BYTES  ((size_t)4)

/* What was done to a chunk: its mask says which filters were left out. */
typedef struct steps {
    bool shuffle, deflate, lzf;
    unsigned inner, outer; /* checksums of what was then compressed, and of what came out of it */
} steps;

static steps steps_of(const hdf5_filters *filters, uint32_t mask) {
    steps s = {.shuffle = false};
    for (unsigned i = 0; i < filters->count; i++) {
        if ((mask >> i & 1) != 0) {
            continue;
        }
        s.shuffle = s.shuffle || filters->id[i] == HDF5_SHUFFLE;
        s.deflate = s.deflate || filters->id[i] == HDF5_DEFLATE;
        s.lzf = s.lzf || filters->id[i] == HDF5_LZF;
        if (filters->id[i] == HDF5_FLETCHER32 && (s.deflate || s.lzf)) {
            s.outer++;
        } else if (filters->id[i] == HDF5_FLETCHER32) {
            s.inner++;
        }
    }
    return s;
}

bool chunk_is_packed(const hdf5_filters *filters, uint32_t mask) {
    const steps s = steps_of(filters, mask);
    return s.shuffle || s.deflate || s.lzf || s.inner > 0 || s.outer > 0;
}

uint64_t chunk_room(const hdf5_filters *filters, uint64_t chunk_bytes) {
    return chunk_bytes + SUM_BYTES * (uint64_t)filters->count;
}

void chunk_unpacker_free(chunk_unpacker *u) {
    mem_free(u->data);
    mem_free(u->packed);
    unpacker_free(u->zlib);
}

static pawl_status wrong(const hdf5_chunk *chunk, pawl_error *err, const char *what) {
    error_set(err, PAWL_EDAMAGED, "the chunk at byte %llu of the HDF5 file is wrong: %s",
              (unsigned long long)chunk->at, what);
    error_range(err, chunk->at, chunk->stored);
    return PAWL_EDAMAGED;
}

/* ---- checksums ---- */

/* Old versions of HDF5 stored the bytes of each half the other way round. */
static uint32_t reversed(uint32_t sum) {
    return (sum & 0x00ff00ff) << 8 | (sum >> 8 & 0x00ff00ff);
}

static pawl_status compare_sum(const hdf5_chunk *chunk, uint32_t computed, const uint8_t *stored,
                               pawl_error *err) {
    uint32_t sum = (uint32_t)stored[0] | (uint32_t)stored[1] << 8 | (uint32_t)stored[2] << 16 |
                   (uint32_t)stored[3] << 24;
    if (sum == computed || sum == reversed(computed)) {
        return PAWL_OK;
    }
    (void)wrong(chunk, err, "its checksum does not match");
    error_expected(err, "%08x, as is stored", sum);
    error_found(err, "%08x", computed);
    return PAWL_EDAMAGED;
}

static pawl_status check_inner(const chunk_unpacker *u, unsigned sums, const hdf5_chunk *chunk,
                               uint64_t bytes, pawl_error *err) {
    for (unsigned i = sums; i > 0; i--) {
        hdf5_fletcher sum = {.one = 0};
        size_t n = (size_t)bytes + SUM_BYTES * (i - 1);
        hdf5_fletcher_add(&sum, u->data, n);
        TRY(compare_sum(chunk, hdf5_fletcher_end(&sum), u->data + n, err));
    }
    return PAWL_OK;
}

/* ---- compressed bytes ---- */

static pawl_status need_packed(chunk_unpacker *u, uint64_t bytes, pawl_error *err) {
    if (u->packed_room >= bytes) {
        return PAWL_OK;
    }
    mem_free(u->packed);
    u->packed_room = 0;
    u->packed = mem_alloc((size_t)bytes);
    if (u->packed == NULL) {
        return error_nomem(err, (size_t)bytes);
    }
    u->packed_room = (size_t)bytes;
    return PAWL_OK;
}

/* Some at a time: what is compressed may be longer than what comes out of it. */
typedef struct feed {
    chunk_unpacker *u;
    uint64_t at, left;
    hdf5_fletcher *sum; /* NULL: none */
} feed;

static pawl_status feed_more(feed *f, unpack_step *step, pawl_error *err) {
    size_t n = f->left < STEP_BYTES ? (size_t)f->left : STEP_BYTES;
    TRY(store_read(f->u->inner, f->at, f->u->packed, n, err));
    if (f->sum != NULL) {
        hdf5_fletcher_add(f->sum, f->u->packed, n);
    }
    f->at += n;
    f->left -= n;
    step->in = f->u->packed;
    step->in_bytes = n;
    return PAWL_OK;
}

static pawl_status inflate_step(chunk_unpacker *u, unpack_step *step, const hdf5_chunk *chunk,
                                pawl_error *err) {
    size_t in = step->in_bytes;
    size_t room = step->room;
    pawl_status status = unpacker_step(u->zlib, step, err);
    if (status == PAWL_EDAMAGED) {
        error_range(err, chunk->at, chunk->stored);
        error_wrap(err, "the chunk at byte %llu of the HDF5 file is wrong",
                   (unsigned long long)chunk->at);
    }
    if (status != PAWL_OK || step->ended || step->in_bytes != in || step->room != room) {
        return status;
    }
    return wrong(chunk, err,
                 room == 0 ? "more is compressed in it than a chunk has"
                           : "what is compressed ends too early");
}

static pawl_status inflate_all(feed *f, uint64_t room, const hdf5_chunk *chunk, pawl_error *err) {
    unpack_step step = {.out = f->u->data, .room = (size_t)room};
    while (!step.ended) {
        if (step.in_bytes == 0 && f->left > 0) {
            TRY(feed_more(f, &step, err));
        }
        TRY(inflate_step(f->u, &step, chunk, err));
    }
    if (step.room > 0 || step.in_bytes > 0 || f->left > 0) {
        return wrong(chunk, err,
                     step.room > 0 ? "less is compressed in it than a chunk has"
                                   : "bytes follow what is compressed");
    }
    return PAWL_OK;
}

static pawl_status inflate_chunk(chunk_unpacker *u, const hdf5_chunk *chunk, uint64_t payload,
                                 uint64_t room, hdf5_fletcher *sum, pawl_error *err) {
    feed f = {.u = u, .at = chunk->at, .left = payload, .sum = sum};
    TRY(need_packed(u, STEP_BYTES, err));
    if (u->zlib == NULL) {
        TRY(unpacker_new(STREAM_ZLIB, &u->zlib, err));
    }
    unpacker_begin(u->zlib);
    return inflate_all(&f, room, chunk, err);
}

/* A byte below 32: so many and one more bytes follow. Otherwise bytes that came before: its higher
 * three bits say how many, and the next byte more where they are 7; the lower five, and one more
 * byte, how far back. */
bool chunk_unpack_lzf(const uint8_t *in, size_t n, uint8_t *out, size_t room) {
    size_t at = 0;
    size_t made = 0;
    while (at < n) {
        size_t control = in[at++];
        if (control < 32) {
            size_t count = control + 1;
            if (count > n - at || count > room - made) {
                return false;
            }
            memcpy(out + made, in + at, count);
            at += count;
            made += count;
            continue;
        }
        size_t count = control >> 5;
        if (count == 7 && at < n) {
            count += in[at++];
        }
        if (at == n) {
            return false;
        }
        size_t back = ((control & 31) << 8 | in[at++]) + 1;
        count += 2;
        if (back > made || count > room - made) {
            return false;
        }
        for (size_t i = 0; i < count; i++, made++) {
            out[made] = out[made - back];
        }
    }
    return made == room;
}

static pawl_status unpack_by_lzf(chunk_unpacker *u, const hdf5_chunk *chunk, uint64_t payload,
                                 uint64_t room, hdf5_fletcher *sum, pawl_error *err) {
    TRY(need_packed(u, payload, err));
    TRY(store_read(u->inner, chunk->at, u->packed, (size_t)payload, err));
    if (sum != NULL) {
        hdf5_fletcher_add(sum, u->packed, (size_t)payload);
    }
    return chunk_unpack_lzf(u->packed, (size_t)payload, u->data, (size_t)room)
               ? PAWL_OK
               : wrong(chunk, err, "what LZF compressed cannot be decompressed");
}

/* ---- a chunk ---- */

pawl_status chunk_unpack(chunk_unpacker *u, const hdf5_filters *filters, const hdf5_chunk *chunk,
                         uint64_t chunk_bytes, pawl_error *err) {
    const steps s = steps_of(filters, chunk->mask);
    uint64_t room = chunk_bytes + SUM_BYTES * s.inner;
    hdf5_fletcher sum = {.one = 0};
    hdf5_fletcher *summed = s.outer > 0 ? &sum : NULL;
    uint8_t stored[SUM_BYTES];
    if (chunk->stored < SUM_BYTES * s.outer) {
        return wrong(chunk, err, "it has no room for its checksum");
    }
    uint64_t payload = chunk->stored - SUM_BYTES * s.outer;
    if (s.deflate) {
        TRY(inflate_chunk(u, chunk, payload, room, summed, err));
    } else if (s.lzf) {
        TRY(unpack_by_lzf(u, chunk, payload, room, summed, err));
    } else if (payload != room) {
        return wrong(chunk, err, "it has another size than a chunk");
    } else {
        TRY(store_read(u->inner, chunk->at, u->data, (size_t)room, err));
    }
    if (summed != NULL) {
        TRY(store_read(u->inner, chunk->at + payload, stored, sizeof(stored), err));
        TRY(compare_sum(chunk, hdf5_fletcher_end(&sum), stored, err));
    }
    u->shuffled = s.shuffle;
    return check_inner(u, s.inner, chunk, chunk_bytes, err);
}
