/* SPDX-License-Identifier: Apache-2.0 */
/* How a save of many ranks ended. What is understood, written again, has the same bytes. */
#include "fuzz.h"

#include "format/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer bytes = fuzz_copy(data, size);
    CLEANUP(buffer_free) buffer again = {.data = NULL};
    pawl_error err = ERROR_INIT;
    save_outcome o;
    pawl_status status = outcome_decode(bytes.data, bytes.size, &o, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(o.end >= SAVE_END_COMMITTED && o.end <= SAVE_END_UNKNOWN);
    FUZZ_CHECK(o.story_bytes <= OUTCOME_MAX_STORY);
    FUZZ_CHECK(outcome_encode(&o, &again, &err) == PAWL_OK);
    FUZZ_CHECK(again.size == size && memcmp(again.data, data, size) == 0);
    return 0;
}

/* The story is what lies between its length and the checksum. */
size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    enum { STORY_AT = 28, CRC_BYTES = 4 };
    if (size >= STORY_AT + CRC_BYTES) {
        size_t n = size - STORY_AT - CRC_BYTES;
        for (int i = 0; i < 4; i++) {
            data[STORY_AT - 4 + i] = (uint8_t)(n >> 8 * i);
        }
    }
    return fuzz_repair_tail(data, size, room);
}
