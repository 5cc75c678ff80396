/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a run, while they are written: parts separated by the byte 1 are appended one after
 * another, the byte 2 rotates the files, and the reader reads on in between. It tells exactly the
 * lines that are events, in their order: as many as a slow look at all bytes finds.
 */
#include "who.h"

#include "format/event.h"
#include "run/run.h"

#define APPEND     1
#define ROTATE     2
#define MOST_PARTS 12 /* of an input; what follows is left out */

typedef struct play {
    buffer present; /* events.jsonl */
    bool is_there;
    pawl_events *reader; /* NULL: not opened yet */
    uint64_t told;       /* sum of what the reader told */
    uint64_t expected;
    size_t told_count, expected_count;
} play;

static uint64_t mix(uint64_t sum, const void *line, size_t n) {
    return sum * 0x9e3779b97f4a7c15U + crc32c(0, line, n) + n + 1;
}

static void read_on(play *p) {
    pawl_error err = ERROR_INIT;
    pawl_event event;
    int more = 1;
    if (p->reader == NULL) {
        FUZZ_CHECK(events_open(who_store(), false, &p->reader, &err) == PAWL_OK);
    }
    for (;;) {
        FUZZ_CHECK(events_next(p->reader, &event, &more, &err) == PAWL_OK);
        if (more == 0) {
            return;
        }
        FUZZ_CHECK(event.json != NULL && strchr(event.json, '\n') == NULL);
        p->told = mix(p->told, event.json, strlen(event.json));
        p->told_count++;
    }
}

/* Whole lines in what is appended, the rest of the line before included. */
static void expect(play *p, size_t from) {
    const uint8_t *data = p->present.data;
    while (from > 0 && data[from - 1] != '\n') {
        from--;
    }
    for (size_t i = from; i < p->present.size; i++) {
        event_decoded decoded;
        if (data[i] != '\n') {
            continue;
        }
        if (i - from < FORMAT_MAX_EVENT_READ && event_decode(data + from, i - from, &decoded)) {
            p->expected = mix(p->expected, data + from, i - from);
            p->expected_count++;
            event_decoded_free(&decoded);
        }
        from = i + 1;
    }
}

static void append(play *p, const void *data, size_t n) {
    size_t before = p->present.size;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    const store_mode mode = p->is_there ? STORE_UPDATE : STORE_CREATE;
    FUZZ_CHECK(store_open(who_store(), NAME_EVENTS, mode, &file, &err) == PAWL_OK);
    FUZZ_CHECK(store_write(file, before, data, n, &err) == PAWL_OK);
    store_close(file);
    p->is_there = true;
    fuzz_append(&p->present, data, n);
    expect(p, before);
}

static void rotate(play *p) {
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(store_rename(who_store(), NAME_EVENTS, NAME_EVENTS_OLD, &err) == PAWL_OK);
    p->present.size = 0;
    p->is_there = false;
}

/* An event whose line no other of this play begins like. */
static void append_own(play *p, unsigned number) {
    CLEANUP(buffer_free) buffer line = {.data = NULL};
    pawl_error err = ERROR_INIT;
    const pawl_event event = {
        .kind = PAWL_EVENT_SAVE_BEGUN, .step = number, .unix_time_ns = 1000000000 + number};
    FUZZ_CHECK(event_encode(&event, NULL, &line, &err) == PAWL_OK);
    fuzz_append(&line, "\n", 1);
    append(p, line.data, line.size);
}

static void remove_all(void) {
    pawl_error err = ERROR_INIT;
    pawl_status status = store_unlink(who_store(), NAME_EVENTS, &err);
    FUZZ_CHECK(status == PAWL_OK || status == PAWL_ENOTFOUND);
    status = store_unlink(who_store(), NAME_EVENTS_OLD, &err);
    FUZZ_CHECK(status == PAWL_OK || status == PAWL_ENOTFOUND);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    play p = {.told = 0};
    unsigned rotations = 0;
    remove_all();
    for (size_t at = 0, parts = 0; at < size && parts < MOST_PARTS; at++, parts++) {
        size_t n = 0;
        while (at + n < size && data[at + n] != APPEND && data[at + n] != ROTATE) {
            n++;
        }
        append(&p, data + at, n);
        read_on(&p);
        at += n;
        if (at < size && data[at] == ROTATE) {
            rotate(&p);
            append_own(&p, ++rotations);
            /* A file as long as the one before is noticed with its next line. */
            read_on(&p);
            append_own(&p, ++rotations);
            read_on(&p);
        }
    }
    append(&p, "\n", 1);
    read_on(&p);
    append(&p, "\n", 1);
    read_on(&p);
    FUZZ_CHECK(p.told_count == p.expected_count && p.told == p.expected);
    fuzz_accepted += p.told_count > rotations;
    pawl_events_close(p.reader);
    buffer_free(&p.present);
    return 0;
}
