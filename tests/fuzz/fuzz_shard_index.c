/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the index of a Hugging Face directory: what is understood names files of the
 * directory alone, each once, and each tensor once. */
#include "fuzz.h"

#include "foreign/huggingface/shard_index.h"

static const shard_kind kinds[] = {{.ending = ".safetensors", .fault = "another ending"},
                                   {.ending = ".bin", .fault = "another ending", .keys = true}};

static void check_files(const shard_kind *kind, const shard_index *index) {
    const size_t ending = strlen(kind->ending);
    for (size_t i = 0; i < index->file_count; i++) {
        const char *name = index->files[i];
        size_t n = strlen(name);
        FUZZ_CHECK(n > ending && n <= 255 && strchr(name, '/') == NULL);
        FUZZ_CHECK(strcmp(name + n - ending, kind->ending) == 0);
        FUZZ_CHECK(utf8_valid(name, n));
        FUZZ_CHECK(i == 0 || strcmp(index->files[i - 1], name) < 0);
    }
}

static bool is_listed(const shard_index *index, const char *file) {
    for (size_t i = 0; i < index->file_count; i++) {
        if (index->files[i] == file) {
            return true;
        }
    }
    return false;
}

static void check_places(const shard_kind *kind, const shard_index *index, size_t size) {
    const size_t most = (size_t)PAWL_MAX_NAME_BYTES * (kind->keys ? 3 : 1);
    FUZZ_CHECK(index->place_count > 0);
    for (size_t i = 0; i < index->place_count; i++) {
        const shard_place *place = &index->places[i];
        FUZZ_CHECK(place->at < size && is_listed(index, place->file));
        FUZZ_CHECK(strlen(place->name) <= most);
        FUZZ_CHECK(utf8_valid(place->name, strlen(place->name)));
        FUZZ_CHECK(!kind->keys || strchr(place->name, '/') == NULL);
        FUZZ_CHECK(i == 0 || strcmp(index->places[i - 1].name, place->name) < 0);
    }
}

static void decode(const shard_kind *kind, const buffer *text) {
    pawl_error err = ERROR_INIT;
    shard_index index;
    pawl_status status = shard_index_decode(kind, text->data, text->size, &index, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(status == PAWL_ELIMIT || err.has_range);
        return;
    }
    fuzz_accepted++;
    check_files(kind, &index);
    check_places(kind, &index, text->size);
    shard_index_free(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer text = fuzz_copy(data, size);
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        decode(&kinds[i], &text);
    }
    return 0;
}
