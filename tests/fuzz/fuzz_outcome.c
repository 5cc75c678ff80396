/* SPDX-License-Identifier: Apache-2.0 */
/* How a save of many ranks ended. What is understood, written again, has the same bytes. */
#include "fuzz.h"

#include "format/outcome.h"

#include <string.h>

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
    FUZZ_CHECK(o.end >= SAVE_END_COMMITTED && o.end <= SAVE_END_UNKNOWN);
    FUZZ_CHECK(o.story_bytes <= OUTCOME_MAX_STORY);
    FUZZ_CHECK(outcome_encode(&o, &again, &err) == PAWL_OK);
    FUZZ_CHECK(again.size == size && memcmp(again.data, data, size) == 0);
    return 0;
}
