/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the index of a Hugging Face directory: which tensor is in which of its files. */
#include "foreign/huggingface/shard_index.h"

#include "base/json.h"
#include "foreign/archive.h"
#include "format/limits.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE_NAME   255u /* bytes; as filesystems have it */
#define MAX_TENSOR_NAME ((size_t)PAWL_MAX_NAME_BYTES)

typedef struct decoder {
    json_reader json;
    const shard_kind *kind;
    shard_index *out;
    buffer key, text;
    bool seen_map, seen_metadata;
} decoder;

static void decoder_free(decoder *d) {
    buffer_free(&d->key);
    buffer_free(&d->text);
}

void shard_index_free(shard_index *index) {
    mem_free(index->files);
    mem_free(index->places);
    arena_free(&index->memory);
    *index = (shard_index){.files = NULL};
}

/* ---- refusing ---- */

static pawl_status refuse(const char *name, uint64_t position, pawl_error *err, const char *what) {
    error_set(err, PAWL_EDAMAGED, "the index of the weights is wrong at byte %llu: %s",
              (unsigned long long)position, what);
    if (name != NULL) {
        error_entry(err, name);
    }
    error_range(err, position, 1);
    return PAWL_EDAMAGED;
}

static pawl_status too_many(const char *what, unsigned long long most, pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "the index of the weights names too many %s", what);
    error_expected(err, "at most %llu", most);
    return PAWL_ELIMIT;
}

/* ---- files ---- */

/* A name and nothing else: what leads out of the directory, or deeper, is refused. */
static const char *file_fault(const shard_kind *kind, const buffer *file) {
    const char *name = (const char *)file->data;
    size_t ending = strlen(kind->ending);
    if (name[0] == '/' || strcmp(name, "..") == 0 || strncmp(name, "../", 3) == 0 ||
        strstr(name, "/../") != NULL) {
        return "the file is outside of the directory";
    }
    if (strchr(name, '/') != NULL) {
        return "the file is not in the directory itself";
    }
    if (file->size > MAX_FILE_NAME) {
        return "the name of the file is too long";
    }
    if (file->size <= ending || strcmp(name + file->size - ending, kind->ending) != 0) {
        return kind->fault;
    }
    for (size_t i = 0; i < file->size; i++) {
        if (file->data[i] < 0x20 || file->data[i] == 0x7f) {
            return "the name of the file has a control character";
        }
    }
    return NULL;
}

/* Where a file is in the list, or belongs. */
static size_t file_position(const shard_index *index, const char *name, bool *there) {
    size_t low = 0;
    size_t high = index->file_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(index->files[middle], name);
        if (order == 0) {
            *there = true;
            return middle;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    *there = false;
    return low;
}

static pawl_status take_file(decoder *d, const char **out, pawl_error *err) {
    shard_index *index = d->out;
    bool there;
    size_t at = file_position(index, (const char *)d->text.data, &there);
    if (there) {
        *out = index->files[at];
        return PAWL_OK;
    }
    if (index->file_count == FOREIGN_MAX_SHARDS) {
        return too_many("files", FOREIGN_MAX_SHARDS, err);
    }
    TRY(vec_reserve(&index->files, &index->file_capacity, index->file_count + 1,
                    sizeof(*index->files), err));
    const char *copy = arena_strdup(&index->memory, (const char *)d->text.data);
    if (copy == NULL) {
        return error_nomem(err, d->text.size);
    }
    memmove(index->files + at + 1, index->files + at,
            (index->file_count - at) * sizeof(*index->files));
    index->files[at] = copy;
    index->file_count++;
    *out = copy;
    return PAWL_OK;
}

/* ---- members ---- */

static pawl_status keep_name(decoder *d, const char **out, pawl_error *err) {
    const char *name = (const char *)d->key.data;
    if (d->kind->keys) {
        return escape_key(&d->out->memory, name, d->key.size, out, err);
    }
    *out = arena_strdup(&d->out->memory, name);
    return *out != NULL ? PAWL_OK : error_nomem(err, d->key.size);
}

/* The name is in `key`; its value comes next. */
static pawl_status decode_place(decoder *d, pawl_error *err) {
    shard_index *index = d->out;
    const char *name = (const char *)d->key.data;
    const uint64_t position = json_position(&d->json);
    if (d->key.size > MAX_TENSOR_NAME) {
        return refuse(NULL, position, err, "the name of a tensor is too long");
    }
    if (index->place_count == FOREIGN_MAX_ENTRIES) {
        return too_many("tensors", FOREIGN_MAX_ENTRIES, err);
    }
    TRY(json_text(&d->json, &d->text, err));
    const char *fault = file_fault(d->kind, &d->text);
    if (fault != NULL) {
        (void)refuse(name, position, err, fault);
        error_expected(err, "the name of a file in the same directory");
        error_found(err, "\"%.200s\"", (const char *)d->text.data);
        return PAWL_EDAMAGED;
    }
    TRY(vec_reserve(&index->places, &index->place_capacity, index->place_count + 1,
                    sizeof(*index->places), err));
    shard_place place = {.at = position};
    TRY(take_file(d, &place.file, err));
    TRY(keep_name(d, &place.name, err));
    index->places[index->place_count++] = place;
    return PAWL_OK;
}

static pawl_status decode_map(decoder *d, pawl_error *err) {
    if (d->seen_map) {
        return refuse(NULL, json_position(&d->json), err, "weight_map is there twice");
    }
    d->seen_map = true;
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        TRY(decode_place(d, err));
    }
}

/* total_size is a number, of whatever form; another type, which some tools write, says nothing. */
static pawl_status decode_metadata(decoder *d, pawl_error *err) {
    if (d->seen_metadata) {
        return refuse(NULL, json_position(&d->json), err, "metadata is there twice");
    }
    d->seen_metadata = true;
    if (json_peek(&d->json) != '{') {
        return json_skip(&d->json, NULL);
    }
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        json_span value;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        bool total = strcmp((const char *)d->key.data, "total_size") == 0;
        uint8_t begins = json_peek(&d->json);
        TRY(json_skip(&d->json, &value));
        if (total && (begins == '-' || (begins >= '0' && begins <= '9'))) {
            d->out->has_total_size = true;
            (void)json_number(value, &d->out->total_size); /* infinite, where it is too large */
        }
    }
}

static pawl_status decode_members(decoder *d, pawl_error *err) {
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            break;
        }
        if (strcmp((const char *)d->key.data, "weight_map") == 0) {
            TRY(decode_map(d, err));
        } else if (strcmp((const char *)d->key.data, "metadata") == 0) {
            TRY(decode_metadata(d, err));
        } else {
            TRY(json_skip(&d->json, NULL));
        }
    }
    TRY(json_end(&d->json));
    if (!d->seen_map) {
        return refuse(NULL, 0, err, "it has no weight_map");
    }
    return d->out->place_count > 0 ? PAWL_OK : refuse(NULL, 0, err, "its weight_map is empty");
}

/* ---- all of it ---- */

static int by_name(const void *a, const void *b) {
    const shard_place *left = a;
    const shard_place *right = b;
    int order = strcmp(left->name, right->name);
    return order != 0 ? order : (left->at > right->at) - (left->at < right->at);
}

static pawl_status sort_places(shard_index *index, pawl_error *err) {
    if (index->place_count > 1) {
        qsort(index->places, index->place_count, sizeof(*index->places), by_name);
    }
    for (size_t i = 1; i < index->place_count; i++) {
        const shard_place *place = &index->places[i];
        if (strcmp(place->name, index->places[i - 1].name) == 0) {
            return refuse(place->name, place->at, err, "the tensor is there twice");
        }
    }
    return PAWL_OK;
}

pawl_status shard_index_decode(const shard_kind *kind, const void *text, size_t n, shard_index *out,
                               pawl_error *err) {
    *out = (shard_index){.files = NULL};
    CLEANUP(decoder_free)
    decoder d = {
        .json = json_reader_for(text, n, 0, "index of the weights", err), .kind = kind, .out = out};
    pawl_status status = decode_members(&d, err);
    if (status == PAWL_OK) {
        status = sort_places(out, err);
    }
    if (status != PAWL_OK) {
        shard_index_free(out);
    }
    return status;
}
