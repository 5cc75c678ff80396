/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a block that Snappy compressed: it becomes as long as it says, or is refused. */
#include "fuzz.h"

#include "foreign/tensorflow/bundle.h"

#define LIMIT 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer packed = fuzz_copy(data, size);
    CLEANUP(buffer_free) buffer out = {0};
    pawl_error err = ERROR_INIT;
    cursor c = cursor_of(packed.data, packed.size, 0, "block");
    uint32_t said = 0;
    pawl_status status = snappy_decode(packed.data, packed.size, LIMIT, &out, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(cursor_varint32(&c, &said, &err) == PAWL_OK && out.size == said && said <= LIMIT);
    return 0;
}
