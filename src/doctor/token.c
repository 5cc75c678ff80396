/* SPDX-License-Identifier: Apache-2.0 */
/* The token and the cards. Nothing depends on them once they are read, so nothing is synced. */
#include "doctor/token.h"
#include "path/path.h"

#include <stdio.h>
#include <string.h>

/* A store's directory is opened anew before each look: a network filesystem then asks its server
 * what is there, instead of believing what it saw before. */
static bool open_again(const char *directory, store **out) {
    struct pawl_error ignored = ERROR_INIT;
    return path_open(directory, false, out, &ignored) == PAWL_OK;
}

static const char *token_name(char out[64], const token *t) {
    (void)snprintf(out, 64, ".pawl-doctor-%s", t->key);
    return out;
}

static const char *card_name(char out[64], const token *t, int rank) {
    (void)snprintf(out, 64, ".pawl-doctor-%s-r%d", t->key, rank);
    return out;
}

pawl_status token_draw(const char *launch, const platform *os, token *out, pawl_error *err) {
    uint64_t number[2];
    TRY(os->random_bytes(os->context, number, sizeof(number), err));
    if (launch != NULL) {
        size_t n = strlen(launch);
        uint32_t high = crc32c(0, launch, n);
        number[0] = (uint64_t)high << 16 | (crc32c(high + 1, launch, n) & 0xffff);
    }
    (void)snprintf(out->key, sizeof(out->key), "%012llx",
                   (unsigned long long)(number[0] & 0xffffffffffff));
    (void)snprintf(out->nonce, sizeof(out->nonce), "%016llx", (unsigned long long)number[1]);
    return PAWL_OK;
}

pawl_status token_write(store *s, const token *t, pawl_error *err) {
    char name[64];
    return store_replace(s, token_name(name, t), t->nonce, TOKEN_NONCE_BYTES, err);
}

static bool read_nonce(store *s, token *t) {
    CLEANUP(buffer_free) buffer text = {0};
    struct pawl_error ignored = ERROR_INIT;
    char name[64];
    if (store_read_file(s, token_name(name, t), TOKEN_NONCE_BYTES, &text, &ignored) != PAWL_OK ||
        text.size != TOKEN_NONCE_BYTES ||
        strspn((const char *)text.data, "0123456789abcdef") != TOKEN_NONCE_BYTES) {
        return false;
    }
    memcpy(t->nonce, text.data, TOKEN_NONCE_BYTES + 1);
    return true;
}

bool token_read(store *s, token *t) {
    store *again = NULL;
    bool there = open_again(s->root, &again) && read_nonce(again, t);
    store_destroy(again);
    return there;
}

bool token_find(const char *place, token *t, store **out) {
    AUTOFREE char *path = mem_strdup(place);
    if (path == NULL) {
        return false;
    }
    for (char *slash = path; slash != NULL;) {
        if (open_again(path[0] != '\0' ? path : "/", out) && read_nonce(*out, t)) {
            return true;
        }
        store_destroy(*out);
        *out = NULL;
        slash = strrchr(path, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
    }
    return false;
}

static void remove_name(store *s, const char *name) {
    struct pawl_error ignored = ERROR_INIT;
    bool removed = store_unlink(s, name, &ignored) == PAWL_OK;
    (void)removed; /* if not, someone else was faster, or it never was */
}

void token_remove(store *s, const token *t, int world_size) {
    char name[64];
    remove_name(s, token_name(name, t));
    for (int rank = 1; rank < world_size; rank++) {
        remove_name(s, card_name(name, t, rank));
    }
}

/* ---- cards ---------------------------------------------------------------------------------- */

pawl_status token_put_card(store *s, const token *t, int rank, const sight *mine, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    char name[64];
    TRY(buffer_append(&text, t->nonce, TOKEN_NONCE_BYTES, err));
    TRY(sight_encode(mine, &text, err));
    return store_replace(s, card_name(name, t, rank), text.data, text.size, err);
}

bool token_take_card(store *s, const token *t, int rank, sight *out) {
    CLEANUP(buffer_free) buffer text = {0};
    struct pawl_error ignored = ERROR_INIT;
    char name[64];
    return store_read_file(s, card_name(name, t, rank), TOKEN_NONCE_BYTES + SIGHT_BYTES, &text,
                           &ignored) == PAWL_OK &&
           text.size > TOKEN_NONCE_BYTES && memcmp(text.data, t->nonce, TOKEN_NONCE_BYTES) == 0 &&
           sight_decode(text.data + TOKEN_NONCE_BYTES, text.size - TOKEN_NONCE_BYTES, out,
                        &ignored) == PAWL_OK;
}

void token_remove_card(store *s, const token *t, int rank) {
    char name[64];
    remove_name(s, card_name(name, t, rank));
}
