/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the index of sharded weights of Keras: what is understood names files of the
 * directory alone, each once. */
#include "fuzz.h"

#include "foreign/keras/shards.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer text = fuzz_copy(data, size);
    pawl_error err = ERROR_INIT;
    keras_shards shards;
    pawl_status status = keras_shards_decode(text.data, text.size, &shards, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(status == PAWL_ELIMIT || err.has_range);
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(shards.file_count > 0);
    for (size_t i = 0; i < shards.file_count; i++) {
        const char *name = shards.files[i];
        size_t n = strlen(name);
        FUZZ_CHECK(n > strlen(".weights.h5") && n <= 255 && strchr(name, '/') == NULL);
        FUZZ_CHECK(strcmp(name + n - strlen(".weights.h5"), ".weights.h5") == 0);
        FUZZ_CHECK(i == 0 || strcmp(shards.files[i - 1], name) < 0);
    }
    for (size_t i = 0; i < shards.place_count; i++) {
        FUZZ_CHECK(shards.places[i].at < size);
        FUZZ_CHECK(strlen(shards.places[i].path) <= PAWL_MAX_NAME_BYTES);
    }
    FUZZ_CHECK(shards.metadata == NULL || strlen(shards.metadata) <= size);
    keras_shards_free(&shards);
    return 0;
}
