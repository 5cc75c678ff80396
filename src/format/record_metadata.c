/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_metadata: what a data file says of its own tensors, as JSON in its __metadata__, so that
 * an index can be rebuilt from data files alone. Only what the safetensors header does not say by
 * itself:
 *
 *   {"version":1,"step":S,"rank":R,"world_size":W,"entries":{NAME:{...}, ...}}
 *
 * where an entry that is a plain, whole tensor of the model is left out, and the members of the
 * others (kind, role, slot_of, slot, per_rank, replicated, shape, offset) are left out where they
 * say the usual. Further pieces of a tensor in a file have the keys NAME//1, NAME//2, ...; the
 * version is then 2.
 */
#include "base/json.h"
#include "format/format.h"
#include "format/record_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FURTHER_MARK "//" /* no name has an empty component */

/* ---- keys of further pieces ----------------------------------------------------------------- */

pawl_status record_further_key(const char *name, uint32_t further, arena *memory, const char **key,
                               pawl_error *err) {
    *key = name;
    if (further == 0) {
        return PAWL_OK;
    }
    *key = arena_printf(memory, "%s" FURTHER_MARK "%" PRIu32, name, further);
    return *key != NULL ? PAWL_OK : error_nomem(err, strlen(name) + RECORD_FURTHER_BYTES);
}

/* Cuts the mark and number of a further piece off its key, which is the name then. */
static void cut_further(char *key) {
    char *mark = strstr(key, FURTHER_MARK);
    char *end;
    if (mark == NULL || mark[2] < '1' || mark[2] > '9') {
        return; /* what is no name is refused as that */
    }
    unsigned long long number = strtoull(mark + 2, &end, 10);
    if (*end == '\0' && number <= UINT32_MAX) {
        *mark = '\0';
    }
}

/* ---- encode --------------------------------------------------------------------------------- */

static pawl_status put_list(buffer *json, int n, const int64_t *numbers, pawl_error *err) {
    TRY(buffer_append(json, "[", 1, err));
    for (int i = 0; i < n; i++) {
        TRY(buffer_append(json, ",", i > 0, err));
        TRY(buffer_decimal(json, numbers[i], err));
    }
    return buffer_append(json, "]", 1, err);
}

/* The members of one object, separated by commas. */
static pawl_status put_key(buffer *json, bool *first, const char *key, pawl_error *err) {
    TRY(buffer_append(json, ",", !*first, err));
    *first = false;
    TRY(buffer_append(json, "\"", 1, err));
    TRY(buffer_append(json, key, strlen(key), err));
    return buffer_append(json, "\":", 2, err);
}

static pawl_status put_text_member(buffer *json, bool *first, const char *key, const char *text,
                                   pawl_error *err) {
    TRY(put_key(json, first, key, err));
    return buffer_json_string(json, text, strlen(text), err);
}

static pawl_status put_true(buffer *json, bool *first, const char *key, bool value,
                            pawl_error *err) {
    if (!value) {
        return PAWL_OK;
    }
    TRY(put_key(json, first, key, err));
    return buffer_append(json, "true", 4, err);
}

static pawl_status encode_members(const record_entry *entry, const record_piece *piece,
                                  buffer *json, pawl_error *err) {
    bool first = true;
    if (entry->kind != PAWL_KIND_TENSOR) {
        TRY(put_text_member(json, &first, "kind", pawl_kind_name(entry->kind), err));
    }
    if (entry->role != PAWL_ROLE_MODEL) {
        TRY(put_text_member(json, &first, "role", pawl_role_name(entry->role), err));
    }
    if (entry->role == PAWL_ROLE_SLOT) {
        TRY(put_text_member(json, &first, "slot_of", entry->slot_of, err));
        TRY(put_text_member(json, &first, "slot", entry->slot, err));
    }
    TRY(put_true(json, &first, "per_rank", entry->per_rank, err));
    TRY(put_true(json, &first, "replicated", entry->replicated, err));
    if (entry->kind == PAWL_KIND_TENSOR && !record_piece_is_whole(entry, piece)) {
        TRY(put_key(json, &first, "shape", err));
        TRY(put_list(json, entry->ndim, entry->shape, err));
        TRY(put_key(json, &first, "offset", err));
        TRY(put_list(json, entry->ndim, piece->box_offset, err));
    }
    return PAWL_OK;
}

/* Between two members of the object that `json` ends in. */
static pawl_status put_separator(buffer *json, pawl_error *err) {
    return buffer_append(json, ",", json->data[json->size - 1] != '{', err);
}

pawl_status record_metadata_begin(int version, int64_t step, int rank, int world_size, buffer *json,
                                  pawl_error *err) {
    json->size = 0;
    return buffer_printf(json, err,
                         "{\"version\":%d,\"step\":%" PRId64
                         ",\"rank\":%d,\"world_size\":%d,\"entries\":{",
                         version, step, rank, world_size);
}

/* "name":{...}, or nothing when there is nothing to say. */
pawl_status record_metadata_add(const record_entry *entry, const record_piece *piece, buffer *json,
                                pawl_error *err) {
    size_t begin = json->size;
    TRY(put_separator(json, err));
    TRY(buffer_json_string(json, entry->name, strlen(entry->name), err));
    TRY(buffer_append(json, ":{", 2, err));
    size_t empty = json->size;
    TRY(encode_members(entry, piece, json, err));
    if (json->size == empty) {
        json->size = begin;
        return PAWL_OK;
    }
    return buffer_append(json, "}", 1, err);
}

pawl_status record_metadata_end(buffer *json, pawl_error *err) {
    return buffer_append(json, "}}", 2, err);
}

pawl_status record_sharding_info_begin(buffer *json, pawl_error *err) {
    json->size = 0;
    return buffer_append(json, "{", 1, err);
}

pawl_status record_sharding_info_add(const record_entry *entry, const record_piece *piece,
                                     buffer *json, pawl_error *err) {
    static const char member[] = ":{\"saved_offsets\":";
    static const int64_t zero = 0;
    TRY(put_separator(json, err));
    TRY(buffer_json_string(json, entry->name, strlen(entry->name), err));
    TRY(buffer_append(json, member, sizeof member - 1, err));
    if (entry->kind == PAWL_KIND_TENSOR) {
        TRY(put_list(json, entry->ndim, piece->box_offset, err));
    } else {
        bool scalar;
        (void)record_value_dtype(entry->kind, &scalar);
        TRY(put_list(json, scalar ? 0 : 1, &zero, err));
    }
    return buffer_append(json, "}", 1, err);
}

pawl_status record_sharding_info_end(buffer *json, pawl_error *err) {
    return buffer_append(json, "}", 1, err);
}

/* ---- decode --------------------------------------------------------------------------------- */

/* What an entry's object said; the lists are copied into the arena. */
typedef struct decoder {
    json_reader json;
    const safetensors_header *header;
    arena *memory;
    const safetensors_tensor **by_name; /* the header's tensors, ascending by name */
    record_entry *entries;              /* in the same order */
    bool *described;
    buffer key, text;
    int64_t version, step, rank, world_size;
} decoder;

static void metadata_decoder_free(decoder *d) {
    mem_free(d->by_name);
    mem_free(d->described);
    buffer_free(&d->key);
    buffer_free(&d->text);
}

static pawl_status refuse_metadata(const char *name, pawl_error *err, const char *what) {
    error_set(err, PAWL_EDAMAGED, "what the data file says of its tensors is wrong: %s", what);
    if (name != NULL) {
        error_entry(err, name);
    }
    return PAWL_EDAMAGED;
}

static bool next_key_is(const decoder *d, const char *key) {
    return strcmp((const char *)d->key.data, key) == 0;
}

static pawl_status get_metadata_text(decoder *d, const char **out, pawl_error *err) {
    TRY(json_text(&d->json, &d->text, err));
    *out = arena_strdup(d->memory, (const char *)d->text.data);
    return *out != NULL ? PAWL_OK : error_nomem(err, d->text.size + 1);
}

/* Exactly `n` integers that are not negative. */
static pawl_status get_list(decoder *d, int n, int64_t **out, pawl_error *err) {
    int64_t *numbers = arena_take(d->memory, (size_t)n * sizeof *numbers, err);
    if (numbers == NULL) {
        return PAWL_ENOMEM;
    }
    *out = numbers;
    TRY(json_enter(&d->json, '['));
    for (int i = 0;; i++) {
        bool more = false;
        TRY(json_element(&d->json, &more));
        if (more != (i < n)) {
            return refuse_metadata(NULL, err,
                                   "a list has another length than the tensor has dimensions");
        }
        if (!more) {
            return PAWL_OK;
        }
        TRY(json_i64(&d->json, &numbers[i]));
    }
}

static pawl_status decode_kind(decoder *d, record_entry *entry, pawl_error *err) {
    TRY(json_text(&d->json, &d->text, err));
    return kind_from_name((const char *)d->text.data, &entry->kind)
               ? PAWL_OK
               : refuse_metadata(entry->name, err, "unknown kind");
}

static pawl_status decode_role(decoder *d, record_entry *entry, pawl_error *err) {
    TRY(json_text(&d->json, &d->text, err));
    return role_from_name((const char *)d->text.data, &entry->role)
               ? PAWL_OK
               : refuse_metadata(entry->name, err, "unknown role");
}

/* The key was read; the value comes next. */
static pawl_status decode_entry_member(decoder *d, record_entry *entry, int64_t **shape,
                                       int64_t **offset, pawl_error *err) {
    if (next_key_is(d, "kind")) {
        return decode_kind(d, entry, err);
    }
    if (next_key_is(d, "role")) {
        return decode_role(d, entry, err);
    }
    if (next_key_is(d, "slot_of")) {
        return get_metadata_text(d, &entry->slot_of, err);
    }
    if (next_key_is(d, "slot")) {
        return get_metadata_text(d, &entry->slot, err);
    }
    if (next_key_is(d, "per_rank")) {
        return json_bool(&d->json, &entry->per_rank);
    }
    if (next_key_is(d, "replicated")) {
        return json_bool(&d->json, &entry->replicated);
    }
    if (next_key_is(d, "shape")) {
        return get_list(d, entry->ndim, shape, err);
    }
    if (next_key_is(d, "offset")) {
        return get_list(d, entry->ndim, offset, err);
    }
    return json_skip(&d->json, NULL);
}

static pawl_status decode_members(decoder *d, record_entry *entry, pawl_error *err) {
    int64_t *shape = NULL, *offset = NULL;
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            break;
        }
        TRY(decode_entry_member(d, entry, &shape, &offset, err));
    }
    if ((shape != NULL) != (offset != NULL)) {
        return refuse_metadata(entry->name, err,
                               "a piece has a shape without an offset, or the reverse");
    }
    if (shape != NULL) {
        entry->shape = shape;
        entry->pieces->box_offset = offset;
    }
    return PAWL_OK;
}

/* The place of the tensor of that name; tensor_count when there is none. */
static size_t find_tensor(const decoder *d, const char *name) {
    size_t low = 0, high = d->header->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(d->by_name[middle]->name, name);
        if (order == 0) {
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return d->header->tensor_count;
}

static pawl_status decode_entries(decoder *d, pawl_error *err) {
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        size_t i = find_tensor(d, (const char *)d->key.data);
        if (i == d->header->tensor_count || d->described[i]) {
            return refuse_metadata((const char *)d->key.data, err,
                                   "it describes a tensor twice, or one that is not in the file");
        }
        d->described[i] = true;
        TRY(decode_members(d, &d->entries[i], err));
    }
}

static bool version_known(const decoder *d) {
    return d->version >= RECORD_METADATA_PLAIN && d->version <= RECORD_METADATA_FURTHER;
}

static pawl_status decode_top_member(decoder *d, pawl_error *err) {
    if (next_key_is(d, "version")) {
        return json_i64(&d->json, &d->version);
    }
    if (next_key_is(d, "step")) {
        return json_i64(&d->json, &d->step);
    }
    if (next_key_is(d, "rank")) {
        return json_i64(&d->json, &d->rank);
    }
    if (next_key_is(d, "world_size")) {
        return json_i64(&d->json, &d->world_size);
    }
    /* Only the members of a version that is known are understood. */
    if (next_key_is(d, "entries") && version_known(d)) {
        return decode_entries(d, err);
    }
    return json_skip(&d->json, NULL);
}

static pawl_status check_top(const decoder *d, pawl_error *err) {
    if (d->version > RECORD_METADATA_FURTHER) {
        error_set(err, PAWL_EUNSUPPORTED, "the data file was written by a newer version of pawl");
        error_expected(err, "version 1 to %d of its description", RECORD_METADATA_FURTHER);
        error_found(err, "version %" PRId64, d->version);
        error_next(err, "read it with a newer pawl");
        return PAWL_EUNSUPPORTED;
    }
    if (!version_known(d)) {
        return refuse_metadata(NULL, err, "it does not begin with its version");
    }
    if (d->step < 0 || d->world_size < 1 || d->world_size > INT32_MAX || d->rank < 0 ||
        d->rank >= d->world_size) {
        return refuse_metadata(NULL, err, "step, rank or world size is missing or out of range");
    }
    return PAWL_OK;
}

static pawl_status decode_description(decoder *d, const char *text, pawl_error *err) {
    d->json = json_reader_for(text, strlen(text), 0, "data file's description of itself", err);
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            break;
        }
        TRY(decode_top_member(d, err));
    }
    TRY(json_end(&d->json));
    return check_top(d, err);
}

/* ---- from the header to entries ------------------------------------------------------------- */

static int by_tensor_name(const void *a, const void *b) {
    const safetensors_tensor *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

/* A plain, whole tensor of the model, as the header alone describes it. */
static pawl_status entry_from_tensor(decoder *d, const safetensors_tensor *tensor, uint32_t file,
                                     record_entry *entry, pawl_error *err) {
    size_t numbers = (size_t)tensor->ndim * sizeof(int64_t);
    record_piece *piece = arena_take(d->memory, sizeof *piece, err);
    int64_t *offset = arena_take(d->memory, numbers, err);
    int64_t *extent = arena_take(d->memory, numbers, err);
    char *name = arena_take(d->memory, strlen(tensor->name) + 1, err);
    if (piece == NULL || offset == NULL || extent == NULL || name == NULL) {
        return PAWL_ENOMEM;
    }
    memset(offset, 0, numbers);
    memcpy(extent, tensor->shape, numbers);
    memcpy(name, tensor->name, strlen(tensor->name) + 1);
    *piece = (record_piece){.file = file,
                            .offset = tensor->offset,
                            .bytes = tensor->bytes,
                            .box_offset = offset,
                            .box_extent = extent};
    *entry = (record_entry){.name = name,
                            .kind = PAWL_KIND_TENSOR,
                            .role = PAWL_ROLE_MODEL,
                            .dtype = tensor->dtype,
                            .ndim = tensor->ndim,
                            .shape = extent,
                            .pieces = piece,
                            .piece_count = 1};
    return PAWL_OK;
}

static pawl_status start_decoder(decoder *d, uint32_t file, pawl_error *err) {
    size_t count = d->header->tensor_count;
    d->by_name = mem_calloc(count, sizeof(safetensors_tensor *));
    d->described = mem_calloc(count, sizeof *d->described);
    if (d->by_name == NULL || d->described == NULL) {
        return error_nomem(err, count * sizeof(safetensors_tensor *));
    }
    d->entries = arena_take(d->memory, count * sizeof *d->entries, err);
    if (d->entries == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        d->by_name[i] = &d->header->tensors[i];
    }
    if (count > 1) {
        qsort(d->by_name, count, sizeof(safetensors_tensor *), by_tensor_name);
    }
    for (size_t i = 0; i < count; i++) {
        TRY(entry_from_tensor(d, d->by_name[i], file, &d->entries[i], err));
    }
    return PAWL_OK;
}

/* A value lies in the file as a tensor of a dtype and shape that its kind prescribes. */
static pawl_status check_value_tensor(const record_entry *entry, pawl_error *err) {
    bool scalar;
    pawl_dtype dtype = record_value_dtype(entry->kind, &scalar);
    if (entry->dtype != dtype || entry->ndim != (scalar ? 0 : 1)) {
        return refuse_metadata(entry->name, err,
                               "a value has a dtype or shape that does not fit its kind");
    }
    return PAWL_OK;
}

static pawl_status finish_entry(const decoder *d, record_entry *entry, uint32_t file,
                                pawl_error *err) {
    entry->pieces->rank = (int32_t)d->rank;
    if (d->version == RECORD_METADATA_FURTHER && entry->kind == PAWL_KIND_TENSOR) {
        cut_further((char *)(uintptr_t)entry->name); /* a copy of the key, which is this one's */
    }
    if (entry->kind != PAWL_KIND_TENSOR) {
        TRY(check_value_tensor(entry, err));
        entry->dtype = 0;
        entry->ndim = 0;
        entry->shape = NULL;
        entry->pieces->box_offset = entry->pieces->box_extent = NULL;
    }
    return record_check(entry, file + 1, PAWL_EDAMAGED, err);
}

static const char *find_metadata(const safetensors_header *header) {
    for (size_t i = 0; i < header->metadata_count; i++) {
        if (strcmp(header->metadata[i].key, RECORD_METADATA_KEY) == 0) {
            return header->metadata[i].value;
        }
    }
    return NULL;
}

pawl_status record_metadata_decode(const safetensors_header *header, uint32_t file, arena *memory,
                                   record_entry **entries, size_t *count, int64_t *step, int *rank,
                                   int *world_size, pawl_error *err) {
    const char *text = find_metadata(header);
    if (text == NULL) {
        pawl_status status =
            error_set(err, PAWL_EDAMAGED, "the data file does not say what its tensors are");
        error_expected(err, "\"" RECORD_METADATA_KEY "\" in the __metadata__ of its header");
        return status;
    }
    CLEANUP(metadata_decoder_free)
    decoder d = {.header = header, .memory = memory, .step = -1, .rank = -1, .world_size = -1};
    TRY(start_decoder(&d, file, err));
    TRY(decode_description(&d, text, err));
    for (size_t i = 0; i < header->tensor_count; i++) {
        TRY(finish_entry(&d, &d.entries[i], file, err));
    }
    *entries = d.entries;
    *count = header->tensor_count;
    *step = d.step;
    *rank = (int)d.rank;
    *world_size = (int)d.world_size;
    return PAWL_OK;
}
