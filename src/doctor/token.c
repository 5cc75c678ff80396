/* SPDX-License-Identifier: Apache-2.0 */
/* The small files by which ranks find out whether they see the same directory. Nothing depends on
 * them once they are read, so nothing is synced. */
#include "doctor/token.h"
#include "format/format.h"
#include "path/path.h"

#include <string.h>

#define NO_RANK (-1) /* for the name of the token itself */

/* A directory is opened anew before each look: a network filesystem then asks its server what is
 * there, instead of believing what it saw before. */
static bool open_again(const char *directory, store **out) {
    struct pawl_error ignored = ERROR_INIT;
    return path_open(directory, false, out, &ignored) == PAWL_OK;
}

pawl_status token_write(store *s, const token *t, pawl_error *err) {
    char name[80];
    name_doctor(name, t->key, NO_RANK);
    return store_replace(s, name, t->nonce, TOKEN_NONCE_BYTES, err);
}

static bool read_nonce(store *s, token *t) {
    CLEANUP(buffer_free) buffer text = {0};
    struct pawl_error ignored = ERROR_INIT;
    char name[80];
    name_doctor(name, t->key, NO_RANK);
    if (store_read_file(s, name, TOKEN_NONCE_BYTES, &text, &ignored) != PAWL_OK ||
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

static void remove_doctor_file(store *s, const token *t, int rank) {
    struct pawl_error ignored = ERROR_INIT;
    char name[80];
    name_doctor(name, t->key, rank);
    bool removed = store_unlink(s, name, &ignored) == PAWL_OK;
    (void)removed; /* if not, somebody else removed it, or it never was there */
}

void token_remove(store *s, const token *t, int world_size) {
    remove_doctor_file(s, t, NO_RANK);
    for (int rank = 1; rank < world_size; rank++) {
        remove_doctor_file(s, t, rank);
    }
}

/* ---- cards ---------------------------------------------------------------------------------- */

pawl_status token_put_card(store *s, const token *t, int rank, const sight *mine, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    char name[80];
    name_doctor(name, t->key, rank);
    TRY(buffer_append(&text, t->nonce, TOKEN_NONCE_BYTES, err));
    TRY(sight_encode(mine, &text, err));
    return store_replace(s, name, text.data, text.size, err);
}

bool token_take_card(store *s, const token *t, int rank, sight *out) {
    CLEANUP(buffer_free) buffer text = {0};
    struct pawl_error ignored = ERROR_INIT;
    char name[80];
    name_doctor(name, t->key, rank);
    return store_read_file(s, name, TOKEN_NONCE_BYTES + SIGHT_BYTES, &text, &ignored) == PAWL_OK &&
           text.size > TOKEN_NONCE_BYTES && memcmp(text.data, t->nonce, TOKEN_NONCE_BYTES) == 0 &&
           sight_decode(text.data + TOKEN_NONCE_BYTES, text.size - TOKEN_NONCE_BYTES, out,
                        &ignored) == PAWL_OK;
}

int token_take_cards(store *s, const token *t, int world_size, sight *of, unsigned char *came) {
    store *again = NULL;
    int missing = 0;
    if (!open_again(s->root, &again)) {
        return world_size;
    }
    for (int r = 1; r < world_size; r++) {
        came[r] = came[r] || token_take_card(again, t, r, &of[r]);
        missing += !came[r];
    }
    store_destroy(again);
    return missing;
}

void token_remove_card(store *s, const token *t, int rank) {
    remove_doctor_file(s, t, rank);
}
