/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manifest. What is understood is written again and must be understood as the same.
 */
#include "fuzz.h"

#include "base/json.h"
#include "format/manifest.h"

static void check_names(const manifest *m) {
    char tag[FORMAT_TAG_CHARS];
    FUZZ_CHECK(m->version == FORMAT_VERSION && m->step >= 0 && m->world_size >= 1);
    FUZZ_CHECK(name_classify(m->index_name, tag) == NAME_KIND_INDEX);
    for (size_t i = 0; i < m->file_count; i++) {
        FUZZ_CHECK(name_classify(m->files[i].name, tag) == NAME_KIND_DATA);
        FUZZ_CHECK(m->files[i].rank >= 0 && m->files[i].rank < m->world_size);
    }
}

static void encode_again(const manifest *m) {
    CLEANUP(buffer_free) buffer first = {.data = NULL}, second = {.data = NULL};
    pawl_error err = ERROR_INIT;
    manifest again;
    FUZZ_CHECK(manifest_encode(m, &first, &err) == PAWL_OK);
    FUZZ_CHECK(manifest_decode(first.data, first.size, &again, &err) == PAWL_OK);
    FUZZ_CHECK(manifest_encode(&again, &second, &err) == PAWL_OK);
    FUZZ_CHECK(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    manifest_free(&again);
}

/* All metrics together are one JSON object. */
static void check_metrics(const manifest *m) {
    CLEANUP(buffer_free) buffer text = {.data = NULL};
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(manifest_metrics_json(m, &text, &err) == PAWL_OK);
    json_reader r = json_reader_for(text.data, text.size, 0, "metrics", &err);
    FUZZ_CHECK(json_skip(&r, NULL) == PAWL_OK && json_end(&r) == PAWL_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer text = fuzz_copy(data, size);
    pawl_error err = ERROR_INIT;
    manifest m;
    pawl_status status = manifest_decode(text.data, text.size, &m, &err);
    FUZZ_CHECK(status != PAWL_OK || !manifest_is_placeholder(text.data, text.size));
    FUZZ_CHECK(manifest_bytes(text.data, text.size) <= text.size);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        return 0;
    }
    fuzz_accepted++;
    check_names(&m);
    check_metrics(&m);
    encode_again(&m);
    manifest_free(&m);
    return 0;
}

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    return fuzz_repair_manifest(data, size, room);
}
