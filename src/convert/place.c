/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps what is written out of sight until it is whole: it is named .NAME.pawl-<random>, beside
 * what will be made, and then renamed. Nothing that is there is replaced.
 */
#include "convert/convert.h"
#include "format/limits.h"
#include "path/path.h"

#include <stdio.h>
#include <string.h>

#define RANDOM_BYTES 4u
#define MOST_NAME    255

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name);
    size_t of = strlen(ending);
    return n > of && strcmp(name + n - of, ending) == 0;
}

static pawl_status name_too_long(pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "the name of the checkpoint is too long");
    error_expected(err, "at most %d bytes, with what the format and a temporary name add",
                   MOST_NAME);
    return PAWL_ELIMIT;
}

static pawl_status is_there(store *parent, const char *name, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "something of that name is there already");
    store_error_path(err, parent, name);
    error_expected(err, "a name that is free");
    error_next(err, "choose another name, or remove or rename what is there");
    return PAWL_EUSAGE;
}

static pawl_status check_free(store *parent, const char *name, pawl_error *err) {
    store_stat stat;
    struct pawl_error story = ERROR_INIT;
    pawl_status status = store_stat_path(parent, name, &stat, &story);
    if (status == PAWL_OK) {
        return is_there(parent, name, err);
    }
    if (status != PAWL_ENOTFOUND) {
        *err = story;
        return status;
    }
    return PAWL_OK;
}

/* Of a prefix, the index stands for all of it. */
pawl_status place_check(store *parent, const char *name, writer_shape shape, pawl_error *err) {
    char index[STORE_MAX_PATH];
    TRY(check_free(parent, name, err));
    if (shape != WRITER_PREFIX) {
        return PAWL_OK;
    }
    int n = snprintf(index, sizeof(index), "%s.index", name);
    return n < 0 || n > MOST_NAME ? name_too_long(err) : check_free(parent, index, err);
}

pawl_status place_begin(place *p, store *parent, const char *name, writer_shape shape,
                        const platform *os, pawl_error *err) {
    char random[2 * RANDOM_BYTES + 1];
    char root[2 * STORE_MAX_PATH];
    *p = (place){.parent = parent, .into = parent, .name = name, .shape = shape};
    TRY(place_check(parent, name, shape, err));
    TRY(platform_random_hex(os, random, RANDOM_BYTES, err));
    int n = snprintf(p->temporary, sizeof(p->temporary), ".%.200s.pawl-%s", name, random);
    if (n < 0 || n > MOST_NAME) {
        return name_too_long(err);
    }
    p->begun = true;
    if (shape != WRITER_DIRECTORY) {
        return PAWL_OK;
    }
    TRY(store_make_dir(parent, p->temporary, err));
    snprintf(root, sizeof(root), "%s/%s", parent->root, p->temporary);
    TRY(store_posix(root, &p->inside, err));
    p->into = p->inside;
    return PAWL_OK;
}

const char *place_name(const place *p) {
    return p->shape == WRITER_DIRECTORY ? "" : p->temporary;
}

/* ---- committing ----------------------------------------------------------------------------- */

/* What the temporary name is the beginning of. */
static pawl_status own_names(const place *p, arena *memory, char ***names, size_t *count,
                             pawl_error *err) {
    size_t n = strlen(p->temporary);
    size_t kept = 0;
    TRY(store_names(p->parent, "", FORMAT_MAX_NAMES, memory, names, count, err));
    for (size_t i = 0; i < *count; i++) {
        if (strncmp((*names)[i], p->temporary, n) == 0) {
            (*names)[kept++] = (*names)[i];
        }
    }
    *count = kept;
    return PAWL_OK;
}

static pawl_status reveal(place *p, const char *temporary, pawl_error *err) {
    char name[STORE_MAX_PATH];
    int n = snprintf(name, sizeof(name), "%s%s", p->name, temporary + strlen(p->temporary));
    if (n < 0 || n > MOST_NAME) {
        return name_too_long(err);
    }
    TRY(check_free(p->parent, name, err));
    return store_rename(p->parent, temporary, name, err);
}

/* The index comes last: without it the others are nothing to anybody. */
static pawl_status reveal_all(place *p, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    TRY(own_names(p, &memory, &names, &count, err));
    for (int index = 0; index <= 1; index++) {
        for (size_t i = 0; i < count; i++) {
            if (ends_with(names[i], ".index") == (index == 1)) {
                TRY(reveal(p, names[i], err));
            }
        }
        TRY(store_sync_dir(p->parent, "", err));
    }
    return PAWL_OK;
}

pawl_status place_commit(place *p, pawl_error *err) {
    TRY(store_sync_dir(p->into, "", err));
    if (p->shape == WRITER_DIRECTORY) {
        TRY(path_rename_directory(p->parent, p->temporary, p->name, err));
        TRY(store_sync_dir(p->parent, "", err));
    } else {
        TRY(reveal_all(p, err));
    }
    p->begun = false;
    return PAWL_OK;
}

/* ---- ending --------------------------------------------------------------------------------- */

/* Files, and directories of files: the steps of a run. */
static void remove_in(store *s, const char *directory) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error ignored = ERROR_INIT;
    bool top = directory[0] == '\0';
    char **names;
    size_t count;
    if (store_names(s, directory, FORMAT_MAX_NAMES, &memory, &names, &count, &ignored) != PAWL_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        char path[STORE_MAX_PATH];
        int n = snprintf(path, sizeof(path), "%s%s%s", directory, top ? "" : "/", names[i]);
        if (n < 0 || (size_t)n >= sizeof(path) || store_unlink(s, path, &ignored) == PAWL_OK ||
            !top) {
            continue;
        }
        remove_in(s, path);
        (void)!store_remove_dir(s, path, &ignored);
    }
}

static void remove_inside(place *p) {
    struct pawl_error ignored = ERROR_INIT;
    remove_in(p->inside, "");
    (void)!store_remove_dir(p->parent, p->temporary, &ignored);
}

/* Files of this random name are this conversion's own. */
static void remove_files(place *p) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error ignored = ERROR_INIT;
    char **names;
    size_t count;
    if (own_names(p, &memory, &names, &count, &ignored) == PAWL_OK) {
        for (size_t i = 0; i < count; i++) {
            (void)!store_unlink(p->parent, names[i], &ignored);
        }
    }
}

void place_end(place *p) {
    if (p->begun && p->inside != NULL) {
        remove_inside(p);
    } else if (p->begun) {
        remove_files(p);
    }
    store_destroy(p->inside);
    p->inside = NULL;
    p->begun = false;
}
