/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes that may own one run, each with a clock that the test moves. */
#ifndef UNIT_PRESENCE_OWNING_H
#define UNIT_PRESENCE_OWNING_H

#include "lib/simulated_platform.h"
#include "lib/stored.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "presence/owner.h"

#include <stdio.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

typedef struct fixture {
    store *disk;
    simulated_platform first, second;
    owner *other; /* renewed while someone sleeps, when not NULL */
} fixture;

static const pawl_log silent = {0};

static inline int set_up(void **state) {
    static fixture f;
    struct pawl_error err = ERROR_INIT;
    memset(&f, 0, sizeof f);
    simulated_platform_init(&f.first, 1);
    simulated_platform_init(&f.second, 2);
    f.first.monotonic_ns = f.second.monotonic_ns = 100 * SECOND_NS;
    snprintf(f.first.identity.host, sizeof f.first.identity.host, "node1");
    snprintf(f.second.identity.host, sizeof f.second.identity.host, "node2");
    f.first.identity.pid = 1111;
    f.second.identity.pid = 2222;
    assert_ok(store_chosen(&f.first.table, &f.disk, &err), &err);
    *state = &f;
    return 0;
}

/* The record of an owner: in a file of its own, or the one object. */
static inline const char *record_name(const fixture *f, uint64_t generation) {
    static char name[32];
    snprintf(name, sizeof name, "owner-%08llu", (unsigned long long)generation);
    return f->disk->traits.objects ? "owner" : name;
}

/* Looks show what is there now, on a store that is late, too. */
static inline void see_now(fixture *f) {
    if (f->disk->traits.objects) {
        store_objects_catch_up(f->disk);
    }
}

static inline int tear_down(void **state) {
    fixture *f = *state;
    store_destroy(f->disk);
    return 0;
}

static inline pawl_status take(fixture *f, simulated_platform *os, double wait_s, owner **out,
                               pawl_error *err) {
    return owner_take(f->disk, &os->table, &silent, NULL, 30, wait_s, out, err);
}

static inline void renew_other(void *context, uint64_t ns) {
    fixture *f = context;
    struct pawl_error err = ERROR_INIT;
    simulated_platform_advance(&f->first, ns);
    assert_ok(owner_renew(f->other, &err), &err);
}

#endif
