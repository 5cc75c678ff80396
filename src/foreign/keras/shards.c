/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the `.weights.json` of sharded weights: which groups there are, and in which files. */
#include "foreign/keras/shards.h"

#include "base/json.h"
#include "format/limits.h"

#include <stdlib.h>
#include <string.h>

#define FILE_ENDING   ".weights.h5"
#define MAX_VALUE     ((size_t)PAWL_MAX_VALUE_BYTES)
#define MAX_FILE_NAME 255u /* bytes; as filesystems have it */

typedef struct decoder {
    json_reader json;
    keras_shards *out;
    buffer key, text;
    bool seen_map;
} decoder;

void keras_shards_free(keras_shards *shards) {
    mem_free(shards->files);
    mem_free(shards->places);
    arena_free(&shards->memory);
    *shards = (keras_shards){.files = NULL};
}

static pawl_status refuse(uint64_t position, const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the index of the weights is wrong at byte %llu: %s",
              (unsigned long long)position, what);
    error_range(err, position, 1);
    return PAWL_EDAMAGED;
}

static pawl_status too_many(const char *what, unsigned long long most, pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "the index of the weights names too many %s", what);
    error_expected(err, "at most %llu", most);
    return PAWL_ELIMIT;
}

/* ---- files ---- */

/* A name in the directory, and nothing else. */
static bool is_file_name(const buffer *name) {
    size_t ending = sizeof(FILE_ENDING) - 1;
    bool fits = name->size > ending && name->size <= MAX_FILE_NAME &&
                memcmp(name->data + name->size - ending, FILE_ENDING, ending) == 0;
    for (size_t i = 0; fits && i < name->size; i++) {
        fits = name->data[i] >= 0x20 && name->data[i] != 0x7f && name->data[i] != '/';
    }
    return fits;
}

static pawl_status take_file(decoder *d, pawl_error *err) {
    keras_shards *out = d->out;
    uint64_t position = json_position(&d->json);
    size_t low = 0;
    size_t high = out->file_count;
    TRY(json_text(&d->json, &d->text, err));
    const char *name = (const char *)d->text.data;
    if (!is_file_name(&d->text)) {
        (void)refuse(position, "a file that is no " FILE_ENDING " file of the directory", err);
        error_found(err, "\"%.200s\"", name);
        return PAWL_EDAMAGED;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(out->files[middle], name);
        if (order == 0) {
            return PAWL_OK;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    if (out->file_count == FOREIGN_MAX_SHARDS) {
        return too_many("files", FOREIGN_MAX_SHARDS, err);
    }
    TRY(vec_reserve(&out->files, &out->file_room, out->file_count + 1, sizeof(*out->files), err));
    const char *copy = arena_strdup(&out->memory, name);
    if (copy == NULL) {
        return error_nomem(err, d->text.size);
    }
    memmove(out->files + low + 1, out->files + low, (out->file_count - low) * sizeof(*out->files));
    out->files[low] = copy;
    out->file_count++;
    return PAWL_OK;
}

/* One, or a list of them. */
static pawl_status take_files(decoder *d, pawl_error *err) {
    bool more = true;
    if (json_peek(&d->json) != '[') {
        return take_file(d, err);
    }
    TRY(json_enter(&d->json, '['));
    for (;;) {
        TRY(json_element(&d->json, &more));
        if (!more) {
            return PAWL_OK;
        }
        TRY(take_file(d, err));
    }
}

/* ---- members ---- */

static pawl_status take_place(decoder *d, pawl_error *err) {
    keras_shards *out = d->out;
    const char *path = (const char *)d->key.data;
    keras_place place = {.at = json_position(&d->json)};
    if (d->key.size > PAWL_MAX_NAME_BYTES) {
        return refuse(place.at, "a path that is too long", err);
    }
    if (out->place_count == FOREIGN_MAX_HDF5_LINKS) {
        return too_many("paths", FOREIGN_MAX_HDF5_LINKS, err);
    }
    place.path = arena_strdup(&out->memory, path[0] == '/' ? path + 1 : path);
    if (place.path == NULL) {
        return error_nomem(err, d->key.size);
    }
    TRY(vec_reserve(&out->places, &out->place_room, out->place_count + 1, sizeof(*out->places),
                    err));
    out->places[out->place_count++] = place;
    return take_files(d, err);
}

static pawl_status take_map(decoder *d, pawl_error *err) {
    bool more = true;
    if (d->seen_map) {
        return refuse(json_position(&d->json), "weight_map is there twice", err);
    }
    d->seen_map = true;
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        TRY(take_place(d, err));
    }
}

static pawl_status take_metadata(decoder *d, pawl_error *err) {
    json_span span;
    TRY(json_skip(&d->json, &span));
    if (span.n > MAX_VALUE) {
        return too_many("bytes of metadata", MAX_VALUE, err);
    }
    d->out->metadata = arena_printf(&d->out->memory, "%.*s", (int)span.n, span.text);
    return d->out->metadata != NULL ? PAWL_OK : error_nomem(err, span.n);
}

static pawl_status decode(decoder *d, pawl_error *err) {
    bool more = true;
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            break;
        }
        const char *key = (const char *)d->key.data;
        TRY(strcmp(key, "weight_map") == 0 ? take_map(d, err)
            : strcmp(key, "metadata") == 0 ? take_metadata(d, err)
                                           : json_skip(&d->json, NULL));
    }
    TRY(json_end(&d->json));
    return d->out->file_count > 0 ? PAWL_OK : refuse(0, "it names no file", err);
}

pawl_status keras_shards_decode(const void *text, size_t n, keras_shards *out, pawl_error *err) {
    *out = (keras_shards){.files = NULL};
    decoder d = {.json = json_reader_for(text, n, 0, "index of the weights", err), .out = out};
    pawl_status status = decode(&d, err);
    buffer_free(&d.key);
    buffer_free(&d.text);
    if (status != PAWL_OK) {
        keras_shards_free(out);
    }
    return status;
}
