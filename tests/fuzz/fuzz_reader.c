/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a reader's mark. Whoever made it is asked for only where the mark tells who that is;
 * his own mark, made again, tells the same; and a mark counts as long as its maker may live.
 */
#include "who.h"

#include "format/presence_record.h"
#include "presence/presence.h"

#define MARK WHO_STEP "/reader-0123456789ab"

typedef struct stale {
    unsigned count;
} stale;

static pawl_status note_stale(void *context, const char *name, pawl_error *err) {
    (void)name;
    (void)err;
    ((stale *)context)->count++;
    return PAWL_OK;
}

/* Is it read, if its maker is as the platform says? */
static bool is_read(who *w, liveness answer, unsigned *stale_marks) {
    pawl_error err = ERROR_INIT;
    stale s = {0};
    bool being_read = false;
    w->answer = answer;
    w->questions = 0;
    FUZZ_CHECK(reader_look_stale(who_store(), WHO_STEP, &w->table, 10, NULL, note_stale, &s,
                                 &being_read, &err) == PAWL_OK);
    *stale_marks = s.count;
    return being_read;
}

/* The maker marks the step himself. */
static void mark_again(const who *w) {
    pawl_error err = ERROR_INIT;
    who maker, looker;
    reader_mark *mark = NULL;
    unsigned count = 0;
    who_init(&maker);
    who_init(&looker);
    maker.self = w->asked;
    FUZZ_CHECK(store_unlink(who_store(), MARK, &err) == PAWL_OK);
    FUZZ_CHECK(reader_mark_new(who_store(), WHO_STEP, &maker.table, NULL, &mark, &err) == PAWL_OK);
    FUZZ_CHECK(mark != NULL && is_read(&looker, PROCESS_ALIVE, &count));
    FUZZ_CHECK(looker.questions == 1 && presence_same(&looker.asked, &maker.self));
    reader_mark_free(mark);
    FUZZ_CHECK(!is_read(&looker, PROCESS_ALIVE, &count) && count == 0);
}

static void encode_again(const reader_record *r) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    pawl_error err = ERROR_INIT;
    reader_record back;
    FUZZ_CHECK(reader_record_encode(r, &out, &err) == PAWL_OK);
    FUZZ_CHECK(reader_record_decode(out.data, out.size, &back, &err) == PAWL_OK);
    FUZZ_CHECK(back.counter == r->counter && presence_same(&back.who, &r->who));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    who w;
    unsigned count = 0;
    pawl_error err = ERROR_INIT;
    reader_record r;
    who_init(&w);
    who_put(MARK, data, size);
    bool alive = is_read(&w, PROCESS_ALIVE, &count);
    FUZZ_CHECK(count == 0 && alive == (w.questions == 1));
    bool dead = is_read(&w, PROCESS_DEAD, &count);
    FUZZ_CHECK(!dead && count == (w.questions == 1));
    bool unknown = is_read(&w, PROCESS_UNKNOWN, &count);
    FUZZ_CHECK(count == 0 && unknown == alive);
    if (alive) {
        fuzz_accepted++;
        FUZZ_CHECK(w.asked.pid > 0); /* a host's name may be empty */
        FUZZ_CHECK(reader_record_decode(data, size, &r, &err) == PAWL_OK);
        FUZZ_CHECK(presence_same(&r.who, &w.asked));
        encode_again(&r);
        mark_again(&w);
    } else {
        FUZZ_CHECK(reader_record_decode(data, size, &r, &err) == PAWL_EDAMAGED);
    }
    return 0;
}
