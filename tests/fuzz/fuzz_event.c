/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of events.jsonl. What is understood has numbers that can be shown, and written again it is
 * understood as the same.
 */
#include "fuzz.h"

#include "format/event.h"

#include <math.h>

static void check_numbers(const pawl_event *event) {
    FUZZ_CHECK(event->kind >= PAWL_EVENT_SAVE_BEGUN && event->kind <= PAWL_EVENT_RESTORED);
    FUZZ_CHECK(event->step >= -1 && event->unix_time_ns >= 0);
    FUZZ_CHECK(isfinite(event->seconds) && event->seconds >= 0);
    FUZZ_CHECK(event->message == NULL || utf8_valid(event->message, strlen(event->message)));
    FUZZ_CHECK((event->kind == PAWL_EVENT_SAVE_ENDED) == (event->stats != NULL));
    FUZZ_CHECK(event->stats == NULL || (event->stats->io != NULL && event->stats->write_s >= 0));
}

static void encode_again(const pawl_event *event) {
    CLEANUP(buffer_free) buffer line = {.data = NULL};
    pawl_error err = ERROR_INIT;
    event_decoded again;
    const event_fallback fallbacks[] = {{.step = 1, .why = event->message}, {.why = "a\n\x01"}};
    const event_restore restore = {.fallbacks = fallbacks + (event->message == NULL),
                                   .fallback_count = 1};
    bool restored = event->kind == PAWL_EVENT_RESTORED;
    FUZZ_CHECK(event_encode(event, restored ? &restore : NULL, &line, &err) == PAWL_OK);
    FUZZ_CHECK(line.size < FORMAT_MAX_EVENT_WRITTEN);
    FUZZ_CHECK(event_decode(line.data, line.size, &again));
    FUZZ_CHECK(again.event.kind == event->kind && again.event.step == event->step);
    FUZZ_CHECK(again.event.unix_time_ns == event->unix_time_ns);
    event_decoded_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer line = fuzz_copy(data, size);
    event_decoded decoded;
    if (event_decode(line.data, line.size, &decoded)) {
        fuzz_accepted++;
        check_numbers(&decoded.event);
        encode_again(&decoded.event);
        event_decoded_free(&decoded);
    }
    return 0;
}
