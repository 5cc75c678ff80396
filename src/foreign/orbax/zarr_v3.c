/* SPDX-License-Identifier: Apache-2.0 */
/* The zarr.json of an array of zarr's version 3. */
#include "foreign/orbax/zarr.h"

#include <string.h>

/* A codec, a grid, ...: {"name": ..., "configuration": {...}}, or the name alone. */
typedef struct named {
    json_span name, configuration; /* "{}" where there is none */
} named;

static pawl_status lacks(const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "what describes an array is wrong");
    error_expected(err, "%s", what);
    return PAWL_EDAMAGED;
}

static pawl_status read_named(json_span value, named *out, pawl_error *err) {
    json_field fields[] = {
        {.key = "name", .to = &out->name, .type = FIELD_STRING},
        {.key = "configuration", .to = &out->configuration, .type = FIELD_ANY},
    };
    *out = (named){.configuration = {.text = "{}", .n = 2}};
    if (value.n >= 2 && value.text[0] == '"') {
        out->name = (json_span){.text = value.text + 1, .n = value.n - 2};
        return PAWL_OK;
    }
    if (value.text == NULL || !json_fields(value.text, value.n, fields, ARRAY_LENGTH(fields)) ||
        fields[0].found != FIELD_FOUND) {
        return lacks("an object with a name", err);
    }
    return PAWL_OK;
}

static pawl_status read_chunk_shape(json_span value, const char *what, int64_t *shape, int ndim,
                                    pawl_error *err) {
    json_reader r = json_reader_for(value.text, value.n, 0, what, err);
    int n;
    TRY(zarr_read_shape(&r, shape, &n, err));
    if (n == ndim) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "the chunks of an array have other dimensions");
    error_expected(err, "%d", ndim);
    error_found(err, "%d", n);
    return PAWL_EDAMAGED;
}

/* ---- codecs ---- */

/* How far the codecs of a list have come: each kind comes after those before it. */
typedef enum stage { OF_ARRAYS, OF_BYTES, SUMMED_WITHIN, PACKED, SUMMED_BEHIND } stage;

static pawl_status read_order(const zarr_array *z, json_span configuration, zarr_codecs *c,
                              pawl_error *err) {
    int64_t order[PAWL_MAX_NDIM];
    json_span value = {0};
    bool seen[PAWL_MAX_NDIM] = {false};
    json_field fields[] = {{.key = "order", .to = &value, .type = FIELD_ANY}};
    if (!json_fields(configuration.text, configuration.n, fields, 1) || value.text == NULL) {
        return lacks("the order of a transpose", err);
    }
    TRY(read_chunk_shape(value, "order of a transpose", order, z->ndim, err));
    for (int d = 0; d < z->ndim; d++) {
        if (order[d] >= z->ndim || seen[order[d]]) {
            return lacks("each dimension once in the order of a transpose", err);
        }
        seen[order[d]] = true;
        c->order[d] = (int)order[d];
    }
    c->ordered = true;
    return PAWL_OK;
}

static pawl_status read_endian(json_span configuration, bool *big, pawl_error *err) {
    json_span endian = {0};
    json_field fields[] = {{.key = "endian", .to = &endian, .type = FIELD_STRING}};
    if (!json_fields(configuration.text, configuration.n, fields, 1)) {
        return lacks("a codec's configuration", err);
    }
    *big = json_is(endian, "big");
    return *big || endian.text == NULL || json_is(endian, "little")
               ? PAWL_OK
               : lacks("the order of bytes little or big", err);
}

/* false: it is not known, or not read in this place. */
static pawl_status read_codec(const zarr_array *z, const named *codec, stage *at, zarr_codecs *c,
                              bool *known, pawl_error *err) {
    *known = true;
    if (json_is(codec->name, "transpose") && *at == OF_ARRAYS && !c->ordered) {
        return read_order(z, codec->configuration, c, err);
    }
    if (json_is(codec->name, "bytes") && *at == OF_ARRAYS) {
        *at = OF_BYTES;
        return read_endian(codec->configuration, &c->swapped, err);
    }
    if (json_is(codec->name, "crc32c") && *at == OF_BYTES) {
        *at = SUMMED_WITHIN; /* or behind, where nothing is compressed: the same */
        c->sum_within = true;
        return PAWL_OK;
    }
    if (json_is(codec->name, "crc32c") && *at == PACKED) {
        *at = SUMMED_BEHIND;
        c->sum_behind = true;
        return PAWL_OK;
    }
    bool packs = *at == OF_BYTES || *at == SUMMED_WITHIN;
    if (packs && (json_is(codec->name, "zstd") || json_is(codec->name, "gzip"))) {
        *at = PACKED;
        c->packing = json_is(codec->name, "zstd") ? ZARR_ZSTD : ZARR_GZIP;
        return PAWL_OK;
    }
    *known = false;
    return PAWL_OK;
}

static pawl_status read_sharding(zarr_array *z, json_span configuration, pawl_error *err);

static pawl_status read_codecs(zarr_array *z, json_span list, zarr_codecs *c, bool within,
                               pawl_error *err) {
    json_reader r = json_reader_for(list.text, list.n, 0, "codecs of an array", err);
    stage at = OF_ARRAYS;
    bool more, known;
    bool first = true;
    json_span value;
    named codec;
    *c = (zarr_codecs){0};
    TRY(json_enter(&r, '['));
    for (;; first = false) {
        TRY(json_element(&r, &more));
        if (!more) {
            break;
        }
        TRY(json_skip(&r, &value));
        TRY(read_named(value, &codec, err));
        if (json_is(codec.name, "sharding_indexed") && first && !within) {
            z->sharded = true;
            TRY(read_sharding(z, codec.configuration, err));
            at = SUMMED_BEHIND;
            continue;
        }
        TRY(read_codec(z, &codec, &at, c, &known, err));
        if (!known) {
            z->unread = json_is(codec.name, "blosc") ? "blosc" : "encoded";
            return PAWL_OK;
        }
    }
    return at != OF_ARRAYS ? PAWL_OK : lacks("a codec that makes bytes of an array", err);
}

/* ---- shards ---- */

/* The index is plain numbers: its size is known beforehand. */
static pawl_status read_index_codecs(zarr_array *z, json_span list, pawl_error *err) {
    zarr_codecs c;
    const char *unread = z->unread;
    z->unread = NULL;
    TRY(read_codecs(z, list, &c, true, err));
    bool odd = z->unread != NULL || c.packing != ZARR_PLAIN || c.ordered;
    z->unread = odd ? "shards with another index" : unread;
    z->index_sum = c.sum_within;
    z->index_swapped = c.swapped;
    return PAWL_OK;
}

static pawl_status read_sharding(zarr_array *z, json_span configuration, pawl_error *err) {
    json_span shape = {0}, codecs = {0}, index = {0}, location = {0};
    json_field fields[] = {
        {.key = "chunk_shape", .to = &shape, .type = FIELD_ANY},
        {.key = "codecs", .to = &codecs, .type = FIELD_ANY},
        {.key = "index_codecs", .to = &index, .type = FIELD_ANY},
        {.key = "index_location", .to = &location, .type = FIELD_STRING},
    };
    int64_t chunk[PAWL_MAX_NDIM];
    if (!json_fields(configuration.text, configuration.n, fields, ARRAY_LENGTH(fields)) ||
        shape.text == NULL || codecs.text == NULL || index.text == NULL) {
        return lacks("chunk_shape, codecs and index_codecs of shards", err);
    }
    TRY(read_chunk_shape(shape, "chunk_shape of shards", chunk, z->ndim, err));
    for (int d = 0; d < z->ndim; d++) {
        if (chunk[d] < 1 || z->chunk[d] % chunk[d] != 0) {
            return lacks("shards of whole chunks", err);
        }
        z->shard[d] = z->chunk[d] / chunk[d];
        z->chunk[d] = chunk[d];
    }
    z->index_first = json_is(location, "start");
    TRY(read_codecs(z, codecs, &z->codecs, true, err));
    return read_index_codecs(z, index, err);
}

/* ---- all of it ---- */

static pawl_status read_grid(zarr_array *z, json_span value, pawl_error *err) {
    named grid;
    json_span shape = {0};
    json_field fields[] = {{.key = "chunk_shape", .to = &shape, .type = FIELD_ANY}};
    TRY(read_named(value, &grid, err));
    if (!json_is(grid.name, "regular")) {
        error_set(err, PAWL_EUNSUPPORTED, "an array has chunks of several sizes");
        error_expected(err, "a regular chunk_grid");
        return PAWL_EUNSUPPORTED;
    }
    if (!json_fields(grid.configuration.text, grid.configuration.n, fields, 1) ||
        shape.text == NULL) {
        return lacks("a chunk_shape", err);
    }
    for (int d = 0; d < z->ndim; d++) {
        z->shard[d] = 1;
    }
    return read_chunk_shape(shape, "chunk_shape of an array", z->chunk, z->ndim, err);
}

static pawl_status read_encoding(zarr_array *z, json_span value, pawl_error *err) {
    named encoding;
    json_span separator = {0};
    json_field fields[] = {{.key = "separator", .to = &separator, .type = FIELD_STRING}};
    TRY(read_named(value, &encoding, err));
    z->prefixed = json_is(encoding.name, "default");
    if (!json_fields(encoding.configuration.text, encoding.configuration.n, fields, 1)) {
        return lacks("a separator of chunk_key_encoding", err);
    }
    z->separator = z->prefixed ? '/' : '.';
    if (separator.text != NULL) {
        z->separator = json_is(separator, "/") ? '/' : '.';
    }
    if (z->prefixed || json_is(encoding.name, "v2")) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUNSUPPORTED, "an array has keys of chunks that are not read");
    error_expected(err, "the chunk_key_encoding default or v2");
    return PAWL_EUNSUPPORTED;
}

static bool is_empty(json_span value) {
    json_reader r = json_reader_of(value.text, value.n);
    bool more = false;
    return value.text == NULL || value.text[0] == 'n' ||
           (value.text[0] == '{' && json_enter(&r, '{') == PAWL_OK &&
            json_member(&r, NULL, &more) == PAWL_OK && !more) ||
           (value.text[0] == '[' && json_enter(&r, '[') == PAWL_OK &&
            json_element(&r, &more) == PAWL_OK && !more);
}

static void set_type(zarr_array *z, json_span type) {
    json_span name = {.text = type.text + 1, .n = type.n >= 2 ? type.n - 2 : 0};
    if (type.text[0] != '"' || !zarr_find_type(name, z)) {
        zarr_set_type(z, 0, "OTHER", 1, 1);
    }
}

typedef struct members {
    uint64_t format;
    json_span node, shape, type, grid, encoding, codecs, fill, attributes, transformers;
} members;

static pawl_status read_members(const void *text, size_t n, members *m, pawl_error *err) {
    json_field fields[] = {
        {.key = "zarr_format", .to = &m->format, .type = FIELD_COUNT},
        {.key = "node_type", .to = &m->node, .type = FIELD_STRING},
        {.key = "shape", .to = &m->shape, .type = FIELD_ANY},
        {.key = "data_type", .to = &m->type, .type = FIELD_ANY},
        {.key = "chunk_grid", .to = &m->grid, .type = FIELD_ANY},
        {.key = "chunk_key_encoding", .to = &m->encoding, .type = FIELD_ANY},
        {.key = "codecs", .to = &m->codecs, .type = FIELD_ANY},
        {.key = "fill_value", .to = &m->fill, .type = FIELD_ANY},
        {.key = "attributes", .to = &m->attributes, .type = FIELD_ANY},
        {.key = "storage_transformers", .to = &m->transformers, .type = FIELD_ANY},
    };
    TRY(json_check(text, n, "description of an array", err));
    if (!json_fields(text, n, fields, ARRAY_LENGTH(fields))) {
        return lacks("an object that has each member once", err);
    }
    if (fields[0].found != FIELD_FOUND || m->format != 3) {
        error_set(err, PAWL_EUNSUPPORTED, "an array is of a version of zarr that is not read");
        error_expected(err, "the zarr_format 3");
        return PAWL_EUNSUPPORTED;
    }
    return PAWL_OK;
}

pawl_status zarr_read_v3(const void *text, size_t n, zarr_array *z, bool *group, pawl_error *err) {
    members m = {0};
    *z = (zarr_array){0};
    TRY(read_members(text, n, &m, err));
    if (!is_empty(m.attributes)) {
        z->attributes = m.attributes;
    }
    *group = json_is(m.node, "group");
    if (*group) {
        return PAWL_OK;
    }
    if (!json_is(m.node, "array") || m.shape.text == NULL || m.type.text == NULL ||
        m.codecs.text == NULL) {
        return lacks("an array with shape, data_type and codecs", err);
    }
    json_reader r = json_reader_for(m.shape.text, m.shape.n, 0, "shape of an array", err);
    TRY(zarr_read_shape(&r, z->shape, &z->ndim, err));
    set_type(z, m.type);
    TRY(read_grid(z, m.grid, err));
    TRY(read_encoding(z, m.encoding, err));
    zarr_codecs codecs;
    TRY(read_codecs(z, m.codecs, &codecs, false, err));
    if (!z->sharded) {
        z->codecs = codecs;
    }
    if (!is_empty(m.transformers)) {
        z->unread = "transformed";
    }
    zarr_set_fill(z, m.fill);
    return zarr_finish(z, err);
}
