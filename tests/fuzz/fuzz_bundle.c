/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the index of a tensor bundle, with one file of data beside it: keys ascend, and what
 * is understood is read and verified. */
#include "fuzz_archive.h"

#include "foreign/formats.h"
#include "foreign/tensorflow/bundle.h"

#define DATA "b.data-00000-of-00001"

static void check_bundle(const bundle *b) {
    for (size_t i = 1; i < b->count; i++) {
        const bundle_text last = b->entries[i - 1].key;
        const bundle_text key = b->entries[i].key;
        size_t n = last.n < key.n ? last.n : key.n;
        int order = n > 0 ? memcmp(last.bytes, key.bytes, n) : 0;
        FUZZ_CHECK(order < 0 || (order == 0 && last.n < key.n));
        FUZZ_CHECK(bundle_find(b, key.bytes, key.n) == &b->entries[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char bytes[] = "0123456789abcdef0123456789abcdef";
    CLEANUP(buffer_free) buffer index = fuzz_copy(data, size);
    pawl_error err = ERROR_INIT;
    bundle b;
    if (bundle_decode(index.data, index.size, &b, &err) == PAWL_OK) {
        check_bundle(&b);
        bundle_free(&b);
    }
    fuzz_put_file(DATA, (const uint8_t *)bytes, sizeof(bytes) - 1);
    return fuzz_open_archive(&format_tensorflow, "b.index", data, size);
}

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    return fuzz_repair_table(data, size, room);
}
