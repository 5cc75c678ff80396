/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array's chunks as a stream, one after the other. A chunk is decoded whole and kept until
 * another one is read; one that is too large for that is decoded forwards, and again from its
 * beginning where what lies before is read.
 */
#include "foreign/orbax/zarr.h"

#include <stdio.h>
#include <string.h>

#define NONE       UINT64_MAX
#define NO_FILE    UINT32_MAX
#define SKIP_BYTES ((size_t)65536)

typedef struct array_recipe {
    stream_recipe base;
    zarr_array z;
    const zarr_place *places;
    size_t count;
    uint64_t bytes; /* of the stream */
} array_recipe;

typedef struct array_file {
    store_file base;
    store in;
    archive *a;
    const array_recipe *recipe;
    store_file *inner; /* of number: */
    uint32_t inner_file;
    zarr_unpacker *unpacker;
    uint8_t *whole; /* of chunk: */
    uint64_t loaded;
    uint64_t running, done; /* the large chunk that is decoded, and how far */
    uint8_t *skipped;
    uint64_t *index; /* of shard: */
    uint64_t indexed;
    const zarr_place *place; /* that was looked at last */
} array_file;

/* ---- how it is cut ---- */

typedef struct chunk_cut {
    int64_t extent[PAWL_MAX_NDIM];
    uint64_t bytes;
    uint64_t together; /* elements that lie together in the chunk */
} chunk_cut;

/* A chunk behind the end of the array, in a shard that the end goes through, has no elements. */
static void find_cut(const zarr_array *z, uint64_t number, chunk_cut *out) {
    uint64_t shard = number / z->shard_chunks;
    uint64_t within = number % z->shard_chunks;
    bool whole = true;
    out->together = 1;
    out->bytes = z->element_bytes;
    for (int d = z->ndim - 1; d >= 0; d--) {
        uint64_t all = (uint64_t)(z->chunk[d] * z->shard[d]);
        uint64_t grid = ((uint64_t)z->shape[d] + all - 1) / all;
        uint64_t at = shard % grid * all + within % (uint64_t)z->shard[d] * (uint64_t)z->chunk[d];
        uint64_t left = at < (uint64_t)z->shape[d] ? (uint64_t)z->shape[d] - at : 0;
        shard /= grid;
        within /= (uint64_t)z->shard[d];
        out->extent[d] = left < (uint64_t)z->chunk[d] ? (int64_t)left : z->chunk[d];
        out->bytes *= (uint64_t)out->extent[d];
        out->together *= whole ? (uint64_t)out->extent[d] : 1;
        whole = whole && out->extent[d] == z->chunk[d];
    }
}

static uint64_t place_in_chunk(const zarr_array *z, const chunk_cut *cut, uint64_t element) {
    uint64_t stride = 1;
    uint64_t place = 0;
    for (int d = z->ndim - 1; d >= 0; d--) {
        place += element % (uint64_t)cut->extent[d] * stride;
        element /= (uint64_t)cut->extent[d];
        stride *= (uint64_t)z->chunk[d];
    }
    return place;
}

/* ---- where a chunk is ---- */

static const zarr_place *find_place(const array_recipe *r, uint64_t number) {
    size_t low = 0;
    size_t high = r->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->places[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < r->count && r->places[low].number == number ? &r->places[low] : NULL;
}

static pawl_status open_place(array_file *f, const zarr_place *place, zarr_input *out,
                              pawl_error *err) {
    f->place = place;
    *out = (zarr_input){.bytes = place->inlined, .offset = place->offset, .size = place->bytes};
    if (place->inlined != NULL) {
        out->offset = 0;
        return PAWL_OK;
    }
    if (f->inner_file != place->file) {
        store_close(f->inner);
        f->inner = NULL;
        f->inner_file = NO_FILE;
        f->running = NONE;
        TRY(archive_open_file(f->a, place->file, STORE_READ, &f->inner, err));
        f->inner_file = place->file;
    }
    out->file = f->inner;
    return PAWL_OK;
}

/* A part of what an input has. */
static zarr_input part_of(const zarr_input *in, uint64_t at, uint64_t n) {
    zarr_input part = *in;
    part.size = n;
    if (in->bytes != NULL) {
        part.bytes = in->bytes + at;
    } else {
        part.offset += at;
    }
    return part;
}

static pawl_status read_index(array_file *f, const zarr_input *shard, uint64_t number,
                              pawl_error *err) {
    const zarr_array *z = &f->recipe->z;
    zarr_codecs plain = {.packing = ZARR_PLAIN, .sum_within = z->index_sum};
    size_t n = (size_t)z->shard_chunks * 16;
    uint64_t all = n + (z->index_sum ? 4 : 0);
    f->indexed = NONE;
    if (shard->size < all) {
        error_set(err, PAWL_EDAMAGED, "a shard is shorter than its index");
        error_expected(err, "at least %llu bytes", (unsigned long long)all);
        error_found(err, "%llu bytes", (unsigned long long)shard->size);
        return PAWL_EDAMAGED;
    }
    if (f->index == NULL) {
        f->index = mem_alloc(n);
        if (f->index == NULL) {
            return error_nomem(err, n);
        }
    }
    zarr_unpacker *u = NULL;
    zarr_input in = part_of(shard, z->index_first ? 0 : shard->size - all, all);
    TRY(zarr_unpacker_new(&plain, &u, err));
    pawl_status status = zarr_unpack_begin(u, &in, n, err);
    if (status == PAWL_OK) {
        status = zarr_unpack(u, f->index, n, err);
    }
    zarr_unpacker_free(u);
    if (status != PAWL_OK) {
        error_wrap(err, "the index of a shard");
        return status;
    }
    for (size_t i = 0; i < n / 8 && z->index_swapped; i++) {
        f->index[i] = __builtin_bswap64(f->index[i]);
    }
    f->indexed = number;
    return PAWL_OK;
}

/* One behind the end is never stored. */
static bool may_be_missing(const zarr_array *z, uint64_t number) {
    chunk_cut cut;
    find_cut(z, number, &cut);
    return !z->stored || cut.bytes == 0;
}

/* *there is false where it has the fill value. */
static pawl_status find_chunk(array_file *f, uint64_t number, zarr_input *out, bool *there,
                              pawl_error *err) {
    const array_recipe *r = f->recipe;
    uint64_t shard = number / r->z.shard_chunks;
    const zarr_place *place = find_place(r, shard);
    uint64_t end;
    *there = place != NULL;
    if (!*there) {
        return PAWL_OK;
    }
    TRY(open_place(f, place, out, err));
    if (!r->z.sharded) {
        return PAWL_OK;
    }
    if (f->indexed != shard) {
        TRY(read_index(f, out, shard, err));
    }
    uint64_t at = f->index[2 * (number % r->z.shard_chunks)];
    uint64_t bytes = f->index[2 * (number % r->z.shard_chunks) + 1];
    *there = at != NONE || bytes != NONE;
    if (!*there && !may_be_missing(&r->z, number)) {
        error_set(err, PAWL_EDAMAGED, "a shard lacks a chunk");
        error_expected(err, "%llu chunks, each stored", (unsigned long long)r->z.shard_chunks);
        error_found(err, "no chunk of number %llu",
                    (unsigned long long)(number % r->z.shard_chunks));
        return PAWL_EDAMAGED;
    }
    if (*there && (add_overflows(at, bytes, &end) || end > out->size)) {
        error_set(err, PAWL_EDAMAGED, "the index of a shard names bytes behind its end");
        error_expected(err, "a range within its %llu bytes", (unsigned long long)out->size);
        error_found(err, "%llu bytes from %llu on", (unsigned long long)bytes,
                    (unsigned long long)at);
        return PAWL_EDAMAGED;
    }
    if (*there) {
        *out = part_of(out, at, bytes);
    }
    return PAWL_OK;
}

/* ---- a chunk that is decoded whole ---- */

static void swap_units(uint8_t *bytes, size_t n, size_t unit) {
    for (size_t i = 0; i + unit <= n; i += unit) {
        for (size_t k = 0; k < unit / 2; k++) {
            uint8_t byte = bytes[i + k];
            bytes[i + k] = bytes[i + unit - 1 - k];
            bytes[i + unit - 1 - k] = byte;
        }
    }
}

static pawl_status load_whole(array_file *f, uint64_t number, const zarr_input *in,
                              pawl_error *err) {
    const zarr_array *z = &f->recipe->z;
    size_t n = (size_t)z->chunk_bytes;
    if (f->loaded == number) {
        return PAWL_OK;
    }
    f->loaded = NONE;
    if (f->whole == NULL) {
        f->whole = mem_alloc(n);
        if (f->whole == NULL) {
            return error_nomem(err, n);
        }
    }
    TRY(zarr_unpack_begin(f->unpacker, in, n, err));
    TRY(zarr_unpack(f->unpacker, f->whole, n, err));
    if (z->codecs.swapped) {
        swap_units(f->whole, n, z->swap_bytes);
    }
    f->loaded = number;
    return PAWL_OK;
}

/* The chunk in memory, by strides of its elements; where these are two numbers, each is one. */
static strided as_strided(const array_file *f, const int64_t *extent, int64_t *strides) {
    static const int64_t zeros[PAWL_MAX_NDIM];
    const zarr_array *z = &f->recipe->z;
    strided out = {.dtype = z->dtype,
                   .box = box_of(z->ndim, zeros, extent),
                   .strides = strides,
                   .data = f->whole};
    if (zarr_is_paired(z)) {
        out.box.extent[out.box.ndim] = 2;
        strides[out.box.ndim++] = z->element_bytes / 2;
    }
    return out;
}

static void copy_whole(const array_file *f, const chunk_cut *cut, uint64_t at, uint8_t *to,
                       size_t n) {
    const zarr_array *z = &f->recipe->z;
    int64_t strides[PAWL_MAX_NDIM];
    int64_t stride = z->element_bytes;
    if (!z->codecs.ordered && cut->bytes == z->chunk_bytes) {
        memcpy(to, f->whole + at, n);
        return;
    }
    for (int i = z->ndim - 1; i >= 0; i--) {
        int d = z->codecs.ordered ? z->codecs.order[i] : i;
        strides[d] = stride;
        stride *= z->chunk[d];
    }
    strided memory = as_strided(f, cut->extent, strides);
    strided_gather(&memory, at, n, to);
}

/* ---- a large chunk ---- */

static pawl_status skip_to(array_file *f, uint64_t number, const zarr_input *in, uint64_t at,
                           pawl_error *err) {
    if (f->running != number || at < f->done) {
        f->running = NONE;
        TRY(zarr_unpack_begin(f->unpacker, in, f->recipe->z.chunk_bytes, err));
        f->running = number;
        f->done = 0;
    }
    if (f->skipped == NULL) {
        f->skipped = mem_alloc(SKIP_BYTES);
        if (f->skipped == NULL) {
            return error_nomem(err, SKIP_BYTES);
        }
    }
    while (f->done < at) {
        size_t n = at - f->done < SKIP_BYTES ? (size_t)(at - f->done) : SKIP_BYTES;
        TRY(zarr_unpack(f->unpacker, f->skipped, n, err));
        f->done += n;
    }
    return PAWL_OK;
}

static bool is_plain(const zarr_codecs *c) {
    return c->packing == ZARR_PLAIN && !c->sum_within && !c->sum_behind;
}

static pawl_status copy_large(array_file *f, uint64_t number, const zarr_input *in, uint64_t at,
                              uint8_t *to, size_t n, pawl_error *err) {
    const zarr_array *z = &f->recipe->z;
    if (is_plain(&z->codecs) && in->bytes == NULL) {
        if (in->size != z->chunk_bytes) {
            error_set(err, PAWL_EDAMAGED, "a chunk has another length");
            error_expected(err, "%llu bytes", (unsigned long long)z->chunk_bytes);
            error_found(err, "%llu bytes", (unsigned long long)in->size);
            return PAWL_EDAMAGED;
        }
        return store_read(in->file, in->offset + at, to, n, err);
    }
    pawl_status status = skip_to(f, number, in, at, err);
    if (status == PAWL_OK) {
        status = zarr_unpack(f->unpacker, to, n, err);
    }
    f->done += n;
    if (status != PAWL_OK) {
        f->running = NONE;
    }
    return status;
}

static pawl_status copy_runs(array_file *f, uint64_t number, const zarr_input *in,
                             const chunk_cut *cut, uint64_t at, uint8_t *to, size_t n,
                             pawl_error *err) {
    const zarr_array *z = &f->recipe->z;
    uint64_t each = z->element_bytes;
    while (n > 0) {
        uint64_t element = at / each;
        uint64_t run = (cut->together - element % cut->together) * each - at % each;
        uint64_t place = place_in_chunk(z, cut, element) * each + at % each;
        size_t bytes = run < n ? (size_t)run : n;
        TRY(copy_large(f, number, in, place, to, bytes, err));
        at += bytes;
        to += bytes;
        n -= bytes;
    }
    return PAWL_OK;
}

/* ---- the file ---- */

static void copy_fill(const zarr_array *z, uint64_t at, uint8_t *to, size_t n) {
    static const uint8_t zeros[sizeof(z->fill)];
    memset(to, 0, n);
    for (size_t i = 0; memcmp(z->fill, zeros, sizeof(zeros)) != 0 && i < n; i++) {
        to[i] = z->fill[(at + i) % z->element_bytes];
    }
}

/* Of one chunk; *n becomes less where it, or its elements, end before. */
static pawl_status read_chunk(array_file *f, uint64_t at, uint8_t *to, size_t *n, pawl_error *err) {
    const zarr_array *z = &f->recipe->z;
    uint64_t number = at / z->chunk_bytes;
    uint64_t within = at % z->chunk_bytes;
    zarr_input in = {0};
    chunk_cut cut;
    bool there;
    *n = *n < z->chunk_bytes - within ? *n : (size_t)(z->chunk_bytes - within);
    TRY(find_chunk(f, number, &in, &there, err));
    if (!there) {
        copy_fill(z, at, to, *n);
        return PAWL_OK;
    }
    find_cut(z, number, &cut);
    if (within >= cut.bytes) {
        memset(to, 0, *n);
        return PAWL_OK;
    }
    *n = *n < cut.bytes - within ? *n : (size_t)(cut.bytes - within);
    if (z->chunk_bytes > FOREIGN_MAX_ZARR_CHUNK) {
        return copy_runs(f, number, &in, &cut, within, to, *n, err);
    }
    TRY(load_whole(f, number, &in, err));
    copy_whole(f, &cut, within, to, *n);
    return PAWL_OK;
}

/* What failed is where the bytes were taken from. */
static pawl_status at_place(const array_file *f, pawl_status status, pawl_error *err) {
    bool unnamed = err->path[0] == '\0' || status == PAWL_EDAMAGED;
    if (status != PAWL_ENOMEM && f->place != NULL && unnamed) {
        archive_error_file(f->a, f->place->file, err);
        if (f->place->inlined == NULL) {
            error_range(err, f->place->offset, f->place->bytes);
        }
    }
    return status;
}

static pawl_status read_array(store_file *base, uint64_t at, void *to, size_t n, size_t *got,
                              pawl_error *err) {
    array_file *f = (array_file *)base;
    *got = 0;
    if (at >= f->recipe->bytes || n == 0) {
        return PAWL_OK;
    }
    n = n < f->recipe->bytes - at ? n : (size_t)(f->recipe->bytes - at);
    f->place = NULL;
    pawl_status status = read_chunk(f, at, to, &n, err);
    *got = status == PAWL_OK ? n : 0;
    return status == PAWL_OK ? PAWL_OK : at_place(f, status, err);
}

static pawl_status size_of_array(store_file *base, uint64_t *out, pawl_error *err) {
    (void)err;
    *out = ((array_file *)base)->recipe->bytes;
    return PAWL_OK;
}

static void close_array(store_file *base) {
    array_file *f = (array_file *)base;
    store_close(f->inner);
    zarr_unpacker_free(f->unpacker);
    mem_free(f->whole);
    mem_free(f->skipped);
    mem_free(f->index);
    mem_free(f);
}

static const store_ops array_ops = {
    .read = read_array, .size = size_of_array, .close = close_array};

static pawl_status open_array(const stream_recipe *base, archive *a, store_mode mode,
                              store_file **out, pawl_error *err) {
    const array_recipe *r = (const array_recipe *)base;
    array_file *f = mem_calloc(1, sizeof(*f));
    (void)mode; /* chunks lie anywhere */
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    f->a = a;
    f->recipe = r;
    f->inner_file = NO_FILE;
    f->loaded = NONE;
    f->running = NONE;
    f->indexed = NONE;
    f->in =
        (store){.ops = &array_ops, .traits = a->base.store->traits, .root = a->base.store->root};
    f->base.in = &f->in;
    (void)snprintf(f->base.path, sizeof(f->base.path), "%s", a->name);
    pawl_status status = zarr_unpacker_new(&r->z.codecs, &f->unpacker, err);
    if (status != PAWL_OK) {
        close_array(&f->base);
        return status;
    }
    *out = &f->base;
    return PAWL_OK;
}

/* ---- all of it ---- */

bool zarr_is_stream(const stream_recipe *recipe) {
    return recipe->open == open_array;
}

/* All of a chunk that is there. */
static pawl_status check_chunk(array_file *f, uint64_t number, pawl_error *err) {
    zarr_input in = {0};
    uint64_t left = f->recipe->z.chunk_bytes;
    bool there;
    TRY(find_chunk(f, number, &in, &there, err));
    if (!there) {
        return PAWL_OK;
    }
    f->running = NONE;
    TRY(skip_to(f, number, &in, 0, err));
    f->running = NONE;
    while (left > 0) {
        size_t n = left < SKIP_BYTES ? (size_t)left : SKIP_BYTES;
        TRY(zarr_unpack(f->unpacker, f->skipped, n, err));
        left -= n;
    }
    return PAWL_OK;
}

static pawl_status check_chunks(array_file *f, source_verifier *v, pawl_error *err) {
    const array_recipe *r = f->recipe;
    for (size_t i = 0; i < r->count; i++) {
        const zarr_place *place = &r->places[i];
        for (uint64_t k = 0; k < r->z.shard_chunks; k++) {
            pawl_status status = check_chunk(f, place->number * r->z.shard_chunks + k, err);
            if (status != PAWL_OK) {
                return at_place(f, status, err);
            }
        }
        TRY(v->progress(v->context, place->bytes, err));
    }
    return PAWL_OK;
}

pawl_status zarr_check_stream(const stream_recipe *recipe, archive *a, source_verifier *v,
                              pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(recipe->open(recipe, a, STORE_READ, &file, err));
    return check_chunks((array_file *)file, v, err);
}

/* ---- adding it ---- */

pawl_status zarr_add_stream(archive *a, const zarr_array *z, const zarr_place *places, size_t count,
                            uint32_t *out, pawl_error *err) {
    array_recipe *r = arena_take(&a->base.memory, sizeof(*r), err);
    if (r == NULL) {
        return PAWL_ENOMEM;
    }
    *r = (array_recipe){.base = {.open = open_array}, .z = *z, .places = places, .count = count};
    r->z.attributes = (json_span){0};
    r->bytes = z->stream_bytes;
    return archive_add_stream(a, count > 0 ? places[0].file : 0, r->bytes, &r->base, out, err);
}
