/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the index of a Hugging Face directory: what is understood names files of the
 * directory alone, each once, and each tensor once. */
#include "fuzz.h"

#include "foreign/safetensors/shard_index.h"

static void check_files(const shard_index *index) {
    for (size_t i = 0; i < index->file_count; i++) {
        const char *name = index->files[i];
        size_t n = strlen(name);
        FUZZ_CHECK(n > strlen(".safetensors") && n <= 255 && strchr(name, '/') == NULL);
        FUZZ_CHECK(strcmp(name + n - strlen(".safetensors"), ".safetensors") == 0);
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

static void check_places(const shard_index *index, size_t size) {
    FUZZ_CHECK(index->place_count > 0);
    for (size_t i = 0; i < index->place_count; i++) {
        const shard_place *place = &index->places[i];
        FUZZ_CHECK(place->at < size && is_listed(index, place->file));
        FUZZ_CHECK(strlen(place->name) <= PAWL_MAX_NAME_BYTES);
        FUZZ_CHECK(utf8_valid(place->name, strlen(place->name)));
        FUZZ_CHECK(i == 0 || strcmp(index->places[i - 1].name, place->name) < 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer text = fuzz_copy(data, size);
    pawl_error err = ERROR_INIT;
    shard_index index;
    pawl_status status = shard_index_decode(text.data, text.size, &index, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(status == PAWL_ELIMIT || err.has_range);
        return 0;
    }
    fuzz_accepted++;
    check_files(&index);
    check_places(&index, size);
    shard_index_free(&index);
    return 0;
}
