/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks leave for each other when they ask the doctor together: after a byte that chooses, any
 * bytes as a rank's card in a store, or as the token in a directory. What is taken has the nonce
 * that is waited for, and put again is taken again as the same.
 */
#include "who.h"

#include "doctor/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEY   "0123456789ab"
#define NONCE "fedcba9876543210"
#define NAME  ".pawl-doctor-" KEY

static const token asked = {.key = KEY, .nonce = NONCE};

static void check_card(const uint8_t *data, size_t size) {
    pawl_error err = ERROR_INIT;
    sight seen, again;
    who_put(NAME "-r1", data, size);
    bool taken = token_take_card(who_store(), &asked, 1, &seen);
    FUZZ_CHECK(!token_take_card(who_store(), &asked, 2, &again));
    if (!taken) {
        return;
    }
    fuzz_accepted++;
    FUZZ_CHECK(size > TOKEN_NONCE_BYTES && memcmp(data, NONCE, TOKEN_NONCE_BYTES) == 0);
    FUZZ_CHECK(token_put_card(who_store(), &asked, 1, &seen, &err) == PAWL_OK);
    FUZZ_CHECK(token_take_card(who_store(), &asked, 1, &again));
    FUZZ_CHECK(strcmp(seen.host, again.host) == 0 && strcmp(seen.place, again.place) == 0);
    FUZZ_CHECK(strcmp(seen.trouble, again.trouble) == 0 && seen.pid == again.pid);
    token_remove_card(who_store(), &asked, 1);
    FUZZ_CHECK(!token_take_card(who_store(), &asked, 1, &again));
}

/* ---- the token ------------------------------------------------------------------------------ */

static char directory[64];

static void remove_directory(void) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/" NAME, directory);
    (void)unlink(path);
    (void)rmdir(directory);
}

/* In memory where the system has such a filesystem. */
static store *directory_store(void) {
    static store *kept;
    pawl_error err = ERROR_INIT;
    if (kept == NULL) {
        (void)snprintf(directory, sizeof directory, "%s/pawl-fuzz-XXXXXX",
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        FUZZ_CHECK(mkdtemp(directory) != NULL && atexit(remove_directory) == 0);
        FUZZ_CHECK(store_posix(directory, &kept, &err) == PAWL_OK);
    }
    return kept;
}

static void check_token(const uint8_t *data, size_t size) {
    pawl_error err = ERROR_INIT;
    store *s = directory_store();
    store *found = NULL;
    token t = {.key = KEY};
    FUZZ_CHECK(store_replace(s, NAME, data, size, &err) == PAWL_OK);
    bool there = token_read(s, &t);
    bool is_nonce = size == TOKEN_NONCE_BYTES;
    for (size_t i = 0; i < size; i++) {
        is_nonce = is_nonce && memchr("0123456789abcdef", data[i], 16) != NULL;
    }
    FUZZ_CHECK(there == is_nonce);
    if (!there) {
        return;
    }
    fuzz_accepted++;
    FUZZ_CHECK(memcmp(t.nonce, data, size) == 0 && t.nonce[size] == '\0');
    FUZZ_CHECK(token_find(directory, &t, &found) && strcmp(found->root, s->root) == 0);
    store_destroy(found);
    FUZZ_CHECK(token_write(s, &t, &err) == PAWL_OK && token_read(s, &t));
    FUZZ_CHECK(memcmp(t.nonce, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 0 && data[0] == 't') {
        check_token(data + 1, size - 1);
    } else if (size > 0) {
        check_card(data + 1, size - 1);
    }
    return 0;
}
