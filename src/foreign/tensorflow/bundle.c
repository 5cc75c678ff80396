/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the index of a tensor bundle (tensor_bundle.proto and tensor_shape.proto of TensorFlow;
 * https://github.com/google/leveldb/blob/main/doc/table_format.md). */
#include "foreign/tensorflow/bundle.h"
#include "format/limits.h"

#include <stdlib.h>
#include <string.h>

#define FOOTER_BYTES  48u
#define TRAILER_BYTES 5u /* of a block: how it is compressed, and its checksum */
/* Memory for each byte of an index, and for any index. */
#define MOST_GROWTH  32u
#define LEAST_MEMORY 1048576u
#define MOST_KEY     65536u

static const uint8_t magic[BUNDLE_MAGIC_BYTES] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};

bool bundle_looks_like(const uint8_t *tail, size_t n) {
    return n >= sizeof(magic) && memcmp(tail + n - sizeof(magic), magic, sizeof(magic)) == 0;
}

static pawl_status refuse(uint64_t at, const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the index is wrong at byte %llu: %s", (unsigned long long)at,
              what);
    error_range(err, at, 1);
    return PAWL_EDAMAGED;
}

/* ---- records -------------------------------------------------------------------------------- */

static cursor message(bundle_text text, const char *what) {
    return cursor_of(text.bytes, text.n, 0, what);
}

/* A dimension, whose size is field 1. */
static pawl_status decode_dim(bundle_text text, int64_t *out, pawl_error *err) {
    cursor c = message(text, "shape of a tensor");
    proto_field f;
    bool more = true;
    *out = 0;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            return *out >= 0 ? PAWL_OK
                             : error_set(err, PAWL_EDAMAGED, "a tensor has a negative dimension");
        }
        *out = f.number == 1 && f.wire == 0 ? (int64_t)f.value : *out;
    }
}

/* What is written once and stands for many, such as the beginning of a key, must not become far
 * more than it is. */
static void *take(bundle *b, size_t bytes, pawl_error *err) {
    b->taken += bytes;
    if (b->taken > b->may_take) {
        error_set(err, PAWL_ELIMIT, "the index would become far more than it is");
        error_expected(err, "at most %llu bytes", (unsigned long long)b->may_take);
        return NULL;
    }
    return arena_take(&b->memory, bytes, err);
}

static pawl_status decode_shape(bundle *b, bundle_text text, bundle_entry *e, pawl_error *err) {
    cursor c = message(text, "shape of a tensor");
    int64_t shape[PAWL_MAX_NDIM];
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number != 2 || f.wire != 2) {
            continue;
        }
        if (e->ndim == PAWL_MAX_NDIM) {
            return error_set(err, PAWL_EUNSUPPORTED, "a tensor has more than %d dimensions",
                             PAWL_MAX_NDIM);
        }
        TRY(decode_dim(f.text, &shape[e->ndim++], err));
    }
    int64_t *kept = take(b, ((size_t)e->ndim + 1) * sizeof(*kept), err);
    if (kept == NULL) {
        return err->status;
    }
    if (e->ndim > 0) {
        memcpy(kept, shape, (size_t)e->ndim * sizeof(*kept));
    }
    e->shape = kept;
    return PAWL_OK;
}

typedef struct extents {
    int64_t start[PAWL_MAX_NDIM], length[PAWL_MAX_NDIM];
    int ndim;
} extents;

/* start 1, length 2; without a length it is all of the dimension. */
static pawl_status decode_extent(bundle_text text, extents *s, pawl_error *err) {
    cursor c = message(text, "slice of a tensor");
    proto_field f;
    bool more = true;
    if (s->ndim == PAWL_MAX_NDIM) {
        return error_set(err, PAWL_EUNSUPPORTED, "a slice has more than %d dimensions",
                         PAWL_MAX_NDIM);
    }
    int d = s->ndim++;
    s->start[d] = 0;
    s->length[d] = -1;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.wire == 0 && f.number == 1) {
            s->start[d] = (int64_t)f.value;
        } else if (f.wire == 0 && f.number == 2) {
            s->length[d] = (int64_t)f.value;
        }
    }
}

static pawl_status keep_extents(bundle *b, const extents *all, bundle_slice *out, pawl_error *err) {
    size_t n = (size_t)all->ndim;
    int64_t *numbers = arena_take(&b->memory, (2 * n + 1) * sizeof(*numbers), err);
    if (numbers == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(numbers, all->start, n * sizeof(*numbers));
    memcpy(numbers + n, all->length, n * sizeof(*numbers));
    *out = (bundle_slice){.start = numbers, .length = numbers + n, .ndim = all->ndim};
    return PAWL_OK;
}

static pawl_status decode_slice(bundle *b, bundle_text text, bundle_slice *out, pawl_error *err) {
    cursor c = message(text, "slice of a tensor");
    extents all = {.ndim = 0};
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            return keep_extents(b, &all, out, err);
        }
        if (f.number == 1 && f.wire == 2) {
            TRY(decode_extent(f.text, &all, err));
        }
    }
}

/* The slices are counted first. */
static pawl_status decode_slices(bundle *b, bundle_text text, bundle_entry *e, pawl_error *err) {
    size_t i = 0;
    bool more = true;
    proto_field f;
    e->slices = take(b, e->slice_count * sizeof(*e->slices), err);
    if (e->slices == NULL) {
        return err->status;
    }
    cursor c = message(text, "record of a tensor");
    while (i < e->slice_count) {
        TRY(proto_next(&c, &f, &more, err));
        if (more && f.number == 7 && f.wire == 2) {
            TRY(decode_slice(b, f.text, &e->slices[i++], err));
        }
    }
    return PAWL_OK;
}

static pawl_status decode_record(bundle *b, bundle_text text, bundle_entry *e, pawl_error *err) {
    cursor c = message(text, "record of a tensor");
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 2 && f.wire == 2) {
            TRY(decode_shape(b, f.text, e, err));
        } else if (f.number == 7 && f.wire == 2) {
            e->slice_count++;
        } else if (f.number == 6 && f.wire == 5) {
            e->crc = (uint32_t)f.value;
        } else if (f.wire == 0) {
            e->type = f.number == 1 ? (uint32_t)f.value : e->type;
            e->shard = f.number == 3 ? (uint32_t)f.value : e->shard;
            e->offset = f.number == 4 ? f.value : e->offset;
            e->bytes = f.number == 5 ? f.value : e->bytes;
        }
    }
    if (e->slice_count > FORMAT_MAX_PIECES) {
        return error_set(err, PAWL_ELIMIT, "a tensor has too many slices");
    }
    return e->slice_count > 0 ? decode_slices(b, text, e, err) : PAWL_OK;
}

static pawl_status decode_header(bundle *b, bundle_text text, pawl_error *err) {
    cursor c = message(text, "header of the index");
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            return b->shards > 0 && b->shards <= FOREIGN_MAX_SHARDS
                       ? PAWL_OK
                       : error_set(err, PAWL_ELIMIT,
                                   "the index names no file of data, or more than %u",
                                   FOREIGN_MAX_SHARDS);
        }
        if (f.wire == 0 && f.number == 1) {
            b->shards = f.value <= UINT32_MAX ? (uint32_t)f.value : UINT32_MAX;
        } else if (f.wire == 0 && f.number == 2) {
            b->swapped = f.value == 1;
        }
    }
}

/* ---- blocks --------------------------------------------------------------------------------- */

typedef struct decoding {
    bundle *out;
    const uint8_t *index;
    size_t n;
    buffer unpacked, key;
    bool headed;
} decoding;

typedef struct handle {
    uint64_t offset, bytes;
} handle;

static pawl_status take_handle(cursor *c, handle *out, pawl_error *err) {
    TRY(cursor_varint64(c, &out->offset, err));
    return cursor_varint64(c, &out->bytes, err);
}

/* A block, whose checksum fits, decompressed. What was compressed lives until the next one. */
static pawl_status load_block(decoding *d, handle h, cursor *out, pawl_error *err) {
    uint64_t end;
    if (add_overflows(h.offset, h.bytes, &end) || end > d->n || d->n - end < TRAILER_BYTES) {
        return refuse(h.offset < d->n ? h.offset : d->n, "a block goes beyond the end", err);
    }
    const uint8_t *block = d->index + h.offset;
    size_t n = (size_t)h.bytes;
    uint32_t said = (uint32_t)block[n + 1] | (uint32_t)block[n + 2] << 8 |
                    (uint32_t)block[n + 3] << 16 | (uint32_t)block[n + 4] << 24;
    if (crc32c_mask(crc32c(0, block, n + 1)) != said) {
        return refuse(h.offset, "the checksum of a block differs", err);
    }
    if (block[n] > 1) {
        error_set(err, PAWL_EUNSUPPORTED, "a block of the index is compressed in an unknown way");
        error_range(err, h.offset + n, 1);
        return PAWL_EUNSUPPORTED;
    }
    *out = cursor_of(block, n, h.offset, "index");
    if (block[n] == 1) {
        size_t left = FOREIGN_MAX_INDEX - (size_t)d->out->unpacked;
        size_t most = left < FOREIGN_MAX_BUNDLE_BLOCK ? left : FOREIGN_MAX_BUNDLE_BLOCK;
        TRY(snappy_decode(block, n, most, &d->unpacked, err));
        d->out->unpacked += d->unpacked.size;
        d->out->may_take += MOST_GROWTH * (uint64_t)d->unpacked.size;
        *out = cursor_of(d->unpacked.data, d->unpacked.size, h.offset, "index");
    }
    return PAWL_OK;
}

/* Behind the entries there are places of some of them, and how many. */
static pawl_status cut_restarts(cursor *c, pawl_error *err) {
    uint64_t count = 0;
    for (size_t i = 4; c->size >= 4 && i > 0; i--) {
        count = count << 8 | c->data[c->size - 4 + i - 1];
    }
    if (c->size < 4 || count > (c->size - 4) / 4) {
        return refuse(c->base, "a block has no end", err);
    }
    c->size -= 4 + 4 * (size_t)count;
    return PAWL_OK;
}

/* The key is in d->key. */
static pawl_status take_entry(decoding *d, cursor *c, bundle_text *value, pawl_error *err) {
    uint32_t shared, more, n;
    const uint8_t *key = NULL;
    TRY(cursor_varint32(c, &shared, err));
    TRY(cursor_varint32(c, &more, err));
    TRY(cursor_varint32(c, &n, err));
    if (shared > d->key.size || (uint64_t)shared + more > MOST_KEY) {
        return refuse(c->base, "a key is longer than it can be", err);
    }
    TRY(cursor_bytes(c, more, &key, err));
    TRY(cursor_bytes(c, n, &value->bytes, err));
    value->n = n;
    d->key.size = shared;
    return buffer_append(&d->key, key, more, err);
}

static int compare_keys(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    size_t n = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = n > 0 ? memcmp(a, b, n) : 0;
    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static pawl_status add_entry(decoding *d, uint64_t at, bundle_text value, pawl_error *err) {
    bundle *b = d->out;
    bundle_entry e = {.type = 0};
    const bundle_entry *last = b->count > 0 ? &b->entries[b->count - 1] : NULL;
    if (last != NULL && compare_keys(last->key.bytes, last->key.n, d->key.data, d->key.size) >= 0) {
        return refuse(at, "its keys are not in order", err);
    }
    if (b->count == FOREIGN_MAX_ENTRIES) {
        return error_set(err, PAWL_ELIMIT, "the index has more than %u entries",
                         FOREIGN_MAX_ENTRIES);
    }
    uint8_t *key = take(b, d->key.size + 1, err);
    if (key == NULL) {
        return err->status;
    }
    memcpy(key, d->key.data, d->key.size);
    key[d->key.size] = 0;
    e.key = (bundle_text){.bytes = key, .n = d->key.size};
    pawl_status status = decode_record(b, value, &e, err);
    if (status != PAWL_OK) {
        error_entry(err, (const char *)key);
        return status;
    }
    TRY(vec_reserve(&b->entries, &b->room, b->count + 1, sizeof(*b->entries), err));
    b->entries[b->count++] = e;
    return PAWL_OK;
}

/* The first key of all is empty: its record is the header. */
static pawl_status decode_block(decoding *d, handle h, pawl_error *err) {
    cursor c;
    bundle_text value = {0};
    TRY(load_block(d, h, &c, err));
    TRY(cut_restarts(&c, err));
    d->key.size = 0;
    while (cursor_left(&c) > 0) {
        TRY(take_entry(d, &c, &value, err));
        if (!d->headed) {
            if (d->key.size != 0) {
                return refuse(h.offset, "it has no header", err);
            }
            TRY(decode_header(d->out, value, err));
            d->headed = true;
            continue;
        }
        TRY(add_entry(d, h.offset, value, err));
    }
    return PAWL_OK;
}

static pawl_status decode_all(decoding *d, pawl_error *err) {
    CLEANUP(buffer_free) buffer kept = {0}; /* the block of blocks, which may be compressed, too */
    CLEANUP(buffer_free) buffer key = {0};
    cursor c;
    handle metaindex, index;
    if (d->n < FOOTER_BYTES || !bundle_looks_like(d->index, d->n)) {
        error_set(err, PAWL_EDAMAGED, "the index of the checkpoint has no end");
        error_next(err, "it was cut off, or not copied whole: get it again");
        return PAWL_EDAMAGED;
    }
    cursor footer = cursor_of(d->index + d->n - FOOTER_BYTES, FOOTER_BYTES - BUNDLE_MAGIC_BYTES,
                              d->n - FOOTER_BYTES, "end of the index");
    TRY(take_handle(&footer, &metaindex, err));
    TRY(take_handle(&footer, &index, err));
    TRY(load_block(d, index, &c, err));
    TRY(buffer_append(&kept, c.data, c.size, err));
    c = cursor_of(kept.data, kept.size, index.offset, "index");
    TRY(cut_restarts(&c, err));
    while (cursor_left(&c) > 0) {
        bundle_text value = {0};
        handle block;
        d->key.size = 0;
        TRY(buffer_append(&d->key, key.data, key.size, err));
        TRY(take_entry(d, &c, &value, err));
        key.size = 0;
        TRY(buffer_append(&key, d->key.data, d->key.size, err));
        cursor at = cursor_of(value.bytes, value.n, index.offset, "index");
        TRY(take_handle(&at, &block, err));
        TRY(decode_block(d, block, err));
    }
    return d->headed ? PAWL_OK : refuse(0, "it has no header", err);
}

pawl_status bundle_decode(const uint8_t *index, size_t n, bundle *out, pawl_error *err) {
    *out = (bundle){.may_take = MOST_GROWTH * (uint64_t)n + LEAST_MEMORY};
    decoding d = {.out = out, .index = index, .n = n};
    pawl_status status = decode_all(&d, err);
    buffer_free(&d.unpacked);
    buffer_free(&d.key);
    if (status != PAWL_OK) {
        bundle_free(out);
    }
    return status;
}

void bundle_free(bundle *b) {
    mem_free(b->entries);
    arena_free(&b->memory);
    *b = (bundle){.shards = 0};
}

const bundle_entry *bundle_find(const bundle *b, const void *key, size_t n) {
    size_t low = 0;
    size_t high = b->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const bundle_entry *e = &b->entries[middle];
        int order = compare_keys(e->key.bytes, e->key.n, key, n);
        if (order == 0) {
            return e;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}
