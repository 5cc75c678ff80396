/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation/lags.h"

#include "store/implement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256u

typedef enum answer_kind { ANSWER_ABSENT, ANSWER_STAT, ANSWER_LIST, ANSWER_KNOWN } answer_kind;

typedef struct answer {
    answer_kind kind;
    char *path;
    uint64_t until_ns;
    store_stat stat;
    arena memory; /* of a listing */
    char **names;
    size_t count;
    uint64_t number; /* KNOWN: of the newest change that the host has heard of */
    struct answer *next;
} answer;

struct storage_host {
    char name[64];
    uint64_t looks_ns, lists_ns; /* so late it sees what others do */
    answer *answers[BUCKETS];
    struct storage_host *next;
};

/* A name that came or went. */
typedef struct change {
    char *path;
    uint64_t hash;          /* of it */
    const storage_host *by; /* NULL: nobody heard of it */
    uint64_t at_ns;
    bool made;
    store_stat was; /* what was removed */
} change;

struct storage_changes {
    change *items;
    size_t count, capacity;
};

/* ---- what a host remembers ------------------------------------------------------------------- */

static uint64_t hash_of(const char *path) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *path != '\0'; path++) {
        hash = (hash ^ (uint8_t)*path) * UINT64_C(1099511628211);
    }
    return hash;
}

static size_t bucket_of(const char *path) {
    return (size_t)(hash_of(path) >> 24) % BUCKETS;
}

static void *must(void *memory) {
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static void answer_free(answer *a) {
    arena_free(&a->memory);
    free(a->path);
    free(a);
}

static void forget(storage_host *h, answer_kind kind, const char *path) {
    for (answer **at = &h->answers[bucket_of(path)]; *at != NULL; at = &(*at)->next) {
        answer *a = *at;
        if (a->kind == kind && strcmp(a->path, path) == 0) {
            *at = a->next;
            answer_free(a);
            return;
        }
    }
}

static void forget_all(storage_host *h, const char *path) {
    forget(h, ANSWER_ABSENT, path);
    forget(h, ANSWER_STAT, path);
    forget(h, ANSWER_LIST, path);
}

static answer *remembered(storage_host *h, answer_kind kind, const char *path) {
    for (answer *a = h->answers[bucket_of(path)]; a != NULL; a = a->next) {
        if (a->kind == kind && strcmp(a->path, path) == 0) {
            if (a->until_ns > fibers_now()) {
                return a;
            }
            forget(h, kind, path);
            return NULL;
        }
    }
    return NULL;
}

static answer *keep(storage_host *h, answer_kind kind, const char *path, uint64_t until_ns) {
    forget(h, kind, path);
    answer *a = must(calloc(1, sizeof *a));
    *a = (answer){.kind = kind, .path = must(strdup(path)), .until_ns = until_ns};
    answer **first = &h->answers[bucket_of(path)];
    a->next = *first;
    *first = a;
    return a;
}

/* NULL: this one is not remembered. */
static answer *remember(storage *s, storage_host *h, answer_kind kind, const char *path,
                        uint64_t most_ns) {
    uint64_t lag_ns = most_ns > 0 ? random_below(&s->random, most_ns + 1) : 0;
    return lag_ns < 1000 ? NULL : keep(h, kind, path, fibers_now() + lag_ns);
}

storage_host *lags_host(storage *s, const char *name) {
    for (storage_host *h = s->hosts; h != NULL; h = h->next) {
        if (strcmp(h->name, name) == 0) {
            return h;
        }
    }
    storage_host *h = must(calloc(1, sizeof *h));
    snprintf(h->name, sizeof h->name, "%s", name);
    if (s->lags.names_ns > 0) {
        h->looks_ns = random_below(&s->random, s->lags.names_ns + 1);
        h->lists_ns = h->looks_ns + random_below(&s->random, s->lags.names_ns - h->looks_ns + 1);
    }
    h->next = s->hosts;
    s->hosts = h;
    return h;
}

/* ---- what others did lately ------------------------------------------------------------------ */

static void note_change(storage *s, const storage_host *by, const char *path, bool made,
                        const store_stat *was) {
    struct pawl_error err = ERROR_INIT;
    if (s->lags.names_ns == 0) {
        return;
    }
    if (s->changes == NULL) {
        s->changes = must(calloc(1, sizeof *s->changes));
    }
    struct storage_changes *all = s->changes;
    if (vec_reserve(&all->items, &all->capacity, all->count + 1, sizeof *all->items, &err) !=
        PAWL_OK) {
        abort();
    }
    all->items[all->count++] = (change){.path = must(strdup(path)),
                                        .hash = hash_of(path),
                                        .by = by,
                                        .at_ns = fibers_now(),
                                        .made = made,
                                        .was = was != NULL ? *was : (store_stat){0}};
}

static bool is_recent(const change *c, uint64_t late_ns) {
    return c->at_ns + late_ns > fibers_now();
}

/* Of the changes up to this number a host has heard: of the name, or of its directory. */
static uint64_t heard_of(storage_host *h, const char *path) {
    char parent[STORE_MAX_PATH];
    store_split_path(path, parent);
    const answer *name = remembered(h, ANSWER_KNOWN, path);
    const answer *directory = remembered(h, ANSWER_KNOWN, parent);
    uint64_t of_name = name != NULL ? name->number : 0;
    uint64_t of_directory = directory != NULL ? directory->number : 0;
    return of_name > of_directory ? of_name : of_directory;
}

/* The first change of a name that a host does not see yet; NULL: it sees the name as it is. */
static const change *unseen(storage *s, storage_host *h, const char *path, uint64_t late_ns) {
    const change *first = NULL;
    if (s->changes == NULL || late_ns == 0) {
        return NULL;
    }
    uint64_t heard = heard_of(h, path);
    uint64_t hash = hash_of(path);
    for (size_t i = s->changes->count; i > heard; i--) {
        const change *c = &s->changes->items[i - 1];
        if (!is_recent(c, late_ns)) {
            break;
        }
        if (c->hash == hash && strcmp(c->path, path) == 0) {
            if (c->by == h) {
                break;
            }
            first = c;
        }
    }
    return first;
}

static bool is_name_in(const char *path, const char *directory) {
    char parent[STORE_MAX_PATH];
    store_split_path(path, parent);
    return strcmp(parent, directory) == 0;
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool absent_by_itself(storage *s, storage_host *h, const char *path) {
    if (remembered(h, ANSWER_ABSENT, path) != NULL) {
        return true;
    }
    const change *c = unseen(s, h, path, h->looks_ns);
    return c != NULL && c->made;
}

bool lags_sees_absent(storage *s, storage_host *h, const char *path) {
    char parent[STORE_MAX_PATH];
    store_split_path(path, parent);
    return absent_by_itself(s, h, path) || (parent[0] != '\0' && absent_by_itself(s, h, parent));
}

void lags_found_absent(storage *s, storage_host *h, const char *path) {
    forget(h, ANSWER_STAT, path);
    if (remembered(h, ANSWER_ABSENT, path) == NULL) {
        (void)remember(s, h, ANSWER_ABSENT, path, s->lags.absent_ns);
    }
}

static void keep_stat(storage *s, storage_host *h, const char *path, const store_stat *found) {
    answer *a = remember(s, h, ANSWER_STAT, path, s->lags.stat_ns);
    if (a != NULL) {
        a->stat = *found;
    }
}

pawl_status lags_stat(storage *s, storage_host *h, const char *path, store_stat *out,
                      pawl_error *err) {
    const answer *old = remembered(h, ANSWER_STAT, path);
    const change *c = unseen(s, h, path, h->looks_ns);
    if (old != NULL || (c != NULL && !c->made)) {
        *out = old != NULL ? old->stat : c->was;
        return PAWL_OK;
    }
    pawl_status status = store_stat_path(s->truth, path, out, err);
    if (status == PAWL_OK) {
        keep_stat(s, h, path, out);
    }
    return status;
}

/* ---- listings -------------------------------------------------------------------------------- */

typedef struct listing {
    arena *memory;
    char **names;
    size_t count, capacity;
} listing;

static pawl_status note_name(listing *l, const char *name, pawl_error *err) {
    TRY(vec_reserve(&l->names, &l->capacity, l->count + 1, sizeof *l->names, err));
    l->names[l->count++] = arena_strdup(l->memory, name);
    return PAWL_OK;
}

static pawl_status note_listed(void *context, const store_listed *found, pawl_error *err) {
    return note_name(context, found->name, err);
}

static size_t find_name(const listing *l, const char *name) {
    size_t i = 0;
    while (i < l->count && strcmp(l->names[i], name) != 0) {
        i++;
    }
    return i;
}

/* A name as the host still sees it. */
static pawl_status show_old(listing *l, const change *c, pawl_error *err) {
    char parent[STORE_MAX_PATH];
    const char *name = store_split_path(c->path, parent);
    size_t at = find_name(l, name);
    if (c->made && at < l->count) {
        l->names[at] = l->names[--l->count];
    }
    return !c->made && at == l->count ? note_name(l, name, err) : PAWL_OK;
}

static pawl_status list_as_seen(storage *s, storage_host *h, const char *path, listing *l,
                                pawl_error *err) {
    TRY(store_list(s->truth, path, note_listed, l, err));
    for (size_t i = s->changes != NULL ? s->changes->count : 0; i > 0; i--) {
        const change *c = &s->changes->items[i - 1];
        if (!is_recent(c, h->lists_ns)) {
            break;
        }
        if (is_name_in(c->path, path)) {
            const change *first = unseen(s, h, c->path, h->lists_ns);
            TRY(first != NULL ? show_old(l, first, err) : PAWL_OK);
        }
    }
    return PAWL_OK;
}

static void keep_listing(storage *s, storage_host *h, const char *path, const listing *l) {
    answer *a = remember(s, h, ANSWER_LIST, path, s->lags.list_ns);
    if (a == NULL) {
        return;
    }
    a->names = must(arena_alloc(&a->memory, (l->count + 1) * sizeof *a->names));
    for (size_t i = 0; i < l->count; i++) {
        a->names[i] = must(arena_strdup(&a->memory, l->names[i]));
    }
    a->count = l->count;
}

/* `each` may let others run, who forget: it gets a copy. */
pawl_status lags_list(storage *s, storage_host *h, const store_call *call, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    listing l = {.memory = &memory};
    pawl_status status = PAWL_OK;
    const answer *old = remembered(h, ANSWER_LIST, call->path);
    for (size_t i = 0; old != NULL && i < old->count && status == PAWL_OK; i++) {
        status = note_name(&l, old->names[i], err);
    }
    if (old == NULL) {
        status = list_as_seen(s, h, call->path, &l, err);
        if (status == PAWL_OK) {
            keep_listing(s, h, call->path, &l);
        }
    }
    for (size_t i = 0; i < l.count && status == PAWL_OK; i++) {
        status = call->each(call->context, &(store_listed){.name = l.names[i]}, err);
    }
    mem_free(l.names);
    return status;
}

/* ---- changing -------------------------------------------------------------------------------- */

static bool creates(const store_call *call) {
    return call->op == STORE_OP_MAKE_DIR ||
           (call->op == STORE_OP_OPEN && store_mode_creates(call->mode));
}

static bool removes(const store_call *call) {
    return call->op == STORE_OP_UNLINK || call->op == STORE_OP_REMOVE_DIR ||
           call->op == STORE_OP_RENAME;
}

int lags_refuses(storage *s, storage_host *h, const store_call *call) {
    char parent[STORE_MAX_PATH];
    if (call->op == STORE_OP_SYNC_DIR) {
        return call->path[0] != '\0' && absent_by_itself(s, h, call->path) ? ENOENT : 0;
    }
    if (!creates(call) && !removes(call)) {
        return 0;
    }
    store_split_path(call->path, parent);
    if (parent[0] != '\0' && absent_by_itself(s, h, parent)) {
        return ENOENT;
    }
    if (removes(call) && remembered(h, ANSWER_ABSENT, call->path) != NULL) {
        return ENOENT;
    }
    return creates(call) && remembered(h, ANSWER_STAT, call->path) != NULL ? EEXIST : 0;
}

static bool exists(storage *s, const char *path, store_stat *out) {
    struct pawl_error ignored = ERROR_INIT;
    return store_stat_path(s->truth, path, out, &ignored) == PAWL_OK;
}

void lags_before(storage *s, const store_call *call, lags_change *before) {
    store_stat ignored;
    *before = (lags_change){.from = false};
    if (s->lags.names_ns > 0) {
        before->from = removes(call) && exists(s, call->path, &before->from_stat);
        before->to = call->op == STORE_OP_RENAME && exists(s, call->to, &ignored);
    }
}

void lags_after(storage *s, storage_host *h, const store_call *call, const lags_change *before,
                pawl_status status) {
    if (status != PAWL_OK) {
        return;
    }
    if (creates(call)) {
        note_change(s, h, call->path, true, NULL);
    }
    if (removes(call) && before->from) {
        note_change(s, h, call->path, false, &before->from_stat);
    }
    if (call->op == STORE_OP_RENAME && !before->to) {
        note_change(s, h, call->to, true, NULL);
    }
}

static void learn(storage *s, storage_host *h, const char *path) {
    char parent[STORE_MAX_PATH];
    store_split_path(path, parent);
    forget_all(h, path);
    forget(h, ANSWER_LIST, parent);
    if (s->changes != NULL) { /* the answer tells the directory's version, too */
        keep(h, ANSWER_KNOWN, path, UINT64_MAX)->number = s->changes->count;
        keep(h, ANSWER_KNOWN, parent, UINT64_MAX)->number = s->changes->count;
    }
}

void lags_heard(storage *s, storage_host *h, const store_call *call, pawl_status status) {
    switch (call->op) {
    case STORE_OP_OPEN:
        if (!store_mode_creates(call->mode)) {
            return;
        }
        break;
    case STORE_OP_RENAME:
        if (status == PAWL_OK) {
            learn(s, h, call->to);
        }
        break;
    case STORE_OP_WRITE:
    case STORE_OP_RESERVE:
        forget(h, ANSWER_STAT, call->path);
        return;
    case STORE_OP_MAKE_DIR:
    case STORE_OP_REMOVE_DIR:
    case STORE_OP_PUT:
    case STORE_OP_UNLINK:
        break;
    default:
        return;
    }
    if (status == PAWL_OK || status == PAWL_EBUSY || status == PAWL_ENOTFOUND) {
        learn(s, h, call->path);
    }
    if (status == PAWL_ENOTFOUND && creates(call)) { /* the directory is gone */
        char parent[STORE_MAX_PATH];
        store_split_path(call->path, parent);
        learn(s, h, parent);
    } else if (status == PAWL_ENOTFOUND) {
        lags_found_absent(s, h, call->path);
    }
    store_stat made;
    if (status == PAWL_OK && creates(call) && exists(s, call->path, &made)) {
        keep_stat(s, h, call->path, &made);
    }
}
