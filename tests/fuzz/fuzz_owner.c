/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the record of an owner. One that can be read, written again as that owner's, reads
 * as the same; advancing the counter in place changes nothing else; giving up makes it not present.
 */
#include "who.h"

#include "run/owner.h"

#include <math.h>
#include <stdio.h>

#define GENERATION 7u

static owner_view read_record(void) {
    pawl_error err = ERROR_INIT;
    owner_view seen;
    FUZZ_CHECK(owner_read(who_store(), GENERATION, &seen, &err) == PAWL_OK);
    FUZZ_CHECK(seen.generation == GENERATION);
    return seen;
}

static void check_same(const owner_view *a, const owner_view *b) {
    FUZZ_CHECK(b->readable && a->counter == b->counter && a->present == b->present);
    FUZZ_CHECK(strcmp(a->attempt, b->attempt) == 0 && a->lease_s == b->lease_s);
    FUZZ_CHECK(identity_same(&a->who, &b->who));
}

/* A text of the record that no owner has: not its own, but what stands in the file. */
static bool can_be_written(const owner_view *v) {
    return strpbrk(v->attempt, "\"\\") == NULL && utf8_valid(v->attempt, strlen(v->attempt)) &&
           utf8_valid(v->who.host, strlen(v->who.host)) &&
           utf8_valid(v->who.boot_id, strlen(v->who.boot_id)) &&
           utf8_valid(v->who.pid_namespace, strlen(v->who.pid_namespace)) &&
           utf8_valid(v->who.time_namespace, strlen(v->who.time_namespace)) &&
           strcspn(v->attempt,
                   "\x01\x02\x03\x04\x05\x06\x07\b\t\n\v\f\r\x0e\x0f\x10\x11\x12\x13"
                   "\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f") == strlen(v->attempt);
}

static void write_again(const owner_view *first) {
    pawl_error err = ERROR_INIT;
    char name[32];
    store_file *file = NULL;
    owner o = {.store = who_store(),
               .lease_s = first->lease_s,
               .self = first->who,
               .generation = GENERATION,
               .counter = first->counter};
    memcpy(o.attempt, first->attempt, sizeof o.attempt);
    owner_name(name, GENERATION);
    who_put(name, "", 0);
    FUZZ_CHECK(store_open(o.store, name, STORE_UPDATE, &file, &err) == PAWL_OK);
    FUZZ_CHECK(owner_write(&o, file, &err) == PAWL_OK);
    store_close(file);
    owner_view again = read_record();
    check_same(first, &again);
    FUZZ_CHECK(owner_write_counter(&o, first->counter / 2 + 1, &err) == PAWL_OK);
    again = read_record();
    FUZZ_CHECK(again.counter == first->counter / 2 + 1 && again.present);
    again.counter = first->counter;
    again.present = first->present;
    check_same(first, &again);
    FUZZ_CHECK(owner_write_counter(&o, OWNER_GIVEN_UP, &err) == PAWL_OK);
    again = read_record();
    FUZZ_CHECK(!again.present && again.readable);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char name[32];
    owner_name(name, GENERATION);
    who_put(name, data, size);
    owner_view seen = read_record();
    FUZZ_CHECK(seen.readable || seen.present);
    if (!seen.readable) {
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(seen.who.pid > 0 && seen.attempt[0] != '\0');
    FUZZ_CHECK(isfinite(seen.lease_s) && seen.lease_s > 0 && seen.lease_s <= OWNER_MAX_LEASE_S);
    if (can_be_written(&seen)) {
        write_again(&seen);
    }
    return 0;
}
