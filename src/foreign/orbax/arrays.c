/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the arrays among the keys, and the chunks of each. Chunks that are there are parts of a
 * tensor; those between two of them, which have the fill value, are few larger parts.
 */
#include "foreign/orbax/arrays.h"
#include "foreign/orbax/zarr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define V2 ".zarray"
#define V3 "zarr.json"

/* One array while it is added. */
typedef struct adding {
    archive *a;
    const arrays_of *from;
    const char *key; /* what its keys begin with; "", or ends in '/' */
    size_t key_bytes;
    const char *name;
    zarr_array z;
    zarr_place *places;
    size_t place_count;
    archive_part *parts;
    int64_t *boxes; /* offset and extent, for each part */
    size_t part_count, part_room, box_room;
    bool streamed;
    uint32_t stream;
    buffer text; /* what describes it */
} adding;

/* ---- values of keys ---- */

static pawl_status read_value(archive *a, const key_map *keys, const key_value *item, buffer *out,
                              pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    out->size = 0;
    if (item->bytes > FOREIGN_MAX_ZARR_METADATA) {
        error_set(err, PAWL_ELIMIT, "what describes an array is too large");
        archive_error_file(a, item->file, err);
        error_expected(err, "at most %u bytes", FOREIGN_MAX_ZARR_METADATA);
        return PAWL_ELIMIT;
    }
    if (item->inlined) {
        return buffer_append(out, keys->inlined.data + item->offset, (size_t)item->bytes, err);
    }
    TRY(archive_open_file(a, item->file, STORE_READ, &file, err));
    TRY(buffer_reserve(out, (size_t)item->bytes, err));
    TRY(store_read(file, item->offset, out->data, (size_t)item->bytes, err));
    out->size = (size_t)item->bytes;
    out->data[out->size] = 0;
    a->base.reads.reads++;
    a->base.reads.bytes += item->bytes;
    return PAWL_OK;
}

/* ---- chunks ---- */

static bool take_number(const char *text, size_t n, size_t *at, uint64_t *out) {
    size_t begun = *at;
    *out = 0;
    while (*at < n && text[*at] >= '0' && text[*at] <= '9' && *at - begun < 19) {
        *out = *out * 10 + (uint64_t)(text[(*at)++] - '0');
    }
    return *at > begun && (text[begun] != '0' || *at == begun + 1);
}

/* "0.1", "c/0/1": false where it is no key of a chunk, or of one behind the end. */
static bool find_number(const zarr_array *z, const char *text, size_t n, uint64_t *number) {
    size_t at = 0;
    uint64_t index;
    *number = 0;
    if (z->prefixed) {
        if (n == 0 || text[at++] != 'c') {
            return false;
        }
    } else if (z->ndim == 0) {
        return n == 1 && text[0] == '0';
    }
    for (int d = 0; d < z->ndim; d++) {
        if ((d > 0 || z->prefixed) && (at >= n || text[at++] != z->separator)) {
            return false;
        }
        if (!take_number(text, n, &at, &index) || index >= (uint64_t)z->grid[d]) {
            return false;
        }
        *number = *number * (uint64_t)z->grid[d] + index;
    }
    return at == n;
}

static int by_number(const void *left, const void *right) {
    const zarr_place *a = left;
    const zarr_place *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

static pawl_status set_place(adding *n, const key_value *item, uint64_t number, pawl_error *err) {
    zarr_place *place = &n->places[n->place_count++];
    *place = (zarr_place){
        .number = number, .file = item->file, .offset = item->offset, .bytes = item->bytes};
    if (item->inlined) {
        uint8_t *copy = arena_take(&n->a->base.memory, (size_t)item->bytes + 1, err);
        if (copy == NULL) {
            return PAWL_ENOMEM;
        }
        memcpy(copy, n->from->keys->inlined.data + item->offset, (size_t)item->bytes);
        place->inlined = copy;
    }
    return PAWL_OK;
}

static pawl_status find_places(adding *n, pawl_error *err) {
    const key_map *keys = n->from->keys;
    size_t first = key_map_lower_bound(keys, n->key, n->key_bytes);
    size_t end = first;
    size_t count = 0;
    uint64_t number;
    for (; end < keys->count && key_begins(keys, &keys->items[end], n->key, n->key_bytes); end++) {
        const key_value *item = &keys->items[end];
        count += find_number(&n->z, key_text(keys, item) + n->key_bytes, item->n - n->key_bytes,
                             &number);
    }
    n->places = arena_take(&n->a->base.memory, (count + 1) * sizeof(*n->places), err);
    if (n->places == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = first; i < end; i++) {
        const key_value *item = &keys->items[i];
        if (find_number(&n->z, key_text(keys, item) + n->key_bytes, item->n - n->key_bytes,
                        &number)) {
            TRY(set_place(n, item, number, err));
        }
    }
    if (n->place_count > 1) {
        qsort(n->places, n->place_count, sizeof(*n->places), by_number);
    }
    return PAWL_OK;
}

/* ---- parts ---- */

static pawl_status get_stream(adding *n, uint32_t *out, pawl_error *err) {
    if (!n->streamed) {
        TRY(zarr_add_stream(n->a, &n->z, n->places, n->place_count, &n->stream, err));
        n->streamed = true;
    }
    *out = n->stream;
    return PAWL_OK;
}

/* The box is cut at the shape. */
static pawl_status add_part(adding *n, const archive_part *part, const int64_t *offset,
                            const int64_t *extent, pawl_error *err) {
    size_t ndim = (size_t)n->z.ndim;
    if (n->part_count == FORMAT_MAX_PIECES || *n->from->parts == FOREIGN_MAX_ZARR_CHUNKS) {
        error_set(err, PAWL_ELIMIT, "the arrays have too many chunks");
        error_entry(err, n->name);
        error_expected(err, "at most %u of one, %u of all", FORMAT_MAX_PIECES,
                       FOREIGN_MAX_ZARR_CHUNKS);
        return PAWL_ELIMIT;
    }
    ++*n->from->parts;
    TRY(vec_reserve(&n->parts, &n->part_room, n->part_count + 1, sizeof(*n->parts), err));
    TRY(vec_reserve(&n->boxes, &n->box_room, (n->part_count + 1) * 2 * ndim + 1, sizeof(*n->boxes),
                    err));
    int64_t *at = n->boxes + n->part_count * 2 * ndim;
    archive_part *added = &n->parts[n->part_count++];
    *added = *part;
    added->bytes = n->z.element_bytes;
    for (size_t d = 0; d < ndim; d++) {
        int64_t left = n->z.shape[d] - offset[d];
        at[d] = offset[d];
        at[ndim + d] = extent[d] < left ? extent[d] : left;
        added->bytes *= (uint64_t)at[ndim + d];
    }
    return PAWL_OK;
}

/* Shards, or chunks, from `first` on up to `end`: there are none of them. */
static pawl_status add_filled(adding *n, uint64_t first, uint64_t end, pawl_error *err) {
    const zarr_array *z = &n->z;
    box grid = box_whole(z->ndim, z->grid);
    int64_t offset[PAWL_MAX_NDIM] = {0};
    int64_t extent[PAWL_MAX_NDIM] = {0};
    archive_part part = {0};
    if (first < end && !z->filled) {
        error_set(err, PAWL_EUNSUPPORTED, "an array has a fill value that is not read");
        error_entry(err, n->name);
        return PAWL_EUNSUPPORTED;
    }
    while (first < end) {
        box b = box_leading(&grid, first, end - first);
        for (int d = 0; d < z->ndim; d++) {
            int64_t all = z->chunk[d] * z->shard[d];
            offset[d] = b.offset[d] * all;
            extent[d] = b.extent[d] * all;
        }
        TRY(get_stream(n, &part.stream, err));
        part.offset = first * z->shard_chunks * z->chunk_bytes;
        TRY(add_part(n, &part, offset, extent, err));
        first += box_elements(&b);
    }
    return PAWL_OK;
}

/* Is the chunk, as far as it is within the shape, as it lies in the file? */
static bool lies_in_file(const zarr_array *z, const zarr_place *place, const int64_t *offset) {
    bool whole = true;
    const zarr_codecs *c = &z->codecs;
    if (z->sharded || place->inlined != NULL || c->packing != ZARR_PLAIN || c->sum_within ||
        c->sum_behind || c->swapped || c->ordered || place->bytes != z->chunk_bytes) {
        return false;
    }
    for (int d = z->ndim - 1; d >= 0; d--) {
        bool cut = offset[d] + z->chunk[d] > z->shape[d];
        if (!whole && (z->shape[d] - offset[d] > 1 && z->chunk[d] > 1)) {
            return false;
        }
        whole = whole && !cut;
    }
    return true;
}

static pawl_status add_chunk(adding *n, const zarr_place *place, uint64_t within, pawl_error *err) {
    const zarr_array *z = &n->z;
    int64_t offset[PAWL_MAX_NDIM] = {0};
    uint64_t shard = place->number;
    archive_part part = {.offset = (shard * z->shard_chunks + within) * z->chunk_bytes};
    for (int d = z->ndim - 1; d >= 0; d--) {
        offset[d] = (int64_t)(shard % (uint64_t)z->grid[d]) * z->chunk[d] * z->shard[d] +
                    (int64_t)(within % (uint64_t)z->shard[d]) * z->chunk[d];
        shard /= (uint64_t)z->grid[d];
        within /= (uint64_t)z->shard[d];
        if (offset[d] >= z->shape[d]) {
            return PAWL_OK; /* of a shard that the end goes through */
        }
    }
    if (lies_in_file(z, place, offset)) {
        part.stream = place->file;
        part.offset = place->offset;
    } else {
        TRY(get_stream(n, &part.stream, err));
    }
    return add_part(n, &part, offset, z->chunk, err);
}

static pawl_status find_parts(adding *n, pawl_error *err) {
    const zarr_array *z = &n->z;
    uint64_t next = 0;
    for (size_t i = 0; i < n->place_count; i++) {
        const zarr_place *place = &n->places[i];
        if (z->sharded && place->bytes / 16 < z->shard_chunks) { /* as many parts as it has room */
            error_set(err, PAWL_EDAMAGED, "a shard is shorter than its index");
            archive_error_file(n->a, place->file, err);
            error_entry(err, n->name);
            error_expected(err, "%llu %s", (unsigned long long)z->shard_chunks,
                           text_noun(z->shard_chunks, "chunk", "chunks"));
            error_found(err, "%llu bytes", (unsigned long long)place->bytes);
            return PAWL_EDAMAGED;
        }
        TRY(add_filled(n, next, place->number, err));
        for (uint64_t k = 0; k < z->shard_chunks; k++) {
            TRY(add_chunk(n, place, k, err));
        }
        next = place->number + 1;
    }
    return add_filled(n, next, z->shards, err);
}

/* ---- chunks that are missing ---- */

static void show_chunk(const adding *n, uint64_t number, char *out, size_t room) {
    const zarr_array *z = &n->z;
    int64_t at[PAWL_MAX_NDIM] = {0};
    size_t used = (size_t)snprintf(out, room, "%s", z->prefixed ? "c" : z->ndim == 0 ? "0" : "");
    for (int d = z->ndim - 1; d >= 0; d--) {
        at[d] = (int64_t)(number % (uint64_t)z->grid[d]);
        number /= (uint64_t)z->grid[d];
    }
    for (int d = 0; d < z->ndim && used < room; d++) {
        int separators = d > 0 || z->prefixed;
        used += (size_t)snprintf(out + used, room - used, "%.*s%lld", separators, &z->separator,
                                 (long long)at[d]);
    }
}

static pawl_status lacks_chunks(const adding *n, pawl_error *err) {
    char chunk[PAWL_MAX_NDIM * 21 + 2];
    uint64_t first = 0;
    while (first < n->place_count && n->places[first].number == first) {
        first++;
    }
    show_chunk(n, first, chunk, sizeof(chunk));
    error_set(err, PAWL_EDAMAGED,
              n->from->unmerged ? "the checkpoint was never finished: a part of an array is missing"
                                : "the checkpoint lacks a part of an array");
    store_error_path(err, n->a->base.store, n->from->place);
    error_entry(err, n->name);
    error_expected(err, "%llu chunks, each stored", (unsigned long long)n->z.shards);
    error_found(err, "%zu; the first that is missing is %.*s%s", n->place_count,
                n->key_bytes < 200 ? (int)n->key_bytes : 200, n->key, chunk);
    error_next(err, n->from->unmerged
                        ? "take another step"
                        : "get all files of the checkpoint from where it came from, or take "
                          "another step");
    return PAWL_EDAMAGED;
}

/* ---- names ---- */

static pawl_status name_array(adding *n, const char **out, pawl_error *err) {
    const char *prefix = n->from->prefix;
    size_t stored_bytes = n->key_bytes > 0 ? n->key_bytes - 1 : 0;
    orbax_leaf *leaf = orbax_tree_find(n->from->tree, n->key, stored_bytes);
    const char *name = "";
    if (leaf != NULL) {
        leaf->found = true;
        name = leaf->name;
    } else if (stored_bytes > 0) {
        TRY(archive_escape_name(n->a, n->key, stored_bytes, &name, err));
    }
    if (name[0] == '\0') { /* all there is */
        *out = prefix[0] == '\0'
                   ? "array"
                   : arena_printf(&n->a->base.memory, "%.*s", (int)strlen(prefix) - 1, prefix);
    } else {
        *out = arena_printf(&n->a->base.memory, "%s%s", prefix, name);
    }
    return *out != NULL ? PAWL_OK : error_nomem(err, strlen(prefix) + strlen(name) + 1);
}

/* Attributes that somebody gave the array. */
static pawl_status add_attributes(adding *n, const char *text, size_t bytes, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    json_reader r = json_reader_of(text, bytes);
    bool more = false;
    if (bytes > (size_t)PAWL_MAX_VALUE_BYTES ||
        json_check(text, bytes, "value", &ignored) != PAWL_OK || json_enter(&r, '{') != PAWL_OK ||
        json_member(&r, NULL, &more) != PAWL_OK || !more) {
        return PAWL_OK;
    }
    const char *name = arena_printf(&n->a->base.memory, "%s/.zattrs", n->name);
    return name != NULL ? archive_add_value(n->a, name, 0, PAWL_KIND_JSON, text, bytes, err)
                        : error_nomem(err, strlen(n->name));
}

static pawl_status add_v2_attributes(adding *n, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    CLEANUP(buffer_free) buffer text = {0};
    const key_map *keys = n->from->keys;
    TRY(buffer_append(&key, n->key, n->key_bytes, err));
    TRY(buffer_append(&key, ".zattrs", 7, err));
    size_t at = key_map_lower_bound(keys, (const char *)key.data, key.size);
    if (at == keys->count || !key_is(keys, &keys->items[at], (const char *)key.data, key.size)) {
        return PAWL_OK;
    }
    TRY(read_value(n->a, keys, &keys->items[at], &text, err));
    return add_attributes(n, (const char *)text.data, text.size, err);
}

/* ---- arrays ---- */

/* Its type says why. */
static pawl_status add_unread(adding *n, const char *why, pawl_error *err) {
    char type[FORMAT_MAX_TYPE_NAME + 1];
    const archive_part part = {.stream = n->place_count > 0 ? n->places[0].file : 0};
    if (why != NULL) {
        snprintf(type, sizeof(type), "%.12s, %.18s", n->z.type, why);
    } else {
        snprintf(type, sizeof(type), "%s", n->z.type);
    }
    const archive_tensor tensor = {.name = n->name,
                                   .type = type,
                                   .ndim = n->z.ndim,
                                   .shape = n->z.shape,
                                   .parts = &part,
                                   .part_count = 1};
    return archive_add_tensor(n->a, &tensor, err);
}

static pawl_status add_tensor(adding *n, pawl_error *err) {
    const zarr_array *z = &n->z;
    TRY(find_places(n, err));
    n->z.stored = n->from->unmerged || n->from->tree->stored;
    if (z->stored && n->place_count < z->shards) {
        return lacks_chunks(n, err);
    }
    if (z->dtype == 0 || z->unread != NULL) {
        return add_unread(n, z->unread, err);
    }
    if (n->from->in_part && n->place_count < z->shards) {
        return add_unread(n, "in part", err);
    }
    if (z->shards > 0) {
        TRY(find_parts(n, err));
    } else {
        n->parts = mem_calloc(1, sizeof(*n->parts));
        n->part_count = n->parts != NULL;
    }
    for (size_t i = 0; i < n->part_count && z->shards > 0; i++) {
        n->parts[i].box_offset = n->boxes + i * 2 * (size_t)z->ndim;
        n->parts[i].box_extent = n->parts[i].box_offset + z->ndim;
    }
    const archive_tensor tensor = {.name = n->name,
                                   .dtype = z->dtype,
                                   .type = zarr_is_paired(z) ? z->type : NULL,
                                   .ndim = z->ndim,
                                   .shape = z->shape,
                                   .parts = n->parts,
                                   .part_count = n->part_count};
    return archive_add_tensor(n->a, &tensor, err);
}

static pawl_status add_described(adding *n, bool v3, pawl_error *err) {
    bool group = false;
    const char *text = (const char *)n->text.data;
    TRY(v3 ? zarr_read_v3(text, n->text.size, &n->z, &group, err)
           : zarr_read_v2(text, n->text.size, &n->z, err));
    if (group) {
        return PAWL_OK;
    }
    TRY(name_array(n, &n->name, err));
    TRY(add_tensor(n, err));
    return v3 ? n->z.attributes.n > 0
                    ? add_attributes(n, n->z.attributes.text, n->z.attributes.n, err)
                    : PAWL_OK
              : add_v2_attributes(n, err);
}

static pawl_status add_array(archive *a, const arrays_of *from, const key_value *item, size_t n,
                             bool v3, pawl_error *err) {
    adding one = {.a = a, .from = from, .key = key_text(from->keys, item), .key_bytes = n};
    pawl_status status = read_value(a, from->keys, item, &one.text, err);
    if (status == PAWL_OK) {
        status = add_described(&one, v3, err);
    }
    if (status != PAWL_OK && status != PAWL_ENOMEM) {
        if (err->path[0] == '\0') {
            archive_error_file(a, item->file, err);
        }
        if (err->entry[0] == '\0' && n > 1) {
            char shown[256];
            snprintf(shown, sizeof(shown), "%.*s", (int)(n - 1 < 255 ? n - 1 : 255), one.key);
            error_entry(err, one.name != NULL ? one.name : shown);
        }
    }
    mem_free(one.parts);
    mem_free(one.boxes);
    buffer_free(&one.text);
    return status;
}

/* Does the key end in that name? *n is what comes before it. */
static bool is_named(const key_map *keys, const key_value *item, const char *name, size_t *n) {
    size_t length = strlen(name);
    const char *text = key_text(keys, item);
    if (item->n < length || memcmp(text + item->n - length, name, length) != 0) {
        return false;
    }
    *n = item->n - length;
    return *n == 0 || text[*n - 1] == '/';
}

/* One of the processes saves what describes the arrays of all. */
static pawl_status not_described(const archive *a, const arrays_of *from, pawl_error *err) {
    const key_value *first = &from->keys->items[0];
    error_set(err, PAWL_EUNSUPPORTED,
              "what this process saved is not described by itself: only parts of arrays");
    store_error_path(err, a->base.store, from->place);
    error_expected(err, "a .zarray or zarr.json for each array");
    error_found(err, "%zu chunk%s, the first is %.*s", from->keys->count,
                from->keys->count == 1 ? "" : "s", first->n < 200 ? (int)first->n : 200,
                key_text(from->keys, first));
    error_next(err, "open the directory above it, which has what all processes saved");
    return PAWL_EUNSUPPORTED;
}

pawl_status arrays_add(archive *a, const arrays_of *from, pawl_error *err) {
    const key_map *keys = from->keys;
    bool described = false;
    for (size_t i = 0; i < keys->count; i++) {
        const key_value *item = &keys->items[i];
        size_t n;
        bool v3 = is_named(keys, item, V3, &n);
        if (v3 || is_named(keys, item, V2, &n)) {
            described = true;
            TRY(add_array(a, from, item, n, v3, err));
        }
    }
    return from->in_part && keys->count > 0 && !described ? not_described(a, from, err) : PAWL_OK;
}
