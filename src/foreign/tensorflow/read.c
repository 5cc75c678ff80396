/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a tensor bundle: its index, and where the bytes of each tensor are. */
#include "foreign/tensorflow/read.h"
#include "base/checksum_join.h"
#include "foreign/streams.h"
#include "foreign/tensorflow/names.h"
#include "format/limits.h"

#include <stdio.h>
#include <string.h>

#define INDEX_ENDING ".index"
#define DT_STRING    7u
#define MOST_TEXT    (ARCHIVE_VALUE_BYTES + 16) /* of a text, with its length and checksum */

typedef struct tensor_type {
    pawl_dtype dtype;
    const char *type; /* where that is 0, or there are two of it in an element */
    uint32_t bytes;   /* of an element; 0: it has no fixed size */
    uint32_t swap;    /* bytes that are in order together */
} tensor_type;

/* types.proto; those of less than a byte have a byte for each element. */
static const tensor_type types[] = {
    [1] = {PAWL_F32, NULL, 4, 4},       [2] = {PAWL_F64, NULL, 8, 8},
    [3] = {PAWL_I32, NULL, 4, 4},       [4] = {PAWL_U8, NULL, 1, 1},
    [5] = {PAWL_I16, NULL, 2, 2},       [6] = {PAWL_I8, NULL, 1, 1},
    [7] = {0, "STRING", 0, 1},          [8] = {PAWL_C64, NULL, 8, 4},
    [9] = {PAWL_I64, NULL, 8, 8},       [10] = {PAWL_BOOL, NULL, 1, 1},
    [11] = {0, "QINT8", 1, 1},          [12] = {0, "QUINT8", 1, 1},
    [13] = {0, "QINT32", 4, 4},         [14] = {PAWL_BF16, NULL, 2, 2},
    [15] = {0, "QINT16", 2, 2},         [16] = {0, "QUINT16", 2, 2},
    [17] = {PAWL_U16, NULL, 2, 2},      [18] = {PAWL_F64, "C128", 16, 8},
    [19] = {PAWL_F16, NULL, 2, 2},      [20] = {0, "RESOURCE", 0, 1},
    [21] = {0, "VARIANT", 0, 1},        [22] = {PAWL_U32, NULL, 4, 4},
    [23] = {PAWL_U64, NULL, 8, 8},      [24] = {PAWL_F8_E5M2, NULL, 1, 1},
    [25] = {PAWL_F8_E4M3, NULL, 1, 1},  [26] = {PAWL_F8_E4M3FNUZ, NULL, 1, 1},
    [27] = {0, "F8_E4M3B11FNUZ", 1, 1}, [28] = {PAWL_F8_E5M2FNUZ, NULL, 1, 1},
    [29] = {0, "INT4", 1, 1},           [30] = {0, "UINT4", 1, 1},
    [31] = {0, "INT2", 1, 1},           [32] = {0, "UINT2", 1, 1},
    [33] = {0, "F4_E2M1", 1, 1},
};

/* What is left of an entry for the verification. */
typedef struct check {
    const char *name;
    uint32_t file;
    uint64_t offset, bytes;
    uint32_t crc;
    uint64_t texts; /* of how many texts; 0: of numbers */
} check;

typedef struct details {
    check *items;
    size_t count, room;
} details;

typedef struct reading {
    archive *a;
    bundle bundle;
    buffer graph_bytes;
    object_graph graph;
    uint32_t *file_of; /* of each shard */
    details *details;
    buffer key; /* of a slice */
    archive_part *parts;
    int64_t *boxes;
    size_t part_room, box_room;
} reading;

/* ---- files ---------------------------------------------------------------------------------- */

static pawl_status is_missing(const reading *r, const char *path, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "a file of the checkpoint is missing");
    store_error_path(err, r->a->base.store, path);
    error_expected(err, "a file, as %.200s says", r->a->name);
    error_found(err, "no such file");
    error_next(err, "get all files of the checkpoint from where it came from, or use another one");
    return PAWL_EDAMAGED;
}

static bool name_file(const reading *r, uint32_t shard, uint32_t of, char out[STORE_MAX_PATH]) {
    size_t n = strlen(r->a->name) - strlen(INDEX_ENDING);
    int length =
        snprintf(out, STORE_MAX_PATH, "%.*s.data-%05u-of-%05u", (int)n, r->a->name, shard, of);
    return length > 0 && length < STORE_MAX_PATH;
}

/* Files are numbered among those that were merged, and the index may count others, too. */
static uint32_t count_files(const reading *r) {
    uint32_t most = 0;
    for (size_t i = 0; i < r->bundle.count; i++) {
        const bundle_entry *e = &r->bundle.entries[i];
        most = e->slice_count == 0 && e->shard >= most ? e->shard + 1 : most;
    }
    return most;
}

static pawl_status add_files(reading *r, pawl_error *err) {
    uint32_t used = count_files(r);
    uint32_t of = r->bundle.shards;
    char path[STORE_MAX_PATH];
    store_stat stat;
    struct pawl_error ignored = ERROR_INIT;
    r->file_of = mem_calloc((size_t)r->bundle.shards + 1, sizeof(*r->file_of));
    if (r->file_of == NULL) {
        return error_nomem(err, r->bundle.shards * sizeof(*r->file_of));
    }
    if (used > of) {
        return error_set(err, PAWL_EDAMAGED, "a tensor is in a file that the index does not count");
    }
    bool counted = name_file(r, 0, of, path) &&
                   store_stat_path(r->a->base.store, path, &stat, &ignored) == PAWL_OK;
    for (uint32_t i = 0; i < used; i++) {
        if (!name_file(r, i, counted ? of : used, path)) {
            return error_set(err, PAWL_ELIMIT, "the name of a file is too long");
        }
        pawl_status status = archive_add_file(r->a, path, &r->file_of[i], err);
        if (status != PAWL_OK) {
            return status == PAWL_ENOTFOUND ? is_missing(r, path, err) : status;
        }
    }
    return PAWL_OK;
}

/* ---- entries -------------------------------------------------------------------------------- */

static bool count_elements(const bundle_entry *e, uint64_t *out) {
    *out = 1;
    for (int d = 0; d < e->ndim; d++) {
        if (multiply_overflows(*out, (uint64_t)e->shape[d], out)) {
            return false;
        }
    }
    return true;
}

static pawl_status refuse_entry(pawl_status status, const char *what, pawl_error *err) {
    return error_set(err, status, "an entry of the index is wrong: %s", what);
}

/* Are its bytes in its file, and as many as its shape needs? */
static pawl_status check_entry(const reading *r, const bundle_entry *e, const tensor_type *t,
                               pawl_error *err) {
    uint64_t elements, bytes, end;
    if (e->shard >= r->bundle.shards) {
        return refuse_entry(PAWL_EDAMAGED, "its file is none that the index counts", err);
    }
    uint64_t file_bytes = r->a->files[r->file_of[e->shard]].was.size;
    if (add_overflows(e->offset, e->bytes, &end) || end > file_bytes) {
        (void)refuse_entry(PAWL_EDAMAGED, "it lies behind the end of its file", err);
        archive_error_file(r->a, r->file_of[e->shard], err);
        error_expected(err, "a file of at least %llu bytes", (unsigned long long)end);
        error_found(err, "%llu bytes", (unsigned long long)file_bytes);
        return PAWL_EDAMAGED;
    }
    if (!count_elements(e, &elements) ||
        (t->bytes > 0 && (multiply_overflows(elements, t->bytes, &bytes) || bytes != e->bytes))) {
        return refuse_entry(PAWL_EDAMAGED, "its size does not fit its shape", err);
    }
    return PAWL_OK;
}

static pawl_status keep_check(reading *r, const bundle_entry *e, const char *name, uint64_t texts,
                              pawl_error *err) {
    details *d = r->details;
    TRY(vec_reserve(&d->items, &d->room, d->count + 1, sizeof(*d->items), err));
    d->items[d->count++] = (check){.name = name,
                                   .file = r->file_of[e->shard],
                                   .offset = e->offset,
                                   .bytes = e->bytes,
                                   .crc = e->crc,
                                   .texts = texts};
    return PAWL_OK;
}

/* Big-endian numbers are put in order as they are read. */
static pawl_status place(const reading *r, const bundle_entry *e, const tensor_type *t,
                         archive_part *out, pawl_error *err) {
    uint32_t file = r->file_of[e->shard];
    *out = (archive_part){.stream = file, .offset = e->offset, .bytes = e->bytes};
    if (!r->bundle.swapped || t->swap <= 1 || e->bytes == 0) {
        return PAWL_OK;
    }
    const stream_layout layout = {.stream = file,
                                  .offset = e->offset,
                                  .element_bytes = t->bytes,
                                  .swap_bytes = t->swap,
                                  .ndim = e->ndim,
                                  .shape = e->shape};
    out->offset = 0;
    return stream_add_strided(r->a, &layout, e->offset + e->bytes, &out->stream, err);
}

static pawl_status add_tensor(reading *r, const bundle_entry *e, const tensor_type *t,
                              const bundle_name *name, const archive_part *parts, size_t n,
                              pawl_error *err) {
    const archive_tensor tensor = {.name = name->name,
                                   .dtype = t->dtype,
                                   .type = t->type,
                                   .ndim = e->ndim,
                                   .shape = e->shape,
                                   .role = name->role,
                                   .slot_of = name->variable,
                                   .slot = name->slot,
                                   .parts = parts,
                                   .part_count = n};
    return archive_add_tensor(r->a, &tensor, err);
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* Lengths, a checksum of them, and the texts. *begin: of the first text. */
static bool take_lengths(cursor *c, uint64_t count, uint64_t *total) {
    struct pawl_error ignored = ERROR_INIT;
    *total = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t n = 0;
        if (cursor_varint64(c, &n, &ignored) != PAWL_OK || add_overflows(*total, n, total)) {
            return false;
        }
    }
    uint32_t checksum;
    return cursor_u32le(c, &checksum, &ignored) == PAWL_OK && *total == cursor_left(c);
}

/* Before a text, or behind it: the lists of its dimensions that begin, or end, there. */
static pawl_status put_brackets(const bundle_entry *e, uint64_t at, const char *bracket,
                                buffer *json, pawl_error *err) {
    uint64_t each = 1;
    for (int d = e->ndim - 1; d >= 0; d--) {
        each *= (uint64_t)e->shape[d];
        if (each == 0 || at % each != 0) {
            return PAWL_OK;
        }
        TRY(buffer_append(json, bracket, 1, err));
    }
    return PAWL_OK;
}

/* As JSON, nested as the shape is; false: some text is no UTF-8, or all are too long for a
 * value. */
static pawl_status put_texts(const bundle_entry *e, const buffer *bytes, uint64_t count,
                             buffer *json, bool *fits, pawl_error *err) {
    cursor lengths = cursor_of(bytes->data, bytes->size, 0, "texts");
    cursor c = lengths;
    uint64_t total;
    *fits = take_lengths(&c, count, &total);
    TRY(buffer_append(json, "[]", count == 0 ? 2 : 0, err));
    for (uint64_t i = 0; *fits && i < count; i++) {
        uint64_t n = 0;
        const uint8_t *text = NULL;
        TRY(cursor_varint64(&lengths, &n, err));
        TRY(cursor_bytes(&c, (size_t)n, &text, err));
        *fits = utf8_valid((const char *)text, (size_t)n) && memchr(text, 0, (size_t)n) == NULL &&
                json->size < ARCHIVE_VALUE_BYTES;
        if (*fits) {
            TRY(buffer_append(json, ",", i > 0 ? 1 : 0, err));
            TRY(put_brackets(e, i, "[", json, err));
            TRY(buffer_json_string(json, (const char *)text, (size_t)n, err));
            TRY(put_brackets(e, i + 1, "]", json, err));
        }
    }
    *fits = *fits && json->size <= ARCHIVE_VALUE_BYTES;
    return PAWL_OK;
}

/* No text is a slot, nor a tensor of the model. */
static pawl_role role_of_text(const bundle_name *name) {
    bool other = name->role == PAWL_ROLE_SLOT || name->role == PAWL_ROLE_MODEL;
    return other ? PAWL_ROLE_OTHER : name->role;
}

static pawl_status add_scalar_text(const reading *r, const bundle_name *name, const buffer *bytes,
                                   bool *done, pawl_error *err) {
    cursor c = cursor_of(bytes->data, bytes->size, 0, "text");
    uint64_t n;
    *done = take_lengths(&c, 1, &n) && n <= ARCHIVE_VALUE_BYTES;
    if (!*done) {
        return PAWL_OK;
    }
    const char *text = (const char *)c.data + c.at;
    bool plain = utf8_valid(text, (size_t)n) && memchr(text, 0, (size_t)n) == NULL &&
                 strcmp(name->name, GRAPH_KEY) != 0;
    return archive_add_value(r->a, name->name, role_of_text(name),
                             plain ? PAWL_KIND_STRING : PAWL_KIND_BYTES, text, (size_t)n, err);
}

/* What is too large for a value is listed. */
static pawl_status add_texts(reading *r, const bundle_entry *e, const bundle_name *name,
                             uint64_t count, bool *done, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    CLEANUP(buffer_free) buffer bytes = {0};
    CLEANUP(buffer_free) buffer json = {0};
    *done = false;
    if (e->bytes > MOST_TEXT || count > ARCHIVE_VALUE_BYTES) {
        return PAWL_OK;
    }
    TRY(archive_open_file(r->a, r->file_of[e->shard], STORE_READ, &opened, err));
    TRY(buffer_reserve(&bytes, (size_t)e->bytes, err));
    TRY(store_read(opened, e->offset, bytes.data, (size_t)e->bytes, err));
    bytes.size = (size_t)e->bytes;
    if (e->ndim == 0) {
        return add_scalar_text(r, name, &bytes, done, err);
    }
    TRY(put_texts(e, &bytes, count, &json, done, err));
    return *done ? archive_add_value(r->a, name->name, role_of_text(name), PAWL_KIND_JSON,
                                     json.data, json.size, err)
                 : PAWL_OK;
}

/* ---- slices --------------------------------------------------------------------------------- */

/* `numbers`: where it begins and how long it is, in each dimension. */
static pawl_status take_slice(reading *r, const bundle_entry *whole, const bundle_slice *s,
                              const bundle_name *name, int64_t *numbers, archive_part *out,
                              pawl_error *err) {
    TRY(bundle_slice_key(whole->key, s, &r->key, err));
    const bundle_entry *e = bundle_find(&r->bundle, r->key.data, r->key.size);
    if (e == NULL || s->ndim != whole->ndim || e->ndim != whole->ndim || e->type != whole->type ||
        e->slice_count > 0) {
        return refuse_entry(PAWL_EDAMAGED, "a slice of it is missing, or of another kind", err);
    }
    const tensor_type *t = &types[e->type];
    TRY(check_entry(r, e, t, err));
    for (int d = 0; d < s->ndim; d++) {
        int64_t length = s->length[d] < 0 ? whole->shape[d] : s->length[d];
        numbers[d] = s->start[d];
        numbers[whole->ndim + d] = length;
        if (e->shape[d] != length) {
            return refuse_entry(PAWL_EDAMAGED, "a slice of it has another shape", err);
        }
    }
    uint64_t count = 0;
    TRY(place(r, e, t, out, err));
    if (e->type == DT_STRING && !count_elements(e, &count)) {
        return refuse_entry(PAWL_EDAMAGED, "its size does not fit its shape", err);
    }
    return t->bytes > 0 || e->type == DT_STRING ? keep_check(r, e, name->name, count, err)
                                                : PAWL_OK;
}

static pawl_status add_sliced(reading *r, const bundle_entry *e, const tensor_type *t,
                              const bundle_name *name, pawl_error *err) {
    size_t n = e->slice_count;
    size_t ndim = (size_t)e->ndim;
    TRY(vec_reserve(&r->parts, &r->part_room, n, sizeof(*r->parts), err));
    TRY(vec_reserve(&r->boxes, &r->box_room, n * 2 * ndim + 1, sizeof(*r->boxes), err));
    for (size_t i = 0; i < n; i++) {
        int64_t *numbers = r->boxes + i * 2 * ndim;
        TRY(take_slice(r, e, &e->slices[i], name, numbers, &r->parts[i], err));
        r->parts[i].box_offset = numbers;
        r->parts[i].box_extent = numbers + ndim;
    }
    return add_tensor(r, e, t, name, r->parts, n, err);
}

/* A tensor of one slice, which is all of it, is what the slice is. *out: that. */
static pawl_status join_slice(reading *r, const bundle_entry *e, bundle_entry *out,
                              pawl_error *err) {
    *out = *e;
    if (e->slice_count != 1 || e->slices[0].ndim != e->ndim) {
        return PAWL_OK;
    }
    for (int d = 0; d < e->ndim; d++) {
        int64_t length = e->slices[0].length[d];
        if (e->slices[0].start[d] != 0 || (length >= 0 && length != e->shape[d])) {
            return PAWL_OK;
        }
    }
    TRY(bundle_slice_key(e->key, &e->slices[0], &r->key, err));
    const bundle_entry *slice = bundle_find(&r->bundle, r->key.data, r->key.size);
    if (slice != NULL && slice->type == e->type && slice->ndim == e->ndim &&
        slice->slice_count == 0) {
        *out = *slice;
        out->key = e->key;
        out->shape = e->shape;
    }
    return PAWL_OK;
}

/* ---- the graph of objects ------------------------------------------------------------------- */

static const bundle_entry *find_graph(const reading *r) {
    const bundle_entry *e = bundle_find(&r->bundle, GRAPH_KEY, strlen(GRAPH_KEY));
    return e != NULL && e->type == DT_STRING && e->ndim == 0 && e->slice_count == 0 ? e : NULL;
}

/* *at: where the text begins in its entry. */
static pawl_status load_graph(reading *r, const bundle_entry *e, size_t *at, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    uint64_t n;
    TRY(check_entry(r, e, &types[DT_STRING], err));
    if (e->bytes > FOREIGN_MAX_GRAPH) {
        return error_set(err, PAWL_ELIMIT, "the graph of objects has more than %u bytes",
                         FOREIGN_MAX_GRAPH);
    }
    TRY(archive_open_file(r->a, r->file_of[e->shard], STORE_READ, &opened, err));
    TRY(buffer_reserve(&r->graph_bytes, (size_t)e->bytes, err));
    TRY(store_read(opened, e->offset, r->graph_bytes.data, (size_t)e->bytes, err));
    r->graph_bytes.size = (size_t)e->bytes;
    cursor c = cursor_of(r->graph_bytes.data, r->graph_bytes.size, e->offset, "graph of objects");
    if (!take_lengths(&c, 1, &n)) {
        return refuse_entry(PAWL_EDAMAGED, "its length is not that of its text", err);
    }
    *at = c.at;
    return graph_decode(r->graph_bytes.data + c.at, (size_t)n, &r->graph, err);
}

/* Where it is too large for a value it is a tensor of its bytes. */
static pawl_status add_large_graph(reading *r, const bundle_entry *e, size_t at, pawl_error *err) {
    const int64_t shape[] = {(int64_t)(e->bytes - at)};
    const archive_part part = {
        .stream = r->file_of[e->shard], .offset = e->offset + at, .bytes = e->bytes - at};
    const archive_tensor tensor = {.name = GRAPH_KEY,
                                   .dtype = PAWL_U8,
                                   .ndim = 1,
                                   .shape = shape,
                                   .role = PAWL_ROLE_OTHER,
                                   .parts = &part,
                                   .part_count = 1};
    TRY(keep_check(r, e, GRAPH_KEY, 1, err));
    return archive_add_tensor(r->a, &tensor, err);
}

/* *added: its entry is, too. */
static pawl_status read_graph(reading *r, const bundle_entry **added, pawl_error *err) {
    const bundle_entry *e = find_graph(r);
    size_t at = 0;
    *added = NULL;
    if (e == NULL) {
        return PAWL_OK;
    }
    pawl_status status = load_graph(r, e, &at, err);
    if (status == PAWL_OK && e->bytes - at > ARCHIVE_VALUE_BYTES) {
        *added = e;
        status = add_large_graph(r, e, at, err);
    }
    if (status != PAWL_OK && status != PAWL_ENOMEM) {
        error_entry(err, GRAPH_KEY);
    }
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status add_entry(reading *r, const bundle_entry *given, pawl_error *err) {
    bundle_entry joined;
    const bundle_entry *e = &joined;
    bundle_name name;
    archive_part part;
    uint64_t count;
    bool done = false;
    TRY(join_slice(r, given, &joined, err));
    if (e->type >= ARRAY_LENGTH(types) ||
        (types[e->type].dtype == 0 && types[e->type].type == NULL)) {
        return refuse_entry(PAWL_EUNSUPPORTED, "its type is none that pawl knows", err);
    }
    const tensor_type *t = &types[e->type];
    TRY(bundle_name_of(r->a, &r->bundle, &r->graph, e->key, &name, err));
    if (e->slice_count > 0) {
        return add_sliced(r, e, t, &name, err);
    }
    TRY(check_entry(r, e, t, err));
    if (!count_elements(e, &count)) {
        return refuse_entry(PAWL_EDAMAGED, "its size does not fit its shape", err);
    }
    if (t->bytes > 0 || e->type == DT_STRING) {
        TRY(keep_check(r, e, name.name, e->type == DT_STRING ? count : 0, err));
    }
    if (e->type == DT_STRING) {
        TRY(add_texts(r, e, &name, count, &done, err));
    }
    if (done) {
        return PAWL_OK;
    }
    TRY(place(r, e, t, &part, err));
    return add_tensor(r, e, t, &name, &part, 1, err);
}

static pawl_status add_entries(reading *r, pawl_error *err) {
    const bundle_entry *added;
    TRY(read_graph(r, &added, err));
    for (size_t i = 0; i < r->bundle.count; i++) {
        const bundle_entry *e = &r->bundle.entries[i];
        if (bundle_is_slice_key(e->key) || e == added) {
            continue;
        }
        pawl_status status = add_entry(r, e, err);
        if (status != PAWL_OK) {
            if (status != PAWL_ENOMEM && err->entry[0] == '\0') {
                error_entry(err, (const char *)e->key.bytes);
            }
            return status;
        }
    }
    return PAWL_OK;
}

static void free_details(void *context) {
    details *d = context;
    mem_free(d->items);
    mem_free(d);
}

static void reading_free(reading *r) {
    bundle_free(&r->bundle);
    graph_free(&r->graph);
    buffer_free(&r->graph_bytes);
    mem_free(r->file_of);
    buffer_free(&r->key);
    mem_free(r->parts);
    mem_free(r->boxes);
}

static pawl_status read_index(reading *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer index = {0};
    TRY(archive_read_description(r->a, r->a->name, FOREIGN_MAX_INDEX, &index, err));
    TRY(bundle_decode(index.data, index.size, &r->bundle, err));
    TRY(add_files(r, err));
    return add_entries(r, err);
}

pawl_status tensorflow_read(archive *a, pawl_error *err) {
    CLEANUP(reading_free) reading r = {.a = a};
    size_t n = strlen(a->name);
    if (n <= strlen(INDEX_ENDING) ||
        strcmp(a->name + n - strlen(INDEX_ENDING), INDEX_ENDING) != 0) {
        error_set(err, PAWL_EUNSUPPORTED, "the index of a checkpoint has another name");
        error_expected(err, "a name that ends in " INDEX_ENDING);
        store_error_path(err, a->base.store, a->name);
        return PAWL_EUNSUPPORTED;
    }
    r.details = mem_calloc(1, sizeof(*r.details));
    if (r.details == NULL) {
        return error_nomem(err, sizeof(*r.details));
    }
    a->details = r.details;
    a->free_details = free_details;
    pawl_status status = read_index(&r, err);
    if (status != PAWL_OK && err->path[0] == '\0') {
        store_error_path(err, a->base.store, a->name);
    }
    return status;
}

/* ---- verifying ------------------------------------------------------------------------------ */

#define STEP_BYTES 1048576u

/* Of texts what is checksummed of each length are its 4 or 8 bytes, not those of the varint. */
static pawl_status sum_lengths(store_file *f, const check *c, uint64_t *at, uint32_t *crc,
                               pawl_error *err) {
    for (uint64_t i = 0; i < c->texts; i++) {
        uint8_t bytes[10];
        uint64_t length = 0;
        uint64_t left = c->offset + c->bytes - *at;
        size_t n = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
        TRY(store_read(f, *at, bytes, n, err));
        cursor in = cursor_of(bytes, n, *at, "length of a text");
        TRY(cursor_varint64(&in, &length, err));
        *at += in.at;
        uint8_t fixed[8];
        for (size_t k = 0; k < sizeof(fixed); k++) {
            fixed[k] = (uint8_t)(length >> (8 * k));
        }
        *crc = crc32c(*crc, fixed, length <= UINT32_MAX ? 4 : 8);
    }
    return PAWL_OK;
}

static pawl_status sum_bytes(store_file *f, const check *c, uint64_t at, uint8_t *memory,
                             uint32_t *crc, source_verifier *v, pawl_error *err) {
    uint64_t end = c->offset + c->bytes;
    while (at < end) {
        source_part part;
        if (source_parts_find(v->parts, c->file, at, end, &part)) {
            *crc = crc32c_join(*crc, part.sum, part.bytes);
            at += part.bytes;
            continue;
        }
        size_t n = part.bytes < STEP_BYTES ? (size_t)part.bytes : STEP_BYTES;
        TRY(store_read(f, at, memory, n, err));
        *crc = crc32c(*crc, memory, n);
        at += n;
        TRY(v->progress(v->context, 0, err));
    }
    return PAWL_OK;
}

static pawl_status differs(const archive *a, const check *c, uint32_t crc, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the checksum of a tensor differs");
    archive_error_file(a, c->file, err);
    error_range(err, c->offset, c->bytes);
    error_expected(err, "CRC32C %08x, masked", c->crc);
    error_found(err, "%08x", crc);
    return PAWL_EDAMAGED;
}

/* The file that was opened last. */
typedef struct checking {
    store_file *opened;
    uint32_t file;
    uint8_t *memory; /* STEP_BYTES */
} checking;

static void checking_end(checking *k) {
    store_close(k->opened);
    mem_free(k->memory);
}

static pawl_status check_item(archive *a, const check *c, checking *k, source_verifier *v,
                              pawl_error *err) {
    uint64_t at = c->offset;
    uint32_t crc = 0;
    if (c->texts == 0 && !source_parts_touch(v->parts, c->file, at, at + c->bytes)) {
        return PAWL_OK;
    }
    if (k->opened == NULL || k->file != c->file) {
        store_close(k->opened);
        k->opened = NULL;
        k->file = c->file;
        TRY(archive_open_file(a, c->file, STORE_READ_BULK, &k->opened, err));
    }
    if (c->texts > 0) {
        TRY(sum_lengths(k->opened, c, &at, &crc, err));
    }
    TRY(sum_bytes(k->opened, c, at, k->memory, &crc, v, err));
    return crc32c_mask(crc) == c->crc ? PAWL_OK : differs(a, c, crc32c_mask(crc), err);
}

pawl_status tensorflow_verify(archive *a, source_verifier *v, pawl_error *err) {
    const details *d = a->details;
    CLEANUP(checking_end) checking k = {.memory = mem_alloc(STEP_BYTES)};
    if (k.memory == NULL) {
        return error_nomem(err, STEP_BYTES);
    }
    for (size_t i = 0; i < d->count; i++) {
        struct pawl_error story = ERROR_INIT;
        pawl_status status = check_item(a, &d->items[i], &k, v, &story);
        if (status == PAWL_ECANCELED || status == PAWL_ENOMEM || status == PAWL_EBUSY) {
            *err = story;
            return status;
        }
        if (status != PAWL_OK) {
            v->problem(v->context, a->files[d->items[i].file].path, d->items[i].name, &story);
        }
    }
    return PAWL_OK;
}

/* ---- which one is the newest ---------------------------------------------------------------- */

bool tensorflow_newest(const char *text, size_t n, char *out, size_t room) {
    static const char field[] = "model_checkpoint_path:";
    size_t at = 0;
    while (at < n) {
        const char *line = text + at;
        const char *end = memchr(line, '\n', n - at);
        size_t length = end != NULL ? (size_t)(end - line) : n - at;
        if (length > sizeof(field) && memcmp(line, field, sizeof(field) - 1) == 0) {
            const char *begin = memchr(line, '"', length);
            const char *last = begin != NULL ? begin + 1 : line + length;
            while (last < line + length && *last != '"' && *last != '\\') {
                last++;
            }
            size_t bytes = begin != NULL ? (size_t)(last - begin) - 1 : 0;
            bool whole = bytes > 0 && bytes < room && last < line + length && *last == '"';
            if (whole) {
                memcpy(out, begin + 1, bytes);
                out[bytes] = '\0';
            }
            return whole;
        }
        at += length + 1;
    }
    return false;
}
