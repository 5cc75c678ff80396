/* SPDX-License-Identifier: Apache-2.0 */
/* What another rank says that it sees: understood, it can be said again, and means the same. */
#include "fuzz.h"

#include "doctor/sight.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer bytes = fuzz_copy(data, size);
    CLEANUP(buffer_free) buffer again = {.data = NULL};
    pawl_error err = ERROR_INIT;
    sight s, same;
    pawl_status status = sight_decode(bytes.data, bytes.size, &s, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(sight_encode(&s, &again, &err) == PAWL_OK && again.size <= SIGHT_BYTES);
    FUZZ_CHECK(sight_decode(again.data, again.size, &same, &err) == PAWL_OK);
    FUZZ_CHECK(strcmp(s.place, same.place) == 0 && strcmp(s.trouble, same.trouble) == 0);
    FUZZ_CHECK(s.pid == same.pid && s.whole == same.whole && s.saw == same.saw);
    return 0;
}
