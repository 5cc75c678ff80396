/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the record of an owner. One that is understood, written again, is understood as the
 * same; in a store it is read as what it says, advancing its counter in place changes nothing else,
 * and giving it up makes it not present.
 */
#include "who.h"

#include "presence/owner.h"

#include <math.h>

#define GENERATION 7u

static owner_sight read_record(void) {
    const owner_names names = {.highest = GENERATION, .generations = {GENERATION}, .count = 1};
    pawl_error err = ERROR_INIT;
    owner_sight seen;
    FUZZ_CHECK(owner_read(who_store(), &names, 0, &seen, &err) == PAWL_OK);
    FUZZ_CHECK(seen.generation == GENERATION && (seen.readable || seen.present));
    return seen;
}

static void encode_again(const owner_record *r) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    pawl_error err = ERROR_INIT;
    owner_record back;
    owner_record now = *r;
    now.generation = r->generation != 0 ? r->generation : GENERATION; /* an older record */
    FUZZ_CHECK(owner_record_encode(&now, &out, &err) == PAWL_OK);
    FUZZ_CHECK(owner_record_decode(out.data, out.size, &back, &err) == PAWL_OK);
    FUZZ_CHECK(back.counter == r->counter && back.generation == now.generation);
    FUZZ_CHECK(strcmp(back.attempt, r->attempt) == 0 && back.lease_s == r->lease_s);
    FUZZ_CHECK(presence_same(&back.who, &r->who));
}

/* Its counter, in place. */
static owner_sight advance(owner *o, uint64_t counter, const owner_sight *before) {
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(owner_write_counter(o, counter, &err) == PAWL_OK);
    owner_sight now = read_record();
    FUZZ_CHECK(now.readable && now.counter == counter);
    FUZZ_CHECK(presence_same(&now.who, &before->who) && now.lease_s == before->lease_s);
    FUZZ_CHECK(strcmp(now.attempt, before->attempt) == 0);
    return now;
}

static void write_in_store(const owner_record *r) {
    pawl_error err = ERROR_INIT;
    char name[32];
    store_file *file = NULL;
    owner o = {.store = who_store(),
               .lease_s = r->lease_s,
               .self = r->who,
               .generation = GENERATION,
               .counter = r->counter};
    memcpy(o.attempt, r->attempt, sizeof o.attempt);
    name_owner(name, GENERATION);
    who_put(name, "", 0);
    FUZZ_CHECK(store_open(o.store, name, STORE_UPDATE, &file, &err) == PAWL_OK);
    FUZZ_CHECK(owner_write(&o, file, &err) == PAWL_OK);
    store_close(file);
    owner_sight first = read_record();
    FUZZ_CHECK(first.readable && first.counter == r->counter);
    FUZZ_CHECK(advance(&o, r->counter / 2 + 1, &first).present);
    FUZZ_CHECK(!advance(&o, OWNER_GIVEN_UP, &first).present);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer bytes = fuzz_copy(data, size);
    pawl_error err = ERROR_INIT;
    char name[32];
    owner_record r;
    pawl_status status = owner_record_decode(bytes.data, bytes.size, &r, &err);
    name_owner(name, GENERATION);
    who_put(name, data, size);
    owner_sight seen = read_record();
    bool own = status == PAWL_OK && (r.generation == 0 || r.generation == GENERATION);
    FUZZ_CHECK(seen.readable == own);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(r.who.pid > 0 && isfinite(r.lease_s) && r.lease_s > 0);
    encode_again(&r);
    write_in_store(&r);
    return 0;
}
