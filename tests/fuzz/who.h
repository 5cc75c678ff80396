/* SPDX-License-Identifier: Apache-2.0 */
/* who: a platform on which nothing happens, that remembers whom it was asked about. */
#ifndef FUZZ_WHO_H
#define FUZZ_WHO_H

#include "fuzz.h"

#include "stores/stores.h"

typedef struct who {
    platform table;
    process_identity self;
    process_identity asked; /* the last one */
    unsigned questions;
    liveness answer;
} who;

static inline uint64_t who_monotonic_ns(void *context) {
    (void)context;
    return 1;
}

static inline int64_t who_unix_time_ns(void *context) {
    (void)context;
    return 1700000000000000000;
}

static inline void who_sleep_ns(void *context, uint64_t ns) {
    (void)context;
    (void)ns;
}

static inline pawl_status who_random_bytes(void *context, void *to, size_t n, pawl_error *err) {
    (void)context;
    (void)err;
    memset(to, 0x5a, n);
    return PAWL_OK;
}

static inline pawl_status who_identity(void *context, process_identity *out, pawl_error *err) {
    (void)err;
    *out = ((const who *)context)->self;
    return PAWL_OK;
}

static inline liveness who_process_alive(void *context, const process_identity *asked) {
    who *w = context;
    w->asked = *asked;
    w->questions++;
    return w->answer;
}

static inline void who_init(who *w) {
    *w = (who){.table = {.context = w,
                         .monotonic_ns = who_monotonic_ns,
                         .unix_time_ns = who_unix_time_ns,
                         .sleep_ns = who_sleep_ns,
                         .random_bytes = who_random_bytes,
                         .identity = who_identity,
                         .process_alive = who_process_alive},
               .answer = PROCESS_UNKNOWN};
}

/* A store in memory that stays, with a directory for a step; made once. */
#define WHO_STEP "step-00000001"
static inline store *who_store(void) {
    static store *kept;
    pawl_error err = ERROR_INIT;
    if (kept == NULL) {
        FUZZ_CHECK(store_mem(&kept, &err) == PAWL_OK);
        FUZZ_CHECK(store_make_dir(kept, WHO_STEP, &err) == PAWL_OK);
    }
    return kept;
}

/* The file has these bytes from now on. */
static inline void who_put(const char *path, const void *data, size_t n) {
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(store_replace(who_store(), path, data, n, &err) == PAWL_OK);
}

#endif
